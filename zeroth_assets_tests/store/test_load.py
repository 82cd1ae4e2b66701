from __future__ import annotations

import threading

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store.connect import Database, principal_session
from zeroth_assets.store.load import load_tenant
from zeroth_assets.store.read import read_vectors, verify_build
from zeroth_assets.store.registry import (
    IndexParameters,
    current_build,
)
from zeroth_assets_tests.store.builders import (
    CHUNK_SET,
    load,
    make_chunks,
    make_vectors,
    prepared,
    stored_rows,
    tenant_id_of,
)


@pytest.fixture(scope="module")
def db(module_database: Database) -> Database:
    """The module's database; every test uses tenants of its own."""
    return prepared(module_database)


def index_definitions(db: Database, tenant_id: int) -> list[str]:
    with db.admin() as connection:
        rows = connection.execute(
            "select indexdef from pg_indexes where schemaname = 'zeroth' and tablename = %s and indexdef ~ 'hnsw'",
            (f"chunk_1_t{tenant_id}",),
        ).fetchall()
    return [row[0] for row in rows]


def test_a_first_load_stores_every_column_and_an_index_of_the_tenants_own(db: Database) -> None:
    chunks, vectors = make_chunks(range(40)), make_vectors(40)
    report = load(db, chunks, tenant="first", inputs={"chunks_fixed_512/first": "abc"})
    assert (report.kind, report.rows, report.added, report.deleted) == ("first", 40, 40, 0)
    assert report.index_bytes > 0
    with db.app() as connection, principal_session(connection, "first"):
        columns = [name for name in chunks.columns if name != "chunk_hash"]
        rows = connection.execute(
            f"select {', '.join(columns)}, chunk_hash, embedding::text, tsv @@ to_tsquery('english', 'frame')"
            " from zeroth.chunk_1 order by ordinal"
        ).fetchall()
    for row, expected, vector in zip(rows, chunks.iter_rows(named=True), vectors, strict=True):
        assert dict(zip(columns, row, strict=False)) == {k: v for k, v in expected.items() if k != "chunk_hash"}
        assert bytes(row[-3]) == expected["chunk_hash"]
        assert np.array_equal(np.array(row[-2][1:-1].split(","), dtype=np.float32), vector)
        assert row[-1] is True
    (definition,) = index_definitions(db, report.tenant_id)
    assert "vector_cosine_ops" in definition
    assert "m='16', ef_construction='64'" in definition
    build = current_build(db, CHUNK_SET, "first")
    assert build is not None
    assert (build.row_count, build.fingerprint_digest, build.inputs) == (
        40,
        "print-1",
        {"chunks_fixed_512/first": "abc"},
    )
    assert build.index_name is not None
    assert build.index_name in definition
    assert build.finished_at > build.started_at


def test_the_same_input_again_writes_nothing(db: Database) -> None:
    first = load(db, make_chunks(range(10)), tenant="same")
    before = stored_rows(db, first.tenant_id)
    second = load(db, make_chunks(range(10)).reverse(), tenant="same", vectors=make_vectors(10)[::-1].copy())
    assert (second.kind, second.added, second.deleted, second.updated, second.unchanged) == ("unchanged", 0, 0, 0, 10)
    assert second.index_build_id == first.index_build_id
    assert stored_rows(db, first.tenant_id) == before


def test_a_changed_input_writes_what_differs(db: Database) -> None:
    load(db, make_chunks(range(10)), tenant="changed")
    chunks = pl.concat([make_chunks(range(2, 9)), make_chunks([9], "two"), make_chunks([20, 21, 22])])
    vectors = np.concatenate([make_vectors(10)[2:], make_vectors(3, seed=7)])
    vectors[0] = make_vectors(1, seed=8)[0]  # chunk 2 keeps its text and gets another vector
    report = load(db, chunks, tenant="changed", vectors=vectors)
    assert (report.kind, report.added, report.deleted, report.updated, report.unchanged) == ("changed", 3, 2, 2, 6)
    assert report.vacuumed
    stored = {row[0]: row[1] for row in stored_rows(db, report.tenant_id)}
    assert stored == dict(zip(chunks["chunk_id"], chunks["text"], strict=True))
    assert verify_build(db, CHUNK_SET, "changed", chunks["chunk_id"].to_numpy()).holds


