from __future__ import annotations

import threading

import pytest

from zeroth_assets.errors import DatabaseError, TenantError
from zeroth_assets.store.connect import Database, principal_session
from zeroth_assets.store.read import read_vectors
from zeroth_assets.store.registry import current_build, ensure_chunk_set, list_tenants
from zeroth_assets.store.retire import retire_tenant, sweep_retired
from zeroth_assets_tests.store.builders import CHUNK_SET, load, make_chunks, prepared


@pytest.fixture(scope="module")
def db(module_database: Database) -> Database:
    ready = prepared(module_database)
    ensure_chunk_set(ready, "section_aware", 8)
    return ready


def traces(db: Database, tenant_id: int) -> dict[str, int]:
    """Everything in the database that is of the tenant, as the administrator sees it."""
    with db.admin() as connection:
        counts = {}
        for table in ("zeroth.tenant", "zeroth.index_build", "zeroth_acl.grant_", "zeroth.retired_partition"):
            row = connection.execute(
                f"select count(*) from {table} where tenant_id = %s",
                (tenant_id,),
            ).fetchone()
            assert row is not None
            counts[table] = row[0]
        row = connection.execute(
            "select count(*) from pg_class where relname ~ %s", (f"^chunk_[0-9]+_t{tenant_id}(_|$)",)
        ).fetchone()
        assert row is not None
        counts["relations"] = row[0]
    return counts


def test_retiring_removes_everything_of_the_tenant_and_nothing_of_its_neighbours(db: Database) -> None:
    gone = load(db, make_chunks(range(7)), tenant="gone")
    load(db, make_chunks(range(5)), tenant="gone", chunk_set="section_aware")
    load(db, make_chunks(range(4)), tenant="stays")
    report = retire_tenant(db, "gone")
    assert (report.tenant_id, report.rows, report.dropped, report.pending) == (gone.tenant_id, 12, 2, 0)
    assert set(traces(db, gone.tenant_id).values()) == {0}
    assert [t.tenant_key for t in list_tenants(db)] == ["stays"]
    assert current_build(db, CHUNK_SET, "gone") is None
    assert read_vectors(db, CHUNK_SET, "all").vectors.shape[0] == 4


def test_a_key_that_comes_back_is_a_new_tenant_and_inherits_no_grant(db: Database) -> None:
    first = load(db, make_chunks(range(3)), tenant="phoenix")
    with db.owner() as connection:
        connection.execute("insert into zeroth_acl.grant_ values ('alice', %s)", (first.tenant_id,))
    assert read_vectors(db, CHUNK_SET, "alice").vectors.shape[0] == 3
    retire_tenant(db, "phoenix")
    second = load(db, make_chunks(range(3)), tenant="phoenix")
    assert second.kind == "first"
    assert second.tenant_id != first.tenant_id
    assert read_vectors(db, CHUNK_SET, "alice").vectors.shape[0] == 0


def test_a_tenant_that_is_not_there_is_a_typed_error(db: Database) -> None:
    with pytest.raises(TenantError, match="no tenant 'nobody'"):
        retire_tenant(db, "nobody")
    with pytest.raises(TenantError, match="is refused"):
        retire_tenant(db, "../x")


def test_retirement_waits_for_a_load_of_the_tenant_and_gives_up_in_time(db: Database) -> None:
    loading, go_on = threading.Event(), threading.Event()

    def hold(stage: str) -> None:
        if stage == "copy":  # nothing is written yet, so that no row lock stands in for the advisory one
            loading.set()
            assert go_on.wait(60)

    load(db, make_chunks(range(2)), tenant="busy")
    thread = threading.Thread(target=lambda: load(db, make_chunks(range(3)), tenant="busy", on_stage=hold))
    thread.start()
    assert loading.wait(60)
    with pytest.raises(DatabaseError, match="retiring tenant busy"):
        retire_tenant(db, "busy", lock_wait_seconds=0.2)
    go_on.set()
    thread.join(60)
    assert retire_tenant(db, "busy").rows == 3


