from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.intervals import Interval
from zeroth_assets.evaluation.judging.agreement import (
    Agreement,
    Withheld,
    agreement,
    confusion,
    expert_pairs,
    kappa_ci,
    quadratic_kappa,
    self_agreement,
    withheld,
)
from zeroth_assets.evaluation.judging.model import REPEAT_SCHEMA

GRADE_PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=60)


def pairs_of(reference: list[int], judge: list[int], per_query: int = 4) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "query_id": [f"q{i // per_query}" for i in range(len(reference))],
            "document_id": [f"d{i}" for i in range(len(reference))],
            "reference": reference,
            "judge": judge,
        }
    )


def noisy(n: int, seed: int, noise: float = 0.3) -> tuple[list[int], list[int]]:
    generator = np.random.default_rng(seed)
    truth = generator.integers(0, 4, n)
    other = np.where(generator.random(n) < noise, generator.integers(0, 4, n), truth)
    return truth.tolist(), other.tolist()


@settings(max_examples=60, derandomize=True)
@given(GRADE_PAIRS)
def test_kappa_is_that_of_scikit_learn(graded: list[tuple[int, int]]) -> None:
    a, b = [x for x, _ in graded], [y for _, y in graded]
    ours = quadratic_kappa(a, b)
    if len({*a, *b}) == 1:
        assert math.isnan(ours)
        return
    assert ours == pytest.approx(cohen_kappa_score(a, b, weights="quadratic", labels=[0, 1, 2, 3]), abs=1e-12)


def test_a_weight_counts_as_so_many_pairs() -> None:
    assert quadratic_kappa([0, 1, 3], [0, 2, 3], weights=[3, 1, 2]) == pytest.approx(
        quadratic_kappa([0, 0, 0, 1, 3, 3], [0, 0, 0, 2, 3, 3])
    )


def test_one_grade_by_both_has_no_kappa_and_opposite_graders_have_minus_one() -> None:
    assert math.isnan(quadratic_kappa([2, 2, 2], [2, 2, 2]))
    assert quadratic_kappa([0, 3, 0, 3], [3, 0, 3, 0]) == -1.0


def test_an_agreement_tells_kappa_with_interval_confusion_and_recall_of_the_relevant() -> None:
    reference, judge = noisy(200, 1)
    found = agreement(pairs_of(reference, judge), seed=5)
    assert isinstance(found, Agreement)
    assert found.kappa.low < found.kappa.point < found.kappa.high
    assert found.kappa.point == pytest.approx(quadratic_kappa(reference, judge))
    assert found.kappa.n == 50
    assert (found.n, found.queries) == (200, 50)
    cells = {(r, j): n for r, j, n in found.confusion.iter_rows()}
    assert len(cells) == 16
    assert sum(cells.values()) == 200
    assert cells[2, 3] == sum(1 for r, j in zip(reference, judge, strict=True) if (r, j) == (2, 3))
    relevant = [j >= 2 for r, j in zip(reference, judge, strict=True) if r >= 2]
    assert found.relevant_recall is not None
    assert found.relevant_recall.point == pytest.approx(sum(relevant) / len(relevant))
    assert found.pool_kappa is None


def test_the_interval_is_reproduced_by_its_seed_and_differs_by_another() -> None:
    frame = pairs_of(*noisy(120, 2))
    one, two, three = (agreement(frame, seed=seed) for seed in (5, 5, 6))
    assert isinstance(one, Agreement)
    assert isinstance(two, Agreement)
    assert isinstance(three, Agreement)
    assert one.kappa == two.kappa
    assert one.kappa.low != three.kappa.low


def test_whole_queries_are_resampled_so_copies_within_a_query_narrow_nothing() -> None:
    reference, judge = noisy(40, 3)
    queries = np.array([f"q{i}" for i in range(40)])
    plain = kappa_ci(np.array(reference), np.array(judge), queries, seed=1)
    tenfold = kappa_ci(np.repeat(reference, 10), np.repeat(judge, 10), np.repeat(queries, 10), seed=1)
    assert (plain.low, plain.high) == pytest.approx((tenfold.low, tenfold.high))
    independent = kappa_ci(np.repeat(reference, 10), np.repeat(judge, 10), np.arange(400), seed=1)
    assert independent.high - independent.low < 0.5 * (tenfold.high - tenfold.low)


