"""The measures of one ranking: worked cases, what is undefined, what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation import metrics

RANKED_MEASURES: list[Callable[..., float]] = [
    metrics.recall_at_k,
    metrics.success_at_k,
    metrics.reciprocal_rank_at_k,
    metrics.ndcg_at_k,
    metrics.context_precision_at_k,
    metrics.ranked_context_precision_at_k,
    metrics.average_precision,
    metrics.judged_at_k,
    metrics.ann_recall_at_k,
]
UNDEFINED_WITHOUT_RELEVANT: list[Callable[..., float]] = [
    metrics.recall_at_k,
    metrics.success_at_k,
    metrics.reciprocal_rank_at_k,
    metrics.ndcg_at_k,
    metrics.average_precision,
]


def test_the_gain_changes_ndcg_and_is_named() -> None:
    ranked, grades = ["C", "B", "A", "D"], {"A": 3, "B": 2, "C": 1, "D": 0}
    assert metrics.ndcg_at_k(ranked, grades, 4, gain="linear") == pytest.approx(0.7900, abs=5e-5)
    assert metrics.ndcg_at_k(ranked, grades, 4, gain="exponential") == pytest.approx(0.6806, abs=5e-5)
    with pytest.raises(MeasurementError, match="unknown gain"):
        metrics.ndcg_at_k(ranked, grades, 4, gain="quadratic")  # type: ignore[arg-type]


def test_recall_is_not_capped_when_more_is_relevant_than_fits() -> None:
    grades = {f"r{i}": 3 for i in range(20)}
    assert metrics.recall_at_k([f"r{i}" for i in range(10)], grades, 10) == 0.5


def test_trec_recall_and_success_differ_on_the_same_ranking() -> None:
    grades = {"a": 3, "b": 2, "c": 1}
    assert metrics.recall_at_k(["a", "c"], grades, 2) == 0.5
    assert metrics.success_at_k(["a", "c"], grades, 2) == 1.0


def test_the_boundary_of_relevance_is_grade_2_unless_told_otherwise() -> None:
    assert metrics.success_at_k(["c"], {"a": 3, "c": 1}, 5) == 0.0
    assert metrics.success_at_k(["c"], {"a": 3, "c": 1}, 5, relevant=1) == 1.0


@pytest.mark.parametrize("measure", [measure for measure in RANKED_MEASURES if measure is not metrics.judged_at_k])
def test_a_query_missing_from_the_run_scores_zero(measure: Callable[..., float]) -> None:
    assert measure([], {"a": 3}, 10) == 0.0


def test_an_empty_ranking_has_no_share_that_is_judged() -> None:
    assert math.isnan(metrics.judged_at_k([], {"a": 3}, 10))


@pytest.mark.parametrize("measure", UNDEFINED_WITHOUT_RELEVANT)
def test_a_query_without_a_relevant_document_is_undefined(measure: Callable[..., float]) -> None:
    assert math.isnan(measure(["a", "b"], {"a": 0}, 10))
    assert math.isnan(measure(["a", "b"], {}, 10))


def test_precision_is_zero_where_nothing_is_relevant() -> None:
    assert metrics.context_precision_at_k(["a"], {"a": 0}, 10) == 0.0
    assert metrics.ranked_context_precision_at_k(["a"], {"a": 0}, 10) == 0.0


def test_short_rankings_cut_the_ideal_at_k_and_keep_misses_in_the_denominator() -> None:
    grades = {f"r{i}": 3 for i in range(12)}
    ranked = ["r0", "x", "r1"]
    ideal = sum(7 / math.log2(rank + 1) for rank in range(1, 11))
    assert metrics.ndcg_at_k(ranked, grades, 10) == pytest.approx((7 + 7 / 2) / ideal)
    assert metrics.context_precision_at_k(ranked, grades, 10) == 0.2
    queries = [(["x", "y", "r0"], 1 / 3), (["x", "y", "z"], 0.0)]
    values = [metrics.reciprocal_rank_at_k(r, grades, 10) for r, _ in queries]
    assert values == [expected for _, expected in queries]


def test_judged_counts_any_grade_among_those_returned() -> None:
    assert metrics.judged_at_k(["a", "b", "x", "y"], {"a": 0, "b": 3}, 3) == pytest.approx(2 / 3)
    assert metrics.judged_at_k(["a"], {"a": 0}, 10) == 1.0


@pytest.mark.parametrize("measure", RANKED_MEASURES)
@pytest.mark.parametrize("k", [0, -1, 2.5, True])
def test_an_impossible_cutoff_is_refused(measure: Callable[..., float], k: object) -> None:
    with pytest.raises(MeasurementError, match="cut-off"):
        measure(["a"], {"a": 3}, k)


@pytest.mark.parametrize("measure", RANKED_MEASURES)
def test_duplicate_ids_are_refused_by_name(measure: Callable[..., float]) -> None:
    with pytest.raises(MeasurementError, match="'b'"):
        measure(["a", "b", "b"], {"a": 3}, 2)


@pytest.mark.parametrize("measure", RANKED_MEASURES)
@pytest.mark.parametrize("grade", [4, -1, 1.5, math.nan, math.inf, None, "3", True])
def test_a_grade_out_of_range_is_refused_by_name(measure: Callable[..., float], grade: object) -> None:
    with pytest.raises(MeasurementError, match="'bad'"):
        measure(["a"], {"a": 3, "bad": grade}, 5)


def test_ann_recall_counts_a_tie_at_the_last_place_whichever_row_came_back() -> None:
    truth = metrics.exact_neighbours({"a": 0.1, "b": 0.2, "c": 0.2, "d": 0.3}, 2)
    assert truth == {"a": 1, "b": 1, "c": 1}
    assert metrics.ann_recall_at_k(["a", "b"], truth, 2) == 1.0
    assert metrics.ann_recall_at_k(["c", "a"], truth, 2) == 1.0
    assert metrics.ann_recall_at_k(["b", "d"], truth, 2) == 0.5
    assert metrics.ann_recall_at_k(["a"], truth, 2) == 0.5


def test_ann_recall_of_a_tenant_smaller_than_k_is_over_the_rows_that_exist() -> None:
    truth = metrics.exact_neighbours({"a": 0.1, "b": 0.2}, 10)
    assert metrics.ann_recall_at_k(["b", "a"], truth, 10) == 1.0
    assert metrics.ann_recall_at_k(["b"], truth, 10) == 0.5
    with pytest.raises(MeasurementError, match="no exact neighbour"):
        metrics.ann_recall_at_k([], {}, 10)


def test_scores_that_differ_in_the_eighth_digit_are_two_ranks() -> None:
    ranked = metrics.ranking_from_scores({"a": 0.8, "b": 0.80000001})
    assert ranked == ["b", "a"]
    assert metrics.rank_scores(ranked) == {"b": 2.0, "a": 1.0}
    with pytest.raises(MeasurementError, match="'x'"):
        metrics.ranking_from_scores({"x": math.nan})


@given(
    st.lists(st.integers(0, 30), unique=True, max_size=20),
    st.dictionaries(st.integers(0, 30), st.integers(0, 3), max_size=20),
    st.integers(1, 25),
)
def test_every_measure_lies_between_0_and_1_or_is_undefined(ranked: list[int], grades: dict[int, int], k: int) -> None:
    for measure in RANKED_MEASURES[:-1]:
        value = measure(ranked, grades, k)
        assert math.isnan(value) or 0.0 <= value <= 1.0 + 1e-12


@given(st.dictionaries(st.integers(0, 30), st.integers(0, 3), min_size=1, max_size=20), st.integers(1, 25))
def test_the_ideal_ranking_has_ndcg_1(grades: dict[int, int], k: int) -> None:
    ideal = sorted(grades, key=lambda i: -grades[i])
    value = metrics.ndcg_at_k(ideal, grades, k)
    assert math.isnan(value) if max(grades.values()) == 0 else value == pytest.approx(1.0)
