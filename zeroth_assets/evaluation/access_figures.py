"""The figures of one cell, from the answers that came back.

What belongs here: a row of `access_model.ACCESS_SCHEMA` and its values per query. Nothing is asked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zeroth_assets.evaluation.access_model import ACCESS_PER_QUERY_SCHEMA, Cell
from zeroth_assets.evaluation.access_probe import ScanPlan
from zeroth_assets.evaluation.access_truth import AccessTruth, Judged
from zeroth_assets.evaluation.bootstrap import mean_ci


@dataclass(frozen=True, slots=True)
class Measured:
    """One cell: what came back, how long it took, and by which plans."""

    cell: Cell
    judged: Judged
    seconds: NDArray[np.float64]
    plans: tuple[ScanPlan, ...]
    choice: str


def figure_of(one: Measured, truth: AccessTruth, about: dict[str, Any]) -> dict[str, Any]:
    """The cell's row; `about` is what every row of the principal says, with seed and resamples."""
    cell, recalls, rows = one.cell, one.judged.recall, one.judged.rows
    interval = mean_ci(recalls, seed=about["seed"], resamples=about["resamples"])
    p50, p95, p99 = np.quantile(one.seconds, [0.5, 0.95, 0.99]) * 1e3
    short = rows < min(cell.k, truth.rows)

    def mean(name: str) -> float | None:
        values = [getattr(plan, name) for plan in one.plans]
        return float(np.mean(values)) if values and None not in values else None

    return {
        **about,
        "design": cell.design,
        "ef_search": cell.ef_search,
        "k": cell.k,
        "predicate": cell.predicate,
        "queries": len(recalls),
        "recall": interval.point,
        "recall_low": interval.low,
        "recall_high": interval.high,
        "interval_method": interval.method,
        "interval_warning": interval.warning,
        "rows_mean": float(rows.mean()),
        "short_queries": int(short.sum()),
        "short_share": float(short.mean()),
        "empty_queries": int((rows == 0).sum()),
        "cross_tenant_rows": one.judged.cross_tenant_rows,
        "expected_survivors": None if cell.ef_search is None else cell.ef_search * about["share"],
        "latency_p50_ms": float(p50),
        "latency_p95_ms": float(p95),
        "latency_p99_ms": float(p99),
        "planning_p50_ms": float(np.median([plan.planning_ms or 0.0 for plan in one.plans])) if one.plans else None,
        "buffers_hit": mean("buffers_hit"),
        "buffers_read": mean("buffers_read"),
        "plan_node": one.plans[0].node if one.plans else None,
        "index_name": one.plans[0].index if one.plans else None,
        "scans": one.plans[0].scans if one.plans else None,
        "estimated_rows": mean("estimated_rows"),
        "actual_rows": mean("actual_rows"),
        "removed_rows": mean("removed_rows"),
        "planner_choice": one.choice,
        "explained": len(one.plans),
    }


def each_query(one: Measured, truth: AccessTruth, about: dict[str, Any], query_ids: Sequence[str]) -> pl.DataFrame:
    """The cell's values per query, in `ACCESS_PER_QUERY_SCHEMA`."""
    count = len(one.judged.recall)
    return pl.DataFrame(
        {
            "chunk_set": [about["chunk_set"]] * count,
            "principal": [about["principal"]] * count,
            **{name: [value] * count for name, value in dataclasses.asdict(one.cell).items() if name != "queries"},
            "query_id": list(query_ids[:count]),
            "recall": one.judged.recall,
            "rows": one.judged.rows,
            "kth_distance": truth.kth_distance(one.cell.k)[:count],
            "latency_ms": one.seconds * 1e3,
        },
        schema=ACCESS_PER_QUERY_SCHEMA,
    )
