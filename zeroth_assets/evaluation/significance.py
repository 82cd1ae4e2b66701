"""Whether two arms differ: the randomisation test, Holm's correction, the smallest effect that n queries can show.

What belongs here: decisions about differences. The interval of a difference is `bootstrap.paired_bootstrap`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.intervals import Interval

Difference = Literal["higher", "lower", "cannot tell"]
_EXACT_UP_TO = 12  # 4,096 sign patterns: cheaper than sampling them


def difference_verdict(interval: Interval, *, margin: float = 0.0) -> Difference:
    """What the interval of a difference a - b says: a is "higher" or "lower" by more than `margin`, or neither."""
    if not interval.known:
        return "cannot tell"
    if interval.low > margin:
        return "higher"
    if interval.high < -margin:
        return "lower"
    return "cannot tell"


def randomisation_test(a: ArrayLike, b: ArrayLike, *, permutations: int = 10_000, seed: int) -> float:
    """Two-sided p-value of the mean difference by swapping the arms' labels within queries (Fisher 1935).

    All 2^n patterns are tried up to n = 12, otherwise `permutations` random ones, with the observed one counted among
    them (Phipson and Smyth 2010), so that p is never 0.

    >>> randomisation_test([1.0, 1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0], seed=1)
    0.0625

    Raises:
        MeasurementError: the arms differ in length or hold a value that is not finite.
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 1 or first.size == 0:
        raise MeasurementError(
            "Two arms cannot be paired",
            expected="one value per query for both, in the same order",
            found=f"shapes {first.shape} and {second.shape}",
        )
    difference = first - second
    if not np.isfinite(difference).all():
        raise MeasurementError("A query's value is not a number", expected="finite values in both arms")
    observed = abs(float(difference.sum()))
    # Sums of the same terms in another order differ in the last bits; a tie with the observed one must count.
    threshold = observed - 1e-12 * max(1.0, float(np.abs(difference).sum()))
    if difference.size <= _EXACT_UP_TO:
        patterns = (np.arange(2**difference.size)[:, None] >> np.arange(difference.size)) & 1
        sums = np.abs((1.0 - 2.0 * patterns) @ difference)
        return float(np.mean(sums >= threshold))
    generator = np.random.default_rng(seed)
    extreme, left = 0, permutations
    rows = max(1, 4_000_000 // difference.size)
    while left > 0:
        signs = generator.integers(0, 2, size=(min(rows, left), difference.size), dtype=np.int8)
        sums = np.abs(difference.sum() - 2.0 * (signs @ difference))
        extreme += int(np.sum(sums >= threshold))
        left -= signs.shape[0]
    return (1 + extreme) / (1 + permutations)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjusted p-values that bound the chance of any false claim in the family (Holm 1979).

    >>> {name: round(p, 3) for name, p in holm({"a": 0.01, "b": 0.04, "c": 0.03}).items()}
    {'a': 0.03, 'b': 0.06, 'c': 0.06}

    Raises:
        MeasurementError: a p-value outside [0, 1].
    """
    for name, p in p_values.items():
        if not 0.0 <= p <= 1.0:
            raise MeasurementError(f"The p-value of {name!r} is impossible", expected="within [0, 1]", found=repr(p))
    ordered = sorted(p_values, key=lambda name: (p_values[name], name))
    adjusted: dict[str, float] = {}
    highest = 0.0
    for position, name in enumerate(ordered):
        highest = max(highest, min(1.0, (len(ordered) - position) * p_values[name]))
        adjusted[name] = highest
    return {name: adjusted[name] for name in p_values}


def minimum_detectable_effect(
    differences: ArrayLike, *, alpha: float = 0.05, power: float = 0.8, n: int | None = None
) -> float:
    """Smallest true mean difference that a two-sided paired test at `alpha` finds with probability `power`.

    (z(1 - alpha/2) + z(power)) x sd / sqrt(n), the standard deviation from the paired differences at hand; `n` asks
    for another number of queries.

    >>> round(minimum_detectable_effect([0.1, -0.1] * 50), 4)
    0.0282

    Raises:
        MeasurementError: fewer than two differences, or alpha or power outside (0, 1).
    """
    sample: NDArray[np.float64] = np.asarray(differences, dtype=np.float64)
    if sample.ndim != 1 or sample.size < 2 or not np.isfinite(sample).all():
        raise MeasurementError(
            "The smallest detectable effect needs a spread", expected="at least two finite paired differences"
        )
    if not (0.0 < alpha < 1.0 and 0.0 < power < 1.0) or (n is not None and n < 1):
        raise MeasurementError(
            "A test's error rates are impossible",
            expected="alpha and power inside (0, 1), n >= 1",
            found=f"alpha={alpha!r}, power={power!r}, n={n!r}",
        )
    normal = NormalDist()
    reach = normal.inv_cdf(1.0 - alpha / 2.0) + normal.inv_cdf(power)
    return reach * float(sample.std(ddof=1)) / math.sqrt(n or sample.size)
