"""The server and its starters killed at the worst moment: the next start works and the data is there."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from zeroth_assets.store import server
from zeroth_assets.store.connect import Database, embedded_database
from zeroth_assets.store.process import ended, wait_ended
from zeroth_assets_tests.database_fixtures import make_home, remove_home
from zeroth_assets_tests.store.helpers import START, python_script, until


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    path = make_home("kills")
    yield path
    remove_home(path)


@pytest.fixture
def kept(home: Path) -> Database:
    """A database with one committed row in table `kept`."""
    db = embedded_database(home)
    with db.admin(autocommit=True, dbname="postgres") as conn:
        conn.execute("create table if not exists kept as select 7 as n")
    return db


def _connection(db: Database) -> psycopg.Connection:
    return db.administrator.connect(autocommit=True)


def _row(home: Path) -> object:
    with embedded_database(home).admin(dbname="postgres") as conn:
        return conn.execute("select n from kept").fetchall()


def test_after_kill_9_of_the_postmaster_the_next_start_recovers(kept: Database) -> None:
    before = server.status(kept.home)
    assert before.pid is not None
    killed = psutil.Process(before.pid)
    killed.kill()
    wait_ended(killed, 30)  # a busy machine takes its time over the end of a process
    after = server.start(kept.home)
    assert after.pid != before.pid
    assert after.port == before.port
    assert _row(kept.home) == [(7,)]


def test_a_backend_that_did_not_notice_the_kill_does_not_stand_in_the_way(kept: Database) -> None:
    with contextlib.ExitStack() as stack:
        busy, other = (stack.enter_context(contextlib.closing(_connection(kept))) for _ in range(2))
        busy.pgconn.send_query(b"do $$ begin loop end loop; end $$")
        active = "select count(*) from pg_stat_activity where pid = %s and state = 'active' and query like 'do %%'"
        until(lambda: other.execute(active, [busy.info.backend_pid]).fetchone() == (1,))
        backend = psutil.Process(busy.info.backend_pid)
        pid = server.status(kept.home).pid
        assert pid is not None
        postmaster = psutil.Process(pid)
        postmaster.kill()
        until(lambda: ended(postmaster))
        assert not ended(backend)
        assert server.start(kept.home).state == "running"
        assert ended(backend)
    assert _row(kept.home) == [(7,)]


def test_after_kill_9_of_a_backend_the_next_connection_waits_for_the_restart(kept: Database) -> None:
    with contextlib.closing(kept.administrator.connect(autocommit=True)) as conn:
        backend = psutil.Process(conn.info.backend_pid)
        backend.kill()
        until(lambda: ended(backend))
    assert _row(kept.home) == [(7,)]


def test_a_postmaster_that_does_not_react_is_stopped_all_the_same(kept: Database) -> None:
    pid = server.status(kept.home).pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    assert server.stop(kept.home, fast_seconds=0.1, immediate_seconds=0.1)
    assert server.status(kept.home).state == "stopped"
    server.start(kept.home)
    assert _row(kept.home) == [(7,)]


def test_stop_does_not_wait_for_an_open_transaction(kept: Database) -> None:
    with kept.admin(dbname="postgres") as conn:
        conn.execute("lock table kept")
        assert server.stop(kept.home)
        conn.close()
    server.start(kept.home)
    assert _row(kept.home) == [(7,)]


# A shell that starts the tests in the background has them ignore SIGINT, and children inherit that.
HEED_SIGINT = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_a_starter_killed_within_initdb_leaves_a_home_that_starts(sign: signal.Signals) -> None:
    # On a busy machine the starter may be done before the signal reaches it; then another home is tried.
    assert any(_starts_after_a_kill_within_initdb(sign) for _ in range(5))


def _starts_after_a_kill_within_initdb(sign: signal.Signals) -> bool:
    """Whether the signal came in time; what is left must start in any case."""
    fresh = make_home("initdb")
    cluster = fresh / "postgres" / "cluster"
    try:
        with subprocess.Popen(
            python_script(HEED_SIGINT + START, fresh),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        ) as starter:
            # Half-way: the folder is there, the server's files are being written.
            until(lambda: any(cluster.glob("init-*/base")) or (cluster / "data").exists())
            os.killpg(starter.pid, sign)
        in_time = not (cluster / "data").exists()
        assert server.start(fresh).state == "running"
        assert list(cluster.glob("init-*")) == []
        embedded_database(fresh).ensure_databases()
        return in_time
    finally:
        remove_home(fresh)


def test_a_starter_killed_while_the_server_starts_leaves_a_home_that_starts(home: Path) -> None:
    server.start(home)
    server.stop(home)
    data = server.status(home).data_dir
    assert data is not None
    with subprocess.Popen(python_script(START, home), start_new_session=True) as starter:
        until((data / "postmaster.pid").exists)
        os.killpg(starter.pid, signal.SIGKILL)
    assert server.start(home).state == "running"
