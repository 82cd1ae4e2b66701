from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeroth_assets.corpus.cuad import parse_cuad
from zeroth_assets.corpus.model import Document
from zeroth_assets.corpus.sections import validate_document

CONTRACT = """Exhibit 10.7

SUPPLY AGREEMENT

This Supply Agreement is made between Alpha Inc. and Beta LLC, under Section 7.1 of the Master Agreement.

TABLE OF CONTENTS

ARTICLE I DEFINITIONS 1

1.1 "Affiliate" 1

ARTICLE II SUPPLY 2

Exhibit A - Prices 4

ARTICLE I

DEFINITIONS

1.1 "Affiliate" means any entity that controls a party, as set out in Section 9.9 below.

1.2 "Product" means the goods in Exhibit A. 25 units make a lot.

Source: ALPHA INC, 10-K, 1/1/2010

ARTICLE II - SUPPLY

Section 2.1. Orders. Beta shall order in writing. 2.2 Delivery. Alpha shall deliver within 30 days.

(a) Alpha bears the risk of loss until delivery.

(b) Beta bears it afterwards.

IN WITNESS WHEREOF, the parties have signed this Agreement.

By: ______________

EXHIBIT A

PRICES

1. Lots. A lot costs ten dollars.

2. Discounts. None.
"""


def outline(document: Document) -> list[tuple[int, str, str, str]]:
    return [(s.level, s.kind, s.number, s.title) for s in document.sections]


@pytest.fixture(scope="module")
def contract() -> Document:
    document = parse_cuad("cuad:alpha", "v", "Supply Agreement", CONTRACT.encode())
    validate_document(document)
    return document


def test_articles_clauses_exhibits_and_signatures_form_a_tree(contract: Document) -> None:
    assert outline(contract) == [
        (1, "front", "", "Supply Agreement"),
        (1, "article", "ARTICLE I", "DEFINITIONS"),
        (2, "clause", "1.1", ""),
        (2, "clause", "1.2", ""),
        (1, "article", "ARTICLE II", "SUPPLY"),
        (2, "clause", "2.1", "Orders"),
        (2, "clause", "2.2", "Delivery"),
        (1, "signature", "", "IN WITNESS WHEREOF"),
        (1, "exhibit", "EXHIBIT A", "PRICES"),
        (2, "clause", "1", "Lots"),
        (2, "clause", "2", "Discounts"),
    ]


def test_a_clause_that_opens_inside_a_line_starts_at_its_number(contract: Document) -> None:
    delivery = next(s for s in contract.sections if s.number == "2.2")
    assert contract.text[delivery.start :].startswith("2.2 Delivery. Alpha")


def test_the_text_is_the_decoded_file_character_for_character(contract: Document) -> None:
    assert contract.text == CONTRACT
    assert contract.dropped == {}
    crlf = CONTRACT.replace("\n", "\r\n")
    assert parse_cuad("cuad:alpha", "v", "T", crlf.encode()).text == crlf


def test_a_reference_to_a_clause_does_not_open_it() -> None:
    lines = [
        "1.1 Term. This Agreement runs for the period that is set out below, unless ended under Section  1.2 Or so.",
        "2. Notices. They are given in writing.",
    ]
    document = parse_cuad("cuad:a", "v", "T", "\n\n".join(lines).encode())
    assert [(s.number, s.start) for s in document.sections] == [("1.1", 0), ("2", 108)]


def test_the_entries_of_a_contents_table_are_no_clauses_even_without_page_numbers() -> None:
    titles = ["Definitions", "Term", "Notices"]
    table = "\n\n".join(f"{n}. {title}" for n, title in enumerate(titles, start=1))
    body = "\n\n".join(f"{n}. {title}. Some words about it that are long." for n, title in enumerate(titles, start=1))
    text = f"AGREEMENT\n\nTABLE OF CONTENTS\n\n{table}\n\n{body}\n"
    document = parse_cuad("cuad:a", "v", "T", text.encode())
    assert [s.title for s in document.sections] == ["T", *titles]
    assert document.sections[1].start == text.index(body)


def test_lettered_paragraphs_are_items(contract: Document) -> None:
    assert [contract.text[b.start : b.end] for b in contract.blocks] == [
        "(a) Alpha bears the risk of loss until delivery.",
        "(b) Beta bears it afterwards.",
    ]


def test_pages_are_estimated(contract: Document) -> None:
    assert contract.pages
    assert not any(page.real for page in contract.pages)


