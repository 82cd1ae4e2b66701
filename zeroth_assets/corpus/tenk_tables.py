"""From a table's cells to lines: rows where it holds data, its own lines where it only lays something out.

What belongs here: where cells stand on the table's grid, which cells belong to one number, and what a row looks like
as text. A row is one line; its cells are kept apart by a tab, and an empty cell of a column that other rows fill
leaves its tab behind, so that the n-th field of every row stands under the n-th heading.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from zeroth_assets.corpus.tenk_lines import CELL_SEPARATOR, Line

_OPENING = re.compile(r"^(?:US|C|A|HK)?[$€£¥]\s*\(?$|^\($")
_GLUES_TO_OPENING = re.compile(r"^[(\-–—.]?\s*[\d(—–\-.]")
_CLOSING = re.compile(r"^(?:\)|\)?\s?%|%\s?\)|\]|\)\s?(?:pts?\.?|bps))(?:\s?[(\[](?:\d{1,2}|[a-z])[)\]])?$")
_FIGURE = re.compile(r"[\d—–\-]\s*\)?$")
_MARKER = re.compile(r"^(?:[•●○▪■□◦·∙➢✓*§o\-–—†‡]|\(?(?:\d{1,2}|[a-z]{1,2}|[ivx]{1,5})[.)]|\(\d{1,2}\)|[A-Z][.)])$")
_HEADING_CELL = re.compile(r"^(?:items?|part|note)\b.{0,40}$", re.IGNORECASE)
_PARAGRAPH = 400
_WIDEST_GRID = 200
_TALLEST_CELL = 100
_MOST_COLUMNS = 40


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of a cell on the columns `[start, end)` of its table's grid."""

    text: str
    start: int
    end: int


@dataclass(slots=True)
class Table:
    """A table while its cells are gathered: per row the cells' lines, and where each cell stands."""

    number: int
    nested: bool = False
    rows: list[list[list[Line]]] = field(default_factory=list)
    spans: list[list[tuple[int, int]]] = field(default_factory=list)
    _column: int = 0
    _carried: dict[int, int] = field(default_factory=dict)

    def open_row(self) -> None:
        """Begin a row; cells of earlier rows that reach down into it keep their columns."""
        self.rows.append([])
        self.spans.append([])
        self._column = 0
        if self._carried:
            self._carried = {column: rows - 1 for column, rows in self._carried.items() if rows > 1}

    def open_cell(self, colspan: int = 1, rowspan: int = 1) -> None:
        """Begin a cell at the next free column."""
        if not self.rows:
            self.open_row()
        while self._column in self._carried and self._column < _WIDEST_GRID:
            self._column += 1
        # Beyond the widest grid all cells share a column, so that no markup makes the grid costly.
        start = min(self._column, _WIDEST_GRID)
        self._column = min(start + max(1, colspan), _WIDEST_GRID + 1)
        if rowspan > 1:
            self._carried.update(dict.fromkeys(range(start, self._column), min(rowspan, _TALLEST_CELL)))
        self.rows[-1].append([])
        self.spans[-1].append((start, self._column))


def _text(cell: Sequence[Line]) -> str:
    return " ".join(line.text for line in cell).replace(CELL_SEPARATOR, " ").strip()


def table_lines(table: Table) -> list[Line]:
    """The lines that a table becomes."""
    rows = [
        [(cell, span) for cell, span in zip(row, spans, strict=True) if cell]
        for row, spans in zip(table.rows, table.spans, strict=True)
    ]
    rows = [row for row in rows if row]
    cells = [[cell for cell, _ in row] for row in rows]
    if table.nested or all(len(row) == 1 for row in cells):
        return [line for row in cells for cell in row for line in cell]
    if all(_is_marked(row) for row in cells):
        return [line for row in cells for line in _marked_lines(row)]
    if len(rows) == 1 and any(len(_text(cell)) > _PARAGRAPH for cell in cells[0]):
        return [line for cell in cells[0] for line in cell]
    glued = [glue([Cell(_text(cell), *span) for cell, span in row]) for row in rows]
    columns = _columns(glued)
    return [
        Line(
            _row_text(row_cells, columns),
            row[0][0].page,
            table.number,
            row=True,
            linked=any(line.linked for cell in row for line in cell),
        )
        for row, row_cells in zip(cells, glued, strict=True)
    ]


def glue(cells: Sequence[Cell]) -> list[Cell]:
    """Join currency signs, parentheses and percent signs that stand in cells of their own to their number.

    >>> [cell.text for cell in glue([Cell(t, n, n + 1) for n, t in enumerate(["Sales", "$", "(12", ")", "5", "%"])])]
    ['Sales', '$(12)', '5%']
    """
    glued: list[Cell] = []
    for cell in cells:
        if not cell.text:
            continue
        last = glued[-1] if glued else None
        opens = last is not None and _OPENING.match(last.text) and _GLUES_TO_OPENING.match(cell.text)
        closes = last is not None and _CLOSING.match(cell.text) and _FIGURE.search(last.text)
        if last is not None and (opens or closes):
            glued[-1] = Cell(last.text + cell.text, last.start, cell.end)
        else:
            glued.append(cell)
    return glued


def _columns(rows: Sequence[Sequence[Cell]]) -> list[tuple[int, int]]:
    """The columns that hold text, as ranges of the grid; narrow cells make them, wide ones lie across them."""
    columns: list[tuple[int, int]] = []
    spans = sorted({(cell.start, cell.end) for row in rows for cell in row}, key=lambda span: (span[1] - span[0], span))
    for start, end in spans:
        meets = [at for at, (low, high) in enumerate(columns) if low < end and start < high]
        if not meets:
            columns.append((start, end))
        elif len(meets) == 1:
            low, high = columns[meets[0]]
            columns[meets[0]] = (min(low, start), max(high, end))
        if len(columns) > _MOST_COLUMNS:
            return []
    return sorted(columns)


def _row_text(cells: Sequence[Cell], columns: Sequence[tuple[int, int]]) -> str:
    """A row's cells, each under its column; side by side where two of them share one."""
    fields: list[str] = []
    for cell in cells:
        column = next((at for at, (low, high) in enumerate(columns) if low < cell.end and cell.start < high), -1)
        if column < len(fields):
            return CELL_SEPARATOR.join(cell.text for cell in cells)
        fields.extend("" for _ in range(column - len(fields)))
        fields.append(cell.text)
    return CELL_SEPARATOR.join(fields)


def _is_marked(row: Sequence[Sequence[Line]]) -> bool:
    """A bullet, an enumerator or "Item 7." in a cell of its own, and what it marks in the only other one."""
    if len(row) != 2 or len(row[0]) != 1:
        return False
    marker = row[0][0].text
    if _MARKER.match(marker):
        return True
    return bool(_HEADING_CELL.match(marker)) and not any(line.linked for cell in row for line in cell)


def _marked_lines(row: Sequence[Sequence[Line]]) -> list[Line]:
    marker, first, *rest = row[0][0], *row[1]
    is_heading = not _MARKER.match(marker.text)
    if is_heading:
        whole = " ".join((marker.text, first.text, *(line.text for line in rest)))
        if len(whole) <= _PARAGRAPH:
            return [replace(first, text=whole, page=marker.page)]
    text = f"{marker.text} {first.text}"
    return [replace(first, text=text, page=marker.page, list_item=not is_heading), *rest]
