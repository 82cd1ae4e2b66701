"""TREC files: qrels (`query 0 document grade`) and runs (`query Q0 document rank score tag`).

What belongs here: both formats, read and written, with errors that name the line.

The tie rule: a run is ranked by score, highest first, equal scores by document id, ascending. trec_eval breaks ties the
other way round, and some tools round scores before; so what is written has rank-derived scores, n, n - 1, ..., 1, which
no tool can see differently.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from zeroth_assets.artefacts import write_atomic
from zeroth_assets.evaluation.golden.lines import grade_at, lines_of, refusal, score_at
from zeroth_assets.evaluation.golden.model import GoldenError
from zeroth_assets.evaluation.golden.span_measures import ranked_run
from zeroth_assets.evaluation.metric_tables import QRELS_SCHEMA, RUN_SCHEMA


@dataclass(frozen=True, slots=True)
class TrecRun:
    """A run as `metric_tables.evaluate` takes it, its tag, and how many results share a score with another one."""

    run: pl.DataFrame
    tag: str
    tied: int


def read_qrels(
    path: Path, *, queries: Container[str] | None = None, documents: Container[str] | None = None
) -> pl.DataFrame:
    """Qrels in `metric_tables.QRELS_SCHEMA`. With `queries` or `documents`, other ids are refused.

    Raises:
        GoldenError: a line has not four columns, a grade out of range, an unknown id or a pair that came before; or the
            file holds no line.
    """
    rows: dict[tuple[str, str], tuple[str, str, int]] = {}
    for number, line in lines_of(path):
        columns = line.split()
        if len(columns) != 4:
            raise refusal(
                path, number, expected="4 columns: query, 0, document, grade", found=f"{len(columns)} columns"
            )
        query, _, document, raw = columns
        _check_ids(path, number, query, document, queries, documents)
        if (query, document) in rows:
            raise refusal(
                path, number, expected="each document once for a query", found=f"{document} again for {query}"
            )
        rows[query, document] = (query, document, grade_at(path, number, raw))
    if not rows:
        raise GoldenError(f"{path.name} holds no judgment", expected="at least one line")
    return pl.DataFrame(list(rows.values()), schema=QRELS_SCHEMA, orient="row")


def write_qrels(qrels: pl.DataFrame, path: Path) -> None:
    """Write qrels, ordered by query and document."""
    ordered = qrels.select(QRELS_SCHEMA.names()).sort("query_id", "document_id")
    _check_words(ordered)
    lines = [f"{query} 0 {document} {grade}\n" for query, document, grade in ordered.iter_rows()]
    write_atomic(path, "".join(lines).encode(), mode=0o644)


def read_run(path: Path, *, queries: Container[str] | None = None, documents: Container[str] | None = None) -> TrecRun:
    """A run by its scores; the column of ranks is read over, as trec_eval does.

    Raises:
        GoldenError: a line has not six columns, a score that is no finite number, an unknown id, a document that came
            before for its query, or another tag than the first; or the file holds no line.
    """
    rows: dict[tuple[str, str], tuple[str, str, float]] = {}
    tag: str | None = None
    for number, line in lines_of(path):
        columns = line.split()
        if len(columns) != 6:
            expected = "6 columns: query, Q0, document, rank, score, tag"
            raise refusal(path, number, expected=expected, found=f"{len(columns)} columns")
        query, _, document, _, raw, name = columns
        _check_ids(path, number, query, document, queries, documents)
        if (query, document) in rows:
            raise refusal(
                path, number, expected="each document once for a query", found=f"{document} again for {query}"
            )
        if tag is not None and name != tag:
            raise refusal(path, number, expected=f"one run, {tag}", found=f"the tag {name}")
        tag = name
        rows[query, document] = (query, document, score_at(path, number, raw))
    if tag is None:
        raise GoldenError(f"{path.name} holds no result", expected="at least one line")
    run = pl.DataFrame(list(rows.values()), schema=RUN_SCHEMA, orient="row")
    return TrecRun(run, tag, int(run.select("query_id", "score").is_duplicated().sum()))


def write_run(run: pl.DataFrame, path: Path, *, tag: str) -> None:
    """Write a run with rank-derived scores, best first within each query.

    Raises:
        GoldenError: the tag or an id is not one word.
        MeasurementError: a document twice for a query, or a score that is not finite.
    """
    if len(tag.split()) != 1:
        raise GoldenError("A run's tag is not one word", expected="a tag without white space", found=repr(tag))
    ranked = ranked_run(run).with_columns((pl.len().over("query_id") - pl.col("rank") + 1).alias("derived"))
    _check_words(ranked)
    lines = [
        f"{query} Q0 {document} {rank} {derived} {tag}\n"
        for query, document, rank, derived in ranked.select("query_id", "document_id", "rank", "derived").iter_rows()
    ]
    write_atomic(path, "".join(lines).encode(), mode=0o644)


def _check_ids(
    path: Path,
    number: int,
    query: str,
    document: str,
    queries: Container[str] | None,
    documents: Container[str] | None,
) -> None:
    if queries is not None and query not in queries:
        raise refusal(path, number, expected="a query that is known", found=repr(query))
    if documents is not None and document not in documents:
        raise refusal(path, number, expected="a document that is known", found=repr(document))


def _check_words(frame: pl.DataFrame) -> None:
    for column in ("query_id", "document_id"):
        bad = frame.filter(pl.col(column).str.contains(r"\s|^$"))
        if bad.height:
            raise GoldenError(
                "An id cannot stand in a TREC file", expected="ids without white space", found=repr(bad[column][0])
            )
