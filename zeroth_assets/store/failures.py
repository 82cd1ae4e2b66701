"""What the database says, as errors that a person can act on.

What belongs here: the one mapping from psycopg's exceptions to `zeroth_assets.errors`. The message keeps the server's
primary line and leaves out its DETAIL and CONTEXT, which may quote a row; so does what is chained to it, since whoever
logs an error logs its cause as well.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg

from zeroth_assets.errors import DatabaseError

_REMEDIES: dict[type[psycopg.Error], tuple[str, str]] = {
    psycopg.errors.DiskFull: ("room on the database's disk", "free disk space and run the same command again"),
    psycopg.errors.OutOfMemory: (
        "memory for the statement",
        "lower maintenance_work_mem and run the same command again",
    ),
    psycopg.errors.ProgramLimitExceeded: (
        "values within PostgreSQL's limits (a text's word list takes 1 MB at most)",
        "make the chunks smaller",
    ),
    psycopg.errors.UndefinedTable: ("a migrated database", "run `zeroth db migrate`"),
    psycopg.errors.UndefinedFunction: ("a migrated database", "run `zeroth db migrate`"),
    psycopg.errors.InvalidSchemaName: ("a migrated database", "run `zeroth db migrate`"),
    psycopg.errors.InsufficientPrivilege: (
        "the privileges that the migrations grant",
        "run `zeroth db migrate`; on an external server, let an administrator create the roles",
    ),
    psycopg.errors.LockNotAvailable: (
        "the lock within its time limit",
        "end the transactions that hold it (`zeroth db status` lists them) and run the same command again",
    ),
    psycopg.errors.DeadlockDetected: ("no deadlock", "run the same command again"),
    psycopg.OperationalError: (
        "a server that answers",
        "run `zeroth db status`, then the same command again; nothing was half-written",
    ),
}


def as_database_error(error: psycopg.Error, doing: str) -> DatabaseError:
    """The typed error for what went wrong while `doing` (a clause such as "loading tenant rfc-quic")."""
    expected, remedy = next(
        (_REMEDIES[cls] for cls in type(error).__mro__ if cls in _REMEDIES),
        ("a statement that the database accepts", "report this: it is a fault of zeroth-assets"),
    )
    found = error.diag.message_primary or (str(error).splitlines() or [type(error).__name__])[0]
    return DatabaseError(f"The database failed while {doing}", expected=expected, found=found, remedy=remedy)


@contextlib.contextmanager
def database_errors(doing: str) -> Iterator[None]:
    """Turn any psycopg error inside the block into a `DatabaseError` that says what was being done."""
    try:
        yield
    except psycopg.Error as error:
        failure, cause = as_database_error(error, doing), without_rows(error)
    else:
        return
    raise failure from cause


def without_rows(error: psycopg.Error) -> psycopg.Error:
    """The error with its class, its traceback and the server's primary line alone."""
    line = error.diag.message_primary or (str(error).splitlines() or [""])[0]
    return type(error)(line).with_traceback(error.__traceback__)
