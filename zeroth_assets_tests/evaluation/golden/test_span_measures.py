from __future__ import annotations

import pytest

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.golden.grades import part_grades
from zeroth_assets.evaluation.golden.model import GoldenError
from zeroth_assets.evaluation.golden.span_measures import parts_found, ranked_run, span_overlap_at_k, within_scope
from zeroth_assets_tests.evaluation.golden.builders import chunks, queries, query, run, span, spans

TEXT = "x" * 1000
CUT = chunks([(i, "rfc:1", 100 * i, 100 * i + 100) for i in range(10)] + [(50, "rfc:2", 0, 100)])


def test_one_hit_does_not_answer_a_question_of_two_parts() -> None:
    truth = spans(span("a", "rfc:1", 10, 20, TEXT), span("a", "rfc:1", 310, 320, TEXT, part=1))
    table = parts_found(run({"a": [0, 7, 3]}), truth, part_grades(truth, CUT), cutoffs=(1, 2, 3))
    assert table.row(0, named=True) == {
        "query_id": "q:a",
        "parts": 2,
        "parts_found@1": 0.5,
        "parts_found@2": 0.5,
        "parts_found@3": 1.0,
        "all_parts@1": 0.0,
        "all_parts@2": 0.0,
        "all_parts@3": 1.0,
    }


def test_two_alternatives_of_a_part_count_once() -> None:
    truth = spans(
        span("a", "rfc:1", 10, 20, TEXT), span("a", "rfc:1", 110, 120, TEXT), span("a", "rfc:1", 310, 320, TEXT, part=1)
    )
    table = parts_found(run({"a": [0, 1]}), truth, part_grades(truth, CUT), cutoffs=(2,))
    assert table["parts_found@2"].to_list() == [0.5]


def test_a_query_that_is_missing_from_the_run_scores_0() -> None:
    truth = spans(span("a", "rfc:1", 10, 20, TEXT), span("b", "rfc:1", 10, 20, TEXT))
    found = parts_found(run({"a": [0]}), truth, part_grades(truth, CUT), cutoffs=(5,))
    assert found["all_parts@5"].to_list() == [1.0, 0.0]
    overlap = span_overlap_at_k(run({"a": [0]}), truth, CUT, cutoffs=(5,))
    assert overlap["span_iou@5"].to_list() == [0.1, 0.0]


def test_characters_are_recalled_and_precise_as_worked_by_hand() -> None:
    # The span 50..250; the top 2 hold 0..200, so 150 of its 200 characters, and 50 others.
    truth = spans(span("a", "rfc:1", 50, 250, TEXT))
    table = span_overlap_at_k(run({"a": [0, 1, 50]}), truth, CUT, cutoffs=(1, 2, 3)).row(0, named=True)
    assert (table["span_recall@2"], table["span_precision@2"], table["span_iou@2"]) == (0.75, 0.75, 150 / 250)
    assert (table["span_recall@1"], table["span_precision@1"], table["span_iou@1"]) == (0.25, 0.5, 50 / 250)
    assert table["span_precision@3"] == 0.5


def test_overlapping_chunks_and_overlapping_spans_are_counted_once() -> None:
    cut = chunks([(1, "rfc:1", 0, 100), (2, "rfc:1", 50, 150)])
    truth = spans(span("a", "rfc:1", 0, 80, TEXT), span("a", "rfc:1", 40, 120, TEXT, part=1))
    table = span_overlap_at_k(run({"a": [1, 2]}), truth, cut, cutoffs=(2,)).row(0, named=True)
    assert (table["span_recall@2"], table["span_precision@2"], table["span_iou@2"]) == (1.0, 0.8, 0.8)


def test_the_best_alternative_is_the_truth_and_another_one_is_no_noise() -> None:
    truth = spans(span("a", "rfc:1", 0, 100, TEXT), span("a", "rfc:1", 500, 600, TEXT))
    table = span_overlap_at_k(run({"a": [5, 0]}), truth, CUT, cutoffs=(1, 2)).row(0, named=True)
    assert (table["span_recall@1"], table["span_precision@1"], table["span_iou@1"]) == (1.0, 1.0, 1.0)
    assert (table["span_recall@2"], table["span_precision@2"], table["span_iou@2"]) == (1.0, 1.0, 0.5)


def test_a_chunk_of_another_set_is_refused() -> None:
    truth = spans(span("a", "rfc:1", 0, 100, TEXT))
    with pytest.raises(GoldenError, match="chunk set does not"):
        span_overlap_at_k(run({"a": [999]}), truth, CUT)


def test_a_run_that_holds_a_document_twice_or_a_score_that_is_none_is_refused() -> None:
    with pytest.raises(MeasurementError, match="twice"):
        ranked_run(run({"a": [1, 1]}))
    bad = run({"a": [1]}).with_columns(score=float("nan"))
    with pytest.raises(MeasurementError, match="not a finite number"):
        ranked_run(bad)


@pytest.mark.parametrize("k", [0, -1])
def test_an_impossible_cutoff_is_refused(k: int) -> None:
    truth = spans(span("a", "rfc:1", 0, 100, TEXT))
    with pytest.raises(MeasurementError, match="cut-off"):
        span_overlap_at_k(run({"a": [1]}), truth, CUT, cutoffs=(k,))


def test_a_query_that_is_limited_to_a_document_keeps_its_hits_alone() -> None:
    asked = queries(query("all"), query("one", scope="document", document_id="rfc:2"))
    kept = within_scope(run({"all": [0, 50], "one": [0, 50]}), asked, CUT)
    assert kept.select("query_id", "document_id").rows() == [("q:all", "0"), ("q:all", "50"), ("q:one", "50")]


def test_ties_rank_by_document_id() -> None:
    tied = run({"a": ["b", "a"]}).with_columns(score=1.0)
    assert ranked_run(tied)["document_id"].to_list() == ["a", "b"]
