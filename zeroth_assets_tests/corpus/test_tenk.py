from __future__ import annotations

import itertools
import os
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeroth_assets.corpus.model import Document, innermost_spans
from zeroth_assets.corpus.tenk import TENK_PARSER_VERSION, parse_tenk, section_items
from zeroth_assets.errors import ParseError

PROSE = "The Company makes widgets in forty countries and has done so since it was founded in 1901."


def parse(markup: str | bytes, media_type: str = "text/html") -> Document:
    raw = markup.encode() if isinstance(markup, str) else markup
    return parse_tenk("sec:acme:10-k:2023-12-31", "0" * 64, "Acme 10-K", raw, media_type)


def item(document: Document, number: str) -> str:
    """The text of the section that holds an Item."""
    [section] = [s for s in document.sections if number in section_items(s)]
    return document.text[section.start : section.end]


def check(document: Document) -> None:
    """What every document promises: ranges that are valid, nested, ordered; pages that cover."""
    size = len(document.text)
    ranges = [(s.start, s.end) for s in document.sections]
    ranges += [(b.start, b.end) for b in document.blocks] + [(p.start, p.end) for p in document.pages]
    assert all(0 <= start < end <= size for start, end in ranges)
    for first, second in itertools.combinations(document.sections, 2):
        assert first.start <= second.start
        assert second.start >= first.end or second.end <= first.end
        assert second.start >= first.end or second.level > first.level
    assert document.pages[0].start == 0
    assert document.pages[-1].end == size
    assert all(a.end == b.start and b.number == a.number + 1 for a, b in itertools.pairwise(document.pages))
    inside = Counter(at for b in document.blocks if b.kind == "table" for at in range(b.start, b.end))
    assert set(inside.values()) <= {1}
    for row in (b for b in document.blocks if b.kind == "table_row"):
        assert inside[row.start] == inside[row.end - 1] == 1
        assert "\n" not in document.text[row.start : row.end]
    assert "".join(document.text[s.start : s.end] for s in innermost_spans(document)) == document.text
    document.text.encode()


FILING = f"""<?xml version='1.0' encoding='ASCII'?>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:ix="http://www.xbrl.org/2013/inlineXBRL">
<head><title>acme</title></head><body>
<div style="display:none"><ix:header><ix:hidden><ix:nonNumeric>0000000001</ix:nonNumeric></ix:hidden></ix:header></div>
<div>ACME, INC.</div>
<table>
<tr><td colspan="2">PART I</td><td>Page</td></tr>
<tr><td><a href="#b">Item 1.</a></td><td><a href="#b">Business</a></td><td>2</td></tr>
<tr><td><a href="#r">Item 1A.</a></td><td><a href="#r">Risk Factors</a></td><td>2</td></tr>
<tr><td><a href="#m">Item 7.</a></td><td><a href="#m">Management’s Discussion</a></td><td>3</td></tr>
<tr><td><a href="#f">Item 8.</a></td><td><a href="#f">Financial Statements</a></td><td>3</td></tr>
</table>
<div>1</div><hr style="page-break-after:always"/><div><a href="#toc">Table of Contents</a></div>
<div>PART I</div>
<div>Item 1.<span style="padding-left:9pt">Business</span></div><p>{PROSE} See Item 7. It goes on to</p>
<div>2</div><hr style="page-break-after:always"/><div><a href="#toc">Table of Contents</a></div>
<p>say that sales grew.</p>
<table><tr><td>Item 1A.</td><td>Risk Factors</td></tr></table><p>Item 7 of this report lists risks. {PROSE}</p>
<div>PART II</div>
<div>Item 7. Management’s Discussion and Analysis</div>
<p>The discussion is in Exhibit 13 and is incorporated herein by reference.</p>
<div>Item 8. Financial Statements and Supplementary Data</div>
<table><tr><td>(in millions)</td><td colspan="2">2023</td><td colspan="2">2022</td></tr>
<tr><td>Net sales</td><td>$</td><td>1,234</td><td>$</td><td>(56</td><td>)</td></tr></table>
<div>3</div><hr style="page-break-after:always"/><div><a href="#toc">Table of Contents</a></div>
<div>SIGNATURES</div><p>By: A. Person</p><div>EXHIBIT INDEX</div><p>13 Annual report</p><div>4</div>
</body></html>"""


def test_a_modern_filing_is_read_whole() -> None:
    document = parse(FILING)
    check(document)
    assert [(s.kind, s.level, s.heading) for s in document.sections] == [
        ("front", 1, "Cover and contents"),
        ("part", 1, "PART I"),
        ("item", 2, "1 Business"),
        ("item", 2, "1A Risk Factors"),
        ("part", 1, "PART II"),
        ("item", 2, "7 Management’s Discussion and Analysis"),
        ("item", 2, "8 Financial Statements and Supplementary Data"),
        ("signature", 1, "SIGNATURES"),
        ("appendix", 1, "EXHIBIT INDEX"),
    ]
    assert document.warnings == ()
    assert (document.source, document.parser_version) == ("sec", TENK_PARSER_VERSION)
    assert "0000000001" not in document.text


