"""What the shared table of a chunk set stands on, and whether that is still what the tenants have.

What belongs here: reading its records, comparing them with the tenants' live builds, and counting and hashing the rows
themselves. Loading is in `shared`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from zeroth_assets.store.connect import Database
from zeroth_assets.store.failures import database_errors
from zeroth_assets.store.registry import ChunkSet, chunk_sets, find_chunk_set


@dataclass(frozen=True, slots=True)
class Part:
    """A tenant's live build: what it has, or should have, in the shared table."""

    tenant_id: int
    tenant_key: str
    index_build_id: int
    row_count: int
    rows_digest: str
    fingerprint_digest: str


@dataclass(frozen=True, slots=True)
class SharedBuild:
    """The record of the shared table's rows and index."""

    shared_build_id: int
    fingerprint_digest: str | None
    row_count: int
    parts_digest: str
    m: int
    ef_construction: int
    index_name: str | None
    rows_since_index: int


@dataclass(frozen=True, slots=True)
class SharedState:
    """The shared table beside the tenants' live builds.

    `parts` are the live builds, by tenant id. `stale` names tenants whose copy is of another build or absent,
    `left_over` ids of those that have a copy and no live build. `standing` is whether the index is there and valid.
    """

    chunk_set: ChunkSet
    build: SharedBuild | None
    parts: tuple[Part, ...]
    stale: tuple[str, ...]
    left_over: tuple[int, ...]
    standing: bool

    @property
    def differences(self) -> tuple[str, ...]:
        """Why the shared table is not the tenants' live builds under one index; empty if it is."""
        if self.build is None:
            return ("never loaded",)
        found = []
        if self.stale:
            shown = ", ".join(self.stale[:5]) + (", ..." if len(self.stale) > 5 else "")
            found.append(f"{len(self.stale)} tenants have another build now: {shown}")
        if self.left_over:
            found.append(f"{len(self.left_over)} tenants have rows there and no live build")
        if not self.stale and not self.left_over and self.build.parts_digest != parts_digest(self.parts):
            found.append("a tenant was retired since it was recorded")
        if not self.standing:
            found.append("its index is gone or invalid")
        return tuple(found)

    @property
    def current(self) -> bool:
        """Whether it holds the tenants' live builds, by its records, under a valid index."""
        return not self.differences


def shared_sets(connection: psycopg.Connection[Any]) -> tuple[ChunkSet, ...]:
    """The chunk sets that have a shared table. For any of the roles."""
    there = connection.execute(
        "select chunk_set_id from zeroth.chunk_set"
        " where to_regclass(format('zeroth.shared_%s', chunk_set_id)) is not null"
    ).fetchall()
    known = {row[0] for row in there}
    return tuple(c for c in chunk_sets(connection) if c.chunk_set_id in known)


def shared_state(db: Database, chunk_set: str, dimension: int | None = None) -> SharedState:
    """The shared table's records against the live builds, as `zeroth_loader`; no row of it is read.

    Raises:
        DatabaseError: no such chunk set, not migrated, or the database failed.
    """
    with database_errors(f"reading the shared index of {chunk_set}"), db.loader() as connection:
        return read_state(connection, find_chunk_set(connection, chunk_set, dimension))


