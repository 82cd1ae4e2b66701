"""The HNSW over the whole shared table: built, built anew when it is worn, and the former one dropped.

What belongs here: the index of `shared`. The rows are changed there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import psycopg

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store.loading import Progress, Stage
from zeroth_assets.store.registry import ChunkSet, IndexParameters
from zeroth_assets.store.shared_state import read_state

# A graph that grew by insertion and was thinned by VACUUM is another graph than one built in one piece.
REBUILD_SHARE = 0.2
_DROP_ATTEMPTS = 25  # of 200 ms each, see zeroth.drop_superseded_shared_indexes


@dataclass(frozen=True, slots=True)
class Work:
    """How to build, and whom to tell."""

    parameters: IndexParameters
    memory_mb: int
    workers: int
    progress: Progress | None
    on_stage: Stage | None

    def stage(self, name: str) -> None:
        """Say which stage begins."""
        if self.on_stage is not None:
            self.on_stage(name)


def build_index(connection: psycopg.Connection[Any], target: ChunkSet, build_id: int, rows: int, work: Work) -> None:
    """Build the HNSW and put its name into the build's record, in the transaction that is open."""
    work.stage("index")
    graph_bytes = rows * (4 * target.dimension + 40 * work.parameters.m + 300)
    megabytes = min(work.memory_mb, max(64, graph_bytes * 3 // 2 // 2**20))
    connection.execute("select set_config('maintenance_work_mem', %s, true)", (f"{megabytes}MB",))
    for workers in dict.fromkeys((work.workers, 0)):
        try:
            with connection.transaction():
                connection.execute("select set_config('max_parallel_maintenance_workers', %s, true)", (str(workers),))
                row = connection.execute(
                    "select zeroth.index_shared(%s, %s, %s, %s)",
                    (target.chunk_set_id, build_id, work.parameters.m, work.parameters.ef_construction),
                ).fetchone()
        except psycopg.errors.DiskFull as error:
            # A parallel build takes its graph from shared memory, of which containers often have 64 MB.
            if not workers or "shared memory" not in str(error):
                raise
        else:
            assert row is not None
            connection.execute(
                "update zeroth.shared_build set index_name = %s, rows_since_index = 0 where shared_build_id = %s",
                (row[0], build_id),
            )
            return


def rebuild_if_worn(connection: psycopg.Connection[Any], target: ChunkSet, work: Work) -> float:
    """Build the index anew if many of its rows were put in one by one; the seconds that took, 0.0 if not needed."""
    build = read_state(connection, target).build
    connection.rollback()
    if build is None or build.rows_since_index <= REBUILD_SHARE * build.row_count:
        return 0.0
    began = time.perf_counter()
    work.stage("rebuild")
    # A new record: figures name the build that they were measured on, and this one has another graph.
    row = connection.execute(
        "insert into zeroth.shared_build (chunk_set_id, status, fingerprint_digest, row_count, parts_digest, m,"
        " ef_construction, index_name, rows_since_index, started_at, finished_at)"
        " select chunk_set_id, 'superseded', fingerprint_digest, row_count, parts_digest, m, ef_construction, null, 0,"
        " now(), now() from zeroth.shared_build where shared_build_id = %s returning shared_build_id",
        (build.shared_build_id,),
    ).fetchone()
    assert row is not None
    build_index(connection, target, int(row[0]), build.row_count, work)
    for status, build_id in (("superseded", build.shared_build_id), ("live", row[0])):
        connection.execute(
            "update zeroth.shared_build set status = %s, finished_at = clock_timestamp() where shared_build_id = %s",
            (status, build_id),
        )
    connection.commit()
    return time.perf_counter() - began


def drop_superseded(connection: psycopg.Connection[Any], target: ChunkSet) -> None:
    """Drop every HNSW but the live build's and the partial ones of known tenants.

    Raises:
        DatabaseError: readers held the table throughout.
    """
    for _ in range(_DROP_ATTEMPTS):
        try:
            connection.execute("select zeroth.drop_superseded_shared_indexes(%s)", (target.chunk_set_id,))
            connection.commit()
        except psycopg.errors.LockNotAvailable:
            connection.rollback()
        else:
            return
    raise DatabaseError(
        "The shared rows are loaded, but a former index could not be dropped",
        expected=f"the table free of open transactions within {_DROP_ATTEMPTS * 0.2:.0f} s",
        found="readers that hold it open",
        remedy="end the long transactions and run the same command again: it drops the index and loads nothing anew",
    )
