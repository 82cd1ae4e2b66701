"""From headings in order to a tree of ranges.

What belongs here: the one rule that all parsers share, a section ends where the next one of its level or above
starts, and the check that a parsed document keeps its contracts.
"""

from __future__ import annotations

from collections.abc import Sequence

from zeroth_assets.corpus.model import Block, Document, Page, Section, SectionKind
from zeroth_assets.errors import ParseError

# Offset, number, title, level as printed, kind.
PlacedHeading = tuple[int, str, str, int, SectionKind]


def build_sections(headings: Sequence[PlacedHeading], length: int, *, front_title: str = "") -> tuple[Section, ...]:
    """Sections from headings in document order, over a text of `length` characters.

    Levels are made gapless: a heading is at most one deeper than its parent. Text before the first heading becomes a
    section of kind "front" with `front_title`, if that is given.
    """
    opened: list[PlacedHeading] = list(headings)
    if opened and opened[0][0] > 0 and front_title:
        opened.insert(0, (0, "", front_title, 1, "front"))
    sections: list[Section] = []
    ancestors: list[int] = []
    for index, (start, number, title, printed_level, kind) in enumerate(opened):
        end = next((h[0] for h in opened[index + 1 :] if h[3] <= printed_level), length)
        while ancestors and opened[ancestors[-1]][3] >= printed_level:
            ancestors.pop()
        ancestors.append(index)
        sections.append(Section(number, title, len(ancestors), start, end, kind))
    return tuple(sections)


def validate_document(document: Document) -> None:
    """Check the contracts that everything downstream relies on.

    Raises:
        ParseError: a range lies outside the text, sections cross or are out of order, pages leave a gap, a block is
            empty, or the text holds a character that cannot be stored. The first breach is named.
    """
    length = len(document.text)
    if "\x00" in document.text or not _encodable(document.text):
        raise _breach(document, "its text", "no NUL and no lone surrogate", "one of them")
    _check_sections(document, length)
    _check_pages(document, document.pages, length)
    _check_blocks(document, document.blocks, length)


def _check_sections(document: Document, length: int) -> None:
    opened: list[Section] = []
    before = -1
    for section in document.sections:
        name = f"section {section.heading!r}"
        if not 0 <= section.start < section.end <= length:
            raise _breach(document, name, f"a range in [0, {length})", f"[{section.start}, {section.end})")
        if section.start < before:
            raise _breach(document, name, f"a start at or after {before}", str(section.start))
        before = section.start
        while opened and opened[-1].end <= section.start:
            opened.pop()
        if opened and section.end > opened[-1].end:
            raise _breach(document, name, f"an end within {opened[-1].heading!r} ({opened[-1].end})", str(section.end))
        opened.append(section)
        if section.level != len(opened):
            raise _breach(document, name, f"level {len(opened)}, the depth of its nesting", str(section.level))
        if not section.heading.strip():
            raise _breach(document, f"a section at {section.start}", "a number or a title", "neither")


def _check_pages(document: Document, pages: Sequence[Page], length: int) -> None:
    reached, number = 0, 0
    for page in pages:
        if page.start != reached or page.end <= page.start or page.number <= number:
            expected = f"a page that starts at {reached}, is not empty and has a number above {number}"
            raise _breach(document, f"page {page.number}", expected, f"[{page.start}, {page.end})")
        reached, number = page.end, page.number
    if reached != length:
        raise _breach(document, "its pages", f"pages that cover all {length} characters", f"they end at {reached}")


def _check_blocks(document: Document, blocks: Sequence[Block], length: int) -> None:
    for block in blocks:
        if not 0 <= block.start < block.end <= length:
            raise _breach(document, f"a {block.kind}", f"a range in [0, {length})", f"[{block.start}, {block.end})")


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _breach(document: Document, what: str, expected: str, found: str) -> ParseError:
    return ParseError(
        f"{document.document_id}: {what} breaks the contract of a parsed document",
        expected=expected,
        found=found,
        remedy="This is a fault of the parser: report it with the document's id and version",
    )
