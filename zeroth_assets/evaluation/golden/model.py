"""Queries and the spans that answer them: frames, their rules, and the refusal of whatever breaks one.

What belongs here: the schemas, the checks, and the digest by which a golden set is recognised. No queries are made
here.

Truth is a span of a document version. It says nothing of chunks, so every way of cutting is judged by the same truth.
A query needs all its parts; the spans of one part are alternatives, of which one is enough. Query ids begin with `q:`
and no document id does, so neither can ever be taken for the other. No refusal quotes a document.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final

import polars as pl

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.metrics import MAX_GRADE

CATEGORIES: Final = ("single_chunk", "multi_chunk", "cross_document", "tenant_scoped", "unanswerable")
IMPORTED: Final = "imported"  # the category of queries from elsewhere, whose truth is of whole documents
SOURCES: Final = ("expert", "drafted", "imported")
SPLITS: Final = ("calibration", "test")
SCOPES: Final = ("corpus", "document")
SETS: Final = ("core", "extended")
NOT_PERMITTED: Final = "other_tenant"  # the answer lies where the asker may not look
REASONS: Final = (NOT_PERMITTED, "absent_from_corpus", "absent_from_document", "false_premise")
QUERY_PREFIX: Final = "q:"

_QUERY_FIELDS: dict[str, pl.DataType | type[pl.DataType]] = {
    "query_id": pl.String,
    "question_id": pl.String,  # the two scopes of one question share it
    "text": pl.String,
    "category": pl.String,
    "topic": pl.String,  # the experts' label category, or null
    "stratum": pl.String,  # contract type for expert queries, or null
    "source": pl.String,
    "set": pl.String,
    "split": pl.String,
    "scope": pl.String,
    "document_id": pl.String,  # the document that scope `document` searches, else null
    "asker": pl.String,  # the tenant that asks, or null: a principal that may see everything
    "answerable": pl.Boolean,
    "unanswerable_reason": pl.String,
    "about": pl.List(pl.String),  # documents that the text names or was drafted from
    "group": pl.String,  # groups are split whole
    "paraphrased": pl.Boolean,
    "drafter": pl.String,
    "drafted_on": pl.String,
    "verified": pl.String,
    "note": pl.String,
}
QUERY_SCHEMA = pl.Schema(_QUERY_FIELDS)
SPAN_SCHEMA = pl.Schema(
    {
        "query_id": pl.String,
        "part": pl.Int64,
        "document_id": pl.String,
        "document_version": pl.String,
        "char_start": pl.Int64,
        "char_end": pl.Int64,
        "quote": pl.String,
        "grade": pl.Int64,  # what a chunk earns that holds the whole of it
        "origin": pl.String,  # quoted | occurrence | duplicate
    }
)
ORIGINS: Final = ("quoted", "occurrence", "duplicate")

_QUERY_ID = re.compile(r"q:\S+")
_NULLABLE = ("topic", "stratum", "document_id", "asker", "unanswerable_reason", "paraphrased", "drafted_on", "note")


class GoldenError(MeasurementError):
    """A golden set, or a file that one is made from, breaks a rule; the place is named."""


def texts_of(documents: pl.DataFrame) -> dict[tuple[str, str], str]:
    """`{(document_id, version): text}` of a frame of parsed documents.

    Raises:
        GoldenError: a document version comes twice, or a document id begins as a query id does.
    """
    texts: dict[tuple[str, str], str] = {}
    for document_id, version, text in documents.select("document_id", "version", "text").iter_rows():
        if document_id.startswith(QUERY_PREFIX):
            raise GoldenError(
                f"Document {document_id!r} has the id of a query", expected=f"no document id with {QUERY_PREFIX!r}"
            )
        if (document_id, version) in texts:
            raise GoldenError(f"Document {document_id} comes twice in version {version}", expected="one row each")
        texts[document_id, version] = text
    return texts


def check_queries(queries: pl.DataFrame) -> pl.DataFrame:
    """The queries in `QUERY_SCHEMA`, ordered by id.

    Raises:
        GoldenError: columns are missing or of another type, an id is no query id or comes twice, a value is not one of
            those listed above, scope and document contradict each other, an unanswerable query gives no reason.
    """
    queries = _typed(queries, QUERY_SCHEMA, "queries", _NULLABLE)
    bad = next((i for i in queries["query_id"] if not _QUERY_ID.fullmatch(i)), None)
    if bad is not None:
        raise GoldenError(f"{bad!r} is no query id", expected="q: and characters other than space")
    twice = queries.filter(pl.col("query_id").is_duplicated())
    if twice.height:
        raise GoldenError(f"Query {twice['query_id'][0]} comes twice", expected="distinct query ids")
    for column, allowed in (
        ("category", (*CATEGORIES, IMPORTED)),
        ("source", SOURCES),
        ("set", SETS),
        ("split", SPLITS),
        ("scope", SCOPES),
    ):
        _refuse(
            queries.filter(~pl.col(column).is_in(list(allowed))),
            f"has an unknown {column}",
            " | ".join(allowed),
            column,
        )
    scoped = pl.col("scope") == "document"
    _refuse(
        queries.filter(scoped != pl.col("document_id").is_not_null()),
        "names a document without being limited to it, or the other way round",
        "a document_id if and only if the scope is `document`",
        "scope",
    )
    _refuse(
        queries.filter(pl.col("answerable") == pl.col("unanswerable_reason").is_not_null()),
        "is unanswerable without a reason, or answerable with one",
        "a reason if and only if the query is not answerable",
        "answerable",
    )
    unknown = queries.filter(
        pl.col("unanswerable_reason").is_not_null() & ~pl.col("unanswerable_reason").is_in(REASONS)
    )
    _refuse(unknown, "has an unknown reason", " | ".join(REASONS), "unanswerable_reason")
    _refuse(queries.filter(pl.col("text").str.strip_chars() == ""), "has no text", "a question", "source")
    return queries.sort("query_id")


def check_spans(
    spans: pl.DataFrame, queries: pl.DataFrame, texts: Mapping[tuple[str, str], str], *, first_row: int = 0
) -> pl.DataFrame:
    """The spans in `SPAN_SCHEMA`, each of them an exact slice of its document.

    Raises:
        GoldenError: a span's slice is not its quote (named by row), its query or document version is unknown, its
            grade is none, parts are not numbered from 0, an answerable query has no span or an unanswerable one has.
    """
    spans = _typed(spans, SPAN_SCHEMA, "spans", ())
    known = set(queries["query_id"])
    for row, span in enumerate(spans.iter_rows(named=True), start=first_row):
        where = f"Span row {row} (query {span['query_id']}, {span['document_id']})"
        if span["query_id"] not in known:
            raise GoldenError(f"{where} belongs to no query", expected="a query of the golden set")
        if not 1 <= span["grade"] <= MAX_GRADE or span["origin"] not in ORIGINS:
            raise GoldenError(
                f"{where} has an impossible grade or origin",
                expected=f"a grade from 1 to {MAX_GRADE}, an origin of {' | '.join(ORIGINS)}",
                found=f"{span['grade']}, {span['origin']}",
            )
        text = texts.get((span["document_id"], span["document_version"]))
        if text is None:
            raise GoldenError(
                f"{where} quotes a document version that is not at hand",
                expected="a version among the parsed documents",
                found=span["document_version"],
                remedy="pin the golden set to the manifest in use",
            )
        start, end = span["char_start"], span["char_end"]
        if not 0 <= start < end <= len(text) or text[start:end] != span["quote"]:
            raise GoldenError(
                f"{where} is not the slice that it claims to be",
                expected=f"its quote of {len(span['quote'])} characters at [{start}:{end}]",
                found=f"other text there, in a document of {len(text)} characters",
                remedy="resolve the quote again; a parser that changed moves offsets",
            )
    _check_parts(spans, queries)
    return spans.sort("query_id", "part", "document_id", "char_start", "char_end")


def _check_parts(spans: pl.DataFrame, queries: pl.DataFrame) -> None:
    parts = spans.group_by("query_id").agg(pl.col("part").n_unique().alias("n"), pl.col("part").max().alias("last"))
    odd = parts.filter(pl.col("last") != pl.col("n") - 1)
    if odd.height or (spans.height and spans["part"].to_list() and min(spans["part"].to_list()) < 0):
        name = odd["query_id"][0] if odd.height else spans.sort("part")["query_id"][0]
        raise GoldenError(f"The parts of query {name} are not numbered 0, 1, 2", expected="no gaps")
    spanned = queries.join(parts, on="query_id", how="left")
    _refuse(
        spanned.filter(pl.col("answerable") & pl.col("n").is_null() & (pl.col("source") != "imported")),
        "is answerable and has no span",
        "a span for every answerable query",
        "source",
    )
    permitted = pl.col("unanswerable_reason") == NOT_PERMITTED
    _refuse(
        spanned.filter(~pl.col("answerable") & pl.col("n").is_not_null() & ~permitted),
        "is unanswerable and has a span",
        "spans only for what can be answered",
        "unanswerable_reason",
    )


def golden_digest(queries: pl.DataFrame, spans: pl.DataFrame) -> str:
    """sha256 (hex) over every cell of both frames in their order by id: equal sets have equal digests."""
    digest = hashlib.sha256()
    for frame, schema, order in (
        (queries, QUERY_SCHEMA, ["query_id"]),
        (spans, SPAN_SCHEMA, ["query_id", "part", "document_id", "document_version", "char_start", "char_end"]),
    ):
        digest.update(frame.select(list(schema)).sort(order).write_json().encode())
    return digest.hexdigest()


def _refuse(rows: pl.DataFrame, complaint: str, expected: str, column: str) -> None:
    if rows.height:
        raise GoldenError(
            f"Query {rows['query_id'][0]} {complaint}", expected=expected, found=f"{column} {rows[column][0]!r}"
        )


def _typed(frame: pl.DataFrame, schema: pl.Schema, what: str, nullable: tuple[str, ...]) -> pl.DataFrame:
    missing = [name for name in schema if name not in frame.columns]
    if missing:
        raise GoldenError(f"The {what} lack columns", expected=", ".join(schema), found=f"without {', '.join(missing)}")
    try:
        frame = frame.select(list(schema)).cast(schema)
    except pl.exceptions.PolarsError as error:
        raise GoldenError(f"The {what} have columns of other types", expected=str(dict(schema))) from error
    empty = [name for name in schema if name not in nullable and frame[name].null_count()]
    if empty:
        row = frame.with_row_index().filter(pl.any_horizontal(pl.col(empty).is_null()))["index"][0]
        raise GoldenError(f"The {what} have empty cells", expected=f"values in {', '.join(empty)}", found=f"row {row}")
    return frame
