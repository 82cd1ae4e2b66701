"""Measures over the spans themselves: parts found, and characters recalled, for rankings of chunks.

What belongs here: what chunk grades cannot say. One hit does not answer a question that needs three passages, and a
chunk that holds an answer also holds other text.

Both tables have one row per answerable query with spans, ordered by query id; a query that is missing from the run
scores 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.golden.model import GoldenError
from zeroth_assets.evaluation.metric_tables import CUTOFFS, RUN_SCHEMA
from zeroth_assets.evaluation.metrics import RELEVANT

Ranges = list[tuple[int, int]]
Place = tuple[str, str]


def ranked_run(run: pl.DataFrame) -> pl.DataFrame:
    """`run` (query_id, document_id, score) with `rank` from 1: by score, highest first, equal scores by document id.

    Raises:
        MeasurementError: missing columns, a score that is null or not finite, a document twice for a query.
    """
    missing = [name for name in RUN_SCHEMA if name not in run.columns]
    if missing:
        raise MeasurementError("The run lacks columns", expected=", ".join(RUN_SCHEMA), found=", ".join(run.columns))
    run = run.select(RUN_SCHEMA.names()).cast(RUN_SCHEMA)
    bad = run.filter(pl.col("score").is_null() | ~pl.col("score").is_finite())
    if bad.height:
        raise MeasurementError("A score is not a finite number", expected="finite scores", found=str(bad.row(0)))
    twice = run.filter(run.select("query_id", "document_id").is_duplicated())
    if twice.height:
        raise MeasurementError(
            "The run holds a document twice for one query", expected="each document once", found=str(twice.row(0)[:2])
        )
    return run.sort(["query_id", "score", "document_id"], descending=[False, True, False]).with_columns(
        pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("query_id").alias("rank")
    )


def within_scope(run: pl.DataFrame, queries: pl.DataFrame, chunks: pl.DataFrame) -> pl.DataFrame:
    """`run` without what a query may not search: hits outside the one document that it is limited to.

    For an arm that cannot search one document by itself; its run must be deep enough to leave some. Queries over the
    whole corpus keep everything.
    """
    limits = queries.select("query_id", pl.col("document_id").alias("only"))
    home = chunks.select(pl.col("chunk_id").cast(pl.String).alias("document_id"), pl.col("document_id").alias("home"))
    kept = run.join(limits, on="query_id", how="left").join(home, on="document_id", how="left")
    return kept.filter(pl.col("only").is_null() | (pl.col("only") == pl.col("home"))).select(run.columns)


def parts_found(
    run: pl.DataFrame,
    spans: pl.DataFrame,
    grades: pl.DataFrame,
    *,
    cutoffs: Sequence[int] = CUTOFFS,
    relevant: int = RELEVANT,
) -> pl.DataFrame:
    """`parts_found@k`, the share of a query's needed parts that the top k holds, and `all_parts@k`, 1 if it holds all.

    `grades` comes from `grades.part_grades` for the same spans. A part is held by a chunk whose grade for it is at
    least `relevant`. Columns: query_id, parts, then the two measures for each cut-off.
    """
    _check(cutoffs)
    needed = spans.group_by("query_id").agg(pl.col("part").n_unique().cast(pl.Int64).alias("parts")).sort("query_id")
    first = (
        ranked_run(run)
        .join(grades.filter(pl.col("grade") >= relevant), on=["query_id", "document_id"])
        .group_by("query_id", "part")
        .agg(pl.col("rank").min())
    )
    found = [(pl.col("rank") <= k).sum().cast(pl.Float64).alias(f"parts_found@{k}") for k in cutoffs]
    table = needed.join(first.group_by("query_id").agg(found), on="query_id", how="left").fill_null(0.0)
    shares = [(pl.col(f"parts_found@{k}") / pl.col("parts")).alias(f"parts_found@{k}") for k in cutoffs]
    return (
        table.sort("query_id")
        .with_columns(shares)
        .with_columns((pl.col(f"parts_found@{k}") == 1.0).cast(pl.Float64).alias(f"all_parts@{k}") for k in cutoffs)
    )


def span_overlap_at_k(
    run: pl.DataFrame, spans: pl.DataFrame, chunks: pl.DataFrame, *, cutoffs: Sequence[int] = CUTOFFS
) -> pl.DataFrame:
    """Recall, precision and intersection over union in characters of what the top k holds against the spans.

    R is the union of the ranges of the top k chunks. Of each part the alternative that R covers best is the truth; T
    is their union. `span_recall@k` = |R and T| / |T|; `span_iou@k` = |R and T| / |R or T|; `span_precision@k` =
    |R and A| / |R|, with A the union of all alternatives, since a second place that says the same is no noise.
    Nothing retrieved gives 0.

    Raises:
        MeasurementError: a bad run or cut-off, or a chunk of the run that `chunks` does not hold.
    """
    _check(cutoffs)
    ranked = ranked_run(run).filter(pl.col("rank") <= max(cutoffs))
    where = chunks.select(
        pl.col("chunk_id").cast(pl.String).alias("document_id"),
        pl.struct("document_id", "document_version").alias("place"),
        "char_start",
        "char_end",
    )
    stranger = ranked.join(where, on="document_id", how="anti")
    if stranger.height:
        raise GoldenError(
            "The run holds a chunk that the chunk set does not",
            expected="chunks of one chunk set",
            found=f"chunk {stranger['document_id'][0]} for query {stranger['query_id'][0]}",
        )
    hits: dict[str, list[tuple[int, Place, int, int]]] = {}
    for row in ranked.join(where, on="document_id").sort("query_id", "rank").iter_rows(named=True):
        place = (row["place"]["document_id"], row["place"]["document_version"])
        hits.setdefault(row["query_id"], []).append((row["rank"], place, row["char_start"], row["char_end"]))
    truth: dict[str, dict[int, list[tuple[Place, int, int]]]] = {}
    for row in spans.sort("query_id", "part").iter_rows(named=True):
        place = (row["document_id"], row["document_version"])
        parts = truth.setdefault(row["query_id"], {})
        parts.setdefault(row["part"], []).append((place, row["char_start"], row["char_end"]))
    rows = [
        (query, *(value for k in cutoffs for value in _overlap(hits.get(query, []), parts, k)))
        for query, parts in truth.items()
    ]
    names = [f"{name}@{k}" for k in cutoffs for name in ("span_recall", "span_precision", "span_iou")]
    schema = pl.Schema({"query_id": pl.String, **dict.fromkeys(names, pl.Float64)})
    return pl.DataFrame(rows, schema=schema, orient="row").sort("query_id")


def _overlap(
    hits: list[tuple[int, Place, int, int]], parts: dict[int, list[tuple[Place, int, int]]], k: int
) -> tuple[float, float, float]:
    retrieved = _unions([(place, start, end) for rank, place, start, end in hits if rank <= k])
    size = _size(retrieved)
    if not size:
        return 0.0, 0.0, 0.0
    best = [
        max(alternatives, key=lambda a: (_shared(retrieved, _unions([a])) / (a[2] - a[1]), -a[1]))
        for alternatives in parts.values()
    ]
    wanted = _unions(best)
    everything = _unions([alternative for alternatives in parts.values() for alternative in alternatives])
    common = _shared(retrieved, wanted)
    total = _size(wanted)
    return common / total, _shared(retrieved, everything) / size, common / (size + total - common)


def _unions(ranges: list[tuple[Place, int, int]]) -> dict[Place, Ranges]:
    by_place: dict[Place, Ranges] = {}
    for place, start, end in sorted(ranges):
        merged = by_place.setdefault(place, [])
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return by_place


def _size(ranges: dict[Place, Ranges]) -> int:
    return sum(end - start for merged in ranges.values() for start, end in merged)


def _shared(one: dict[Place, Ranges], two: dict[Place, Ranges]) -> int:
    total = 0
    for place in one.keys() & two.keys():
        a, b = np.array(one[place]), np.array(two[place])
        held = np.minimum(a[:, None, 1], b[None, :, 1]) - np.maximum(a[:, None, 0], b[None, :, 0])
        total += int(np.maximum(held, 0).sum())
    return total


def _check(cutoffs: Sequence[int]) -> None:
    if not cutoffs or any(isinstance(k, bool) or k < 1 for k in cutoffs):
        raise MeasurementError("A cut-off is impossible", expected="whole numbers of at least 1", found=str(cutoffs))
