"""A throw-away database is filled as a corpus is, and is gone afterwards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psycopg
import pytest

from zeroth_assets.errors import MeasurementError, ZerothError
from zeroth_assets.evaluation.scratch import corpus_vectors, load_vectors, scratch_database
from zeroth_assets.store.connect import Database
from zeroth_assets.store.read import read_vectors
from zeroth_assets.store.registry import ensure_chunk_set
from zeroth_assets_tests.store.builders import make_vectors


def _fill_and_fail(database: Database) -> None:
    vectors = make_vectors(30)
    with scratch_database(database, "scratch_test") as db:
        ensure_chunk_set(db, "bench", vectors.shape[1])
        ids, report = load_vectors(db, "bench", "bench-1", vectors)
        stored = corpus_vectors(db, "bench")
        assert report.rows == 30
        order = np.argsort(ids)
        assert np.array_equal(stored.chunk_ids, ids[order])
        assert np.array_equal(stored.vectors, vectors[order])
        raise KeyError("filled")


def test_what_is_loaded_is_read_back_and_the_database_is_dropped_even_after_a_failure(database: Database) -> None:
    with pytest.raises(KeyError, match="filled"):
        _fill_and_fail(database)
    with pytest.raises((ZerothError, psycopg.Error)):
        read_vectors(database.named("scratch_test"), "bench", "all")


def test_vectors_of_files_have_a_tenant_per_file(database: Database, tmp_path: Path) -> None:
    for name, rows in (("a", 3), ("b", 5)):
        np.save(tmp_path / f"{name}.npy", make_vectors(rows))
    stored = corpus_vectors(database, "bench", str(tmp_path / "*.npy"))
    assert stored.tenant_ids.tolist() == [1] * 3 + [2] * 5
    assert stored.vectors.dtype == np.float32
    with pytest.raises(MeasurementError, match="no vectors"):
        corpus_vectors(database, "bench", str(tmp_path / "*.parquet"))
