from __future__ import annotations

import random
from pathlib import Path

import pytest

from zeroth_assets.corpus.rfc_pages import continues, paginate
from zeroth_assets.corpus.text import decode

FOOT = "Doe                          Informational                     [Page {}]"
HEAD = "RFC 9999                        A Test                     February 2011"


def pages(*bodies: str) -> str:
    made = [body + "\n\n\n" + FOOT.format(n) + "\n" for n, body in enumerate(bodies, start=1)]
    return ("\f\n" + HEAD + "\n\n\n").join(made) + "\f\n"


def test_a_sentence_that_a_page_cuts_is_whole_and_both_pages_are_kept() -> None:
    first = "   The sender MUST NOT retransmit a segment before the timer that was\n   started for"
    result = paginate(pages(first, "   it has expired.  Then it may."))
    assert "\n".join(result.lines) == first + "\n   it has expired.  Then it may."
    assert result.page_lines == [(1, 0), (2, 2)]


def test_a_paragraph_that_ended_with_its_page_keeps_one_blank_line() -> None:
    result = paginate(pages("   It ends here.", "   Another begins here and goes on for a while."))
    assert result.lines == ["   It ends here.", "", "   Another begins here and goes on for a while."]


@pytest.mark.parametrize("opening", ["4.2.  Next Section", "Appendix B.  More", "   o  an item", "   2.  an item"])
def test_a_heading_or_an_item_at_the_top_of_a_page_is_set_off(opening: str) -> None:
    before = "   a full line of text that has no room for any further word, not one,\n   and a short end."
    assert "" in paginate(pages(before, opening + "\n\n   Text.")).lines[:3]


def test_what_was_left_out_is_counted_by_reason() -> None:
    text = pages("   One.", "   Two.")
    result = paginate(text)
    assert result.dropped["page_header"] == len(HEAD) + 1
    assert result.dropped["page_footer"] == 2 * len(FOOT.format(1)) + 2
    assert result.dropped["form_feed"] == 2
    kept = len("\n".join(result.lines)) + 1
    assert kept + sum(result.dropped.values()) == pytest.approx(len(text), abs=3)


def test_three_line_running_heads_of_early_rfcs_leave_the_text() -> None:
    head = "\n\nSeptember 1981\n                  Transmission Control Protocol\n                            {}\n\n\n\n"
    body = head + "  {}\n\n\n[Page {}]\n"
    topics = [
        ("Introduction", "goes on"),
        ("Introduction", "and on"),
        ("Philosophy", "and on"),
        ("Philosophy", "ends."),
    ]
    text = "\f".join(["  It starts,\n\n[Page 1]", *(body.format(t, s, n) for n, (t, s) in enumerate(topics, start=2))])
    assert paginate(text).lines == ["  It starts,", "  goes on", "  and on", "  and on", "  ends."]


def test_printed_footers_mark_pages_where_form_feeds_were_lost() -> None:
    result = paginate(pages("   One.", "   Two.", "   Three.").replace("\f", ""))
    assert [number for number, _ in result.page_lines] == [1, 2, 3]
    assert [line for line in result.lines if line] == ["   One.", "   Two.", "   Three."]


def test_a_text_without_pages_has_none() -> None:
    result = paginate("Title\n\nText\n")
    assert result.page_lines == []
    assert result.dropped == {"blank_line": 1}


def test_a_blank_page_is_counted_but_holds_nothing() -> None:
    assert paginate("one\n\f\n\f\ntwo\n").page_lines == [(1, 0), (3, 2)]


@pytest.mark.parametrize(
    ("last", "following", "expected"),
    [
        ("   established by the receiving TCP and", "   the sending one.", True),
        ("   It ends here.", "   The next begins.", False),
        ("   This is documented in", "   Section 18.5 of [RFC7181].", True),
        ("   +-----+", "   |  A  |", True),
        ("1.  Introduction", "   This document", False),
        ("   as specified in the list of codes, and in this case the value of the", "   field is zero.", True),
        ("", "   Text", False),
    ],
)
def test_whether_a_paragraph_goes_on_is_judged_as_a_reader_would(last: str, following: str, expected: bool) -> None:
    assert continues(last, following) is expected


@pytest.mark.mirror
def test_the_judgment_agrees_with_the_lines_inside_pages_where_the_answer_is_known(mirror: Path) -> None:
    chosen = random.Random(7).sample(sorted((mirror / "rfc").glob("rfc[0-9]*.txt")), 60)
    prose, right, joined, kept = 0, 0, 0, 0
    for path in chosen:
        for page in decode(path.read_bytes()).text.split("\f"):
            lines = page.split("\n")
            for i in range(4, len(lines) - 6):
                # Running text that a reader knows to be unfinished or not: the kind that a page break hurts.
                if len(lines[i].split()) < 8 or not lines[i][-1].isalpha() or any(c in lines[i] for c in "|+=;{}<>"):
                    continue
                direct = bool(lines[i + 1].strip())
                after = i + 1 if direct else i + 2
                if not lines[after].strip():
                    continue
                answer = continues(lines[i], lines[after], lines[i - 1], lines[after + 1])
                prose += 1
                right += answer is direct
                joined += direct
                kept += direct and answer
    assert prose > 10_000
    assert right / prose > 0.95
    assert kept / joined > 0.99, "a sentence without its end must not be cut by a page"
