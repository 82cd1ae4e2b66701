"""Advisory locks by name, for work that spans transactions.

What belongs here: taking and releasing them. They belong to the session, so a process that is killed holds none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg


@contextlib.contextmanager
def locked(
    connection: psycopg.Connection[Any],
    *,
    shared: tuple[str, ...] = (),
    alone: tuple[str, ...] = (),
    wait_seconds: float,
) -> Iterator[None]:
    """Hold advisory locks by name on this session, for the block.

    Raises:
        psycopg.errors.LockNotAvailable: not had within `wait_seconds`.
    """
    connection.rollback()
    # A client killed outright would leave its backend, and these locks, until its statement ends.
    connection.execute("set client_connection_check_interval = '1s'")
    connection.execute("select set_config('lock_timeout', %s, false)", (f"{max(1, int(wait_seconds * 1000))}ms",))
    for name in shared:
        connection.execute("select pg_advisory_lock_shared(hashtextextended(%s, 0))", (name,))
    for name in alone:
        connection.execute("select pg_advisory_lock(hashtextextended(%s, 0))", (name,))
    connection.execute("set lock_timeout = '10s'")
    connection.commit()
    try:
        yield
    finally:
        if not connection.closed:
            connection.rollback()
            connection.execute("select pg_advisory_unlock_all()")
            connection.commit()
