"""Arms against each other: which is better, by how much, and whether these queries can tell.

What belongs here: the table that comes of a family of comparisons (`comparison_family`). The intervals are `paired`'s,
the tests `significance`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.bootstrap import TOO_FEW_UNITS
from zeroth_assets.evaluation.comparison_family import Arm, Comparison, Family
from zeroth_assets.evaluation.intervals import Interval
from zeroth_assets.evaluation.paired import paired_ci, unit_sums, unit_values
from zeroth_assets.evaluation.significance import (
    Difference,
    difference_verdict,
    holm,
    minimum_detectable_effect,
    randomisation_test,
)

__all__ = ["COMPARISON_SCHEMA", "Arm", "Comparison", "Family", "compare_arms"]
COMPARISON_SCHEMA = pl.Schema(
    {
        "family": pl.String,
        "family_digest": pl.String,
        "primary": pl.Boolean,
        "metric": pl.String,
        "definition": pl.String,
        "arm_a": pl.String,
        "arm_b": pl.String,
        "chunk_set_a": pl.String,
        "chunk_set_b": pl.String,
        "role_a": pl.String,
        "role_b": pl.String,
        "corpus_fingerprint": pl.String,
        "golden_fingerprint": pl.String,
        "n": pl.Int64,
        "units": pl.Int64,
        "mean_a": pl.Float64,
        "mean_b": pl.Float64,
        "difference": pl.Float64,
        "ci_low": pl.Float64,
        "ci_high": pl.Float64,
        "confidence": pl.Float64,
        "method": pl.String,
        "p": pl.Float64,
        "p_holm": pl.Float64,
        "mde": pl.Float64,
        "verdict": pl.String,
        "wording": pl.String,
        "warning": pl.String,
        "seed": pl.Int64,
        "resamples": pl.Int64,
        "permutations": pl.Int64,
    }
)


def compare_arms(
    arms: Sequence[Arm],
    family: Family,
    *,
    seed: int,
    resamples: int = 1_000,
    permutations: int = 10_000,
    confidence: float = 0.95,
    clusters: Mapping[str, str] | None = None,
) -> pl.DataFrame:
    """One row (COMPARISON_SCHEMA) per comparison of the family, primary ones first, in the order named.

    Each row has the paired difference with its interval, the randomisation test's p, p by Holm over the primary ones
    (null for the rest), the smallest true difference that these queries would find with 80 % power, and a verdict:
    "higher" or "lower" where interval and corrected p agree, else "cannot tell". `clusters` names each query's cluster
    (a document): clusters are then resampled, and swapped between arms, whole.

    Raises:
        MeasurementError: arms of different corpora, golden sets, queries or definitions; an unknown arm or metric; a
            query twice; a metric that is defined in one arm alone, or nowhere; a query without a cluster.
    """
    by_name = {arm.name: arm for arm in arms}
    if len(by_name) != len(arms):
        raise MeasurementError("Two arms have the same name", expected="a name for each", found=str(sorted(by_name)))
    every = [*family.primary, *family.exploratory]
    for comparison in every:
        for name in (comparison.a, comparison.b):
            if name not in by_name:
                raise MeasurementError(
                    "A comparison names an arm that is not there", expected=", ".join(by_name), found=repr(name)
                )
    level = 1.0 - confidence
    pairs = [_paired(by_name[c.a], by_name[c.b], c.metric) for c in every]
    results = [
        _test(pair, clusters, seed=seed, resamples=resamples, permutations=permutations, confidence=confidence)
        for pair in pairs
    ]
    corrected = holm({str(c): result.p for c, result in zip(family.primary, results, strict=False)})
    rows = []
    for number, (comparison, pair, result) in enumerate(zip(every, pairs, results, strict=True)):
        primary = number < len(family.primary)
        p_holm = corrected[str(comparison)] if primary else None
        verdict = _verdict(result, p_holm if primary else result.p, level)
        a, b = by_name[comparison.a], by_name[comparison.b]
        rows.append(
            {
                "family": family.name,
                "family_digest": family.digest,
                "primary": primary,
                "metric": comparison.metric,
                "definition": a.definitions.get(comparison.metric),
                "arm_a": a.name,
                "arm_b": b.name,
                "chunk_set_a": a.chunk_set,
                "chunk_set_b": b.chunk_set,
                "role_a": a.role,
                "role_b": b.role,
                "corpus_fingerprint": a.corpus_fingerprint,
                "golden_fingerprint": a.golden_fingerprint,
                "n": pair.height,
                "units": result.interval.n,
                "mean_a": pair["a"].mean(),
                "mean_b": pair["b"].mean(),
                "difference": result.interval.point,
                "ci_low": result.interval.low if result.interval.known else None,
                "ci_high": result.interval.high if result.interval.known else None,
                "confidence": confidence,
                "method": result.interval.method,
                "p": result.p,
                "p_holm": p_holm,
                "mde": result.mde,
                "verdict": verdict,
                "wording": _wording(comparison, result, verdict, primary=primary),
                "warning": result.interval.warning,
                "seed": seed,
                "resamples": resamples,
                "permutations": permutations,
            }
        )
    return pl.DataFrame(rows, schema=COMPARISON_SCHEMA)


@dataclass(frozen=True, slots=True)
class _Result:
    interval: Interval
    p: float
    mde: float | None


def _paired(a: Arm, b: Arm, metric: str) -> pl.DataFrame:
    """query_id, a, b for the queries where the metric is defined, by query id."""
    for what, first, second in (
        ("corpora", a.corpus_fingerprint, b.corpus_fingerprint),
        ("golden sets", a.golden_fingerprint, b.golden_fingerprint),
        (f"definitions of {metric}", a.definitions.get(metric), b.definitions.get(metric)),
    ):
        if first != second:
            raise MeasurementError(
                f"Arms {a.name!r} and {b.name!r} stand on different {what}",
                expected="figures of one corpus, golden set and definition",
                found=f"{first} and {second}",
                remedy="materialise both arms on the same, then compare",
            )
    left, right = _column(a, metric, "a"), _column(b, metric, "b")
    joined = left.join(right, on="query_id", how="full", coalesce=True)
    if joined.height != left.height or left.height != right.height:
        raise MeasurementError(
            f"Arms {a.name!r} and {b.name!r} answered different queries",
            expected="one row per query of the golden set in each; a query without results counts as 0",
            found=f"{left.height} and {right.height} queries, {joined.height} in all",
        )
    lopsided = joined.filter(pl.col("a").is_null() != pl.col("b").is_null())
    if lopsided.height:
        raise MeasurementError(
            f"{metric} is defined for a query in one arm alone",
            expected="defined in both or in neither, since that depends on the grades",
            found=f"query {lopsided['query_id'][0]!r} and {lopsided.height - 1} others",
        )
    defined = joined.drop_nulls().sort("query_id")
    if defined.is_empty():
        raise MeasurementError(f"{metric} is defined for no query", expected="at least one")
    return defined


def _column(arm: Arm, metric: str, name: str) -> pl.DataFrame:
    missing = [column for column in ("query_id", metric) if column not in arm.per_query.columns]
    if missing:
        raise MeasurementError(
            f"Arm {arm.name!r} lacks a column", expected=f"query_id and {metric}", found="without " + ", ".join(missing)
        )
    frame = arm.per_query.select("query_id", pl.col(metric).cast(pl.Float64).alias(name))
    if frame["query_id"].is_duplicated().any() or frame["query_id"].null_count():
        raise MeasurementError(f"Arm {arm.name!r} has a query twice, or one without an id", expected="each query once")
    return frame


def _test(
    pair: pl.DataFrame,
    clusters: Mapping[str, str] | None,
    *,
    seed: int,
    resamples: int,
    permutations: int,
    confidence: float,
) -> _Result:
    difference = (pair["a"] - pair["b"]).to_numpy()
    labels = None if clusters is None else _labels(pair, clusters)
    interval = paired_ci(difference, resamples=resamples, seed=seed, confidence=confidence, clusters=labels)
    sums = unit_sums(difference, labels)
    p = randomisation_test(sums, np.zeros_like(sums), permutations=permutations, seed=seed)
    spread = unit_values(difference, labels)
    varied = spread.size >= TOO_FEW_UNITS and float(np.ptp(spread)) > 0.0
    mde = minimum_detectable_effect(spread, alpha=1.0 - confidence) if varied else None
    return _Result(interval, p, mde)


def _labels(pair: pl.DataFrame, clusters: Mapping[str, str]) -> NDArray[np.str_]:
    missing = [query for query in pair["query_id"] if query not in clusters]
    if missing:
        raise MeasurementError(
            "A query has no cluster", expected="one for each", found=f"{missing[0]!r} and {len(missing) - 1} others"
        )
    return np.array([clusters[query] for query in pair["query_id"]])


def _verdict(result: _Result, p: float | None, level: float) -> Difference:
    """Interval and test have to agree; where they do not, these queries cannot tell."""
    return difference_verdict(result.interval) if p is not None and p < level else "cannot tell"


def _wording(comparison: Comparison, result: _Result, verdict: Difference, *, primary: bool) -> str:
    interval = result.interval
    size = f"{interval.point:+.3f}"
    if interval.known:
        size += f" [{interval.low:+.3f}, {interval.high:+.3f}]"
    if verdict == "cannot tell":
        reach = (
            f"a true difference below {result.mde:.3f} would often go unseen with {interval.n} units"
            if result.mde is not None
            else f"{interval.n} independent units are too few to say what would be seen"
            if interval.n < TOO_FEW_UNITS
            else "the arms hardly differ in what these queries see"
        )
        text = f"cannot tell {comparison.a} from {comparison.b}: {size}; {reach}"
    else:
        text = f"{comparison.a} is {verdict} than {comparison.b}: {size}"
    return text if primary else f"exploratory, no claim: {text}"
