"""Closed-form intervals, against scipy and at the edges."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.intervals import Interval, clopper_pearson, constant_sample, wilson


@pytest.mark.parametrize("n", [1, 2, 10, 50, 1000])
def test_wilson_and_clopper_pearson_agree_with_scipy(n: int) -> None:
    for successes in {0, 1, n // 2, n - 1, n}:
        result = stats.binomtest(successes, n)
        for confidence in (0.9, 0.95):
            assert wilson(successes, n, confidence) == pytest.approx(
                tuple(result.proportion_ci(confidence, method="wilson")), abs=1e-9
            )
            assert clopper_pearson(successes, n, confidence) == pytest.approx(
                tuple(result.proportion_ci(confidence, method="exact")), abs=1e-9
            )


def test_the_ends_at_the_edges_are_exact() -> None:
    assert wilson(0, 7)[0] == 0.0
    assert wilson(7, 7)[1] == 1.0
    assert clopper_pearson(0, 7)[0] == 0.0
    assert clopper_pearson(7, 7)[1] == 1.0


def test_a_constant_sample_at_the_edge_is_wilsons_interval() -> None:
    assert constant_sample(1.0, 20, (0.0, 1.0)) == pytest.approx(wilson(20, 20))
    assert constant_sample(0.0, 20, (0.0, 1.0)) == pytest.approx(wilson(0, 20))
    assert all(math.isnan(end) for end in constant_sample(1.0, 20, None))


@pytest.mark.parametrize(("successes", "n"), [(1, 0), (-1, 5), (6, 5)])
def test_impossible_counts_are_refused(successes: int, n: int) -> None:
    for interval in (wilson, clopper_pearson):
        with pytest.raises(MeasurementError, match="impossible counts"):
            interval(successes, n)


def test_an_interval_reads_as_a_figure() -> None:
    assert str(Interval(0.93, 0.9, 0.96, 50, "percentile", 0.95, 1, 1000)) == "0.930 [0.900, 0.960]"
    assert str(Interval(0.93, math.nan, math.nan, 1, "none", 0.95, warning="one cluster only")) == (
        "0.930 (no interval: one cluster only)"
    )
