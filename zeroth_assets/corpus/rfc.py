"""The parser of RFC text: from bytes to canonical text with sections, pages and blocks.

What belongs here: putting the parts together. Pages are in `rfc_pages`, headings in `rfc_headings`, figures, tables,
code and lists in `rfc_blocks`.
"""

from __future__ import annotations

import itertools
import re

from zeroth_assets.corpus.model import Document, Page, SectionKind
from zeroth_assets.corpus.rfc_blocks import find_blocks
from zeroth_assets.corpus.rfc_headings import Heading, find_headings
from zeroth_assets.corpus.rfc_pages import Pagination, paginate
from zeroth_assets.corpus.sections import build_sections
from zeroth_assets.corpus.text import decode, estimate_pages

RFC_PARSER_VERSION = "rfc-1"

_OVERSTRIKE = re.compile("[^\n]\x08")


def parse_rfc(document_id: str, version: str, title: str, raw: bytes) -> Document:
    """Parse one RFC in its plain-text form.

    Form feeds make real pages; running heads and feet, blank-line runs and trailing spaces are left out and counted
    in `dropped`. Where there are no form feeds (RFCs since 2019, RFC 1305), pages are estimated.
    """
    decoded = decode(raw)
    dropped = dict(decoded.dropped)
    warnings = list(decoded.warnings)
    text = decoded.text
    if "\x08" in text:
        text, struck = _OVERSTRIKE.subn("", text)
        dropped["overstrike"] = 2 * struck
    pagination = paginate(text)
    dropped.update(pagination.dropped)
    lines = pagination.lines
    canonical = "\n".join(lines) + ("\n" if lines else "")
    starts = list(itertools.accumulate((len(line) + 1 for line in lines), initial=0))
    headings, contents = find_headings(lines)
    if not headings:
        warnings.append("No section heading found")
    skipped = {index for table in contents for index in range(table.start, table.end)}
    skipped.update(index for heading in headings for index in range(heading.line, heading.end_line))
    if not pagination.page_lines:
        warnings.append("No page breaks in the source: pages are estimated")
    return Document(
        document_id=document_id,
        version=version,
        source="rfc",
        title=title,
        text=canonical,
        sections=build_sections(
            [_placed(heading, starts) for heading in headings], len(canonical), front_title=title or "Front matter"
        ),
        pages=_pages(pagination, starts, canonical),
        blocks=tuple(find_blocks(lines, starts, skipped)),
        dropped=dropped,
        warnings=tuple(warnings),
        parser_version=RFC_PARSER_VERSION,
    )


def _placed(heading: Heading, starts: list[int]) -> tuple[int, str, str, int, SectionKind]:
    return starts[heading.line], heading.number, heading.title, heading.level, heading.kind


def _pages(pagination: Pagination, starts: list[int], text: str) -> tuple[Page, ...]:
    if not pagination.page_lines or not text:
        return estimate_pages(text)
    first = [(number, starts[line]) for number, line in pagination.page_lines]
    ends = [start for _, start in first[1:]] + [len(text)]
    return tuple(Page(number, start, end, real=True) for (number, start), end in zip(first, ends, strict=True))
