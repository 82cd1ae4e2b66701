"""What a measurement of an index's recall reports, and whether the report may stand.

What belongs here: the report's type and schemas, and the verdicts that checks are made of. `ann_recall` measures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from zeroth_assets.errors import MeasurementError
from zeroth_assets.store.registry import IndexBuild

HEADLINE_EF_SEARCH = 40
TRUTH = "numpy: float64 over the stored vectors that the principal can read"
LATENCY = "client-side, from sending the statement to having its rows, planning included, after one warm-up pass"
HNSW_NODE = "Index Scan"
# 50 queries recalled wholly have a lower end of 0.929 (Wilson): a floor above that could never be met.
RECALL_FLOOR = 0.9

FIGURE_SCHEMA = pl.Schema(
    {
        "chunk_set": pl.String,
        "tenant": pl.String,
        "principal": pl.String,
        "role": pl.String,
        "ef_search": pl.Int64,
        "k": pl.Int64,
        "recall": pl.Float64,
        "recall_low": pl.Float64,
        "recall_high": pl.Float64,
        "interval_method": pl.String,
        "interval_warning": pl.String,
        "queries": pl.Int64,
        "rows_mean": pl.Float64,
        "rows_min": pl.Int64,
        "short_queries": pl.Int64,
        "empty_queries": pl.Int64,
        "latency_p50_ms": pl.Float64,
        "latency_p95_ms": pl.Float64,
        "plan_node": pl.String,
        "index_name": pl.String,
        "trivial": pl.Boolean,
        "tenant_rows": pl.Int64,
        "index_build_id": pl.Int64,
        "dead_rows": pl.Int64,
        "m": pl.Int64,
        "ef_construction": pl.Int64,
        "seed": pl.Int64,
        "resamples": pl.Int64,
    }
)
PER_QUERY_SCHEMA = pl.Schema(
    {
        "ef_search": pl.Int64,
        "query": pl.Int64,
        "recall": pl.Float64,
        "rows": pl.Int64,
        "kth_distance": pl.Float64,
        "latency_ms": pl.Float64,
    }
)


@dataclass(frozen=True, slots=True)
class AnnRecallReport:
    """What was measured for one tenant and chunk set.

    `figures` has a row per ef_search in `FIGURE_SCHEMA`: recall@k is the mean over queries of the share of the k exact
    neighbours that came back (ties at the k-th distance count), with its interval over queries; `short_queries` got
    fewer than min(k, tenant_rows) rows; `trivial` marks ef_search >= tenant_rows, where the index visits every row.
    `per_query` has a row per ef_search and query (its position in the input) in `PER_QUERY_SCHEMA`.
    """

    figures: pl.DataFrame
    per_query: pl.DataFrame
    build: IndexBuild
    tenant_rows: int
    truth: str = TRUTH
    latency: str = LATENCY

    def at(self, ef_search: int) -> dict[str, Any]:
        """The figures of one ef_search.

        Raises:
            MeasurementError: it was not measured.
        """
        rows = self.figures.filter(pl.col("ef_search") == ef_search)
        if rows.height != 1:
            raise MeasurementError(
                f"Recall at ef_search = {ef_search} was not measured",
                expected=", ".join(map(str, self.figures["ef_search"].to_list())),
            )
        return rows.row(0, named=True)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`ok` unless there are problems; warnings are what could not be told."""

    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


def verdict(report: AnnRecallReport) -> Verdict:
    """Whether the figures are what they claim: no truth query used an index, and none of the measured avoided it.

    Also that they were measured as `zeroth_app` over all rows of the build in force, each with an interval.
    """
    problems: list[str] = []
    if report.truth != TRUTH:
        problems.append(f"truth was computed otherwise: {report.truth}")
    if report.tenant_rows != report.build.row_count:
        problems.append(f"truth over {report.tenant_rows} rows, the build has {report.build.row_count}")
    if report.figures.is_empty():
        problems.append("nothing was measured")
    for row in report.figures.iter_rows(named=True):
        at = f"ef_search {row['ef_search']}"
        if row["plan_node"] != HNSW_NODE or row["index_name"] is None or row["index_name"] != report.build.index_name:
            problems.append(
                f"{at}: rows came by {row['plan_node']} using {row['index_name'] or 'no index'}, "
                f"not by {report.build.index_name}"
            )
        if row["role"] != "zeroth_app":
            problems.append(f"{at}: measured as {row['role']}, not zeroth_app")
        if row["dead_rows"] != 0:
            problems.append(f"{at}: {row['dead_rows']} dead rows stood in the index")
        if not row["recall_low"] < row["recall_high"]:
            problems.append(f"{at}: recall {row['recall']:.3f} has no interval")
    return Verdict(tuple(problems))


def recall_verdict(
    report: AnnRecallReport, *, floor: float = RECALL_FLOOR, ef_search: int = HEADLINE_EF_SEARCH
) -> Verdict:
    """Whether recall at one ef_search reaches `floor`.

    A problem if the whole interval lies below the floor, a warning if only its lower end does: n queries cannot tell.

    Raises:
        MeasurementError: that ef_search was not measured, or the floor is outside [0, 1].
    """
    if not 0.0 <= floor <= 1.0:
        raise MeasurementError("A floor of recall is impossible", expected="within [0, 1]", found=repr(floor))
    row = report.at(ef_search)
    figure = (
        f"recall@{row['k']} at ef_search {ef_search} is {row['recall']:.3f} "
        f"[{row['recall_low']:.3f}, {row['recall_high']:.3f}], floor {floor:g}"
    )
    if row["recall_high"] < floor:
        return Verdict(problems=(figure,))
    if row["recall_low"] < floor:
        return Verdict(warnings=(f"cannot tell from {row['queries']} queries: {figure}",))
    return Verdict()
