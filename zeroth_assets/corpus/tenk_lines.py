"""The lines of a filing, between its markup and its canonical text.

What belongs here: what a line is, and which lines at the edges of pages are furniture (page numbers, running headers,
links back to the contents). No markup, no Items.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

CELL_SEPARATOR = "\t"
_CELL_SEPARATORS = re.compile(f"{CELL_SEPARATOR}+")

_NUMBER_LINE = re.compile(
    r"^[\s\-–—.|*]{0,4}(?:[Pp]age\s+|PAGE\s+)?(?:[A-Z]{1,3}\s?[-–]\s?)?"
    r"(?:\d{1,3}|i{1,3}|iv|vi{1,3}|ix|xi{1,3}|xiv|xvi{0,3})(?:\s+of\s+\d{1,3})?[\s\-–—.|*]{0,4}$"
)
_CONTENTS_LINK = re.compile(r"^\W*(?:back to |return to )?(?:table of contents|index|contents)\W*$", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")
_RUNNING_PART = re.compile(r"^part\s+[ivx]+(?:\s*(?:,|and|&)\s*[ivx]+)*$", re.IGNORECASE)
_RUNNING_ITEM = re.compile(
    r"^items?\s+\d{1,2}[a-c]?(?:\(t\))?(?:\s*(?:,|and|&)\s*\d{1,2}[a-c]?(?:\(t\))?)*$", re.IGNORECASE
)
_RUNNING_CONTINUED = re.compile(r"^(?:notes to [\w\s]{0,60})?\W*\(?continued\)?\W*$", re.IGNORECASE)
_EDGE = 3
_LONGEST_FURNITURE = 120


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a filing, white space collapsed (HTML) or kept (text).

    `page` counts page breaks before it. `table` is 0 outside tables, else the table's number; `row` says that the
    line is one of its rows. `linked` says that a link into the same document lies on the line. `dropped` is "" or
    why the line does not reach the canonical text.
    """

    text: str
    page: int = 0
    table: int = 0
    row: bool = False
    list_item: bool = False
    linked: bool = False
    dropped: str = ""

    @property
    def plain(self) -> str:
        """The text with cells run together by a space."""
        return _CELL_SEPARATORS.sub(" ", self.text).strip()


def _edges(lines: Sequence[Line]) -> list[tuple[list[int], list[int]]]:
    """Per page: the indices of its first and of its last `_EDGE` lines, outermost first."""
    pages: dict[int, list[int]] = {}
    for index, line in enumerate(lines):
        if line.text.strip():
            pages.setdefault(line.page, []).append(index)
    return [(found[:_EDGE], found[: -_EDGE - 1 : -1]) for found in pages.values()]


def _shape(line: Line) -> str:
    return _DIGITS.sub("#", line.plain)


def _inside_table(lines: Sequence[Line], index: int) -> bool:
    """Whether a line is one of several rows of a table on the same page: a figure there is no page number."""
    line = lines[index]
    if not line.row:
        return False
    return any(
        0 <= at < len(lines) and lines[at].row and lines[at].table == line.table and lines[at].page == line.page
        for at in (index - 1, index + 1)
    )


class _Furniture:
    """What repeats at the edges of a document's pages, and the judgement on one line of an edge."""

    def __init__(self, lines: Sequence[Line], edges: Sequence[tuple[list[int], list[int]]]) -> None:
        self.lines = lines
        self.tops = Counter(shape for top, _ in edges for shape in {_shape(lines[i]) for i in top})
        self.bottoms = Counter(shape for _, bottom in edges for shape in {_shape(lines[i]) for i in bottom})
        self.needed = max(3, -(-len(edges) * 3 // 10))
        with_part = sum(1 for top, _ in edges if any(_RUNNING_PART.match(lines[i].plain) for i in top))
        self.running_parts = with_part >= max(6, len(edges) // 2)
        self.seen: set[str] = set()

    def has_number(self, top: Sequence[int], bottom: Sequence[int]) -> bool:
        """Whether a page number, alone or in a running line, stands at either edge of a page."""
        return any(
            _NUMBER_LINE.match(self.lines[i].plain)
            or (_DIGITS.search(self.lines[i].text) and shapes[_shape(self.lines[i])] >= self.needed)
            for edge, shapes in ((top, self.tops), (bottom, self.bottoms))
            for i in edge
        )

    def reason(self, index: int, *, top: bool, numbered: bool) -> str:
        """Why the line at `index` is furniture, or "" if it is not."""
        line = self.lines[index]
        text = line.plain
        repeats = (self.tops if top else self.bottoms)[_shape(line)]
        if len(text) > _LONGEST_FURNITURE or _inside_table(self.lines, index):
            return ""
        if _NUMBER_LINE.match(text):
            return "page_number"
        if _CONTENTS_LINK.match(text) and (line.linked or repeats >= 3):
            return "contents_link"
        running = "running_header" if top else "running_footer"
        if top and _RUNNING_CONTINUED.match(text):
            return running
        if top and self.running_parts and (_RUNNING_PART.match(text) or _RUNNING_ITEM.match(text)):
            return running
        if repeats < self.needed or not numbered:
            return ""
        if text not in self.seen and not _DIGITS.search(text):
            self.seen.add(text)
            return ""
        return running


def drop_furniture(lines: Sequence[Line]) -> list[Line]:
    """Mark page numbers, running headers and footers, and contents links at the edges of real pages as dropped.

    A running line has to repeat, digits aside, on at least three pages and on three in ten of them, and to stand on
    a page that is numbered; its first occurrence stays, unless it holds a page number, since it may be the heading
    that the others repeat. Nothing but the outermost lines of a page is looked at, and the search stops at the first
    line that is not furniture.
    """
    edges = _edges(lines)
    if len(edges) < 2:
        return list(lines)
    furniture = _Furniture(lines, edges)
    marked = list(lines)
    for top, bottom in edges:
        numbered = furniture.has_number(top, bottom)
        for indices, is_top in ((top, True), (bottom, False)):
            for index in indices:
                reason = furniture.reason(index, top=is_top, numbered=numbered)
                if not reason:
                    break
                marked[index] = replace(lines[index], dropped=reason)
    return marked


def soft_breaks(lines: Sequence[Line], rules: Sequence[int]) -> list[Line]:
    """Number the pages of a filing whose markup has only rules (`<hr>`) between them.

    `rules` are the indices of the lines that follow a rule. A rule is a page break where a page number stands right
    before it; with fewer than three such rules the lines come back as they are.
    """
    breaks = [at for at in rules if 0 < at <= len(lines) and _NUMBER_LINE.match(lines[at - 1].plain)]
    if len(breaks) < 3:
        return list(lines)
    starts = set(breaks)
    page = 0
    numbered = []
    for index, line in enumerate(lines):
        page += index in starts
        numbered.append(replace(line, page=page))
    return numbered
