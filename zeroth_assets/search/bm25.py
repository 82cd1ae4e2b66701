"""BM25 over the postings of the tenants that a principal may see, with the arithmetic of every score.

What belongs here: ranking and its explanation. The caller names the tenants, from the principal's verified claim, by
handing over their postings: N, df and average length are computed over those and nothing else, so that no other
tenant's words can move a score. Nothing is kept between indexes; an index lives no longer than the grants that it was
made for. Row-level security does not reach postings: **every hit must be read again as `zeroth_app` before it leaves**.

Ranking is exact. Terms are taken rarest first. Once the k-th best score exceeds all that the terms still to come could
add, only chunks that can still reach it are scored further, each looked up in the long lists of the common terms.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zeroth_assets.errors import QueryError
from zeroth_assets.search.analyser import DEFAULT_ANALYSER, Analyser, analyser_named
from zeroth_assets.search.explanation import Explanation, TermShare
from zeroth_assets.search.postings import (
    Array,
    Postings,
    check_together,
    spelled_out,
    term_hashes,
)
from zeroth_assets.search.postings_build import build_postings
from zeroth_assets.search.postings_join import join_postings
from zeroth_assets.search.scoring import DEFAULT_SCORING, Scoring, scoring_named

MAX_QUERY = 1 << 17
# Costs in entries of a list that could be added in the same time: to look a chunk up in a list, to begin a list at all.
_LOOKUP = 16
_BEGIN = 1024
# The k-th best score is seldom half of what the terms so far could give at most; trying earlier is wasted.
_REACHED = 2
# Scores are float64 sums of at most a few thousand terms; a bound must not fail by their rounding.
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk with its score, rank from 1. Not to leave the process before it was read again under the policy."""

    chunk_id: int
    score: float
    rank: int
    tenant: str


@dataclass(frozen=True, slots=True)
class _Term:
    """A term of a query: `weight` = query count x idf x (k1 + 1), which its contribution never exceeds."""

    term: str
    query_count: int
    df: int
    idf: float
    weight: float
    ranges: tuple[tuple[int, int], ...]  # for each segment, first and end of its entries there


