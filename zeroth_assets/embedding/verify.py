"""What a matrix of vectors must be before it is published.

What belongs here: counting what is wrong with a matrix, and refusing one that is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np

from zeroth_assets.embedding.engines import FloatArray
from zeroth_assets.errors import EmbeddingError

NORM_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class VectorChecks:
    """Counts of rows. `duplicates` is for information: equal texts have equal vectors."""

    rows: int
    dimension: int
    not_finite: int
    zero: int
    not_unit: int
    truncated: int
    duplicates: int
    norm_deviation_max: float

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.not_finite or self.zero or self.not_unit or self.truncated)

    def to_dict(self) -> dict[str, int | float]:
        """All counts by name."""
        return asdict(self)


def vector_checks(vectors: FloatArray, token_counts: Iterable[int] = (), max_tokens: int = 512) -> VectorChecks:
    """Count what is wrong: NaN or infinity, zero rows, norms off 1 by more than 0.001, texts that did not fit.

    `token_counts` are those of the texts, special tokens included; a text over `max_tokens` counts as truncated.
    """
    finite = np.isfinite(vectors).all(axis=1)
    norms = np.linalg.norm(np.where(np.isfinite(vectors), vectors, 0).astype(np.float64), axis=1)
    zero = finite & (norms == 0)
    deviation = np.abs(norms - 1)[finite]
    rows = np.ascontiguousarray(vectors)
    unique = len(np.unique(rows.view([("", rows.dtype)] * rows.shape[1]))) if rows.size else len(rows)
    return VectorChecks(
        rows=len(vectors),
        dimension=int(vectors.shape[1]),
        not_finite=int((~finite).sum()),
        zero=int(zero.sum()),
        not_unit=int((finite & ~zero & (np.abs(norms - 1) > NORM_TOLERANCE)).sum()),
        truncated=sum(count > max_tokens for count in token_counts),
        duplicates=len(rows) - unique,
        norm_deviation_max=float(deviation.max()) if len(deviation) else 0.0,
    )


def verify_vectors(vectors: FloatArray, dimension: int, rows: int | None = None) -> None:
    """Refuse a matrix that must not be published.

    Raises:
        EmbeddingError: wrong dtype or shape, NaN, infinity, a zero row, or a norm off 1 by more than 0.001.
    """
    shape = (len(vectors) if rows is None else rows, dimension)
    if vectors.ndim != 2 or vectors.shape != shape or vectors.dtype != np.float32:
        raise EmbeddingError(
            "The vectors have the wrong form",
            expected=f"float32 {shape}",
            found=f"{vectors.dtype} {vectors.shape}",
            remedy="embed the chunks again",
        )
    checks = vector_checks(vectors)
    if not checks.passed:
        raise EmbeddingError(
            "The vectors cannot be used",
            expected="finite rows of unit norm",
            found=f"of {checks.rows}: {checks.not_finite} not finite, {checks.zero} zero, {checks.not_unit} not unit",
            remedy="embed the chunks again; if it stays so, set ZEROTH_ENGINE to torch and ZEROTH_PRECISION to fp32",
        )
