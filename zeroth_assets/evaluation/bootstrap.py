"""The bootstrap: intervals for figures that are averages, or other statistics, over queries.

What belongs here: resampling of independent units and the intervals made from it. Closed forms and the rule for
samples that do not vary are in `intervals`; tests and family-wise corrections in `significance`.

Queries are the unit that is resampled, or clusters of queries where several share a document. Resamples are a function
of (number of units, resamples, seed) alone, so several metrics of the same queries share them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.intervals import Interval, clopper_pearson, constant_sample, normal_quantile, wilson
from zeroth_assets.evaluation.resampling import (
    Statistic,
    bca_ends,
    check_resamples,
    checked_sample,
    cluster_members,
    jackknife_of,
    replicates_of,
    studentised_ends,
)

Method = Literal["percentile", "bca", "studentised"]
UNIT_BOUNDS = (0.0, 1.0)
FEW_UNITS = 20
TOO_FEW_UNITS = 10
FEW_DIFFERENT = 5


def bootstrap_ci(
    values: ArrayLike,
    *,
    resamples: int = 1_000,
    seed: int,
    confidence: float = 0.95,
    method: Method = "percentile",
    clusters: Sequence[Any] | NDArray[Any] | None = None,
    statistic: Statistic | None = None,
    bounds: tuple[float, float] | None = UNIT_BOUNDS,
) -> Interval:
    """Confidence interval of a statistic (default: the mean) over independent queries.

    `values` has one number per query. `clusters` names each query's cluster (a document, say); clusters are then drawn
    whole, and `Interval.n` counts them. `bounds` is the range that a value can take at all; it serves where the sample
    does not vary, and cuts a studentised interval. Percentile: Efron 1979; BCa: Efron 1987, with the acceleration from
    the jackknife; studentised: Efron and Tibshirani 1993, section 12.5, for means without clusters.

    An interval that would be a single point is never given as such: when all values are equal, the interval is
    Wilson's over n (see `intervals.constant_sample`), and `method` says so.

    >>> bootstrap_ci([1.0] * 50, seed=7).method
    'wilson'
    >>> ci = bootstrap_ci([0.0, 0.5, 1.0, 1.0, 0.5, 0.75, 1.0, 0.25] * 5, seed=7)
    >>> ci.point, ci.low < 0.625 < ci.high
    (0.625, True)

    Raises:
        MeasurementError: no values, a value that is NaN, infinite or out of bounds, fewer than 100 resamples, clusters
            of another length, or a method that is unknown or does not fit.
    """
    if method not in ("percentile", "bca", "studentised") or (
        method == "studentised" and (clusters is not None or statistic is not None)
    ):
        raise MeasurementError(
            "The method of the interval does not fit",
            expected="percentile, bca, or studentised for a mean without clusters",
            found=repr(method),
        )
    sample = checked_sample(values, bounds)
    point = float(np.mean(sample)) if statistic is None else float(statistic(sample))
    groups = cluster_members(clusters, sample.size)
    units = sample.size if groups is None else len(groups)
    z = normal_quantile(confidence)
    check_resamples(resamples)
    if units == 1 or float(np.ptp(sample)) == 0.0:
        return _without_variation(sample, point, units, bounds, confidence, statistic is None)

    tail = (1.0 - confidence) / 2.0
    if method == "studentised":
        low, high = studentised_ends(sample, resamples, seed, tail)
        if bounds is not None:
            low, high = max(low, bounds[0]), min(high, bounds[1])
    else:
        replicates = replicates_of(sample, groups, resamples, seed, statistic)
        if method == "percentile":
            low, high = np.quantile(replicates, [tail, 1.0 - tail])
        else:
            low, high = bca_ends(replicates, point, jackknife_of(sample, groups, statistic), z)
    interval = Interval(
        point, float(low), float(high), units, method, confidence, seed, resamples, _caution(sample, units)
    )
    if interval.low < interval.high:
        return interval
    # Replicates may coincide although the values do not, for instance for a median or for clusters with equal means.
    return replace(
        interval, low=math.nan, high=math.nan, warning="all resamples gave the same value; no interval can be had"
    )


def mean_ci(
    values: ArrayLike,
    *,
    resamples: int = 1_000,
    seed: int,
    confidence: float = 0.95,
    clusters: Sequence[Any] | NDArray[Any] | None = None,
    bounds: tuple[float, float] = UNIT_BOUNDS,
) -> Interval:
    """Interval of a mean of bounded values by the method that covers in its regime: what the tables print.

    - all values equal: Wilson over n, see `bootstrap_ci`;
    - fewer than `TOO_FEW_UNITS` units: Wilson as a bound on the variance, of as many units as clusters of unequal size
      are worth (Kish 1965), marked conservative; two clusters resampled are as narrow as their luck;
    - every value at a bound (hit or miss), so that the mean is a proportion: Wilson; with fewer than `FEW_DIFFERENT` of
      either kind Clopper-Pearson, marked conservative;
    - fewer than `FEW_DIFFERENT` values that differ from the most frequent one (recall near 1): Wilson as a bound on the
      variance, marked conservative, since resampling so few values covers too little;
    - otherwise the studentised bootstrap; with clusters BCa.

    The regimes were set by the simulation in `benchmarks/coverage`: of skewed samples of 20 to 100 queries, percentile
    and BCa cover 83 to 94 %, the studentised bootstrap 93 to 97 % unless few values differ.

    >>> mean_ci([1.0] * 45 + [0.9] * 5, seed=1).method, mean_ci([1.0] * 48 + [0.9] * 2, seed=1).method
    ('studentised', 'wilson_bound')

    Raises:
        MeasurementError: as `bootstrap_ci`.
    """
    sample = checked_sample(values, bounds)
    groups = cluster_members(clusters, sample.size)
    units = sample.size if groups is None else len(groups)
    if 1 < units < TOO_FEW_UNITS and float(np.ptp(sample)) > 0.0:
        sizes = np.ones(units) if groups is None else np.array([len(group) for group in groups], dtype=np.float64)
        return _too_few(sample, units, float(sizes.sum() ** 2 / np.square(sizes).sum()), bounds, confidence)
    if clusters is None and sample.size > 1 and float(np.ptp(sample)) > 0.0:
        closed = _closed_form(sample, bounds, confidence)
        if closed is not None:
            return closed
    return bootstrap_ci(
        sample,
        resamples=resamples,
        seed=seed,
        confidence=confidence,
        method="studentised" if clusters is None else "bca",
        clusters=clusters,
        bounds=bounds,
    )


def paired_bootstrap(
    a: ArrayLike,
    b: ArrayLike,
    *,
    resamples: int = 1_000,
    seed: int,
    confidence: float = 0.95,
    method: Method = "percentile",
    clusters: Sequence[Any] | NDArray[Any] | None = None,
    bounds: tuple[float, float] | None = (-1.0, 1.0),
) -> Interval:
    """Interval of the mean difference a - b of two arms over the same queries, in the same order.

    Queries are resampled as pairs, so what makes a query hard for both arms cancels. Read it with
    `significance.difference_verdict`: an interval that holds 0 means "cannot tell".

    >>> paired_bootstrap([0.9, 0.8, 1.0, 0.7] * 10, [0.4, 0.5, 0.6, 0.3] * 10, seed=1).low > 0
    True

    Raises:
        MeasurementError: the arms differ in length, or as `bootstrap_ci`.
    """
    first, second = checked_sample(a, None), checked_sample(b, None)
    if first.size != second.size:
        raise MeasurementError(
            "Two arms cannot be paired",
            expected="one value per query for both, in the same order",
            found=f"{first.size} and {second.size} values",
        )
    return bootstrap_ci(
        first - second,
        resamples=resamples,
        seed=seed,
        confidence=confidence,
        method=method,
        clusters=clusters,
        bounds=bounds,
    )


def bootstrap_many(
    columns: dict[str, NDArray[np.float64]],
    *,
    resamples: int = 1_000,
    seed: int,
    confidence: float = 0.95,
) -> dict[str, Interval]:
    """Percentile intervals of several metrics of the same queries, from one set of resamples.

    Raises:
        MeasurementError: the columns differ in length, or as `bootstrap_ci`.
    """
    samples = {name: checked_sample(values, None) for name, values in columns.items()}
    sizes = {sample.size for sample in samples.values()}
    if len(sizes) > 1:
        raise MeasurementError(
            "Metrics cannot share resamples", expected="columns over the same queries", found=f"lengths {sorted(sizes)}"
        )
    return {
        name: bootstrap_ci(sample, resamples=resamples, seed=seed, confidence=confidence, bounds=_outer_bounds(sample))
        for name, sample in samples.items()
    }


def _closed_form(sample: NDArray[np.float64], bounds: tuple[float, float], confidence: float) -> Interval | None:
    """The closed form that `mean_ci` prefers to resampling, if any."""
    width = bounds[1] - bounds[0]
    scaled = (sample - bounds[0]) / width
    total, n, different = float(scaled.sum()), int(sample.size), _off_mode(sample)
    binary = bool(np.all((scaled == 0.0) | (scaled == 1.0)))
    few = different < FEW_DIFFERENT
    if not (binary or few):
        return None
    if binary and few:
        method, (low, high) = "clopper_pearson", clopper_pearson(round(total), n, confidence)
    else:
        method, (low, high) = "wilson" if binary else "wilson_bound", wilson(total, n, confidence)
    return Interval(
        float(sample.mean()),
        bounds[0] + width * low,
        bounds[0] + width * high,
        n,
        method,
        confidence,
        warning=f"conservative: only {different} of {n} values differ" if few else None,
    )


def _too_few(
    sample: NDArray[np.float64], units: int, worth: float, bounds: tuple[float, float], confidence: float
) -> Interval:
    """Wilson's interval as if every unit were a coin toss with the mean that was seen: no bounded values vary more."""
    width, point = bounds[1] - bounds[0], float(sample.mean())
    whole = max(1, int(worth))
    low, high = wilson((point - bounds[0]) / width * whole, whole, confidence)
    return Interval(
        point,
        bounds[0] + width * low,
        bounds[0] + width * high,
        units,
        "wilson_bound",
        confidence,
        warning=f"conservative: only {units} independent units",
    )


