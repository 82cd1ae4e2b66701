"""Why a chunk has its BM25 score.

What belongs here: the explanation as data, and as text for a terminal.
"""

from __future__ import annotations

from dataclasses import dataclass

from zeroth_assets.search.scoring import Scoring


@dataclass(frozen=True, slots=True)
class TermShare:
    """What one term gives: `score` = `query_count` x `idf` x `saturation`, and 0 where the chunk lacks it."""

    term: str
    query_count: int
    tf: int
    df: int
    idf: float
    saturation: float
    score: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """A score and its terms, which sum to it. `chunks` and `average_length` are those of the tenants searched."""

    chunk_id: int
    tenant: str
    score: float
    length: int
    average_length: float
    length_factor: float
    chunks: int
    scoring: Scoring
    terms: tuple[TermShare, ...]

    def shares(self) -> tuple[float, ...]:
        """Each term's part of the score, 0 to 1; all 0 where the score is."""
        return tuple(term.score / self.score if self.score else 0.0 for term in self.terms)

    def lines(self) -> list[str]:
        """The arithmetic, a line for each term and one for what they have in common."""
        scoring = self.scoring
        head = (
            f"{self.score:.6f} = sum of idf ({scoring.idf}) x saturation, k1 = {scoring.k1:g}, b = {scoring.b:g}; "
            f"length {self.length} of {self.average_length:.1f} on average over {self.chunks} chunks: "
            f"length factor {self.length_factor:.4f}"
        )
        return [
            head,
            *(
                f"{term.score:10.6f} ({share:6.1%})  {term.term!r}"
                f"{f' x {term.query_count}' if term.query_count > 1 else ''}: "
                f"tf {term.tf}, df {term.df}, idf {term.idf:.4f}, saturation {term.saturation:.4f}"
                for term, share in zip(self.terms, self.shares(), strict=True)
            ),
        ]
