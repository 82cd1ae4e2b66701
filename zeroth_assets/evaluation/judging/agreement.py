"""How far two graders agree, and when a sample cannot tell.

What belongs here: weighted kappa with its interval, confusion, recall of the relevant, and the rule by which an
agreement is withheld. Who the graders are does not matter here: a judge against experts' spans, a judge against a
person, a judge against itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.bootstrap import bootstrap_ci, mean_ci
from zeroth_assets.evaluation.intervals import Interval, normal_quantile
from zeroth_assets.evaluation.judging.model import GRADES, are_grades
from zeroth_assets.evaluation.metrics import RELEVANT
from zeroth_assets.evaluation.resampling import bca_ends, check_resamples, resample_indices

MIN_PAIRS = 30
MAX_SHARE = 0.8
MIN_GRADES = 2
_GRADES = len(GRADES)
_MAX_UNDEFINED = 0.05

AGREEMENT_SCHEMA = pl.Schema(
    {"query_id": pl.String, "document_id": pl.String, "reference": pl.Int64, "judge": pl.Int64}
)
WithheldReason = Literal["too few", "one value", "fewer than 2 grades"]


@dataclass(frozen=True, slots=True)
class Withheld:
    """An agreement that is not given, and why. It has no number on purpose."""

    reason: WithheldReason
    detail: str
    n: int

    def __str__(self) -> str:
        return f"withheld: {self.detail}"


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of a judge with a reference over the same pairs of query and passage.

    `kappa` is Cohen's, quadratically weighted; `exact` the share of equal grades; `relevant_recall` the share of what
    the reference calls relevant (grade >= 2) that the judge does too, None where the reference calls nothing so.
    Intervals resample queries. `confusion` has one row per cell: reference, judge, n. `pool_kappa` weighs a stratified
    sample back to the pool that it was drawn from, None where the pairs are no such sample.
    """

    kappa: Interval
    exact: Interval
    relevant_recall: Interval | None
    confusion: pl.DataFrame
    n: int
    queries: int
    pool_kappa: Interval | None = None
    warning: str | None = None

    def __str__(self) -> str:
        return f"quadratic-weighted kappa {self.kappa}, n = {self.n} pairs of {self.queries} queries"


def quadratic_kappa(
    reference: ArrayLike, judge: ArrayLike, *, weights: ArrayLike | None = None, grades: int = _GRADES
) -> float:
    """Cohen's kappa with quadratic weights (Cohen 1968); NaN where both graders used one and the same grade alone.

    >>> round(quadratic_kappa([0, 1, 2, 3], [0, 1, 2, 3]), 4), round(quadratic_kappa([0, 0, 3, 3], [0, 1, 2, 3]), 4)
    (1.0, 0.8571)
    """
    counts = _cells(np.asarray(reference), np.asarray(judge), weights, grades).sum(axis=0)
    return float(_kappas(counts[None, :], grades)[0])


def withheld(graded: Sequence[int] | NDArray[Any], who: str) -> Withheld | None:
    """Why grades cannot tell an agreement, None if they can.

    >>> withheld([3] * 30 + [2] * 2, "the person").reason
    'one value'
    """
    values = np.asarray(graded)
    n = int(values.size)
    if n < MIN_PAIRS:
        return Withheld("too few", f"{n} graded pairs, fewer than {MIN_PAIRS}", n)
    used, counts = np.unique(values, return_counts=True)
    if used.size < MIN_GRADES:
        return Withheld("fewer than 2 grades", f"{who} used grade {used[0]} alone", n)
    share = counts.max() / n
    if share > MAX_SHARE:
        value = int(used[counts.argmax()])
        return Withheld("one value", f"{who} gave grade {value} to {share:.0%} of {n}, above {MAX_SHARE:.0%}", n)
    return None