def test_a_load_says_vacuumed_only_if_no_dead_row_is_left(db: Database) -> None:
    load(db, make_chunks(range(10)), tenant="dead")
    with db.admin() as old:
        old.execute("set transaction isolation level repeatable read")
        old.execute("select 1")
        kept = load(db, make_chunks(range(6)), tenant="dead", vectors=make_vectors(10)[:6])
    assert (kept.deleted, kept.vacuumed, kept.dead_rows) == (4, False, 4)
    freed = load(db, make_chunks(range(5)), tenant="dead", vectors=make_vectors(10)[:5])
    assert (freed.deleted, freed.vacuumed, freed.dead_rows) == (1, True, 0)


def test_a_new_fingerprint_replaces_every_row_and_the_build_tells_it(db: Database) -> None:
    first = load(db, make_chunks(range(6)), tenant="print")
    second = load(db, make_chunks(range(6)), tenant="print", fingerprint={"digest": "print-2"})
    assert (second.updated, second.unchanged) == (6, 0)
    assert second.index_build_id != first.index_build_id
    assert {row[3] for row in stored_rows(db, second.tenant_id)} == {"print-2"}
    build = current_build(db, CHUNK_SET, "print")
    assert build is not None
    assert build.fingerprint == {"digest": "print-2"}


def test_new_index_parameters_rebuild_the_index_and_leave_one(db: Database) -> None:
    first = load(db, make_chunks(range(6)), tenant="rebuilt")
    report = load(db, make_chunks(range(6)), tenant="rebuilt", parameters=IndexParameters(m=4, ef_construction=16))
    assert (report.kind, report.unchanged, report.index_seconds > 0) == ("changed", 6, True)
    (definition,) = index_definitions(db, first.tenant_id)
    assert "m='4', ef_construction='16'" in definition
    load(db, make_chunks(range(6)), tenant="rebuilt", parameters=IndexParameters("none"))
    assert index_definitions(db, first.tenant_id) == []
    build = current_build(db, CHUNK_SET, "rebuilt")
    assert build is not None
    assert (build.index_kind, build.m, build.index_name) == ("none", None, None)


