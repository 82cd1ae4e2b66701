from __future__ import annotations

import numpy as np
import pytest

from zeroth_assets.embedding import vector_checks, verify_vectors
from zeroth_assets.embedding.engines import FloatArray
from zeroth_assets.errors import EmbeddingError


@pytest.fixture
def vectors() -> FloatArray:
    rows = np.random.default_rng(7).normal(size=(6, 8))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def test_unit_vectors_pass(vectors: FloatArray) -> None:
    verify_vectors(vectors, 8, rows=6)
    checks = vector_checks(vectors, [512, 3], max_tokens=512)
    assert checks.passed
    assert (checks.rows, checks.dimension, checks.duplicates, checks.truncated) == (6, 8, 0, 0)
    assert checks.norm_deviation_max < 1e-6


def test_no_vectors_pass() -> None:
    verify_vectors(np.zeros((0, 8), dtype=np.float32), 8, rows=0)


@pytest.mark.parametrize(
    ("value", "count"),
    [(np.nan, "not_finite"), (np.inf, "not_finite"), (-np.inf, "not_finite"), (0.0, "zero"), (0.3, "not_unit")],
)
def test_a_bad_row_is_counted_once_and_refused(vectors: FloatArray, value: float, count: str) -> None:
    vectors[2] = value
    counts = vector_checks(vectors).to_dict()
    assert {k for k in ("not_finite", "zero", "not_unit") if counts[k]} == {count}
    assert counts[count] == 1
    with pytest.raises(EmbeddingError, match="cannot be used"):
        verify_vectors(vectors, 8)


def test_a_norm_may_be_off_by_a_thousandth_and_no_more(vectors: FloatArray) -> None:
    verify_vectors((vectors * np.float32(1.0009)), 8)
    with pytest.raises(EmbeddingError):
        verify_vectors((vectors * np.float32(1.0011)), 8)


def test_equal_rows_and_texts_that_did_not_fit_are_counted(vectors: FloatArray) -> None:
    vectors[1] = vectors[0]
    checks = vector_checks(vectors, [510, 512, 513], max_tokens=512)
    assert (checks.duplicates, checks.truncated, checks.passed) == (1, 1, False)


@pytest.mark.parametrize("change", ["rows", "dimension", "dtype", "flat"])
def test_the_wrong_form_is_refused(vectors: FloatArray, change: str) -> None:
    given = {"dtype": vectors.astype(np.float64), "flat": vectors.ravel()}.get(change, vectors)
    with pytest.raises(EmbeddingError, match="wrong form"):
        verify_vectors(given, 9 if change == "dimension" else 8, rows=5 if change == "rows" else None)  # type: ignore[arg-type]
