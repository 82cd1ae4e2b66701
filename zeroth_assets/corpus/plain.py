"""The parser of plain text: what a person brings along, and the documents of test collections.

What belongs here: the parser. It looks for no sections, since it cannot know how they would be marked; every decoded
character but carriage returns stays in its place.
"""

from __future__ import annotations

from zeroth_assets.corpus.model import Document
from zeroth_assets.corpus.text import decode, estimate_pages

PLAIN_PARSER_VERSION = "text-1"


def parse_plain(document_id: str, version: str, title: str, raw: bytes) -> Document:
    """Parse one text. Pages are estimated: plain text prints none."""
    decoded = decode(raw)
    return Document(
        document_id=document_id,
        version=version,
        source="text",
        title=title,
        text=decoded.text,
        pages=estimate_pages(decoded.text),
        dropped=dict(decoded.dropped),
        warnings=decoded.warnings,
        parser_version=PLAIN_PARSER_VERSION,
    )
