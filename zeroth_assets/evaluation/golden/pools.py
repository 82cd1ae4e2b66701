"""Pools: for each query, the chunks that are worth judging, and who proposed each.

What belongs here: the union of BM25's top 50, every arm's top 10 and the passages that hold the answer. What nobody
proposed stays unjudged; how much of a ranking that is says `judged@k`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from zeroth_assets.errors import QueryError
from zeroth_assets.evaluation.golden.model import GoldenError
from zeroth_assets.evaluation.golden.span_measures import ranked_run
from zeroth_assets.search.bm25 import BM25Index

BM25_DEPTH = 50
ARM_DEPTH = 10
LEXICAL = "bm25"
PASSAGES = "answer passages"

CONTRIBUTION_SCHEMA = pl.Schema(
    {"query_id": pl.String, "document_id": pl.String, "contributor": pl.String, "rank": pl.Int64}
)
_POOL_FIELDS: dict[str, pl.DataType | type[pl.DataType]] = {
    "query_id": pl.String,
    "document_id": pl.String,
    "contributors": pl.List(pl.String),
    "best_rank": pl.Int64,
}
POOL_SCHEMA = pl.Schema(_POOL_FIELDS)
SUMMARY_SCHEMA = pl.Schema(
    {"contributor": pl.String, "queries": pl.Int64, "chunks": pl.Int64, "only_from_it": pl.Int64}
)


@dataclass(frozen=True, slots=True)
class Pool:
    """`members` (`POOL_SCHEMA`) has each chunk once per query; `contributions` says who ranked it where.

    An answer passage has no rank. `summary` counts, per contributor, what it brought and what nobody else did.
    """

    members: pl.DataFrame
    contributions: pl.DataFrame
    summary: pl.DataFrame


def lexical_contributions(
    queries: pl.DataFrame,
    index: BM25Index,
    chunks: pl.DataFrame,
    *,
    depth: int = BM25_DEPTH,
    progress: Callable[[int, int], None] | None = None,
) -> pl.DataFrame:
    """BM25's top `depth` for each query, in `CONTRIBUTION_SCHEMA`.

    `index` covers the whole chunk set; a query that is limited to a document is asked of that document's chunks alone,
    which `chunks` (chunk_id, document_id, text) has. A query without a word that can be searched for contributes
    nothing.
    """
    limited = set(queries["document_id"].drop_nulls())
    of_document = {
        key[0]: list(part.select("chunk_id", "text").iter_rows())
        for key, part in chunks.filter(pl.col("document_id").is_in(sorted(limited)))
        .partition_by("document_id", as_dict=True)
        .items()
    }
    small: dict[str, BM25Index] = {}
    rows: list[tuple[str, str, str, int]] = []
    for number, query in enumerate(queries.sort("query_id").iter_rows(named=True)):
        document = query["document_id"]
        if document is not None and document not in small:
            small[document] = BM25Index.build(of_document.get(document, []))
        try:
            hits = (index if document is None else small[document]).search(query["text"], depth)
        except QueryError:
            hits = []
        rows += [(query["query_id"], str(hit.chunk_id), LEXICAL, hit.rank) for hit in hits]
        if progress is not None:
            progress(number + 1, queries.height)
    return pl.DataFrame(rows, schema=CONTRIBUTION_SCHEMA, orient="row")


def build_pool(
    queries: pl.DataFrame,
    *,
    lexical: pl.DataFrame,
    runs: Mapping[str, pl.DataFrame],
    qrels: pl.DataFrame,
    depth: int = ARM_DEPTH,
) -> Pool:
    """Unite BM25's contributions, the top `depth` of every arm's run, and the passages of `qrels` (grade 1 and above).

    `runs` maps an arm's name to its run (query_id, document_id, score).

    Raises:
        GoldenError: a run answers a query that is not among `queries`, or an arm has a name that is taken.
        MeasurementError: a run holds a document twice for a query, or a score that is not finite.
    """
    known = queries["query_id"]
    contributions = [lexical.select(CONTRIBUTION_SCHEMA.names())]
    for arm, run in sorted(runs.items()):
        if arm in (LEXICAL, PASSAGES):
            raise GoldenError(
                f"An arm is called {arm!r}", expected="another name: the pool has a contributor of that name"
            )
        top = ranked_run(run).filter(pl.col("rank") <= depth)
        contributions.append(
            top.with_columns(pl.lit(arm).alias("contributor"))
            .select(CONTRIBUTION_SCHEMA.names())
            .cast(CONTRIBUTION_SCHEMA)
        )
    contributions.append(
        qrels.filter(pl.col("grade") >= 1)
        .with_columns(pl.lit(PASSAGES).alias("contributor"), pl.lit(None, pl.Int64).alias("rank"))
        .select(CONTRIBUTION_SCHEMA.names())
    )
    united = pl.concat(contributions).sort("query_id", "document_id", "contributor")
    stranger = united.filter(~pl.col("query_id").is_in(known.implode()))
    if stranger.height:
        raise GoldenError(
            f"{stranger['contributor'][0]} answers a query that the golden set does not have",
            expected="queries of the golden set",
            found=stranger["query_id"][0],
        )
    members = (
        united.group_by("query_id", "document_id")
        .agg(pl.col("contributor").unique().sort().alias("contributors"), pl.col("rank").min().alias("best_rank"))
        .sort("query_id", "document_id")
        .cast(POOL_SCHEMA)
    )
    alone = members.filter(pl.col("contributors").list.len() == 1).explode("contributors")
    summary = (
        united.group_by("contributor")
        .agg(pl.col("query_id").n_unique().alias("queries"), pl.len().alias("chunks"))
        .join(
            alone.group_by(pl.col("contributors").alias("contributor")).agg(pl.len().alias("only_from_it")),
            on="contributor",
            how="left",
        )
        .with_columns(pl.col("only_from_it").fill_null(0))
        .sort("contributor")
        .select(SUMMARY_SCHEMA.names())
        .cast(SUMMARY_SCHEMA)
    )
    return Pool(members, united, summary)
