from __future__ import annotations

import pytest

from zeroth_assets.corpus.numbering import Candidate, Key, best_chain, roman_value, successors


def chain(*keys: Key, weights: dict[int, float] | None = None) -> list[Key]:
    candidates = [Candidate(key, (weights or {}).get(index, 1.0)) for index, key in enumerate(keys)]
    return [candidates[i].key for i in best_chain(candidates, gap_penalty=4.0)]


@pytest.mark.parametrize(("numeral", "value"), [("I", 1), ("IV", 4), ("XIV", 14), ("XC", 90), ("MX", None), ("", None)])
def test_roman_numerals_are_read(numeral: str, value: int | None) -> None:
    assert roman_value(numeral) == value


def test_after_a_number_come_its_child_its_sibling_and_the_next_of_its_ancestors() -> None:
    assert successors((3, 2)) == [(3, 2, 1), (3, 2, 0), (4,), (3, 3)]


def test_a_list_inside_section_one_is_not_taken_for_sections() -> None:
    assert chain((1,), (1, 1), (1,), (2,), (3,), (1, 2), (2,), (2, 1), (3,), weights={2: 0.3, 3: 0.3, 4: 0.3}) == [
        *((1,), (1, 1), (1, 2), (2,), (2, 1), (3,)),
    ]


def test_a_stray_number_costs_more_than_it_brings() -> None:
    assert chain((1,), (2,), (25,), (3,)) == [(1,), (2,), (3,)]


def test_a_gap_is_crossed_when_what_follows_is_worth_it() -> None:
    later: list[Key] = [(4, n) for n in range(1, 8)]
    assert chain((1,), (2,), (4,), *later)[-1] == (4, 7)


def test_a_contents_vouched_number_wins_over_one_that_stands_earlier() -> None:
    found = best_chain([Candidate((1,), 1.0), Candidate((1,), 10.0), Candidate((2,), 1.0)], gap_penalty=4.0)
    assert found == [1, 2]


def test_no_candidates_make_no_chain() -> None:
    assert best_chain([], gap_penalty=1.0) == []
