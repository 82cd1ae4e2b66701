"""Asking one index design as a principal, and knowing which plan answered.

What belongs here: the statement and the settings of each design, and the reading of EXPLAIN. No figure is computed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from zeroth_assets.evaluation.access_model import SHARED_DESIGNS, Cell, Design
from zeroth_assets.store.connect import principal_session
from zeroth_assets.store.registry import ChunkSet

# Before PostgreSQL 18 a plan that had to use what is switched off costs 1e10, for which every query would be compiled.
_ALWAYS = {"jit": "off", "max_parallel_workers_per_gather": "0"}
_INDEX = {"enable_seqscan": "off", "enable_sort": "off", "enable_bitmapscan": "off"}
_SCAN = {"enable_indexscan": "off", "enable_indexonlyscan": "off", "enable_bitmapscan": "off"}
_ITERATIVE_SCAN = {"shared_strict": "strict_order", "shared_relaxed": "relaxed_order"}


@dataclass(frozen=True, slots=True)
class AccessAnswer:
    """Rows that came back for one query, in order, and the seconds from sending it to having them all."""

    tenant_ids: NDArray[np.int64]
    chunk_ids: NDArray[np.int64]
    seconds: float


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """The scans that a plan reads its rows with, taken together; rows are None where the plan was not run.

    `node` is the scans' one type, or several joined by " + "; `indexes` are sorted.
    """

    node: str
    indexes: tuple[str, ...]
    scans: int
    estimated_rows: float
    actual_rows: float | None = None
    removed_rows: float | None = None
    buffers_hit: int | None = None
    buffers_read: int | None = None
    planning_ms: float | None = None

    def __str__(self) -> str:
        using = f" using {self.index}" if self.indexes else ""
        return f"{self.node}{using}" if self.scans == 1 else f"{self.node}{using}, {self.scans} scans"

    @property
    def index(self) -> str | None:
        """The index's name, or how many there are."""
        if len(self.indexes) > 1:
            return f"{len(self.indexes)} indexes"
        return self.indexes[0] if self.indexes else None