def agreement(
    pairs: pl.DataFrame,
    *,
    seed: int,
    resamples: int = 1_000,
    confidence: float = 0.95,
    reference_name: str = "the reference",
    one_value: Literal["withhold", "warn"] = "withhold",
) -> Agreement | Withheld:
    """Agreement over `pairs` (AGREEMENT_SCHEMA; with a column `weight`, also weighed back to the pool).

    A sample that cannot discriminate gives `Withheld`: fewer than 30 pairs, fewer than 2 grades by either grader, one
    grade above 80 % of either's. With `one_value="warn"` the last is a warning instead: against experts' spans most of
    a pool is rightly 0, and the pairs are all there are, not a sample that could have been drawn better.

    Raises:
        MeasurementError: columns missing, nulls, grades out of range, a pair twice, weights not above 0.
    """
    checked = _checked(pairs)
    reference, judge = checked["reference"].to_numpy(), checked["judge"].to_numpy()
    warning = None
    for values, who in ((reference, reference_name), (judge, "the judge")):
        state = withheld(values, who)
        if state is not None and state.reason == "one value" and one_value == "warn":
            warning = f"{state.detail}: kappa rests on few pairs"
        elif state is not None:
            return state
    queries = checked["query_id"].to_numpy()
    weights = checked["weight"].to_numpy() if "weight" in checked.columns else None
    relevant = reference >= RELEVANT

    def kappa(by: NDArray[Any] | None) -> Interval:
        return kappa_ci(reference, judge, queries, seed=seed, resamples=resamples, confidence=confidence, weights=by)

    def share(values: NDArray[np.bool_], of: NDArray[Any]) -> Interval:
        return _clustered(values.astype(float), of, seed=seed, resamples=resamples, confidence=confidence)

    return Agreement(
        kappa=kappa(None),
        exact=share(reference == judge, queries),
        relevant_recall=share(judge[relevant] >= RELEVANT, queries[relevant]) if relevant.any() else None,
        confusion=confusion(reference, judge),
        n=checked.height,
        queries=len(np.unique(queries)),
        pool_kappa=None if weights is None else kappa(weights),
        warning=warning,
    )


def kappa_ci(
    reference: NDArray[Any],
    judge: NDArray[Any],
    clusters: NDArray[Any],
    *,
    seed: int,
    resamples: int = 1_000,
    confidence: float = 0.95,
    weights: ArrayLike | None = None,
    grades: int = _GRADES,
) -> Interval:
    """Quadratic-weighted kappa with a BCa interval over whole clusters (queries).

    Raises:
        MeasurementError: fewer than 100 resamples, or a confidence outside (0, 1).
    """
    check_resamples(resamples)
    z = normal_quantile(confidence)
    _, codes = np.unique(clusters, return_inverse=True)
    cells = _cells(reference, judge, weights, grades)
    units = int(codes.max()) + 1
    by_cluster = np.zeros((units, cells.shape[1]))
    np.add.at(by_cluster, codes, cells)
    total = by_cluster.sum(axis=0)
    point = float(_kappas(total[None, :], grades)[0])

    def without(reason: str) -> Interval:
        return Interval(point, math.nan, math.nan, units, "none", confidence, warning=reason)

    if math.isnan(point):
        return without("both graders used one grade alone: kappa is undefined")
    if units < 2:
        return without("one query only")
    drawn = []
    for block in resample_indices(units, resamples, seed):
        # How often each cluster was drawn: a matrix product then adds their tables, whatever their sizes.
        rows = np.arange(block.shape[0])[:, None] * units
        times = np.bincount((block + rows).ravel(), minlength=block.shape[0] * units).reshape(-1, units)
        drawn.append(_kappas(times @ by_cluster, grades))
    replicates = np.concatenate(drawn)
    defined = replicates[~np.isnan(replicates)]
    if defined.size < (1 - _MAX_UNDEFINED) * resamples:
        return without("kappa is undefined in too many resamples")
    jackknife = _kappas(total - by_cluster, grades)
    if np.isnan(jackknife).any() or float(np.ptp(defined)) == 0.0:
        return without("the agreement does not vary between queries, or rests on one of them")
    low, high = bca_ends(defined, point, jackknife, z)
    warning = f"only {units} queries: covers less than stated" if units < 20 else None
    return Interval(point, low, high, units, "bca over queries", confidence, seed, resamples, warning)


def confusion(reference: ArrayLike, judge: ArrayLike) -> pl.DataFrame:
    """Counts of every pair of grades, those that never occurred included: reference, judge, n."""
    counts = _cells(np.asarray(reference), np.asarray(judge), None, _GRADES).sum(axis=0).astype(np.int64)
    return pl.DataFrame(
        {
            "reference": np.repeat(np.array(GRADES), _GRADES),
            "judge": np.tile(np.array(GRADES), _GRADES),
            "n": counts,
        },
        schema={"reference": pl.Int64, "judge": pl.Int64, "n": pl.Int64},
    )


