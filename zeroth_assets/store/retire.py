"""Retiring a tenant, in two steps that no reader can mistake for "no evidence".

What belongs here: the transaction that removes a tenant's rows, grants, builds and registration (DELETE: a snapshot
taken before it goes on seeing all of them), and the sweep that drops the emptied partitions.

A dropped partition is gone for old snapshots too, so the sweep first waits until none is left that could see the rows:
a concurrent index build ends with exactly that wait. It then detaches concurrently, since plain DETACH would make the
readers of every tenant queue. What the sweep cannot finish in its time, the next sweep does.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from zeroth_assets.errors import TenantError
from zeroth_assets.store.connect import Database
from zeroth_assets.store.failures import database_errors
from zeroth_assets.store.locks import locked
from zeroth_assets.store.registry import ChunkSet, check_tenant_key, chunk_sets
from zeroth_assets.store.shared_state import shared_sets

_POSTPONED = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.QueryCanceled,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.ObjectNotInPrerequisiteState,  # a table has one detachment at a time, another's is under way
)


@dataclass(frozen=True, slots=True)
class RetireReport:
    """Rows deleted, partitions dropped, and empty partitions (of this or an earlier retirement) still to be swept."""

    tenant_id: int
    rows: int
    dropped: int
    pending: int
    delete_seconds: float


@dataclass(frozen=True, slots=True)
class SweepReport:
    """Partitions dropped, and those that open transactions still hold."""

    dropped: int
    pending: int


def retire_tenant(
    db: Database, tenant_key: str, *, lock_wait_seconds: float = 600.0, sweep_wait_seconds: float = 10.0
) -> RetireReport:
    """Remove a tenant: rows of every chunk set, its copies in shared tables among them, grants, builds, registration.

    Its partitions go once they can.

    From the commit of the first step, no new statement sees anything of the tenant. A load of the same key afterwards
    registers a new tenant.

    Raises:
        TenantError: there is no such tenant.
        DatabaseError: a load of it holds its lock for longer than `lock_wait_seconds`, or the database failed; then
            the tenant is as it was.
    """
    check_tenant_key(tenant_key)
    with (
        database_errors(f"retiring tenant {tenant_key}"),
        db.loader() as connection,
        locked(connection, alone=(f"zeroth.tenant:{tenant_key}",), wait_seconds=lock_wait_seconds),
    ):
        row = connection.execute("select tenant_id from zeroth.tenant where tenant_key = %s", (tenant_key,)).fetchone()
        if row is None:
            raise TenantError(
                f"There is no tenant {tenant_key!r} in the database",
                expected="a registered tenant",
                found="none of that key",
                remedy="see the registered ones with `zeroth db status`",
            )
        tenant_id = int(row[0])
        began = time.perf_counter()
        connection.execute("select set_config('zeroth.loading_tenant', %s, true)", (str(tenant_id),))
        rows = sum(
            connection.execute(
                sql.SQL("delete from {} where tenant_id = {}").format(chunk_set.table, sql.Literal(tenant_id))
            ).rowcount
            for chunk_set in chunk_sets(connection)
        )
        for chunk_set in shared_sets(connection):
            connection.execute(
                sql.SQL("delete from {} where tenant_id = {}").format(chunk_set.shared, sql.Literal(tenant_id))
            )
        connection.execute("select zeroth.unregister_tenant(%s)", (tenant_id,))
        connection.commit()
        seconds = time.perf_counter() - began
    swept = sweep_retired(db, wait_seconds=sweep_wait_seconds)
    return RetireReport(tenant_id, rows, swept.dropped, swept.pending, seconds)


def sweep_retired(db: Database, *, wait_seconds: float = 10.0) -> SweepReport:
    """Drop the partitions of retired tenants, as `zeroth_owner`; wait for old transactions at most `wait_seconds` each.

    Raises:
        DatabaseError: the database failed.
    """
    dropped, pending = 0, 0
    with database_errors("dropping the partitions of retired tenants"), db.owner(autocommit=True) as connection:
        if not _has_lock(connection):
            return SweepReport(0, len(_retired(connection)))  # another sweep is at it
        limit = f"{max(1, int(wait_seconds * 1000))}ms"
        connection.execute("select set_config('statement_timeout', %s, false)", (limit,))
        known = {chunk_set.chunk_set_id: chunk_set for chunk_set in chunk_sets(connection)}
        for chunk_set_id, tenant_id in _retired(connection):
            try:
                _drop(connection, known[chunk_set_id], tenant_id)
            except _POSTPONED:
                pending += 1
            else:
                dropped += 1
    return SweepReport(dropped, pending)


def _drop(connection: psycopg.Connection[Any], chunk_set: ChunkSet, tenant_id: int) -> None:
    """Drop one emptied partition, from whatever point an earlier attempt reached."""
    parent, child = chunk_set.table, chunk_set.partition(tenant_id)
    barrier = f"chunk_{chunk_set.chunk_set_id}_t{tenant_id}_barrier"
    state = connection.execute(
        "select inhdetachpending from pg_inherits where inhrelid = to_regclass(%s)", (child.as_string(connection),)
    ).fetchone()
    if state == (False,):
        connection.execute(sql.SQL("drop index if exists {}").format(sql.Identifier("zeroth", barrier)))
        connection.execute(
            sql.SQL("create index concurrently {} on {} (chunk_id)").format(sql.Identifier(barrier), child)
        )
        connection.execute(sql.SQL("alter table {} detach partition {} concurrently").format(parent, child))
    elif state == (True,):
        connection.execute(sql.SQL("alter table {} detach partition {} finalize").format(parent, child))
    with connection.transaction():
        connection.execute(sql.SQL("drop table if exists {}").format(child))
        connection.execute(
            "delete from zeroth.retired_partition where chunk_set_id = %s and tenant_id = %s",
            (chunk_set.chunk_set_id, tenant_id),
        )


def _has_lock(connection: psycopg.Connection[Any]) -> bool:
    row = connection.execute("select pg_try_advisory_lock(hashtextextended('zeroth.sweep', 0))").fetchone()
    return bool(row and row[0])


def _retired(connection: psycopg.Connection[Any]) -> list[tuple[int, int]]:
    """Chunk set and tenant, those whose detachment is under way first: it bars that of every other."""
    return connection.execute(
        "select r.chunk_set_id, r.tenant_id from zeroth.retired_partition r left join pg_inherits i"
        " on i.inhrelid = to_regclass(format('zeroth.chunk_%s_t%s', r.chunk_set_id, r.tenant_id))"
        " order by coalesce(i.inhdetachpending, false) desc, r.retired_at"
    ).fetchall()
