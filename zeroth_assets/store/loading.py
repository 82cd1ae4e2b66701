"""The statements of a load, one function each, all inside the transaction that `load.py` opens and commits.

What belongs here: SQL that `zeroth_loader` runs to copy, compare, apply, index and attach. No commit, no lock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from zeroth_assets.store.registry import ChunkSet, IndexParameters
from zeroth_assets.store.rows import CHUNK_COLUMNS, COPY_HEADER, COPY_TRAILER, ROW_COLUMNS, Batch

Progress = Callable[[int, int], None]
Stage = Callable[[str], None]

_PROGRESS_EVERY = 500
_ATTACH_ATTEMPTS = 3
_INCOMING = sql.Identifier("pg_temp", "incoming")
_CHANGED = sql.Identifier("pg_temp", "changed")


@dataclass(frozen=True, slots=True)
class Transfer:
    """What is to be loaded, and how."""

    batch: Batch
    digest: str
    fingerprint: dict[str, Any]
    chunker_version: str
    parameters: IndexParameters
    inputs: dict[str, str]
    progress: Progress | None
    on_stage: Stage | None
    build_memory_mb: int
    build_workers: int

    def stage(self, name: str) -> None:
        """Say which stage begins."""
        if self.on_stage is not None:
            self.on_stage(name)


@dataclass(frozen=True, slots=True)
class Changes:
    """How many chunks a load adds, deletes and replaces."""

    added: int
    deleted: int
    updated: int

    @property
    def any(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.added or self.deleted or self.updated)


def record_build(connection: psycopg.Connection[Any], target: ChunkSet, tenant_id: int, transfer: Transfer) -> int:
    """Supersede the live build and record a new one. Returns its id."""
    connection.execute(
        "update zeroth.index_build set status = 'superseded'"
        " where chunk_set_id = %s and tenant_id = %s and status = 'live'",
        (target.chunk_set_id, tenant_id),
    )
    hnsw = transfer.parameters.kind == "hnsw"
    row = connection.execute(
        "insert into zeroth.index_build (chunk_set_id, tenant_id, status, fingerprint_digest, fingerprint,"
        " chunker_version, row_count, rows_digest, index_kind, m, ef_construction, inputs, started_at, finished_at)"
        " values (%s, %s, 'live', %s, %s, %s, %s, %s, %s, %s, %s, %s, now(), clock_timestamp())"
        " returning index_build_id",
        (
            target.chunk_set_id,
            tenant_id,
            transfer.digest,
            Jsonb(transfer.fingerprint),
            transfer.chunker_version,
            transfer.batch.rows,
            transfer.batch.rows_digest,
            transfer.parameters.kind,
            transfer.parameters.m if hnsw else None,
            transfer.parameters.ef_construction if hnsw else None,
            Jsonb(transfer.inputs),
        ),
    ).fetchone()
    assert row is not None
    return int(row[0])


def finish_build(connection: psycopg.Connection[Any], build_id: int, index_name: str | None) -> None:
    """Put the index's name and the end time into the build's record."""
    connection.execute(
        "update zeroth.index_build set index_name = case index_kind when 'hnsw' then %s end,"
        " finished_at = clock_timestamp() where index_build_id = %s",
        (index_name, build_id),
    )


def restate_inputs(connection: psycopg.Connection[Any], build_id: int, transfer: Transfer) -> None:
    """The same rows now stand on other artefacts (written anew with equal content): say so."""
    connection.execute(
        "update zeroth.index_build set inputs = %s where index_build_id = %s", (Jsonb(transfer.inputs), build_id)
    )


def copy_batch(
    connection: psycopg.Connection[Any], table: sql.Identifier, tenant_id: int, build_id: int, transfer: Transfer
) -> None:
    """COPY the batch into `table`, in binary."""
    total = transfer.batch.rows
    statement = sql.SQL("copy {} ({}) from stdin (format binary)").format(
        table, sql.SQL(", ").join(map(sql.Identifier, ROW_COLUMNS))
    )
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.write(COPY_HEADER)
        for done, row in enumerate(transfer.batch.copy_rows(tenant_id, build_id), start=1):
            copy.write(row)
            if transfer.progress is not None and (done % _PROGRESS_EVERY == 0 or done == total):
                transfer.progress(done, total)
        copy.write(COPY_TRAILER)


def copy_incoming(
    connection: psycopg.Connection[Any], target: ChunkSet, tenant_id: int, transfer: Transfer
) -> sql.Identifier:
    """COPY the batch into a temporary table that ends with the transaction. Its build id is provisional."""
    columns = sql.SQL(", ").join(map(sql.Identifier, ROW_COLUMNS))
    connection.execute(
        sql.SQL("create temporary table incoming on commit drop as select {} from {} with no data").format(
            columns, target.table
        )
    )
    copy_batch(connection, _INCOMING, tenant_id, 0, transfer)
    connection.execute(sql.SQL("analyze {}").format(_INCOMING))
    return _INCOMING


def compare(
    connection: psycopg.Connection[Any], target: ChunkSet, tenant_id: int, incoming: sql.Identifier, *, every: bool
) -> Changes:
    """List, in a temporary table, the chunks that differ; all of them with `every` (another fingerprint)."""
    compared = [name for name in (*CHUNK_COLUMNS, "embedding") if name != "chunk_id"]
    # `is distinct from` on vectors would need an operator on the search path; their text forms are exact for float4.
    old_row, new_row = (
        sql.SQL(", ").join(
            sql.SQL("{}::text").format(sql.Identifier(side, name))
            if name == "embedding"
            else sql.Identifier(side, name)
            for name in compared
        )
        for side in ("old", "new")
    )
    connection.execute(
        sql.SQL(
            "create temporary table changed on commit drop as"
            " select old.chunk_id as old_id, new.chunk_id as new_id"
            " from (select * from {table} where tenant_id = {tenant}) old"
            " full join {incoming} new on old.chunk_id = new.chunk_id"
            " where old.chunk_id is null or new.chunk_id is null or {every} or ({old_row}) is distinct from ({new_row})"
        ).format(
            table=target.table,
            tenant=sql.Literal(tenant_id),
            incoming=incoming,
            every=sql.Literal(every),
            old_row=old_row,
            new_row=new_row,
        )
    )
    row = connection.execute(
        sql.SQL(
            "select count(*) filter (where old_id is null), count(*) filter (where new_id is null),"
            " count(*) filter (where old_id = new_id) from {}"
        ).format(_CHANGED)
    ).fetchone()
    assert row is not None
    return Changes(*row)


def apply(
    connection: psycopg.Connection[Any], target: ChunkSet, tenant_id: int, build_id: int, incoming: sql.Identifier
) -> None:
    """Delete and insert what `compare` listed. The literal tenant prunes to the one partition when planned."""
    connection.execute(
        sql.SQL(
            "delete from {} where tenant_id = {} and chunk_id in (select old_id from {} where old_id is not null)"
        ).format(target.table, sql.Literal(tenant_id), _CHANGED)
    )
    columns = [name for name in ROW_COLUMNS if name != "index_build_id"]
    connection.execute(
        sql.SQL(
            "insert into {} ({}, index_build_id) select {}, {} from {} i join {} c on c.new_id = i.chunk_id"
        ).format(
            target.table,
            sql.SQL(", ").join(map(sql.Identifier, columns)),
            sql.SQL(", ").join(sql.Identifier("i", name) for name in columns),
            sql.Literal(build_id),
            incoming,
            _CHANGED,
        )
    )


def build_index(
    connection: psycopg.Connection[Any], target: ChunkSet, tenant_id: int, build_id: int, transfer: Transfer
) -> str | None:
    """Build the HNSW index on the staged or attached partition; None where the parameters ask for none.

    A parallel build takes its graph from shared memory, of which containers often have 64 MB: where that runs out, the
    build is done again by one process.
    """
    parameters = transfer.parameters
    if parameters.kind == "none":
        return None
    transfer.stage("index")
    graph_bytes = transfer.batch.rows * (4 * target.dimension + 40 * parameters.m + 300)
    megabytes = min(transfer.build_memory_mb, max(64, graph_bytes * 3 // 2 // 2**20))
    for workers in dict.fromkeys((transfer.build_workers, 0)):
        try:
            with connection.transaction():
                connection.execute("select set_config('maintenance_work_mem', %s, true)", (f"{megabytes}MB",))
                connection.execute("select set_config('max_parallel_maintenance_workers', %s, true)", (str(workers),))
                row = connection.execute(
                    "select zeroth.index_partition(%s, %s, %s, %s, %s)",
                    (target.chunk_set_id, tenant_id, build_id, parameters.m, parameters.ef_construction),
                ).fetchone()
        except psycopg.errors.DiskFull as error:
            if not workers or "shared memory" not in str(error):
                raise
        else:
            assert row is not None
            return str(row[0])
    raise AssertionError("unreachable")


def attach(connection: psycopg.Connection[Any], target: ChunkSet, tenant_id: int) -> None:
    """Attach the staged partition; where the parent's lock is not had in time, try again without losing the index."""
    for left in reversed(range(_ATTACH_ATTEMPTS)):
        try:
            with connection.transaction():
                connection.execute("select zeroth.attach_partition(%s, %s)", (target.chunk_set_id, tenant_id))
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            if not left:
                raise
        else:
            return


def index_bytes(connection: psycopg.Connection[Any], index_name: str | None) -> int:
    """Size of the index on disk."""
    if index_name is None:
        return 0
    row = connection.execute("select pg_relation_size(%s::regclass)", (f"zeroth.{index_name}",)).fetchone()
    return int(row[0]) if row else 0
