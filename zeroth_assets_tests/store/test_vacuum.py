"""Dead rows that a snapshot keeps are counted, whatever language the server speaks."""

from __future__ import annotations

import re

import pytest

from zeroth_assets.store import vacuum
from zeroth_assets.store.connect import Database
from zeroth_assets.store.registry import ChunkSet
from zeroth_assets.store.vacuum import dead_rows_told, vacuum_partition
from zeroth_assets_tests.store.builders import CHUNK_SET, DIMENSION, load, make_chunks, make_vectors, prepared


@pytest.fixture(scope="module")
def db(module_database: Database) -> Database:
    return prepared(module_database)


@pytest.mark.parametrize("language", ["english", "another"])
def test_rows_that_an_open_snapshot_keeps_are_counted_until_it_ends(
    db: Database, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if language == "another":
        monkeypatch.setattr(vacuum, "_KEPT", re.compile("Tupel"))
    report = load(db, make_chunks(range(20)), tenant=f"kept-{language}")
    target = ChunkSet(report.chunk_set_id, CHUNK_SET, DIMENSION)
    with db.admin() as old:
        old.execute("set transaction isolation level repeatable read")
        old.execute("select 1")
        assert load(db, make_chunks(range(5)), tenant=f"kept-{language}", vectors=make_vectors(20)[:5]).deleted == 15
        assert vacuum_partition(db, target, report.tenant_id) == 15
    assert vacuum_partition(db, target, report.tenant_id) == 0


def test_a_report_is_read_for_the_partition_alone_and_with_what_was_missed() -> None:
    mine = (
        'finished vacuuming "z.zeroth.chunk_1_t1": index scans: 1\npages: 0 removed, 3 remain, 3 scanned\n'
        "tuples: 7 removed, 20 remain, 2 are dead but not yet removable\n"
        "tuples missed: 3 dead from 1 pages not removed due to cleanup lock contention\n"
    )
    toast = mine.replace("zeroth.chunk_1_t1", "pg_toast.pg_toast_1").replace(", 2 are", ", 9 are")
    assert dead_rows_told(["vacuuming ...", toast, mine], "zeroth.chunk_1_t1") == 5
    assert dead_rows_told([toast], "zeroth.chunk_1_t1") is None
    assert dead_rows_told([mine], "zeroth.chunk_1_t12") is None
