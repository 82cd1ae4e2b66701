"""The arithmetic of BM25: what a term is worth, and how often and how long.

What belongs here: the formula, its named variants and their limits. No postings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from zeroth_assets.errors import QueryError


@dataclass(frozen=True, slots=True)
class Scoring:
    """score = sum over terms of idf x tf (k1 + 1) / (tf + k1 (1 - b + b length / average length)).

    `idf` names the formula, with N chunks of which df hold the term:

    - `lucene`: ln(1 + (N - df + 0.5) / (df + 0.5)), never negative;
    - `robertson`: ln((N - df + 0.5) / (df + 0.5)), and 0 where that is negative (Robertson and Sparck Jones 1976);
    - `book`: ln(N / df) (Manning, Raghavan and Schuetze 2008, equation 11.32).

    Raises:
        QueryError: an idf of another name, k1 below 0, or b outside 0 to 1.
    """

    idf: str = "lucene"
    k1: float = 1.5
    b: float = 0.75

    def __post_init__(self) -> None:
        if self.idf not in _IDF:
            raise QueryError(f"There is no idf {self.idf!r}", expected=", ".join(_IDF), found=repr(self.idf))
        if not (math.isfinite(self.k1) and self.k1 >= 0 and 0 <= self.b <= 1):
            raise QueryError(
                "The parameters of BM25 are impossible",
                expected="k1 of at least 0, and b from 0 to 1",
                found=f"k1 = {self.k1}, b = {self.b}",
            )

    def idf_of(self, chunks: int, df: int) -> float:
        """What a term is worth that `df` of `chunks` chunks hold; 0 where none does.

        >>> [round(Scoring("book").idf_of(1000, df), 3) for df in (40, 300)]
        [3.219, 1.204]
        """
        return _IDF[self.idf](chunks, df) if df else 0.0

    def length_factor(self, length: float, average: float) -> float:
        """1 - b + b length / average: 1 at the average.

        >>> Scoring().length_factor(400, 200)
        1.75
        """
        return 1 - self.b + self.b * (length / average if average else 0.0)

    def saturation(self, tf: float, length_factor: float) -> float:
        """tf (k1 + 1) / (tf + k1 length factor): rises with tf, never above k1 + 1.

        >>> [round(Scoring(k1=1.2).saturation(tf, 1), 3) for tf in (1, 2, 5, 10, 50)]
        [1.0, 1.375, 1.774, 1.964, 2.148]
        """
        return (self.k1 + 1) * (tf / (tf + self.k1 * length_factor)) if tf else 0.0


_IDF = {
    "lucene": lambda n, df: math.log(1 + (n - df + 0.5) / (df + 0.5)),
    "robertson": lambda n, df: max(0.0, math.log((n - df + 0.5) / (df + 0.5))),
    "book": lambda n, df: math.log(n / df),
}
SCORINGS: dict[str, Scoring] = {name: Scoring(name) for name in _IDF} | {
    f"{name}-1.2": Scoring(name, k1=1.2) for name in _IDF
}
DEFAULT_SCORING = "lucene"


def scoring_named(name: str, *, k1: float | None = None, b: float | None = None) -> Scoring:
    """The scoring of that name (`lucene`, `robertson`, `book`; with `-1.2` for k1 = 1.2), k1 and b replaced if given.

    Raises:
        QueryError: there is none, or as `Scoring`.
    """
    if name not in SCORINGS:
        raise QueryError(f"There is no scoring {name!r}", expected=", ".join(SCORINGS), found=repr(name))
    scoring = SCORINGS[name]
    return replace(scoring, k1=scoring.k1 if k1 is None else k1, b=scoring.b if b is None else b)
