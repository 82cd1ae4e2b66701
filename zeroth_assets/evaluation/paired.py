"""The interval of a paired difference, and what clusters do to it.

What belongs here: the method that covers for differences, which unlike scores lie around 0 and are now symmetric with
heavy tails, now skewed. `comparisons` prints what comes of it.

Coverage of 95 % intervals by simulation (differences of hits, of nDCG-like values symmetric and skewed, 30 to 200
queries; 10 to 50 clusters of unequal size; 1,000 samples each): the studentised bootstrap alone covers 85 to 95 %, best
where the differences are skewed; Student's t 86 to 96 %, best where they are symmetric; BCa over clusters 88 to 95 %.
The outer ends of both cover 94 to 97 % where they carry no warning; of skewed differences on a dozen or two queries no
method here covers more than 89 to 92 %, and the interval says so. `benchmarks/coverage/paired.py` prints the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from zeroth_assets.evaluation.bootstrap import mean_ci
from zeroth_assets.evaluation.intervals import Interval

FEW_DIFFERING = 30
_RESAMPLED = frozenset({"studentised", "bca"})


def paired_ci(
    differences: ArrayLike,
    *,
    seed: int,
    resamples: int = 1_000,
    confidence: float = 0.95,
    clusters: Sequence[Any] | NDArray[Any] | None = None,
    bounds: tuple[float, float] = (-1.0, 1.0),
) -> Interval:
    """Interval of the mean of paired differences: the outer ends of the bootstrap's and of Student's t.

    Where few differences are not 0, `mean_ci`'s closed forms stand alone. With clusters, t has a value per cluster.

    >>> paired_ci([0.1, -0.1, 0.2, 0.0, 0.05, 0.15] * 6, seed=1).method
    'studentised and t, outer ends'

    Raises:
        MeasurementError: as `mean_ci`.
    """
    values = np.asarray(differences, dtype=np.float64)
    interval = mean_ci(values, resamples=resamples, seed=seed, confidence=confidence, clusters=clusters, bounds=bounds)
    if interval.method not in _RESAMPLED or not interval.known:
        return interval
    units = unit_values(values, clusters)
    error = float(units.std(ddof=1)) / math.sqrt(units.size)
    reach = float(stdtrit(units.size - 1, 0.5 + confidence / 2.0)) * error
    # Only queries on which the arms differ tell how skewed their differences are; those of hits have no tail to miss.
    differing = np.abs(values[values != 0.0])
    warning = interval.warning
    if warning is None and differing.size < FEW_DIFFERING and np.ptp(differing) > 0.0:
        warning = f"only {differing.size} of {values.size} queries differ between the arms: may cover less than stated"
    return replace(
        interval,
        warning=warning,
        low=max(bounds[0], min(interval.low, interval.point - reach)),
        high=min(bounds[1], max(interval.high, interval.point + reach)),
        method=f"{interval.method} and t, outer ends",
    )


def unit_sums(values: NDArray[np.float64], clusters: Sequence[Any] | NDArray[Any] | None) -> NDArray[np.float64]:
    """The sum of each cluster's values, by sorted label; the values themselves without clusters."""
    if clusters is None:
        return values
    _, codes = np.unique(np.asarray(clusters), return_inverse=True)
    return np.asarray(np.bincount(codes, weights=values), dtype=np.float64)


def unit_values(values: NDArray[np.float64], clusters: Sequence[Any] | NDArray[Any] | None) -> NDArray[np.float64]:
    """A value per independent unit whose mean is that of all values, and whose standard error is its too.

    For clusters of unequal size the mean is a ratio; this is its linearised form (Cochran 1977, chapter 6).

    >>> unit_values(np.array([1.0, 2.0, 6.0]), ["a", "a", "b"]).tolist()
    [1.0, 5.0]
    """
    if clusters is None:
        return values
    sums, sizes = unit_sums(values, clusters), unit_sums(np.ones_like(values), clusters)
    mean = float(values.mean())
    return np.asarray((sums - sizes * mean) * (sums.size / values.size) + mean, dtype=np.float64)
