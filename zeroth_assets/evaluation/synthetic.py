"""A made-up corpus of any size: tenants of very unequal size whose vectors overlap as much as one asks for.

What belongs here: sizes, vectors and queries, each a function of the seed. No database.

A vector is the unit sum of its tenant's direction, its document's direction and noise. The dial `overlap` is the
expected cosine between two tenants' directions, and the share of documents that are about something which other tenants
write about too. At 0.01 tenants live apart and a query has all its neighbours in one of them. At 0.95 the vectors have
what was measured on embedded contracts, filings and RFCs: a mean cosine of 0.7 to 0.9 between tenants' centroids, and
some 80 % of a row's ten neighbours in its own tenant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zeroth_assets.errors import MeasurementError

SEPARATED, MIDDLE, MIRROR = 0.01, 0.5, 0.95
_TENANT, _DOCUMENT, _NOISE = 0.75, 0.50, 0.43
_ROWS_PER_DOCUMENT = 40
_COMMON_SUBJECTS = 500
_ROWS, _QUERIES, _DIRECTIONS = 0, 1, 2  # streams of randomness


@dataclass(frozen=True, slots=True)
class SyntheticCorpus:
    """`sizes[i]` rows for tenant i, the largest first."""

    sizes: tuple[int, ...]
    dimension: int
    overlap: float
    seed: int

    @property
    def rows(self) -> int:
        """Of all tenants."""
        return sum(self.sizes)

    def vectors(self, tenant: int) -> NDArray[np.float32]:
        """float32 (sizes[tenant], dimension), unit norm."""
        return self._drawn(tenant, self.sizes[tenant], _ROWS)

    def queries(self, tenant: int, count: int) -> NDArray[np.float32]:
        """Questions about the tenant's own documents, none of them a stored row."""
        return self._drawn(tenant, count, _QUERIES)

    def questions_about_anything(self, count: int, salt: int = 0) -> NDArray[np.float32]:
        """Questions about the collection: a tenant is met as often as it has rows."""
        rng = np.random.default_rng((self.seed, _QUERIES, len(self.sizes), salt))
        about = rng.choice(len(self.sizes), size=count, p=np.array(self.sizes) / self.rows)
        return np.concatenate([self._drawn(int(t), 1, _QUERIES, salt=i + 1 + salt) for i, t in enumerate(about)])

    def _drawn(self, tenant: int, count: int, stream: int, salt: int = 0) -> NDArray[np.float32]:
        rng = np.random.default_rng((self.seed, stream, tenant, salt))
        documents = self._documents(tenant)
        own = self._direction(tenant)
        noise = rng.standard_normal((count, self.dimension), dtype=np.float32)
        noise *= np.float32(_NOISE / math.sqrt(self.dimension))
        noise += np.float32(_DOCUMENT) * documents[rng.integers(0, len(documents), count)]
        noise += np.float32(_TENANT) * own
        noise /= np.linalg.norm(noise, axis=1, keepdims=True)
        return noise

    def _direction(self, tenant: int) -> NDArray[np.float32]:
        common = _units(np.random.default_rng((self.seed, _DIRECTIONS)), 1, self.dimension)[0]
        own = _units(np.random.default_rng((self.seed, _DIRECTIONS, tenant)), 1, self.dimension)[0]
        mixed = math.sqrt(self.overlap) * common + math.sqrt(1 - self.overlap) * own
        return np.asarray(mixed / np.linalg.norm(mixed), dtype=np.float32)

    def _documents(self, tenant: int) -> NDArray[np.float32]:
        count = max(1, self.sizes[tenant] // _ROWS_PER_DOCUMENT)
        rng = np.random.default_rng((self.seed, _DIRECTIONS, tenant, 1))
        documents = _units(rng, count, self.dimension)
        subjects = _units(np.random.default_rng((self.seed, _DIRECTIONS, 0, 2)), _COMMON_SUBJECTS, self.dimension)
        shared = rng.random(count) < self.overlap
        documents[shared] = subjects[rng.integers(0, _COMMON_SUBJECTS, int(shared.sum()))]
        return documents


def make_corpus(
    *,
    rows: int = 1_000_000,
    tenants: int = 300,
    smallest: int = 50,
    largest_share: float = 0.3,
    dimension: int = 64,
    overlap: float = MIRROR,
    seed: int = 1,
) -> SyntheticCorpus:
    """A corpus of exactly `rows` rows.

    Raises:
        MeasurementError: no such sizes exist, or a dial outside 0..1.
    """
    if not 0.0 <= overlap <= 1.0 or dimension < 2:
        raise MeasurementError(
            "The corpus cannot be made", expected="overlap in 0..1, dimension >= 2", found=f"{overlap}, {dimension}"
        )
    return SyntheticCorpus(
        tenant_sizes(rows, tenants, smallest=smallest, largest=int(rows * largest_share)), dimension, overlap, seed
    )


def tenant_sizes(rows: int, tenants: int, *, smallest: int, largest: int) -> tuple[int, ...]:
    """Sizes from `largest` down to `smallest` that sum to `rows`: a power law whose logarithm is bent until they do.

    >>> sizes = tenant_sizes(1_000_000, 300, smallest=50, largest=300_000)
    >>> len(sizes), sizes[0], sizes[-1], sum(sizes)
    (300, 300000, 50, 1000000)

    Raises:
        MeasurementError: `rows` cannot be reached with these ends.
    """
    if tenants < 3 or not smallest * (tenants - 1) + largest < rows < largest * (tenants - 1) or smallest < 1:
        raise MeasurementError(
            "No such tenant sizes",
            expected="3 tenants or more, and rows between all-but-one smallest and all-but-one largest",
            found=f"{rows} rows, {tenants} tenants from {smallest} to {largest}",
        )
    place = np.log(np.arange(1, tenants + 1)) / math.log(tenants)
    low, high = 1e-3, 1e3

    def sized(bend: float) -> NDArray[np.int64]:
        log = math.log(largest) + (math.log(smallest) - math.log(largest)) * place**bend
        return np.maximum(np.rint(np.exp(log)), smallest).astype(np.int64)

    for _ in range(200):
        bend = math.sqrt(low * high)
        low, high = (low, bend) if int(sized(bend).sum()) > rows else (bend, high)
    sizes = sized(low)
    # What rounding left (a few rows either way) goes to tenants in the middle, one row each, so that neither end moves.
    left = rows - int(sizes.sum())
    middle = np.arange(1, tenants - 1)
    sizes[middle] += left // len(middle)
    sizes[middle[: left % len(middle)]] += 1
    return tuple(sorted((int(s) for s in sizes), reverse=True))


def _units(rng: np.random.Generator, count: int, dimension: int) -> NDArray[np.float32]:
    drawn = rng.standard_normal((count, dimension))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), dtype=np.float32)
