from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeroth_assets.chunking.boundaries import (
    Words,
    cluster_start,
    next_cluster_start,
    paragraph_starts,
    sentence_starts,
)
from zeroth_assets_tests.chunking.texts_for_tests import texts


@settings(deadline=None)
@given(text=texts)
def test_words_are_those_of_str_split(text: str) -> None:
    words = Words.of(text)
    assert [text[s:e] for s, e in zip(words.starts, words.ends, strict=True)] == text.split()


@settings(deadline=None)
@given(text=texts, at=st.integers(0, 400))
def test_words_answer_as_a_scan_of_the_text_would(text: str, at: int) -> None:
    words = Words.of(text)
    at = min(at, len(text))
    assert words.next_start(at) == next((i for i in range(at, len(text)) if not text[i].isspace()), None)
    assert words.trim_end(at) == len(text[:at].rstrip())
    inside = 0 < at < len(text) and not text[at - 1].isspace() and not text[at].isspace()
    assert words.splits(at) == inside


def test_every_kind_of_space_that_python_knows_is_space() -> None:
    spaces = [chr(point) for point in range(0x11_0000) if chr(point).isspace()]
    words = Words.of("x" + "x".join(spaces) + "x")
    assert len(words.starts) == len(spaces) + 1


def test_paragraphs_start_after_blank_lines_of_any_make() -> None:
    text = "One\ntwo\n\nThree\r\n\r\n  Four\n \t\n\n\x0cFive\n\n"
    assert [text[at:].split()[0] for at in paragraph_starts(text)] == ["Three", "Four", "Five"]


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("One two. Three four? Five! Six", ["Three", "Five!", "Six"]),
        ('He said "no." Then (so he said.) Next', ["Then", "Next"]),
        ("See e.g. Smith, i.e. Jones, Inc. Corp. and No. 5 of J. Doe.", []),
        ("Version 1.2.3 of the U.S. Code, sec. 4", []),
        ("it ended. and went on", []),
        ("A heading\n\nlower case paragraph. Next", ["lower", "Next"]),
        ("一つ目。二つ目。", ["二つ目。"]),
        ("Wait... What", ["What"]),
    ],
)
def test_sentences_start_where_a_reader_would_say(text: str, starts: list[str]) -> None:
    assert [text[at:].split()[0] for at in sentence_starts(text)] == starts


@pytest.mark.parametrize(
    "text", ["ae\u0301\u0302b", "a👩‍👩‍👧b", "a👍🏽b", "a\u1112\u1161\u11abb", "a\r\nb", "a❤\ufe0fb"], ids=ascii
)
def test_a_cluster_is_not_split(text: str) -> None:
    for at in range(2, len(text) - 1):
        assert cluster_start(text, at, 0) == 1
        assert next_cluster_start(text, at, len(text)) == len(text) - 1


def test_flags_are_split_between_pairs_only() -> None:
    text = "🇩🇪🇫🇷🇯🇵"
    assert [cluster_start(text, at, 0) for at in range(1, 6)] == [1, 2, 2, 4, 4]


def test_a_cluster_without_end_is_cut_where_asked() -> None:
    text = "e" + "\u0301" * 500
    assert cluster_start(text, 300, 0) == 300
    assert next_cluster_start(text, 300, 400) == 400