def test_lettered_paragraphs_of_a_very_long_clause_are_sections() -> None:
    items = "\n\n".join(f"({letter}) Organization. {'The Company is duly organized. ' * 90}" for letter in "abc")
    raw = f"1. Definitions. Words.\n\n2. Representations. As follows:\n\n{items}\n\n3. Notices. In writing.\n"
    document = parse_cuad("cuad:a", "v", "T", raw.encode())
    assert [(s.level, s.number, s.title) for s in document.sections if s.number.startswith("(")] == [
        (2, "(a)", "Organization"),
        (2, "(b)", "Organization"),
        (2, "(c)", "Organization"),
    ]


def test_a_contract_without_numbers_is_read_by_its_headings() -> None:
    parts = "\n\n".join(
        f"{name}\n\nSome text about it that goes on." for name in ("Formation", "Capital", "Term", "Notices")
    )
    document = parse_cuad("cuad:a", "v", "T", f"AGREEMENT\n\nbetween A\n\nand B\n\n{parts}\n".encode())
    assert [s.title for s in document.sections][1:] == ["Formation", "Capital", "Term", "Notices"]


def test_a_text_without_any_structure_says_so() -> None:
    document = parse_cuad("cuad:a", "v", "T", b"We agree to file jointly.\n")
    assert document.sections == ()
    assert document.warnings == ("No clause, article or signature block found",)


hostile_line = st.one_of(
    st.text(alphabet=st.characters(), max_size=80),
    st.sampled_from(
        ["ARTICLE I", "ARTICLE II TERM", "1. Term. One year.", "1.1 Start. Now. 1.2 End. Later.", "(a) item"]
    ),
    st.sampled_from(
        ["EXHIBIT A", "IN WITNESS WHEREOF, they sign", "TABLE OF CONTENTS", "", "Section 2.1 Orders", "II. TERM"]
    ),
)


@settings(max_examples=300, deadline=None)
@given(lines=st.lists(hostile_line, max_size=30), end=st.sampled_from(["\n", "\r\n", "\n\n", " "]))
def test_any_text_keeps_its_characters_and_the_contracts(lines: list[str], end: str) -> None:
    text = end.join(lines)
    document = parse_cuad("cuad:a", "v", "T", text.encode("utf-8", "surrogatepass"))
    validate_document(document)
    stored = "".join("\ufffd" if c == "\x00" or "\ud800" <= c <= "\udfff" else c for c in text.removeprefix("\ufeff"))
    assert document.text == stored


@pytest.mark.parametrize("piece", [" ", ".", "A", "1.1 A", "1. ", "(a) ", "ARTICLE I ", "IN WITNESS ", "Exhibit A "])
def test_a_line_without_end_takes_no_time_without_end(piece: str) -> None:
    validate_document(parse_cuad("cuad:a", "v", "T", (piece * (60_000 // len(piece)) + "\n").encode() * 2))


@pytest.mark.mirror
def test_every_expert_label_slices_its_own_text(mirror: Path) -> None:
    labels = json.loads((mirror / "cuad/derived/cuad_spans_recomputed.json").read_text(encoding="utf-8"))
    found = total = with_tree = 0
    for contract in labels["data"]:
        document = parse_cuad("cuad:x", "v", contract["title"], (mirror / "cuad" / contract["file"]).read_bytes())
        validate_document(document)
        with_tree += len([s for s in document.sections if s.kind != "front"]) >= 2
        for question in contract["qas"]:
            for answer in question["answers"]:
                total += 1
                start = answer["answer_start"]
                found += document.text[start : start + len(answer["text"])] == answer["text"]
    assert (found, total) == (13_831, 13_831)
    assert with_tree >= 0.9 * len(labels["data"])


@pytest.mark.mirror
def test_a_real_contract_has_the_clauses_that_a_reader_counts(mirror: Path) -> None:
    name = "HALITRON,INC_03_01_2005-EX-10.15-SPONSORSHIP AND DEVELOPMENT AGREEMENT.txt"
    raw = (mirror / "cuad/full_contract_txt" / name).read_bytes()
    document = parse_cuad("cuad:x", "v", "T", raw)
    top = [s.heading for s in document.sections if s.kind == "clause" and s.level == 1]
    assert top[:5] == [
        "1 DEVELOPMENT, PRODUCTION, COMMERCIAL AND PUBLICITY SERVICES",
        "2 GRANT OF RIGHTS; COOPERATIONS",
        "3 EXCLUSIVITY",
        "4 COMPENSATION",
        "5 AUDIT",
    ]
