"""What chunk grades cannot say of an arm: how much of the answer's text it brought, and how many of its parts.

What belongs here: the measures over spans that are reported, in words, and their values per query. How they are
computed stands in `golden.span_measures`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from zeroth_assets.evaluation.golden.grades import part_grades
from zeroth_assets.evaluation.golden.span_measures import parts_found, span_overlap_at_k

SPANNED: Final[Mapping[str, str]] = {
    "span_recall@5": "share of the answer's characters that the first 5 chunks hold",
    "span_precision@5": "share of the characters of the first 5 chunks that belong to an answer",
    "span_iou@5": "characters of the answer that the first 5 chunks hold, over those of either",
    "parts_found@10": "share of the needed parts of an answer that a chunk of grade >= 2 among the first 10 holds",
    "all_parts@10": "share of queries all of whose needed parts are so held among the first 10",
}


@dataclass(frozen=True, slots=True)
class Truth:
    """Spans of the answerable queries (`model.SPAN_SCHEMA`), the chunks of one chunk set, and what each is worth."""

    spans: pl.DataFrame
    chunks: pl.DataFrame
    grades: pl.DataFrame

    @classmethod
    def of(cls, spans: pl.DataFrame, chunks: pl.DataFrame) -> Truth:
        """Grade the chunks for the spans; spans of documents without chunks stay needed."""
        return cls(spans, chunks, part_grades(spans, chunks, allow_absent=True))

    def values(self, run: pl.DataFrame, query_ids: pl.Series) -> pl.DataFrame:
        """query_id and a column per measure of `SPANNED`, of those of the queries that have spans.

        Raises:
            MeasurementError: the run holds a chunk that is not of the chunk set.
        """
        spans = self.spans.filter(pl.col("query_id").is_in(query_ids.implode()))
        mine = run.filter(pl.col("query_id").is_in(query_ids.implode()))
        overlaps = span_overlap_at_k(mine, spans, self.chunks, cutoffs=(5,))
        parts = parts_found(mine, spans, self.grades, cutoffs=(10,))
        return overlaps.join(parts, on="query_id").select("query_id", *SPANNED)