def test_an_index_that_readers_held_is_dropped_by_the_same_command_later(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zeroth_assets.store.load._DROP_ATTEMPTS", 2)
    first = load(db, make_chunks(range(6)), tenant="held")
    poor = IndexParameters(m=2, ef_construction=4)
    with db.app() as reader, principal_session(reader, "held"):
        reader.execute("select count(*) from zeroth.chunk_1").fetchall()
        with pytest.raises(DatabaseError, match="former index could not be dropped"):
            load(db, make_chunks(range(6)), tenant="held", parameters=poor)
    assert len(index_definitions(db, first.tenant_id)) == 2
    again = load(db, make_chunks(range(6)), tenant="held", parameters=poor)
    assert again.kind == "unchanged"
    (definition,) = index_definitions(db, first.tenant_id)
    assert "m='2', ef_construction='4'" in definition


def test_equal_rows_from_other_artefacts_change_what_the_build_stands_on(db: Database) -> None:
    load(db, make_chunks(range(3)), tenant="inputs", inputs={"chunks": "a"})
    report = load(db, make_chunks(range(3)), tenant="inputs", inputs={"chunks": "b"})
    assert report.kind == "unchanged"
    build = current_build(db, CHUNK_SET, "inputs")
    assert build is not None
    assert build.inputs == {"chunks": "b"}


def test_a_tenant_without_chunks_can_be_loaded_and_filled(db: Database) -> None:
    assert load(db, make_chunks([]), tenant="empty").rows == 0
    assert verify_build(db, CHUNK_SET, "empty", np.empty(0, np.int64)).holds
    assert load(db, make_chunks(range(4)), tenant="empty").added == 4
    assert load(db, make_chunks([]), tenant="empty").deleted == 4
    assert load(db, make_chunks([]), tenant="empty").kind == "unchanged"


def test_stored_vectors_are_read_back_bit_for_bit(db: Database) -> None:
    chunks, vectors = make_chunks(range(30)), make_vectors(30, seed=3)
    load(db, chunks, tenant="vectors", vectors=vectors)
    stored = read_vectors(db, CHUNK_SET, "vectors")
    order = np.argsort(chunks["chunk_id"].to_numpy())
    assert np.array_equal(stored.chunk_ids, chunks["chunk_id"].to_numpy()[order])
    assert np.array_equal(stored.vectors, vectors[order])
    assert stored.vectors.dtype == np.float32
    assert read_vectors(db, CHUNK_SET, "nobody").vectors.shape == (0, 8)


def test_verification_names_every_difference(db: Database) -> None:
    chunks = make_chunks(range(5))
    load(db, chunks, tenant="verified")
    ids = chunks["chunk_id"].to_numpy()
    assert verify_build(db, CHUNK_SET, "verified", ids[::-1], fingerprint_digest="print-1").holds
    found = verify_build(db, CHUNK_SET, "verified", ids[1:], fingerprint_digest="print-2")
    assert not found.holds
    assert len(found.differences) == 2
    with db.admin() as connection:
        connection.execute(
            "delete from zeroth.chunk_1 where tenant_id = %s and ordinal = 0", (tenant_id_of(db, "verified"),)
        )
    assert "recorded 5 rows, 4 are there" in verify_build(db, CHUNK_SET, "verified", ids).differences[0]
    assert verify_build(db, CHUNK_SET, "never", ids).differences[0] == "never loaded"


# Two at once ----------------------------------------------------------------------------------------------------------


def test_two_loads_of_one_tenant_queue_and_the_second_has_the_last_word(db: Database) -> None:
    copying, go_on = threading.Event(), threading.Event()

    def hold(stage: str) -> None:
        if stage == "commit":
            copying.set()
            assert go_on.wait(60)

    results: list[str] = []

    def first() -> None:
        results.append(load(db, make_chunks(range(5)), tenant="queue", on_stage=hold).kind)

    def second() -> None:
        results.append(load(db, make_chunks(range(3, 9), "two"), tenant="queue").kind)

    threads = [threading.Thread(target=first)]
    threads[0].start()
    assert copying.wait(60)
    threads.append(threading.Thread(target=second))
    threads[1].start()
    with pytest.raises(DatabaseError, match="loading tenant queue") as caught:
        load(db, make_chunks(range(5)), tenant="queue", lock_wait_seconds=0.2)
    assert "run the same command again" in caught.value.remedy
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert results == ["first", "changed"]
    assert {row[1].split()[0] for row in stored_rows(db, tenant_id_of(db, "queue"))} == {"two"}
    assert len(stored_rows(db, tenant_id_of(db, "queue"))) == 6


def test_two_tenants_are_first_loaded_at_once(db: Database) -> None:
    barrier = threading.Barrier(2)

    def meet(stage: str) -> None:
        if stage == "attach":
            barrier.wait(60)

    failures: list[BaseException] = []

    def run(tenant: str) -> None:
        try:
            load(db, make_chunks(range(20)), tenant=tenant, on_stage=meet)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(f"pair-{i}",)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    for i in range(2):
        assert verify_build(db, CHUNK_SET, f"pair-{i}", make_chunks(range(20))["chunk_id"].to_numpy()).holds


# Property -------------------------------------------------------------------------------------------------------------

step = st.tuples(
    st.sets(st.integers(0, 9), max_size=10),
    st.sampled_from(["one", "two"]),
    st.integers(0, 1),
    st.sampled_from(["print-1", "print-2"]),
    st.sampled_from([(16, 64), (4, 16)]),
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(step, min_size=1, max_size=5))
def test_after_any_sequence_of_loads_the_table_equals_the_last_input(
    db: Database, steps: list[tuple[set[int], str, int, str, tuple[int, int]]]
) -> None:
    for numbers, marker, seed, digest, (m, ef) in steps:
        chunks = make_chunks(sorted(numbers), marker)
        vectors = make_vectors(10, seed)[sorted(numbers)]
        parameters = IndexParameters(m=m, ef_construction=ef)
        report = load_tenant(
            db,
            chunk_set=CHUNK_SET,
            tenant_key="property",
            chunks=chunks,
            vectors=vectors,
            fingerprint={"digest": digest},
            chunker_version="1",
            parameters=parameters,
        )
        expected = sorted(zip(chunks["chunk_id"], chunks["text"], vectors.tolist(), strict=True))
        found = [
            (i, t, [float(np.float32(x)) for x in v[1:-1].split(",")])
            for i, t, v, _ in stored_rows(db, report.tenant_id)
        ]
        assert found == expected
        assert {row[3] for row in stored_rows(db, report.tenant_id)} <= {digest}
        assert report.added + report.updated + report.unchanged == report.rows == len(numbers)
        build = current_build(db, CHUNK_SET, "property")
        assert build is not None
        assert build.is_of(digest, "1", parameters)
        assert len(index_definitions(db, report.tenant_id)) == 1
