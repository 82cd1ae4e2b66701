"""Connections as `zeroth_app` that are kept open between queries.

What belongs here: opening, lending and discarding. Who asks is set inside each transaction and ends with it. What else
a session can keep (settings, held cursors, prepared statements, channels) is taken from it before it is lent again: SQL
that somebody slips into one principal's query must not wait there for the next principal's rows.
"""

from __future__ import annotations

import contextlib
import selectors
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from zeroth_assets.store.connect import Database

_IDLE_KEPT = 8
# DISCARD ALL without its DISCARD PLANS: plans are made of the catalogue alone, and every query would plan anew.
_FORGET = (
    "close all; deallocate all; unlisten *; reset session authorization; reset all; discard sequences; discard temp"
)


class Connections:
    """Lends connections, one caller each; `prepare` is called once on every new one."""

    def __init__(self, db: Database, prepare: Callable[[psycopg.Connection[Any]], None]) -> None:
        self._db, self._prepare = db, prepare
        self._idle: list[tuple[psycopg.Connection[Any], contextlib.ExitStack]] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def borrow(self) -> Iterator[psycopg.Connection[Any]]:
        """An idle connection, outside any transaction. It is discarded where the block fails or leaves one open.

        Raises:
            DatabaseError: no connection could be made.
        """
        connection, stack = self._take()
        try:
            yield connection
        except BaseException:
            if connection.closed or connection.info.transaction_status is not TransactionStatus.IDLE:
                _discard(connection, stack)
            else:
                self._give_back(connection, stack)
            raise
        if connection.info.transaction_status is TransactionStatus.IDLE:
            self._give_back(connection, stack)
        else:
            _discard(connection, stack)

    def close(self) -> None:
        """Close those that nobody has borrowed."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, stack in idle:
            _discard(connection, stack)

    def _take(self) -> tuple[psycopg.Connection[Any], contextlib.ExitStack]:
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection, stack = self._idle.pop()
            if _alive(connection):
                return connection, stack
            _discard(connection, stack)
        stack = contextlib.ExitStack()
        connection = stack.enter_context(self._db.app())
        self._prepare(connection)
        return connection, stack

    def _give_back(self, connection: psycopg.Connection[Any], stack: contextlib.ExitStack) -> None:
        try:
            connection.autocommit = True
            connection.execute(_FORGET, prepare=False)
            connection.autocommit = False
        except psycopg.Error:
            _discard(connection, stack)
            return
        with self._lock:
            if len(self._idle) < _IDLE_KEPT:
                self._idle.append((connection, stack))
                return
        _discard(connection, stack)


def _alive(connection: psycopg.Connection[Any]) -> bool:
    """Whether the server still holds the other end. On an idle connection anything to read is its farewell."""
    if connection.closed:
        return False
    with selectors.DefaultSelector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return not selector.select(timeout=0)


def _discard(connection: psycopg.Connection[Any], stack: contextlib.ExitStack) -> None:
    connection.close()
    with contextlib.suppress(Exception):
        stack.close()
