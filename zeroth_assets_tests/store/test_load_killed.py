"""A loading process is killed outright, at every stage; the same call then completes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np
import pytest

from zeroth_assets.store.connect import Database
from zeroth_assets.store.locks import locked
from zeroth_assets.store.read import verify_build
from zeroth_assets.store.registry import current_build, list_tenants
from zeroth_assets_tests.store.builders import CHUNK_SET, load, make_chunks, prepared, stored_rows

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["zeroth_assets_tests.store.builders"])


@pytest.fixture(scope="module")
def db(module_database: Database) -> Database:
    return prepared(module_database)


def _load_and_die(db: Database, tenant: str, rows: int, marker: str, stage: str) -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def on_stage(name: str) -> None:
        if name == stage:
            die()

    def progress(done: int, total: int) -> None:
        if stage == "half copied" and done < total:
            die()

    load(db, make_chunks(range(rows), marker), tenant=tenant, on_stage=on_stage, progress=progress)


def start(target: Any, *arguments: Any) -> BaseProcess:
    process = CONTEXT.Process(target=target, args=arguments)
    process.start()
    return process


def tables_of(db: Database, tenant: str) -> list[str]:
    tenant_id = next((t.tenant_id for t in list_tenants(db) if t.tenant_key == tenant), 0)
    with db.admin() as connection:
        rows = connection.execute(
            "select relname from pg_class where relname ~ %s and relkind = 'r'", (f"^chunk_[0-9]+_t{tenant_id}$",)
        ).fetchall()
    return [row[0] for row in rows]


@pytest.mark.parametrize("stage", ["copy", "half copied", "index", "attach", "commit"])
def test_a_first_load_killed_at_any_stage_leaves_nothing_and_completes_when_called_again(
    db: Database, stage: str
) -> None:
    tenant = f"first-{stage.replace(' ', '-')}"
    process = start(_load_and_die, db, tenant, 700, "one", stage)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    report = load(db, make_chunks(range(700), "one"), tenant=tenant, lock_wait_seconds=30)
    assert (report.kind, report.rows) == ("first", 700)
    assert tables_of(db, tenant) == [f"chunk_1_t{report.tenant_id}"]
    assert verify_build(db, CHUNK_SET, tenant, make_chunks(range(700))["chunk_id"].to_numpy()).holds


@pytest.mark.parametrize("stage", ["copy", "half copied", "apply", "commit", "vacuum"])
def test_a_later_load_killed_at_any_stage_leaves_one_load_whole_and_completes_when_called_again(
    db: Database, stage: str
) -> None:
    tenant = f"later-{stage.replace(' ', '-')}"
    first = load(db, make_chunks(range(20), "one"), tenant=tenant)
    process = start(_load_and_die, db, tenant, 600, "two", stage)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    markers = {row[1].split()[0] for row in stored_rows(db, first.tenant_id)}
    build = current_build(db, CHUNK_SET, tenant)
    assert build is not None
    assert (markers, build.row_count) == (({"two"}, 600) if stage == "vacuum" else ({"one"}, 20))
    report = load(db, make_chunks(range(600), "two"), tenant=tenant, lock_wait_seconds=30)
    assert report.kind == ("unchanged" if stage == "vacuum" else "changed")
    assert {row[1].split()[0] for row in stored_rows(db, first.tenant_id)} == {"two"}


def _sleep_under_lock(db: Database) -> None:
    with db.loader() as connection, locked(connection, alone=("test",), wait_seconds=5):
        connection.execute("select pg_sleep(300)")


def test_a_process_killed_during_a_long_statement_frees_its_lock_within_seconds(db: Database) -> None:
    process = start(_sleep_under_lock, db)
    with db.admin(autocommit=True) as connection:
        while not connection.execute(
            "select 1 from pg_stat_activity where query = 'select pg_sleep(300)' and state = 'active'"
        ).fetchone():
            assert process.is_alive()
    process.kill()
    process.join(60)
    with db.loader() as connection, locked(connection, alone=("test",), wait_seconds=20):
        pass


def _load_much(db: Database, tenant: str) -> None:
    load(db, make_chunks(range(4000)), tenant=tenant)


def test_a_load_killed_while_the_server_builds_its_index_leaves_nothing(db: Database) -> None:
    process = start(_load_much, db, "building")
    deadline = time.monotonic() + 60
    with db.admin(autocommit=True) as connection:
        while not connection.execute(
            "select 1 from pg_stat_activity where query ~ 'index_partition' and state = 'active'"
            " and datname = current_database() and pid <> pg_backend_pid()"
        ).fetchone():
            assert process.is_alive()
            assert time.monotonic() < deadline
        process.kill()
    process.join(60)
    report = load(db, make_chunks(range(4000)), tenant="building", lock_wait_seconds=30)
    assert report.kind == "first"
    assert tables_of(db, "building") == [f"chunk_1_t{report.tenant_id}"]
    assert np.isfinite(report.index_seconds)
