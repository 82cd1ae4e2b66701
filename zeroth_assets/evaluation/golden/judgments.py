"""Grades without any model: from spans, from experts who read a contract whole, and by construction.

What belongs here: which chunks of a pool carry a grade, from whom, and which carry none; and the union of several
graders' judgments by precedence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from zeroth_assets.evaluation.golden.model import NOT_PERMITTED, GoldenError
from zeroth_assets.evaluation.metrics import MAX_GRADE

JUDGMENT_SCHEMA = pl.Schema(
    {"query_id": pl.String, "document_id": pl.String, "grade": pl.Int64, "judged_by": pl.String}
)
EXPERT_SPAN = "expert span"
DRAFTED_SPAN = "drafted span"
READ_WHOLE = "expert, who read the contract whole"
OTHER_CONTRACT = "by construction: not the contract that the query names"
NO_ANSWER = "by construction: the query has no answer for its asker"
MODEL = "model "
"""How `judged_by` begins where a model graded."""


def judgments_from_spans(
    queries: pl.DataFrame,
    qrels: pl.DataFrame,
    pool: pl.DataFrame,
    chunks: pl.DataFrame,
    links: Iterable[tuple[str, str]],
) -> pl.DataFrame:
    """Everything that can be said of a pool without a model, in `JUDGMENT_SCHEMA`.

    `qrels` comes from `grades.chunk_qrels` over the spans of the answerable queries; `pool` is `pools.Pool.members`;
    `chunks` has chunk_id and document_id; `links` are `splits.document_links`. A chunk that overlaps a span has its
    grade, pooled or not. Otherwise a pooled chunk has grade 0 if:

    - the query names a contract and the chunk is from it, since lawyers read it whole for that topic;
    - the query names a contract and the chunk is from a document that is not linked to it;
    - the query has no answer, or none that its asker may see.

    Whatever else is in the pool carries no grade: another passage may well answer a drafted question.
    """
    facts = queries.select("query_id", "source", "answerable", pl.col("about").list.first().alias("named"))
    answers = (
        qrels.join(facts, on="query_id")
        .filter("answerable")
        .with_columns(
            pl.when(pl.col("source") == "expert")
            .then(pl.lit(EXPERT_SPAN))
            .otherwise(pl.lit(DRAFTED_SPAN))
            .alias("judged_by")
        )
        .select(JUDGMENT_SCHEMA.names())
    )
    home = chunks.select(
        pl.col("chunk_id").cast(pl.String).alias("document_id"), pl.col("document_id").alias("lies_in")
    )
    stranger = pool.join(home, on="document_id", how="anti")
    if stranger.height:
        raise GoldenError(
            "The pool holds a chunk that the chunk set does not",
            expected="a pool of one chunk set",
            found=f"chunk {stranger['document_id'][0]} for query {stranger['query_id'][0]}",
        )
    pairs = sorted({pair for one, two in links for pair in ((one, two), (two, one))})
    linked = pl.DataFrame(pairs, schema={"named": pl.String, "lies_in": pl.String}, orient="row").with_columns(
        pl.lit(value=True).alias("linked")
    )
    expert = pl.col("source") == "expert"
    rest = (
        pool.select("query_id", "document_id")
        .join(answers, on=["query_id", "document_id"], how="anti")
        .join(facts, on="query_id")
        .join(home, on="document_id")
        .join(linked, on=["named", "lies_in"], how="left")
        .with_columns(
            pl.when(expert & (pl.col("lies_in") == pl.col("named")))
            .then(pl.lit(READ_WHOLE))
            .when(expert & pl.col("linked").is_null())
            .then(pl.lit(OTHER_CONTRACT))
            .when(~pl.col("answerable") & ~expert)
            .then(pl.lit(NO_ANSWER))
            .alias("judged_by"),
            pl.lit(0, pl.Int64).alias("grade"),
        )
        .filter(pl.col("judged_by").is_not_null())
        .select(JUDGMENT_SCHEMA.names())
    )
    return pl.concat([answers, rest]).cast(JUDGMENT_SCHEMA).sort("query_id", "document_id")


def hidden_from_asker(queries: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Spans whose chunks their asker must never be shown: those of queries answered only in another tenant."""
    return spans.join(queries.filter(pl.col("unanswerable_reason") == NOT_PERMITTED), on="query_id", how="semi")


def answering_spans(queries: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """The spans of the answerable queries: what `grades.part_grades` is to be given."""
    return spans.join(queries.filter("answerable"), on="query_id", how="semi")


def merge_judgments(graders: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """One grade for each query and chunk: that of the first grader that gave one, in `JUDGMENT_SCHEMA`.

    Put people before models.

    Raises:
        GoldenError: a grader graded a chunk twice for a query, gave no `judged_by`, or a grade out of range.
    """
    known: list[pl.DataFrame] = []
    for number, frame in enumerate(graders):
        missing = [name for name in JUDGMENT_SCHEMA if name not in frame.columns]
        if missing:
            raise GoldenError(
                f"Judgments {number} lack columns", expected=", ".join(JUDGMENT_SCHEMA), found=str(missing)
            )
        given = frame.select(JUDGMENT_SCHEMA.names()).cast(JUDGMENT_SCHEMA)
        bad = given.filter(
            pl.any_horizontal(pl.all().is_null())
            | ~pl.col("grade").is_between(0, MAX_GRADE)
            | given.select("query_id", "document_id").is_duplicated()
        )
        if bad.height:
            raise GoldenError(
                f"Judgments {number} hold a row that cannot stand",
                expected=f"one grade from 0 to {MAX_GRADE} for each query and chunk, and who gave it",
                found=str(bad.row(0)),
            )
        earlier = pl.concat([*known, given.clear()])
        known.append(given.join(earlier, on=["query_id", "document_id"], how="anti"))
    if not known:
        return pl.DataFrame(schema=JUDGMENT_SCHEMA)
    return pl.concat(known).sort("query_id", "document_id")
