"""Small golden sets for tests: documents, chunks, queries and spans in a few words."""

from __future__ import annotations

from typing import Any

import polars as pl

from zeroth_assets.evaluation.golden.model import QUERY_SCHEMA, SPAN_SCHEMA

VERSION = "v1"


def documents(texts: dict[str, str]) -> pl.DataFrame:
    return pl.DataFrame(
        [(name, VERSION, text) for name, text in texts.items()],
        schema={"document_id": pl.String, "version": pl.String, "text": pl.String},
        orient="row",
    )


def chunks(ranges: list[tuple[int, str, int, int]], texts: dict[str, str] | None = None) -> pl.DataFrame:
    """Rows of chunk id, document, start, end."""
    rows = [(i, d, VERSION, a, b, (texts or {}).get(d, "")[a:b]) for i, d, a, b in ranges]
    schema = {
        "chunk_id": pl.Int64,
        "document_id": pl.String,
        "document_version": pl.String,
        "char_start": pl.Int64,
        "char_end": pl.Int64,
        "text": pl.String,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def query(name: str, **fields: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "query_id": f"q:{name}",
        "question_id": f"q:{name}",
        "text": f"What about {name}?",
        "category": "single_chunk",
        "source": "drafted",
        "set": "extended",
        "split": "test",
        "scope": "corpus",
        "answerable": True,
        "about": [],
        "group": f"g:{name}",
        "drafter": "somebody",
        "verified": "not verified by a human",
    }
    return row | fields


def unanswerable(name: str, **fields: Any) -> dict[str, Any]:
    reason = {"category": "unanswerable", "answerable": False, "unanswerable_reason": "absent_from_corpus"}
    return query(name, **(reason | fields))


def queries(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=QUERY_SCHEMA)


def span(
    name: str, document: str, start: int, end: int, text: str, *, part: int = 0, grade: int = 3
) -> tuple[Any, ...]:
    return (f"q:{name}", part, document, VERSION, start, end, text[start:end], grade, "quoted")


def spans(*rows: tuple[Any, ...]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=SPAN_SCHEMA, orient="row")


def run(rankings: dict[str, list[int | str]]) -> pl.DataFrame:
    """A run from rankings, best first."""
    rows = [
        (f"q:{name}", str(i), float(len(ranked) - place))
        for name, ranked in rankings.items()
        for place, i in enumerate(ranked)
    ]
    return pl.DataFrame(
        rows, schema={"query_id": pl.String, "document_id": pl.String, "score": pl.Float64}, orient="row"
    )


def pairs(*rows: tuple[str, str, float, float]) -> pl.DataFrame:
    """Dedup pairs: contained, container, containment, reverse containment."""
    return pl.DataFrame(
        [(a, VERSION, b, VERSION, c, r) for a, b, c, r in rows],
        schema={
            "contained_id": pl.String,
            "contained_version": pl.String,
            "container_id": pl.String,
            "container_version": pl.String,
            "containment": pl.Float64,
            "reverse_containment": pl.Float64,
        },
        orient="row",
    )
