"""Intervals by resampling: against closed forms, on hostile samples, within their time."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from scipy import stats

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.bootstrap import bootstrap_ci, bootstrap_many, mean_ci, paired_bootstrap
from zeroth_assets.evaluation.resampling import resample_indices

SAMPLE = np.random.default_rng(4).beta(2, 3, size=120)


def test_the_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    first = bootstrap_ci(SAMPLE, seed=1)
    assert first == bootstrap_ci(SAMPLE, seed=1)
    assert first.low != bootstrap_ci(SAMPLE, seed=2).low
    assert (first.n, first.seed, first.resamples, first.method, first.warning) == (120, 1, 1000, "percentile", None)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_the_interval_of_a_mean_agrees_with_scipy(method: str) -> None:
    peer = stats.bootstrap(
        (SAMPLE,), np.mean, n_resamples=20_000, method=method, rng=np.random.default_rng(8)
    ).confidence_interval
    ours = bootstrap_ci(SAMPLE, seed=8, resamples=20_000, method=method)  # type: ignore[arg-type]
    assert ours.low == pytest.approx(peer.low, abs=0.002)
    assert ours.high == pytest.approx(peer.high, abs=0.002)


def test_bca_of_a_skewed_sample_agrees_with_scipy_and_differs_from_percentile() -> None:
    skewed = np.random.default_rng(2).exponential(size=40)
    peer = stats.bootstrap((skewed,), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(8))
    ours = bootstrap_ci(skewed, seed=8, resamples=20_000, method="bca", bounds=None)
    assert ours.low == pytest.approx(peer.confidence_interval.low, abs=0.01)
    assert ours.high == pytest.approx(peer.confidence_interval.high, abs=0.02)
    assert ours.low > bootstrap_ci(skewed, seed=8, resamples=20_000, bounds=None).low + 0.01


def test_bca_corrects_the_bias_of_a_biased_statistic_as_scipy_does() -> None:
    skewed = np.random.default_rng(2).exponential(size=30)
    peer = stats.bootstrap(
        (skewed,), lambda x, axis: np.std(x, axis=axis), n_resamples=40_000, method="BCa", rng=np.random.default_rng(8)
    )
    ours = bootstrap_ci(
        skewed, seed=8, resamples=40_000, method="bca", bounds=None, statistic=lambda v: float(np.std(v))
    )
    assert ours.low == pytest.approx(peer.confidence_interval.low, abs=0.006)
    assert ours.high == pytest.approx(peer.confidence_interval.high, abs=0.012)


def test_the_studentised_interval_reaches_farther_on_the_side_of_the_long_tail() -> None:
    skewed = 1.0 - np.random.default_rng(2).beta(1, 12, size=60)
    ci = bootstrap_ci(skewed, seed=1, method="studentised")
    assert ci.point - ci.low > 1.15 * (ci.high - ci.point)


def test_a_statistic_other_than_the_mean_is_resampled_too() -> None:
    ours = bootstrap_ci(SAMPLE, seed=3, statistic=lambda values: float(np.median(values)))
    assert ours.point == float(np.median(SAMPLE))
    assert ours.low < ours.point < ours.high
    assert bootstrap_ci(SAMPLE, seed=3, statistic=lambda v: float(v.mean())).low == pytest.approx(
        bootstrap_ci(SAMPLE, seed=3).low
    )


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_a_recall_of_exactly_1_never_gives_the_interval_1_to_1(method: str) -> None:
    ci = bootstrap_ci([1.0] * 50, seed=1, method=method)  # type: ignore[arg-type]
    assert (ci.point, ci.high, ci.method) == (1.0, 1.0, "wilson")
    assert ci.low == pytest.approx(50 / (50 + stats.norm.ppf(0.975) ** 2))
    assert bootstrap_ci([0.0] * 50, seed=1).high == pytest.approx(1 - ci.low)


def test_equal_values_inside_the_range_give_an_interval_on_both_sides() -> None:
    ci = bootstrap_ci([0.5] * 50, seed=1)
    assert ci.low < 0.5 < ci.high
    assert ci.warning == "all 50 values equal 0.5"


def test_equal_values_of_unknown_range_give_no_interval_and_say_so() -> None:
    ci = bootstrap_ci([3.0] * 50, seed=1, bounds=None)
    assert not ci.known
    assert str(ci).startswith("3.000 (no interval: all values are equal")


def test_a_statistic_that_resampling_does_not_move_gives_no_interval() -> None:
    ci = bootstrap_ci([1.0] * 99 + [0.5], seed=1, statistic=lambda values: float(np.median(values)))
    assert not ci.known
    assert "same value" in (ci.warning or "")


def test_one_query_gives_an_interval_of_nearly_everything() -> None:
    ci = bootstrap_ci([1.0], seed=1)
    assert ci.low < 0.25
    assert ci.n == 1


def test_clusters_are_drawn_whole_and_widen_the_interval() -> None:
    rng = np.random.default_rng(6)
    clusters = np.repeat(np.arange(30), 10)
    values = np.clip(np.repeat(rng.random(30), 10) + rng.normal(0, 0.01, 300), 0, 1)
    clustered, naive = bootstrap_ci(values, seed=1, clusters=clusters), bootstrap_ci(values, seed=1)
    assert clustered.n == 30
    assert clustered.high - clustered.low > 2.5 * (naive.high - naive.low)
    by_function = bootstrap_ci(values, seed=1, clusters=clusters, statistic=lambda v: float(v.mean()))
    assert by_function.low == pytest.approx(clustered.low)
    assert bootstrap_ci(values, seed=1, clusters=clusters, method="bca").low == pytest.approx(clustered.low, abs=0.02)


def test_clusters_of_one_query_each_change_nothing() -> None:
    assert bootstrap_ci(SAMPLE, seed=1, clusters=list(range(120))).low == pytest.approx(
        bootstrap_ci(SAMPLE, seed=1).low
    )


def test_a_single_cluster_gives_no_interval() -> None:
    ci = bootstrap_ci([0.1, 0.9, 0.5], seed=1, clusters=["d", "d", "d"])
    assert not ci.known
    assert ci.warning == "one cluster only"


def test_few_queries_carry_a_warning() -> None:
    assert "only 12" in (bootstrap_ci(SAMPLE[:12], seed=1).warning or "")
    assert "only 2 of 50" in (bootstrap_ci([1.0] * 48 + [0.9, 0.8], seed=1).warning or "")


def test_metrics_of_the_same_queries_share_their_resamples() -> None:
    shared = bootstrap_many({"a": SAMPLE, "b": 1.0 - SAMPLE}, seed=5)
    assert shared["a"].low == pytest.approx(1.0 - shared["b"].high)
    assert shared["a"] == bootstrap_ci(SAMPLE, seed=5)
    with pytest.raises(MeasurementError, match="share resamples"):
        bootstrap_many({"a": SAMPLE, "b": SAMPLE[:3]}, seed=5)


def test_resamples_do_not_depend_on_the_size_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.concatenate(list(resample_indices(100, 250, 9)))
    assert whole.shape == (250, 100)
    monkeypatch.setattr("zeroth_assets.evaluation.resampling._BLOCK", 1_000)
    assert np.array_equal(whole, np.concatenate(list(resample_indices(100, 250, 9))))


def test_pairing_removes_what_is_hard_for_both_arms() -> None:
    rng = np.random.default_rng(3)
    hard = rng.random(100)
    a, b = np.clip(hard + 0.05 + rng.normal(0, 0.01, 100), 0, 2), hard
    difference = paired_bootstrap(a, b, seed=1)
    assert 0.03 < difference.low < difference.high < 0.07
    assert paired_bootstrap(b, a, seed=1).high == pytest.approx(-difference.low)


def test_arms_that_never_differ_still_have_an_interval_around_zero() -> None:
    same = paired_bootstrap([0.4, 0.8] * 30, [0.4, 0.8] * 30, seed=1)
    assert same.point == 0.0
    assert same.low < 0.0 < same.high


def test_the_mean_of_hits_and_misses_gets_wilson() -> None:
    ci = mean_ci([1.0] * 30 + [0.0] * 10, seed=1)
    assert ci.method == "wilson"
    assert (ci.low, ci.high) == pytest.approx(stats.binomtest(30, 40).proportion_ci(method="wilson"))


def test_the_mean_of_hardly_any_misses_gets_clopper_pearson_and_says_so() -> None:
    ci = mean_ci([1.0] * 38 + [0.0] * 2, seed=1)
    assert ci.method == "clopper_pearson"
    assert (ci.low, ci.high) == pytest.approx(stats.binomtest(38, 40).proportion_ci(method="exact"))
    assert "conservative" in (ci.warning or "")


def test_graded_values_get_the_studentised_interval_within_the_bounds() -> None:
    ci = mean_ci(SAMPLE, seed=1)
    assert (ci.method, ci.warning) == ("studentised", None)
    normal = stats.t.interval(0.95, 119, loc=SAMPLE.mean(), scale=stats.sem(SAMPLE))
    assert (ci.low, ci.high) == pytest.approx(normal, abs=0.01)
    assert mean_ci([1.0] * 10 + [0.9, 0.8, 0.1, 0.2, 0.3, 0.1], seed=1).high <= 1.0


def test_clustered_means_get_bca() -> None:
    assert mean_ci(SAMPLE, seed=1, clusters=[i // 2 for i in range(120)]).method == "bca"


def test_a_method_that_does_not_fit_is_refused() -> None:
    with pytest.raises(MeasurementError, match="does not fit"):
        bootstrap_ci(SAMPLE, seed=1, method="studentised", statistic=lambda v: float(np.median(v)))
    with pytest.raises(MeasurementError, match="does not fit"):
        bootstrap_ci(SAMPLE, seed=1, method="normal")  # type: ignore[arg-type]


def test_a_recall_near_1_gets_a_conservative_interval_that_says_so() -> None:
    values = [1.0] * 48 + [0.9, 0.9]
    ci = mean_ci(values, seed=1)
    assert ci.method == "wilson_bound"
    assert "conservative" in (ci.warning or "")
    assert ci.low < bootstrap_ci(values, seed=1).low


def test_ten_thousand_resamples_of_a_thousand_queries_take_less_than_two_seconds() -> None:
    values = np.random.default_rng(1).random(1_000)
    started = time.perf_counter()
    bootstrap_ci(values, seed=1, resamples=10_000)
    assert time.perf_counter() - started < 2.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "nothing to resample"),
        ([0.5, math.nan], "position 1"),
        ([0.5, math.inf], "not a number"),
        ([0.5, 1.2], "out of bounds"),
    ],
)
def test_bad_values_are_refused(values: list[float], message: str) -> None:
    with pytest.raises(MeasurementError, match=message):
        bootstrap_ci(values, seed=1)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(MeasurementError, match="Too few resamples"):
        bootstrap_ci(SAMPLE, seed=1, resamples=10)
    with pytest.raises(MeasurementError, match="confidence"):
        bootstrap_ci(SAMPLE, seed=1, confidence=95)
    with pytest.raises(MeasurementError, match="Clusters"):
        bootstrap_ci(SAMPLE, seed=1, clusters=["a"])
    with pytest.raises(MeasurementError, match="paired"):
        paired_bootstrap([1.0, 0.0], [1.0], seed=1)


def test_intervals_of_graded_values_cover_what_they_promise() -> None:
    """A small, seeded form of `benchmarks/coverage`: 400 samples of 60 values around 0.7."""
    rng = np.random.default_rng(12)
    covered = 0
    for number in range(400):
        sample = rng.beta(3.5, 1.5, size=60)
        ci = mean_ci(sample, seed=number, resamples=500)
        covered += ci.low <= 0.7 <= ci.high
    assert 0.925 <= covered / 400 <= 0.98


def test_two_clusters_whose_means_agree_by_luck_make_no_narrow_interval() -> None:
    few = mean_ci([0.11, 0.13, 0.12, 0.10], seed=1, clusters=["a", "a", "b", "b"])
    assert (few.method, few.n) == ("wilson_bound", 2)
    assert few.high - few.low > 0.5
    assert "only 2 independent units" in (few.warning or "")
    # One cluster has nearly everything: the three are worth little more than one.
    lopsided = mean_ci([0.1, 0.9, *[0.5] * 20], seed=1, clusters=["a", "b", *["c"] * 20])
    assert lopsided.high - lopsided.low > 0.7
    assert mean_ci([0.1, 0.2, 0.3, 0.4, 0.6, 0.7] * 2, seed=1).method == "studentised"


def test_the_interval_of_a_handful_of_queries_covers_at_least_what_it_says() -> None:
    rng = np.random.default_rng(3)
    intervals = [mean_ci(rng.beta(0.6, 1.4, size=6), seed=1, resamples=100) for _ in range(400)]
    assert sum(ci.low <= 0.3 <= ci.high for ci in intervals) >= 0.95 * 400
