"""Reciprocal rank fusion: the worked cases, ties, depth, and what is refused."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroth_assets.errors import QueryError
from zeroth_assets.search import fusion
from zeroth_assets.search.fusion import fuse, overlap, reciprocal_rank_fusion

DENSE, LEXICAL = ["d3", "d1", "d7", "d2"], ["d1", "d9", "d3"]


def test_the_worked_case_ranks_d1_first_by_its_two_ranks() -> None:
    fused = reciprocal_rank_fusion([DENSE, LEXICAL])
    assert [i for i, _ in fused] == ["d1", "d3", "d9", "d7", "d2"]
    assert fused[0][1] == pytest.approx(1 / 62 + 1 / 61, abs=1e-15)
    assert fused[1][1] == pytest.approx(1 / 61 + 1 / 63, abs=1e-15)


def test_rank_1_in_one_list_scores_less_than_rank_5_in_both() -> None:
    one = dict(reciprocal_rank_fusion([["a"], []]))["a"]
    both = dict(reciprocal_rank_fusion([["p", "q", "r", "s", "a"], ["t", "u", "v", "w", "a"]]))["a"]
    assert one == pytest.approx(0.016393, abs=5e-7)
    assert both == pytest.approx(0.030769, abs=5e-7)


@pytest.mark.parametrize(("k", "winner"), [(60, "both"), (1, "first")])
def test_the_constant_decides_between_agreement_and_one_first_place(k: int, winner: str) -> None:
    lists = [["first", "b", "c", "both"], ["x", "y", "z", "both"]]
    scores = dict(reciprocal_rank_fusion(lists, k=k))
    assert max(("first", "both"), key=lambda i: scores[i]) == winner


def test_equal_scores_are_ordered_by_id_whatever_the_order_of_lists() -> None:
    assert [i for i, _ in reciprocal_rank_fusion([["b"], ["a"]])] == ["a", "b"]
    assert [i for i, _ in reciprocal_rank_fusion([[2], [1], [10]])] == [1, 2, 10]


def test_the_fused_result_carries_its_arithmetic() -> None:
    first = fuse({"dense": DENSE, "bm25": LEXICAL})[0]
    assert [(part.ranking, part.rank) for part in first.contributions] == [("dense", 2), ("bm25", 1)]
    assert first.score == pytest.approx(sum(part.score for part in first.contributions))
    assert first.rank == 1
    assert first.explain(60) == "1/(60+2) [dense] + 1/(60+1) [bm25] = 0.032522"


def test_depth_cuts_each_list_before_fusing() -> None:
    assert [r.id for r in fuse({"dense": DENSE, "bm25": LEXICAL}, depth=1)] == ["d1", "d3"]
    assert [r.id for r in fuse({"dense": DENSE, "bm25": LEXICAL}, depth={"dense": 1})] == ["d3", "d1", "d9"]


def test_nothing_fused_is_nothing() -> None:
    assert reciprocal_rank_fusion([]) == []
    assert reciprocal_rank_fusion([[], []]) == []


def test_overlap_counts_shared_results_of_the_top() -> None:
    assert overlap(DENSE, LEXICAL) == 2
    assert overlap(DENSE, LEXICAL, depth=1) == 0


@pytest.mark.parametrize("k", [0, -1, float("nan"), float("inf")])
def test_an_impossible_constant_is_refused(k: float) -> None:
    with pytest.raises(QueryError, match="constant"):
        reciprocal_rank_fusion([DENSE], k=k)


def test_an_id_twice_in_a_list_is_refused_by_name() -> None:
    with pytest.raises(QueryError, match="'d1'"):
        reciprocal_rank_fusion([["d1", "d2", "d1"]])


@pytest.mark.parametrize("depth", [0, {"dense": 0}, {"colour": 3}])
def test_an_impossible_depth_is_refused(depth: int | dict[str, int]) -> None:
    with pytest.raises(QueryError, match="depth"):
        fuse({"dense": DENSE}, depth=depth)


rankings = st.lists(st.lists(st.integers(0, 20), unique=True, max_size=12), max_size=5)


@given(rankings, st.integers(1, 100))
def test_fusion_adds_and_loses_no_id_and_is_best_first(lists: list[list[int]], k: int) -> None:
    fused = reciprocal_rank_fusion(lists, k=k)
    assert {i for i, _ in fused} == {i for ranking in lists for i in ranking}
    assert fused == sorted(fused, key=lambda item: (-item[1], item[0]))


@given(rankings)
def test_the_order_of_lists_does_not_matter(lists: list[list[int]]) -> None:
    assert reciprocal_rank_fusion(lists) == reciprocal_rank_fusion(lists[::-1])


@given(rankings, st.lists(st.integers(0, 20), unique=True, max_size=12))
def test_another_list_never_lowers_a_score(lists: list[list[int]], more: list[int]) -> None:
    before, after = dict(reciprocal_rank_fusion(lists)), dict(reciprocal_rank_fusion([*lists, more]))
    assert all(after[i] >= score for i, score in before.items())


def test_the_worked_numbers_of_the_docstrings_hold() -> None:
    assert doctest.testmod(fusion).failed == 0
