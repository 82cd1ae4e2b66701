"""The shared table: equal to the tenants' live builds, in one transaction, under the same policy."""

from __future__ import annotations

import multiprocessing
import os
import signal
from typing import Any

import psycopg
import pytest

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store.connect import Database, principal_session
from zeroth_assets.store.registry import IndexParameters, ensure_chunk_set
from zeroth_assets.store.retire import retire_tenant
from zeroth_assets.store.shared import SharedReport, load_shared
from zeroth_assets.store.shared_partial import drop_partial_index, partial_index
from zeroth_assets.store.shared_state import holds_all_that_is_permitted, shared_state, verify_shared
from zeroth_assets_tests.store.builders import CHUNK_SET, DIMENSION, load, make_chunks, prepared, tenant_id_of

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["zeroth_assets_tests.store.builders"])


@pytest.fixture
def db(fresh_database: Database) -> Database:
    return prepared(fresh_database)


def fill(db: Database, rows: int = 60) -> None:
    for tenant in ("a", "b", "c"):
        load(db, make_chunks(range(rows), tenant, f"doc:{tenant}"), tenant=tenant)


def seen(db: Database, principal: str, table: str = "shared_1") -> set[str]:
    """The first words of the rows that a principal reads."""
    with db.app() as connection, principal_session(connection, principal):
        rows = connection.execute(f"select distinct split_part(text, ' ', 1) from zeroth.{table}").fetchall()
    return {row[0] for row in rows}


def indexes(db: Database) -> set[str]:
    with db.admin() as connection:
        rows = connection.execute("select relname from pg_class where relkind = 'i' and relname ~ '^shared_1_.*hnsw'")
        return {row[0] for row in rows.fetchall()}


def test_a_first_load_holds_every_tenants_rows_under_one_index(db: Database) -> None:
    fill(db)
    told: list[tuple[int, int]] = []
    report = load_shared(db, CHUNK_SET, progress=lambda done, total: told.append((done, total)))
    assert (report.kind, report.tenants, report.replaced, report.rows, report.added) == ("first", 3, 3, 180, 180)
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert report.index_bytes > 0
    assert verify_shared(db, CHUNK_SET) == ()
    assert load_shared(db, CHUNK_SET) == load_shared(db, CHUNK_SET)
    assert load_shared(db, CHUNK_SET).kind == "unchanged"


def test_a_later_load_touches_only_the_rows_that_differ_of_the_tenants_that_changed(db: Database) -> None:
    fill(db)
    first = load_shared(db, CHUNK_SET)
    load(db, make_chunks(range(5, 65), "b", "doc:b"), tenant="b", seed=0)
    state = shared_state(db, CHUNK_SET)
    assert (state.stale, state.current) == (("b",), False)
    assert verify_shared(db, CHUNK_SET) != ()
    report = load_shared(db, CHUNK_SET)
    assert (report.kind, report.replaced, report.rows) == ("changed", 1, 180)
    assert (report.added, report.deleted) == (60, 60)  # every vector moved with its position
    assert report.shared_build_id != first.shared_build_id
    assert verify_shared(db, CHUNK_SET) == ()
    load(db, make_chunks(range(5, 65), "b", "doc:b"), tenant="b", seed=0, fingerprint={"digest": "print-1", "x": 1})
    assert load_shared(db, CHUNK_SET).kind == "unchanged"


def test_an_index_that_was_filled_row_by_row_is_built_anew_and_the_former_one_dropped(db: Database) -> None:
    fill(db)
    before = (load_shared(db, CHUNK_SET), indexes(db))[1]
    load(db, make_chunks(range(100, 170), "b", "doc:b"), tenant="b")
    report = load_shared(db, CHUNK_SET)
    assert report.index_rebuilt
    assert len(before) == len(indexes(db)) == 1
    assert before != indexes(db)
    assert shared_state(db, CHUNK_SET).current


def test_a_change_of_the_index_parameters_builds_it_anew(db: Database) -> None:
    fill(db)
    load_shared(db, CHUNK_SET)
    report = load_shared(db, CHUNK_SET, parameters=IndexParameters(m=8, ef_construction=32))
    assert (report.kind, report.added, report.replaced) == ("changed", 0, 0)
    assert len(indexes(db)) == 1
    assert shared_state(db, CHUNK_SET).build.m == 8  # type: ignore[union-attr]


