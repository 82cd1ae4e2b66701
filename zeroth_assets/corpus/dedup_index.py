"""The inverted index: which documents share shingles, for all pairs at once.

What belongs here: sparse counting over sorted shingle hashes, the choice between a sample and all shingles, and the
error of an estimate. Nothing here knows a document's text or name.

Every pair is counted, as in a product of the (documents x shingles) incidence matrix with its transpose; no pair is
left to chance, as with the bands of MinHash. What is estimated is a pair's containment, from the shingles that the
sample keeps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zeroth_assets.corpus.shingles import Hashes, sampled

# At a containment of 0.8 an estimate from 64 shingles has a standard error of 0.05; with fewer, all shingles are used.
MIN_SAMPLED = 64
# A pair is looked at in full when its estimate is not this many standard errors below the threshold (3 in 100,000
# miss).
SAFETY_ERRORS = 4.0
_Z95 = 1.959963984540054
_ROWS_AT_A_TIME = 256

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Two documents, by position: `smaller` has no more shingles than `larger` (of equals, the earlier one).

    `shared` of the smaller's `kept` shingles are in the larger; `by_sample` says whether they are a sample or all.
    """

    smaller: int
    larger: int
    shared: int
    kept: int
    by_sample: bool

    @property
    def estimate(self) -> float:
        """Containment of the smaller in the larger, as counted."""
        return self.shared / self.kept


@dataclass(frozen=True, slots=True)
class Estimate:
    """A containment from `kept` of `total` shingles, its standard error and its 95 % interval."""

    value: float
    standard_error: float
    low: float
    high: float


class ShingleIndex:
    """Distinct shingles of all documents, each a sorted array, and their samples."""

    def __init__(self, full: Sequence[Hashes]) -> None:
        self.full = list(full)
        self.kept = [sampled(hashes) for hashes in self.full]
        self.sizes: IntArray = np.array([len(h) for h in self.full], dtype=np.int64)
        self.is_long: NDArray[np.bool_] = np.array([len(k) >= MIN_SAMPLED for k in self.kept], dtype=bool)

    def extended(self, full: Sequence[Hashes]) -> ShingleIndex:
        """An index with more documents at the end."""
        return ShingleIndex([*self.full, *full])

    def ordered(self, first: int, second: int) -> tuple[int, int]:
        """The two positions, the smaller document first."""
        one, two = sorted((first, second), key=lambda i: (self.sizes[i], i))
        return one, two

    def shared(self, first: int, second: int) -> int:
        """How many distinct shingles two documents have in common."""
        return len(np.intersect1d(self.full[first], self.full[second], assume_unique=True))

    def compare(self, first: int, second: int) -> Candidate:
        """One pair as the index counts it: by sample, or in full where the smaller is short."""
        smaller, larger = self.ordered(first, second)
        by_sample = bool(self.is_long[smaller])
        sets = self.kept if by_sample else self.full
        shared = len(np.intersect1d(sets[smaller], sets[larger], assume_unique=True))
        return Candidate(smaller, larger, shared, len(sets[smaller]), by_sample)

    def candidates(self, threshold: float) -> list[Candidate]:
        """All pairs whose containment may reach `threshold`: by sample with a margin of safety, in full without."""
        found = itertools.chain(self._long_pairs(threshold), self._short_pairs(threshold))
        return sorted(found, key=lambda c: (c.smaller, c.larger))

    def _long_pairs(self, threshold: float) -> Iterator[Candidate]:
        members = np.flatnonzero(self.is_long)
        matrix, _ = _incidence([self.kept[i] for i in members])
        kept = np.array([len(self.kept[i]) for i in members], dtype=np.int64)
        cuts = threshold - SAFETY_ERRORS * np.sqrt(threshold * (1 - threshold) / np.maximum(kept, 1))
        for rows, columns, shared in _overlaps(matrix, matrix):
            smaller, larger = members[rows], members[columns]
            likely = self._is_smaller(smaller, larger) & (shared >= cuts[rows] * kept[rows])
            yield from _named(smaller[likely], larger[likely], shared[likely], kept[rows[likely]], by_sample=True)

    def _short_pairs(self, threshold: float) -> Iterator[Candidate]:
        """Short documents in all others: only shingles of short documents need to be indexed."""
        members = np.flatnonzero(~self.is_long & (self.sizes > 0))
        if not len(members):
            return
        short, vocabulary = _incidence([self.full[i] for i in members])
        everyone = _incidence_in(vocabulary, self.full)
        for rows, larger, shared in _overlaps(short, everyone):
            smaller = members[rows]
            likely = self._is_smaller(smaller, larger) & (shared / self.sizes[smaller] >= threshold)
            sizes = self.sizes[smaller[likely]]
            yield from _named(smaller[likely], larger[likely], shared[likely], sizes, by_sample=False)

    def _is_smaller(self, first: IntArray, second: IntArray) -> NDArray[np.bool_]:
        """Where `first` is the smaller of a pair; False where a document meets itself."""
        sizes = self.sizes
        ahead: NDArray[np.bool_] = (sizes[first] < sizes[second]) | ((sizes[first] == sizes[second]) & (first < second))
        return ahead


