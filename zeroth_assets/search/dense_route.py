"""Which way a query goes: scans and indexes of the partitions, or the shared index.

What belongs here: the choice, from the principal's tenants, k and measured costs. No database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from zeroth_assets.errors import QueryError
from zeroth_assets.search.dense_sql import MAX_EF_SEARCH, IndexScan, VisibleTenant
from zeroth_assets.search.path_model import UNMEASURED_EF_SEARCH, UNMEASURED_EXACT_ROWS, PathCosts

Path = Literal["exact", "hnsw", "partitions", "shared"]
PATHS: tuple[Path, ...] = ("exact", "hnsw", "partitions", "shared")
_LEAST_EF_SEARCH = 100


@dataclass(frozen=True, slots=True)
class Limits:
    """What one query may cost at most.

    `scan_tuples` bounds the iterative walk of one partition's index, `shared_scan_tuples` that of the shared one.
    `fallback_rows` is up to how many rows are scanned exactly where an index came back short; beyond it the shortfall
    is reported as it is.
    """

    scan_tuples: int = 20_000
    shared_scan_tuples: int = 40_000
    fallback_rows: int = 200_000


@dataclass(frozen=True, slots=True)
class Route:
    """Tenants whose partitions are scanned, tenants whose indexes are walked, or the shared index for all of them."""

    exact: tuple[VisibleTenant, ...]
    indexed: tuple[VisibleTenant, ...]
    shared: bool
    scan: IndexScan
    why: str


def choose_route(
    tenants: Sequence[VisibleTenant],
    k: int,
    *,
    costs: PathCosts | None,
    path: Path | None,
    shared: bool,
    limits: Limits,
    unmeasured: str = "costs not measured, so conservative",
) -> Route:
    """The route for a principal with these tenants. `path` overrules; `shared` is whether a shared index stands.

    Raises:
        QueryError: `path` is `shared` and none stands.
    """
    why = "asked for" if path not in (None, "partitions") else unmeasured if costs is None else "measured costs"
    if path == "shared":
        if not shared:
            raise QueryError(
                "There is no shared index to search",
                expected="one that holds just the rows of the live builds",
                found="none, or one of other builds",
                remedy="build it anew, or leave the path to the retriever",
            )
        return _shared(tenants, k, costs, limits, why)
    partitions = _partitions(tenants, k, costs, path, limits, why)
    if path is None and costs is not None and shared and k <= MAX_EF_SEARCH:
        over_shared = costs.shared_ms(costs.share(_rows(tenants)))
        over_partitions = costs.partitions_ms([t.rows for t in partitions.exact], [t.rows for t in partitions.indexed])
        if over_shared is not None and over_shared < over_partitions:
            return _shared(tenants, k, costs, limits, why)
    return partitions


def ef_search(k: int, measured: int) -> int:
    """Enough for k rows to come back, and what recall was found to need; pgvector takes 1,000 at most."""
    return min(max(_LEAST_EF_SEARCH, 2 * k, measured), MAX_EF_SEARCH)


def _partitions(
    tenants: Sequence[VisibleTenant], k: int, costs: PathCosts | None, path: Path | None, limits: Limits, why: str
) -> Route:
    threshold = UNMEASURED_EXACT_ROWS if costs is None else costs.exact_rows
    if path == "hnsw":
        threshold = 0
    walked: list[VisibleTenant] = []
    if path != "exact" and k <= MAX_EF_SEARCH:
        # An index cannot give k rows that are not there, and a scan is told apart from a shortfall.
        walked = [t for t in tenants if t.indexed and t.rows > threshold and (path == "hnsw" or t.rows > 2 * k)]
    chosen = {t.tenant_id for t in walked}
    largest = max((t.rows for t in walked), default=0)
    ef = UNMEASURED_EF_SEARCH if costs is None else costs.ef_search(largest)
    return Route(
        exact=tuple(t for t in tenants if t.tenant_id not in chosen),
        indexed=tuple(walked),
        shared=False,
        scan=IndexScan(ef_search(k, ef), limits.scan_tuples),
        why=why,
    )


def _shared(tenants: Sequence[VisibleTenant], k: int, costs: PathCosts | None, limits: Limits, why: str) -> Route:
    ef = UNMEASURED_EF_SEARCH if costs is None else costs.shared_ef_search(costs.share(_rows(tenants)))
    return Route((), tuple(tenants), True, IndexScan(ef_search(k, ef), limits.shared_scan_tuples), why)


def _rows(tenants: Sequence[VisibleTenant]) -> int:
    return sum(t.rows for t in tenants)
