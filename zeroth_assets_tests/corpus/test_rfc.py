from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeroth_assets.corpus.model import Document
from zeroth_assets.corpus.rfc import parse_rfc
from zeroth_assets.corpus.sections import validate_document

CLASSIC = """




Network Working Group                                             J. Doe
Request for Comments: 9999                                      ACME
Category: Informational                                    February 2011


                            A Test Protocol

Status of This Memo

   This memo is a test.

Abstract

   It tests.

Table of Contents

   1.  Introduction . . . . . . . . . . . . . . . . . . . . . . . . .  2
     1.1.  A Title That Is So Long That the Contents Have to Wrap It
           onto a Second Line . . . . . . . . . . . . . . . . . . . .  2
   2.  Formats  . . . . . . . . . . . . . . . . . . . . . . . . . . .  2
   3.  Security Considerations  . . . . . . . . . . . . . . . . . . .  3
   Appendix A.  More  . . . . . . . . . . . . . . . . . . . . . . . .  3



Doe                          Informational                      [Page 1]
\f
RFC 9999                        A Test                     February 2011


1.  Introduction

   The protocol runs on TCP port
25 (SMTP).  It has

   1.  a first item that is long enough to go on
       over two lines,

   2.  a second item, and

   3.  Security Considerations of its own.

1.1.  A Title That Is So Long That the Contents Have to Wrap It onto a
      Second Line

   o  This bullet has some words.
   o  This one too.

2.  Formats

    0                   1
    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5
   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
   |             Type              |
   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

   A sender that knows of no such peer keeps the message in its own



Doe                          Informational                      [Page 2]
\f
RFC 9999                        A Test                     February 2011


   queue until the peer appears.

   +------+---------+
   | Code | Meaning |
   +------+---------+
   | 1    | one     |
   | 2    | two     |
   +------+---------+

   struct {
       int a;
       int b;
   } pair;

3.  Security Considerations

   None.

Appendix A.  More

A.1.  Even More

   Words.

Author's Address

   J. Doe
"""


@pytest.fixture(scope="module")
def classic() -> Document:
    document = parse_rfc("rfc:9999", "v", "A Test Protocol", CLASSIC.encode())
    validate_document(document)
    return document


def block_texts(document: Document, kind: str) -> list[str]:
    return [document.text[b.start : b.end] for b in document.blocks if b.kind == kind]


def test_headings_form_a_tree_and_nothing_else_is_one(classic: Document) -> None:
    long_title = "A Title That Is So Long That the Contents Have to Wrap It onto a Second Line"
    assert [(s.level, s.number, s.title, s.kind) for s in classic.sections] == [
        (1, "", "A Test Protocol", "front"),
        (1, "", "Status of This Memo", "front"),
        (1, "", "Abstract", "front"),
        (1, "", "Table of Contents", "front"),
        (1, "1", "Introduction", "section"),
        (2, "1.1", long_title, "section"),
        (1, "2", "Formats", "section"),
        (1, "3", "Security Considerations", "section"),
        (1, "A", "More", "appendix"),
        (2, "A.1", "Even More", "appendix"),
        (1, "", "Author's Address", "section"),
    ]


def test_the_contents_stay_in_the_text_within_their_own_section(classic: Document) -> None:
    contents = next(s for s in classic.sections if s.title == "Table of Contents")
    assert "Appendix A.  More  . . ." in classic.text[contents.start : contents.end]


def test_a_sentence_cut_by_footer_and_header_is_whole_and_on_two_pages(classic: Document) -> None:
    sentence = "keeps the message in its own\n   queue until the peer appears."
    at = classic.text.index(sentence)
    assert [p.number for p in classic.pages if p.start < at + len(sentence) and p.end > at] == [2, 3]
    assert all(page.real for page in classic.pages)
    assert "[Page" not in classic.text
    assert "RFC 9999  " not in classic.text