def test_tenants_of_two_fingerprints_are_refused_and_the_former_rows_stay(db: Database) -> None:
    fill(db)
    load_shared(db, CHUNK_SET)
    load(db, make_chunks(range(60), "new", "doc:b"), tenant="b", fingerprint={"digest": "print-2", "model": "m"})
    with pytest.raises(DatabaseError, match=r"not embedded alike.*print-1 for 2 tenants, print-2 for 1"):
        load_shared(db, CHUNK_SET)
    assert seen(db, "all") == {"a", "b", "c"}


def test_the_policy_is_that_of_the_chunk_table_to_the_letter_and_holds_alone(db: Database) -> None:
    fill(db)
    load_shared(db, CHUNK_SET)
    with db.admin() as connection:
        rows = connection.execute(
            "select c.relname, c.relrowsecurity, c.relforcerowsecurity, pg_get_userbyid(c.relowner), p.polname,"
            " pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid), p.polcmd, p.polroles"
            " from pg_class c join pg_policy p on p.polrelid = c.oid where c.relname in ('shared_1', 'chunk_1')"
            " order by c.relname, p.polname"
        ).fetchall()
        grants = connection.execute(
            "select table_name, grantee, privilege_type from information_schema.role_table_grants"
            " where table_name in ('shared_1', 'chunk_1') and grantee <> 'zeroth_owner' order by 1, 2, 3"
        ).fetchall()
        columns = connection.execute(
            "select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attstorage,"
            " a.attgenerated, a.attstattarget from pg_attribute a join pg_class c on c.oid = a.attrelid"
            " where c.relname in ('shared_1', 'chunk_1') and a.attnum > 0 order by a.attnum"
        ).fetchall()
    for found in (rows, grants, columns):
        own, copy = ([row[1:] for row in found if row[0] == name] for name in ("chunk_1", "shared_1"))
        assert own == copy != []
    assert seen(db, "b") == {"b"}
    assert seen(db, "nobody") == set()
    with db.app() as connection:
        assert connection.execute("select count(*) from zeroth.shared_1").fetchone() == (0,)
    with db.owner() as connection:
        assert connection.execute("select count(*) from zeroth.shared_1").fetchone() == (0,)


@pytest.mark.parametrize("table", ["shared_build", "shared_part"])
def test_what_the_records_tell_is_for_those_whom_it_concerns(db: Database, table: str) -> None:
    fill(db)
    load_shared(db, CHUNK_SET)
    with db.app() as connection, principal_session(connection, "b"):
        if table == "shared_part":
            rows = connection.execute("select tenant_id from zeroth.shared_part").fetchall()
            assert rows == [(tenant_id_of(db, "b"),)]
        else:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("select * from zeroth.shared_build")


def test_a_principal_is_told_whether_all_that_it_may_read_is_in_the_shared_table(db: Database) -> None:
    fill(db)
    target = ensure_chunk_set(db, CHUNK_SET, DIMENSION)

    def told(principal: str) -> bool:
        with db.app() as connection, principal_session(connection, principal):
            return holds_all_that_is_permitted(connection, target)

    assert not told("all")
    load_shared(db, CHUNK_SET)
    assert (told("all"), told("a"), told("nobody")) == (True, True, False)
    load(db, make_chunks(range(9), "b", "doc:b"), tenant="b")
    assert (told("all"), told("a"), told("b")) == (False, True, False)


@pytest.mark.parametrize(
    "call",
    ["ensure_shared(1)", "index_shared(1, 1, 16, 64)", "index_shared_tenant(1, 1, 16, 64)",
     "drop_shared_tenant_index(1, 1)", "drop_superseded_shared_indexes(1)", "require_shared(1)"],
)  # fmt: skip
def test_a_querying_role_may_run_none_of_the_functions(db: Database, call: str) -> None:
    with db.app() as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(f"select zeroth.{call}")


def test_a_retired_tenant_leaves_the_shared_table_at_once_and_the_next_load_says_so(db: Database) -> None:
    fill(db)
    load_shared(db, CHUNK_SET)
    retired = tenant_id_of(db, "b")
    retire_tenant(db, "b")
    with db.loader() as connection:
        connection.execute("select set_config('zeroth.loading_tenant', %s, true)", (str(retired),))
        assert connection.execute("select count(*) from zeroth.shared_1").fetchone() == (0,)
    assert seen(db, "all") == {"a", "c"}
    assert shared_state(db, CHUNK_SET).differences == ("a tenant was retired since it was recorded",)
    report = load_shared(db, CHUNK_SET)
    assert (report.kind, report.rows, report.tenants) == ("changed", 120, 2)
    assert verify_shared(db, CHUNK_SET) == ()


