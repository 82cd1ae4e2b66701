"""From spans to graded chunks, by overlap, for any chunk set.

What belongs here: the rule and its vectorised form. The rule, for a chunk and a span:

- 3: the chunk holds the whole span; or, where the span is longer than a chunk, more than half of what one chunk can
  hold. What one chunk can hold is the length of the longest chunk that touches the span; a span is longer than a chunk
  if it is longer than that;
- 2: the chunk holds at least half of the span;
- 1: it holds some of it;
- 0: it holds none (no row).

A span that is worth less than 3 caps all of them. Lengths are in characters.
"""

from __future__ import annotations

import polars as pl

from zeroth_assets.evaluation.golden.model import GoldenError
from zeroth_assets.evaluation.metric_tables import QRELS_SCHEMA

PART_GRADE_SCHEMA = pl.Schema({"query_id": pl.String, "part": pl.Int64, "document_id": pl.String, "grade": pl.Int64})
_PLACE = ["document_id", "document_version", "span_start", "span_end"]


def part_grades(spans: pl.DataFrame, chunks: pl.DataFrame, *, allow_absent: bool = False) -> pl.DataFrame:
    """The grade of each chunk for each part of each query, in `PART_GRADE_SCHEMA`; rows of grade 0 are left out.

    `spans` as `model.SPAN_SCHEMA`; `chunks` has chunk_id, document_id, document_version, char_start, char_end of one
    chunk set. The result's `document_id` is the chunk id as a string, as runs and qrels have it. Where a part has
    alternatives, a chunk has the best of its grades for them.

    Raises:
        GoldenError: a span's document version has no chunk, unless `allow_absent`.
    """
    if not allow_absent:
        absent = spans.join(chunks, on=["document_id", "document_version"], how="anti")
        if absent.height:
            raise GoldenError(
                f"{absent['document_id'].n_unique()} document versions with answers have no chunk",
                expected="chunks of every document that the golden set quotes, in the same version",
                found=f"none of {absent['document_id'][0]}",
                remedy="materialise the chunks of its tenant, or allow absent documents and say so",
            )
    places = (
        spans.select(
            "document_id",
            "document_version",
            pl.col("char_start").alias("span_start"),
            pl.col("char_end").alias("span_end"),
        )
        .unique()
        .lazy()
    )
    cut = chunks.select("chunk_id", "document_id", "document_version", "char_start", "char_end").lazy()
    length = pl.col("span_end") - pl.col("span_start")
    held = pl.min_horizontal("char_end", "span_end") - pl.max_horizontal("char_start", "span_start")
    graded = (
        places.join(cut, on=["document_id", "document_version"])
        .with_columns(
            held.alias("held"), length.alias("length"), (pl.col("char_end") - pl.col("char_start")).alias("size")
        )
        .filter(pl.col("held") > 0)
        .with_columns(pl.col("size").max().over(_PLACE).alias("capacity"))
        .with_columns(
            pl.when(pl.col("held") == pl.col("length"))
            .then(3)
            .when((pl.col("length") > pl.col("capacity")) & (2 * pl.col("held") > pl.col("capacity")))
            .then(3)
            .when(2 * pl.col("held") >= pl.col("length"))
            .then(2)
            .otherwise(1)
            .cast(pl.Int64)
            .alias("by_overlap")
        )
        .select(*_PLACE, "chunk_id", "by_overlap")
    )
    return (
        spans.lazy()
        .select(
            "query_id",
            "part",
            "document_id",
            "document_version",
            pl.col("char_start").alias("span_start"),
            pl.col("char_end").alias("span_end"),
            pl.col("grade").alias("worth"),
        )
        .join(graded, on=_PLACE)
        .group_by("query_id", "part", "chunk_id")
        .agg(pl.min_horizontal("by_overlap", "worth").max().alias("grade"))
        .select("query_id", "part", pl.col("chunk_id").cast(pl.String).alias("document_id"), "grade")
        .sort("query_id", "part", "document_id")
        .collect()
        .cast(PART_GRADE_SCHEMA)
    )


def chunk_qrels(grades: pl.DataFrame) -> pl.DataFrame:
    """Qrels of chunks, in `metric_tables.QRELS_SCHEMA`: for each query and chunk, its best grade over the parts."""
    return (
        grades.group_by("query_id", "document_id")
        .agg(pl.col("grade").max())
        .sort("query_id", "document_id")
        .select(QRELS_SCHEMA.names())
        .cast(QRELS_SCHEMA)
    )


def out_of_reach(
    queries: pl.DataFrame, spans: pl.DataFrame, grades: pl.DataFrame, *, relevant: int = 2
) -> pl.DataFrame:
    """Parts of answerable queries for which no chunk of the set reaches the grade `relevant`: query_id, part.

    A chunk set can lose an answer by where it cuts; such parts cannot be found by any retriever over it.
    """
    needed = spans.join(queries.filter("answerable"), on="query_id", how="semi").select("query_id", "part").unique()
    return needed.join(grades.filter(pl.col("grade") >= relevant), on=["query_id", "part"], how="anti").sort(
        "query_id", "part"
    )