def test_figures_tables_code_and_items_keep_their_lines_as_blocks(classic: Document) -> None:
    figure = block_texts(classic, "figure")
    assert len(figure) == 1
    assert "   |             Type              |\n" in figure[0]
    assert [row.split() for row in block_texts(classic, "table_row")] == [
        ["|", "Code", "|", "Meaning", "|"],
        ["|", "1", "|", "one", "|"],
        ["|", "2", "|", "two", "|"],
    ]
    assert block_texts(classic, "code") == ["   struct {\n       int a;\n       int b;\n   } pair;"]
    assert block_texts(classic, "list_item") == [
        "   1.  a first item that is long enough to go on\n       over two lines,",
        "   2.  a second item, and",
        "   3.  Security Considerations of its own.",
        "   o  This bullet has some words.",
        "   o  This one too.",
    ]


def test_every_character_is_kept_or_counted(classic: Document) -> None:
    assert len(classic.text) + sum(classic.dropped.values()) == pytest.approx(len(CLASSIC), abs=3)


def test_without_form_feeds_pages_are_estimated_and_marked() -> None:
    raw = (
        "\ufeff\n\nInternet Engineering Task Force\n\n\nAbstract\n\n   Text.\n\n1.  Introduction\n\n   Text.\n".encode()
    )
    document = parse_rfc("rfc:9999", "v", "T", raw)
    assert document.dropped["byte_order_mark"] == 1
    assert [page.real for page in document.pages] == [False]
    assert "estimated" in document.warnings[0]


def test_an_early_rfc_that_is_indented_as_a_whole_has_headings_all_the_same() -> None:
    body = "\n\n".join(f"     {n}.  TOPIC\n\n     {n}.1.  DETAIL\n\n          Some words on it." for n in range(1, 5))
    document = parse_rfc("rfc:822", "v", "T", body.encode())
    assert [s.number for s in document.sections] == ["1", "1.1", "2", "2.1", "3", "3.1", "4", "4.1"]


def test_an_appendix_may_have_its_title_on_the_next_line() -> None:
    raw = b"1.  INTRODUCTION\n\n   Text.\n\n2.  MODEL\n\n   Text.\n\nAPPENDIX A\n\n   TCP Service\n\n      Text.\n"
    assert [s.heading for s in parse_rfc("rfc:821", "v", "T", raw).sections][-1] == "A TCP Service"


@pytest.mark.parametrize("order", [[1, 25, 2, 3], [1, 2, 3, 25]])
def test_a_number_out_of_sequence_is_no_heading(order: list[int]) -> None:
    raw = "".join(f"{n}.  Topic\n\n   Some text.\n\n" for n in order)
    assert [s.number for s in parse_rfc("rfc:1", "v", "T", raw.encode()).sections] == ["1", "2", "3"]


def test_overstrikes_are_read_as_they_look() -> None:
    document = parse_rfc("rfc:1", "v", "T", b"1.  T\x08T\x08Ti\x08it\x08tle\n\n   Text.\n")
    assert document.sections[0].title == "Title"
    assert document.dropped["overstrike"] == 8


hostile_line = st.one_of(
    st.text(alphabet=st.characters(), max_size=60),
    st.sampled_from(
        ["1.  A", "1.1.  B", "2.  C", "A.  D", "Appendix B", "Table of Contents", "   1.  A ... 3", "", "\f"]
    ),
    st.sampled_from(
        ["| a | b |", "+---+---+", "o  item", "RFC 1   X   May 1999", "Doe             [Page 1]", "Abstract"]
    ),
)


@settings(max_examples=300, deadline=None)
@given(lines=st.lists(hostile_line, max_size=40), end=st.sampled_from(["\n", "\r\n", "\n\n", "\n\f\n"]))
def test_any_text_becomes_a_document_that_keeps_the_contracts(lines: list[str], end: str) -> None:
    raw = end.join(lines).encode("utf-8", "surrogatepass")
    document = parse_rfc("rfc:1", "v", "T", raw)
    validate_document(document)
    assert document == parse_rfc("rfc:1", "v", "T", raw)


@pytest.mark.parametrize(
    "line", [" " * 60_000, "." * 60_000, "A" * 60_000, "1. " * 20_000, "<-" * 30_000, "Section " * 8_000]
)
def test_a_line_without_end_takes_no_time_without_end(line: str) -> None:
    raw = "\n".join(["Table of Contents", "", "  1. A ... 1", "  2. B ... 2", line, line, "\f", line, "", line])
    validate_document(parse_rfc("rfc:1", "v", "T", raw.encode()))