def test_the_interval_of_kappa_covers_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(11)
    big = generator.integers(0, 4, 400_000)
    other = np.where(generator.random(big.size) < 0.4, generator.integers(0, 4, big.size), big)
    truth = quadratic_kappa(big, other)
    covered = 0
    for trial in range(200):
        rows = generator.integers(0, big.size, 80)
        interval = kappa_ci(big[rows], other[rows], np.arange(80), seed=trial, resamples=400)
        covered += interval.low <= truth <= interval.high
    assert 180 <= covered <= 199


def test_perfect_agreement_is_not_given_as_certain() -> None:
    reference, _ = noisy(80, 4)
    found = agreement(pairs_of(reference, reference), seed=1)
    assert isinstance(found, Agreement)
    assert found.kappa.point == 1.0
    assert not found.kappa.known
    assert found.exact.low < 1.0


@pytest.mark.parametrize(
    ("grades", "reason"),
    [
        ([3] * 30 + [2] * 2, "one value"),
        ([0] * 25 + [1] * 6, "one value"),
        ([0] * 24 + [1] * 6, None),
        ([2] * 40, "fewer than 2 grades"),
        ([0, 1, 2, 3] * 7 + [0], "too few"),
        ([0, 1, 2, 3] * 7 + [0, 1], None),
        ([], "too few"),
    ],
)
def test_a_sample_that_cannot_tell_is_withheld_with_the_reason(grades: list[int], reason: str | None) -> None:
    state = withheld(grades, "the person")
    assert (state.reason if state else None) == reason


def test_a_judge_that_gives_one_grade_is_withheld_too() -> None:
    found = agreement(pairs_of([0, 1, 2, 3] * 10, [1] * 40), seed=1)
    assert isinstance(found, Withheld)
    assert "the judge" in found.detail


def test_against_spans_a_pool_that_is_mostly_zero_is_a_warning() -> None:
    reference = [3] * 10 + [0] * 90
    judge = [3] * 8 + [0] * 90 + [2] * 2
    frame = pairs_of(reference, judge)
    assert isinstance(agreement(frame, seed=1), Withheld)
    found = agreement(frame, seed=1, one_value="warn")
    assert isinstance(found, Agreement)
    assert found.warning is not None


def test_only_pairs_that_both_graded_are_compared() -> None:
    judged = pl.DataFrame({"query_id": ["q", "q"], "document_id": ["a", "b"], "grade": [1, 2], "graded_by": "m"})
    expert = pl.DataFrame({"query_id": ["q", "q"], "document_id": ["b", "c"], "grade": [3, 0]})
    assert expert_pairs(judged, expert).rows() == [("q", "b", 3, 2)]


def test_where_experts_labelled_everything_a_pair_without_a_span_is_a_zero() -> None:
    judged = pl.DataFrame({"query_id": ["q", "q", "r"], "document_id": ["a", "b", "a"], "grade": [1, 2, 3]})
    expert = pl.DataFrame({"query_id": ["q", "q"], "document_id": ["b", "c"], "grade": [3, 1]})
    assert expert_pairs(judged, expert, absent_is_zero=True).rows() == [("q", "a", 0, 1), ("q", "b", 3, 2)]


def test_self_agreement_is_the_share_of_equal_second_grades() -> None:
    rows = [(f"q{i}", "d", 2, 2 if i % 5 else 1) for i in range(50)]
    found = self_agreement(pl.DataFrame(rows, schema=REPEAT_SCHEMA, orient="row"), seed=1)
    assert isinstance(found, Interval)
    assert found.point == 0.8
    assert found.low < 0.8 < found.high
    few = self_agreement(pl.DataFrame(rows[:29], schema=REPEAT_SCHEMA, orient="row"), seed=1)
    assert isinstance(few, Withheld)


def test_a_confusion_matrix_shows_the_cells_that_never_occurred() -> None:
    assert confusion([0, 0], [0, 1])["n"].to_list() == [1, 1] + [0] * 14


@pytest.mark.parametrize(
    "broken",
    [
        pairs_of([0, 4], [0, 1]),
        pairs_of([0, 1], [0, -1]),
        pairs_of([0, 1], [0, 1]).with_columns(judge=pl.lit(None, pl.Int64)),
        pairs_of([0, 1], [0, 1]).with_columns(document_id=pl.lit("d"), query_id=pl.lit("q")),
        pairs_of([0, 1], [0, 1]).with_columns(weight=pl.lit(0.0)),
        pairs_of([0, 1], [0, 1]).with_columns(judge=pl.lit(1.5)),
        pairs_of([0, 1], [0, 1]).drop("judge"),
    ],
)
def test_grades_that_are_none_are_refused(broken: pl.DataFrame) -> None:
    with pytest.raises(MeasurementError):
        agreement(broken, seed=1)
