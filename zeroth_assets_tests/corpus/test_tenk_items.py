from __future__ import annotations

import doctest

import pytest

from zeroth_assets.corpus import tenk_forms
from zeroth_assets.corpus.tenk_forms import item_numbers
from zeroth_assets.corpus.tenk_items import find_headings
from zeroth_assets.corpus.tenk_lines import Line

PROSE = "We design, make and sell widgets in forty countries, and we have done so since the company was founded."


def lines_of(*texts: str) -> list[Line]:
    return [Line(text) for text in texts]


def found(lines: list[Line]) -> list[tuple[str, str]]:
    return [(h.printed, h.title) for h in find_headings(lines)[0] if h.kind == "item"]


def test_examples_in_docstrings_hold() -> None:
    assert doctest.testmod(tenk_forms).failed == 0


@pytest.mark.parametrize(
    ("printed", "numbers"),
    [
        ("7A", ("7A",)),
        ("9A(T)", ("9A",)),
        ("9A(I)", ("9A",)),
        ("7 and 7A", ("7", "7A")),
        ("1 AND 2", ("1", "2")),
        ("10, 11, 12 and 13", ("10", "11", "12", "13")),
        ("10-14", ("10", "11", "12", "13", "14")),
        ("1 & 2", ("1", "2")),
        ("17", ()),
        ("0", ()),
        ("7B", ()),
        ("14(a)", ()),
    ],
)
def test_printed_numbers_name_items_of_the_form_or_none(printed: str, numbers: tuple[str, ...]) -> None:
    assert item_numbers(printed) == numbers


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Item 1. Business", ("1", "Business")),
        ("ITEM 1 — BUSINESS", ("1", "BUSINESS")),
        ("Item 1: Business", ("1", "Business")),
        ("Item 1 - Business", ("1", "Business")),
        ("Item 1.Business", ("1", "Business")),
        ("PART I, ITEM 1. BUSINESS", ("1", "BUSINESS")),
        ("• Item 1. Business", ("1", "Business")),
        ("Item 1A.\tRisk Factors", ("1A", "Risk Factors")),
        ("Item 1 A. Risk Factors", ("1 A", "Risk Factors")),
        ("Item 9A(T). Controls and Procedures", ("9A(T)", "Controls and Procedures")),
        ("Items 1 and 2. Business and Properties", ("1 and 2", "Business and Properties")),
        ("Item 2. Properties. We own four plants and lease two more of them in Ohio.", ("2", "Properties")),
        ("Item 6. [Reserved]", ("6", "[Reserved]")),
        ("Item 11. Executive Compensation*", ("11", "Executive Compensation")),
    ],
)
def test_headings_are_read_in_the_forms_in_which_filers_print_them(line: str, expected: tuple[str, str]) -> None:
    assert found(lines_of(line, PROSE)) == [expected]


@pytest.mark.parametrize(
    "line",
    [
        "Item 7 of this report discusses it.",
        "Item 7, “Management’s Discussion and Analysis,” says more.",
        "Item 1A “Risk Factors” of this report",
        "Item 601 of Regulation S-K requires exhibits.",
        "Item 14(a)(1) and 14(a)(2)",
        "ITEM 8 and the notes thereto",
        "Items to be voted on",
        "See Item 7. Management's Discussion and Analysis",
    ],
)
def test_a_cross_reference_is_no_heading(line: str) -> None:
    assert found(lines_of(line, PROSE)) == []


def test_a_wrapped_sentence_of_a_text_filing_is_no_heading() -> None:
    lines = lines_of(
        "ITEM 3. LEGAL PROCEEDINGS",
        "",
        "We are party to suits that are described in",
        "Item 7. Management's Discussion",
    )
    assert found(lines) == [("3", "LEGAL PROCEEDINGS")]


def test_a_title_on_the_next_line_belongs_to_the_heading() -> None:
    heading = find_headings(lines_of("Item 5.", "Market for Registrant’s Common Equity", PROSE))[0][0]
    assert (heading.title, heading.first, heading.last) == ("Market for Registrant’s Common Equity", 0, 1)


def test_a_title_broken_over_lines_is_whole() -> None:
    lines = lines_of("ITEM 9. CHANGES IN AND DISAGREEMENTS WITH ACCOUNTANTS ON", "ACCOUNTING AND DISCLOSURE", PROSE)
    assert found(lines) == [("9", "CHANGES IN AND DISAGREEMENTS WITH ACCOUNTANTS ON ACCOUNTING AND DISCLOSURE")]


def test_a_title_does_not_swallow_the_sub_heading_below_it() -> None:
    lines = lines_of("ITEM 5. MARKET FOR REGISTRANT’S COMMON EQUITY", "MARKET INFORMATION", PROSE)
    assert found(lines) == [("5", "MARKET FOR REGISTRANT’S COMMON EQUITY")]


