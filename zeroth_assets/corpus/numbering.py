"""Which of many numbered lines are the headings: the heaviest chain that counts as a person would.

What belongs here: keys of printed section numbers and the search over candidates. A list item "2." inside section 1
and a stray "25 (SMTP)." look like headings one by one; in order, with what may follow what, they do not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

Key = tuple[int, ...]

_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A line that may be a heading: its number as a key, and how much it looks like one (a weight above 0)."""

    key: Key
    weight: float


def roman_value(numeral: str) -> int | None:
    """Value of a roman numeral below 400, or None: `roman_value("XIV") == 14`."""
    total = 0
    values = [_ROMAN.get(letter, 0) for letter in numeral.upper()]
    if not values or 0 in values:
        return None
    for value, following in zip(values, [*values[1:], 0], strict=True):
        total += -value if value < following else value
    return total


def best_chain(candidates: Sequence[Candidate], *, gap_penalty: float) -> list[int]:
    """Indices of the heaviest subsequence whose keys rise, each the natural successor of the one before.

    After 3.2 come 3.2.1 (or 3.2.0), 3.3 or 4. A key that rises otherwise (3.2 to 3.4) costs `gap_penalty`, and so
    does a chain that does not open with 1 or 0. Runs in O(n log n) for n candidates.
    """
    if not candidates:
        return []
    keys = sorted({c.key for c in candidates})
    best_below = _PrefixMaximum(len(keys))
    offered: dict[Key, tuple[float, int]] = {}
    score: list[float] = []
    previous: list[int] = []
    for index, candidate in enumerate(candidates):
        rank = bisect_left(keys, candidate.key)
        opening = 0.0 if candidate.key in ((1,), (0,)) else -gap_penalty
        value, before = opening, -1
        jump, jumped_from = best_below.query(rank)
        if jump - gap_penalty > value:
            value, before = jump - gap_penalty, jumped_from
        if candidate.key in offered and offered[candidate.key][0] > value:
            value, before = offered[candidate.key]
        total = value + candidate.weight
        score.append(total)
        previous.append(before)
        best_below.update(rank, total, index)
        for successor in successors(candidate.key):
            if successor not in offered or offered[successor][0] < total:
                offered[successor] = (total, index)
    end = max(range(len(candidates)), key=lambda i: (score[i], -i))
    chain: list[int] = []
    while end >= 0:
        chain.append(end)
        end = previous[end]
    return chain[::-1]


def successors(key: Key) -> list[Key]:
    """What may come straight after a number: its first child, or the next of itself or of any ancestor."""
    following: list[Key] = [(*key, 1), (*key, 0)]
    following.extend((*key[:depth], key[depth] + 1) for depth in range(len(key)))
    return following


class _PrefixMaximum:
    """Best (value, index) over ranks below a given one, updated as the chain grows (a Fenwick tree)."""

    def __init__(self, size: int) -> None:
        self._cells: list[tuple[float, int]] = [(float("-inf"), -1)] * (size + 1)

    def update(self, rank: int, value: float, index: int) -> None:
        position = rank + 1
        while position < len(self._cells):
            if self._cells[position][0] < value:
                self._cells[position] = (value, index)
            position += position & -position

    def query(self, rank: int) -> tuple[float, int]:
        best = (float("-inf"), -1)
        position = rank
        while position > 0:
            best = max(best, self._cells[position], key=lambda cell: cell[0])
            position -= position & -position
        return best