@dataclass(frozen=True)
class Expected:
    """Numbered headings as counted by hand in the printed document: how many, the first and the last."""

    sections: int
    first: str
    last: str
    appendices: int = 0
    last_appendix: str = ""


READ_BY_HAND = {
    793: Expected(27, "1 INTRODUCTION", "3.9 Event Processing"),
    821: Expected(24, "1 INTRODUCTION", "4.5.3 SIZES", 6, "F Scenarios"),
    1035: Expected(71, "1 STATUS OF THIS MEMO", "9 REFERENCES and BIBLIOGRAPHY"),
    1305: Expected(44, "1 Introduction", "7 References", 55, "I.6 Subroutine to Compute Synchronization Distance"),
    2616: Expected(256, "1 Introduction", "21 Full Copyright Statement"),
    5321: Expected(125, "1 Introduction", "10.2 Informative References", 16, "F.6 Sending versus Mailing"),
    8446: Expected(87, "1 Introduction", "12.2 Informative References", 46, "E.8 Attacks on Static RSA"),
    9110: Expected(291, "1 Introduction", "19.2 Informative References", 11, "B.9 Changes from RFC 7694"),
}


def parsed(mirror: Path, number: int) -> Document:
    document = parse_rfc(f"rfc:{number}", "v", f"RFC {number}", (mirror / "rfc" / f"rfc{number}.txt").read_bytes())
    validate_document(document)
    return document


@pytest.mark.mirror
@pytest.mark.parametrize("number", sorted(READ_BY_HAND))
def test_the_sections_of_rfcs_of_all_ages_are_those_a_reader_counts(mirror: Path, number: int) -> None:
    expected = READ_BY_HAND[number]
    document = parsed(mirror, number)
    sections = [s for s in document.sections if s.kind == "section" and s.number]
    appendices = [s for s in document.sections if s.kind == "appendix"]
    assert (len(sections), sections[0].heading, sections[-1].heading) == (
        expected.sections,
        expected.first,
        expected.last,
    )
    assert len(appendices) == expected.appendices
    assert [s.heading for s in appendices[-1:]] == ([expected.last_appendix] if expected.appendices else [])
    for section in (*sections, *appendices):
        opening = document.text[section.start : section.start + 300]
        assert section.title.split()[0] in opening


@pytest.mark.mirror
def test_port_25_of_rfc_1035_is_no_heading(mirror: Path) -> None:
    document = parsed(mirror, 1035)
    assert "port\n25 (SMTP)." in document.text
    assert not any(section.number == "25" for section in document.sections)


@pytest.mark.mirror
@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (2616, "some HTTP communication options\n   may apply only to the connection with the nearest"),
        (1035, "an MIT gateway from net 10 to MIT's\nnet 18, and hosts A.ISI.EDU"),
        (793, "fragmentation, or\n  other operations to achieve the delivery"),
        (793, "supplies a (short) local\n  connection name by which the user refers"),
    ],
)
def test_sentences_cut_by_real_pages_are_whole(mirror: Path, number: int, sentence: str) -> None:
    document = parsed(mirror, number)
    at = document.text.index(sentence)
    across = [p for p in document.pages if p.start < at + len(sentence) and p.end > at]
    assert len(across) == 2
    assert all(page.real for page in across)


@pytest.mark.mirror
def test_rfcs_since_2019_and_rfc_1305_have_estimated_pages(mirror: Path) -> None:
    for number in (1305, 8651, 9110):
        assert not any(page.real for page in parsed(mirror, number).pages)
    assert "byte_order_mark" in parsed(mirror, 9110).dropped
    assert any("Windows-1252" in warning for warning in parsed(mirror, 1305).warnings)


@pytest.mark.mirror
def test_no_running_head_or_foot_is_left_anywhere(mirror: Path) -> None:
    for number in (793, 821, 822, 1035, 2616, 8446):
        text = parsed(mirror, number).text
        assert not re.search(r"^.*\[Page \w+\]$", text, re.MULTILINE)
        assert not re.search(rf"^RFC {number} .*\d{{4}}$", text, re.MULTILINE)
        assert text.count("Standard for ARPA Internet Text Messages") == 0
