from __future__ import annotations

import polars as pl
import pytest

from zeroth_assets.evaluation.judging.model import JudgeError
from zeroth_assets.evaluation.judging.sources import grade_pool
from zeroth_assets_tests.evaluation.judging.conftest import Bench, small_pool

SPANS = pl.DataFrame({"query_id": ["q0", "q1", "q9"], "document_id": ["doc-0-0", "doc-1-4", "x"], "grade": [3, 0, 1]})


def test_without_a_judge_grades_come_from_spans_alone_and_the_result_says_so() -> None:
    graded = grade_pool(small_pool()[0], SPANS)
    assert graded.frame.rows() == [("q0", "doc-0-0", 3, "span"), ("q1", "doc-1-4", 0, "span")]
    assert graded.unjudged == 13
    assert graded.statement.startswith("No judge is configured: all grades come from spans alone.")


def test_a_span_goes_before_the_judge_and_every_grade_says_whose_it_is(bench: Bench) -> None:
    graded = grade_pool(small_pool()[0], SPANS, bench.run())
    by_pair = {(q, d): (grade, by) for q, d, grade, by in graded.frame.iter_rows()}
    assert by_pair["q0", "doc-0-0"] == (3, "span")
    assert by_pair["q1", "doc-1-4"] == (0, "span")
    assert by_pair["q0", "doc-0-1"] == (1, "judge-2025-04-14@judge-2025-04-14")
    assert len(by_pair) == 15
    assert graded.unjudged == 0
    assert "2 grades come from spans, 13 from the judge" in graded.statement


def test_what_the_judge_failed_at_stays_unjudged_and_is_no_zero(bench: Bench) -> None:
    bench.server.script = ["truncated"]
    graded = grade_pool(small_pool()[0], SPANS, bench.run())
    assert graded.unjudged == 4
    assert graded.frame.filter(query_id="q0").height == 1


@pytest.mark.parametrize(
    "spans", [SPANS.with_columns(grade=pl.lit(4)), pl.concat([SPANS, SPANS.head(1)]), SPANS.drop("grade")]
)
def test_spans_that_make_no_sense_are_refused(spans: pl.DataFrame) -> None:
    with pytest.raises(JudgeError):
        grade_pool(small_pool()[0], spans)
