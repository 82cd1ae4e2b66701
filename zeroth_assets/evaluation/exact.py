"""Exact nearest neighbours in NumPy: the truth that an index is measured against.

What belongs here: distances and their order, from vectors in memory. No database: what a planner does cannot reach the
truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zeroth_assets.errors import MeasurementError

# pgvector computes cosine distance from float32 sums, whose rounding may swap rows that differ by less than this.
TIE_TOLERANCE = 1e-6
_BLOCK = 8_000_000  # similarities per block: 32 MB of float32


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The nearest rows of each query, nearest first, equal distances by id, ascending.

    `ids` int64 and `distances` float64 are (queries, min(k, rows)); distances are cosine distances, 1 - cosine.
    """

    ids: NDArray[np.int64]
    distances: NDArray[np.float64]


def exact_top_k(
    vectors: NDArray[np.float32], ids: NDArray[np.int64], queries: NDArray[np.float32], k: int
) -> Neighbours:
    """The k rows nearest to each query by cosine distance, among all rows.

    `vectors` is (n, d), `ids` (n,), distinct; `queries` (q, d). One float32 matrix product per block of queries finds
    the candidates; those within rounding of the k-th are computed again in float64, row by row, so that equal vectors
    have equal distances whatever their place.

    Raises:
        MeasurementError: k < 1, no rows, shapes that do not fit, duplicate ids, or a vector that is zero or not finite.
    """
    if k < 1 or len(vectors) == 0:
        raise MeasurementError(
            "Nearest neighbours cannot be computed",
            expected="k >= 1 and at least one row",
            found=f"k={k}, {len(vectors)} rows",
        )
    if vectors.ndim != 2 or queries.ndim != 2 or vectors.shape[1] != queries.shape[1] or ids.shape != vectors.shape[:1]:
        raise MeasurementError(
            "Vectors and queries do not fit together",
            expected="vectors (n, d), ids (n,), queries (q, d)",
            found=f"{vectors.shape}, {ids.shape}, {queries.shape}",
        )
    if np.unique(ids).size != ids.size:
        raise MeasurementError("Row ids are not distinct", expected=f"{ids.size} ids", found=f"{np.unique(ids).size}")
    rows, asked = unit(vectors, "stored vector"), unit(queries, "query vector")
    count = min(k, len(rows))
    found_ids = np.empty((len(asked), count), dtype=np.int64)
    found_distances = np.empty((len(asked), count), dtype=np.float64)
    step = max(1, _BLOCK // len(rows))
    for start in range(0, len(asked), step):
        similarity = asked[start : start + step] @ rows.T
        reach = np.partition(similarity, len(rows) - count, axis=1)[:, len(rows) - count] - 10 * TIE_TOLERANCE
        for offset, (row, least) in enumerate(zip(similarity, reach, strict=True)):
            candidates = np.flatnonzero(row >= least)
            distances = cosine_distances(rows[candidates], asked[start + offset])
            order = np.lexsort((ids[candidates], distances))[:count]
            found_ids[start + offset] = ids[candidates[order]]
            found_distances[start + offset] = distances[order]
    return Neighbours(found_ids, found_distances)


def cosine_distances(rows: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float64]:
    """1 - cosine of each row with one query, float64; both of unit norm. Equal rows have bit-equal distances."""
    return np.asarray(1.0 - (rows.astype(np.float64) * query.astype(np.float64)).sum(axis=1))


def unit(vectors: NDArray[np.float32], what: str) -> NDArray[np.float32]:
    """The vectors at norm 1.

    Raises:
        MeasurementError: a vector that is zero or not finite; the message names its position.
    """
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
    bad = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
    if bad.size:
        raise MeasurementError(
            f"A {what} has no direction",
            expected="finite numbers, not all zero",
            found=f"norm {norms[bad[0]]} at row {bad[0]}",
        )
    return np.asarray(vectors / norms[:, None], dtype=np.float32)


def recalled(
    returned: NDArray[np.float64], kth_distance: float, *, rows: int, k: int, tolerance: float = TIE_TOLERANCE
) -> float:
    """Share of the k nearest that came back, from the true distances of the rows returned for one query.

    A row counts if it is no farther than the k-th exact neighbour, whichever of several equal rows it is. The
    denominator is min(k, rows): a tenant of 7 rows can be recalled wholly.
    """
    return min(int(np.sum(returned[:k] <= kth_distance + tolerance)), k, rows) / min(k, rows)
