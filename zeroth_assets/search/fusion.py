"""Reciprocal rank fusion: several rankings into one, by ranks alone.

What belongs here: the fusion and the arithmetic behind each fused score. Scores of the rankings are not looked at, so
rankings whose scores have nothing in common (cosine, BM25) can be fused.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from zeroth_assets.errors import QueryError

Id = TypeVar("Id", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one ranking gave to a fused score: `score` = 1 / (k + rank), rank from 1."""

    ranking: str
    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Fused(Generic[Id]):
    """One fused result: `score` is the sum of its contributions, which stand in the order of the rankings given."""

    id: Id
    rank: int
    score: float
    contributions: tuple[Contribution, ...]

    def explain(self, k: float) -> str:
        """The arithmetic as a line, for instance `1/(60+2) [bm25] + 1/(60+1) [dense] = 0.032522`."""
        terms = " + ".join(f"1/({k:g}+{part.rank}) [{part.ranking}]" for part in self.contributions)
        return f"{terms} = {self.score:.6f}"


def fuse(
    rankings: Mapping[str, Sequence[Id]], *, k: float = 60, depth: int | Mapping[str, int] | None = None
) -> list[Fused[Id]]:
    """Fuse named rankings, best first; equal scores by id, ascending (Cormack, Clarke and Buettcher 2009).

    A result's score is the sum over rankings of 1 / (k + rank); a ranking in which it is absent gives nothing. `depth`
    cuts every ranking, or each by name, before they are fused.

    >>> first, *_ = fuse({"dense": ["d3", "d1", "d7", "d2"], "bm25": ["d1", "d9", "d3"]})
    >>> first.id, first.explain(60)
    ('d1', '1/(60+2) [dense] + 1/(60+1) [bm25] = 0.032522')

    Raises:
        QueryError: k is not positive and finite, a depth below 1 or for an unknown ranking, or an id twice in one
            ranking.
    """
    if not (math.isfinite(k) and k > 0):
        raise QueryError("The constant of the fusion is impossible", expected="k > 0", found=repr(k))
    depths = _depths(rankings, depth)
    contributions: dict[Id, list[Contribution]] = {}
    for name, ranking in rankings.items():
        cut = ranking[: depths[name]] if name in depths else ranking
        if len(set(cut)) != len(cut):
            twice = next(i for i in cut if list(cut).count(i) > 1)
            raise QueryError(
                f"The ranking {name!r} holds an id twice",
                expected="each result once, at its best rank",
                found=repr(twice),
            )
        for rank, i in enumerate(cut, 1):
            contributions.setdefault(i, []).append(Contribution(name, rank, 1.0 / (k + rank)))
    # fsum: the sum must not depend on the order of the rankings, or equal scores would not tie.
    scored: list[Any] = [(i, math.fsum(part.score for part in parts), parts) for i, parts in contributions.items()]
    scored.sort(key=lambda item: (-item[1], item[0]))
    return [Fused(i, rank, score, tuple(parts)) for rank, (i, score, parts) in enumerate(scored, 1)]


def reciprocal_rank_fusion(rankings: Sequence[Sequence[Id]], k: float = 60) -> list[tuple[Id, float]]:
    """Fuse rankings into `[(id, score)]`, best first, ties by id. See `fuse`, which also gives the arithmetic.

    >>> [i for i, _ in reciprocal_rank_fusion([["d3", "d1", "d7", "d2"], ["d1", "d9", "d3"]])]
    ['d1', 'd3', 'd9', 'd7', 'd2']

    Raises:
        QueryError: as `fuse`.
    """
    named = {str(position): ranking for position, ranking in enumerate(rankings)}
    return [(result.id, result.score) for result in fuse(named, k=k)]


def overlap(first: Sequence[Id], second: Sequence[Id], depth: int = 20) -> int:
    """How many results the top `depth` of two rankings share.

    >>> overlap(["a", "b", "c"], ["c", "d", "a"], depth=2)
    0
    """
    return len(set(first[:depth]) & set(second[:depth]))


def _depths(rankings: Mapping[str, Sequence[Id]], depth: int | Mapping[str, int] | None) -> dict[str, int]:
    if depth is None:
        return {}
    depths = dict.fromkeys(rankings, depth) if isinstance(depth, int) else dict(depth)
    unknown = sorted(set(depths) - set(rankings))
    if unknown or any(value < 1 for value in depths.values()):
        raise QueryError(
            "A depth of the fusion is impossible",
            expected=f"at least 1, for {', '.join(sorted(rankings)) or 'no ranking'}",
            found=str(depths),
        )
    return depths
