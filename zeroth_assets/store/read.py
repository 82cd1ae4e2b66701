"""Reading back what is stored: vectors under the policy, and whether a tenant's rows are those expected.

What belongs here: reads for measurement and planning. Searching is another package's.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store.connect import Database, principal_session
from zeroth_assets.store.failures import database_errors
from zeroth_assets.store.registry import ChunkSet, IndexBuild, find_chunk_set, live_build
from zeroth_assets.store.rows import COPY_HEADER, rows_digest


@dataclass(frozen=True, slots=True)
class StoredVectors:
    """Vectors that a principal may read, ordered by tenant id and chunk id; row i of each array is one chunk.

    `tenant_ids` is int32 (n,), `chunk_ids` int64 (n,), `vectors` float32 (n, dimension), contiguous.
    """

    tenant_ids: NDArray[np.int32]
    chunk_ids: NDArray[np.int64]
    vectors: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Verification:
    """Whether a tenant's stored rows are the chunks expected. `differences` is empty where they are."""

    build: IndexBuild | None
    rows: int
    digest: str
    differences: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """True if the database holds just the chunks expected, under the fingerprint expected."""
        return not self.differences


def read_vectors(db: Database, chunk_set: str, principal: str, dimension: int | None = None) -> StoredVectors:
    """Every vector of `chunk_set` that `principal` may read, as `zeroth_app` under its policy.

    One statement, so one snapshot; streamed in binary and without an index.

    Raises:
        QueryError: the principal is not usable.
        DatabaseError: no such chunk set, or the database failed.
    """
    with database_errors(f"reading the vectors of {chunk_set}"), db.app() as connection:
        target = find_chunk_set(connection, chunk_set, dimension)
        connection.rollback()
        with principal_session(connection, principal):
            payload = _copy_out(connection, target)
    return _decode(payload, target.dimension)


def verify_build(
    db: Database,
    chunk_set: str,
    tenant_key: str,
    chunk_ids: NDArray[np.int64],
    *,
    fingerprint_digest: str | None = None,
    dimension: int | None = None,
) -> Verification:
    """Compare the tenant's rows as they are, counted and hashed now, with `chunk_ids`, and with what its build records.

    Raises:
        DatabaseError: no such chunk set, or the database failed.
    """
    with database_errors(f"verifying the rows of {tenant_key}"), db.loader() as connection:
        target = find_chunk_set(connection, chunk_set, dimension)
        build = live_build(connection, target, tenant_key)
        rows, digest = (0, rows_digest(np.empty(0, np.int64))) if build is None else _stored(connection, target, build)
    expected = (len(chunk_ids), rows_digest(chunk_ids))
    differences = []
    if build is None:
        differences.append("never loaded")
    else:
        if (build.row_count, build.rows_digest) != (rows, digest):
            differences.append(f"build {build.index_build_id} recorded {build.row_count} rows, {rows} are there")
        if fingerprint_digest not in (None, build.fingerprint_digest):
            differences.append(f"fingerprint {build.fingerprint_digest}, expected {fingerprint_digest}")
    if (rows, digest) != expected:
        differences.append(f"{rows} rows (digest {digest[:12]}), expected {expected[0]} (digest {expected[1][:12]})")
    return Verification(build, rows, digest, tuple(differences))


def _stored(connection: psycopg.Connection, target: ChunkSet, build: IndexBuild) -> tuple[int, str]:
    connection.execute("select set_config('zeroth.loading_tenant', %s, true)", (str(build.tenant_id),))
    row = connection.execute(
        sql.SQL(
            "select count(*), encode(sha256(coalesce(string_agg(int8send(chunk_id), ''::bytea order by chunk_id),"
            " ''::bytea)), 'hex') from {} where tenant_id = {}"
        ).format(target.table, sql.Literal(build.tenant_id))
    ).fetchone()
    assert row is not None
    return int(row[0]), str(row[1])


def _copy_out(connection: psycopg.Connection, target: ChunkSet) -> bytearray:
    statement = sql.SQL(
        "copy (select tenant_id, chunk_id, embedding from {} order by tenant_id, chunk_id) to stdout (format binary)"
    ).format(target.table)
    payload = bytearray()
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for block in copy:
            payload += block
    return payload


def _decode(payload: bytearray, dimension: int) -> StoredVectors:
    """Three columns that are never null: every tuple has the same length, so the stream is an array of records."""
    record = np.dtype(
        [
            ("fields", ">i2"),
            ("tenant_size", ">i4"),
            ("tenant_id", ">i4"),
            ("chunk_size", ">i4"),
            ("chunk_id", ">i8"),
            ("vector_size", ">i4"),
            ("dimension", ">u2"),
            ("unused", ">u2"),
            ("vector", ">f4", (dimension,)),
        ]
    )
    trailer = struct.pack(">h", -1)
    body = memoryview(payload)[len(COPY_HEADER) :]
    count, rest = divmod(len(body) - len(trailer), record.itemsize)
    if rest or bytes(payload[-len(trailer) :]) != trailer:
        raise DatabaseError(
            "The stored vectors could not be read",
            expected=f"records of {record.itemsize} bytes",
            found=f"{len(body)} bytes",
            remedy="report this: it is a fault of zeroth-assets",
        )
    records = np.frombuffer(body, dtype=record, count=count)
    return StoredVectors(
        records["tenant_id"].astype(np.int32),
        records["chunk_id"].astype(np.int64),
        np.ascontiguousarray(records["vector"], dtype=np.float32),
    )
