"""What a parsed document is: one canonical text, and half-open character ranges of it.

What belongs here: the frozen dataclasses that parsers make and everything downstream reads, and the two
functions that put them into a Parquet frame and back. No parsing.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, field
from typing import Literal

import polars as pl

SectionKind = Literal["front", "section", "appendix", "item", "part", "article", "clause", "exhibit", "signature"]
BlockKind = Literal["table", "table_row", "list_item", "code", "figure"]


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a document. `text[start:end]` holds its heading, its body and all its descendants.

    Sections form a tree by nesting of ranges: two sections are disjoint or one holds the other. They are listed in
    document order, a parent before its children; `level` is 1 at the top. `number` is as printed ("4.1", "A", "7A",
    ""), `title` the heading without it.
    """

    number: str
    title: str
    level: int
    start: int
    end: int
    kind: SectionKind

    @property
    def heading(self) -> str:
        """Number and title as one line."""
        return f"{self.number} {self.title}".strip()


@dataclass(frozen=True, slots=True)
class Page:
    """A page, `text[start:end]`. Pages are ordered, disjoint and cover the text; `real` is False if estimated."""

    number: int
    start: int
    end: int
    real: bool


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch that is better not cut: a table and its rows, a list item, code, a figure."""

    kind: BlockKind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """One version of one document, parsed.

    `version` is the sha256 (hex) of the raw bytes. All ranges are in characters (code points) of `text`.
    `dropped` counts characters of the raw text that are not in `text`, by reason.
    """

    document_id: str
    version: str
    source: str
    title: str
    text: str
    sections: tuple[Section, ...] = ()
    pages: tuple[Page, ...] = ()
    blocks: tuple[Block, ...] = ()
    dropped: dict[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    parser_version: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open character range with the path of headings (outermost first) of the innermost section around it."""

    start: int
    end: int
    path: tuple[str, ...]


def innermost_spans(document: Document) -> tuple[Span, ...]:
    """Cut the whole text at every section boundary.

    Returns ordered, disjoint, non-empty spans that cover `[0, len(text))`. Text outside every section has an
    empty path.
    """
    cuts = {0, len(document.text)}
    for section in document.sections:
        cuts.update((section.start, section.end))
    bounds = sorted(cut for cut in cuts if 0 <= cut <= len(document.text))
    spans: list[Span] = []
    open_sections: list[Section] = []
    pending = list(reversed(document.sections))
    for start, end in itertools.pairwise(bounds):
        while open_sections and open_sections[-1].end <= start:
            open_sections.pop()
        while pending and pending[-1].start <= start:
            section = pending.pop()
            if section.end > start:
                open_sections.append(section)
        spans.append(Span(start, end, tuple(s.heading for s in open_sections)))
    return tuple(spans)


def text_digest(text: str) -> str:
    """sha256 (hex) of a canonical text as UTF-8: its data version, whichever file it stands in."""
    return hashlib.sha256(text.encode()).hexdigest()


_RANGE: dict[str, type[pl.DataType]] = {"start": pl.Int64, "end": pl.Int64}
_FIELDS: dict[str, pl.DataType | type[pl.DataType]] = {
    "document_id": pl.String,
    "version": pl.String,
    "source": pl.String,
    "title": pl.String,
    "text": pl.String,
    "sections": pl.List(
        pl.Struct({"number": pl.String, "title": pl.String, "level": pl.Int64, **_RANGE, "kind": pl.String})
    ),
    "pages": pl.List(pl.Struct({"number": pl.Int64, **_RANGE, "real": pl.Boolean})),
    "blocks": pl.List(pl.Struct({"kind": pl.String, **_RANGE})),
    "dropped": pl.List(pl.Struct({"reason": pl.String, "characters": pl.Int64})),
    "warnings": pl.List(pl.String),
    "parser_version": pl.String,
}
DOCUMENT_SCHEMA = pl.Schema(_FIELDS)


def documents_to_frame(documents: list[Document]) -> pl.DataFrame:
    """One row per document, in `DOCUMENT_SCHEMA`, ordered by `document_id` and `version`."""
    rows = [
        {
            "document_id": d.document_id,
            "version": d.version,
            "source": d.source,
            "title": d.title,
            "text": d.text,
            "sections": [
                {"number": s.number, "title": s.title, "level": s.level, "start": s.start, "end": s.end, "kind": s.kind}
                for s in d.sections
            ],
            "pages": [{"number": p.number, "start": p.start, "end": p.end, "real": p.real} for p in d.pages],
            "blocks": [{"kind": b.kind, "start": b.start, "end": b.end} for b in d.blocks],
            "dropped": [{"reason": r, "characters": n} for r, n in sorted(d.dropped.items())],
            "warnings": list(d.warnings),
            "parser_version": d.parser_version,
        }
        for d in sorted(documents, key=lambda d: (d.document_id, d.version))
    ]
    return pl.DataFrame(rows, schema=DOCUMENT_SCHEMA)


def documents_from_frame(frame: pl.DataFrame) -> list[Document]:
    """The inverse of `documents_to_frame`."""
    return [
        Document(
            document_id=row["document_id"],
            version=row["version"],
            source=row["source"],
            title=row["title"],
            text=row["text"],
            sections=tuple(Section(**s) for s in row["sections"]),
            pages=tuple(Page(**p) for p in row["pages"]),
            blocks=tuple(Block(**b) for b in row["blocks"]),
            dropped={d["reason"]: d["characters"] for d in row["dropped"]},
            warnings=tuple(row["warnings"]),
            parser_version=row["parser_version"],
        )
        for row in frame.iter_rows(named=True)
    ]
