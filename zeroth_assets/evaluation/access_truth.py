"""What a principal should get: exact neighbours among the rows that it may read, and the judgment of what it got.

What belongs here: the truth in memory, and recall of answers against it. The grants are read from the ACL as its owner,
so that a policy that lets too much through cannot vouch for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zeroth_assets.errors import MeasurementError, QueryError
from zeroth_assets.evaluation.access_probe import AccessAnswer
from zeroth_assets.evaluation.exact import TIE_TOLERANCE, exact_top_k, unit
from zeroth_assets.store.acl import NoTenantError, UnknownPrincipalError
from zeroth_assets.store.connect import Database
from zeroth_assets.store.failures import database_errors
from zeroth_assets.store.read import read_vectors
from zeroth_assets.store.registry import ChunkSet

UNIT_NORM_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class Judged:
    """Of one cell's answers, a value per query. `unknown` rows are of the principal's tenants and not in the truth."""

    recall: NDArray[np.float64]
    rows: NDArray[np.int64]
    cross_tenant_rows: int
    unknown: int


@dataclass(frozen=True, slots=True)
class AccessTruth:
    """The rows that a principal may read, and the exact distances of each query's nearest among them.

    `nearest` is (queries, min(k, rows)), ascending; `keys` identify (tenant, chunk), ascending with `vectors`.
    """

    tenants: NDArray[np.int64]
    chunks: NDArray[np.int64]
    keys: NDArray[np.int64]
    vectors: NDArray[np.float32]
    queries: NDArray[np.float32]
    nearest: NDArray[np.float64]

    @property
    def rows(self) -> int:
        """How many rows the principal may read."""
        return len(self.keys)

    @classmethod
    def read(
        cls, db: Database, chunk_set: ChunkSet, principal: str, queries: NDArray[np.float32], k: int
    ) -> AccessTruth:
        """Read the vectors as `principal` and find each query's k nearest.

        Raises:
            MeasurementError: there is no row to recall.
        """
        stored = read_vectors(db, chunk_set.name, principal, chunk_set.dimension)
        if not len(stored.chunk_ids):
            raise MeasurementError(
                f"Principal {principal!r} can read no row of {chunk_set.name}",
                expected="at least one row to recall",
                remedy="load its tenants",
            )
        tenants, chunks = np.unique(stored.tenant_ids).astype(np.int64), np.unique(stored.chunk_ids)
        keys = _keys(tenants, chunks, stored.tenant_ids.astype(np.int64), stored.chunk_ids)
        order = np.argsort(keys)
        vectors = stored.vectors[order]
        nearest = exact_top_k(vectors, np.arange(len(order), dtype=np.int64), queries, k)
        return cls(
            tenants,
            chunks,
            keys[order],
            unit(vectors, "stored vector"),
            unit(queries, "query vector"),
            nearest.distances,
        )

    def kth_distance(self, k: int) -> NDArray[np.float64]:
        """Of every query's k-th neighbour, or of its last where there are fewer rows."""
        return np.asarray(self.nearest[:, min(k, self.rows) - 1])

    def judge(self, answers: Sequence[AccessAnswer], k: int, granted: NDArray[np.int64]) -> Judged:
        """Recall@k of the answers to the first `len(answers)` queries; a row as near as the k-th neighbour counts.

        A row that the truth does not hold counts as not recalled, and a row that is returned twice counts once.
        """
        count = len(answers)
        sizes = np.array([len(a.chunk_ids) for a in answers], dtype=np.int64)
        tenant_ids = np.concatenate([np.empty(0, np.int64), *(a.tenant_ids for a in answers)])
        chunk_ids = np.concatenate([np.empty(0, np.int64), *(a.chunk_ids for a in answers)])
        query = np.repeat(np.arange(count), sizes)
        foreign = ~np.isin(tenant_ids, granted)
        wanted = _keys(self.tenants, self.chunks, tenant_ids, chunk_ids)
        position = np.minimum(np.searchsorted(self.keys, wanted), self.rows - 1)
        known = self.keys[position] == wanted
        rows, asked = self.vectors[position[known]], self.queries[query[known]]
        distances = 1.0 - (rows.astype(np.float64) * asked.astype(np.float64)).sum(axis=1)
        near = distances <= self.kth_distance(k)[query[known]] + TIE_TOLERANCE
        pairs = np.unique(np.stack([query[known][near], position[known][near]]), axis=1)
        hits = np.bincount(pairs[0], minlength=count)[:count]
        reachable = min(k, self.rows)
        return Judged(
            recall=np.minimum(hits, reachable) / reachable,
            rows=sizes,
            cross_tenant_rows=int(foreign.sum()),
            unknown=int((~known & ~foreign).sum()),
        )


