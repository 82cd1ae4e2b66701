"""Abstention: the threshold keeps its target and its fingerprints, and a lack of candidates is no wisdom."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroth_assets.errors import ArtefactError, MeasurementError, QueryError
from zeroth_assets.evaluation.abstention import (
    CURVE_SCHEMA,
    METRIC_SCHEMA,
    OUTCOME_SCHEMA,
    AbstentionReport,
    area_under_risk_coverage,
    area_under_risk_coverage_ci,
    auroc,
    auroc_ci,
    calibrate,
    report_abstention,
    risk_coverage,
)
from zeroth_assets.evaluation.abstention_plots import plot_risk_coverage, plot_score_distributions
from zeroth_assets.search.abstention import Threshold

PRINTS = {"dense": "print-1", "index": "builds-7"}


def outcomes(
    good: list[float], bad: list[float], *, empty_bad: int = 0, right: float = 1.0, candidates: int = 10
) -> pl.DataFrame:
    rows = [(f"g{n}", "fact", True, n < right * len(good), score, candidates) for n, score in enumerate(good)]
    rows += [(f"b{n}", "absent", False, False, score, candidates) for n, score in enumerate(bad)]
    empty = [(f"e{n}", "absent", False, False, None, 0) for n in range(empty_bad)]
    return pl.DataFrame([*rows, *empty], schema=OUTCOME_SCHEMA, orient="row")


def figure(report: AbstentionReport, metric: str, category: str = "all") -> dict[str, float]:
    row = report.metrics.filter((pl.col("metric") == metric) & (pl.col("category") == category))
    return row.row(0, named=True)


GOOD = [0.5 + n / 200 for n in range(80)]
BAD = [0.1 + n / 200 for n in range(100)]


def threshold(**more: float) -> Threshold:
    return calibrate(outcomes(GOOD, BAD), source="dense", fingerprints=PRINTS, **more)  # type: ignore[arg-type]


def test_at_most_the_target_of_the_unanswerable_is_answered_and_a_lower_threshold_would_answer_more() -> None:
    found = threshold()
    assert found.answered == 0.05
    assert sum(score >= found.value for score in BAD) == 5
    assert sum(score >= math.nextafter(found.value, 0) for score in BAD) == 6
    assert found.low < 0.05 < found.high
    assert found.coverage == pytest.approx(np.mean([score >= found.value for score in GOOD]))


def test_a_guarantee_holds_for_the_upper_end_of_the_interval_and_costs_coverage() -> None:
    sure = threshold(guaranteed=True)
    assert sure.high <= 0.05
    assert sure.value > threshold().value
    few = calibrate(outcomes(GOOD, BAD[:20]), source="dense", fingerprints=PRINTS, guaranteed=True)
    assert few.value == math.inf
    assert few.coverage == 0


scores = st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.4, 0.5]), min_size=1, max_size=30)


@given(scores, scores, st.floats(0.01, 0.99))
def test_the_target_is_kept_whatever_the_scores(good: list[float], bad: list[float], target: float) -> None:
    found = calibrate(outcomes(good, bad), source="reranker", fingerprints=PRINTS, target=target)
    assert np.mean([score >= found.value for score in bad]) <= target


def test_a_lack_of_candidates_takes_no_part_in_the_calibration() -> None:
    with_empty = calibrate(outcomes(GOOD, BAD, empty_bad=500), source="dense", fingerprints=PRINTS)
    assert with_empty == threshold()
    with pytest.raises(MeasurementError, match="nothing to calibrate"):
        calibrate(outcomes(GOOD, [], empty_bad=5), source="dense", fingerprints=PRINTS)


@pytest.mark.parametrize("source", ["rrf", "fusion", "bm25", "lexical"])
def test_a_threshold_never_stands_on_a_fused_score(source: str) -> None:
    with pytest.raises(QueryError, match="cannot stand on"):
        calibrate(outcomes(GOOD, BAD), source=source, fingerprints=PRINTS)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="cannot stand on"):
        replace(threshold(), source=source)  # type: ignore[arg-type]


def test_a_threshold_is_refused_for_other_fingerprints() -> None:
    found = threshold()
    assert found.decide(found.value, {**PRINTS, "more": "is fine"}) is None
    weak = found.decide(found.value - 1e-9, PRINTS)
    assert weak is not None
    assert weak.reason == "weak_evidence"
    for other in ({**PRINTS, "index": "builds-8"}, {"dense": "print-1"}, {}):
        with pytest.raises(QueryError, match="other scores"):
            found.decide(0.9, other)
        with pytest.raises(QueryError, match="other scores"):
            report_abstention(outcomes(GOOD, BAD), found, fingerprints=other, seed=1)


def test_a_threshold_survives_json_infinity_included() -> None:
    for one in (threshold(), replace(threshold(), value=math.inf), replace(threshold(), value=-math.inf)):
        assert Threshold.from_json(one.to_json()) == one
    assert math.isnan(Threshold.from_json(replace(threshold(), coverage=math.nan).to_json()).coverage)
    for broken in ("{}", "[]", "x", '{"value": 1}', threshold().to_json().replace('"dense",', '"rrf",')):
        with pytest.raises(ArtefactError, match="cannot be read"):
            Threshold.from_json(broken)


def test_an_empty_list_is_counted_apart_and_the_naive_count_is_inflated_by_it() -> None:
    report = report_abstention(outcomes(GOOD, BAD, empty_bad=100), threshold(), fingerprints=PRINTS, seed=1)
    assert figure(report, "correct_abstention")["value"] == 0.95
    assert figure(report, "correct_abstention")["n"] == 100
    assert figure(report, "correct_abstention_naive")["value"] == 0.975
    assert figure(report, "insufficient_candidates")["value"] == pytest.approx(100 / 280)
    assert report.insufficient == 100
    assert figure(report, "correct_abstention", "absent")["value"] == 0.95
    short = report_abstention(outcomes(GOOD, BAD, candidates=2), threshold(), fingerprints=PRINTS, seed=1, minimum=3)
    assert figure(short, "correct_abstention")["n"] == 0
    assert math.isnan(figure(short, "correct_abstention")["value"])
    assert figure(short, "correct_abstention_naive")["value"] == 1


def test_the_report_counts_coverage_accuracy_and_categories() -> None:
    report = report_abstention(
        outcomes([0.9, 0.8, 0.2], [0.1, 0.7], right=0.4), threshold(), fingerprints=PRINTS, seed=1
    )
    assert report.metrics.schema == METRIC_SCHEMA
    assert report.curve.schema == CURVE_SCHEMA
    assert figure(report, "answer_coverage")["value"] == pytest.approx(2 / 3)
    assert figure(report, "coverage")["value"] == pytest.approx(3 / 5)
    assert figure(report, "selective_accuracy")["value"] == pytest.approx(2 / 3)
    assert figure(report, "unanswerable_answered")["value"] == 0.5
    assert figure(report, "answer_coverage", "absent")["n"] == 0
    assert figure(report, "auroc")["value"] == pytest.approx(5 / 6)
    assert figure(report, "correct_abstention")["low"] == pytest.approx(0.0126, abs=1e-4)


def test_risk_rises_with_coverage_as_the_definition_has_it_and_ties_are_answered_together() -> None:
    curve = risk_coverage(outcomes([0.9, 0.5], [0.5, 0.1]))
    assert curve.rows() == [(0.25, 0.0, 0.9), (0.75, pytest.approx(1 / 3), 0.5), (1.0, 0.5, 0.1)]
    assert area_under_risk_coverage(curve) == pytest.approx(0.5 / 3 + 0.125)


def test_every_figure_over_some_queries_has_an_interval_that_holds_it() -> None:
    report = report_abstention(
        outcomes(GOOD, BAD, right=0.8, empty_bad=3), threshold(), fingerprints=PRINTS, seed=1, resamples=200
    )
    figures = report.metrics.filter((pl.col("category") == "all") & (pl.col("n") > 1))
    assert figures.height == 9
    for row in figures.iter_rows(named=True):
        assert row["low"] <= row["value"] <= row["high"], row["metric"]
        assert row["low"] < row["high"], row["metric"]
        assert row["method"] != "none"


def test_the_interval_of_the_area_is_no_point_where_all_answers_are_alike() -> None:
    right = area_under_risk_coverage_ci(outcomes(GOOD[:20], []), seed=1)
    assert (right.point, right.low) == (0.0, 0.0)
    assert right.high == pytest.approx(0.1684, abs=1e-4)
    assert area_under_risk_coverage_ci(outcomes([], BAD[:20]), seed=1).low == pytest.approx(0.8316, abs=1e-4)
    assert not area_under_risk_coverage_ci(outcomes([0.5], []), seed=1).known
    mixed = outcomes([0.9, 0.5], [0.5, 0.1])
    assert area_under_risk_coverage_ci(mixed, seed=1).point == area_under_risk_coverage(risk_coverage(mixed))


@given(scores, scores)
def test_auroc_is_the_share_of_pairs_in_the_right_order(good: list[float], bad: list[float]) -> None:
    pairs = [1.0 if g > b else 0.5 if g == b else 0.0 for g in good for b in bad]
    assert auroc(np.array(good), np.array(bad)) == pytest.approx(np.mean(pairs))


def test_the_interval_of_auroc_covers_and_is_never_a_point() -> None:
    random = np.random.default_rng(3)
    truth, inside = 0.7602, 0  # of two normal groups that differ by one standard deviation
    for trial in range(60):
        good, bad = random.normal(1, 1, 40), random.normal(0, 1, 40)
        interval = auroc_ci(good, bad, seed=trial, resamples=200)
        inside += interval.low <= truth <= interval.high
    assert inside >= 52
    perfect = auroc_ci(np.ones(20), np.zeros(30), seed=1)
    assert perfect.point == 1
    assert perfect.low == pytest.approx(0.8316, abs=1e-4)
    assert not auroc_ci(np.ones(1), np.zeros(9), seed=1).known


def broken(column: str, value: object) -> pl.DataFrame:
    return outcomes(GOOD, BAD).with_columns(pl.lit(value, dtype=OUTCOME_SCHEMA[column]).alias(column))


@pytest.mark.parametrize(
    "table",
    [
        outcomes(GOOD, BAD).drop("category"),
        broken("query_id", "one"),
        broken("score", math.nan),
        broken("score", None),
        broken("correct", True),
        broken("answerable", None),
    ],
)
def test_outcomes_that_contradict_themselves_are_refused(table: pl.DataFrame) -> None:
    with pytest.raises(MeasurementError, match="outcomes"):
        calibrate(table, source="dense", fingerprints=PRINTS)


def test_what_cannot_be_calibrated_or_reported_is_refused() -> None:
    with pytest.raises(MeasurementError, match="target"):
        threshold(target=1.0)
    with pytest.raises(MeasurementError, match="holds for nothing"):
        calibrate(outcomes(GOOD, BAD), source="dense", fingerprints={})
    with pytest.raises(MeasurementError, match="no outcomes"):
        report_abstention(outcomes([], []), threshold(), fingerprints=PRINTS, seed=1)


def test_both_pictures_are_drawn_from_the_report(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    table = outcomes(
        random.normal(0.62, 0.1, 120).tolist(), random.normal(0.4, 0.09, 90).tolist(), empty_bad=12, right=0.8
    )
    report = report_abstention(
        table, calibrate(table, source="dense", fingerprints=PRINTS), fingerprints=PRINTS, seed=1
    )
    for draw in (plot_risk_coverage, plot_score_distributions):
        picture = draw(report, title="fixed_512, dense")
        assert picture.startswith(b"\x89PNG")
        (tmp_path / f"{draw.__name__}.png").write_bytes(picture)
        nothing = replace(report, scores=report.scores.clear(), curve=report.curve.clear())
        with pytest.raises(MeasurementError, match="nothing to draw"):
            draw(nothing, title="none")
    never = replace(report, threshold=replace(report.threshold, value=math.inf))
    assert plot_risk_coverage(never, title="never") != plot_score_distributions(never, title="never")