def test_a_tenant_that_is_loaded_meanwhile_is_copied_whole_as_it_was(db: Database) -> None:
    fill(db)

    def meddle(done: int, total: int) -> None:
        if done == 1:
            load(db, make_chunks(range(50), "newer", "doc:c2"), tenant="c")

    report = load_shared(db, CHUNK_SET, progress=meddle)
    assert (report.rows, seen(db, "c"), seen(db, "c", "chunk_1")) == (180, {"c"}, {"newer"})
    assert shared_state(db, CHUNK_SET).stale == ("c",)
    load_shared(db, CHUNK_SET)
    assert verify_shared(db, CHUNK_SET) == ()


def test_an_old_snapshot_goes_on_seeing_the_former_rows(db: Database) -> None:
    fill(db, 400)
    load_shared(db, CHUNK_SET)
    with db.app() as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with principal_session(reader, "b"):
            query = "select count(*), min(text) from zeroth.shared_1"
            before = reader.execute(query).fetchone()
            load(db, make_chunks(range(90), "zzz", "doc:b2"), tenant="b")
            report = load_shared(db, CHUNK_SET)
            assert reader.execute(query).fetchone() == before
    assert report.dead_rows == 400
    assert seen(db, "b") == {"zzz"}


def test_an_index_that_somebody_dropped_is_built_anew(db: Database) -> None:
    fill(db)
    load_shared(db, CHUNK_SET)
    with db.admin(autocommit=True) as connection:
        connection.execute(f"drop index zeroth.{indexes(db).pop()}")
    assert shared_state(db, CHUNK_SET).differences == ("its index is gone or invalid",)
    assert load_shared(db, CHUNK_SET).added == 0
    assert shared_state(db, CHUNK_SET).current


def _load_and_die(db: Database, stage: str) -> None:
    def on_stage(name: str) -> None:
        if name == stage:
            os.kill(os.getpid(), signal.SIGKILL)

    load_shared(db, CHUNK_SET, on_stage=on_stage)


def _killed(db: Database, stage: str) -> SharedReport:
    process: Any = CONTEXT.Process(target=_load_and_die, args=(db, stage))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    return load_shared(db, CHUNK_SET, lock_wait_seconds=30)


@pytest.mark.parametrize("stage", ["index", "commit", "vacuum", "rebuild", "drop"])
def test_a_load_killed_at_any_stage_is_all_or_nothing_and_completes_when_called_again(db: Database, stage: str) -> None:
    fill(db, 20)
    if stage in ("rebuild", "drop"):
        load_shared(db, CHUNK_SET)
        load(db, make_chunks(range(100, 160), "b", "doc:b"), tenant="b")
    report = _killed(db, stage)
    assert report.added == (60 if stage in ("index", "commit") else 0)
    assert verify_shared(db, CHUNK_SET) == ()
    assert len(indexes(db)) == 1


def test_a_partial_index_lasts_as_long_as_it_is_needed_and_serves_its_tenant_alone(db: Database) -> None:
    fill(db, 300)
    load_shared(db, CHUNK_SET)
    target = ensure_chunk_set(db, CHUNK_SET, DIMENSION)
    tenant = tenant_id_of(db, "b")
    with partial_index(db, target, tenant) as name:
        assert name in indexes(db)
    assert len(indexes(db)) == 1
    with partial_index(db, target, tenant, keep=True):
        pass
    load_shared(db, CHUNK_SET)
    assert len(indexes(db)) == 2
    assert drop_partial_index(db, target, tenant)
    assert not drop_partial_index(db, target, tenant)


def test_without_a_chunk_set_or_an_index_there_is_nothing_to_load(db: Database) -> None:
    with pytest.raises(DatabaseError, match="not in the database"):
        load_shared(db, "unknown")
    with pytest.raises(DatabaseError, match="kept for its index"):
        load_shared(db, CHUNK_SET, parameters=IndexParameters(kind="none"))
    assert shared_state(db, CHUNK_SET).differences == ("never loaded",)
    report = load_shared(db, CHUNK_SET)
    assert (report.rows, report.tenants, report.kind) == (0, 0, "first")
    assert verify_shared(db, CHUNK_SET) == ()
