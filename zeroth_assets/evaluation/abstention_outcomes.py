"""From runs and grades to outcomes: what calibration and report of abstention take.

What belongs here: joining, and when an answer counts as right. No threshold.
"""

from __future__ import annotations

import polars as pl

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.abstention import OUTCOME_SCHEMA
from zeroth_assets.evaluation.metrics import RELEVANT
from zeroth_assets.search.abstention import ScoreSource, check_source

QUERIES_SCHEMA = pl.Schema({"query_id": pl.String, "category": pl.String, "answerable": pl.Boolean})


def outcomes_of(
    queries: pl.DataFrame,
    per_query: pl.DataFrame,
    run: pl.DataFrame,
    qrels: pl.DataFrame,
    *,
    source: ScoreSource,
    k: int = 5,
    relevant: int = RELEVANT,
) -> pl.DataFrame:
    """One row per query of `queries` (QUERIES_SCHEMA), in `abstention.OUTCOME_SCHEMA`.

    `per_query` and `run` are `search.runs`' of a retriever **without a threshold**; `qrels` as for
    `metric_tables.evaluate`. An answer is right where one of its first `k` chunks has a grade of at least `relevant`.

    Raises:
        MeasurementError: a query was not run, or the runs were made by a retriever that abstained by score.
        QueryError: scores of a kind that no threshold may stand on.
    """
    check_source(source)
    if per_query.filter(pl.col("abstained") == "weak_evidence").height:
        raise MeasurementError(
            "Runs of a retriever that abstains say nothing of what it withheld",
            expected="runs without a threshold",
            found="queries withheld for weak evidence",
        )
    missing = queries.join(per_query, on="query_id", how="anti")
    if missing.height:
        raise MeasurementError(
            f"{missing.height} queries were not run", expected="a row for each", found="none", remedy="run them all"
        )
    top = run.sort("query_id", "score", "document_id", descending=[False, True, False]).group_by(
        "query_id", maintain_order=True
    )
    right = (
        top.head(k)
        .join(qrels.filter(pl.col("grade") >= relevant), on=["query_id", "document_id"])
        .select("query_id", right=pl.lit(True))
        .unique()
    )
    return (
        queries.join(per_query.select("query_id", "candidates", score=f"best_{source}"), on="query_id", how="left")
        .join(right, on="query_id", how="left")
        .with_columns(
            correct=pl.col("answerable") & pl.col("right").fill_null(False),
            # Without a score there is nothing to judge by: no candidates, as far as a threshold can tell.
            candidates=pl.when(pl.col("score").is_null()).then(0).otherwise("candidates").cast(pl.Int64),
        )
        .select(OUTCOME_SCHEMA.names())
        .cast(OUTCOME_SCHEMA)
        .sort("query_id")
    )
