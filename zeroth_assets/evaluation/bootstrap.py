"""The bootstrap: intervals for figures that are averages, or other statistics, over queries.

What belongs here: resampling of independent units and the intervals made from it. Closed forms and the rule for
samples that do not vary are in `intervals`; tests and family-wise corrections in `significance`.

Queries are the unit that is resampled, or clusters of queries where several share a document. Resamples are a function
of (number of units, resamples, seed) alone, so several metrics of the same queries share them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.intervals import Interval, constant_sample, normal_quantile, wilson

Method = Literal["percentile", "bca"]
Statistic = Callable[[NDArray[np.float64]], float]
UNIT_BOUNDS = (0.0, 1.0)
FEW_UNITS = 20
FEW_DIFFERENT = 5

_BLOCK = 4_000_000  # drawn indices per block: bounds the memory at about 64 MB whatever n and resamples are


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
    does not vary. Percentile: Efron 1979; BCa: Efron 1987, with the acceleration from the jackknife.

    An interval that would be a single point is never given as such: when all values are equal, the interval is
    Wilson's over n (see `intervals.constant_sample`), and `method` says so.

    >>> bootstrap_ci([1.0] * 50, seed=7).method
    'wilson'
    >>> ci = bootstrap_ci([0.0, 0.5, 1.0, 1.0, 0.5, 0.75, 1.0, 0.25] * 5, seed=7)
    >>> ci.point, ci.low < 0.625 < ci.high
    (0.625, True)

    Raises:
        MeasurementError: no values, a value that is NaN, infinite or out of bounds, fewer than 100 resamples, or
            clusters of another length.
    """
    sample = _checked(values, bounds)
    point = float(np.mean(sample)) if statistic is None else float(statistic(sample))
    groups = _groups(clusters, sample.size)
    units = sample.size if groups is None else len(groups)
    z = normal_quantile(confidence)
    _check_resamples(resamples)
    if units == 1 or float(np.ptp(sample)) == 0.0:
        return _without_variation(sample, point, units, bounds, confidence, statistic is None)

    replicates = _replicates(sample, groups, resamples, seed, statistic)
    if method == "percentile":
        tail = (1.0 - confidence) / 2.0
        low, high = np.quantile(replicates, [tail, 1.0 - tail])
    else:
        low, high = _bca(replicates, point, _jackknife(sample, groups, statistic), z)
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

    - every value at a bound (hit or miss): Wilson, since the mean is a proportion;
    - fewer than `FEW_DIFFERENT` values differ from the most frequent one (recall near 1): Wilson as an upper bound
      on the variance, marked conservative, because resampling so few values covers too little;
    - otherwise: BCa below `FEW_UNITS` x 5 units, percentile above.

    The regimes were set by the simulation in `benchmarks/coverage`. Clustered samples always take the bootstrap.

    Raises:
        MeasurementError: as `bootstrap_ci`.
    """
    sample = _checked(values, bounds)
    low_bound, high_bound = bounds
    scaled = (sample - low_bound) / (high_bound - low_bound)
    if clusters is None and sample.size > 1 and float(np.ptp(sample)) > 0.0:
        binary = bool(np.all((scaled == 0.0) | (scaled == 1.0)))
        few = _off_mode(sample) < FEW_DIFFERENT
        if binary or few:
            low, high = wilson(float(scaled.sum()), sample.size, confidence)
            width = high_bound - low_bound
            return Interval(
                float(sample.mean()),
                low_bound + width * low,
                low_bound + width * high,
                int(sample.size),
                "wilson" if binary else "wilson_bound",
                confidence,
                warning=None if binary else f"conservative: only {_off_mode(sample)} of {sample.size} values differ",
            )
    method: Method = "bca" if sample.size < 5 * FEW_UNITS else "percentile"
    return bootstrap_ci(
        sample,
        resamples=resamples,
        seed=seed,
        confidence=confidence,
        method=method,
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
    `significance.verdict`: an interval that holds 0 means "cannot tell".

    >>> paired_bootstrap([0.9, 0.8, 1.0, 0.7] * 10, [0.4, 0.5, 0.6, 0.3] * 10, seed=1).low > 0
    True

    Raises:
        MeasurementError: the arms differ in length, or as `bootstrap_ci`.
    """
    first, second = _checked(a, None), _checked(b, None)
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
    samples = {name: _checked(values, None) for name, values in columns.items()}
    sizes = {sample.size for sample in samples.values()}
    if len(sizes) > 1:
        raise MeasurementError(
            "Metrics cannot share resamples", expected="columns over the same queries", found=f"lengths {sorted(sizes)}"
        )
    return {
        name: bootstrap_ci(sample, resamples=resamples, seed=seed, confidence=confidence, bounds=_outer_bounds(sample))
        for name, sample in samples.items()
    }


