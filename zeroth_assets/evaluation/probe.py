"""Asking one tenant's HNSW index, and knowing that it was asked.

What belongs here: the statement, the settings under which the planner has nothing but the index, and the reading of its
plan. No figure is computed here.
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

from zeroth_assets.errors import MeasurementError
from zeroth_assets.store.connect import principal_session
from zeroth_assets.store.registry import ChunkSet

# Without sort and sequential scan, the one path to rows in order of distance is the index. Iterative scans would go on
# beyond ef_search, which is what is measured.
HNSW_FORCED: Mapping[str, str] = MappingProxyType(
    {"enable_seqscan": "off", "enable_sort": "off", "enable_bitmapscan": "off", "hnsw.iterative_scan": "off"}
)


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows that came back for one query, nearest first, and the seconds from sending it to having them all."""

    chunk_ids: NDArray[np.int64]
    seconds: float


@dataclass(frozen=True, slots=True)
class PlanNode:
    """The scan that a plan reads its rows with; `index` is None for a scan of the table."""

    node: str
    index: str | None

    def __str__(self) -> str:
        return self.node if self.index is None else f"{self.node} using {self.index}"


class IndexProbe:
    """One transaction in which a tenant's nearest chunks are asked for as a principal. See `open_probe`.

    The tenant is named in the statement too, so that the other partitions are pruned when it is planned.
    """

    def __init__(self, connection: psycopg.Connection[Any], chunk_set: ChunkSet, tenant_id: int) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._statement = sql.SQL(
            "select chunk_id from {} where tenant_id = %s::int order by embedding <=> %s::vector limit %s"
        ).format(chunk_set.table)
        self._explain = sql.SQL("explain (format json) ") + self._statement

    def set_ef_search(self, ef_search: int) -> None:
        """Until the transaction ends or the next call."""
        self._connection.execute("select set_config('hnsw.ef_search', %s, true)", (str(ef_search),))

    def ask(self, vector: str, k: int) -> Answer:
        """Run the statement, planning included. `vector` as `vector_literal` writes it."""
        # Never prepared: a statement kept by the driver or the server would run under a plan made before our settings.
        began = time.perf_counter()
        rows = self._connection.execute(self._statement, (self._tenant_id, vector, k), prepare=False).fetchall()
        seconds = time.perf_counter() - began
        return Answer(np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows)), seconds)

    def plan(self, vector: str, k: int) -> PlanNode:
        """The scan node of the plan that `ask` gets for the same arguments."""
        row = self._connection.execute(self._explain, (self._tenant_id, vector, k), prepare=False).fetchone()
        assert row is not None  # EXPLAIN always answers
        return scan_node(row[0][0]["Plan"])


@contextlib.contextmanager
def open_probe(
    connection: psycopg.Connection[Any],
    *,
    chunk_set: ChunkSet,
    tenant_id: int,
    principal: str,
    settings: Mapping[str, str] = HNSW_FORCED,
) -> Iterator[IndexProbe]:
    """A probe on an idle connection as `zeroth_app`; principal and settings end with the block.

    Raises:
        QueryError: the principal is not usable, or a transaction is open.
    """
    with principal_session(connection, principal):
        for name, value in settings.items():
            connection.execute("select set_config(%s, %s, true)", (name, value))
        yield IndexProbe(connection, chunk_set, tenant_id)


def vector_literal(vector: NDArray[np.float32]) -> str:
    """The vector as pgvector reads it, without loss."""
    return "[" + ",".join(f"{x:.9g}" for x in vector.tolist()) + "]"


def scan_node(plan: Mapping[str, Any]) -> PlanNode:
    """The node of a plan (EXPLAIN's JSON) that reads the chunk table; what a policy's sub-select reads is not it.

    Raises:
        MeasurementError: none, or several (more than one partition).
    """
    found = [PlanNode(node["Node Type"], node.get("Index Name")) for node in _scans(plan)]
    if len(found) != 1:
        raise MeasurementError(
            "The plan does not read one partition",
            expected="one scan",
            found=", ".join(map(str, found)) or "none",
            remedy="measure one tenant that has rows",
        )
    return found[0]


def _scans(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if node.get("Parent Relationship") in ("InitPlan", "SubPlan"):
        return
    children: Sequence[Mapping[str, Any]] = node.get("Plans", ())
    # A bitmap index scan is a child of the heap scan that reads the rows.
    if "Scan" in node["Node Type"] and node["Node Type"] != "Subquery Scan":
        yield node
        return
    for child in children:
        yield from _scans(child)