class AccessProbe:
    """One transaction as a principal under the settings of one cell. See `open_access_probe`."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        chunk_set: ChunkSet,
        cell: Cell,
        tenant_ids: Sequence[int],
        *,
        forced: bool = True,
    ) -> None:
        self._connection = connection
        self._statement = statement_of(
            cell.design, chunk_set, one=len(tenant_ids) == 1, predicate=cell.predicate, forced=forced
        )
        self._arguments: dict[str, Any] = {"k": cell.k}
        if cell.predicate:
            self._arguments["tenant"] = tenant_ids[0] if len(tenant_ids) == 1 else list(tenant_ids)

    def ask(self, vector: str) -> AccessAnswer:
        """Run the statement, planning included. `vector` as `probe.vector_literal` writes it."""
        # Never prepared: a statement kept by the driver or the server would run under a plan made before our settings.
        arguments = {**self._arguments, "vector": vector}
        began = time.perf_counter()
        rows = self._connection.execute(self._statement, arguments, prepare=False).fetchall()
        seconds = time.perf_counter() - began
        found = np.array(rows, dtype=np.int64).reshape(-1, 2)
        return AccessAnswer(found[:, 0], found[:, 1], seconds)

    def explain(self, vector: str, *, run: bool) -> ScanPlan:
        """The plan for the same arguments, run or not."""
        options = "analyze, buffers, timing off, format json" if run else "format json"
        row = self._connection.execute(
            sql.SQL("explain (" + options + ") ") + self._statement,
            {**self._arguments, "vector": vector},
            prepare=False,
        ).fetchone()
        assert row is not None  # EXPLAIN always answers
        return read_plan(row[0][0])


@contextlib.contextmanager
def open_access_probe(
    connection: psycopg.Connection[Any],
    *,
    chunk_set: ChunkSet,
    cell: Cell,
    principal: str,
    tenant_ids: Sequence[int],
    forced: bool = True,
) -> Iterator[AccessProbe]:
    """A probe on an idle connection as `zeroth_app`; principal and settings end with the block.

    With `forced` the planner has nothing but the design's own path; without, it chooses.

    Raises:
        QueryError: the principal is not usable, or a transaction is open.
    """
    with principal_session(connection, principal):
        chosen = settings_of(cell, forced=forced)
        calls = sql.SQL(", ").join(
            sql.SQL("set_config({}, {}, true)").format(sql.Literal(n), sql.Literal(v)) for n, v in chosen.items()
        )
        connection.execute(sql.SQL("select ") + calls)
        yield AccessProbe(connection, chunk_set, cell, tenant_ids, forced=forced)


def settings_of(cell: Cell, *, forced: bool = True) -> Mapping[str, str]:
    """The settings under which the cell is asked."""
    paths: dict[str, str] = {}
    if forced:
        paths = _SCAN if cell.design == "partition_exact" else _INDEX
    index = {}
    if cell.ef_search is not None:
        index = {
            "hnsw.ef_search": str(cell.ef_search),
            "hnsw.iterative_scan": _ITERATIVE_SCAN.get(cell.design, "off"),
        }
    return MappingProxyType({**_ALWAYS, **paths, **index})


def statement_of(
    design: Design, chunk_set: ChunkSet, *, one: bool, predicate: bool, forced: bool = True
) -> sql.Composed:
    """The query of a design: named arguments vector, k, and tenant where there is a predicate.

    Forced to be exact, it sorts by an expression that no index gives. Settings do not do: PostgreSQL 18 forgets that a
    path is switched off when a single partition is left of an Append, and takes its HNSW in spite of enable_indexscan.
    """
    condition = sql.SQL("")
    if predicate:
        condition = sql.SQL("where tenant_id = %(tenant)s::int" if one else "where tenant_id = any (%(tenant)s::int[])")
    statement = (
        # Rows of a relaxed scan come nearly in order: sorted once more, by an expression that no index gives.
        "select tenant_id, chunk_id from (select tenant_id, chunk_id, embedding <=> %(vector)s::vector as distance"
        " from {table} {condition} order by distance limit %(k)s) nearest order by distance + 0"
        if design == "shared_relaxed"
        else "select tenant_id, chunk_id from {table} {condition}"
        " order by (embedding <=> %(vector)s::vector) + 0 limit %(k)s"
        if design == "partition_exact" and forced
        else "select tenant_id, chunk_id from {table} {condition} order by embedding <=> %(vector)s::vector limit %(k)s"
    )
    table = chunk_set.shared if design in SHARED_DESIGNS else chunk_set.table
    return sql.SQL(statement).format(table=table, condition=condition)


def read_plan(explained: Mapping[str, Any]) -> ScanPlan:
    """EXPLAIN's JSON, by its scans; what a policy's sub-select reads is none of them."""
    scans = list(_scans(explained["Plan"]))
    ran = "Actual Rows" in explained["Plan"]

    def total(name: str) -> float:
        return float(sum(scan.get(name, 0) * (scan.get("Actual Loops", 1) if ran else 1) for scan in scans))

    return ScanPlan(
        node=" + ".join(sorted({scan["Node Type"] for scan in scans})) or "no scan",
        indexes=tuple(sorted({scan["Index Name"] for scan in scans if "Index Name" in scan})),
        scans=len(scans),
        estimated_rows=float(sum(scan["Plan Rows"] for scan in scans)),
        actual_rows=total("Actual Rows") if ran else None,
        removed_rows=total("Rows Removed by Filter") if ran else None,
        buffers_hit=explained["Plan"].get("Shared Hit Blocks") if ran else None,
        buffers_read=explained["Plan"].get("Shared Read Blocks") if ran else None,
        planning_ms=explained.get("Planning Time"),
    )


def _scans(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if node.get("Parent Relationship") in ("InitPlan", "SubPlan"):
        return
    if "Scan" in node["Node Type"] and node["Node Type"] != "Subquery Scan":
        yield node  # a bitmap index scan is a child of the heap scan that reads the rows
        return
    for child in node.get("Plans", ()):
        yield from _scans(child)