def test_an_item_that_points_to_an_exhibit_holds_that_sentence_and_nothing_invented() -> None:
    assert item(parse(FILING), "7") == (
        "Item 7. Management’s Discussion and Analysis\n"
        "The discussion is in Exhibit 13 and is incorporated herein by reference.\n"
    )


def test_a_sentence_that_a_page_break_cuts_is_whole_and_both_pages_are_kept() -> None:
    document = parse(FILING)
    at = document.text.index("It goes on to say that sales grew.")
    assert [p.number for p in document.pages if p.start < at + 34 and p.end > at] == [2, 3]
    assert all(page.real for page in document.pages)


def test_page_furniture_is_dropped_and_counted() -> None:
    document = parse(FILING)
    assert document.text.count("Table of Contents") == 0
    assert document.dropped == {
        "contents_link": 3 * len("Table of Contents"), "head": 4, "hidden": 10, "page_number": 4,
    }  # fmt: skip


def test_tables_and_their_rows_are_blocks() -> None:
    document = parse(FILING)
    rows = [document.text[b.start : b.end] for b in document.blocks if b.kind == "table_row"]
    assert rows[-2:] == ["(in millions)\t2023\t2022", "Net sales\t$1,234\t$(56)"]
    assert document.text[document.blocks[-1].start : document.blocks[-1].end] == "\n".join(rows[-2:])


SUBMISSION = f"""<SEC-HEADER>ACME INC</SEC-HEADER>
<DOCUMENT>
<TYPE>10-K405
<TEXT>
<PAGE>
                              FORM 10-K

<PAGE>
                               PART I
ITEM 1.   BUSINESS

     {PROSE[:60]}
{PROSE[60:]}  It sells them to customers who were

                                  2
<PAGE>

glad to have them.

                               PART II
ITEM 7.   MANAGEMENT'S DISCUSSION AND ANALYSIS OF FINANCIAL CONDITION AND
          RESULTS OF OPERATIONS

     The information on pages 3 and 4 of Exhibit 13 is incorporated by
reference.

ITEM 8.   FINANCIAL STATEMENTS AND SUPPLEMENTARY DATA

     See Exhibit 13.
</TEXT>
</DOCUMENT>
<DOCUMENT>
<TYPE>EX-13
<DESCRIPTION>ANNUAL REPORT
<TEXT>
ITEM 7. MANAGEMENT'S DISCUSSION

     Sales grew by a tenth because people bought more widgets than before.
<TABLE>
<S>            <C>
Sales          $ 12
</TABLE>
</TEXT>
</DOCUMENT>
<DOCUMENT>
<TYPE>GRAPHIC
<TEXT>
begin 644 a.gif
M1
</TEXT>
</DOCUMENT>
"""


def test_a_submission_of_the_nineties_gives_items_from_its_report_and_exhibits_as_sections() -> None:
    document = parse(SUBMISSION, "text/plain")
    check(document)
    assert [(s.kind, s.heading) for s in document.sections] == [
        ("front", "Cover and contents"),
        ("part", "PART I"),
        ("item", "1 BUSINESS"),
        ("part", "PART II"),
        ("item", "7 MANAGEMENT'S DISCUSSION AND ANALYSIS OF FINANCIAL CONDITION AND RESULTS OF OPERATIONS"),
        ("item", "8 FINANCIAL STATEMENTS AND SUPPLEMENTARY DATA"),
        ("exhibit", "EX-13 ANNUAL REPORT"),
    ]
    assert "Sales grew" not in item(document, "7")
    assert document.warnings == ()
    assert document.dropped["non_text_document"] > 0
    assert [b.kind for b in document.blocks] == ["table_row", "table"]


def test_a_text_filing_keeps_a_sentence_whole_over_a_page_and_drops_the_number() -> None:
    document = parse(SUBMISSION, "text/plain")
    assert "customers who were glad to have them." in document.text
    assert document.dropped["page_number"] == 35
    assert [p.real for p in document.pages] == [True] * 4


def test_a_filing_without_page_breaks_has_estimated_pages() -> None:
    document = parse(f"<p>Item 1. Business</p>{f'<p>{PROSE}</p>' * 200}")
    check(document)
    assert len(document.pages) > 3
    assert not any(page.real for page in document.pages)


def test_a_combined_heading_is_one_section_that_names_its_items() -> None:
    document = parse(f"<p>Items 1 and 2. Business and Properties</p><p>{PROSE}</p><p>Item 3. Legal</p><p>{PROSE}</p>")
    [combined, _] = [s for s in document.sections if s.kind == "item"]
    assert combined.heading == "1 and 2 Business and Properties"
    assert section_items(combined) == ("1", "2")


def test_a_part_ends_where_an_item_of_a_part_that_is_not_printed_begins() -> None:
    document = parse(
        f"<p>PART II</p><p>Item 9B. Other Information</p><p>None</p><p>Item 10. Directors</p><p>{PROSE}</p>"
    )
    assert [(s.kind, s.level) for s in document.sections] == [("part", 1), ("item", 2), ("item", 1)]
    check(document)


