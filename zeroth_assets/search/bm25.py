"""BM25 over the postings of the tenants that a principal may see, with the arithmetic of every score.

What belongs here: ranking and its explanation. The caller names the tenants, from the principal's verified claim, by
handing over their postings: N, df and average length are computed over those and nothing else, so that no other
tenant's words can move a score. Nothing is kept between indexes; an index lives no longer than the grants that it was
made for. Row-level security does not reach postings: **every hit must be read again as `zeroth_app` before it leaves**.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zeroth_assets.errors import QueryError
from zeroth_assets.search.analyser import DEFAULT_ANALYSER, Analyser, analyser_named
from zeroth_assets.search.explanation import Explanation, TermShare
from zeroth_assets.search.postings import Array, Postings, check_together, spelled_out, term_hashes
from zeroth_assets.search.postings_build import build_postings
from zeroth_assets.search.postings_join import join_postings
from zeroth_assets.search.ranking import QueryTerm, Segments, best_scores, kth_best
from zeroth_assets.search.scoring import DEFAULT_SCORING, Scoring, scoring_named

MAX_QUERY = 1 << 17


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk with its score, rank from 1. Not to leave the process before it was read again under the policy."""

    chunk_id: int
    score: float
    rank: int
    tenant: str


class BM25Index:
    """What one principal may search."""

    def __init__(self, postings: Sequence[Postings], scoring: Scoring | None = None) -> None:
        """An index over `postings`, one per permitted tenant; none is an index that finds nothing.

        Raises:
            ArtefactError: a tenant is there twice, or they differ in chunk set or analyser.
        """
        check_together(postings)
        self.scoring = scoring or scoring_named(DEFAULT_SCORING)
        self.analyser: Analyser = analyser_named(postings[0].analyser if postings else DEFAULT_ANALYSER)
        self._segments = Segments(postings)
        self.chunks = self._segments.chunks
        total = int(self._segments.lengths.sum(dtype=np.int64))
        self.average_length = total / self.chunks if self.chunks else 0.0
        k1, b = self.scoring.k1, self.scoring.b
        relative = self._segments.lengths / self.average_length if total else np.zeros(self.chunks)
        self._norms = k1 * (1 - b + b * relative)

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
        postings = self._segments.postings
        return BM25Index([join_postings(postings)], self.scoring) if len(postings) > 1 else self

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
        numbers, scores = best_scores(self._segments, self._norms, found, k)
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
        number = self._segments.number(chunk_id)
        if number is None:
            raise QueryError(
                f"There is no chunk {chunk_id} to explain",
                expected="a chunk of a tenant that you may see",
                found="none",
            )
        length = int(self._segments.lengths[number])
        factor = self.scoring.length_factor(length, self.average_length)
        shares = []
        for term in self._located(Counter(terms), all_terms=True):
            tf = int(self._segments.frequencies(term, np.array([number]))[0])
            saturation = self.scoring.saturation(tf, factor)
            score = term.query_count * term.idf * saturation
            shares.append(TermShare(term.term, term.query_count, tf, term.df, term.idf, saturation, score))
        shares.sort(key=lambda share: terms.index(share.term))
        return Explanation(
            chunk_id=chunk_id,
            tenant=self._segments.tenant(number),
            score=math.fsum(share.score for share in shares),
            length=length,
            average_length=self.average_length,
            length_factor=factor,
            chunks=self.chunks,
            scoring=self.scoring,
            terms=tuple(shares),
        )

    def _located(self, terms: Counter[str], *, all_terms: bool = False) -> list[QueryTerm]:
        """Terms with their places, rarest first, equal ones by spelling; those that no chunk holds if asked for."""
        names = list(terms)
        spelled = [spelled_out(term) for term in names]
        hashes = term_hashes(spelled)
        located = []
        for name, *ranges in zip(names, *(p.ranges(spelled, hashes) for p in self._segments.postings), strict=True):
            df = sum(end - first for first, end in ranges)
            if df or all_terms:
                idf = self.scoring.idf_of(self.chunks, df)
                weight = terms[name] * idf * (self.scoring.k1 + 1)
                located.append(QueryTerm(name, terms[name], df, idf, weight, tuple(ranges)))
        located.sort(key=lambda term: (term.df, term.term))
        return located

    def _ranked(self, numbers: Array, scores: Array, k: int) -> list[Hit]:
        kept = scores >= kth_best(scores, k)
        numbers, scores = numbers[kept], scores[kept]
        ids = self._segments.ids(numbers)
        best = np.lexsort((ids, -scores))[:k]
        return [
            Hit(chunk_id, score, rank, self._segments.tenant(number))
            for rank, (chunk_id, score, number) in enumerate(
                zip(ids[best].tolist(), scores[best].tolist(), numbers[best].tolist(), strict=True), 1
            )
        ]