def resample_indices(units: int, resamples: int, seed: int) -> Iterator[NDArray[np.int32]]:
    """Blocks of drawn unit numbers, each (rows, units); in all `resamples` rows. Equal arguments, equal draws."""
    generator = np.random.default_rng(seed)
    rows = max(1, _BLOCK // units)
    for start in range(0, resamples, rows):
        yield generator.integers(0, units, size=(min(rows, resamples - start), units), dtype=np.int32)


def _replicates(
    sample: NDArray[np.float64],
    groups: list[NDArray[np.intp]] | None,
    resamples: int,
    seed: int,
    statistic: Statistic | None,
) -> NDArray[np.float64]:
    out: list[NDArray[np.float64]] = []
    if groups is None:
        for drawn in resample_indices(sample.size, resamples, seed):
            block = sample[drawn]
            out.append(block.mean(axis=1) if statistic is None else np.array([statistic(row) for row in block]))
    elif statistic is None:
        sums = np.array([sample[g].sum() for g in groups])
        sizes = np.array([g.size for g in groups], dtype=np.float64)
        out = [
            sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
            for drawn in resample_indices(len(groups), resamples, seed)
        ]
    else:
        for drawn in resample_indices(len(groups), resamples, seed):
            out.append(np.array([statistic(np.concatenate([sample[groups[i]] for i in row])) for row in drawn]))
    return np.concatenate(out)


def _jackknife(
    sample: NDArray[np.float64], groups: list[NDArray[np.intp]] | None, statistic: Statistic | None
) -> NDArray[np.float64]:
    """The statistic with each unit left out in turn."""
    if statistic is None:
        if groups is None:
            return np.asarray((sample.sum() - sample) / (sample.size - 1), dtype=np.float64)
        sums = np.array([sample[g].sum() for g in groups])
        sizes = np.array([g.size for g in groups])
        return np.asarray((sums.sum() - sums) / (sizes.sum() - sizes), dtype=np.float64)
    units = [np.array([i]) for i in range(sample.size)] if groups is None else groups
    return np.array([statistic(np.delete(sample, unit)) for unit in units])


def _bca(
    replicates: NDArray[np.float64], point: float, jackknife: NDArray[np.float64], z: float
) -> tuple[float, float]:
    normal = NormalDist()
    below = float(np.mean(replicates < point) + 0.5 * np.mean(replicates == point))
    # A share of 0 or 1 has no quantile; half a resample is the finest that this many can tell.
    below = min(max(below, 0.5 / replicates.size), 1.0 - 0.5 / replicates.size)
    bias = normal.inv_cdf(below)
    centred = jackknife.mean() - jackknife
    spread = float(np.sum(centred**2)) ** 1.5
    acceleration = float(np.sum(centred**3)) / (6.0 * spread) if spread > 0 else 0.0

    def level(quantile: float) -> float:
        shifted = bias + quantile
        return normal.cdf(bias + shifted / (1.0 - acceleration * shifted))

    low, high = np.quantile(replicates, [level(-z), level(z)])
    return float(low), float(high)


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


def _checked(values: ArrayLike, bounds: tuple[float, float] | None) -> NDArray[np.float64]:
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or sample.size == 0:
        raise MeasurementError(
            "There is nothing to resample", expected="one value per query, at least one", found=f"shape {sample.shape}"
        )
    if not np.isfinite(sample).all():
        bad = int(np.flatnonzero(~np.isfinite(sample))[0])
        raise MeasurementError(
            "A query's value is not a number",
            expected="finite values; leave out queries for which the metric is undefined and report n",
            found=f"{sample[bad]} at position {bad}",
        )
    if bounds is not None and (sample.min() < bounds[0] or sample.max() > bounds[1]):
        raise MeasurementError(
            "A query's value is out of bounds",
            expected=f"values in [{bounds[0]:g}, {bounds[1]:g}]",
            found=f"from {sample.min():g} to {sample.max():g}",
            remedy="pass the metric's own bounds, or bounds=None",
        )
    return sample


def _groups(clusters: Sequence[Any] | NDArray[Any] | None, n: int) -> list[NDArray[np.intp]] | None:
    if clusters is None:
        return None
    labels = np.asarray(clusters)
    if labels.shape != (n,):
        raise MeasurementError(
            "Clusters do not match the values", expected=f"{n} labels", found=f"shape {labels.shape}"
        )
    _, codes = np.unique(labels, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _check_resamples(resamples: int) -> None:
    if resamples < 100:
        raise MeasurementError(
            "Too few resamples for an interval's ends", expected="at least 100", found=str(resamples)
        )