class BM25Index:
    """What one principal may search."""

    def __init__(self, postings: Sequence[Postings], scoring: Scoring | None = None) -> None:
        """An index over `postings`, one per permitted tenant; none is an index that finds nothing.

        Raises:
            ArtefactError: a tenant is there twice, or they differ in chunk set or analyser.
        """
        check_together(postings)
        self._segments = tuple(p for p in postings if p.size)
        self.scoring = scoring or scoring_named(DEFAULT_SCORING)
        self.analyser: Analyser = analyser_named(postings[0].analyser if postings else DEFAULT_ANALYSER)
        sizes = [p.size for p in self._segments]
        self._offsets = [0, *itertools.accumulate(sizes)]
        self.chunks = self._offsets[-1]
        self._lengths = np.concatenate([np.zeros(0, dtype=np.uint32), *(p.lengths for p in self._segments)])
        total = int(self._lengths.sum(dtype=np.int64))
        self.average_length = total / self.chunks if self.chunks else 0.0
        k1, b = self.scoring.k1, self.scoring.b
        relative = self._lengths / self.average_length if total else np.zeros(self.chunks)
        self._norms = k1 * (1 - b + b * relative)
        parts = [part for p in self._segments for part in p.parts]
        self._tenants = tuple(part.tenant for part in parts)
        self._tenant_ends = np.cumsum([part.chunks for part in parts], dtype=np.int64)

    @classmethod
    def build(
        cls,
        chunks: Mapping[int, str] | Iterable[tuple[int, str]],
        *,
        tenant: str = "one",
        chunk_set: str = "unnamed",
        analyser: str = DEFAULT_ANALYSER,
        scoring: str | Scoring = DEFAULT_SCORING,
        k1: float | None = None,
        b: float | None = None,
    ) -> BM25Index:
        """An index over chunks in memory, `{id: text}` or pairs of them.

        >>> index = BM25Index.build({1: "idle timeout", 2: "transport error and idle timeout", 3: "packet number"})
        >>> [(hit.chunk_id, round(hit.score, 4)) for hit in index.search("idle TIMEOUT")]
        [(1, 1.1059), (2, 0.7231)]

        Raises:
            ChunkingError: an id is there twice.
            QueryError: there is no such analyser or scoring, or k1 or b is impossible.
        """
        pairs = list(chunks.items() if isinstance(chunks, Mapping) else chunks)
        postings = build_postings(
            [chunk_id for chunk_id, _ in pairs],
            [text for _, text in pairs],
            tenant=tenant,
            chunk_set=chunk_set,
            analyser=analyser_named(analyser),
        )
        if isinstance(scoring, str):
            scoring = scoring_named(scoring, k1=k1, b=b)
        elif k1 is not None or b is not None:
            raise QueryError("k1 or b is given twice", expected="a Scoring, or its name with k1 and b", found="both")
        return cls([postings], scoring)

    def joined(self) -> BM25Index:
        """The same index over one copy of all its postings: faster to search, for a principal with many tenants."""
        return BM25Index([join_postings(self._segments)], self.scoring) if len(self._segments) > 1 else self

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """At most `k` chunks that hold a term of `query`, best first, equal scores by chunk id. Scores are above 0.

        Raises:
            QueryError: k is below 1, or the query is too long or holds nothing that can be searched for.
        """
        return self.search_terms(self.query_terms(query), k)

    def search_terms(self, terms: Iterable[str], k: int = 10) -> list[Hit]:
        """As `search`, for terms of this index's analyser; a term given twice counts twice."""
        if not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise QueryError(
                "The number of results is impossible", expected="a whole number of at least 1", found=repr(k)
            )
        found = [term for term in self._located(Counter(terms)) if term.weight > 0]
        numbers, scores = self._scored(found, k)
        return self._ranked(numbers, scores, k)

    def query_terms(self, query: str) -> list[str]:
        """The terms of a query, in order.

        Raises:
            QueryError: it is too long, or holds none.
        """
        if len(query) > MAX_QUERY:
            raise QueryError(
                "The query is too long",
                expected=f"at most {MAX_QUERY:,} characters",
                found=f"{len(query):,}",
                remedy="ask for less at once",
            )
        terms = [term for word in query.split() for term in self.analyser.terms(word)]
        if not terms:
            raise QueryError(
                "The query holds nothing that can be searched for",
                expected="a letter, a digit, or a symbol such as §",
                found=repr(query[:60]),
            )
        return terms

    def explain(self, query: str, chunk_id: int) -> Explanation:
        """The arithmetic of the score of `chunk_id`: terms in the order of the query, shares that sum to the score.

        Raises:
            QueryError: as `search`, or no such chunk is among the tenants of this index (whether or not it exists).
        """
        terms = self.query_terms(query)
        at = next(
            (
                (segment, place)
                for segment, postings in enumerate(self._segments)
                if (place := postings.place(chunk_id)) is not None
            ),
            None,
        )
        if at is None:
            raise QueryError(
                f"There is no chunk {chunk_id} to explain",
                expected="a chunk of a tenant that you may see",
                found="none",
            )
        segment, place = at
        number = self._offsets[segment] + place
        length = int(self._lengths[number])
        factor = self.scoring.length_factor(length, self.average_length)
        shares = []
        for term in self._located(Counter(terms), all_terms=True):
            tf = int(self._frequencies(term, np.array([number]))[0])
            saturation = self.scoring.saturation(tf, factor)
            score = term.query_count * term.idf * saturation
            shares.append(TermShare(term.term, term.query_count, tf, term.df, term.idf, saturation, score))
        shares.sort(key=lambda share: terms.index(share.term))
        return Explanation(
            chunk_id=chunk_id,
            tenant=self._tenant(number),
            score=math.fsum(share.score for share in shares),
            length=length,
            average_length=self.average_length,
            length_factor=factor,
            chunks=self.chunks,
            scoring=self.scoring,
            terms=tuple(shares),
        )

    def _located(self, terms: Counter[str], *, all_terms: bool = False) -> list[_Term]:
        """Terms with their places, rarest first, equal ones by spelling; those that no chunk holds if asked for."""
        names = list(terms)
        spelled = [spelled_out(term) for term in names]
        hashes = term_hashes(spelled)
        located = []
        for name, *ranges in zip(names, *(p.ranges(spelled, hashes) for p in self._segments), strict=True):
            df = sum(end - first for first, end in ranges)
            if df or all_terms:
                idf = self.scoring.idf_of(self.chunks, df)
                weight = terms[name] * idf * (self.scoring.k1 + 1)
                located.append(_Term(name, terms[name], df, idf, weight, tuple(ranges)))
        located.sort(key=lambda term: (term.df, term.term))
        return located

    def _scored(self, terms: list[_Term], k: int) -> tuple[Array, Array]:
        """Numbers of the chunks that can be among the best k, and their scores."""
        scores = np.zeros(self.chunks)
        left = sum(term.df for term in terms)
        ahead = math.fsum(term.weight for term in terms)
        slack = ahead * _SLACK
        behind, waiting = 0.0, 0
        for i, term in enumerate(terms):
            left, ahead, behind = left - term.df, ahead - term.weight, behind + term.weight
            cost = (len(terms) - i - 1) * _BEGIN * len(self._segments)
            if behind <= _REACHED * ahead or left < cost + self.chunks // 8:
                continue
            self._add(scores, terms[waiting : i + 1])
            waiting = i + 1
            numbers = _within_reach(scores, ahead + slack, k)
            if numbers is not None and cost + len(numbers) * _LOOKUP * (len(terms) - waiting) < left:
                return self._finished(numbers, scores[numbers], terms[waiting:], ahead, slack, k)
        self._add(scores, terms[waiting:])
        numbers = np.flatnonzero(scores >= max(_kth_best(scores, k), np.finfo(np.float64).tiny))
        return numbers, scores[numbers]

    def _finished(
        self, numbers: Array, scores: Array, terms: list[_Term], ahead: float, slack: float, k: int
    ) -> tuple[Array, Array]:
        for term in terms:
            frequencies = self._frequencies(term, numbers)
            held = np.flatnonzero(frequencies > 0)
            tf = frequencies[held]
            scores[held] += term.weight * (tf / (tf + self._norms[numbers[held]]))
            ahead -= term.weight
            if len(numbers) > 16 * k:
                kept = np.flatnonzero(scores >= _kth_best(scores, k) - ahead - slack)
                numbers, scores = numbers[kept], scores[kept]
        return numbers, scores

    def _add(self, scores: Array, terms: list[_Term]) -> None:
        """Add what `terms` give to every chunk; for each chunk in their order, so that equal chunks score alike."""
        if not terms:
            return
        weights = np.array([term.weight for term in terms])
        for segment, postings in enumerate(self._segments):
            ranges = [term.ranges[segment] for term in terms]
            numbers = np.concatenate([postings.chunks[first:end] for first, end in ranges]).astype(np.intp)
            if not len(numbers):
                continue
            numbers += self._offsets[segment]
            tf = np.concatenate([postings.counts[first:end] for first, end in ranges]).astype(np.float64)
            weight = np.repeat(weights, [end - first for first, end in ranges])
            np.add.at(scores, numbers, weight * (tf / (tf + self._norms[numbers])))

    def _frequencies(self, term: _Term, numbers: Array) -> Array:
        """How often `term` is in each of the chunks, given in ascending order; float64."""
        frequencies = np.zeros(len(numbers))
        for segment, (first, end) in enumerate(term.ranges):
            if first == end:
                continue
            postings, offset = self._segments[segment], self._offsets[segment]
            inside = self._inside(numbers, segment)
            listed = postings.chunks[first:end]
            # In the type of the list: another would make NumPy convert the whole list first.
            wanted = (numbers[inside] - offset).astype(listed.dtype)
            at = listed.searchsorted(wanted)
            at[at == end - first] = 0
            frequencies[inside] = np.where(listed[at] == wanted, postings.counts[first:end][at], 0)
        return frequencies

    def _ranked(self, numbers: Array, scores: Array, k: int) -> list[Hit]:
        kept = scores >= _kth_best(scores, k)
        numbers, scores = numbers[kept], scores[kept]
        ids = self._ids(numbers)
        best = np.lexsort((ids, -scores))[:k]
        return [
            Hit(chunk_id, score, rank, self._tenant(number))
            for rank, (chunk_id, score, number) in enumerate(
                zip(ids[best].tolist(), scores[best].tolist(), numbers[best].tolist(), strict=True), 1
            )
        ]

    def _ids(self, numbers: Array) -> Array:
        ids = np.empty(len(numbers), dtype=np.int64)
        for segment, postings in enumerate(self._segments):
            inside = self._inside(numbers, segment)
            ids[inside] = postings.chunk_ids[numbers[inside] - self._offsets[segment]]
        return ids

    def _inside(self, numbers: Array, segment: int) -> slice:
        """Which of `numbers`, ascending, are chunks of a segment."""
        if len(self._segments) == 1:
            return slice(0, len(numbers))
        first, end = self._offsets[segment], self._offsets[segment + 1]
        return slice(int(numbers.searchsorted(first)), int(numbers.searchsorted(end)))

    def _tenant(self, number: int) -> str:
        return self._tenants[int(np.searchsorted(self._tenant_ends, number, side="right"))]


def _kth_best(scores: Array, k: int) -> float:
    """The k-th best of `scores`; 0 if there are fewer."""
    return float(np.partition(scores, len(scores) - k)[len(scores) - k]) if len(scores) >= k else 0.0


def _within_reach(scores: Array, ahead: float, k: int) -> Array | None:
    """Numbers of the scores that can be among the best k if up to `ahead` is added to any; None if all others can."""
    leading = scores[scores > ahead]
    if len(leading) < k:
        return None
    return np.flatnonzero(scores >= _kth_best(leading, k) - ahead)
