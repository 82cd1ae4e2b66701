"""The best chunks for a query's terms, exactly, without scoring them all.

What belongs here: the postings of several tenants as one row of numbered chunks, and finding the top of it. Nothing
here knows who asks or what a term is worth.

Terms are taken rarest first. Once the k-th best score exceeds all that the terms still to come could add, only chunks
that can still reach it are scored further, each looked up in the long lists of the common terms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zeroth_assets.search.postings import Array, Postings

# Costs in entries of a list that could be added in the same time: to look a chunk up in a list, to begin a list at all.
_LOOKUP = 16
_BEGIN = 1024
# Whether a top can be told is tried when the terms so far could give this often what the others could, and again
# whenever those others could give so much less: measured, since a try costs as much as a list.
_REACHED = 4
_FALLEN = 0.6
# Scores are float64 sums of at most a few thousand terms; a bound must not fail by their rounding.
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """A term of a query: `weight` = query count x idf x (k1 + 1), which its contribution never exceeds."""

    term: str
    query_count: int
    df: int
    idf: float
    weight: float
    ranges: tuple[tuple[int, int], ...]  # for each segment, first and end of its entries there


class Segments:
    """Postings in a row: the chunks of each are numbered after those of the one before."""

    def __init__(self, postings: Sequence[Postings]) -> None:
        self.postings = tuple(p for p in postings if p.size)
        self._offsets = [0, *itertools.accumulate(p.size for p in self.postings)]
        self.chunks = self._offsets[-1]
        self.lengths: Array = np.concatenate([np.zeros(0, dtype=np.uint32), *(p.lengths for p in self.postings)])
        parts = [part for p in self.postings for part in p.parts]
        self._tenants = tuple(part.tenant for part in parts)
        self._tenant_ends = np.cumsum([part.chunks for part in parts], dtype=np.int64)

    def number(self, chunk_id: int) -> int | None:
        """The number of a chunk, or None."""
        for offset, postings in zip(self._offsets[:-1], self.postings, strict=True):
            place = postings.place(chunk_id)
            if place is not None:
                return offset + place
        return None

    def add(self, scores: Array, norms: Array, terms: list[QueryTerm]) -> None:
        """Add what `terms` give to every chunk; for each chunk in their order, so that equal chunks score alike."""
        if not terms:
            return
        weights = np.array([term.weight for term in terms])
        for segment, postings in enumerate(self.postings):
            ranges = [term.ranges[segment] for term in terms]
            numbers = np.concatenate([postings.chunks[first:end] for first, end in ranges]).astype(np.intp)
            if not len(numbers):
                continue
            numbers += self._offsets[segment]
            tf = np.concatenate([postings.counts[first:end] for first, end in ranges]).astype(np.float64)
            weight = np.repeat(weights, [end - first for first, end in ranges])
            np.add.at(scores, numbers, weight * (tf / (tf + norms[numbers])))

    def frequencies(self, term: QueryTerm, numbers: Array) -> Array:
        """How often `term` is in each of the chunks, given in ascending order; float64."""
        frequencies = np.zeros(len(numbers))
        for segment, (first, end) in enumerate(term.ranges):
            if first == end:
                continue
            postings, offset = self.postings[segment], self._offsets[segment]
            inside = self._inside(numbers, segment)
            listed = postings.chunks[first:end]
            # In the type of the list: another would make NumPy convert the whole list first.
            wanted = (numbers[inside] - offset).astype(listed.dtype)
            at = listed.searchsorted(wanted)
            at[at == end - first] = 0
            frequencies[inside] = np.where(listed[at] == wanted, postings.counts[first:end][at], 0)
        return frequencies

    def ids(self, numbers: Array) -> Array:
        """The ids of chunks, given in ascending order."""
        ids = np.empty(len(numbers), dtype=np.int64)
        for segment, postings in enumerate(self.postings):
            inside = self._inside(numbers, segment)
            ids[inside] = postings.chunk_ids[numbers[inside] - self._offsets[segment]]
        return ids

    def _inside(self, numbers: Array, segment: int) -> slice:
        """Which of `numbers`, ascending, are chunks of a segment."""
        if len(self.postings) == 1:
            return slice(0, len(numbers))
        first, end = self._offsets[segment], self._offsets[segment + 1]
        return slice(int(numbers.searchsorted(first)), int(numbers.searchsorted(end)))

    def tenant(self, number: int) -> str:
        """Whose chunk it is."""
        return self._tenants[int(np.searchsorted(self._tenant_ends, number, side="right"))]


def best_scores(segments: Segments, norms: Array, terms: list[QueryTerm], k: int) -> tuple[Array, Array]:
    """Numbers of the chunks that can be among the best k, and their scores."""
    scores = np.zeros(segments.chunks)
    left = sum(term.df for term in terms)
    ahead = math.fsum(term.weight for term in terms)
    slack = ahead * _SLACK
    behind, waiting, tried = 0.0, 0, math.inf
    for i, term in enumerate(terms):
        left, ahead, behind = left - term.df, ahead - term.weight, behind + term.weight
        cost = (len(terms) - i - 1) * _BEGIN * len(segments.postings)
        early = behind <= _REACHED * ahead or ahead > _FALLEN * tried
        if early or left < cost + segments.chunks // 8:
            continue
        segments.add(scores, norms, terms[waiting : i + 1])
        waiting, tried = i + 1, ahead
        numbers = _within_reach(scores, ahead + slack, k)
        if numbers is not None and cost + len(numbers) * _LOOKUP * (len(terms) - waiting) < left:
            return _finished(segments, norms, numbers, scores[numbers], terms[waiting:], ahead, slack, k)
    segments.add(scores, norms, terms[waiting:])
    numbers = np.flatnonzero(scores >= max(kth_best(scores, k), np.finfo(np.float64).tiny))
    return numbers, scores[numbers]


def _finished(
    segments: Segments,
    norms: Array,
    numbers: Array,
    scores: Array,
    terms: list[QueryTerm],
    ahead: float,
    slack: float,
    k: int,
) -> tuple[Array, Array]:
    for term in terms:
        frequencies = segments.frequencies(term, numbers)
        held = np.flatnonzero(frequencies > 0)
        tf = frequencies[held]
        scores[held] += term.weight * (tf / (tf + norms[numbers[held]]))
        ahead -= term.weight
        if len(numbers) > 16 * k:
            kept = np.flatnonzero(scores >= kth_best(scores, k) - ahead - slack)
            numbers, scores = numbers[kept], scores[kept]
    return numbers, scores


def kth_best(scores: Array, k: int) -> float:
    """The k-th best of `scores`; 0 if there are fewer."""
    return float(np.partition(scores, len(scores) - k)[len(scores) - k]) if len(scores) >= k else 0.0


def _within_reach(scores: Array, ahead: float, k: int) -> Array | None:
    """Numbers of the scores that can be among the best k if up to `ahead` is added to any; None if all others can."""
    leading = scores[scores > ahead]
    if len(leading) < k:
        return None
    return np.flatnonzero(scores >= kth_best(leading, k) - ahead)
