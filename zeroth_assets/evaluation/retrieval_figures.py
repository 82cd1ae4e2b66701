"""The figures of one arm: its ranked runs against the golden set, with an interval each.

What belongs here: which measures at which depth, their definitions in words, values per query and the table. What a
principal cannot see is no loss of the retriever's: its relevant chunks are those that it may see.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.bootstrap import mean_ci
from zeroth_assets.evaluation.golden.judgments import MODEL
from zeroth_assets.evaluation.incomplete import bpref_table
from zeroth_assets.evaluation.intervals import Interval
from zeroth_assets.evaluation.metric_tables import RUN_SCHEMA, evaluate
from zeroth_assets.evaluation.retrieval_spans import SPANNED, Truth

CUTOFFS = (5, 10, 20, 50)
HEADLINE = "ndcg_exponential@10"
ALL = "all"
_GRADED: Mapping[str, str] = {
    "success@5": "share of queries with a chunk of grade >= 2 among the first 5 (this field's Recall@5)",
    "success@10": "share of queries with a chunk of grade >= 2 among the first 10",
    "success@50": "share of queries with a chunk of grade >= 2 among the first 50",
    "recall@5": "TREC: share of the chunks of grade >= 2 that are among the first 5",
    "recall@10": "TREC: share of the chunks of grade >= 2 that are among the first 10",
    "recall@50": "TREC: share of the chunks of grade >= 2 that are among the first 50",
    "reciprocal_rank@10": "1 / rank of the first chunk of grade >= 2, 0 beyond 10; its mean is MRR@10",
    "ndcg_exponential@10": "gain 2^grade - 1, discount log2(rank + 1), ideal over all judged chunks, cut at 10",
    "ndcg_linear@10": "as ndcg_exponential@10 with the grade itself as gain",
    "context_precision@5": "share of the first 5 that have grade >= 2, of 5 even where fewer came back",
    "average_precision@50": "mean of the precision at each chunk of grade >= 2, cut at 50",
    "judged@10": "share of the first 10 that anybody graded",
}
BPREF = "bpref@50"
_OF_WHAT_CAME_BACK = ("judged@10",)
# Measures of the whole set; by category only those that people ask for.
FIGURES: Mapping[str, str] = {
    **_GRADED,
    BPREF: "how seldom chunks graded not relevant stand above relevant ones; what nobody graded is passed over",
    **SPANNED,
}
BY_CATEGORY = ("success@10", HEADLINE, "all_parts@10")
_FIELDS: dict[str, pl.DataType | type[pl.DataType]] = {
    "chunk_set": pl.String,
    "arm": pl.String,
    "role": pl.String,
    "category": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "n": pl.Int64,
    "units": pl.Int64,
    "unreachable": pl.Int64,
    "method": pl.String,
    "warning": pl.String,
    "definition": pl.String,
    "corpus_fingerprint": pl.String,
    "golden_fingerprint": pl.String,
    "grades": pl.Int64,
    "model_grades": pl.Int64,
    "judge": pl.String,
    "seed": pl.Int64,
    "resamples": pl.Int64,
    "query_ids": pl.List(pl.String),
    "values": pl.List(pl.Float64),
}
FIGURE_SCHEMA = pl.Schema(_FIELDS)


@dataclass(frozen=True, slots=True)
class About:
    """What every figure of an arm stands on. `judge` says who graded where no person did, and what that is worth."""

    chunk_set: str
    arm: str
    corpus_fingerprint: str
    golden_fingerprint: str
    seed: int
    resamples: int
    judge: str | None = None


def run_of(rankings: pl.DataFrame) -> pl.DataFrame:
    """A run as `metric_tables` takes it of rows with query_id and ranking, best first; the score is 1 / rank."""
    return (
        rankings.select("query_id", "ranking")
        .with_columns(rank=pl.int_ranges(1, pl.col("ranking").list.len() + 1))
        .explode("ranking", "rank")
        .drop_nulls("ranking")
        .select("query_id", pl.col("ranking").alias("document_id"), (1.0 / pl.col("rank")).alias("score"))
        .cast(RUN_SCHEMA)
    )


def per_query(
    runs: pl.DataFrame, queries: pl.DataFrame, qrels: pl.DataFrame, truth: Truth | None = None
) -> pl.DataFrame:
    """A row per query and role, with a column per measure of `FIGURES`, of the answerable queries that were asked.

    `runs` has query_id, role, principal and ranking (chunk ids, best first); `queries` query_id, category, group;
    `qrels` query_id, document_id (a chunk), grade, tenant and judged_by. An answerable query none of whose chunks
    reaches grade 2 in this chunk set, so that no retriever can find it, counts as 0 and is marked `unreachable`.
    Measures over spans need the `truth`. Of a query that came back empty `judged@k` is null: nothing was there to be
    judged. `grades` and `model_grades` count what the query's measures stand on, and how much of it a model said.

    Raises:
        MeasurementError: a ranking holds a chunk twice.
    """
    facts = queries.filter("answerable").select("query_id", "category", "group")
    asked = runs.join(facts, on="query_id")
    frames = []
    for (role,), part in asked.group_by("role", maintain_order=True):
        seen = _visible(qrels, part)
        known = part.filter(pl.col("query_id").is_in(seen["query_id"].unique().implode()))
        run = run_of(known)
        values = _graded(run, seen)
        if truth is not None:
            spanned = truth.values(run_of(part), part["query_id"])
            values = part.select("query_id").join(values, on="query_id", how="left")
            values = values.join(spanned, on="query_id", how="left")
        reachable = seen.filter(pl.col("grade") >= 2)["query_id"].unique()
        counts = seen.group_by("query_id").agg(
            pl.len().cast(pl.Int64).alias("grades"), pl.col("by_model").sum().cast(pl.Int64).alias("model_grades")
        )
        scored = [name for name in FIGURES if name in values.columns and name not in _OF_WHAT_CAME_BACK]
        frames.append(
            part.select("query_id", "category", "group", pl.col("ranking").list.len().alias("came_back"))
            .join(values, on="query_id", how="left")
            .join(counts, on="query_id", how="left")
            .with_columns(
                pl.lit(role).alias("role"),
                (~pl.col("query_id").is_in(reachable.implode())).alias("unreachable"),
                pl.col(scored).fill_null(0.0),
                # Nothing that came back is judged where no chunk that the principal may see is.
                pl.when(pl.col("came_back") > 0).then(pl.col(_OF_WHAT_CAME_BACK).fill_null(0.0)),
                pl.col("grades", "model_grades").fill_null(0),
            )
            .drop("came_back")
        )
    if not frames:
        raise MeasurementError(
            "There is nothing to measure",
            expected="answerable queries of the split that is reported",
            found="none was asked",
            remedy="see what the golden queries left out: documents that are not in the corpus",
        )
    return pl.concat(frames).sort("role", "query_id")


def figures(values: pl.DataFrame, about: About, definitions: Mapping[str, str] = FIGURES) -> pl.DataFrame:
    """The table of an arm in `FIGURE_SCHEMA`, from `per_query`: by role, for all and by category. `definitions` are of
    the measures that `values` may have.

    Queries of one group of documents are resampled together where a group has several.
    """
    rows: list[dict[str, Any]] = []
    for (role,), part in values.group_by("role", maintain_order=True):
        for category in (ALL, *sorted(part["category"].unique())):
            chosen = part if category == ALL else part.filter(pl.col("category") == category)
            measures = tuple(definitions) if category == ALL else BY_CATEGORY
            there = [metric for metric in measures if metric in part.columns]
            rows += [_figure(chosen, str(role), category, metric, about, definitions[metric]) for metric in there]
    return pl.DataFrame(rows, schema=FIGURE_SCHEMA)


def without_interval(table: pl.DataFrame) -> pl.DataFrame:
    """The figures that have no interval and do not say why: there must be none."""
    bare = pl.any_horizontal(pl.col("low", "high").is_null() | pl.col("low", "high").is_nan())
    return table.filter((bare | (pl.col("low") >= pl.col("high"))) & pl.col("warning").is_null())


def _figure(part: pl.DataFrame, role: str, category: str, metric: str, about: About, definition: str) -> dict[str, Any]:
    unreachable = int(part["unreachable"].sum())
    part = part.drop_nulls(metric)
    values: NDArray[np.float64] = part[metric].to_numpy()
    groups = part["group"]
    clusters = groups.to_list() if groups.n_unique() < part.height else None
    if part.is_empty():
        none = "undefined for every query: nothing came back"
        interval = Interval(math.nan, math.nan, math.nan, 0, "none", 0.95, warning=none)
    else:
        interval = mean_ci(values, seed=about.seed, resamples=about.resamples, clusters=clusters)
    return {
        "chunk_set": about.chunk_set,
        "arm": about.arm,
        "role": role,
        "category": category,
        "metric": metric,
        "value": None if math.isnan(interval.point) else interval.point,
        "low": interval.low if interval.known else None,
        "high": interval.high if interval.known else None,
        "n": part.height,
        "units": interval.n,
        "unreachable": unreachable,
        "method": interval.method,
        "warning": interval.warning,
        "definition": definition,
        "corpus_fingerprint": about.corpus_fingerprint,
        "golden_fingerprint": about.golden_fingerprint,
        **_graders(part, metric, about),
        "seed": about.seed,
        "resamples": about.resamples,
        "query_ids": part["query_id"].to_list(),
        "values": values.tolist(),
    }


def _graders(part: pl.DataFrame, metric: str, about: About) -> dict[str, Any]:
    """How many grades a figure stands on, how many of them are a model's, and then whose; spans are people's."""
    if metric in SPANNED or "grades" not in part.columns:
        return {"grades": None, "model_grades": None, "judge": None}
    of_model = int(part["model_grades"].sum())
    return {
        "grades": int(part["grades"].sum()),
        "model_grades": of_model,
        "judge": about.judge if of_model else None,
    }


def _graded(run: pl.DataFrame, seen: pl.DataFrame) -> pl.DataFrame:
    """query_id and a column per measure over grades, of the queries that have any."""
    if seen.is_empty():
        return pl.DataFrame(schema={"query_id": pl.String, **dict.fromkeys((*_GRADED, BPREF), pl.Float64())})
    bpref = bpref_table(run, seen, depth=max(CUTOFFS)).rename({"bpref": BPREF})
    return evaluate(run, seen, cutoffs=CUTOFFS).select("query_id", *_GRADED).join(bpref, on="query_id", how="left")


def _visible(qrels: pl.DataFrame, part: pl.DataFrame) -> pl.DataFrame:
    """The judged chunks of each query that its principal may see; a tenant's principal has the tenant's key."""
    mine = qrels.join(part.select("query_id", "role", "principal"), on="query_id")
    told = "judged_by" in qrels.columns
    by_model = (pl.col("judged_by").str.starts_with(MODEL) if told else pl.lit(value=False)).alias("by_model")
    return mine.filter((pl.col("role") == "unrestricted") | (pl.col("tenant") == pl.col("principal"))).select(
        "query_id", "document_id", "grade", by_model
    )
