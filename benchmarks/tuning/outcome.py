"""Figures of a configuration with intervals, and its paired difference to the default.

Queries of one group of documents, in whichever role, are resampled together. Where the best of a grid is held against
the default, the confidence of its interval is raised as Bonferroni has it for as many looks as there were
configurations: the best of many looks better than it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from zeroth_assets.evaluation.bootstrap import mean_ci
from zeroth_assets.evaluation.intervals import Interval
from zeroth_assets.evaluation.paired import paired_ci

MEASURES = ("recall@10", "success@5", "success@10", "recall@50", "success@50", "ndcg_exponential@10")
SEED = 20_240_501


def told(interval: Interval, n: int) -> dict[str, Any]:
    rounded = {name: round(getattr(interval, name), 4) for name in ("point", "low", "high")}
    extra = {} if interval.warning is None else {"warning": interval.warning}
    return {"value": rounded.pop("point"), **rounded, "n": n, "units": interval.n, "method": interval.method, **extra}


def summary(values: pl.DataFrame, groups: Mapping[str, str], objective: str) -> dict[str, Any]:
    """The objective with its interval over all roles, and by role; the other measures as points."""
    made: dict[str, Any] = {objective: measured(values, groups, objective)}
    for (role,), part in values.group_by("role", maintain_order=True):
        points = {m: round(float(part[m].mean()), 4) for m in MEASURES if m in part.columns}  # type: ignore[arg-type]
        made[str(role)] = {"n": part.height, **points}
    return made


def measured(values: pl.DataFrame, groups: Mapping[str, str], measure: str) -> dict[str, Any]:
    labels = [groups[query] for query in values["query_id"]]
    return told(mean_ci(values[measure].to_numpy(), seed=SEED, clusters=labels), values.height)


def difference(
    one: pl.DataFrame, other: pl.DataFrame, groups: Mapping[str, str], measure: str, looks: int = 1
) -> dict[str, Any]:
    """`one` less `other`, query by query."""
    pairs = one.select("role", "query_id", measure).join(other, on=["role", "query_id"], suffix="_b", validate="1:1")
    values = (pairs[measure] - pairs[f"{measure}_b"]).to_numpy()
    if not values.any():
        return {"value": 0.0, "n": len(values), "verdict": "no query differs"}
    labels = [groups[query] for query in pairs["query_id"]]
    interval = paired_ci(
        values, seed=SEED, clusters=labels, confidence=1 - 0.05 / looks, resamples=max(1_000, 100 * looks)
    )
    verdict = "higher" if interval.low > 0 else "lower" if interval.high < 0 else "cannot tell"
    return {**told(interval, len(values)), "confidence": round(interval.confidence, 5), "verdict": verdict}