def _without_variation(
    sample: NDArray[np.float64],
    point: float,
    units: int,
    bounds: tuple[float, float] | None,
    confidence: float,
    is_mean: bool,
) -> Interval:
    if float(np.ptp(sample)) > 0.0 or not is_mean:
        warning = "one cluster only" if units == 1 else "all values are equal"
        return Interval(point, math.nan, math.nan, units, "none", confidence, warning=warning)
    low, high = constant_sample(point, units, bounds, confidence)
    if math.isnan(low):
        return Interval(point, low, high, units, "none", confidence, warning="all values are equal, no bounds known")
    return Interval(point, low, high, units, "wilson", confidence, warning=f"all {units} values equal {point:g}")


def _caution(sample: NDArray[np.float64], units: int) -> str | None:
    if units < FEW_UNITS:
        return f"only {units} independent units: covers less than stated"
    if _off_mode(sample) < FEW_DIFFERENT:
        return f"only {_off_mode(sample)} of {sample.size} values differ: covers less than stated"
    return None


def _off_mode(sample: NDArray[np.float64]) -> int:
    """How many values differ from the most frequent one."""
    return int(sample.size - np.unique(sample, return_counts=True)[1].max())


def _outer_bounds(sample: NDArray[np.float64]) -> tuple[float, float] | None:
    return UNIT_BOUNDS if sample.min() >= 0.0 and sample.max() <= 1.0 else None
