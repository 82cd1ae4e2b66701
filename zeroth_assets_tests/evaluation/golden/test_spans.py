from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zeroth_assets.evaluation.golden.model import texts_of
from zeroth_assets.evaluation.golden.spans import occurrences, share_with_duplicates, trimmed, word_occurrences
from zeroth_assets_tests.evaluation.golden.builders import documents, pairs, span, spans

QUOTE = "Buyer pays 10 dollars."
ORIGINAL = f"Preamble. {QUOTE} End."
TEXTS = {
    "cuad:a": ORIGINAL,
    "cuad:copy": "PREAMBLE.\n\nBUYER  PAYS\n10 DOLLARS. END.",
    "sec:filing": f"Item 1. Words. {ORIGINAL} More words, and Buyer pays 11 dollars.",
    "cuad:near": ORIGINAL + " Changed.",
}


@given(st.text(alphabet="ab ", max_size=30), st.text(alphabet="ab ", min_size=1, max_size=3))
def test_every_occurrence_is_found_and_nothing_else(text: str, quote: str) -> None:
    assert occurrences(text, quote) == [i for i in range(len(text)) if text.startswith(quote, i)]


def test_occurrences_may_overlap() -> None:
    assert occurrences("aaaa", "aa") == [0, 1, 2]
    assert occurrences("anything", "") == []


@given(st.text(alphabet=" \n\tab", min_size=1, max_size=12))
def test_a_trimmed_range_is_the_stripped_slice(text: str) -> None:
    start, end = trimmed(text, 0, len(text))
    assert text[start:end] == text.strip()


def test_words_are_found_whole_whatever_stands_between_them() -> None:
    assert word_occurrences("cat, DOG; catdog cat_dog", "cat dog") == [(0, 8), (17, 24)]
    assert word_occurrences("anything", "--") == []


def test_a_duplicate_shares_the_answer_as_an_alternative_of_the_same_part_by_exact_slices() -> None:
    start = ORIGINAL.index(QUOTE)
    truth = spans(span("q", "cuad:a", start, start + len(QUOTE), ORIGINAL))
    known = pairs(
        ("cuad:a", "cuad:copy", 1.0, 1.0), ("cuad:a", "sec:filing", 1.0, 0.2), ("cuad:a", "cuad:near", 0.95, 0.9)
    )
    shared = share_with_duplicates(truth, [], texts_of(documents(TEXTS)), known)
    assert shared["document_id"].to_list() == ["cuad:a", "cuad:copy", "sec:filing"]
    assert shared["origin"].to_list() == ["quoted", "duplicate", "duplicate"]
    assert shared["part"].to_list() == [0, 0, 0]
    for row in shared.iter_rows(named=True):
        assert TEXTS[row["document_id"]][row["char_start"] : row["char_end"]] == row["quote"]


def test_an_answer_in_the_container_is_shared_with_the_contained_only_where_it_stands_there() -> None:
    filing = TEXTS["sec:filing"]
    inside, outside = filing.index(QUOTE), filing.index("Buyer pays 11")
    truth = spans(
        span("in", "sec:filing", inside, inside + len(QUOTE), filing),
        span("out", "sec:filing", outside, len(filing), filing),
    )
    shared = share_with_duplicates(truth, [], texts_of(documents(TEXTS)), pairs(("cuad:a", "sec:filing", 1.0, 0.2)))
    assert sorted(shared.select("query_id", "document_id").rows()) == [
        ("q:in", "cuad:a"),
        ("q:in", "sec:filing"),
        ("q:out", "sec:filing"),
    ]


def test_a_query_limited_to_its_document_gets_no_answer_elsewhere() -> None:
    truth = spans(span("q", "cuad:a", 10, 15, ORIGINAL))
    known = pairs(("cuad:a", "cuad:copy", 1.0, 1.0))
    assert share_with_duplicates(truth, ["q:q"], texts_of(documents(TEXTS)), known).height == 1
