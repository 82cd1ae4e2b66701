"""How well a corpus was parsed, in numbers that a target can be set for.

What belongs here: the quality table per source, and the comparison of words before and after parsing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import polars as pl

from zeroth_assets.corpus.model import Document
from zeroth_assets.corpus.sections import validate_document

__all__ = ["QUALITY_SCHEMA", "covered", "has_section_tree", "lost_words", "quality_frame", "validate_document", "words"]

_FIELDS: dict[str, pl.DataType | type[pl.DataType]] = {
    "source": pl.String,
    "documents": pl.Int64,
    "sections": pl.Int64,
    "sections_per_document": pl.Float64,
    "documents_with_section_tree": pl.Int64,
    "documents_without_sections": pl.Int64,
    "share_in_section": pl.Float64,
    "share_in_body_section": pl.Float64,
    "items_found": pl.Int64,
    "blocks": pl.Int64,
    "pages_real": pl.Int64,
    "pages_estimated": pl.Int64,
    "documents_with_real_pages": pl.Int64,
    "characters": pl.Int64,
    "characters_dropped": pl.Int64,
    "dropped": pl.List(pl.Struct({"reason": pl.String, "characters": pl.Int64})),
    "warnings": pl.Int64,
    "documents_with_warnings": pl.Int64,
}
QUALITY_SCHEMA = pl.Schema(_FIELDS)

_WORD = re.compile(r"\w+")


def quality_frame(documents: Iterable[Document]) -> pl.DataFrame:
    """One row per source, in `QUALITY_SCHEMA`, ordered by source.

    `share_in_section` is the share of characters inside any section; `share_in_body_section` leaves out those that
    are in front matter alone. `items_found` counts sections of kind "item", which filings alone have.
    """
    by_source: dict[str, list[Document]] = {}
    for document in documents:
        by_source.setdefault(document.source, []).append(document)
    return pl.DataFrame([_row(source, by_source[source]) for source in sorted(by_source)], schema=QUALITY_SCHEMA)


def _row(source: str, documents: Sequence[Document]) -> dict[str, object]:
    characters = sum(len(d.text) for d in documents)
    sections = sum(len(d.sections) for d in documents)
    dropped: Counter[str] = Counter()
    for document in documents:
        dropped.update(document.dropped)
    real = [sum(page.real for page in d.pages) for d in documents]
    return {
        "source": source,
        "documents": len(documents),
        "sections": sections,
        "sections_per_document": sections / len(documents),
        "documents_with_section_tree": sum(has_section_tree(d) for d in documents),
        "documents_without_sections": sum(all(s.kind == "front" for s in d.sections) for d in documents),
        "share_in_section": sum(covered(d) for d in documents) / max(1, characters),
        "share_in_body_section": sum(covered(d, body=True) for d in documents) / max(1, characters),
        "items_found": sum(s.kind == "item" for d in documents for s in d.sections),
        "blocks": sum(len(d.blocks) for d in documents),
        "pages_real": sum(real),
        "pages_estimated": sum(len(d.pages) for d in documents) - sum(real),
        "documents_with_real_pages": sum(n > 0 for n in real),
        "characters": characters,
        "characters_dropped": dropped.total(),
        "dropped": [{"reason": reason, "characters": n} for reason, n in sorted(dropped.items())],
        "warnings": sum(len(d.warnings) for d in documents),
        "documents_with_warnings": sum(bool(d.warnings) for d in documents),
    }


def has_section_tree(document: Document) -> bool:
    """Whether the document has at least two sections besides its front matter."""
    return sum(section.kind != "front" for section in document.sections) >= 2


def covered(document: Document, *, body: bool = False) -> int:
    """Characters inside at least one section; with `body`, inside one that is not front matter."""
    total, reached = 0, 0
    for section in document.sections:
        if (body and section.kind == "front") or section.end <= reached:
            continue
        total += section.end - max(section.start, reached)
        reached = section.end
    return total


def words(text: str) -> Counter[str]:
    """The words of a text with how often each occurs; a word is a run of letters, digits and underscores."""
    return Counter(_WORD.findall(text))


def lost_words(plain_text: str, document: Document) -> Counter[str]:
    """Words of an independent plain extraction that the parsed text has fewer of: empty if nothing was lost."""
    return words(plain_text) - words(document.text)