def test_an_open_reader_postpones_the_drop_and_blocks_nobody(db: Database) -> None:
    tenant = load(db, make_chunks(range(6)), tenant="read").tenant_id
    load(db, make_chunks(range(2)), tenant="other")
    with db.app() as reader, principal_session(reader, "other"):
        assert reader.execute("select count(*) from zeroth.chunk_1").fetchone() == (2,)
        report = retire_tenant(db, "read", sweep_wait_seconds=0.3)
        assert (report.rows, report.dropped, report.pending) == (6, 0, 1)
        # Interrupted at whatever point it was: tenants are loaded and read all the same.
        load(db, make_chunks(range(3)), tenant="other")
        load(db, make_chunks(range(3)), tenant="yet-another")
        assert read_vectors(db, CHUNK_SET, "read").vectors.shape[0] == 0
    swept = sweep_retired(db)
    assert (swept.dropped, swept.pending) == (1, 0)
    assert set(traces(db, tenant).values()) == {0}


def test_readers_do_not_queue_behind_a_sweep_that_waits(db: Database) -> None:
    load(db, make_chunks(range(6)), tenant="waited-for")
    load(db, make_chunks(range(2)), tenant="queue")
    swept: list[int] = []
    with db.app() as idle, db.admin(autocommit=True) as watcher:
        idle.execute("select set_config('zeroth.claim', %s, true)", (db.signer().sign("queue").text,))
        assert idle.execute("select count(*) from zeroth.chunk_1").fetchone() == (2,)  # holds a lock, no snapshot
        thread = threading.Thread(target=lambda: swept.append(retire_tenant(db, "waited-for").dropped))
        thread.start()
        while not watcher.execute(
            "select 1 from pg_stat_activity where query ~ 'detach partition' and wait_event_type = 'Lock'"
            " and datname = current_database()"
        ).fetchone():
            assert thread.is_alive()
        with db.app() as reader, principal_session(reader, "queue"):
            reader.execute("set local lock_timeout = '1s'")
            assert reader.execute("select count(*) from zeroth.chunk_1").fetchone() == (2,)
        idle.rollback()
        thread.join(60)
    assert swept == [1]


def test_several_retirements_under_an_open_reader_are_all_swept_once_it_ends(db: Database) -> None:
    tenants = [load(db, make_chunks(range(3)), tenant=f"several-{i}").tenant_id for i in range(3)]
    with db.app() as idle:
        idle.execute("select count(*) from zeroth.chunk_1").fetchone()
        for i in range(3):
            assert retire_tenant(db, f"several-{i}", sweep_wait_seconds=0.3).pending == i + 1
    assert sweep_retired(db).dropped == 3
    assert {count for tenant in tenants for count in traces(db, tenant).values()} == {0}


def test_a_sweep_takes_up_a_detachment_that_was_cut_short(db: Database) -> None:
    tenant = load(db, make_chunks(range(6)), tenant="half-detached").tenant_id
    with db.loader() as connection:
        connection.execute("select set_config('zeroth.loading_tenant', %s, true)", (str(tenant),))
        connection.execute("delete from zeroth.chunk_1 where tenant_id = %s", (tenant,))
        connection.execute("select zeroth.unregister_tenant(%s)", (tenant,))
    with db.app() as reader, principal_session(reader, "all"):
        reader.execute("select count(*) from zeroth.chunk_1").fetchone()
        with db.owner(autocommit=True) as connection:
            connection.execute("set statement_timeout = '300ms'")
            with pytest.raises(Exception, match="statement timeout"):
                connection.execute(f"alter table zeroth.chunk_1 detach partition zeroth.chunk_1_t{tenant} concurrently")
    assert sweep_retired(db).dropped == 1
    assert set(traces(db, tenant).values()) == {0}