def granted_tenants(db: Database, principal: str) -> dict[int, str]:
    """Tenant id to key of what `principal` is granted, as `zeroth_owner` reads the ACL: no policy is asked.

    Raises:
        UnknownPrincipalError, NoTenantError: there is nothing that it may read.
    """
    with database_errors(f"reading the grants of {principal!r}"), db.owner() as connection:
        grants = connection.execute(
            "select tenant_id, tenant_key from zeroth_acl.grant_ join zeroth.tenant using (tenant_id)"
            " where principal = %s order by tenant_id",
            (principal,),
        ).fetchall()
        known = connection.execute("select from zeroth_acl.principal where principal = %s", (principal,)).fetchone()
    if known is None:
        raise UnknownPrincipalError(
            f"Principal {principal!r} is unknown",
            expected="a principal that is granted at least one tenant",
            found="no grant, now or ever",
            remedy="grant it a tenant first",
        )
    if not grants:
        raise NoTenantError(
            f"Principal {principal!r} has no tenant",
            expected="a principal that is granted at least one tenant",
            found="no grant any more",
            remedy="grant it a tenant first",
        )
    return {int(tenant_id): str(key) for tenant_id, key in grants}


def check_queries(queries: NDArray[np.float32], query_ids: Sequence[str], dimension: int) -> None:
    """Refuse vectors that cannot be asked of this chunk set.

    Raises:
        QueryError: none, of another dimension, not finite, not of unit norm, or ids that do not fit or repeat.
    """
    if queries.ndim != 2 or len(queries) == 0 or queries.shape[1] != dimension:
        raise _bad("do not fit the chunk set", f"at least one row of {dimension} numbers", f"shape {queries.shape}")
    if not np.isfinite(queries).all():
        bad = int(np.flatnonzero(~np.isfinite(queries).all(axis=1))[0])
        raise _bad("are not finite", "no NaN and no infinity", f"one in row {bad}")
    norms = np.linalg.norm(queries.astype(np.float64), axis=1)
    off = np.abs(norms - 1.0)
    if float(off.max()) > UNIT_NORM_TOLERANCE:
        raise _bad("are not of unit norm", f"1 within {UNIT_NORM_TOLERANCE}", f"norm {norms[off.argmax()]:.6f}")
    if len(query_ids) != len(queries) or len(set(query_ids)) != len(query_ids):
        raise _bad("have no ids of their own", f"{len(queries)} distinct ids", f"{len(set(query_ids))}")


def _bad(what: str, expected: str, found: str) -> QueryError:
    return QueryError(
        f"The query vectors {what}",
        expected=expected,
        found=found,
        remedy="embed the queries with the encoder of the index",
    )


def _keys(
    tenants: NDArray[np.int64], chunks: NDArray[np.int64], tenant_ids: NDArray[np.int64], chunk_ids: NDArray[np.int64]
) -> NDArray[np.int64]:
    """One number per (tenant, chunk) pair, -1 where the truth has no such tenant or chunk."""
    tenant = np.minimum(np.searchsorted(tenants, tenant_ids), len(tenants) - 1)
    chunk = np.minimum(np.searchsorted(chunks, chunk_ids), len(chunks) - 1)
    known = (tenants[tenant] == tenant_ids) & (chunks[chunk] == chunk_ids)
    return np.where(known, tenant * len(chunks) + chunk, -1)
