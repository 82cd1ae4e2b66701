"""Drawing queries again: the machinery under `bootstrap`.

What belongs here: checked samples, drawn unit numbers, a statistic's replicates, and the ends of an interval that they
give. Which interval a figure gets is decided in `bootstrap`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zeroth_assets.errors import MeasurementError

Statistic = Callable[[NDArray[np.float64]], float]

_BLOCK = 4_000_000  # drawn indices per block: bounds the memory at about 64 MB whatever n and resamples are


def resample_indices(units: int, resamples: int, seed: int) -> Iterator[NDArray[np.int32]]:
    """Blocks of drawn unit numbers, each (rows, units); in all `resamples` rows. Equal arguments, equal draws."""
    generator = np.random.default_rng(seed)
    rows = max(1, _BLOCK // units)
    for start in range(0, resamples, rows):
        yield generator.integers(0, units, size=(min(rows, resamples - start), units), dtype=np.int32)


def replicates_of(
    sample: NDArray[np.float64],
    groups: list[NDArray[np.intp]] | None,
    resamples: int,
    seed: int,
    statistic: Statistic | None,
) -> NDArray[np.float64]:
    """The statistic (None: the mean) of each of `resamples` resamples of units, or of whole groups of them."""
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


def jackknife_of(
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


def bca_ends(
    replicates: NDArray[np.float64], point: float, jackknife: NDArray[np.float64], z: float
) -> tuple[float, float]:
    """Ends of the bias-corrected and accelerated interval (Efron 1987); `z` is its half-width in standard errors."""
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


def studentised_ends(sample: NDArray[np.float64], resamples: int, seed: int, tail: float) -> tuple[float, float]:
    """Ends of the bootstrap-t interval of the mean (Efron and Tibshirani 1993, section 12.5).

    A resample of equal values has no standard error; it is left out.
    """
    scores: list[NDArray[np.float64]] = []
    mean, n = float(sample.mean()), sample.size
    for drawn in resample_indices(n, resamples, seed):
        block = sample[drawn]
        spread = block.std(axis=1, ddof=1)
        varied = spread > 0
        scores.append((block[varied].mean(axis=1) - mean) / (spread[varied] / math.sqrt(n)))
    lowest, highest = np.quantile(np.concatenate(scores), [tail, 1.0 - tail])
    error = float(sample.std(ddof=1)) / math.sqrt(n)
    return mean - float(highest) * error, mean - float(lowest) * error


def checked_sample(values: ArrayLike, bounds: tuple[float, float] | None) -> NDArray[np.float64]:
    """The values as a float64 vector.

    Raises:
        MeasurementError: none, not one-dimensional, not finite, or out of bounds.
    """
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


def cluster_members(clusters: Sequence[Any] | NDArray[Any] | None, n: int) -> list[NDArray[np.intp]] | None:
    """The positions that each cluster holds, in the order of sorted labels; None without clusters.

    Raises:
        MeasurementError: the labels are not one per value.
    """
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


def check_resamples(resamples: int) -> None:
    """Refuse a number of resamples from which no tail can be read.

    Raises:
        MeasurementError: fewer than 100.
    """
    if resamples < 100:
        raise MeasurementError(
            "Too few resamples for an interval's ends", expected="at least 100", found=str(resamples)
        )
