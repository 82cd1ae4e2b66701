"""Exact neighbours: against a loop in float64, with ties and hostile input."""

from __future__ import annotations

import numpy as np
import pytest

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation import exact
from zeroth_assets.evaluation.exact import exact_top_k, recalled

RNG = np.random.default_rng(1)
VECTORS = RNG.normal(size=(700, 24)).astype(np.float32)
IDS = RNG.permutation(np.arange(10_000, 10_700)).astype(np.int64)
QUERIES = RNG.normal(size=(33, 24)).astype(np.float32)


def test_neighbours_equal_those_of_a_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_BLOCK", 2_000)
    found = exact_top_k(VECTORS, IDS, QUERIES, 10)
    for query, ids, distances in zip(QUERIES.astype(np.float64), found.ids, found.distances, strict=True):
        wide = VECTORS.astype(np.float64)
        truth = 1 - wide @ query / np.linalg.norm(wide, axis=1) / np.linalg.norm(query)
        order = np.argsort(truth)[:10]
        assert ids.tolist() == IDS[order].tolist()
        assert distances == pytest.approx(truth[order], abs=1e-6)


def test_equal_vectors_are_ordered_by_id_and_have_equal_distances() -> None:
    vectors = np.concatenate([VECTORS[:50], np.repeat(VECTORS[:1], 8, axis=0)])
    ids = np.arange(len(vectors))[::-1].astype(np.int64)
    found = exact_top_k(vectors, ids, VECTORS[:1], 5)
    assert found.ids[0].tolist() == sorted(ids[[0, *range(50, 58)]].tolist())[:5]
    assert np.unique(found.distances[0]).size == 1


def test_a_tenant_smaller_than_k_gives_all_its_rows() -> None:
    found = exact_top_k(VECTORS[:3], IDS[:3], QUERIES, 10)
    assert found.ids.shape == found.distances.shape == (33, 3)


def test_a_tie_at_the_kth_distance_counts_and_a_miss_does_not() -> None:
    assert recalled(np.array([0.1, 0.2]), 0.2, rows=9, k=2) == 1.0
    assert recalled(np.array([0.2, 0.2]), 0.2, rows=9, k=2) == 1.0
    assert recalled(np.array([0.1, 0.21]), 0.2, rows=9, k=2) == 0.5
    assert recalled(np.array([]), 0.2, rows=9, k=2) == 0.0
    assert recalled(np.array([0.1]), 0.1, rows=1, k=10) == 1.0
    assert recalled(np.array([0.9, 0.1]), 0.2, rows=9, k=1) == 0.0


@pytest.mark.parametrize(
    ("vectors", "ids", "queries", "k", "message"),
    [
        (VECTORS, IDS, QUERIES, 0, "k >= 1"),
        (VECTORS[:0], IDS[:0], QUERIES, 5, "0 rows"),
        (VECTORS, IDS, QUERIES[:, :5], 5, "fit together"),
        (VECTORS, IDS[:5], QUERIES, 5, "fit together"),
        (VECTORS, np.zeros(700, dtype=np.int64), QUERIES, 5, "distinct"),
        (VECTORS, IDS, np.zeros((1, 24), dtype=np.float32), 5, "query vector has no direction"),
        (np.full((1, 24), np.nan, dtype=np.float32), IDS[:1], QUERIES, 5, "stored vector has no direction"),
    ],
)
def test_bad_vectors_are_refused(
    vectors: np.ndarray, ids: np.ndarray, queries: np.ndarray, k: int, message: str
) -> None:
    with pytest.raises(MeasurementError, match=message):
        exact_top_k(vectors, ids, queries, k)
