from __future__ import annotations

import itertools

import pytest

from zeroth_assets.corpus.model import Document
from zeroth_assets.sample.filing_items import balance_table, quarter_table, segment_table
from zeroth_assets.sample.filing_sheet import Table, accounts, read_company, tenths

REPORTS = [
    (name, year)
    for name, years in (("quillfeather", (2021, 2022)), ("tidewrack", (2018, 2019)), ("brackenridge", (1995, 1996)))
    for year in years
]


def _value(cell: str) -> int:
    sign = -1 if cell.startswith("(") else 1
    return sign * int(cell.strip("()").replace(",", "").replace(".", ""))


def _column(table: Table, index: int) -> dict[str, int]:
    return {row[0]: _value(row[index]) for row in table.rows}


@pytest.mark.parametrize(("name", "year"), REPORTS)
def test_statements_add_up(name: str, year: int) -> None:
    company = read_company(name)
    now = accounts(company, year)
    balance = _column(balance_table(company, year), 1)
    assert balance["Total assets"] == balance["Total liabilities and equity"]
    parts = ("Cash and cash equivalents", "Receivables", "Inventories", "Property, plant and equipment")
    assert sum(balance[part] for part in parts) == balance["Total assets"]
    quarters = quarter_table(company, year).rows[0][1:]
    assert sum(map(_value, quarters)) == now.sales
    segments = _column(segment_table(company, year), 1)
    assert segments.pop("Net sales") == sum(segments.values()) == now.sales
    assert now.net > 0


@pytest.mark.parametrize("name", ["quillfeather", "tidewrack", "brackenridge"])
def test_two_reports_of_one_filer_agree_about_the_year_they_share(name: str) -> None:
    company = read_company(name)
    first = min(year for n, year in REPORTS if n == name)
    assert _column(segment_table(company, first), 1) == _column(segment_table(company, first + 1), 2)


def test_tenths_are_printed_as_in_statements() -> None:
    assert [tenths(v) for v in (12345, 7, 0, -105)] == ["1,234.5", "0.7", "0.0", "(10.5)"]


def test_hidden_facts_of_the_header_are_no_text_and_items_stand_in_order(parsed: dict[str, Document]) -> None:
    document = parsed["sec:9900835:10-k:2019-12-31"]
    assert "AmendmentFlag" not in document.text
    items = [s for s in document.sections if s.kind == "item"]
    assert [s.number for s in items][:4] == ["1", "1A", "1B", "2"]
    assert len(items) == 21
    assert all(a.start < b.start for a, b in itertools.pairwise(items))
    business = document.text[items[0].start : items[0].end]
    assert "We grow, gather, dry and sell seaweed." in business
