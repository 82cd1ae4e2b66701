"""Rows replaced and deleted under a standing index: what it still gives, before and after VACUUM.

That an index which its bound stops short of ten rows says so is in `test_dense`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from zeroth_assets.evaluation.exact import exact_top_k
from zeroth_assets.search import dense_sql
from zeroth_assets.search.dense import DenseRetriever
from zeroth_assets.search.dense_sql import IndexScan
from zeroth_assets.store.connect import Database, principal_session
from zeroth_assets.store.registry import find_chunk_set
from zeroth_assets.store.vacuum import vacuum_partition
from zeroth_assets_tests.store.builders import CHUNK_SET, load, make_chunks, make_vectors, prepared, tenant_id_of

ROWS, DIMENSION, K = 500, 16, 10
QUERIES = make_vectors(20, 9, DIMENSION)
CHUNKS = make_chunks(range(ROWS))
FIRST = make_vectors(ROWS, 1, DIMENSION)
TURN = np.random.default_rng(2).permutation(ROWS)
UPDATED, DELETED = TURN[:150], TURN[150:250]
KEPT = np.sort(np.setdiff1d(np.arange(ROWS), DELETED))


def after_churn() -> tuple[pl.DataFrame, NDArray[np.float32]]:
    """30 % of the rows with other vectors, 20 % gone."""
    vectors = FIRST.copy()
    vectors[UPDATED] = make_vectors(len(UPDATED), 3, DIMENSION)
    return CHUNKS[KEPT.tolist()], vectors[KEPT]


@contextlib.contextmanager
def nothing_is_cleared(db: Database) -> Iterator[None]:
    """A reader whose snapshot stays open: VACUUM has to leave what died meanwhile."""
    with db.owner() as connection:
        connection.rollback()
        connection.execute("begin isolation level repeatable read")
        connection.execute("select count(*) from zeroth.tenant")
        yield


def by_index(db: Database, tenant: str, queries: NDArray[np.float32], ef_search: int = 40) -> list[list[int]]:
    """Chunk ids from the tenant's HNSW alone, which is made sure of."""
    with db.app() as connection:
        dense_sql.adapt(connection)
        target = find_chunk_set(connection, CHUNK_SET, DIMENSION)
        connection.rollback()
        with principal_session(connection, tenant):
            ids = [t.tenant_id for t in dense_sql.visible_tenants(connection, target)]
            dense_sql.apply_settings(connection, IndexScan(ef_search, 20_000, iterative=False).settings)
            found = []
            for query in queries:
                statement = dense_sql.index_statement(target.table, ids, query, K)
                assert set(dense_sql.scan_nodes(statement.explain(connection))) == {dense_sql.BY_DISTANCE}
                found.append([hit.chunk_id for hit in statement.run(connection)])
    return found


def recall(found: list[list[int]], chunks: pl.DataFrame, vectors: NDArray[np.float32]) -> float:
    truth = exact_top_k(vectors, chunks["chunk_id"].to_numpy(), QUERIES[: len(found)], K).ids
    return float(np.mean([len(set(a) & set(t.tolist())) / K for a, t in zip(found, truth, strict=True)]))


@pytest.fixture(scope="module")
def db(module_database: Database) -> Database:
    return prepared(module_database, DIMENSION)


def test_after_churn_and_vacuum_recall_is_that_of_a_fresh_index_and_no_deleted_row_comes_back(db: Database) -> None:
    chunks, vectors = after_churn()
    gone = set(CHUNKS["chunk_id"].to_numpy()[DELETED].tolist())
    load(db, CHUNKS, "churned", vectors=FIRST)
    with nothing_is_cleared(db):
        report = load(db, chunks, "churned", vectors=vectors)
        assert (report.updated, report.deleted, report.vacuumed) == (150, 100, False)
        assert report.dead_rows
        assert not gone & {chunk for ids in by_index(db, "churned", QUERIES) for chunk in ids}
    with db.loader() as connection:
        target = find_chunk_set(connection, CHUNK_SET, DIMENSION)
    assert vacuum_partition(db, target, tenant_id_of(db, "churned")) == 0
    load(db, chunks, "fresh", vectors=vectors)
    churned, fresh = by_index(db, "churned", QUERIES), by_index(db, "fresh", QUERIES)
    assert not gone & {chunk for ids in churned for chunk in ids}
    assert recall(churned, chunks, vectors) >= recall(fresh, chunks, vectors) - 0.01


def test_with_its_true_neighbours_dead_and_not_vacuumed_a_query_still_gets_ten_live_rows(db: Database) -> None:
    query, ids = QUERIES[:1], CHUNKS["chunk_id"].to_numpy()
    truth = exact_top_k(FIRST, ids, query, 100).ids[0].tolist()
    load(db, CHUNKS, "emptied", vectors=FIRST)
    left = np.flatnonzero(~np.isin(ids, truth))
    chunks, vectors = CHUNKS[left.tolist()], FIRST[left]
    with nothing_is_cleared(db):
        assert load(db, chunks, "emptied", vectors=vectors).dead_rows == 100
        # Without an iterative scan the dead entries fill every slot: the false "no evidence".
        assert by_index(db, "emptied", query) == [[]]
        with DenseRetriever(db, CHUNK_SET, fingerprint_digest=None, dimension=DIMENSION) as retriever:
            result = retriever.search("emptied", query[0], K, path="hnsw")
    assert result.shortfall is None
    live = [candidate.chunk_id for candidate in result.candidates]
    assert recall([live], chunks, vectors) == 1.0
    assert not set(truth) & set(live)
