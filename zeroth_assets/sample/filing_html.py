"""A report as the HTML that present-day filings are: inline XBRL, a contents table, page breaks, tables.

What belongs here: markup. Words come from `filing_items`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from zeroth_assets.sample.filing_items import PARTS
from zeroth_assets.sample.filing_sheet import Company, Item, Part, Table

_FONT = "font-family:'Times New Roman',serif;font-size:10pt"
_BREAK = '<div style="height:27pt"></div><hr style="page-break-after:always"/><div style="min-height:27pt"></div>'
_PAGE_CHARACTERS = 5200


@dataclass(frozen=True, slots=True)
class Cover:
    """What the first page and the hidden header say."""

    company: Company
    year: int
    form: str
    filed: str
    accession: str

    @property
    def period(self) -> str:
        """The end of the fiscal year in words."""
        return f"{self.company.head['year_end']}, {self.year}"


def render(cover: Cover, items: Sequence[Item], exhibit: Sequence[str] = (), exhibit_name: str = "") -> str:
    """The whole page. `exhibit` is a list of paragraphs that follow the signatures."""
    page = _Page()
    page.add(_cover(cover))
    page.turn()
    page.add(_contents(items))
    page.turn()
    for item in items:
        if item.number in PARTS:
            page.add(_centred(PARTS[item.number]))
        page.add(_heading(item))
        for piece in item.content:
            if isinstance(piece, Table):
                page.add(_table(piece))
                continue
            if piece.title:
                page.add(
                    f'<div style="margin-top:8pt"><span style="{_FONT};font-weight:700">{_e(piece.title)}</span></div>'
                )
            if piece.text:
                page.add(_paragraph(piece.text))
    page.add(_signature(cover))
    if exhibit:
        page.turn()
        page.add(_centred(exhibit_name))
        for text in exhibit:
            page.add(_paragraph(text))
    return _HEAD.format(title=_name(cover)) + _header(cover) + page.text() + "</body></html>\n"


class _Page:
    """Body parts, with a break and a page number whenever a page is full."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._filled = 0
        self._number = 0

    def add(self, markup: str) -> None:
        if self._filled > _PAGE_CHARACTERS:
            self.turn()
        self._parts.append(markup)
        self._filled += len(re.sub(r"<[^>]*>", "", markup))

    def turn(self) -> None:
        self._number += 1
        self._parts.append(f'<div style="text-align:center"><span style="{_FONT}">{self._number}</span></div>{_BREAK}')
        self._filled = 0

    def text(self) -> str:
        return "\n".join(self._parts)


_HEAD = (
    "<?xml version='1.0' encoding='ASCII'?>\n"
    '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:ix="http://www.xbrl.org/2013/inlineXBRL" '
    'xmlns:xbrli="http://www.xbrl.org/2003/instance" xmlns:dei="http://xbrl.sec.gov/dei/2023" xml:lang="en-US">'
    '<head><meta http-equiv="Content-Type" content="text/html"/>\n<title>{title}</title></head><body>\n'
)


def _header(cover: Cover) -> str:
    facts = {
        "DocumentType": cover.form,
        "AmendmentFlag": "true" if cover.form.endswith("/A") else "false",
        "DocumentPeriodEndDate": cover.period,
        "DocumentFiscalYearFocus": str(cover.year),
        "EntityCentralIndexKey": cover.company.head["cik"],
    }
    hidden = "".join(
        f'<ix:nonNumeric contextRef="c-1" name="dei:{name}" id="f-{index}">{_e(value)}</ix:nonNumeric>'
        for index, (name, value) in enumerate(facts.items(), 1)
    )
    contexts = "".join(
        f'<xbrli:context id="c-{i}"><xbrli:entity><xbrli:identifier scheme="urn:fictional">'
        f"{cover.company.head['cik']}</xbrli:identifier></xbrli:entity><xbrli:period><xbrli:instant>"
        f"{cover.year - i + 1}-12-31</xbrli:instant></xbrli:period></xbrli:context>"
        for i in range(1, 4)
    )
    return (
        f'<div style="display:none"><ix:header><ix:hidden>{hidden}</ix:hidden>'
        f"<ix:resources>{contexts}</ix:resources></ix:header></div>\n"
    )


