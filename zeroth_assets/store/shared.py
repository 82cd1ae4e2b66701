"""The one-index-for-all baseline: every tenant's rows in one table under one HNSW, with the policy after it.

What belongs here: `load_shared`, which makes the shared table equal to the tenants' live builds. The table is kept to
be measured against, and for principals that see nearly everything.

Rows change in ONE transaction over a single snapshot of the tenants' partitions: only those of tenants whose build
changed, and of these only what differs. A reader at any isolation level has the former rows or the new ones, a load
that is killed leaves nothing, and the same call completes the work. Where much of the index was put in row by row, it
is built anew afterwards, beside the old one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

import psycopg
from psycopg import sql

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store.connect import Database
from zeroth_assets.store.failures import database_errors
from zeroth_assets.store.loading import Progress, Stage
from zeroth_assets.store.locks import locked
from zeroth_assets.store.registry import ChunkSet, IndexParameters, find_chunk_set
from zeroth_assets.store.rows import ROW_COLUMNS
from zeroth_assets.store.shared_build import Work, build_index, drop_superseded, rebuild_if_worn
from zeroth_assets.store.shared_state import Part, SharedState, hash_rows, parts_digest, read_state
from zeroth_assets.store.vacuum import vacuum_table


@dataclass(frozen=True, slots=True)
class SharedReport:
    """What a load of the shared table did. `tenants` were looked at, `replaced` of them had another build.

    `dead_rows` are those that an open transaction kept from VACUUM; a measurement refuses to run over them.
    """

    kind: Literal["first", "changed", "unchanged"]
    shared_build_id: int
    chunk_set_id: int
    tenants: int
    replaced: int
    rows: int
    added: int
    deleted: int
    rows_seconds: float
    index_seconds: float
    index_bytes: int
    index_rebuilt: bool
    fingerprint_digest: str | None
    parts_digest: str
    dead_rows: int


@dataclass(frozen=True, slots=True)
class _Change:
    """The committed outcome of the transaction over the rows."""

    state: SharedState
    replaced: int
    added: int
    deleted: int
    rows_seconds: float
    index_seconds: float


def load_shared(
    db: Database,
    chunk_set: str,
    *,
    dimension: int | None = None,
    parameters: IndexParameters | None = None,
    progress: Progress | None = None,
    on_stage: Stage | None = None,
    build_memory_mb: int = 1024,
    build_workers: int = 1,
    lock_wait_seconds: float = 600.0,
) -> SharedReport:
    """Make the shared table of `chunk_set` exactly the rows of the tenants' live builds, as `zeroth_loader`.

    `progress` counts tenants whose rows are looked at; `on_stage` is told "rows", "index", "commit", "vacuum",
    "rebuild" and "drop" as they begin.

    Raises:
        DatabaseError: no such chunk set, not migrated, tenants embedded under different fingerprints (the distances of
            such rows cannot be compared), a lock not had in time, or the database failed; the former rows are then in
            force, and the same call completes the work.
    """
    parameters = parameters or IndexParameters()
    if parameters.kind != "hnsw":
        raise DatabaseError("The shared table is kept for its index", expected="kind hnsw", found=parameters.kind)
    work = Work(parameters, build_memory_mb, build_workers, progress, on_stage)
    with database_errors(f"loading the shared index of {chunk_set}"), db.loader() as connection:
        target = find_chunk_set(connection, chunk_set, dimension)
        tenants = dict(connection.execute("select tenant_id, tenant_key from zeroth.tenant").fetchall())
        with locked(
            connection,
            # In one order for everybody. Retiring a tenant waits for us; loading one does not.
            shared=tuple(f"zeroth.tenant:{key}" for key in sorted(tenants.values())),
            alone=(f"zeroth.shared:{target.chunk_set_id}",),
            wait_seconds=lock_wait_seconds,
        ):
            connection.execute("select zeroth.ensure_shared(%s)", (target.chunk_set_id,))
            connection.commit()
            change = _change_rows(connection, target, frozenset(tenants), work)
            dead = 0
            if change is not None:
                work.stage("vacuum")
                dead = vacuum_table(db, target.shared)
            rebuilt = rebuild_if_worn(connection, target, work)
            work.stage("drop")
            drop_superseded(connection, target)
            state = read_state(connection, target)
            assert state.build is not None  # the transaction recorded it
            size = connection.execute(
                "select pg_relation_size(to_regclass(%s))", (f"zeroth.{state.build.index_name}",)
            ).fetchone()
            connection.rollback()
    first = change is not None and change.state.build is None
    return SharedReport(
        kind="unchanged" if change is None and not rebuilt else "first" if first else "changed",
        shared_build_id=state.build.shared_build_id,
        chunk_set_id=target.chunk_set_id,
        tenants=len(state.parts),
        replaced=change.replaced if change else 0,
        rows=state.build.row_count,
        added=change.added if change else 0,
        deleted=change.deleted if change else 0,
        rows_seconds=change.rows_seconds if change else 0.0,
        index_seconds=(change.index_seconds if change else 0.0) + rebuilt,
        index_bytes=int(size[0] or 0) if size else 0,
        index_rebuilt=rebuilt > 0,
        fingerprint_digest=state.build.fingerprint_digest,
        parts_digest=state.build.parts_digest,
        dead_rows=dead,
    )


def _change_rows(
    connection: psycopg.Connection[Any], target: ChunkSet, tenants: frozenset[int], work: Work
) -> _Change | None:
    """One transaction over one snapshot: rows, records, and the index if there is none. None if all is current."""
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    try:
        state = read_state(connection, target)
        parts = tuple(p for p in state.parts if p.tenant_id in tenants)
        fingerprint = _one_fingerprint(target, parts)
        built = state.build
        same_index = built is not None and (built.m, built.ef_construction) == (
            work.parameters.m,
            work.parameters.ef_construction,
        )
        if state.current and same_index:
            return None
        work.stage("rows")
        began = time.perf_counter()
        added = deleted = 0
        stale = set(state.stale)
        replaced = [p for p in parts if p.tenant_key in stale]
        for done, part in enumerate(replaced, start=1):
            inserted, removed = _copy_tenant(connection, target, part)
            added, deleted = added + inserted, deleted + removed
            if work.progress is not None:
                work.progress(done, len(replaced))
        rows_seconds = time.perf_counter() - began
        row = connection.execute(
            "with former as (update zeroth.shared_build set status = 'superseded'"
            " where chunk_set_id = %(set)s and status = 'live')"
            " insert into zeroth.shared_build (chunk_set_id, status, fingerprint_digest, row_count, parts_digest, m,"
            " ef_construction, index_name, rows_since_index, started_at, finished_at) values"
            " (%(set)s, 'superseded', %(print)s, %(rows)s, %(digest)s, %(m)s, %(ef)s, %(index)s, %(since)s, now(),"
            " clock_timestamp()) returning shared_build_id",
            {
                "set": target.chunk_set_id,
                "print": fingerprint,
                "rows": sum(p.row_count for p in parts),
                "digest": parts_digest(parts),
                "m": work.parameters.m,
                "ef": work.parameters.ef_construction,
                "index": built.index_name if built and same_index and state.standing else None,
                "since": built.rows_since_index + added if built and same_index and state.standing else 0,
            },
        ).fetchone()
        assert row is not None
        began = time.perf_counter()
        if not (same_index and state.standing):
            build_index(connection, target, int(row[0]), sum(p.row_count for p in parts), work)
        connection.execute(
            "update zeroth.shared_build set status = 'live', finished_at = clock_timestamp()"
            " where shared_build_id = %s",
            (row[0],),
        )
        work.stage("commit")
        connection.commit()
        return _Change(state, len(replaced), added, deleted, rows_seconds, time.perf_counter() - began)
    finally:
        if not connection.closed:
            connection.rollback()
            connection.isolation_level = None


def _copy_tenant(connection: psycopg.Connection[Any], target: ChunkSet, part: Part) -> tuple[int, int]:
    """Make a tenant's copies equal to its rows. A row is known by its id and the build that wrote it."""
    connection.execute("select set_config('zeroth.loading_tenant', %s, true)", (str(part.tenant_id),))
    names = {
        "own": target.table,
        "copy": target.shared,
        "tenant": sql.Literal(part.tenant_id),
        "columns": sql.SQL(", ").join(map(sql.Identifier, ROW_COLUMNS)),
    }
    removed = connection.execute(
        sql.SQL(
            "delete from {copy} c where c.tenant_id = {tenant} and not exists (select from {own} o where"
            " o.tenant_id = {tenant} and o.chunk_id = c.chunk_id and o.index_build_id = c.index_build_id)"
        ).format(**names)
    ).rowcount
    inserted = connection.execute(
        sql.SQL(
            "insert into {copy} ({columns}) select {columns} from {own} o where o.tenant_id = {tenant}"
            " and not exists (select from {copy} c where c.tenant_id = {tenant} and c.chunk_id = o.chunk_id)"
        ).format(**names)
    ).rowcount
    own, copy = (hash_rows(connection, table, part.tenant_id) for table in (target.table, target.shared))
    if own != copy or own[0] != part.row_count:
        raise DatabaseError(
            f"The rows of tenant {part.tenant_key} are not those of its build",
            expected=f"{part.row_count} rows, as index build {part.index_build_id} records",
            found=f"{own[0]} in its partition, {copy[0]} copied",
            remedy=f"run `zeroth materialize --tenant {part.tenant_key}`",
        )
    connection.execute(
        "delete from zeroth.shared_part where chunk_set_id = %s and tenant_id = %s",
        (target.chunk_set_id, part.tenant_id),
    )
    connection.execute(
        "insert into zeroth.shared_part (chunk_set_id, tenant_id, index_build_id, row_count, rows_digest)"
        " values (%s, %s, %s, %s, %s)",
        (target.chunk_set_id, part.tenant_id, part.index_build_id, part.row_count, part.rows_digest),
    )
    return inserted, removed


def _one_fingerprint(target: ChunkSet, parts: tuple[Part, ...]) -> str | None:
    counts: dict[str, int] = {}
    for part in parts:
        counts[part.fingerprint_digest] = counts.get(part.fingerprint_digest, 0) + 1
    if len(counts) > 1:
        raise DatabaseError(
            f"The tenants of {target.name} were not embedded alike, so that one index cannot rank their rows",
            expected="one fingerprint",
            found=", ".join(f"{digest[:12]} for {n} tenants" for digest, n in sorted(counts.items())),
            remedy=f"run `zeroth materialize --asset tenant_index_{target.name}` until every tenant has the new one",
        )
    return next(iter(counts), None)
