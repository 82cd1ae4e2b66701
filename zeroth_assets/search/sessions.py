"""A principal's transaction on a connection that outlives it, and what that principal may see.

What belongs here: `Sessions`, which lends a connection for one transaction of one principal, and asking the database
which tenants that principal is permitted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import psycopg

from zeroth_assets.search.connections import Connections
from zeroth_assets.store import acl
from zeroth_assets.store.connect import Database, principal_session
from zeroth_assets.store.failures import database_errors
from zeroth_assets.store.registry import ChunkSet, find_chunk_set


class Sessions:
    """Lends connections as `zeroth_app`; safe to use from several threads. Close it, or use it as a context manager."""

    def __init__(self, db: Database) -> None:
        self._connections = Connections(db, lambda connection: None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._connections.close()

    @contextlib.contextmanager
    def session(self, principal: str, doing: str) -> Iterator[psycopg.Connection[Any]]:
        """One transaction in which the policies see `principal`; `doing` says in errors what it was for.

        Raises:
            QueryError: the principal is not usable, or a measurement's.
            DatabaseError: the database failed, here or inside the block.
        """
        acl.check_person(principal)
        with (
            database_errors(doing),
            self._connections.borrow() as connection,
            principal_session(connection, principal),
        ):
            yield connection

    def chunk_set(self, name: str, dimension: int | None = None) -> ChunkSet:
        """The chunk table of that name.

        Raises:
            DatabaseError: there is none, or several and no dimension is named.
        """
        with database_errors(f"looking up chunk set {name}"), self._connections.borrow() as connection:
            found = find_chunk_set(connection, name, dimension)
            connection.rollback()
        return found


def permitted(connection: psycopg.Connection[Any]) -> dict[str, int]:
    """Tenant key to tenant id of every tenant that the session's principal may see; none if all were revoked.

    Raises:
        UnknownPrincipalError: the principal was never granted anything, which is a mistake and no lack of evidence.
    """
    try:
        return acl.permitted(connection)
    except acl.NoTenantError:
        return {}
