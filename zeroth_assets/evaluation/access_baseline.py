"""Whether a tenant's recall fell below what was accepted.

What belongs here: the comparison of two sets of per-query values. Where the accepted ones are kept is not its matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.access_model import CELL_COLUMNS, Cell
from zeroth_assets.evaluation.bootstrap import paired_bootstrap
from zeroth_assets.evaluation.intervals import Interval

Status = Literal["passed", "cannot_tell", "failed"]
TOLERANCE = 0.01
# One cell: with every cell of the grid compared at 95 %, one in twenty would fail by chance.
BASELINE_CELLS = (Cell("partition_hnsw", 40, 10, True),)
_FEWEST = 20


@dataclass(frozen=True, slots=True)
class BaselineVerdict:
    """How recall stands against the baseline. `difference` is current - baseline, of the queries that both have.

    `failed`: its whole interval lies below -tolerance. `cannot_tell`: a query fell, and the interval reaches below
    -tolerance; or there are too few queries in common. `reasons` says it in words, cell by cell.
    """

    status: Status
    reasons: tuple[str, ...]
    differences: tuple[tuple[Cell, Interval], ...] = ()


def compare_with_baseline(
    current: pl.DataFrame,
    baseline: pl.DataFrame,
    *,
    seed: int,
    cells: Sequence[Cell] = BASELINE_CELLS,
    tolerance: float = TOLERANCE,
    resamples: int = 1_000,
) -> BaselineVerdict:
    """The verdict over one principal's per-query recall.

    Both frames have the columns design, ef_search, k, predicate, query_id and recall. Queries are paired by id: what is
    in one frame alone is left out and counted. The worst cell decides. Where no paired query fell, nothing got worse.

    Raises:
        MeasurementError: a tolerance outside [0, 1), several principals, an id that occurs twice in a cell, or a cell
            that the current frame does not have.
    """
    if not 0.0 <= tolerance < 1.0:
        raise MeasurementError("A tolerance of recall is impossible", expected="within [0, 1)", found=repr(tolerance))
    for name, frame in (("current", current), ("baseline", baseline)):
        if "principal" in frame.columns and frame["principal"].n_unique() > 1:
            raise MeasurementError(
                f"The {name} values are of several principals", expected="one", found=str(frame["principal"].n_unique())
            )
    outcomes = [_compare(current, baseline, cell, seed, tolerance, resamples) for cell in cells]
    order: tuple[Status, ...] = ("failed", "cannot_tell", "passed")
    return BaselineVerdict(
        status=next((status for status in order if any(o[0] == status for o in outcomes)), "passed"),
        reasons=tuple(reason for _, reason, _ in outcomes),
        differences=tuple(
            (cell, interval) for cell, (_, _, interval) in zip(cells, outcomes, strict=True) if interval is not None
        ),
    )


def _compare(
    current: pl.DataFrame, baseline: pl.DataFrame, cell: Cell, seed: int, tolerance: float, resamples: int
) -> tuple[Status, str, Interval | None]:
    now, then = _of_cell(current, cell, "current"), _of_cell(baseline, cell, "baseline")
    label = f"{cell.design}, ef_search {cell.ef_search}, k {cell.k}"
    if now.is_empty():
        raise MeasurementError(
            f"Recall of {label} is not among the current values",
            expected="the cells that the baseline is compared by",
            remedy="measure this cell, or compare another",
        )
    pairs = now.join(then, on="query_id", suffix="_then").sort("query_id")
    alone = now.height + then.height - 2 * pairs.height
    if pairs.is_empty():
        return "cannot_tell", f"{label}: no query in common with the baseline", None
    difference = paired_bootstrap(pairs["recall"], pairs["recall_then"], seed=seed, resamples=resamples)
    fell = int((pairs["recall"] < pairs["recall_then"]).sum())
    told = (
        f"{label}: {difference.point:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}] over {pairs.height} "
        f"queries, {fell} fell" + (f", {alone} without a counterpart" if alone else "")
    )
    if fell and difference.high < -tolerance:
        return "failed", told, difference
    if fell and difference.low < -tolerance:
        return "cannot_tell", f"cannot tell: {told}", difference
    if pairs.height < min(_FEWEST, now.height):
        return "cannot_tell", f"too few in common: {told}", difference
    return "passed", told, difference


def _of_cell(frame: pl.DataFrame, cell: Cell, name: str) -> pl.DataFrame:
    values = (cell.design, cell.ef_search, cell.k, cell.predicate)
    found = frame.filter(
        *(pl.col(column).eq_missing(value) for column, value in zip(CELL_COLUMNS, values, strict=True))
    ).select("query_id", "recall")
    if found["query_id"].n_unique() != found.height:
        raise MeasurementError(f"A query occurs twice among the {name} values", expected="each id once per cell")
    return found
