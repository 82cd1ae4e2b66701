"""The parser of CUAD contracts: plain text, a paragraph to a line, numbered in as many ways as there are law firms.

What belongs here: the parser. Which lines head a clause is found in `cuad_headings`. The text keeps every decoded
character in its place, because the expert labels count characters.
"""

from __future__ import annotations

import re

from zeroth_assets.corpus.cuad_headings import find_headings
from zeroth_assets.corpus.model import Block, Document
from zeroth_assets.corpus.sections import build_sections
from zeroth_assets.corpus.text import decode, estimate_pages, iter_lines

CUAD_PARSER_VERSION = "cuad-1"

_ITEM = re.compile(r"^\s*(?:\((?:[a-zA-Z]{1,2}|[ivxlc]{1,6}|\d{1,3})\)|[a-zA-Z]\.|\d{1,3}\)|[•●·o*-])\s+\S")


def parse_cuad(document_id: str, version: str, title: str, raw: bytes) -> Document:
    """Parse one contract. Pages are estimated: the published text prints none that could be trusted."""
    decoded = decode(raw, newlines=False)
    text = decoded.text
    warnings = list(decoded.warnings)
    headings = find_headings(text)
    if not headings:
        warnings.append("No clause, article or signature block found")
    blocks = [
        Block("list_item", start + len(line) - len(line.lstrip()), start + len(line.rstrip()))
        for start, line in iter_lines(text)
        if _ITEM.match(line)
    ]
    return Document(
        document_id=document_id,
        version=version,
        source="cuad",
        title=title,
        text=text,
        sections=build_sections(headings, len(text), front_title=title.strip() or "Opening"),
        pages=estimate_pages(text),
        blocks=tuple(blocks),
        dropped=dict(decoded.dropped),
        warnings=tuple(warnings),
        parser_version=CUAD_PARSER_VERSION,
    )
