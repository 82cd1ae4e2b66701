"""The verdict on a tenant's recall against what was accepted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.access_baseline import BaselineVerdict, compare_with_baseline
from zeroth_assets.evaluation.access_model import Cell

RNG = np.random.default_rng(4)
ACCEPTED = RNG.choice([0.8, 0.9, 1.0], size=50, p=[0.1, 0.2, 0.7]).round(1)


def values(recalls: Sequence[float], *, first: int = 0, design: str = "partition_hnsw", k: int = 10) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "design": design,
            "ef_search": 40,
            "k": k,
            "predicate": True,
            "query_id": [f"q{first + number:03}" for number in range(len(recalls))],
            "recall": [float(recall) for recall in recalls],
        }
    )


def compared(now: Sequence[float], then: Sequence[float] = list(ACCEPTED), first: int = 0) -> BaselineVerdict:
    return compare_with_baseline(values(now, first=first), values(then), seed=1)


def test_the_same_recall_passes_although_an_interval_of_equal_differences_is_wide() -> None:
    verdict = compared(list(ACCEPTED))
    assert verdict.status == "passed"
    assert verdict.differences[0][1].low < -0.01


def test_a_degraded_index_fails() -> None:
    verdict = compared([max(0.0, r - 0.3) for r in ACCEPTED[:25]] + list(ACCEPTED[25:]))
    assert verdict.status == "failed"
    assert verdict.differences[0][1].high < -0.01
    assert "25 fell" in verdict.reasons[0]


def test_every_query_losing_the_same_fails_although_nothing_varies() -> None:
    assert compared([0.8] * 50, [1.0] * 50).status == "failed"


def test_a_few_queries_falling_cannot_be_told_from_chance() -> None:
    now = list(ACCEPTED)
    for place in (3, 17, 40):
        now[place] -= 0.4
    verdict = compared(now)
    assert verdict.status == "cannot_tell"
    assert verdict.reasons[0].startswith("cannot tell")


def test_a_fall_within_the_tolerance_passes() -> None:
    now = [r - 0.005 for r in ACCEPTED[:20]] + list(ACCEPTED[20:])
    assert compared(now).status == "passed"


def test_better_recall_passes() -> None:
    assert compared([1.0] * 50).status == "passed"


def test_queries_are_paired_by_id_and_the_others_are_counted() -> None:
    shuffled = values(list(ACCEPTED)).sample(fraction=1.0, shuffle=True, seed=3)
    assert compare_with_baseline(shuffled, values(list(ACCEPTED)), seed=1).status == "passed"
    moved = compared(list(ACCEPTED[40:]) + [0.0] * 40, first=40)
    assert moved.status == "cannot_tell"
    assert "80 without a counterpart" in moved.reasons[0]
    assert compared([1.0] * 50, first=500).reasons[0].endswith("no query in common with the baseline")


def test_a_small_tenant_whose_every_query_is_in_the_baseline_needs_no_twenty() -> None:
    assert compared([1.0] * 7, [1.0] * 7).status == "passed"


def test_the_worst_cell_decides() -> None:
    cells = [Cell("partition_hnsw", 40, 10, True), Cell("partition_hnsw", 40, 50, True)]
    then = pl.concat([values([1.0] * 30), values([1.0] * 30, k=50)])
    now = pl.concat([values([1.0] * 30), values([0.5] * 30, k=50)])
    verdict = compare_with_baseline(now, then, seed=1, cells=cells)
    assert verdict.status == "failed"
    assert len(verdict.reasons) == 2


def test_what_cannot_be_compared_is_refused() -> None:
    good = values(list(ACCEPTED))
    with pytest.raises(MeasurementError, match="not among the current"):
        compare_with_baseline(values([1.0], design="partial_hnsw"), good, seed=1)
    with pytest.raises(MeasurementError, match="occurs twice"):
        compare_with_baseline(pl.concat([good, good]), good, seed=1)
    with pytest.raises(MeasurementError, match="tolerance"):
        compare_with_baseline(good, good, seed=1, tolerance=-0.1)
    two = good.with_columns(principal=pl.Series(["a"] * 49 + ["b"]))
    with pytest.raises(MeasurementError, match="several principals"):
        compare_with_baseline(two, good, seed=1)
