"""Stretches of an RFC that are better not cut: figures, tables with their rows, code, list items.

What belongs here: telling them from running text by the look of their lines, as plain-text RFCs give nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zeroth_assets.corpus.model import Block, BlockKind

# A capital with a full stop opens a name in the authors' addresses far more often than an item.
_MARKER = re.compile(r"^(?:[-*+o•]\s+|\(?(?:\d{1,3}|[a-z]|[ivx]{1,4})[.)]\s+|\(?[A-Z]\)\s+|\[[\w.:/ -]{1,30}\]\s+)\S")
_BORDER = re.compile(r"^\s*[+|][-=+|]{3,}[+|]$")
_BITS = re.compile(r"(?:\+-){4,}")
_ROW = re.compile(r"^\s*\|.*\|$")
_UNDERLINE = re.compile(r"^\s*[-=]{2,}(?:\s+[-=]{2,})+$")
_DRAWN = re.compile(r"\+[-=]|[-=]\+|^\s*\|.*\||[-=]{2,}>|<[-=]{2,}|\|\s{2,}\||/\\|^\s*[|V^]\s*$|[-_]{5,}|\.{5,}")
_CODE = re.compile(
    r"[;{}]$|^\s*[{}]|::=|^\s*</?[\w:?!]|/\*|\*/$|^\s*//|^\s*[\w<>-]+\s*=/?\s+\S|^\s*(?:[CS]:|[<>]{3}|\d{3}[ -])\s?\S"
    r"|^\s*(?:module|import|leaf|typedef|struct|enum|int|char|void|return|if \(|else|for \(|while \(|#\w+)\b"
    r"|^\s*(?:[0-9a-fA-F]{2}[ :]){4}|^\s*[0-9a-fA-F]{32,}$|^\s*[A-Z][\w-]*:\s\S"
)
_LONG_LINE = 300
_SIGNS = frozenset("|+{}<>=;:/^_#\\*")
_CODE_BEGINS = re.compile(r"^\s*<CODE BEGINS>")
_CODE_ENDS = re.compile(r"^\s*<CODE ENDS>")


@dataclass(frozen=True, slots=True)
class _Paragraph:
    """Lines `[first, last)`, none of them blank."""

    first: int
    last: int
    kind: BlockKind | None


def find_blocks(lines: Sequence[str], starts: Sequence[int], skipped: set[int]) -> list[Block]:
    """Blocks of the text that `lines` make, in document order, a table before its rows.

    `starts` holds the offset of each line; lines in `skipped` (headings, contents) belong to no block.
    """
    blocks: list[Block] = []
    for paragraph in _merged(lines, list(_paragraphs(lines, skipped))):
        first, last = paragraph.first, paragraph.last
        if paragraph.kind is None:
            blocks.extend(_list_items(lines, starts, first, last))
            continue
        blocks.append(Block(paragraph.kind, starts[first], starts[last - 1] + len(lines[last - 1])))
        if paragraph.kind == "table":
            blocks.extend(_rows(lines, starts, first, last))
    return blocks


def _paragraphs(lines: Sequence[str], skipped: set[int]) -> Iterator[_Paragraph]:
    index = 0
    while index < len(lines):
        if not lines[index] or index in skipped:
            index += 1
            continue
        first = index
        if _CODE_BEGINS.match(lines[first]):
            end = next((i for i in range(first, len(lines)) if _CODE_ENDS.match(lines[i])), None)
            if end is not None and skipped.isdisjoint(range(first, end + 1)):
                yield _Paragraph(first, end + 1, "code")
                index = end + 1
                continue
        while index < len(lines) and lines[index] and index not in skipped:
            index += 1
        yield _Paragraph(first, index, _kind(lines[first:index]))


def _kind(lines: Sequence[str]) -> BlockKind | None:
    # Most paragraphs are prose, which holds few of the signs that drawings and code are made of.
    if (
        len(lines) < 2
        or max(map(len, lines)) > _LONG_LINE
        or 5 * sum(not _SIGNS.isdisjoint(line) or "--" in line for line in lines) < len(lines)
    ):
        return None
    borders = [line for line in lines if _BORDER.match(line)]
    rows = [line for line in lines if _ROW.match(line)]
    if any(_BITS.search(line) for line in lines):
        return "figure"
    if len(borders) >= 2 and len(rows) >= 2 and len(borders) + len(rows) >= len(lines) - 2:
        columns = {tuple(i for i, c in enumerate(line) if c in "+|") for line in borders}
        if len(columns) == 1 and len(next(iter(columns))) >= 3:
            return "table"
    if any(_UNDERLINE.match(line) for line in lines[:4]) and len(lines) >= 3:
        return "table"
    if _share(_DRAWN, lines) >= 0.3:
        return "figure"
    if _share(_CODE, lines) >= 0.5:
        return "code"
    return None


def _share(pattern: re.Pattern[str], lines: Sequence[str]) -> float:
    return sum(bool(pattern.search(line)) for line in lines) / len(lines)


def _merged(lines: Sequence[str], paragraphs: Sequence[_Paragraph]) -> list[_Paragraph]:
    """Figures and code go on over a single blank line; tables do not, as the next one may be another."""
    merged: list[_Paragraph] = []
    for paragraph in paragraphs:
        before = merged[-1] if merged else None
        adjacent = before is not None and paragraph.first - before.last == 1 and not lines[before.last]
        if before is not None and adjacent and paragraph.kind == before.kind and paragraph.kind in ("figure", "code"):
            merged[-1] = _Paragraph(before.first, paragraph.last, before.kind)
        else:
            merged.append(paragraph)
    return merged


def _rows(lines: Sequence[str], starts: Sequence[int], first: int, last: int) -> list[Block]:
    """A row is what stands between two borders, or one line where rows have none between them."""
    bordered = any(_BORDER.match(lines[i]) for i in range(first, last))
    inner = sum(bool(_BORDER.match(lines[i])) for i in range(first, last)) > 3
    rows: list[Block] = []
    opened: int | None = None
    for index in range(first, last):
        rule = bool(_BORDER.match(lines[index]) or _UNDERLINE.match(lines[index]))
        if rule:
            opened = None
        elif opened is None or not (bordered and inner):
            rows.append(Block("table_row", starts[index], starts[index] + len(lines[index])))
            opened = index
        else:
            rows[-1] = Block("table_row", rows[-1].start, starts[index] + len(lines[index]))
    return rows


def _list_items(lines: Sequence[str], starts: Sequence[int], first: int, last: int) -> list[Block]:
    """Items of a paragraph that opens with a marker; an item goes on until the next marker no deeper than its own."""
    items: list[Block] = []
    depth = -1
    for index in range(first, last):
        line = lines[index]
        indent = len(line) - len(line.lstrip())
        end = starts[index] + len(line)
        if _MARKER.match(line.lstrip()) and (index == first or (items and indent <= depth)):
            items.append(Block("list_item", starts[index], end))
            depth = indent
        elif items:
            items[-1] = Block("list_item", items[-1].start, end)
    return items
