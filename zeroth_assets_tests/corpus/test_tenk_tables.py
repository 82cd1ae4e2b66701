from __future__ import annotations

import doctest

import pytest

from zeroth_assets.corpus import tenk_tables
from zeroth_assets.corpus.tenk_html import extract_html
from zeroth_assets.corpus.tenk_lines import Line
from zeroth_assets.corpus.tenk_tables import Cell, Table, glue, table_lines


def test_examples_in_docstrings_hold() -> None:
    assert doctest.testmod(tenk_tables).failed == 0


@pytest.mark.parametrize(
    ("cells", "glued"),
    [
        (["$", "1,234"], ["$1,234"]),
        (["$", "(1,234", ")"], ["$(1,234)"]),
        (["(", "12", ")"], ["(12)"]),
        (["12.5", "%"], ["12.5%"]),
        (["(3.1", ")%"], ["(3.1)%"]),
        (["$", "—"], ["$—"]),
        (["$"], ["$"]),
        (["$", "per share"], ["$", "per share"]),
        (["Change", "%"], ["Change", "%"]),
        (["2023", "", "2022"], ["2023", "2022"]),
        ([], []),
    ],
)
def test_marks_are_glued_to_their_number_and_to_nothing_else(cells: list[str], glued: list[str]) -> None:
    assert [cell.text for cell in glue([Cell(text, n, n + 1) for n, text in enumerate(cells)])] == glued


def test_a_glued_number_stands_on_all_columns_of_its_parts() -> None:
    cells = [Cell("$", 2, 3), Cell("(12", 3, 4), Cell(")", 4, 5)]
    assert glue(cells) == [Cell("$(12)", 2, 5)]


def rows(markup: str) -> list[str]:
    return [line.text for line in extract_html(markup).lines if line.row]


def test_an_empty_cell_of_a_column_that_other_rows_fill_leaves_its_tab() -> None:
    markup = (
        "<table><tr><td></td><td>2023</td><td>2022</td><td>2021</td></tr>"
        "<tr><td>Sales</td><td>12</td><td></td><td>9</td></tr><tr><td></td><td>12</td><td>&nbsp;</td><td>9</td></tr></table>"
    )
    assert rows(markup) == ["\t2023\t2022\t2021", "Sales\t12\t\t9", "\t12\t\t9"]


def test_columns_that_no_row_fills_leave_none() -> None:
    markup = "<table><tr><td>Sales<td><td>12<td><td>9<tr><td>Cost<td><td>8<td><td>7</table>"
    assert rows(markup) == ["Sales\t12\t9", "Cost\t8\t7"]


def test_currency_and_parenthesis_columns_are_one_column_with_their_number() -> None:
    markup = (
        "<table><tr><td></td><td colspan=3>2023</td><td colspan=3>2022</td></tr>"
        "<tr><td>Net</td><td>$</td><td>1,234</td><td></td><td>$</td><td>(56</td><td>)</td></tr>"
        "<tr><td>Other</td><td colspan=2>7</td><td></td><td colspan=2></td><td></td></tr>"
        "<tr><td>Last</td><td colspan=2></td><td></td><td colspan=2>8</td><td></td></tr></table>"
    )
    assert rows(markup) == ["\t2023\t2022", "Net\t$1,234\t$(56)", "Other\t7", "Last\t\t8"]


def test_a_heading_across_columns_makes_no_column_of_its_own() -> None:
    markup = (
        "<table><tr><td></td><td colspan=2>Years ended</td></tr><tr><td></td><td>2023</td><td>2022</td></tr>"
        "<tr><td>Sales</td><td>1</td><td>2</td></tr></table>"
    )
    assert rows(markup) == ["\tYears ended", "\t2023\t2022", "Sales\t1\t2"]


def test_a_cell_that_reaches_down_keeps_its_column() -> None:
    markup = (
        "<table><tr><td rowspan=2>Region</td><td>North</td><td>1</td></tr><tr><td>South</td><td>2</td></tr>"
        "<tr><td>All</td><td></td><td>3</td></tr></table>"
    )
    assert rows(markup) == ["Region\tNorth\t1", "\tSouth\t2", "All\t\t3"]


@pytest.mark.parametrize("span", ["x", "-1", "0", "", "2.5", "²", "9" * 5_000])
def test_a_nonsensical_span_is_read_all_the_same(span: str) -> None:
    markup = (
        f"<table><tr><td colspan='{span}' rowspan='{span}'>a</td><td>1</td></tr><tr><td>b</td><td>2</td></tr></table>"
    )
    assert [row.split() for row in rows(markup)] == [["a", "1"], ["b", "2"]]


def test_a_table_of_very_many_columns_is_not_padded() -> None:
    cells = "".join(f"<td>{n}</td>" for n in range(60))
    assert rows(f"<table><tr>{cells}</tr><tr><td></td>{cells}</tr></table>") == ["\t".join(map(str, range(60)))] * 2


def test_tabs_inside_a_cell_become_spaces() -> None:
    table = Table(1)
    for texts in (["a\tb", "c"], ["d", "e"]):
        table.open_row()
        for text in texts:
            table.open_cell()
            table.rows[-1][-1].append(Line(text))
    assert [line.text for line in table_lines(table)] == ["a b\tc", "d\te"]


def test_a_grid_as_wide_and_tall_as_markup_can_ask_for_costs_little() -> None:
    cell = "<td colspan=99999 rowspan=99999>x</td>"
    assert len(rows(f"<table>{f'<tr>{cell * 5}</tr>' * 2_000}</table>")) == 2_000
