"""Loading a tenant: its rows into its own partition, with the index that they deserve.

What belongs here: `load_tenant`, its locks and its retries. The first load fills a staging table, indexes it and
attaches it; every later one deletes and inserts what differs inside the partition. Either is ONE transaction, the
staging table and the build's record included: a load that dies, at any point and in any way, leaves nothing to be
swept, and a reader at any isolation level has the old rows or the new.

Locks: a session-level advisory lock on the tenant (shared; retiring it takes it alone) and on chunk table and tenant
(exclusive: two loads of one tenant queue). They end with the session, so a killed loader holds nothing.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store import loading
from zeroth_assets.store.connect import Database
from zeroth_assets.store.failures import database_errors
from zeroth_assets.store.loading import Progress, Stage, Transfer
from zeroth_assets.store.locks import locked
from zeroth_assets.store.registry import (
    ChunkSet,
    IndexBuild,
    IndexParameters,
    check_tenant_key,
    describe_fingerprint,
    find_chunk_set,
    live_build,
)
from zeroth_assets.store.rows import check_batch
from zeroth_assets.store.state import is_standing
from zeroth_assets.store.vacuum import vacuum_partition

_TRANSACTION_ATTEMPTS = 3
_DROP_ATTEMPTS = 25  # of 200 ms each, see zeroth.drop_superseded_indexes
_RETRIED = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What a load did. Seconds are wall-clock; `index_bytes` is 0 without an index.

    `added`, `deleted`, `updated` and `unchanged` count chunks by id; `updated` ones differ in content, vector or the
    fingerprint under which they were embedded. `kind` is `unchanged` where the database held all of it already, and
    then `index_build_id` is that of the build in force. `vacuumed` means that dead rows were cleared and none is left;
    `dead_rows` are those that an open transaction kept, None if VACUUM could not run.
    """

    kind: Literal["first", "changed", "unchanged"]
    index_build_id: int
    chunk_set_id: int
    tenant_id: int
    rows: int
    added: int
    deleted: int
    updated: int
    unchanged: int
    copy_seconds: float
    apply_seconds: float
    index_seconds: float
    attach_seconds: float
    index_bytes: int
    vacuumed: bool
    dead_rows: int | None = 0

    @property
    def rows_per_second(self) -> float:
        """Rows taken in per second of copying, applying, indexing and attaching."""
        seconds = self.copy_seconds + self.apply_seconds + self.index_seconds + self.attach_seconds
        return self.rows / seconds if seconds else 0.0


def load_tenant(
    db: Database,
    *,
    chunk_set: str,
    tenant_key: str,
    chunks: pl.DataFrame,
    vectors: NDArray[np.float32],
    fingerprint: object,
    chunker_version: str,
    parameters: IndexParameters | None = None,
    inputs: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    on_stage: Stage | None = None,
    build_memory_mb: int = 1024,
    build_workers: int = 1,
    lock_wait_seconds: float = 600.0,
) -> LoadReport:
    """Make the tenant's rows in `chunk_set` exactly `chunks` with `vectors`, as `zeroth_loader`.

    `vectors` is float32, (rows, dimension), unit norm, row i of chunk i. `fingerprint` is of the encoder that made
    them; `inputs` maps artefact to data version. `progress` counts rows copied; `on_stage` is told each stage as it
    begins. The tenant is registered if it is not. No rows at all are a valid load.

    Raises:
        TenantError, ChunkingError, EmbeddingError: the input is refused; nothing was written.
        DatabaseError: no such chunk set for this dimension, a lock not had in time, or the database failed; the former
            rows are in force, and the same call completes the work.
    """
    check_tenant_key(tenant_key)
    batch = check_batch(chunks, vectors)
    digest, described = describe_fingerprint(fingerprint)
    transfer = Transfer(
        batch=batch,
        digest=digest,
        fingerprint=described,
        chunker_version=chunker_version,
        parameters=parameters or IndexParameters(),
        inputs=dict(inputs or {}),
        progress=progress,
        on_stage=on_stage,
        build_memory_mb=build_memory_mb,
        build_workers=build_workers,
    )
    with database_errors(f"loading tenant {tenant_key} into {chunk_set}"), db.loader() as connection:
        target = find_chunk_set(connection, chunk_set, batch.dimension)
        with locked(
            connection,
            shared=(f"zeroth.tenant:{tenant_key}",),
            alone=(f"zeroth.load:{target.chunk_set_id}:{tenant_key}",),
            wait_seconds=lock_wait_seconds,
        ):
            tenant_id = _one(connection, "select zeroth.register_tenant(%s)", (tenant_key,))
            connection.commit()
            report = _transact(lambda: _load_once(connection, target, tenant_id, tenant_key, transfer))
            _drop_superseded(connection, target, tenant_id, transfer)
    if report.deleted or report.updated:
        transfer.stage("vacuum")
        return _vacuumed(db, target, report)
    return report


def _load_once(
    connection: psycopg.Connection[Any], target: ChunkSet, tenant_id: int, tenant_key: str, transfer: Transfer
) -> LoadReport:
    """One attempt: a transaction that is committed, or rolled back whole."""
    try:
        connection.execute("select set_config('zeroth.loading_tenant', %s, true)", (str(tenant_id),))
        build = live_build(connection, target, tenant_key)
        attached = _one(connection, "select zeroth.partition_exists(%s, %s)", (target.chunk_set_id, tenant_id))
        if build is None or not attached:
            return _first(connection, target, tenant_id, transfer)
        return _later(connection, target, tenant_id, transfer, build)
    except BaseException:
        if not connection.closed:
            connection.rollback()
        raise


