"""What readers see while a tenant is loaded, loaded again and retired: all of one load, never none where some were."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import psycopg
import pytest
from psycopg import IsolationLevel

from zeroth_assets.store.connect import Database, principal_session
from zeroth_assets.store.registry import IndexParameters
from zeroth_assets.store.retire import retire_tenant, sweep_retired
from zeroth_assets_tests.store.builders import load, make_chunks, prepared

Seen = tuple[int, tuple[str, ...]]
NOTHING: Seen = (0, ())
LEVELS = (IsolationLevel.READ_COMMITTED, IsolationLevel.REPEATABLE_READ)


@pytest.fixture(scope="module")
def db(module_database: Database) -> Database:
    return prepared(module_database)


def look(connection: psycopg.Connection, where: str = "") -> Seen:
    """Rows and the markers in their texts, for the principal of the open transaction."""
    row = connection.execute(
        f"select count(*), coalesce(array_agg(distinct split_part(text, ' ', 1)), '{{}}') from zeroth.chunk_1 {where}",
        prepare=True,
    ).fetchone()
    assert row is not None
    return row[0], tuple(row[1])


@dataclass
class Reader:
    """Reads in a loop on one connection; two looks per transaction."""

    db: Database
    principal: str
    level: IsolationLevel
    where: str
    stop: threading.Event
    seen: list[tuple[Seen, Seen]] = field(default_factory=list)
    failure: BaseException | None = None

    def run(self) -> None:
        try:
            with self.db.app() as connection:
                connection.isolation_level = self.level
                while not self.stop.is_set():
                    with principal_session(connection, self.principal):
                        self.seen.append((look(connection, self.where), look(connection, self.where)))
        except BaseException as error:
            self.failure = error


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_readers_see_whole_loads_in_order_and_never_none_in_between(db: Database, stop: threading.Event) -> None:
    tenant = "watched"
    load(db, make_chunks(range(3), "other"), tenant="neighbour")
    with db.loader() as connection:
        row = connection.execute("select zeroth.register_tenant(%s)", (tenant,)).fetchone()
    assert row is not None
    readers = [
        Reader(db, tenant, level, where, stop) for level in LEVELS for where in ("", f"where tenant_id = {row[0]}")
    ]
    threads = [threading.Thread(target=reader.run) for reader in readers]
    for thread in threads:
        thread.start()
    expected: list[Seen] = [NOTHING]
    for number in range(8):
        marker, size = f"load{number}", 20 + 3 * (number % 3)
        parameters = IndexParameters(m=4 + 4 * (number // 4), ef_construction=32)
        # Every text changes, some chunks go and some come.
        load(db, make_chunks(range(number, number + size), marker), tenant=tenant, parameters=parameters)
        expected.append((size, (marker,)))
    retire_tenant(db, tenant)
    expected.append(NOTHING)
    stop.set()
    for thread in threads:
        thread.join(60)
    for reader in readers:
        assert reader.failure is None
        assert len(reader.seen) > 20
        looks = [seen for pair in reader.seen for seen in pair]
        assert set(looks) <= set(expected)
        changes = [seen for i, seen in enumerate(looks) if i == 0 or seen != looks[i - 1]]
        positions: list[int] = []
        for seen in changes:  # NOTHING stands at both ends of what is expected
            start = positions[-1] + 1 if positions else 0
            assert seen in expected[start:], f"{seen} came back after {changes}"
            positions.append(expected.index(seen, start))
        if reader.level is IsolationLevel.REPEATABLE_READ:
            assert all(first == second for first, second in reader.seen)


@pytest.mark.parametrize(
    "where", ["", "where tenant_id = any ((select array_agg(tenant_id) from zeroth.tenant)::int[])"]
)
def test_an_old_snapshot_keeps_its_rows_through_reload_rebuild_retirement_and_sweep(db: Database, where: str) -> None:
    tenant = f"old-{len(where)}"
    load(db, make_chunks(range(12), "before"), tenant=tenant)
    with db.app() as connection:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        with principal_session(connection, tenant):
            before = connection.execute("select 1").fetchone()  # the snapshot, without a lock on any of our tables
            assert before == (1,)
            load(
                db,
                make_chunks(range(6, 30), "after"),
                tenant=tenant,
                parameters=IndexParameters(m=4, ef_construction=9),
            )
            assert look(connection) == (12, ("before",))
    with db.app() as connection:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        with principal_session(connection, "all"):
            connection.execute("select 1")
            report = retire_tenant(db, tenant, sweep_wait_seconds=0.3)
            assert (report.rows, report.pending) == (24, 1)
            assert sweep_retired(db, wait_seconds=0.3).pending == 1
            assert "after" in look(connection)[1]
    assert sweep_retired(db).pending == 0


def test_a_first_load_is_invisible_to_an_older_snapshot_and_whole_to_the_next(db: Database) -> None:
    with db.app() as connection:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        with principal_session(connection, "newborn"):
            assert look(connection) == NOTHING
            load(db, make_chunks(range(9), "first"), tenant="newborn")
            assert look(connection) == NOTHING
        with principal_session(connection, "newborn"):
            assert look(connection) == (9, ("first",))


def test_a_load_waits_for_no_reader_and_a_reader_for_no_load(db: Database) -> None:
    load(db, make_chunks(range(9), "one"), tenant="open")
    with db.app() as reader, principal_session(reader, "open"):
        assert look(reader) == (9, ("one",))
        reader.execute("set local lock_timeout = '1s'")

        def read_in_between(stage: str) -> None:
            with db.app() as other, principal_session(other, "open"):
                other.execute("set local lock_timeout = '1s'")
                assert look(other) == ((9, ("two",)) if stage == "vacuum" else (9, ("one",)))

        load(db, make_chunks(range(9), "two"), tenant="open", on_stage=read_in_between)
        load(db, make_chunks(range(9), "two"), tenant="opened-beside")
        assert look(reader) == (9, ("two",))
