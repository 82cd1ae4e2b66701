"""Abstention measured: calibrating a threshold, and what it does on queries that it has not seen.

What belongs here: the arithmetic over one table of queries. A query whose candidates are fewer than the minimum is
**counted apart**: a filtered index that comes back empty looks like wisdom on every unanswerable query, so it is never
a correct abstention here, and the count that would call it one stands beside, named naive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.intervals import Interval, clopper_pearson, normal_quantile
from zeroth_assets.search.abstention import ScoreSource, Threshold, check_source

Floats = NDArray[np.float64]

# One row per query. `score`: the best one, null without candidates; `correct`: whether an answer from what came back
# would be right, false for unanswerable queries.
OUTCOME_SCHEMA = pl.Schema(
    {
        "query_id": pl.String,
        "category": pl.String,
        "answerable": pl.Boolean,
        "correct": pl.Boolean,
        "score": pl.Float64,
        "candidates": pl.Int64,
    }
)
METRIC_SCHEMA = pl.Schema(
    {
        "category": pl.String,
        "metric": pl.String,
        "value": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "n": pl.Int64,
        "method": pl.String,
        "note": pl.String,
    }
)
CURVE_SCHEMA = pl.Schema({"coverage": pl.Float64, "risk": pl.Float64, "threshold": pl.Float64})
ALL = "all"


@dataclass(frozen=True, slots=True)
class AbstentionReport:
    """`metrics` in METRIC_SCHEMA, by category and for all; `curve` in CURVE_SCHEMA; `scores`: outcomes that count."""

    threshold: Threshold
    metrics: pl.DataFrame
    curve: pl.DataFrame
    scores: pl.DataFrame
    insufficient: int
    minimum: int


def calibrate(
    outcomes: pl.DataFrame,
    *,
    source: ScoreSource,
    fingerprints: Mapping[str, str],
    split: str = "calibration",
    target: float = 0.05,
    minimum: int = 1,
    confidence: float = 0.95,
    guaranteed: bool = False,
) -> Threshold:
    """The lowest threshold at which at most `target` of the unanswerable queries are answered.

    `guaranteed` asks it of the upper end of the exact interval instead of the share itself; with fewer than some 72
    unanswerable queries for 5 %, nothing is answered then. Queries with fewer than `minimum` candidates take no part.

    Raises:
        MeasurementError: no table of outcomes, a target outside (0, 1), or no unanswerable query takes part.
        QueryError: scores of a kind that no threshold may stand on.
    """
    check_source(source)
    _check(outcomes)
    if not 0.0 < target < 1.0:
        raise MeasurementError("The target of the calibration is impossible", expected="0 to 1", found=repr(target))
    if not fingerprints:
        raise MeasurementError("A threshold holds for nothing", expected="the fingerprints of index and models")
    judged = _sufficient(outcomes, minimum)
    bad = np.sort(judged.filter(~pl.col("answerable"))["score"].to_numpy())[::-1]
    good = judged.filter("answerable")["score"].to_numpy()
    if not len(bad):
        raise MeasurementError(
            "There is nothing to calibrate on",
            expected="unanswerable queries with candidates",
            found=f"{outcomes.height} queries, none such",
            remedy="add unanswerable queries to the calibration split",
        )

    def share(value: float) -> tuple[float, float, float]:
        hits = int((bad >= value).sum())
        return (hits / len(bad), *clopper_pearson(hits, len(bad), confidence))

    # Between two scores all thresholds decide alike; just above an unanswerable query's score is where one changes.
    above = (math.nextafter(float(score), math.inf) for score in bad)
    allowed = [value for value in above if share(value)[2 if guaranteed else 0] <= target]
    value = min(allowed, default=math.inf)
    answered, low, high = share(value)
    return Threshold(
        source=source,
        value=value,
        target=target,
        answered=answered,
        low=low,
        high=high,
        confidence=confidence,
        unanswerable=len(bad),
        answerable=len(good),
        coverage=float((good >= value).mean()) if len(good) else math.nan,
        split=split,
        fingerprints=dict(fingerprints),
    )


def report_abstention(
    outcomes: pl.DataFrame,
    threshold: Threshold,
    *,
    fingerprints: Mapping[str, str],
    seed: int,
    minimum: int = 1,
    resamples: int = 1_000,
    confidence: float = 0.95,
) -> AbstentionReport:
    """What `threshold` does on `outcomes`, which must not be those that it was calibrated on.

    Raises:
        MeasurementError: the table is not one of outcomes, or is empty.
        QueryError: the threshold holds for other fingerprints.
    """
    threshold.require(fingerprints)
    _check(outcomes)
    if not outcomes.height:
        raise MeasurementError("There are no outcomes to report on", expected="at least one query", found="none")
    categories = [ALL, *sorted(outcomes["category"].unique().to_list())]
    rows: list[dict[str, object]] = []
    for category in categories:
        part = outcomes if category == ALL else outcomes.filter(pl.col("category") == category)
        rows.extend(
            {"category": category, "metric": name, **figure}
            for name, figure in _figures(part, threshold.value, minimum, confidence, resamples, seed).items()
        )
    judged = _sufficient(outcomes, minimum)
    return AbstentionReport(
        threshold=threshold,
        metrics=pl.DataFrame(rows, schema=METRIC_SCHEMA),
        curve=risk_coverage(judged),
        scores=judged,
        insufficient=outcomes.height - judged.height,
        minimum=minimum,
    )


def risk_coverage(judged: pl.DataFrame) -> pl.DataFrame:
    """Share of wrong answers among those given, at each coverage that a threshold can reach (El-Yaniv and Wiener 2010).

    Queries of one score are answered together, since no threshold can part them.
    """
    scores, correct = judged["score"].to_numpy(), judged["correct"].to_numpy()
    order = np.argsort(-scores, kind="stable")
    scores, wrong = scores[order], np.cumsum(~correct[order])
    last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True)) if len(scores) else np.zeros(0, np.int64)
    answered = last + 1
    return pl.DataFrame(
        {
            "coverage": answered / max(1, len(scores)),
            "risk": wrong[last] / answered,
            "threshold": scores[last],
        },
        schema=CURVE_SCHEMA,
    )


def area_under_risk_coverage(curve: pl.DataFrame) -> float:
    """Mean risk over the coverages from 0 to 1: each point is weighted by the coverage that it adds. NaN if empty.

    >>> area_under_risk_coverage(pl.DataFrame({"coverage": [0.5, 1.0], "risk": [0.0, 0.5], "threshold": [0.9, 0.1]}))
    0.25
    """
    if not curve.height:
        return math.nan
    widths = np.diff(np.concatenate([[0.0], curve["coverage"].to_numpy()]))
    return float(np.sum(widths * curve["risk"].to_numpy()))


def area_under_risk_coverage_ci(
    judged: pl.DataFrame, *, seed: int, resamples: int = 1_000, confidence: float = 0.95
) -> Interval:
    """The area of `judged` with a percentile interval over resamples of its queries.

    Where all answers are right, or all wrong, every resample has the same area: the interval is then the exact one of
    the share of wrong answers.
    """
    scores, wrong = judged["score"].to_numpy(), ~judged["correct"].to_numpy()
    n = len(scores)
    point = _area(scores, wrong)
    if n < 2:
        return Interval(point, math.nan, math.nan, n, "none", confidence, warning="fewer than 2 queries")
    if wrong.all() or not wrong.any():
        low, high = clopper_pearson(int(wrong.sum()), n, confidence)
        return Interval(point, low, high, n, "clopper_pearson", confidence, warning="all answers are alike")
    random = np.random.default_rng(seed)
    drawn = random.integers(n, size=(max(100, resamples), n))
    replicates = [_area(scores[places], wrong[places]) for places in drawn]
    normal_quantile(confidence)  # refuses an impossible confidence
    low, high = np.quantile(replicates, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(point, float(low), float(high), n, "percentile", confidence, seed, max(100, resamples))


def _area(scores: Floats, wrong: NDArray[np.bool_]) -> float:
    """`area_under_risk_coverage` of scores and whether each answer is wrong, without a table between."""
    if not len(scores):
        return math.nan
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    answered = last + 1
    return float(np.sum(np.diff(answered, prepend=0) / len(scores) * np.cumsum(wrong[order])[last] / answered))


def auroc(good: Floats, bad: Floats) -> float:
    """Probability that an answerable query outscores an unanswerable one, ties half (Hanley and McNeil 1982).

    >>> auroc(np.array([0.9, 0.8, 0.4]), np.array([0.4, 0.1]))
    0.9166666666666666
    """
    if not len(good) or not len(bad):
        return math.nan
    ranks = np.concatenate([good, bad])
    ordered = np.sort(ranks)
    middle = (np.searchsorted(ordered, good, "left") + np.searchsorted(ordered, good, "right") + 1) / 2
    return float((middle.sum() - len(good) * (len(good) + 1) / 2) / (len(good) * len(bad)))


def auroc_ci(good: Floats, bad: Floats, *, seed: int, resamples: int = 1_000, confidence: float = 0.95) -> Interval:
    """`auroc` with a percentile interval over resamples of either group by itself.

    Where every resample is perfect, resampling proves nothing: the interval is then the exact one of "no pair of
    min(n, m) independent pairs in the wrong order".
    """
    n = min(len(good), len(bad))
    point = auroc(good, bad)
    if n < 2:
        return Interval(point, math.nan, math.nan, n, "none", confidence, warning="fewer than 2 queries of a kind")
    if point in (0.0, 1.0):
        low, high = clopper_pearson(n if point else 0, n, confidence)
        return Interval(point, low, high, n, "clopper_pearson", confidence, warning="no pair was in the other order")
    random = np.random.default_rng(seed)
    replicates = [
        auroc(random.choice(good, len(good)), random.choice(bad, len(bad))) for _ in range(max(100, resamples))
    ]
    normal_quantile(confidence)  # refuses an impossible confidence
    low, high = np.quantile(replicates, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(point, float(low), float(high), n, "percentile", confidence, seed, max(100, resamples))


def _figures(
    outcomes: pl.DataFrame, value: float, minimum: int, confidence: float, resamples: int, seed: int
) -> dict[str, dict[str, object]]:
    judged = _sufficient(outcomes, minimum)
    good, bad = judged.filter("answerable"), judged.filter(~pl.col("answerable"))
    answered = judged.filter(pl.col("score") >= value)
    refused = int((bad["score"] < value).sum())
    unanswerable = outcomes.filter(~pl.col("answerable")).height
    short_bad = unanswerable - bad.height

    def proportion(successes: int, n: int, note: str | None = None) -> dict[str, object]:
        if not n:
            return _figure(math.nan, math.nan, math.nan, 0, "none", note or "no such query")
        return _figure(successes / n, *clopper_pearson(successes, n, confidence), n, "clopper_pearson", note)

    area = auroc_ci(
        good["score"].to_numpy(), bad["score"].to_numpy(), seed=seed, resamples=resamples, confidence=confidence
    )
    risk = area_under_risk_coverage_ci(judged, seed=seed, resamples=resamples, confidence=confidence)
    right = int(answered["correct"].sum())
    return {
        "correct_abstention": proportion(refused, bad.height, f"{short_bad} short of candidates counted apart"),
        "correct_abstention_naive": proportion(
            refused + short_bad, unanswerable, "counts a lack of candidates as wisdom: not to be cited"
        ),
        "unanswerable_answered": proportion(bad.height - refused, bad.height),
        "answer_coverage": proportion(int((good["score"] >= value).sum()), good.height),
        "coverage": proportion(answered.height, outcomes.height, "of all queries, those short of candidates included"),
        "selective_accuracy": proportion(right, answered.height),
        "insufficient_candidates": proportion(outcomes.height - judged.height, outcomes.height),
        "auroc": _figure(area.point, area.low, area.high, area.n, area.method, area.warning),
        "area_under_risk_coverage": _figure(
            risk.point,
            risk.low,
            risk.high,
            risk.n,
            risk.method,
            f"of queries with candidates{f'; {risk.warning}' if risk.warning else ''}",
        ),
    }


def _figure(value: float, low: float, high: float, n: int, method: str, note: str | None) -> dict[str, object]:
    return {"value": value, "low": low, "high": high, "n": n, "method": method, "note": note}


def _sufficient(outcomes: pl.DataFrame, minimum: int) -> pl.DataFrame:
    return outcomes.filter((pl.col("candidates") >= max(1, minimum)) & pl.col("score").is_not_null())


def _check(outcomes: pl.DataFrame) -> None:
    if outcomes.schema != OUTCOME_SCHEMA:
        raise MeasurementError(
            "The outcomes are not a table of queries",
            expected=", ".join(f"{name} {kind}" for name, kind in OUTCOME_SCHEMA.items()),
            found=", ".join(f"{name} {kind}" for name, kind in outcomes.schema.items()),
        )
    faults = {
        "a query twice": outcomes["query_id"].n_unique() != outcomes.height,
        "null outside score": any(outcomes[name].null_count() for name in OUTCOME_SCHEMA if name != "score"),
        "a score that is not finite": not outcomes["score"].drop_nulls().is_finite().all(),
        "candidates without a score": outcomes.filter((pl.col("candidates") > 0) & pl.col("score").is_null()).height
        > 0,
        "an unanswerable query answered correctly": outcomes.filter(~pl.col("answerable") & pl.col("correct")).height
        > 0,
    }
    wrong = [name for name, there in faults.items() if there]
    if wrong:
        raise MeasurementError("The outcomes contradict themselves", expected="none of these", found=", ".join(wrong))
