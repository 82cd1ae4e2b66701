"""Chance that is the same everywhere: choices that depend on a name and on nothing else.

What belongs here: drawing. `random.Random(name).random()` is the one part of the standard generator whose sequence is
promised to stay the same between Python versions, so everything is derived from it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Chooser:
    """A seeded source of choices, with decks that repeat nothing before everything has been drawn."""

    def __init__(self, name: str) -> None:
        self._random = random.Random(name)  # noqa: S311 -- text, not secrets
        self._decks: dict[str, list[int]] = {}

    def below(self, n: int) -> int:
        """An integer in [0, n)."""
        return int(self._random.random() * n)

    def between(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return low + self.below(high - low + 1)

    def pick(self, items: Sequence[T]) -> T:
        """One of `items`."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """`items` in another order (Fisher and Yates, from the end)."""
        pool = list(items)
        for i in range(len(pool) - 1, 0, -1):
            j = self.below(i + 1)
            pool[i], pool[j] = pool[j], pool[i]
        return pool

    def deal(self, deck: str, items: Sequence[T]) -> T:
        """The next card of a named deck of `items`; the deck is shuffled anew when it is used up."""
        left = self._decks.get(deck)
        if not left:
            left = self.shuffled(range(len(items)))
            self._decks[deck] = left
        return items[left.pop()]
