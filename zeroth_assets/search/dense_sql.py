"""The statements that ask for nearest chunks, each worded and set so that the planner has one path.

What belongs here: SQL of the dense arm, run inside a principal's transaction. No choice between paths, no fallback.

Nothing here is ever prepared: a plan kept by the driver or the server would have been made under other settings and for
other tenants, which has turned an "exact" search into an approximate one.

- Exact: the order is by `distance + 0`, which no vector index serves, whatever the settings are.
- HNSW: sorting and sequential scans are off, so rows in order of distance can come from the index alone. Where the
  index is gone, the scan that PostgreSQL falls back to is exact, and `scan_nodes` says so.
- An iterative scan goes on behind dead rows and behind rows that the policy hides, up to `max_scan_tuples`. It gives
  its later batches in relaxed order: every statement sorts what came back once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from zeroth_assets.store.registry import ChunkSet

Named = TypeVar("Named")
MAX_EF_SEARCH = 1_000  # pgvector's own limit
BY_DISTANCE = "Index Scan by distance"
# Planning grows with the square of the partitions that one statement names, once they are analysed: in groups of 50 a
# search over 300 partitions takes 55 ms where it took 85.
MOST_NAMED = 50
# What an `IndexScan` switched off, on again, for an exact scan in the same transaction.
SCAN_SETTINGS: Mapping[str, str] = {"enable_seqscan": "on", "enable_sort": "on", "enable_bitmapscan": "on"}


class Hit(NamedTuple):
    """One row that came back; `distance` is the cosine distance, as pgvector computes it."""

    distance: float
    chunk_id: int
    tenant_id: int


@dataclass(frozen=True, slots=True)
class VisibleTenant:
    """A tenant that the session's principal may read, and its live build in one chunk set.

    `rows` is what the build recorded when it was loaded: good for choosing a path, not for counting.
    """

    tenant_id: int
    rows: int
    fingerprint_digest: str
    index_build_id: int
    indexed: bool


@dataclass(frozen=True, slots=True)
class IndexScan:
    """How an HNSW index is walked: `ef_search` candidates at a time, `max_scan_tuples` rows at most."""

    ef_search: int
    max_scan_tuples: int
    # Multiple of work_mem; at 1 a long iterative scan ends for want of memory before it reaches its bound.
    memory: int = 8
    iterative: bool = True

    @property
    def settings(self) -> Mapping[str, str]:
        """For `set_config`, local to the transaction."""
        return {
            "hnsw.ef_search": str(self.ef_search),
            "hnsw.iterative_scan": "relaxed_order" if self.iterative else "off",
            "hnsw.max_scan_tuples": str(self.max_scan_tuples),
            "hnsw.scan_mem_multiplier": str(self.memory),
            "enable_seqscan": "off",
            "enable_sort": "off",
            "enable_bitmapscan": "off",
            "jit": "off",
        }


class BinaryVector(bytes):
    """A vector in pgvector's binary form, for a parameter that is cast to `vector`: no number is parsed as text."""

    @classmethod
    def of(cls, vector: NDArray[np.float32]) -> BinaryVector:
        """As pgvector sends and receives it: dimension, two bytes unused, float4 each, big-endian."""
        return cls(len(vector).to_bytes(2, "big") + b"\0\0" + vector.astype(">f4").tobytes())


class _Dumper(psycopg.adapt.Dumper):
    format = psycopg.pq.Format.BINARY
    oid = 0  # unknown: the cast in the statement decides the type

    def dump(self, obj: Any) -> bytes:
        return bytes(obj)


def adapt(connection: psycopg.Connection[Any]) -> None:
    """Let the connection bind `BinaryVector`, and never prepare a statement."""
    connection.adapters.register_dumper(BinaryVector, _Dumper)
    connection.prepare_threshold = None


def visible_tenants(connection: psycopg.Connection[Any], chunk_set: ChunkSet) -> tuple[VisibleTenant, ...]:
    """Tenants that the session's principal may read and that have rows in `chunk_set`, asked now, under the policy."""
    rows = connection.execute(
        "select tenant_id, row_count, fingerprint_digest, index_build_id, index_kind = 'hnsw'"
        " from zeroth.index_build where chunk_set_id = %s and status = 'live' order by tenant_id",
        (chunk_set.chunk_set_id,),
    ).fetchall()
    return tuple(VisibleTenant(*row) for row in rows)


def may_read_any_tenant(connection: psycopg.Connection[Any]) -> bool:
    """Whether the session's principal is granted any tenant at all."""
    row = connection.execute("select exists (select from zeroth.tenant)").fetchone()
    return row is not None and bool(row[0])