def self_agreement(
    repeats: pl.DataFrame, *, seed: int, resamples: int = 1_000, confidence: float = 0.95
) -> Interval | Withheld:
    """Share of the passages shown twice that got the same grade twice (REPEAT_SCHEMA), with its interval."""
    if repeats.height < MIN_PAIRS:
        return Withheld("too few", f"{repeats.height} passages shown twice, fewer than {MIN_PAIRS}", repeats.height)
    same = (repeats["grade"] == repeats["second_grade"]).cast(pl.Float64).to_numpy()
    return _clustered(same, repeats["query_id"].to_numpy(), seed=seed, resamples=resamples, confidence=confidence)


def expert_pairs(judgments: pl.DataFrame, expert: pl.DataFrame, *, absent_is_zero: bool = False) -> pl.DataFrame:
    """Pairs that both the judge and the experts' spans graded, as `agreement` takes them.

    `judgments` and `expert` have query_id, document_id, grade. Tables of spans' grades often leave zeros out; with
    `absent_is_zero` a judged pair without a span counts as 0, for the queries that `expert` knows. That holds only
    where experts labelled everything: within a contract, not across the corpus, so `judgments` must be narrowed so.
    """
    keys = ["query_id", "document_id"]
    reference = expert.select(*keys, pl.col("grade").cast(pl.Int64).alias("reference"))
    judge = judgments.select(*keys, pl.col("grade").alias("judge"))
    if absent_is_zero:
        known = judge.join(expert.select("query_id").unique(), on="query_id", how="semi")
        pairs = known.join(reference, on=keys, how="left", validate="1:1").with_columns(
            pl.col("reference").fill_null(0)
        )
    else:
        pairs = reference.join(judge, on=keys, how="inner", validate="1:1")
    return pairs.select(list(AGREEMENT_SCHEMA)).sort(keys)


def _clustered(
    values: NDArray[np.float64], clusters: NDArray[Any], *, seed: int, resamples: int, confidence: float
) -> Interval:
    if len(np.unique(clusters)) == values.size:
        return mean_ci(values, resamples=resamples, seed=seed, confidence=confidence)
    return bootstrap_ci(values, resamples=resamples, seed=seed, confidence=confidence, method="bca", clusters=clusters)


def _cells(reference: NDArray[Any], judge: NDArray[Any], weights: ArrayLike | None, grades: int) -> NDArray[np.float64]:
    """One row per pair: its weight in its cell of the (flattened) table of grades."""
    cells = np.zeros((reference.size, grades * grades))
    cells[np.arange(reference.size), reference * grades + judge] = 1.0 if weights is None else np.asarray(weights)
    return cells


def _kappas(tables: NDArray[np.float64], grades: int) -> NDArray[np.float64]:
    table = tables.reshape(-1, grades, grades)
    distance = (np.arange(grades)[:, None] - np.arange(grades)[None, :]) ** 2
    total = table.sum(axis=(1, 2))
    observed = (table * distance).sum(axis=(1, 2)) * total
    by_chance = np.einsum("bi,bj,ij->b", table.sum(axis=2), table.sum(axis=1), distance.astype(float))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(by_chance > 0, 1.0 - observed / by_chance, np.nan)


def _checked(pairs: pl.DataFrame) -> pl.DataFrame:
    missing = [name for name in AGREEMENT_SCHEMA if name not in pairs.columns]
    if missing:
        raise MeasurementError(
            "The graded pairs lack columns", expected=", ".join(AGREEMENT_SCHEMA), found=str(missing)
        )
    columns = [*AGREEMENT_SCHEMA, *(["weight"] if "weight" in pairs.columns else [])]
    narrowed = pairs.select(columns)
    columns_of_grades = [narrowed["reference"], narrowed["judge"]]
    if sum(narrowed.null_count().row(0)) or not all(are_grades(column) for column in columns_of_grades):
        raise MeasurementError("A grade is out of range", expected="whole numbers from 0 to 3, no nulls")
    if narrowed.select("query_id", "document_id").is_duplicated().any():
        raise MeasurementError("A pair was graded twice", expected="each pair of query and document once")
    if "weight" in columns and not (narrowed["weight"] > 0).all():
        raise MeasurementError("A weight is not above 0", expected="positive weights")
    return narrowed.with_columns(pl.col("reference", "judge").cast(pl.Int64))
