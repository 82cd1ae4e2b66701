"""Intervals of one number: the type that every figure carries, and the closed forms for proportions.

What belongs here: `Interval`, Wilson, Clopper-Pearson, and the rule for samples that do not vary. Resampling is in
`bootstrap`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from scipy.special import betaincinv

from zeroth_assets.errors import MeasurementError


@dataclass(frozen=True, slots=True)
class Interval:
    """A point estimate with its confidence interval.

    `n` counts independent units (queries, or clusters of them), `seed` and `resamples` are None for closed forms.
    `low` and `high` are NaN where no interval can be had; `warning` then says why, and it says so too where the
    interval is known to be conservative or to cover too little.
    """

    point: float
    low: float
    high: float
    n: int
    method: str
    confidence: float
    seed: int | None = None
    resamples: int | None = None
    warning: str | None = None

    @property
    def known(self) -> bool:
        """Whether there is an interval at all."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    def __str__(self) -> str:
        if not self.known:
            return f"{self.point:.3f} (no interval: {self.warning or 'not computed'})"
        text = f"{self.point:.3f} [{self.low:.3f}, {self.high:.3f}]"
        return f"{text} ({self.warning})" if self.warning else text


def normal_quantile(confidence: float) -> float:
    """Half-width, in standard errors, of a two-sided normal interval.

    >>> round(normal_quantile(0.95), 4)
    1.96

    Raises:
        MeasurementError: `confidence` is not inside (0, 1).
    """
    if not 0.0 < confidence < 1.0:
        raise MeasurementError(
            "A confidence level is outside (0, 1)", expected="for instance 0.95", found=repr(confidence)
        )
    return NormalDist().inv_cdf(0.5 + confidence / 2.0)


def wilson(successes: float, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Score interval of a proportion (Wilson 1927), without continuity correction.

    `successes` may be fractional: the sum of n values in [0, 1] has at most the variance of as many coin tosses with
    the same mean, so the interval then errs on the wide side.

    >>> [round(x, 4) for x in wilson(10, 10)]
    [0.7225, 1.0]
    >>> [round(x, 4) for x in wilson(8, 10)]
    [0.4902, 0.9433]

    Raises:
        MeasurementError: n < 1, or successes outside [0, n].
    """
    _check_counts(successes, n)
    z2 = normal_quantile(confidence) ** 2
    p = successes / n
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2) / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return (0.0 if successes == 0 else max(0.0, centre - half), 1.0 if successes == n else min(1.0, centre + half))


def clopper_pearson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Exact interval of a proportion (Clopper and Pearson 1934): covers at least `confidence`, often more.

    >>> [round(x, 4) for x in clopper_pearson(10, 10)]
    [0.6915, 1.0]
    >>> [round(x, 4) for x in clopper_pearson(8, 10)]
    [0.4439, 0.9748]

    Raises:
        MeasurementError: as `wilson`.
    """
    _check_counts(successes, n)
    normal_quantile(confidence)
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if successes == 0 else float(betaincinv(successes, n - successes + 1, tail))
    high = 1.0 if successes == n else float(betaincinv(successes + 1, n - successes, 1.0 - tail))
    return low, high


def constant_sample(
    value: float, n: int, bounds: tuple[float, float] | None, confidence: float = 0.95
) -> tuple[float, float]:
    """Interval of a mean when all n observations equal `value`: a bootstrap would give [value, value].

    Observing the same value n times shows, by Wilson, that at least a share `w` of the population has it; the rest may
    lie anywhere within `bounds`. So the mean lies in [w v + (1 - w) lowest, w v + (1 - w) highest]. At value 1 within
    (0, 1) this is Wilson's interval itself. Without bounds nothing can be said: NaN, NaN.

    >>> [round(x, 4) for x in constant_sample(1.0, 50, (0.0, 1.0))]
    [0.9287, 1.0]
    """
    if bounds is None:
        return math.nan, math.nan
    share, _ = wilson(n, n, confidence)
    return share * value + (1.0 - share) * bounds[0], share * value + (1.0 - share) * bounds[1]


def _check_counts(successes: float, n: int) -> None:
    if n < 1 or not 0 <= successes <= n:
        raise MeasurementError(
            "A proportion has impossible counts",
            expected="n >= 1 and 0 <= successes <= n",
            found=f"successes={successes!r}, n={n!r}",
        )
