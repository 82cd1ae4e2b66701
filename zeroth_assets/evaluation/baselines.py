"""Accepted figures, kept with their values per query, and whether today's have fallen behind them.

What belongs here: the files and the verdict. A baseline is committed with the corpus, so that a fresh CI has one; only
a person moves it, with a reason. `FIGURES` names what has one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from zeroth_assets.artefacts import write_atomic
from zeroth_assets.errors import ArtefactError, MeasurementError, SettingsError
from zeroth_assets.evaluation.intervals import Interval
from zeroth_assets.evaluation.paired import paired_ci

FIGURES: Final = ("ann_recall", "access_recall", "retrieval_metrics", "golden_set")
MARGIN = 0.01
# A baseline of other queries says nothing; of so many of the same, it does.
_SHARED_LEAST = 0.5

Verdict = Literal["holds", "regressed", "cannot tell", "no baseline", "other queries"]
Series = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Baseline:
    """Accepted values: `series` maps what was measured (chunk set and tenant, or arm) to values by query id.

    `marks` are single values that must not change, such as a golden set's digest.
    """

    figure: str
    reason: str
    accepted_at: str
    series: Series
    marks: Mapping[str, str]

    @property
    def holds(self) -> str:
        """What was accepted, in words: how many series of values, or which marks."""
        parts = [f"{len(self.series)} series"] if self.series or not self.marks else []
        return ", ".join([*parts, *([" and ".join(sorted(self.marks))] if self.marks else [])])


@dataclass(frozen=True, slots=True)
class Regression:
    """Today's values against the accepted ones, over the queries that both have (`n`)."""

    verdict: Verdict
    wording: str
    n: int
    difference: Interval | None = None


def read_baseline(folder: Path, figure: str) -> Baseline | None:
    """The accepted baseline of a figure, None where none was ever accepted.

    Raises:
        ArtefactError: the file is not one that `write_baseline` wrote.
    """
    path = _path(folder, figure)
    try:
        content: Any = json.loads(path.read_text("utf-8"))
        series = {str(name): _finite(values) for name, values in content["series"].items()}
        marks = {str(name): str(mark) for name, mark in content["marks"].items()}
        return Baseline(figure, str(content["reason"]), str(content["accepted_at"]), series, marks)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArtefactError(
            f"The baseline {path.name} cannot be read",
            expected="JSON with reason, accepted_at, series and marks",
            found=f"{type(error).__name__}: {error}",
            remedy="restore it from version control, or accept a new one: `zeroth baseline accept --reason ...`",
        ) from error


def write_baseline(folder: Path, baseline: Baseline) -> Path:
    """Put a baseline in force; one line per series, so that a diff of it can be read.

    Raises:
        SettingsError: no reason is given, or the folder cannot be written.
        MeasurementError: a value is no finite number, and nothing could be compared with it.
    """
    if not baseline.reason.strip():
        raise SettingsError("A baseline moves for a reason", expected="a sentence", remedy="--reason TEXT")
    for name, values in baseline.series.items():
        try:
            _finite(values)
        except (ValueError, TypeError) as error:
            raise MeasurementError(
                f"The values of {name} cannot be accepted", expected="a finite number per query", found=str(error)
            ) from error
    path = _path(folder, baseline.figure)
    lines = [f"  {json.dumps(name)}: {_values(baseline.series[name])}" for name in sorted(baseline.series)]
    head = {"figure": baseline.figure, "reason": baseline.reason, "accepted_at": baseline.accepted_at}
    body = json.dumps({**head, "marks": dict(sorted(baseline.marks.items()))}, indent=1)[:-2]
    text = f'{body},\n "series": {{\n' + ",\n".join(lines) + "\n }\n}\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text.encode(), mode=0o644)
    except OSError as error:
        raise SettingsError(
            f"The baseline folder {folder} cannot be written",
            expected="a folder of a checkout, or one of your own",
            found=str(error),
            remedy="set ZEROTH_BASELINES to a folder that you keep under version control",
        ) from error
    return path


def compare_with_baseline(
    now: Mapping[str, float], accepted: Mapping[str, float] | None, *, seed: int, resamples: int = 1_000
) -> Regression:
    """Whether values per query have regressed: the interval of the paired difference lies below -`MARGIN`.

    >>> compare_with_baseline({"a": 1.0, "b": 0.9}, {"a": 1.0, "b": 0.9}, seed=1).verdict
    'holds'
    """
    if accepted is None:
        return Regression("no baseline", "no baseline was accepted for it: `zeroth baseline accept`", 0)
    shared = sorted(set(now) & set(accepted))
    if not shared or len(shared) < _SHARED_LEAST * max(len(now), len(accepted)):
        return Regression("other queries", f"only {len(shared)} of {len(accepted)} queries are the baseline's", 0)
    difference = np.array([now[query] - accepted[query] for query in shared])
    n = len(shared)
    if lost := int((~np.isfinite(difference)).sum()):
        # No comparison with NaN is true, so it would pass for a query that is no worse.
        return Regression("cannot tell", f"{lost} of {n} queries have no value to compare", n)
    if not (difference < 0).any():
        return Regression("holds", f"no query of {n} is worse than in the baseline", n)
    if n < 2:
        return Regression("cannot tell", "one query tells nothing", n)
    interval = paired_ci(difference, seed=seed, resamples=resamples)
    size = f"{interval.point:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}] over {n} queries"
    if interval.known and interval.high < -MARGIN:
        return Regression("regressed", f"below the accepted baseline: {size}", n, interval)
    if interval.known and interval.low >= -MARGIN:
        return Regression("holds", f"within {MARGIN:g} of the accepted baseline: {size}", n, interval)
    return Regression("cannot tell", f"these queries cannot tell: {size}", n, interval)


def _finite(values: Mapping[str, Any]) -> dict[str, float]:
    wrong = [query for query, value in values.items() if type(value) not in (int, float) or not math.isfinite(value)]
    if wrong:
        raise ValueError(f"{len(wrong)} of {len(values)} values are no finite numbers, that of {wrong[0]!r} first")
    return {str(query): float(value) for query, value in values.items()}


def _values(values: Mapping[str, float]) -> str:
    return json.dumps({query: round(float(values[query]), 6) for query in sorted(values)}, separators=(",", ":"))


def _path(folder: Path, figure: str) -> Path:
    if figure not in FIGURES:
        raise SettingsError(f"There is no baseline of {figure!r}", expected=", ".join(FIGURES), found=figure)
    return folder / f"{figure}.json"
