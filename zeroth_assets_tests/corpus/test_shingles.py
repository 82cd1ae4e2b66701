"""Words and shingles: what counts as the same, and that hashed shingles are the shingles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from zeroth_assets.corpus import shingles
from zeroth_assets.corpus.shingles import normalise, sampled, shingle_hashes, shingle_set, word_lists

TEXTS = st.text(alphabet=st.sampled_from("ab c.é\n"), max_size=120)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The Buyer's order", "THE  buyer ' s\r\n ORDER"),
        ("Straße", "STRASSE"),
        ("ﬁne ｆｕｌｌ", "fine full"),
        ("co\u00adoperate zero\u200bwidth", "cooperate zerowidth"),
        ("Ren\u00e9e", "Rene\u0301e"),
        ("\u0130stanbul \u0131l", "\u0130STANBUL \u0131l".upper()),
        ("ΟΔΟΣ", "οδος"),
        ("section 4.1(b)", "Section 4 . 1 ( b )"),
    ],
)
def test_layout_case_and_typography_do_not_change_the_words(one: str, other: str) -> None:
    assert word_lists([one]).to_list() == word_lists([other]).to_list()


def test_different_words_and_numbers_stay_different() -> None:
    assert word_lists(["section 4.1"]).to_list() != word_lists(["section 41"]).to_list()


def test_a_lone_surrogate_separates_words_and_breaks_nothing() -> None:
    assert word_lists(["one\ud800two"]).to_list() == [["one", "two"]]


@given(st.text(max_size=60))
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = word_lists([text]).to_list()[0]
    assert word_lists([" ".join(once)]).to_list()[0] == once


@given(st.lists(TEXTS, max_size=6))
@example(["", "a", "a b", "a b c c", "a b c a b", "a b c a b c a b c"])
@settings(max_examples=60)
def test_there_are_as_many_hashes_as_distinct_shingles_and_as_many_in_common(texts: list[str]) -> None:
    hashes = shingle_hashes(texts)
    sets = [shingle_set(text) for text in texts]
    assert [len(h) for h in hashes] == [len(s) for s in sets]
    for h, s in zip(hashes, sets, strict=True):
        assert len(np.intersect1d(h, hashes[0])) == len(s & sets[0])
        assert np.all(h[:-1] < h[1:])


def test_a_text_of_fewer_than_five_words_has_one_shingle_and_one_without_words_has_none() -> None:
    assert shingle_set("only three words") == {("only", "three", "words")}
    assert [len(h) for h in shingle_hashes(["only three words", " \n.", ""])] == [1, 0, 0]


def test_shingles_do_not_run_from_one_document_into_the_next() -> None:
    apart = shingle_hashes(["a b c", "d e f g h"])
    assert [len(h) for h in apart] == [1, 1]


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"document {i} says {i * i} and more than {i} words" for i in range(20)]
    whole = shingle_hashes(texts)
    monkeypatch.setattr(shingles, "_BATCH_CHARACTERS", 90)
    seen: list[tuple[int, int]] = []
    parts = shingle_hashes(texts, lambda done, total: seen.append((done, total)))
    assert all(np.array_equal(a, b) for a, b in zip(whole, parts, strict=True))
    assert len(seen) > 5
    assert seen[-1] == (20, 20)


def test_hashes_are_the_same_in_every_version_and_on_every_machine() -> None:
    [hashes] = shingle_hashes(["The quick brown fox jumps over"])
    assert hashes.tolist() == [2047024355509531023, 3553866016343643601]


def test_the_sample_keeps_a_sixteenth_and_the_same_one_everywhere() -> None:
    [hashes] = shingle_hashes([" ".join(f"w{i}" for i in range(32_004))])
    kept = sampled(hashes)
    assert abs(len(kept) - 2_000) < 4 * (32_000 * (1 / 16) * (15 / 16)) ** 0.5
    assert np.array_equal(sampled(hashes[::2]), kept[np.isin(kept, hashes[::2])])


def test_ascii_is_read_as_any_other_text() -> None:
    assert normalise("ABC xyz") == "abc xyz"