def shared_stands(connection: psycopg.Connection[Any], chunk_set: ChunkSet, tenants: Sequence[VisibleTenant]) -> bool:
    """Whether the shared table has the live builds of all these tenants, under a valid HNSW over all of its rows.

    Compared here: joined under two policies, 300 tenants were looked up 300 times each.
    """
    row = connection.execute(
        "select exists (select from pg_catalog.pg_index x join pg_catalog.pg_class i on i.oid = x.indexrelid"
        " join pg_catalog.pg_am a on a.oid = i.relam where x.indrelid = to_regclass(%s) and a.amname = 'hnsw'"
        " and x.indpred is null and x.indisvalid and x.indisready)",
        (f"zeroth.shared_{chunk_set.chunk_set_id}",),
    ).fetchone()
    if row is None or not row[0]:
        return False
    parts = connection.execute(
        "select tenant_id, index_build_id from zeroth.shared_part where chunk_set_id = %s", (chunk_set.chunk_set_id,)
    ).fetchall()
    return {(t.tenant_id, t.index_build_id) for t in tenants} <= set(parts)


def apply_settings(connection: psycopg.Connection[Any], settings: Mapping[str, str]) -> None:
    """Set every value until the transaction ends, in one statement."""
    if settings:
        calls = sql.SQL(", ").join(sql.SQL("set_config(%s, %s, true)") for _ in settings)
        connection.execute(sql.SQL("select {}").format(calls), [text for pair in settings.items() for text in pair])


@dataclass(frozen=True, slots=True)
class Statement:
    """A query with its arguments, which can be run or explained."""

    query: sql.Composed
    arguments: tuple[Any, ...]

    def run(self, connection: psycopg.Connection[Any]) -> list[Hit]:
        """Rows by distance, equal distances by chunk id."""
        return sorted(map(Hit._make, connection.execute(self.query, self.arguments).fetchall()))

    def explain(self, connection: psycopg.Connection[Any], options: str = "format json") -> Mapping[str, Any]:
        """EXPLAIN's JSON for these very arguments. With `analyze` among the options the query runs."""
        row = connection.execute(
            sql.SQL("explain ({}) ").format(sql.SQL(options)) + self.query,
            self.arguments,
        ).fetchone()
        assert row is not None  # EXPLAIN always answers
        answer: Mapping[str, Any] = row[0][0]
        return answer


def exact_statement(
    table: sql.Identifier, tenant_ids: Sequence[int] | None, vector: NDArray[np.float32], k: int
) -> Statement:
    """The k nearest of these tenants by a scan of all their rows; None leaves which rows to the policy alone."""
    where, arguments = _where(tenant_ids)
    query = sql.SQL(
        "select (embedding <=> %s::vector) + 0 as distance, chunk_id, tenant_id from {}{}"
        " order by distance, chunk_id limit %s"
    ).format(table, where)
    return Statement(query, (BinaryVector.of(vector), *arguments, k))


def index_statement(
    table: sql.Identifier, tenant_ids: Sequence[int] | None, vector: NDArray[np.float32], k: int
) -> Statement:
    """The k nearest by the HNSW indexes of a table or of its partitions, under the settings of an `IndexScan`."""
    where, arguments = _where(tenant_ids)
    query = sql.SQL(
        "select embedding <=> %s::vector as distance, chunk_id, tenant_id from {}{} order by distance limit %s"
    ).format(table, where)
    return Statement(query, (BinaryVector.of(vector), *arguments, k))


def in_groups(tenants: Sequence[Named]) -> Iterator[Sequence[Named]]:
    """Tenants whose partitions are named in one statement; the nearest of all are among the nearest of each."""
    for start in range(0, len(tenants), MOST_NAMED):
        yield tenants[start : start + MOST_NAMED]


def scan_nodes(plan: Mapping[str, Any]) -> dict[str, int]:
    """Which nodes read the chunk table, and how many of each; what a policy's sub-select reads does not count."""
    return dict(sorted(Counter(map(_label, _scans(plan["Plan"]))).items()))


def nodes_text(nodes: Mapping[str, int]) -> str:
    """`Index Scan x 3, Seq Scan`."""
    return ", ".join(name if count == 1 else f"{name} x {count}" for name, count in nodes.items()) or "no scan"


def _label(node: Mapping[str, Any]) -> str:
    # Only an index that gives rows in order of distance has this; the primary key's does not.
    return BY_DISTANCE if "Order By" in node else str(node["Node Type"])


def _where(tenant_ids: Sequence[int] | None) -> tuple[sql.Composable, tuple[Any, ...]]:
    if tenant_ids is None:
        return sql.SQL(""), ()
    if len(tenant_ids) == 1:
        return sql.SQL(" where tenant_id = %s::int"), (tenant_ids[0],)
    return sql.SQL(" where tenant_id = any (%s::int[])"), (list(tenant_ids),)


def _scans(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if node.get("Parent Relationship") in ("InitPlan", "SubPlan"):
        return
    # A bitmap index scan is a child of the heap scan that reads the rows.
    if "Scan" in node["Node Type"] and node["Node Type"] != "Subquery Scan":
        yield node
        return
    children: Sequence[Mapping[str, Any]] = node.get("Plans", ())
    for child in children:
        yield from _scans(child)
