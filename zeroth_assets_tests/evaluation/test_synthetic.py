"""The made-up corpus has the sizes, and the overlap, that were asked for."""

from __future__ import annotations

import numpy as np
import pytest

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.synthetic import MIRROR, SEPARATED, SyntheticCorpus, make_corpus, tenant_sizes


def corpus(overlap: float) -> SyntheticCorpus:
    return make_corpus(rows=12_000, tenants=40, overlap=overlap, seed=3)


def centroid_cosine(made: SyntheticCorpus) -> float:
    centroids = np.array([made.vectors(t).mean(axis=0) for t in range(len(made.sizes))])
    centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
    return float((centroids @ centroids.T)[np.triu_indices(len(centroids), 1)].mean())


@pytest.mark.parametrize(("rows", "tenants", "smallest"), [(1_000_000, 300, 50), (30_000, 60, 50), (2_000, 20, 1)])
def test_sizes_sum_to_the_rows_between_the_ends_that_were_asked_for(rows: int, tenants: int, smallest: int) -> None:
    sizes = tenant_sizes(rows, tenants, smallest=smallest, largest=int(0.3 * rows))
    assert len(sizes) == tenants
    assert sum(sizes) == rows
    assert sizes[0] == int(0.3 * rows)
    assert smallest <= sizes[-1] <= smallest + 1
    assert list(sizes) == sorted(sizes, reverse=True)


def test_the_dial_moves_tenants_together() -> None:
    assert centroid_cosine(corpus(SEPARATED)) == pytest.approx(0.01, abs=0.05)
    assert centroid_cosine(corpus(MIRROR)) > 0.65


def test_vectors_are_unit_the_same_every_time_and_no_query_is_a_row() -> None:
    made = corpus(MIRROR)
    rows, queries = made.vectors(3), made.queries(3, 20)
    assert np.array_equal(rows, corpus(MIRROR).vectors(3))
    for drawn in (rows, queries, made.questions_about_anything(30)):
        assert drawn.dtype == np.float32
        assert np.linalg.norm(drawn, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert float((queries @ rows.T).max()) < 0.9999
    assert len({q.tobytes() for q in made.questions_about_anything(30)}) == 30


def test_a_corpus_that_cannot_be_is_refused() -> None:
    with pytest.raises(MeasurementError):
        tenant_sizes(100, 50, smallest=50, largest=60)
    with pytest.raises(MeasurementError):
        make_corpus(overlap=1.5)