CONTENTS = [
    ("Item 1.", "Business", "4"),
    ("Item 1A.", "Risk Factors", "9"),
    ("Item 2.", "Properties", "12"),
    ("Item 7.", "Management’s Discussion", "13"),
    ("Item 8.", "Financial Statements", "F-1"),
]
BODY = [text for number, title, _ in CONTENTS for text in (f"{number} {title}", PROSE)]


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_contents_table_gives_no_headings_wherever_it_stands(where: str) -> None:
    contents = [Line("\t".join(entry), table=1, row=True) for entry in CONTENTS]
    body = lines_of(*BODY)
    headings, _ = find_headings(contents + body if where == "before" else body + contents)
    offset = len(contents) if where == "before" else 0
    assert [h.first - offset for h in headings] == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(
    "contents",
    [
        [Line(f"{number} {title}", linked=True) for number, title, _ in CONTENTS],
        [Line(f"{number} {title} ........ {page}") for number, title, page in CONTENTS],
        [Line(f"{number} {title}") for number, title, _ in CONTENTS],
        [Line(text) for entry in CONTENTS for text in entry],
        [Line(text, linked=True) for entry in CONTENTS for text in (entry[0], entry[1], "Overview", "Outlook")],
    ],
    ids=["links", "dotted", "bare", "a cell a line", "with sub-headings"],
)
def test_contents_of_every_style_are_told_from_the_body(contents: list[Line]) -> None:
    headings, _ = find_headings(contents + lines_of(*BODY))
    assert [h.first - len(contents) for h in headings] == [0, 2, 4, 6, 8]


SHORT_BODY = [text for number, title, _ in CONTENTS for text in (f"{number} {title}", "None.")]
# Each contents below is betrayed by one trait alone; the long preface behind it makes its last entry look substantial.
PREFACE = [PROSE] * 60


@pytest.mark.parametrize(
    "contents",
    [
        [Line(f"{number} {title} ..... {page}") for number, title, page in CONTENTS[2:]],
        [Line(f"{number} {title}", linked=True) for number, title, _ in CONTENTS[2:]],
        [Line(f"{number} {title}") for number, title, _ in CONTENTS],
        [
            Line(text, table=1, row=True)
            for number, title, _ in CONTENTS
            for text in (f"{number}\t{title}", "Overview and outlook")
        ],
    ],
    ids=["page numbers", "links", "nothing between", "one table"],
)
def test_each_trait_of_a_contents_table_is_enough_before_a_long_preface(contents: list[Line]) -> None:
    body = SHORT_BODY if len(contents) >= len(CONTENTS) else SHORT_BODY[4:]
    headings, _ = find_headings([*contents, *lines_of(*PREFACE, *body)])
    assert [h.first - len(contents) - len(PREFACE) for h in headings] == list(range(0, len(body), 2))


def test_a_report_with_only_a_cross_reference_index_has_no_items_and_says_so() -> None:
    index = [Line("\t".join(entry), table=1, row=True) for entry in CONTENTS]
    headings, warnings = find_headings([*lines_of("OUR BUSINESS", PROSE, PROSE), *index])
    assert headings == []
    assert len(warnings) == 1
    assert "5 lines name one" in warnings[0]


def test_missing_items_are_named_in_a_warning() -> None:
    _, warnings = find_headings(lines_of("Item 1. Business", PROSE, "Item 8. Financial Statements", PROSE))
    assert warnings == ["No heading found for Item 7"]


def test_items_of_another_form_listed_inside_the_last_item_are_not_taken() -> None:
    lines = lines_of(
        "Item 7. Management's Discussion", PROSE, "Item 14. Exhibits and Reports on Form 8-K", PROSE,
        "Item 5. Other Events -- a meeting of the board", PROSE, "Item 7. Financial Statements and Exhibits", PROSE,
    )  # fmt: skip
    assert [h.first for h in find_headings(lines)[0]] == [0, 2]


def test_a_continued_heading_does_not_replace_the_first() -> None:
    lines = lines_of(
        "Item 7. Management’s Discussion", PROSE, "Item 7. Management’s Discussion (continued)", PROSE, PROSE, PROSE
    )
    assert [h.first for h in find_headings(lines)[0]] == [0]


def test_parts_are_taken_where_they_are_printed_and_never_made_up() -> None:
    lines = lines_of(
        "PART I", "PART II", "PART III",  # contents
        "Item 1. Business", PROSE, "PART II", "Item 5. Market", PROSE,
        "Item 10. Directors", PROSE, "Part IV", "Item 15. Exhibits", PROSE,
    )  # fmt: skip
    assert [(h.kind, h.numbers[0], h.first) for h in find_headings(lines)[0]] == [
        ("item", "1", 3), ("part", "II", 5), ("item", "5", 6),
        ("item", "10", 8), ("part", "IV", 10), ("item", "15", 11),
    ]  # fmt: skip


def test_item_14_stands_in_the_part_under_which_it_is_printed() -> None:
    old = find_headings(lines_of("PART IV", "Item 14. Exhibits", PROSE))[0]
    new = find_headings(lines_of("PART III", "Item 14. Principal Accountant Fees", PROSE))[0]
    assert [h.numbers[0] for h in (*old, *new)] == ["IV", "14", "III", "14"]


def test_a_sentence_about_a_part_is_no_part() -> None:
    lines = lines_of("Part II incorporates information by reference", "Item 5. Market", PROSE)
    assert [h.kind for h in find_headings(lines)[0]] == ["item"]


def test_the_last_signatures_line_after_the_items_is_the_signatures() -> None:
    lines = lines_of("Signatures", "Item 15. Exhibits", PROSE, "SIGNATURES", "By: A. Person")
    assert [(h.kind, h.first) for h in find_headings(lines)[0]] == [("item", 1), ("signature", 3)]


def test_thousands_of_repeated_headings_take_no_quadratic_time() -> None:
    headings, _ = find_headings(lines_of(*["Item 1. Business"] * 20_000, PROSE))
    assert len(headings) == 1