def read_state(connection: psycopg.Connection[Any], target: ChunkSet) -> SharedState:
    """`shared_state` on a connection of `zeroth_loader`, in its transaction."""
    with connection.cursor(row_factory=class_row(SharedBuild)) as builds:
        build = builds.execute(
            "select shared_build_id, fingerprint_digest, row_count, parts_digest, m, ef_construction, index_name,"
            " rows_since_index from zeroth.shared_build where chunk_set_id = %s and status = 'live'",
            (target.chunk_set_id,),
        ).fetchone()
    with connection.cursor(row_factory=class_row(Part)) as cursor:
        parts = cursor.execute(
            "select tenant_id, tenant_key, index_build_id, row_count, rows_digest, fingerprint_digest"
            " from zeroth.index_build join zeroth.tenant using (tenant_id)"
            " where chunk_set_id = %s and status = 'live' order by tenant_id",
            (target.chunk_set_id,),
        ).fetchall()
    copies = dict(
        connection.execute(
            "select tenant_id, index_build_id from zeroth.shared_part where chunk_set_id = %s", (target.chunk_set_id,)
        ).fetchall()
    )
    standing = (
        build is not None
        and connection.execute(
            "select from pg_catalog.pg_index x where x.indexrelid = to_regclass(%s) and x.indisvalid and x.indisready"
            " and x.indrelid = to_regclass(%s)",
            (f"zeroth.{build.index_name}", f"zeroth.shared_{target.chunk_set_id}"),
        ).fetchone()
        is not None
    )
    return SharedState(
        chunk_set=target,
        build=build,
        parts=tuple(parts),
        stale=tuple(p.tenant_key for p in parts if copies.get(p.tenant_id) != p.index_build_id),
        left_over=tuple(sorted(set(copies) - {p.tenant_id for p in parts})),
        standing=standing,
    )


def holds_all_that_is_permitted(connection: psycopg.Connection[Any], target: ChunkSet) -> bool:
    """Whether the shared table has the live build of every tenant that the session's principal may read.

    For `zeroth_app` inside a `principal_session`; False too where there is no shared table or nothing is permitted.
    Whether its index stands is told by the plan.
    """
    row = connection.execute(
        "select to_regclass(%s) is not null, coalesce(bool_and(p.tenant_id is not null), false)"
        " from zeroth.index_build b left join zeroth.shared_part p using (chunk_set_id, tenant_id, index_build_id)"
        " where b.chunk_set_id = %s and b.status = 'live'",
        (f"zeroth.shared_{target.chunk_set_id}", target.chunk_set_id),
    ).fetchone()
    return row is not None and bool(row[0] and row[1])


def verify_shared(db: Database, chunk_set: str, dimension: int | None = None) -> tuple[str, ...]:
    """Count and hash the rows themselves, tenant by tenant; what differs from the tenants' own rows, empty if nothing.

    A row is its chunk id and the build that wrote it: a build's row never changes, so that equal pairs are equal rows.

    Raises:
        DatabaseError: as `shared_state`.
    """
    with database_errors(f"verifying the shared index of {chunk_set}"), db.loader() as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        state = read_state(connection, find_chunk_set(connection, chunk_set, dimension))
        if state.build is None:
            return state.differences
        found = list(state.differences)
        for part in state.parts:
            connection.execute("select set_config('zeroth.loading_tenant', %s, true)", (str(part.tenant_id),))
            own, copy = (
                hash_rows(connection, table, part.tenant_id)
                for table in (state.chunk_set.table, state.chunk_set.shared)
            )
            if own != copy:
                found.append(
                    f"tenant {part.tenant_key} has {own[0]} rows of its own and {copy[0]} copies, or other ones"
                )
    return tuple(found)


def hash_rows(connection: psycopg.Connection[Any], table: sql.Identifier, tenant_id: int) -> tuple[int, str]:
    """Rows of a tenant in a table, counted, and hashed by chunk id and build. The loading tenant must be set."""
    row = connection.execute(
        sql.SQL(
            "select count(*), encode(sha256(coalesce(string_agg(int8send(chunk_id) || int4send(index_build_id),"
            " ''::bytea order by chunk_id), ''::bytea)), 'hex') from {} where tenant_id = {}"
        ).format(table, sql.Literal(tenant_id))
    ).fetchone()
    assert row is not None  # an aggregate without grouping has one row
    return int(row[0]), str(row[1])


def parts_digest(parts: Sequence[Part]) -> str:
    """Which builds, and with which rows: sha256 over a line per tenant, by ascending id."""
    lines = [f"{p.tenant_id} {p.index_build_id} {p.row_count} {p.rows_digest}\n" for p in parts]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
