"""One embedded server per test session, and databases on it.

`database` is the session's server with its data database; `fresh_database` (per test) and
`module_database` (per module) are new, empty data databases on the same server: roles shared, `vector` installed,
nothing migrated.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from psycopg import sql

from zeroth_assets.errors import ZerothError
from zeroth_assets.store import server
from zeroth_assets.store.connect import Database, embedded_database

_PREFIX = "zeroth-test"
_numbers = itertools.count(1)


def make_home(label: str = "home") -> Path:
    """A home that the server's system user can reach when the tests run as root (pytest's own tmp_path is 0700)."""
    home = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}-{os.getpid()}-{label}-"))
    if os.geteuid() == 0:
        home.chmod(0o711)
    return home


def remove_home(home: Path) -> None:
    """Stop the home's server, if any, and remove everything."""
    with contextlib.suppress(ZerothError, FileNotFoundError):
        server.destroy(home)
    shutil.rmtree(home, ignore_errors=True)


def _sweep() -> None:
    """End the servers of test sessions that were killed before they could."""
    for home in Path(tempfile.gettempdir()).glob(f"{_PREFIX}-*"):
        pid = home.name.removeprefix(f"{_PREFIX}-").split("-")[0]
        if home.stat().st_uid == os.geteuid() and pid.isdigit() and not psutil.pid_exists(int(pid)):
            remove_home(home)


@pytest.fixture(scope="session")
def database() -> Iterator[Database]:
    _sweep()
    home = make_home("session")
    try:
        db = embedded_database(home)
        with db.admin(autocommit=True, dbname="postgres") as conn:
            # What is lost in a crash of this server is test data.
            for setting in ("fsync", "full_page_writes", "synchronous_commit"):
                conn.execute(sql.SQL("alter system set {} = off").format(sql.Identifier(setting)))
            conn.execute("select pg_reload_conf()")
        db.ensure_databases()
        yield db
    finally:
        remove_home(home)


@contextlib.contextmanager
def _new_database(database: Database) -> Iterator[Database]:
    db = database.named(f"test_{next(_numbers)}")
    db.ensure_databases()
    yield db
    with database.admin(autocommit=True, dbname="postgres") as conn:
        for name in (db.name, db.dagster_name):
            conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def fresh_database(database: Database) -> Iterator[Database]:
    with _new_database(database) as db:
        yield db


@pytest.fixture(scope="module")
def module_database(database: Database) -> Iterator[Database]:
    with _new_database(database) as db:
        yield db