def test_a_filing_whose_items_cannot_be_found_is_one_document_with_a_warning() -> None:
    document = parse(f"<h1>Annual report</h1><p>{PROSE}</p>")
    assert document.sections == ()
    assert document.text == f"Annual report\n{PROSE}\n"
    assert "No Item heading found" in document.warnings[0]


def test_an_amendment_with_few_items_is_read_with_a_warning() -> None:
    document = parse(f"<DOCUMENT><TYPE>10-K/A<TEXT><p>Item 11. Executive Compensation</p><p>{PROSE}</p></TEXT>")
    assert [s.number for s in document.sections] == ["11"]
    assert document.warnings == ("No heading found for Item 1, 7, 8",)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "is empty"),
        (b" \r\n\t ", "is empty"),
        (b"<html><body><div> &nbsp; </div></body></html>", "No visible text"),
        (b"<html><body><div style='display:none'>x</div></body></html>", "No visible text"),
        (b"%PDF-1.7 something", "is binary"),
        (b"PK\x03\x04 something", "is binary"),
        (b"\x89PNG\r\n\x1a\n", "is binary"),
        (bytes(range(256)) * 40, "is binary"),
        (b"\x00" * 5000, "is binary"),
    ],
)
def test_bytes_without_a_filing_are_refused_by_name(raw: bytes, says: str) -> None:
    with pytest.raises(ParseError, match=says) as refused:
        parse(raw)
    assert "sec:acme:10-k:2023-12-31" in refused.value.what
    assert refused.value.remedy


def test_random_bytes_are_refused_and_other_media_types_too() -> None:
    with pytest.raises(ParseError):
        parse(os.urandom(20_000))
    with pytest.raises(ParseError, match="not a text document"):
        parse(b"text", "application/pdf")


@pytest.mark.parametrize("media_type", ["text/html", "text/plain; charset=us-ascii", "application/xhtml+xml", ""])
def test_the_bytes_decide_how_they_are_read(media_type: str) -> None:
    assert parse("<html><p>Item 1. Business</p></html>", media_type).text == "Item 1. Business\n"


def test_hostile_characters_survive_or_are_replaced_one_for_one() -> None:
    document = parse(
        f"<p>a\u202eb \U0001f600 e\u0301 \x00 \ud800 z\u200bz</p><p>{PROSE}</p>".encode("utf-8", "surrogatepass")
    )
    assert document.text.startswith("a\u202eb \U0001f600 e\u0301 \ufffd \ufffd zz\n")
    assert document.dropped == {"zero_width": 1}
    check(document)


def test_windows_1252_bytes_are_read_with_a_warning() -> None:
    document = parse("<p>Item 1. Business of the “Company”</p>".encode("cp1252"))
    assert "“Company”" in document.text
    assert any("Windows-1252" in warning for warning in document.warnings)


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="<>&"), max_size=12)
FRAGMENTS = st.one_of(
    WORDS.map("<p>{}</p>".format),
    WORDS.map("{}".format),
    WORDS.map("<span style='padding-left:3pt'>{}</span>".format),
    WORDS.map("<div style='display:none'>{}</div>".format),
    st.lists(WORDS, max_size=4).map(lambda cells: "<table><tr>" + "".join(f"<td>{c}</td>" for c in cells) + "</tr>"),
    st.lists(WORDS, min_size=2, max_size=4).map(lambda cells: "<tr><td>" + "</td><td>".join(cells) + "</table>"),
    st.sampled_from(["</table>", "<div>", "</div>", "<br>", "<page>", "<hr>", "<hr style='page-break-after:always'>"]),
    st.sampled_from(["PART I", "PART II", "PART IV", "SIGNATURES", "EXHIBIT INDEX"]).map("<p>{}</p>".format),
    st.sampled_from(["1", "1A", "2", "5", "7", "7A", "8", "9A(T)", "10", "14", "15", "1 and 2"]).map(
        lambda number: f"<p>Item {number}. Business</p><p>{PROSE}</p>"
    ),
    st.sampled_from(["<DOCUMENT>", "<TYPE>10-K\n<TEXT>", "</TEXT></DOCUMENT>", "<TYPE>EX-13\n<TEXT>", "\n", "\f"]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(FRAGMENTS, min_size=1, max_size=25))
def test_whatever_the_markup_ranges_are_valid_nested_and_cover(fragments: list[str]) -> None:
    try:
        document = parse("".join(fragments).encode("utf-8", "surrogatepass"))
    except ParseError:
        return
    check(document)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["word", "42", "Item 3.", "é", "—"]), min_size=1, max_size=30), st.data())
def test_no_word_is_lost_wherever_tags_break_the_text(words: list[str], data: st.DataObject) -> None:
    tags = st.sampled_from([" ", "<p>", "</p>", "<br>", "<td>", "<table><tr><td>", "</table>", "<b>", "<li>", "<tr>"])
    markup = "".join(word + " " + data.draw(tags) for word in words)
    kept = re.findall(r"\S+", parse(f"<body><p>{markup}").text)
    assert sorted("".join(kept)) == sorted("".join("".join(words).split()))
