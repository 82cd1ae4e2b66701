"""A partial index over one tenant's rows of the shared table: the design that keeps one table and many indexes.

What belongs here: making one for as long as a measurement takes, and sweeping those that a killed one left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store.connect import Database
from zeroth_assets.store.failures import database_errors
from zeroth_assets.store.locks import locked
from zeroth_assets.store.registry import ChunkSet, IndexParameters

_DROP_ATTEMPTS = 50  # of 200 ms each, see zeroth.drop_shared_tenant_index


@contextlib.contextmanager
def partial_index(
    db: Database,
    target: ChunkSet,
    tenant_id: int,
    parameters: IndexParameters | None = None,
    *,
    keep: bool = False,
    lock_wait_seconds: float = 60.0,
) -> Iterator[str]:
    """The name of a partial HNSW over the tenant's rows in the shared table, built now, and dropped unless `keep`.

    Loads of the shared table wait while it is built; readers do not. One tenant's is held by one caller at a time.

    Raises:
        DatabaseError: no shared table, a lock not had in time, or the database failed.
    """
    parameters = parameters or IndexParameters()
    with (
        database_errors(f"indexing tenant {tenant_id} in the shared table"),
        db.loader() as connection,
        locked(
            connection, alone=(f"zeroth.partial:{target.chunk_set_id}:{tenant_id}",), wait_seconds=lock_wait_seconds
        ),
    ):
        _drop(connection, target, tenant_id)
        row = connection.execute(
            "select zeroth.index_shared_tenant(%s, %s, %s, %s)",
            (target.chunk_set_id, tenant_id, parameters.m, parameters.ef_construction),
        ).fetchone()
        connection.commit()
        assert row is not None
        try:
            yield str(row[0])
        finally:
            if not keep and not connection.closed:
                _drop(connection, target, tenant_id)


def drop_partial_index(db: Database, target: ChunkSet, tenant_id: int) -> bool:
    """Drop a partial index that was kept, or that a killed measurement left; whether there was one.

    Raises:
        DatabaseError: somebody measures with it, or readers hold the table for longer than ten seconds.
    """
    with (
        database_errors(f"dropping the partial index of tenant {tenant_id}"),
        db.loader() as connection,
        locked(connection, alone=(f"zeroth.partial:{target.chunk_set_id}:{tenant_id}",), wait_seconds=1.0),
    ):
        return _drop(connection, target, tenant_id)


def _drop(connection: psycopg.Connection, target: ChunkSet, tenant_id: int) -> bool:
    for _ in range(_DROP_ATTEMPTS):
        try:
            row = connection.execute(
                "select zeroth.drop_shared_tenant_index(%s, %s)", (target.chunk_set_id, tenant_id)
            ).fetchone()
            connection.commit()
        except psycopg.errors.LockNotAvailable:
            connection.rollback()
        else:
            return row is not None and bool(row[0])
    raise DatabaseError(
        "A tenant's partial index could not be dropped",
        expected=f"the shared table free of open transactions within {_DROP_ATTEMPTS * 0.2:.0f} s",
        found="readers that hold it open",
        remedy="end the long transactions and run the same command again",
    )
