"""The dense retriever on the embedded server: every path against NumPy, and what it does when something is wrong."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from zeroth_assets.errors import MeasurementError, QueryError
from zeroth_assets.search import dense_sql
from zeroth_assets.search.dense import DenseRetriever
from zeroth_assets.search.dense_route import Limits, Path
from zeroth_assets.search.model import StageResult
from zeroth_assets.search.path_costs import measure_path_costs
from zeroth_assets.store.acl import measuring
from zeroth_assets.store.connect import Database
from zeroth_assets.store.read import read_vectors
from zeroth_assets.store.registry import find_chunk_set
from zeroth_assets.store.shared import load_shared
from zeroth_assets_tests.store.builders import CHUNK_SET, load, make_chunks, prepared, tenant_id_of

DIMENSION = 24
PRINT = "print-1"
SIZES = {"rfc-large": 2_000, "rfc-medium": 400, "rfc-small": 7, "rfc-other": 300}
EVERY: tuple[Path, ...] = ("exact", "hnsw", "partitions")


def unit_vectors(rows: int, seed: int) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(30, DIMENSION))
    raw = centres[rng.integers(0, len(centres), rows)] + rng.normal(scale=1.2, size=(rows, DIMENSION))
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True), dtype=np.float32)


QUERIES = unit_vectors(25, seed=900)


def fill(db: Database, tenant: str, numbers: range | list[int], vectors: NDArray[np.float32], **more: Any) -> None:
    load(db, make_chunks(numbers, document=f"doc:{tenant}"), tenant, vectors=vectors, **more)


def grant(db: Database, principal: str, *tenants: str) -> None:
    with db.owner() as connection:
        for tenant in tenants:
            connection.execute(
                "insert into zeroth_acl.grant_ select %s, tenant_id from zeroth.tenant where tenant_key = %s",
                (principal, tenant),
            )


@pytest.fixture(scope="module")
def filled(module_database: Database) -> Database:
    db = prepared(module_database, DIMENSION)
    for seed, (tenant, rows) in enumerate(SIZES.items()):
        fill(db, tenant, range(rows), unit_vectors(rows, seed))
    grant(db, "three", "rfc-large", "rfc-medium", "rfc-small")
    return db


@pytest.fixture(scope="module")
def dense(filled: Database) -> Iterator[DenseRetriever]:
    with DenseRetriever(filled, CHUNK_SET, fingerprint_digest=PRINT) as retriever:
        yield retriever


def truth(db: Database, principal: str, query: NDArray[np.float32], k: int) -> list[int]:
    stored = read_vectors(db, CHUNK_SET, principal, DIMENSION)
    distances = 1 - stored.vectors.astype(np.float64) @ query.astype(np.float64)
    return [int(i) for i in stored.chunk_ids[np.lexsort((stored.chunk_ids, distances))[:k]]]


def ids(result: StageResult) -> list[int]:
    return [candidate.chunk_id for candidate in result.candidates]


def recall(db: Database, dense: DenseRetriever, principal: str, path: Path | None = None, k: int = 10) -> float:
    found = []
    for query in QUERIES:
        expected = set(truth(db, principal, query, k))
        found.append(len(expected & set(ids(dense.search(principal, query, k, path=path)))) / len(expected))
    return float(np.mean(found))


@pytest.mark.parametrize("principal", ["rfc-large", "rfc-small", "three", "all"])
@pytest.mark.parametrize("predicate", [True, False])
def test_the_exact_path_is_numpys_order_with_the_predicate_and_by_the_policy_alone(
    filled: Database, dense: DenseRetriever, principal: str, predicate: bool
) -> None:
    for query in QUERIES[:5]:
        result = dense.search(principal, query, 10, path="exact", predicate=predicate)
        assert ids(result) == truth(filled, principal, query, 10)
        assert [c.rank for c in result.candidates] == list(range(1, len(result.candidates) + 1))
        assert result.plan is not None
        assert "by distance" not in result.plan


@pytest.mark.parametrize("principal", ["rfc-large", "three", "all"])
@pytest.mark.parametrize("predicate", [True, False])
def test_the_index_path_walks_an_index_and_recalls_nearly_all(
    filled: Database, dense: DenseRetriever, principal: str, predicate: bool
) -> None:
    result = dense.search(principal, QUERIES[0], 10, path="hnsw", predicate=predicate)
    assert result.plan is not None
    assert "Index Scan by distance" in result.plan
    assert "Seq Scan" not in result.plan
    assert result.degraded is None
    assert recall(filled, dense, principal, "hnsw") >= 0.99


def test_several_tenants_are_merged_by_distance_whichever_path_each_took(
    filled: Database, dense: DenseRetriever
) -> None:
    result = dense.search("three", QUERIES[1], 50, path="hnsw")
    scores = [c.score for c in result.candidates]
    assert scores == sorted(scores, reverse=True)
    assert len({c.tenant_id for c in result.candidates}) >= 2
    assert len(set(ids(result)) & set(truth(filled, "three", QUERIES[1], 50))) >= 49


@pytest.mark.parametrize("path", ["exact", "hnsw"])
def test_many_tenants_are_named_in_groups_and_merged_to_the_same_rows(
    filled: Database, dense: DenseRetriever, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    whole = [dense.search("three", query, 10, path=path) for query in QUERIES[:3]]
    monkeypatch.setattr(dense_sql, "MOST_NAMED", 2)
    grouped = [dense.search("three", query, 10, path=path) for query in QUERIES[:3]]
    assert [ids(result) for result in grouped] == [ids(result) for result in whole]
    assert [str(result.plan) for result in grouped] == [str(result.plan) for result in whole]


def test_scores_are_cosine_similarities(filled: Database, dense: DenseRetriever) -> None:
    stored = read_vectors(filled, CHUNK_SET, "rfc-large", DIMENSION)
    row = dict(zip(stored.chunk_ids.tolist(), stored.vectors, strict=True))
    for path in EVERY:
        for candidate in dense.search("rfc-large", QUERIES[2], 10, path=path).candidates:
            assert candidate.score == pytest.approx(float(row[candidate.chunk_id] @ QUERIES[2]), abs=1e-5)
            assert candidate.tenant_id == tenant_id_of(filled, "rfc-large")


def test_without_measured_costs_the_plan_says_that_the_choice_is_conservative(dense: DenseRetriever) -> None:
    assert "not measured" in str(dense.search("all", QUERIES[0], 10).plan)


@pytest.mark.parametrize("path", EVERY)
def test_k_above_the_rows_gives_them_all_and_a_shortfall_that_is_complete(dense: DenseRetriever, path: Path) -> None:
    result = dense.search("rfc-small", QUERIES[0], 10, path=path)
    assert len(result.candidates) == 7
    assert result.shortfall is not None
    assert (result.shortfall.reason, result.shortfall.asked, result.shortfall.returned) == ("fewer_rows_than_k", 10, 7)
    assert result.shortfall.complete


@pytest.mark.parametrize("k", [1, 300, 900, 1_500, 3_000])
def test_k_beyond_what_an_index_can_give_is_scanned_exactly(filled: Database, dense: DenseRetriever, k: int) -> None:
    result = dense.search("rfc-large", QUERIES[0], k)
    assert len(result.candidates) == min(k, 2_000)
    assert (result.shortfall is None) == (k <= 2_000)


def test_a_principal_without_a_tenant_gets_nothing_and_is_told_so(dense: DenseRetriever) -> None:
    result = dense.search("nobody-we-know", QUERIES[0], 10)
    assert result.candidates == ()
    assert result.shortfall is not None
    assert result.shortfall.reason == "no_tenant"


def test_a_tenant_granted_but_never_loaded_is_complete_with_no_row(filled: Database, dense: DenseRetriever) -> None:
    with filled.loader() as connection:
        connection.execute("select zeroth.register_tenant('rfc-unloaded')")
        connection.commit()
    result = dense.search("rfc-unloaded", QUERIES[0], 10)
    assert result.shortfall is not None
    assert (result.shortfall.reason, result.candidates) == ("fewer_rows_than_k", ())


_UNIT = QUERIES[0]
_BAD_VECTORS = {
    "short": _UNIT[:-1],
    "matrix": _UNIT[None, :],
    "whole numbers": np.eye(DIMENSION, dtype=np.int64)[0],
    "not unit": _UNIT * 2,
    "zero": np.zeros(DIMENSION, np.float32),
    "NaN": np.where(np.arange(DIMENSION) == 3, np.nan, _UNIT).astype(np.float32),
    "infinite": np.where(np.arange(DIMENSION) == 3, np.inf, _UNIT).astype(np.float32),
}


@pytest.mark.parametrize("kind", _BAD_VECTORS)
def test_a_vector_that_cannot_be_a_query_is_refused(dense: DenseRetriever, kind: str) -> None:
    with pytest.raises(QueryError, match="vector"):
        dense.search("all", _BAD_VECTORS[kind], 10)


@pytest.mark.parametrize("k", [0, -1, True, 2.0, None])
def test_a_k_that_is_no_positive_integer_is_refused(dense: DenseRetriever, k: Any) -> None:
    with pytest.raises(QueryError, match="k is not usable"):
        dense.search("all", _UNIT, k)


@pytest.mark.parametrize("principal", ["", "a\nb", "x" * 201])
def test_a_malformed_principal_is_refused(dense: DenseRetriever, principal: str) -> None:
    with pytest.raises(QueryError, match="principal"):
        dense.search(principal, _UNIT, 10)


def test_a_measurements_principal_is_nobody_who_asks(filled: Database, dense: DenseRetriever) -> None:
    with measuring(filled, {"measure.one": ["rfc-small"]}), pytest.raises(QueryError, match=r"measure\."):
        dense.search("measure.one", _UNIT, 10)


def test_a_path_that_does_not_exist_is_refused(dense: DenseRetriever) -> None:
    path: Any = "magic"
    with pytest.raises(QueryError, match="path"):
        dense.search("all", _UNIT, 10, path=path)


def test_another_fingerprint_than_the_indexs_is_refused_naming_both(filled: Database) -> None:
    with (
        DenseRetriever(filled, CHUNK_SET, fingerprint_digest="print-2") as dense,
        pytest.raises(QueryError, match=r"print-2[\s\S]*print-1"),
    ):
        dense.search("rfc-small", _UNIT, 10)


def test_indexes_of_different_fingerprints_are_never_searched_together(fresh_database: Database) -> None:
    db = prepared(fresh_database, DIMENSION)
    fill(db, "rfc-a", range(20), unit_vectors(20, 1))
    fill(db, "rfc-b", range(20), unit_vectors(20, 2), fingerprint={"digest": "print-2"})
    with DenseRetriever(db, CHUNK_SET, fingerprint_digest=None) as dense:
        assert len(dense.search("rfc-b", _UNIT, 10).candidates) == 10
        with pytest.raises(QueryError, match=r"print-1, print-2"):
            dense.search("all", _UNIT, 10)


def test_a_revoked_tenant_is_gone_for_the_next_query(fresh_database: Database) -> None:
    db = prepared(fresh_database, DIMENSION)
    for seed, tenant in enumerate(("rfc-a", "rfc-b")):
        fill(db, tenant, range(20), unit_vectors(20, seed))
    grant(db, "both", "rfc-a", "rfc-b")
    gone = tenant_id_of(db, "rfc-b")
    with DenseRetriever(db, CHUNK_SET, fingerprint_digest=PRINT) as dense:
        assert gone in {c.tenant_id for c in dense.search("both", _UNIT, 40).candidates}
        with db.owner() as connection:
            connection.execute("delete from zeroth_acl.grant_ where principal = 'both' and tenant_id = %s", (gone,))
        for predicate in (True, False):
            after = dense.search("both", _UNIT, 40, predicate=predicate)
            assert gone not in {c.tenant_id for c in after.candidates}
            assert after.shortfall is not None
            assert after.shortfall.complete


def test_equal_distances_come_in_order_of_chunk_id(fresh_database: Database) -> None:
    db = prepared(fresh_database, DIMENSION)
    fill(db, "rfc-twins", range(40), np.repeat(unit_vectors(4, 3), 10, axis=0))
    with DenseRetriever(db, CHUNK_SET, fingerprint_digest=PRINT) as dense:
        answer = dense.search("rfc-twins", _UNIT, 40, path="exact").candidates
        assert [(-c.score, c.chunk_id) for c in answer] == sorted((-c.score, c.chunk_id) for c in answer)
        cut = ids(dense.search("rfc-twins", _UNIT, 5, path="exact"))
        assert cut == [c.chunk_id for c in answer[:5]]


def delete_rows(db: Database, tenant: str, chunk_ids: list[int]) -> None:
    """As a load does it, without the VACUUM that follows one."""
    with db.loader() as connection:
        tenant_id = tenant_id_of(db, tenant)
        connection.execute("select set_config('zeroth.loading_tenant', %s, true)", (str(tenant_id),))
        connection.execute(
            "delete from zeroth.chunk_1 where tenant_id = %s and chunk_id = any (%s)", (tenant_id, chunk_ids)
        )
        connection.commit()


@pytest.mark.parametrize("path", EVERY)
def test_when_the_true_top_ten_are_deleted_without_vacuum_ten_live_rows_come_back(
    fresh_database: Database, path: Path
) -> None:
    db = prepared(fresh_database, DIMENSION)
    fill(db, "rfc-a", range(1_500), unit_vectors(1_500, 5))
    with DenseRetriever(db, CHUNK_SET, fingerprint_digest=PRINT) as dense:
        gone = truth(db, "rfc-a", _UNIT, 10)
        delete_rows(db, "rfc-a", gone)
        result = dense.search("rfc-a", _UNIT, 10, path=path)
        assert result.shortfall is None
        assert not set(gone) & set(ids(result))
        assert len(set(ids(result)) & set(truth(db, "rfc-a", _UNIT, 10))) >= 9


def test_an_index_full_of_dead_rows_falls_back_or_says_that_it_is_short(fresh_database: Database) -> None:
    db = prepared(fresh_database, DIMENSION)
    fill(db, "rfc-a", range(1_500), unit_vectors(1_500, 5))
    delete_rows(db, "rfc-a", truth(db, "rfc-a", _UNIT, 1_488))
    with DenseRetriever(db, CHUNK_SET, fingerprint_digest=PRINT, limits=Limits(scan_tuples=1)) as dense:
        result = dense.search("rfc-a", _UNIT, 10, path="hnsw")
        assert ids(result) == truth(db, "rfc-a", _UNIT, 10)
        assert "scanned again" in str(result.plan)
    with DenseRetriever(db, CHUNK_SET, fingerprint_digest=PRINT, limits=Limits(1, 1, 0)) as dense:
        result = dense.search("rfc-a", _UNIT, 10, path="hnsw")
        assert len(result.candidates) < 10
        assert result.shortfall is not None
        assert result.shortfall.reason == "scan_bound_reached"
        assert not result.shortfall.complete


def test_an_index_that_is_gone_is_scanned_and_said_to_be(fresh_database: Database) -> None:
    db = prepared(fresh_database, DIMENSION)
    fill(db, "rfc-a", range(200), unit_vectors(200, 5))
    with db.owner() as connection:
        row = connection.execute("select index_name from zeroth.index_build").fetchone()
        assert row is not None
        connection.execute(f"drop index zeroth.{row[0]}")
    with DenseRetriever(db, CHUNK_SET, fingerprint_digest=PRINT) as dense:
        result = dense.search("rfc-a", _UNIT, 10, path="hnsw")
    assert ids(result) == truth(db, "rfc-a", _UNIT, 10)
    assert "index is gone" in str(result.degraded)


def test_a_connection_that_the_server_closed_is_replaced(filled: Database, dense: DenseRetriever) -> None:
    dense.search("rfc-small", _UNIT, 5)
    with filled.admin(autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where usename = 'zeroth_app' and datname = current_database()"
        )
    assert len(dense.search("rfc-small", _UNIT, 5).candidates) == 5


def test_callers_at_once_get_their_own_principals_rows(filled: Database, dense: DenseRetriever) -> None:
    tenants = {tenant: tenant_id_of(filled, tenant) for tenant in SIZES}
    wrong: list[int] = []

    def ask(tenant: str) -> None:
        for query in QUERIES[:8]:
            answer = dense.search(tenant, query, 5).candidates
            wrong.extend(c.chunk_id for c in answer if c.tenant_id != tenants[tenant])

    threads = [threading.Thread(target=ask, args=(tenant,)) for tenant in SIZES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_nothing_of_a_principal_outlives_the_query(filled: Database, dense: DenseRetriever) -> None:
    dense.search("all", _UNIT, 5, path="hnsw")
    target = None
    with filled.app() as connection:
        target = find_chunk_set(connection, CHUNK_SET)
    with dense._connections.borrow() as connection:  # the one that was just given back
        row = connection.execute(f"select count(*) from zeroth.chunk_{target.chunk_set_id}").fetchone()
        settings = connection.execute("select current_setting('enable_seqscan'), current_setting('enable_sort')")
        assert (row, settings.fetchone()) == ((0,), ("on", "on"))
        connection.rollback()


def test_measured_costs_choose_a_path_and_are_said_to(filled: Database) -> None:
    seen: list[tuple[int, int]] = []
    costs = measure_path_costs(
        filled,
        CHUNK_SET,
        queries=QUERIES[:5],
        measured_at=datetime(2026, 1, 1, tzinfo=UTC),
        progress=lambda done, total: seen.append((done, total)),
    )
    assert [p.rows for p in costs.sizes] == sorted(SIZES.values())
    assert costs.widths[-1].share == 1.0
    assert seen[-1][0] == seen[-1][1]
    assert costs.sizes[-1].recall is not None
    assert costs.sizes[-1].recall >= 0.99
    with DenseRetriever(filled, CHUNK_SET, fingerprint_digest=PRINT, costs=costs) as dense:
        assert "measured costs" in str(dense.search("all", _UNIT, 10).plan)
        assert recall(filled, dense, "all") >= 0.99
    other = dataclasses.replace(costs, fingerprint_digest="print-9")
    with DenseRetriever(filled, CHUNK_SET, fingerprint_digest=PRINT, costs=other) as dense:
        assert "of another index" in str(dense.search("all", _UNIT, 10).plan)


def test_costs_of_nothing_cannot_be_measured(filled: Database) -> None:
    when = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(MeasurementError, match="sees no tenant"):
        measure_path_costs(filled, CHUNK_SET, queries=QUERIES, measured_at=when, principal="nobody-we-know")
    with pytest.raises(MeasurementError, match="cannot be measured"):
        measure_path_costs(filled, CHUNK_SET, queries=QUERIES[:0], measured_at=when)


@pytest.fixture(scope="module")
def with_shared(filled: Database) -> Database:
    load_shared(filled, CHUNK_SET)
    return filled


@pytest.mark.parametrize("principal", ["all", "three", "rfc-medium"])
@pytest.mark.parametrize("predicate", [True, False])
def test_the_shared_index_gives_k_rows_to_wide_and_to_narrow_principals(
    with_shared: Database, dense: DenseRetriever, principal: str, predicate: bool
) -> None:
    found = []
    for query in QUERIES:
        result = dense.search(principal, query, 10, path="shared", predicate=predicate)
        assert len(result.candidates) == 10
        assert "the shared index" in str(result.plan)
        assert "Index Scan by distance" in str(result.plan)
        scores = [c.score for c in result.candidates]
        assert scores == sorted(scores, reverse=True)
        found.append(len(set(ids(result)) & set(truth(with_shared, principal, query, 10))) / 10)
    assert np.mean(found) >= 0.99


def test_rows_that_no_bounded_walk_reaches_are_scanned_in_their_partitions_or_reported(with_shared: Database) -> None:
    asked: dict[str, Any] = {"fingerprint_digest": PRINT}
    far = -np.mean(read_vectors(with_shared, CHUNK_SET, "rfc-small", DIMENSION).vectors, axis=0)
    far = np.asarray(far / np.linalg.norm(far), dtype=np.float32)
    with DenseRetriever(with_shared, CHUNK_SET, **asked, limits=Limits(shared_scan_tuples=1)) as dense:
        result = dense.search("rfc-small", far, 5, path="shared")
        assert ids(result) == truth(with_shared, "rfc-small", far, 5)
        assert "scanned again" in str(result.plan)
    with DenseRetriever(with_shared, CHUNK_SET, **asked, limits=Limits(1, 1, 0)) as dense:
        result = dense.search("rfc-small", far, 5, path="shared")
        assert len(result.candidates) < 5
        assert result.shortfall is not None
        assert result.shortfall.reason == "scan_bound_reached"


def test_a_shared_index_of_former_builds_is_not_taken(fresh_database: Database) -> None:
    db = prepared(fresh_database, DIMENSION)
    for seed, tenant in enumerate(("rfc-a", "rfc-b")):
        fill(db, tenant, range(300), unit_vectors(300, seed))
    load_shared(db, CHUNK_SET)
    when = datetime(2026, 1, 1, tzinfo=UTC)
    costs = measure_path_costs(db, CHUNK_SET, queries=QUERIES[:3], measured_at=when)
    assert costs.has_shared
    cheap = tuple(dataclasses.replace(p, shared_ms=1e-6) for p in costs.widths)
    with DenseRetriever(
        db, CHUNK_SET, fingerprint_digest=PRINT, costs=dataclasses.replace(costs, widths=cheap)
    ) as dense:
        assert "the shared index" in str(dense.search("all", _UNIT, 10).plan)
        gone = truth(db, "rfc-b", _UNIT, 10)
        kept = [n for n, i in enumerate(make_chunks(range(300), document="doc:rfc-b")["chunk_id"]) if i not in gone]
        fill(db, "rfc-b", kept, unit_vectors(300, 1)[kept])
        after = dense.search("all", _UNIT, 10)
        assert "the shared index" not in str(after.plan)
        assert not set(gone) & set(ids(after))
        with pytest.raises(QueryError, match="no shared index"):
            dense.search("all", _UNIT, 10, path="shared")
        # Whoever may not see the tenant that changed is still served by it.
        assert "the shared index" in str(dense.search("rfc-a", _UNIT, 10, path="shared").plan)


def test_the_walk_of_the_shared_index_goes_on_until_k_rows_of_a_narrow_principal_are_found(
    with_shared: Database, dense: DenseRetriever
) -> None:
    for query in QUERIES[:6]:
        result = dense.search("rfc-small", query, 5, path="shared")
        assert len(result.candidates) == 5
        assert "scanned again" not in str(result.plan)