def _cover(cover: Cover) -> str:
    h = cover.company.head
    lines = [
        "UNITED STATES",
        "SECURITIES AND EXCHANGE COMMISSION",
        "Washington, D.C. 20549",
        f"FORM {cover.form}" + (" (Amendment No. 1)" if cover.form.endswith("/A") else ""),
        "ANNUAL REPORT PURSUANT TO SECTION 13 OR 15(d) OF THE SECURITIES EXCHANGE ACT OF 1934",
        f"For the fiscal year ended {cover.period}",
        h["co"],
        f"({h['state']})",
        h["address"],
        "This report is fiction, written as sample data. The registrant does not exist and nothing was filed.",
    ]
    return "\n".join(_centred(line) for line in lines)


def _contents(items: Sequence[Item]) -> str:
    rows = []
    for item in items:
        if item.number in PARTS:
            rows.append(
                f'<tr><td colspan="3"><span style="{_FONT};font-weight:700">{PARTS[item.number]}</span></td></tr>'
            )
        link = f'<a href="#{_anchor(item)}">{_e(item.title)}</a>'
        rows.append(f"<tr><td>Item&#160;{item.number}.</td><td>{link}</td><td>{len(rows) + 3}</td></tr>")
    return _centred("TABLE OF CONTENTS") + "\n<table>" + "\n".join(rows) + "</table>"


def _heading(item: Item) -> str:
    return (
        f'<div id="{_anchor(item)}"></div><div style="margin-top:12pt"><span style="{_FONT};font-weight:700">'
        f"Item&#160;{item.number}. {_e(item.title)}</span></div>"
    )


def _anchor(item: Item) -> str:
    return f"item_{item.number.lower()}"


def _table(table: Table) -> str:
    def cells(row: Sequence[str], tag: str) -> str:
        first, *rest = row
        numbers = "".join(
            f'<td style="text-align:right"><span>$</span></td><td style="text-align:right">{_number(cell, i)}</td>'
            if tag == "td"
            else f'<td></td><td style="text-align:right"><span style="font-weight:700">{_e(cell)}</span></td>'
            for i, cell in enumerate(rest, 1)
        )
        return f'<tr><td><span style="{_FONT}">{_e(first)}</span></td>{numbers}</tr>'

    body = "\n".join(cells(row, "td") for row in table.rows)
    caption = f'<div style="margin-top:8pt"><span style="{_FONT};font-weight:700">{_e(table.caption)}</span></div>'
    return f'{caption}\n<table style="width:100%">{cells(table.heads, "th")}\n{body}</table>'


def _number(cell: str, column: int) -> str:
    attributes = f'contextRef="c-{min(column, 3)}" unitRef="usd" decimals="-5" scale="6"'
    return f"<ix:nonFraction {attributes}>{_e(cell)}</ix:nonFraction>"


def _paragraph(text: str) -> str:
    return f'<div style="margin-top:6pt;text-align:justify"><span style="{_FONT}">{_e(text)}</span></div>'


def _centred(text: str) -> str:
    return f'<div style="text-align:center"><span style="{_FONT};font-weight:700">{_e(text)}</span></div>'


def _signature(cover: Cover) -> str:
    h = cover.company.head
    rows = [
        "SIGNATURES",
        (
            "Pursuant to the requirements of the Securities Exchange Act of 1934, the registrant has caused this "
            "report to be signed by the undersigned."
        ),
        h["co"],
        f"By: /s/ {h['ceo']}, Chief Executive Officer, {cover.filed}",
        f"By: /s/ {h['cfo']}, Chief Financial Officer, {cover.filed}",
    ]
    return "\n".join(_paragraph(row) for row in rows)


def _name(cover: Cover) -> str:
    return f"{cover.company.head['ticker'].lower()}-{cover.year}"


def _e(text: str) -> str:
    """Escaped, with the typographic apostrophe that filings print as an entity."""
    return html.escape(text, quote=False).replace("'", "&#8217;")


__all__ = ["Cover", "Part", "render"]
