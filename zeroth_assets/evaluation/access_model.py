"""What is measured of access control, and what a measurement reports.

What belongs here: the index designs, the cells of the grid with the reasons for those left out, and the schemas of the
figures. `access_recall` measures, `access_report` reads, `access_plots` draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import polars as pl

Design = Literal[
    "shared_postfilter",
    "shared_strict",
    "shared_relaxed",
    "partition_hnsw",
    "partition_exact",
    "partial_hnsw",
    "retriever",
]
DESIGNS: tuple[Design, ...] = (
    "shared_postfilter",
    "shared_strict",
    "shared_relaxed",
    "partition_hnsw",
    "partition_exact",
    "partial_hnsw",
)
# No index design of the grid: it chooses among them. See `access_retriever`.
RETRIEVER: Design = "retriever"
SHOWN_DESIGNS: tuple[Design, ...] = (*DESIGNS, RETRIEVER)
WITHOUT_EF: tuple[Design, ...] = ("partition_exact", RETRIEVER)
LABELS = MappingProxyType(
    {
        "shared_postfilter": "shared HNSW, policy after it",
        "shared_strict": "shared, iterative scan, strict order",
        "shared_relaxed": "shared, iterative scan, relaxed order",
        "partition_hnsw": "partition per tenant, HNSW",
        "partition_exact": "partition per tenant, exact",
        "partial_hnsw": "partial index per tenant",
        "retriever": "dense retriever, path by measured costs",
    }
)
SHARED_DESIGNS: tuple[Design, ...] = ("shared_postfilter", "shared_strict", "shared_relaxed", "partial_hnsw")
ITERATIVE: tuple[Design, ...] = ("shared_strict", "shared_relaxed")
GRID_EF_SEARCH = (40, 100, 200, 400, 800)
GRID_K = (10, 50)
HEADLINE_K = 10
_MANY_TENANTS = 20
_MANY_EF = (40, 200)
_FEW_QUERIES = 10

LEFT_OUT = MappingProxyType(
    {
        "exact": "an exact scan has no ef_search",
        "k_above_ef": "without an iterative scan, fewer than k rows can come back where k > ef_search",
        "k_above_rows": "the principal can read fewer than k rows",
        "iterative": "under an iterative scan ef_search is the size of a step, not a bound, and a query of a small "
        "tenant costs a hundred times one of its partition: strict order is taken at the least and the greatest "
        "ef_search, relaxed order at the least; strict order with other k than "
        f"{HEADLINE_K} at the greatest on {_FEW_QUERIES} queries",
        "iterative_predicate": "under a forced scan of the shared index the predicate is one more filter over the rows "
        "that the policy lets through anyway: both forms are measured without iteration, and at ef_search 40 with it "
        f"on {_FEW_QUERIES} queries",
        "partition_alone": "without the predicate a forced HNSW plan walks every tenant's graph to discard it: the "
        f"same rows at a price, taken at ef_search 40 and k {HEADLINE_K} on {_FEW_QUERIES} queries",
        "partition_many": f"above {_MANY_TENANTS} tenants a merge over all graphs is taken at ef_search "
        f"{' and '.join(map(str, _MANY_EF))} alone",
        "partial_many": "a partial index is of one tenant; several cannot be merged by distance under one LIMIT",
        "partial_alone": "the policy alone does not prove a partial index's condition",
    }
)


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One combination of the grid; `queries` is how many are asked at most, None for all."""

    design: Design
    ef_search: int | None
    k: int
    predicate: bool
    queries: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The cells that are measured, and the keys of `LEFT_OUT` that say why others are not."""

    cells: tuple[Cell, ...]
    left_out: tuple[str, ...]


def plan_cells(
    *,
    tenants: int,
    rows: int,
    designs: Sequence[Design] = DESIGNS,
    ef_search: Sequence[int] = GRID_EF_SEARCH,
    ks: Sequence[int] = GRID_K,
) -> Plan:
    """The cells for a principal of so many tenants and rows, without those that cannot differ or cost too much.

    >>> plan_cells(tenants=1, rows=600, designs=("partition_exact",), ks=(10,)).cells[0]
    Cell(design='partition_exact', ef_search=None, k=10, predicate=False, queries=None)
    """
    reasons: set[str] = set()
    cells: list[Cell] = []
    ends = (min(ef_search), max(ef_search))
    for k in sorted(set(ks)):
        if k > rows:
            reasons.add("k_above_rows")
            continue
        for design in designs:
            for ef in (None,) if design == "partition_exact" else sorted(set(ef_search)):
                for predicate in (False, True):
                    cell, reason = _cell(design, ef, k, predicate, tenants, ends)
                    if reason is not None:
                        reasons.add(reason)
                    if cell is not None:
                        cells.append(cell)
    return Plan(tuple(cells), tuple(reason for reason in LEFT_OUT if reason in reasons))


def _cell(
    design: Design, ef: int | None, k: int, predicate: bool, tenants: int, ends: tuple[int, int]
) -> tuple[Cell | None, str | None]:
    """The cell if it is measured, and the reason if it is not, or on few queries alone."""
    if ef is None:
        return Cell(design, None, k, predicate), "exact"
    headline = ef == ends[0] and k == HEADLINE_K
    if design in ITERATIVE:
        if predicate:
            return (Cell(design, ef, k, True, _FEW_QUERIES) if headline else None), "iterative_predicate"
        if headline or (design == "shared_strict" and ef == ends[1] and k == HEADLINE_K):
            return Cell(design, ef, k, False), None
        few = design == "shared_strict" and ef == ends[1]
        return (Cell(design, ef, k, False, _FEW_QUERIES) if few else None), "iterative"
    if k > ef:
        return None, "k_above_ef"
    if design == "partial_hnsw":
        if tenants != 1:
            return None, "partial_many"
        return (Cell(design, ef, k, True), None) if predicate else (None, "partial_alone")
    if design == "partition_hnsw":
        if tenants > _MANY_TENANTS and ef not in _MANY_EF:
            return None, "partition_many"
        if not predicate:
            return (Cell(design, ef, k, False, _FEW_QUERIES) if headline else None), "partition_alone"
    return Cell(design, ef, k, predicate), None


CELL_COLUMNS = ("design", "ef_search", "k", "predicate")
ACCESS_SCHEMA = pl.Schema(
    {
        "chunk_set": pl.String,
        "principal": pl.String,
        "tenants": pl.Int64,
        "tenant": pl.String,
        "rows": pl.Int64,
        "total_rows": pl.Int64,
        "share": pl.Float64,
        "design": pl.String,
        "ef_search": pl.Int64,
        "k": pl.Int64,
        "predicate": pl.Boolean,
        "queries": pl.Int64,
        "recall": pl.Float64,
        "recall_low": pl.Float64,
        "recall_high": pl.Float64,
        "interval_method": pl.String,
        "interval_warning": pl.String,
        "rows_mean": pl.Float64,
        "short_queries": pl.Int64,
        "short_share": pl.Float64,
        "empty_queries": pl.Int64,
        "cross_tenant_rows": pl.Int64,
        "expected_survivors": pl.Float64,
        "latency_p50_ms": pl.Float64,
        "latency_p95_ms": pl.Float64,
        "latency_p99_ms": pl.Float64,
        "planning_p50_ms": pl.Float64,
        "buffers_hit": pl.Float64,
        "buffers_read": pl.Float64,
        "plan_node": pl.String,
        "index_name": pl.String,
        "scans": pl.Int64,
        "estimated_rows": pl.Float64,
        "actual_rows": pl.Float64,
        "removed_rows": pl.Float64,
        "planner_choice": pl.String,
        "explained": pl.Int64,
        "role": pl.String,
        "seed": pl.Int64,
        "resamples": pl.Int64,
        "fingerprint_digest": pl.String,
        "shared_build_id": pl.Int64,
        "index_build_id": pl.Int64,
        "builds_digest": pl.String,
    }
)
ACCESS_PER_QUERY_SCHEMA = pl.Schema(
    {
        "chunk_set": pl.String,
        "principal": pl.String,
        "design": pl.String,
        "ef_search": pl.Int64,
        "k": pl.Int64,
        "predicate": pl.Boolean,
        "query_id": pl.String,
        "recall": pl.Float64,
        "rows": pl.Int64,
        "kth_distance": pl.Float64,
        "latency_ms": pl.Float64,
    }
)
TRUTH = "numpy: float64 over the stored vectors that the principal can read; a row as near as the k-th counts"
LATENCY = "client-side, one statement at a time, planning included, after one warm-up; one process, no parallel workers"


@dataclass(frozen=True, slots=True)
class AccessReport:
    """What was measured of one principal, or of several.

    `figures` has a row per principal and cell in `ACCESS_SCHEMA`. `empty_queries` got nothing while exact search had at
    least one row, `short_queries` fewer than k. `expected_survivors` is ef_search x share: how many of the index's
    candidates the policy would let through if rows lay anyhow. `estimated_rows`, `actual_rows` and `removed_rows` are
    of the scans under the plan, `buffers_*` of the whole statement, mean over `explained` queries. `planner_choice` is
    the plan that the planner takes when nothing is forced. `per_query` is in `ACCESS_PER_QUERY_SCHEMA`. `left_out` are
    reasons, `withheld` cells whose plan was not the design's.
    """

    figures: pl.DataFrame
    per_query: pl.DataFrame
    left_out: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()

    @property
    def cross_tenant_rows(self) -> int:
        """Rows of tenants that the principal was not granted, in all runs: anything but 0 is a leak."""
        return int(self.figures["cross_tenant_rows"].sum())


def merge_reports(reports: Sequence[AccessReport]) -> AccessReport:
    """One report of several principals."""
    return AccessReport(
        figures=pl.concat([ACCESS_SCHEMA.to_frame(), *(r.figures for r in reports)]),
        per_query=pl.concat([ACCESS_PER_QUERY_SCHEMA.to_frame(), *(r.per_query for r in reports)]),
        left_out=tuple(reason for reason in LEFT_OUT if any(reason in r.left_out for r in reports)),
        withheld=tuple(w for r in reports for w in r.withheld),
    )
