"""A report as the text of the 1990s: an SGML submission with several documents, `<PAGE>` and `<TABLE>`.

What belongs here: the set-up of such a submission. Words come from `filing_items`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from zeroth_assets.sample.filing_html import Cover
from zeroth_assets.sample.filing_items import PARTS
from zeroth_assets.sample.filing_sheet import Item, Part, Table

_LINES = 58


def render(cover: Cover, items: Sequence[Item], exhibits: Sequence[tuple[str, str, Sequence[Part | Table]]]) -> str:
    """The submission: a header, the report, and exhibits as documents of their own."""
    documents = [_document("10-K", 1, "ANNUAL REPORT", _report(cover, items))]
    for index, (kind, description, content) in enumerate(exhibits, 2):
        documents.append(_document(kind, index, description, _pages(_blocks(content))))
    return _header(cover, len(documents)) + "".join(documents) + "</SEC-DOCUMENT>\n"


def _header(cover: Cover, count: int) -> str:
    h = cover.company.head
    day = cover.filed.replace("-", "")
    return (
        f"<SEC-DOCUMENT>{cover.accession}.txt : {day}\n<SEC-HEADER>{cover.accession}.hdr.sgml : {day}\n"
        f"ACCESSION NUMBER:\t\t{cover.accession}\nCONFORMED SUBMISSION TYPE:\t{cover.form}\n"
        f"PUBLIC DOCUMENT COUNT:\t\t{count}\n"
        f"CONFORMED PERIOD OF REPORT:\t{cover.year}1231\nFILED AS OF DATE:\t\t{day}\n\n"
        f"FILER:\n\n\tCOMPANY DATA:\t\n\t\tCOMPANY CONFORMED NAME:\t\t\t{h['co'].upper()}\n"
        f"\t\tCENTRAL INDEX KEY:\t\t\t{h['cik']}\n\t\tFISCAL YEAR END:\t\t\t1231\n</SEC-HEADER>\n"
    )


def _document(kind: str, sequence: int, description: str, body: str) -> str:
    return (
        f"<DOCUMENT>\n<TYPE>{kind}\n<SEQUENCE>{sequence}\n<DESCRIPTION>{description}\n<TEXT>\n"
        f"{body}\n</TEXT>\n</DOCUMENT>\n"
    )


def _report(cover: Cover, items: Sequence[Item]) -> str:
    h = cover.company.head
    front = [
        "SECURITIES AND EXCHANGE COMMISSION", "WASHINGTON, D. C. 20549", "", "FORM 10-K", "",
        "ANNUAL REPORT PURSUANT TO SECTION 13 OR 15(d)", "OF THE SECURITIES EXCHANGE ACT OF 1934",
        f"For the Fiscal Year Ended {cover.period}", "", h["co"].upper(), h["address"], "",
        "This report is fiction, written as sample data.", "The registrant does not exist and nothing was filed.",
    ]  # fmt: skip
    blocks: list[list[str]] = [["<PAGE>"], [line.center(80).rstrip() for line in front]]
    index = ["                               TABLE OF CONTENTS", ""]
    for item in items:
        index.append(f"Item {item.number + '.':<5} {item.title[:58]:<60}{len(index):>4}")
    blocks += [index, ["<PAGE>"]]
    for item in items:
        if item.number in PARTS:
            blocks.append([PARTS[item.number].center(80).rstrip()])
        blocks.append(textwrap.wrap(f"ITEM {item.number}. {item.title.upper()}.", 78))
        blocks += _blocks(item.content)
    blocks.append(["SIGNATURES".center(80).rstrip(), "", f"{h['co']}", f"By: /s/ {h['ceo']}, {cover.filed}"])
    return _pages(blocks)


def _blocks(content: Sequence[Part | Table]) -> list[list[str]]:
    blocks: list[list[str]] = []
    for piece in content:
        if isinstance(piece, Table):
            blocks.append(_table(piece))
            continue
        if piece.title:
            blocks.append([piece.title.upper()])
        if piece.text:
            blocks.append(textwrap.wrap(piece.text, 80, initial_indent="     ", break_on_hyphens=False))
    return blocks


def _table(table: Table) -> list[str]:
    width = 40
    head = table.heads[0].ljust(width) + "".join(h.rjust(12) for h in table.heads[1:])
    rule = "-" * width + "".join("  ----------" for _ in table.heads[1:])
    marks = "<S>".ljust(width) + "".join("<C>".rjust(12) for _ in table.heads[1:])
    rows = [f"{(row[0] + '...').ljust(width)}" + "".join(f"${c}".rjust(12) for c in row[1:]) for row in table.rows]
    return ["<TABLE>", "<CAPTION>", table.caption.upper(), "", head, rule, marks, *rows, "</TABLE>"]


def _pages(blocks: Sequence[Sequence[str]]) -> str:
    lines: list[str] = []
    filled = number = 0
    for block in blocks:
        if list(block) == ["<PAGE>"]:
            lines += ["<PAGE>"]
            filled = 0
            continue
        if filled and block[0] == "<TABLE>" and filled + len(block) > _LINES:
            number, filled = number + 1, 0
            lines += ["", str(number).center(80).rstrip(), "<PAGE>"]
        for line in [*block, ""]:
            if filled >= _LINES:
                number, filled = number + 1, 0
                lines += ["", str(number).center(80).rstrip(), "<PAGE>"]
            lines.append(line)
            filled += 1
    return "\n".join(lines)
