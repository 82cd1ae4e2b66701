"""How long a revocation takes to reach results.

What belongs here: that one measurement. How fresh content is, is another figure: this one moves no row of a chunk.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from zeroth_assets.errors import MeasurementError
from zeroth_assets.store.acl import (
    MEASURING,
    UnknownPrincipalError,
    forget_principal,
    list_grants,
    measuring,
    put_grants,
    revoke,
)
from zeroth_assets.store.connect import Database, principal_session
from zeroth_assets.store.registry import ChunkSet, find_chunk_set

_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RevocationReport:
    """Milliseconds, one per trial, as a session saw them that asked one statement after another all the while.

    `to_result` runs from the call of `revoke` to the first answer without rows, `call` to the call's return (the grant
    is gone then, committed), `statement` is what one statement took while the grant held (median of the trial).
    `stale` counts statements of all trials that began after the return and still gave rows: the boundary's failures.
    """

    to_result: tuple[float, ...]
    call: tuple[float, ...]
    statement: tuple[float, ...]
    stale: int

    def median(self) -> float:
        """Median of `to_result`."""
        return statistics.median(self.to_result)

    def p95(self) -> float:
        """95th percentile of `to_result`, nearest rank."""
        ordered = sorted(self.to_result)
        return ordered[max(0, -(-95 * len(ordered) // 100) - 1)]


@dataclass(slots=True)
class _Watch:
    """Statements as (begun, ended, rows), of a session that goes on until it sees none."""

    answers: list[tuple[float, float, int]] = field(default_factory=list)
    seen: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)
    failure: Exception | None = None


def measure_revocation(
    db: Database,
    chunk_set: str,
    tenant_key: str,
    *,
    trials: int = 200,
    principal: str = f"{MEASURING}revocation",
    one_transaction: bool = True,
    clock: Callable[[], float] = time.perf_counter,
    progress: Callable[[int, int], None] | None = None,
) -> RevocationReport:
    """Grant and revoke `tenant_key` again and again under an open session, and time when results follow.

    With `one_transaction` the session stays in one READ COMMITTED transaction and its statement is prepared, with a
    cached plan; otherwise each statement is a transaction with a claim of its own. The principal is new, and forgotten
    in the end.

    Raises:
        MeasurementError: the principal is known already, the tenant shows no row when granted, or still shows rows long
            after it was revoked.
        TenantError: the tenant is not registered.
    """
    if trials < 1:
        raise MeasurementError("Nothing to measure", expected="at least one trial", found=str(trials))
    with measuring(db, {}):
        if any(known.principal == principal for known in list_grants(db)):
            raise MeasurementError(
                f"Principal {principal!r} is somebody's already", expected="a new one", remedy="name another"
            )
        to_result, call, statement, stale = [], [], [], 0
        with db.app() as connection:
            target = find_chunk_set(connection, chunk_set)
            connection.rollback()
            connection.prepare_threshold = 0 if one_transaction else None
            try:
                for trial in range(trials):
                    put_grants(db, principal, [tenant_key])
                    watch = _Watch()
                    reader = threading.Thread(
                        target=_watch, args=(connection, principal, target, one_transaction, clock, watch)
                    )
                    reader.start()
                    try:
                        if not watch.seen.wait(_WAIT_SECONDS):
                            raise watch.failure or _none_seen(tenant_key)
                        called = clock()
                        revoke(db, principal, [tenant_key])
                        returned = clock()
                        reader.join(_WAIT_SECONDS)
                    finally:
                        watch.stop.set()
                        reader.join()
                    if watch.failure is not None:
                        raise watch.failure
                    *full, last = watch.answers
                    if last[2]:
                        raise MeasurementError(
                            f"The revocation of {tenant_key} did not reach an open session",
                            expected="no row",
                            found=f"rows {_WAIT_SECONDS:.0f} s later",
                        )
                    to_result.append(1000 * (last[1] - called))
                    call.append(1000 * (returned - called))
                    statement.append(1000 * statistics.median(ended - begun for begun, ended, _ in full))
                    stale += sum(begun > returned for begun, _, _ in full)
                    if progress is not None:
                        progress(trial + 1, trials)
            finally:
                with contextlib.suppress(UnknownPrincipalError):
                    forget_principal(db, principal)
    return RevocationReport(tuple(to_result), tuple(call), tuple(statement), stale)


def _watch(
    connection: psycopg.Connection,
    principal: str,
    target: ChunkSet,
    one_transaction: bool,
    clock: Callable[[], float],
    watch: _Watch,
) -> None:
    def ask_until_nothing(once: bool) -> bool:
        while True:
            begun = clock()
            rows = len(connection.execute(statement).fetchall())
            watch.answers.append((begun, clock(), rows))
            if rows == 0:
                return True
            watch.seen.set()
            if once or watch.stop.is_set():
                return False

    statement = sql.SQL("select chunk_id from {} limit 10").format(target.table)
    try:
        done = False
        while not done and not watch.stop.is_set():
            with principal_session(connection, principal):
                done = ask_until_nothing(once=not one_transaction)
        if not watch.seen.is_set():
            watch.failure = _none_seen(principal)
    except Exception as error:
        watch.failure = error
    finally:
        watch.seen.set()


def _none_seen(name: str) -> MeasurementError:
    return MeasurementError(
        f"{name} shows no row while the grant holds",
        expected="a tenant that is loaded",
        remedy="load it, or name another",
    )
