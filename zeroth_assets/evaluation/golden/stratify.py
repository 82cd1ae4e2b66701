"""Drawing a sample that is even over two strata and spread over documents, by a seed.

What belongs here: the draw, and the turn that a seed gives to a name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np


def turn(seed: int, *names: str) -> str:
    """A name's place in a seeded order, as sortable text; it does not depend on what else is there."""
    return hashlib.sha256("\0".join((str(seed), *names)).encode()).hexdigest()


def stratified(
    keys: Sequence[str], first: Sequence[str], second: Sequence[str], clusters: Sequence[str], *, n: int, seed: int
) -> list[int]:
    """Positions of `n` of the keys (all, if there are fewer), in order of their draw.

    Each draw takes, among all that are left, the one whose strata and cluster hold fewest of those drawn so far; ties
    go by a hash of seed and key.
    """
    order = sorted(range(len(keys)), key=lambda i: turn(seed, keys[i]))
    codes = []
    for labels in (first, second, clusters):
        numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
        codes.append(np.array([numbers[labels[i]] for i in order], dtype=np.int64))
    sizes = [np.zeros(int(code.max()) + 1 if len(code) else 0) for code in codes]
    left = np.ones(len(order), dtype=bool)
    # A stratum of 25 fills faster than one of 41; shares, not counts, are what is kept even. A cluster weighs more.
    weights = [float(len(size)) for size in sizes]
    drawn: list[int] = []
    for _ in range(min(n, len(order))):
        load = sum(weight * size[code] for weight, size, code in zip(weights, sizes, codes, strict=True))
        place = int(np.argmin(np.where(left, load, np.inf)))
        left[place] = False
        for size, code in zip(sizes, codes, strict=True):
            size[code[place]] += 1
        drawn.append(order[place])
    return drawn
