from __future__ import annotations

import pytest

from zeroth_assets.corpus.tenk_lines import Line, drop_furniture


def paged(*pages: list[str]) -> list[Line]:
    return [Line(text, page=number) for number, page in enumerate(pages) for text in page]


def dropped(lines: list[Line]) -> list[tuple[str, str]]:
    return [(line.text, line.dropped) for line in drop_furniture(lines) if line.dropped]


def test_page_numbers_at_page_edges_go_and_figures_inside_stay() -> None:
    lines = paged(["Sales grew to", "12", "million.", "F-1"], ["- 2 -", "More text.", "Page 3 of 9"], ["End.", "iv"])
    assert dropped(lines) == [(text, "page_number") for text in ("F-1", "- 2 -", "Page 3 of 9", "iv")]


@pytest.mark.parametrize("text", ["$12", "12%", "(12)", "X", "x", "2023", "1,234"])
def test_what_is_no_page_number_stays_at_the_edge(text: str) -> None:
    assert dropped(paged(["Text.", text], ["More."], ["End."])) == []


def test_the_last_figure_of_a_table_is_no_page_number() -> None:
    lines = [
        Line("Shares\tPrice", 0, 1, row=True),
        Line("12", 0, 1, row=True),
        Line("Next page.", 1),
    ]
    assert dropped(lines) == []


def test_a_link_back_to_the_contents_goes() -> None:
    lines = [Line("Text."), Line("Table of Contents", 1, linked=True), Line("More.", 1)]
    assert dropped(lines) == [("Table of Contents", "contents_link")]


def test_a_running_header_goes_but_its_first_occurrence_may_be_a_heading() -> None:
    lines = paged(*[["NIKE, INC.", f"Text of {'abcd'[n]}.", f"{n}"] for n in range(4)])
    assert [entry for entry in dropped(lines) if entry[1] != "page_number"] == [("NIKE, INC.", "running_header")] * 3


def test_signatures_that_repeat_on_unnumbered_pages_are_text() -> None:
    lines = paged(*[["POWER OF ATTORNEY", f"Signed by {word}.", "Director"] for word in "abcd"])
    assert dropped(lines) == []


def test_a_running_footer_with_a_page_number_goes_everywhere() -> None:
    lines = paged(*[[f"Text of {word}.", f"2023 Form 10-K {n}"] for n, word in enumerate(("a", "b", "c", "d"))])
    assert len(dropped(lines)) == 4


def test_running_part_and_item_headers_go_where_half_of_the_pages_have_them() -> None:
    pages = [["PART I", f"Item {n}", f"Text {word}."] for n, word in enumerate("abcdefgh", start=1)]
    assert len(dropped(paged(*pages))) == 16


def test_an_item_heading_that_opens_a_page_stays() -> None:
    pages = [["PART I", "Item 1. Business", "Text."], ["Item 2. Properties", "None."], ["PART II", "Item 5", "Market"]]
    assert dropped(paged(*pages)) == []


def test_nothing_is_furniture_where_there_are_no_pages() -> None:
    assert dropped([Line("1"), Line("Table of Contents", linked=True), Line("2")]) == []
