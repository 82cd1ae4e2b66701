"""The figures of one arm over whole documents: what test collections publish, and what they are compared with.

What belongs here: turning rankings of chunks into rankings of documents, the measures with their definitions, and the
values per query. A document stands where its best chunk does (`golden.beir.document_run`); grades are as published,
where 1 is relevant; a judged query without a relevant document counts as 0, as trec_eval has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from zeroth_assets.evaluation.golden.beir import BEIR_RELEVANT, document_run
from zeroth_assets.evaluation.golden.model import IMPORTED
from zeroth_assets.evaluation.metric_tables import evaluate
from zeroth_assets.evaluation.retrieval_arms import UNRESTRICTED
from zeroth_assets.evaluation.retrieval_figures import FIGURE_SCHEMA, HEADLINE, About, figures, run_of

DOCUMENT_HEADLINE: Final = "document_ndcg@10"
DEPTH: Final = 100
_MEASURES: Final[Mapping[str, str]] = {
    DOCUMENT_HEADLINE: "ndcg_linear@10",
    "document_recall@100": "recall@100",
    "document_average_precision@100": "average_precision@100",
    "document_reciprocal_rank@10": "reciprocal_rank@10",
    "document_success@5": "success@5",
}
DOCUMENT_FIGURES: Final[Mapping[str, str]] = {
    DOCUMENT_HEADLINE: "documents: gain is the grade, discount log2(rank + 1), ideal over all judged; BEIR's nDCG@10",
    "document_recall@100": "documents: share of those of grade >= 1 among the first 100; BEIR's Recall@100",
    "document_average_precision@100": "documents: mean of the precision at each of grade >= 1, cut at 100; BEIR's MAP",
    "document_reciprocal_rank@10": "documents: 1 / rank of the first of grade >= 1, 0 beyond 10; BEIR's MRR@10",
    "document_success@5": "documents: share of queries with one of grade >= 1 among the first 5",
}


def headline_of(figures: pl.DataFrame) -> str:
    """The measure that a table is led by: that over chunks, or over documents where chunks carry no grade."""
    metrics = set(figures["metric"])
    return DOCUMENT_HEADLINE if DOCUMENT_HEADLINE in metrics and HEADLINE not in metrics else HEADLINE


def document_runs(runs: pl.DataFrame, chunks: pl.DataFrame) -> pl.DataFrame:
    """Rankings of chunks as a run of documents, in `metric_tables.RUN_SCHEMA`.

    `runs` has query_id and ranking (chunk ids, best first); `chunks` chunk_id and document_id.

    Raises:
        GoldenError: a ranking holds a chunk that is not among `chunks`.
    """
    return document_run(run_of(runs), chunks)


def document_values(run: pl.DataFrame, queries: pl.DataFrame, qrels: pl.DataFrame) -> pl.DataFrame:
    """A row per query of `queries` with a column per measure of `DOCUMENT_FIGURES`, and what `figures` asks for.

    `run` is of documents; `queries` has query_id, category and group; `qrels` are of documents and may judge more
    queries. A query that found nothing counts as 0; one without a relevant document too, and is marked `unreachable`.

    Raises:
        MeasurementError: a query is not judged, or a document comes twice in a ranking.
    """
    mine = qrels.join(queries, on="query_id", how="semi").select("query_id", "document_id", "grade")
    answered = run.join(queries, on="query_id", how="semi")
    measures = tuple({source.partition("@")[0] for source in _MEASURES.values()})
    table = evaluate(answered, mine, cutoffs=(5, 10, DEPTH), measures=measures, relevant=BEIR_RELEVANT)
    reachable = mine.filter(pl.col("grade") >= BEIR_RELEVANT)["query_id"].unique()
    named = [pl.col(source).fill_null(0.0).alias(name) for name, source in _MEASURES.items()]
    return (
        queries.select("query_id", "category", "group")
        .join(table.select("query_id", *named), on="query_id", how="left")
        .with_columns(
            pl.lit(UNRESTRICTED).alias("role"),
            (~pl.col("query_id").is_in(reachable.implode())).alias("unreachable"),
        )
        .sort("query_id")
    )


def document_figures(
    runs: pl.DataFrame, queries: pl.DataFrame, qrels: pl.DataFrame, chunks: pl.DataFrame, about: About, *, kept: int
) -> pl.DataFrame:
    """The table of an arm over documents, in `retrieval_figures.FIGURE_SCHEMA`: of imported queries alone.

    `runs` has query_id, role, returned and ranking; `queries` those of one split. Only who sees everything is asked:
    published figures are over the whole collection. A ranking that was cut after `kept` chunks and holds fewer
    documents than a measure looks at makes the figure a lower bound, and its warning says so. Empty where no query is
    imported.

    Raises:
        MeasurementError: as `document_values` and `document_runs`.
    """
    imported = queries.filter(pl.col("category") == IMPORTED)
    asked = runs.filter(pl.col("role") == UNRESTRICTED).join(imported, on="query_id", how="semi")
    judged = imported.join(asked, on="query_id", how="semi")
    if judged.is_empty():
        return FIGURE_SCHEMA.to_frame()
    run = document_runs(asked, chunks)
    table = figures(document_values(run, judged, qrels), about, DOCUMENT_FIGURES)
    full = asked.filter(pl.col("returned") >= kept)["query_id"]
    held = run.filter(pl.col("query_id").is_in(full.implode())).group_by("query_id").len()
    short = held.filter(pl.col("len") < min(DEPTH, chunks["document_id"].n_unique())).height
    if not short:
        return table
    bound = f"a lower bound: {short} of {judged.height} rankings were cut after {kept} chunks, before document {DEPTH}"
    return table.with_columns(
        pl.when(pl.col("metric").str.ends_with(f"@{DEPTH}"))
        .then(pl.concat_str([pl.col("warning"), pl.lit(bound)], separator="; ", ignore_nulls=True))
        .otherwise(pl.col("warning"))
        .alias("warning")
    )
