from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.bootstrap import mean_ci
from zeroth_assets.evaluation.paired import paired_ci, unit_sums, unit_values


def spread(n: int, seed: int = 1) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(0.02, 0.2, n).clip(-1, 1)


def test_the_interval_holds_both_the_bootstraps_and_students() -> None:
    values = spread(40)
    ours, boot = paired_ci(values, seed=3), mean_ci(values, seed=3, bounds=(-1.0, 1.0))
    low, high = stats.t.interval(0.95, 39, values.mean(), stats.sem(values))
    assert ours.low == pytest.approx(min(low, boot.low))
    assert ours.high == pytest.approx(max(high, boot.high))
    assert ours.point == pytest.approx(values.mean())


def test_the_ends_stay_within_what_a_difference_can_be() -> None:
    values = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.9, -1.0, 0.8, 0.7, 0.6])
    assert paired_ci(values, seed=1).high <= 1.0


def test_where_hardly_any_query_differs_the_closed_form_stands_with_its_warning() -> None:
    values = np.array([0.0] * 97 + [0.5, 0.5, -0.2])
    interval = paired_ci(values, seed=1)
    assert interval == mean_ci(values, seed=1, bounds=(-1.0, 1.0))
    assert interval.warning is not None


def test_few_queries_on_which_the_arms_differ_carry_a_warning() -> None:
    values = np.array([0.0] * 40 + list(spread(30)))
    assert paired_ci(values, seed=1).warning is None
    assert "only 29 of 70" in str(paired_ci(np.append(values[:-1], 0.0), seed=1).warning)
    hits = np.array([0.0] * 60 + [1.0] * 6 + [-1.0] * 4)
    assert paired_ci(hits, seed=1).warning is None


def test_clusters_of_one_query_each_are_the_queries() -> None:
    values = spread(30)
    labels = [f"{i:03}" for i in range(30)]
    assert unit_values(values, labels) == pytest.approx(values)
    assert unit_sums(values, labels) == pytest.approx(values)
    assert unit_values(values, None) is values


def test_the_error_over_unequal_clusters_is_the_one_that_repetition_shows() -> None:
    generator = np.random.default_rng(4)
    sizes = generator.integers(1, 9, 30)
    labels = np.repeat(np.arange(30), sizes)
    means, errors = [], []
    for _ in range(500):
        values = np.repeat(generator.normal(0, 0.2, 30), sizes) + generator.normal(0, 0.05, sizes.sum())
        units = unit_values(values, labels)
        assert units.mean() == pytest.approx(values.mean())
        means.append(values.mean())
        errors.append(units.std(ddof=1) / np.sqrt(30))
    assert np.mean(errors) == pytest.approx(np.std(means), rel=0.1)


def _symmetric(generator: np.random.Generator) -> NDArray[np.float64]:
    return np.where(generator.random(30) < 0.6, 0.0, generator.normal(0.0, 0.25, 30)).clip(-1, 1)


def _skewed(generator: np.random.Generator) -> NDArray[np.float64]:
    return np.where(generator.random(30) < 0.6, 0.06, generator.exponential(0.15, 30) - 0.09).clip(-1, 1)


@pytest.mark.parametrize("draw", [_symmetric, _skewed])
def test_the_interval_covers_symmetric_and_skewed_differences_of_few_queries(draw: object) -> None:
    generator = np.random.default_rng(6)
    truth = 0.0 if draw is _symmetric else 0.6 * 0.06 + 0.4 * (0.15 - 0.09)
    covered = 0
    for trial in range(400):
        interval = paired_ci(draw(generator), seed=trial, resamples=300)  # type: ignore[operator]
        covered += interval.low <= truth <= interval.high
    assert 0.92 <= covered / 400 <= 0.985


def test_bad_values_are_refused() -> None:
    with pytest.raises(MeasurementError):
        paired_ci([], seed=1)
    with pytest.raises(MeasurementError):
        paired_ci([0.1, float("nan")], seed=1)
    with pytest.raises(MeasurementError):
        paired_ci([0.1, 2.0], seed=1)