def estimate_of(shared: int, kept: int, total: int) -> Estimate:
    """Containment from a sample of `kept` out of `total` shingles, `shared` of them in the other document.

    The kept shingles are a simple random sample of all, drawn without replacement, so the variance is p (1 - p) /
    kept x (total - kept) / (total - 1) (Cochran, Sampling Techniques, 1977, eq. 3.8). The interval is Wilson's
    (1927), whose lower end says something even where p is 1, for the number of draws with that variance.

    >>> estimate_of(80, 100, 1600)
    Estimate(value=0.8, standard_error=0.03874..., low=0.7..., high=0.8...)
    >>> estimate_of(80, 100, 100).standard_error
    0.0
    """
    share = shared / kept
    if kept >= total:
        return Estimate(share, 0.0, share, share)
    draws = kept * (total - 1) / (total - kept)
    error = math.sqrt(share * (1 - share) / draws)
    scale = 1 + _Z95**2 / draws
    centre = (share + _Z95**2 / (2 * draws)) / scale
    half = _Z95 / scale * math.sqrt(share * (1 - share) / draws + _Z95**2 / (4 * draws**2))
    # Rounding must not leave the share outside its own interval at 0 and 1.
    return Estimate(share, error, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)))


def _named(
    smaller: IntArray, larger: IntArray, shared: IntArray, kept: IntArray, *, by_sample: bool
) -> Iterator[Candidate]:
    columns = (smaller.tolist(), larger.tolist(), shared.tolist(), kept.tolist())
    for values in zip(*columns, strict=True):
        yield Candidate(*values, by_sample=by_sample)


def _incidence(sets: Sequence[Hashes]) -> tuple[sparse.csr_array, Hashes]:
    """Which row holds which shingle, as 0/1 over the shingles that occur (sorted, returned beside it)."""
    if not sets:
        return sparse.csr_array((0, 0), dtype=np.int32), np.empty(0, dtype=np.uint64)
    vocabulary, columns = np.unique(np.concatenate(sets), return_inverse=True)
    starts = np.concatenate([[0], np.cumsum([len(s) for s in sets])])
    ones = np.ones(len(columns), dtype=np.int32)
    return sparse.csr_array((ones, columns, starts), shape=(len(sets), len(vocabulary))), vocabulary


def _incidence_in(vocabulary: Hashes, sets: Sequence[Hashes]) -> sparse.csr_array:
    """As `_incidence`, over a given sorted vocabulary; shingles outside it are left out."""
    columns: list[IntArray] = []
    for hashes in sets:
        found = np.minimum(np.searchsorted(vocabulary, hashes), len(vocabulary) - 1)
        columns.append(found[vocabulary[found] == hashes])
    starts = np.concatenate([[0], np.cumsum([len(c) for c in columns])])
    flat = np.concatenate(columns)
    return sparse.csr_array((np.ones(len(flat), dtype=np.int32), flat, starts), shape=(len(sets), len(vocabulary)))


def _overlaps(rows: sparse.csr_array, columns: sparse.csr_array) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """(row, column, shared shingles) of all pairs that share any, a few rows at a time so that memory stays bounded."""
    transposed = columns.T.tocsr()
    for start in range(0, rows.shape[0], _ROWS_AT_A_TIME):
        counts = (rows[start : start + _ROWS_AT_A_TIME] @ transposed).tocoo()
        yield counts.row.astype(np.int64) + start, counts.col.astype(np.int64), counts.data.astype(np.int64)