def _first(connection: psycopg.Connection[Any], target: ChunkSet, tenant_id: int, transfer: Transfer) -> LoadReport:
    build_id = loading.record_build(connection, target, tenant_id, transfer)
    transfer.stage("copy")
    began = time.perf_counter()
    child = _one(connection, "select zeroth.stage_partition(%s, %s)", (target.chunk_set_id, tenant_id))
    loading.copy_batch(connection, sql.Identifier("zeroth_staging", child), tenant_id, build_id, transfer)
    copied = time.perf_counter()
    index_name = loading.build_index(connection, target, tenant_id, build_id, transfer)
    indexed = time.perf_counter()
    transfer.stage("attach")
    loading.attach(connection, target, tenant_id)
    loading.finish_build(connection, build_id, index_name)
    index_bytes = loading.index_bytes(connection, index_name)
    transfer.stage("commit")
    connection.commit()
    rows = transfer.batch.rows
    return LoadReport(
        kind="first",
        index_build_id=build_id,
        chunk_set_id=target.chunk_set_id,
        tenant_id=tenant_id,
        rows=rows,
        added=rows,
        deleted=0,
        updated=0,
        unchanged=0,
        copy_seconds=copied - began,
        apply_seconds=0.0,
        index_seconds=indexed - copied,
        attach_seconds=time.perf_counter() - indexed,
        index_bytes=index_bytes,
        vacuumed=False,
    )


def _later(
    connection: psycopg.Connection[Any], target: ChunkSet, tenant_id: int, transfer: Transfer, former: IndexBuild
) -> LoadReport:
    transfer.stage("copy")
    began = time.perf_counter()
    incoming = loading.copy_incoming(connection, target, tenant_id, transfer)
    copied = time.perf_counter()
    transfer.stage("apply")
    changes = loading.compare(
        connection, target, tenant_id, incoming, every=former.fingerprint_digest != transfer.digest
    )
    # An index that somebody dropped, or that is invalid, is built anew under rows that may all be right.
    indexed = former.indexed_by(transfer.parameters) and is_standing(connection, former)
    same_build = indexed and former.is_of(transfer.digest, transfer.chunker_version, transfer.parameters)
    build_id, index_name, indexing = former.index_build_id, former.index_name, 0.0
    if changes.any or not same_build:
        build_id = loading.record_build(connection, target, tenant_id, transfer)
        loading.apply(connection, target, tenant_id, build_id, incoming)
        if not indexed:
            index_began = time.perf_counter()
            index_name = loading.build_index(connection, target, tenant_id, build_id, transfer)
            indexing = time.perf_counter() - index_began
        loading.finish_build(connection, build_id, index_name)
    elif former.inputs != transfer.inputs:
        loading.restate_inputs(connection, build_id, transfer)
    index_bytes = loading.index_bytes(connection, index_name)
    transfer.stage("commit")
    connection.commit()
    return LoadReport(
        kind="unchanged" if build_id == former.index_build_id else "changed",
        index_build_id=build_id,
        chunk_set_id=target.chunk_set_id,
        tenant_id=tenant_id,
        rows=transfer.batch.rows,
        added=changes.added,
        deleted=changes.deleted,
        updated=changes.updated,
        unchanged=transfer.batch.rows - changes.added - changes.updated,
        copy_seconds=copied - began,
        apply_seconds=time.perf_counter() - copied - indexing,
        index_seconds=indexing,
        attach_seconds=0.0,
        index_bytes=index_bytes,
        vacuumed=False,
    )


def _drop_superseded(connection: psycopg.Connection[Any], target: ChunkSet, tenant_id: int, transfer: Transfer) -> None:
    """Drop the index that a build with other parameters replaced, and any that an earlier call could not drop.

    Raises:
        DatabaseError: readers held the partition throughout. The rows are right; a figure of this build would not be,
            since the planner may take either index.
    """
    for attempt in range(_DROP_ATTEMPTS):
        try:
            connection.execute("select zeroth.drop_superseded_indexes(%s, %s)", (target.chunk_set_id, tenant_id))
            connection.commit()
        except psycopg.errors.LockNotAvailable:
            connection.rollback()
            if attempt == 0:
                transfer.stage("drop superseded index")
        else:
            return
    raise DatabaseError(
        "The tenant's rows are loaded, but its former index could not be dropped",
        expected=f"the partition free of open transactions within {_DROP_ATTEMPTS * 0.2:.0f} s",
        found="readers that hold it open",
        remedy="end the long transactions and run the same command again: it drops the index and loads nothing anew",
    )


def _vacuumed(db: Database, target: ChunkSet, report: LoadReport) -> LoadReport:
    """Clear the dead rows of a load. Where VACUUM cannot run now, a measurement or autovacuum does it later."""
    try:
        dead = vacuum_partition(db, target, report.tenant_id)
    except psycopg.Error:
        return dataclasses.replace(report, dead_rows=None)
    return dataclasses.replace(report, vacuumed=dead == 0, dead_rows=dead)


def _transact(attempt: Callable[[], LoadReport]) -> LoadReport:
    for left in reversed(range(_TRANSACTION_ATTEMPTS)):
        try:
            return attempt()
        except _RETRIED:
            if not left:
                raise
    raise AssertionError("unreachable")


def _one(connection: psycopg.Connection[Any], query: Any, parameters: tuple[object, ...]) -> Any:
    row = connection.execute(query, parameters).fetchone()
    assert row is not None
    return row[0]
