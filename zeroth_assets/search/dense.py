"""The dense arm: the k chunks nearest to a query vector that a principal may see, over the cheapest sound path.

What belongs here: the retriever, what it refuses, and what it does when an index comes back short. The choice of path
is in `dense_route`, the statements in `dense_sql`.

Nothing of a principal is kept between two queries: tenants and builds are asked anew in each query's own transaction,
under the policy, and go along as an explicit predicate, which lets the planner prune. What is kept is the chunk set's
id, the costs, open connections (a principal ends with its transaction) and the names of plan nodes.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import numpy as np
import psycopg
from numpy.typing import NDArray

from zeroth_assets.errors import QueryError
from zeroth_assets.search import dense_sql
from zeroth_assets.search.connections import Connections
from zeroth_assets.search.dense_route import PATHS, Limits, Path, Route, choose_route
from zeroth_assets.search.dense_sql import Hit, Statement, VisibleTenant
from zeroth_assets.search.model import Candidate, Shortfall, ShortfallReason, StageResult
from zeroth_assets.search.path_model import PathCosts
from zeroth_assets.store import acl
from zeroth_assets.store.connect import Database, principal_session
from zeroth_assets.store.failures import database_errors
from zeroth_assets.store.registry import ChunkSet, find_chunk_set
from zeroth_assets.store.rows import UNIT_NORM_TOLERANCE

STAGE = "dense"
_KEPT_PLANS = 512


class DenseRetriever:
    """Searches one chunk set. Safe to call from several threads; close it, or use it as a context manager.

    `fingerprint_digest` is that of the encoder whose query vectors will come; None leaves that to the caller and then
    refuses only indexes that differ from each other. `costs` are used if they are of this index, else paths are chosen
    conservatively (partitions alone) and the result's `plan` says so. `for_measurement` lets the principals ask that a
    measurement has made for itself.

    Raises:
        DatabaseError: no such chunk set, or several of that name and no `dimension`.
    """

    def __init__(
        self,
        db: Database,
        chunk_set: str,
        *,
        fingerprint_digest: str | None,
        costs: PathCosts | None = None,
        dimension: int | None = None,
        limits: Limits | None = None,
        for_measurement: bool = False,
    ) -> None:
        self._for_measurement = for_measurement
        self._connections = Connections(db, dense_sql.adapt)
        with database_errors(f"opening chunk set {chunk_set}"), self._connections.borrow() as connection:
            self._chunk_set = find_chunk_set(connection, chunk_set, dimension)
            connection.rollback()
        self._fingerprint = fingerprint_digest
        self._limits = limits or Limits()
        self._unmeasured = "costs not measured, so conservative"
        if costs is not None and not costs.holds_for(chunk_set, self._chunk_set.dimension, fingerprint_digest):
            costs, self._unmeasured = None, "costs are of another index, so conservative"
        self._costs = costs
        self._plans: OrderedDict[tuple[Any, ...], dict[str, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @property
    def chunk_set(self) -> ChunkSet:
        """What is searched."""
        return self._chunk_set

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._connections.close()

    def search(
        self,
        principal: str,
        vector: NDArray[np.float32],
        k: int,
        *,
        path: Path | None = None,
        predicate: bool = True,
    ) -> StageResult:
        """The k nearest chunks by cosine, as `zeroth_app` under `principal`; `score` is the cosine similarity.

        Fewer than k rows always come with a `Shortfall`. `path` overrules the choice by costs; `predicate=False` leaves
        the selection of rows to the policy alone, which gives the same rows and takes longer.

        Raises:
            QueryError: a principal, vector, k or path that is not usable; query and index of different fingerprints.
            DatabaseError: the database failed.
        """
        if not self._for_measurement:
            acl.check_person(principal)
        asked = self._check(vector, k, path)
        began = time.perf_counter()
        with (
            database_errors(f"searching {self._chunk_set.name}"),
            self._connections.borrow() as connection,
            principal_session(connection, principal),
        ):
            tenants = dense_sql.visible_tenants(connection, self._chunk_set)
            self._check_fingerprints(tenants)
            if not tenants:
                return self._nothing(connection, k, began)
            route = self._route(connection, tenants, k, path)
            accessed = time.perf_counter()
            search = _Search(self, connection, asked, k, predicate)
            result = search.along(route, tenants)
        ended = time.perf_counter()
        return StageResult(
            stage=STAGE,
            candidates=_candidates(result.hits),
            shortfall=result.shortfall,
            seconds={"access": accessed - began, "search": ended - accessed, "total": ended - began},
            plan=result.plan,
            degraded=result.degraded,
        )

    def _route(
        self, connection: psycopg.Connection[Any], tenants: tuple[VisibleTenant, ...], k: int, path: Path | None
    ) -> Route:
        # Whether the shared index stands costs a query, so it is asked where the choice hangs on it.
        choose = functools.partial(
            choose_route, tenants, k, costs=self._costs, path=path, limits=self._limits, unmeasured=self._unmeasured
        )
        route = choose(shared=True)
        if route.shared and not dense_sql.shared_stands(connection, self._chunk_set, tenants):
            return choose(shared=False)
        return route

    def nodes_of(
        self, connection: psycopg.Connection[Any], key: tuple[Any, ...], statement: Statement
    ) -> dict[str, int]:
        """The scan nodes of a statement, explained the first time that its shape is met."""
        with self._lock:
            nodes = self._plans.get(key)
            if nodes is not None:
                self._plans.move_to_end(key)
        if nodes is None:
            nodes = dense_sql.scan_nodes(statement.explain(connection))
            with self._lock:
                self._plans[key] = nodes
                while len(self._plans) > _KEPT_PLANS:
                    self._plans.popitem(last=False)
        return nodes

    @property
    def limits(self) -> Limits:
        """What one query may cost at most."""
        return self._limits

    def _nothing(self, connection: psycopg.Connection[Any], k: int, began: float) -> StageResult:
        granted = dense_sql.may_read_any_tenant(connection)
        reason: ShortfallReason = "fewer_rows_than_k" if granted else "no_tenant"
        seconds = time.perf_counter() - began
        return StageResult(STAGE, (), Shortfall(k, 0, reason), {"access": seconds, "total": seconds}, "no partition")

    def _check(self, vector: NDArray[np.float32], k: int, path: Path | None) -> NDArray[np.float32]:
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise QueryError("k is not usable", expected="an integer of at least 1", found=repr(k))
        if path is not None and path not in PATHS:
            raise QueryError(f"There is no path {path!r}", expected=", ".join(PATHS), found=repr(path))
        given = np.asarray(vector)
        if given.dtype.kind != "f" or given.shape != (self._chunk_set.dimension,):
            raise QueryError(
                f"The query vector does not fit {self._chunk_set.name}",
                expected=f"{self._chunk_set.dimension} floating-point numbers",
                found=f"{given.dtype}, shape {given.shape}",
                remedy="embed the query with the encoder of the index",
            )
        norm = float(np.linalg.norm(given.astype(np.float64)))
        if not abs(norm - 1.0) <= UNIT_NORM_TOLERANCE:  # not true of NaN either
            raise QueryError(
                "The query vector is not of unit norm",
                expected=f"finite numbers with a norm of 1 within {UNIT_NORM_TOLERANCE}",
                found=f"norm {norm}",
                remedy="normalise the vector, or embed the query with the encoder of the index",
            )
        return given.astype(np.float32)

    def _check_fingerprints(self, tenants: tuple[VisibleTenant, ...]) -> None:
        live = sorted({t.fingerprint_digest for t in tenants})
        if not live or live == [self._fingerprint] or (self._fingerprint is None and len(live) == 1):
            return
        mine = (
            "one fingerprint for all" if self._fingerprint is None else f"fingerprint {self._fingerprint} (the query)"
        )
        raise QueryError(
            f"Query and index of {self._chunk_set.name} were not embedded alike",
            expected=mine,
            found=f"fingerprint {', '.join(live)} (the index)",
            remedy="embed the query with the encoder of the index, or load the tenants anew",
        )


class _Found:
    __slots__ = ("degraded", "hits", "plan", "shortfall")

    def __init__(self, hits: list[Hit], plan: str, shortfall: Shortfall | None, degraded: str | None) -> None:
        self.hits, self.plan, self.shortfall, self.degraded = hits, plan, shortfall, degraded


class _Search:
    """One query inside its transaction."""

    def __init__(
        self,
        retriever: DenseRetriever,
        connection: psycopg.Connection[Any],
        vector: NDArray[np.float32],
        k: int,
        predicate: bool,
    ) -> None:
        self._retriever, self._connection = retriever, connection
        self._vector, self._k, self._predicate = vector, k, predicate

    def along(self, route: Route, tenants: tuple[VisibleTenant, ...]) -> _Found:
        """Follow the route; where an index comes back short, scan exactly within the limits, or report it."""
        hits: list[Hit] = []
        parts: list[str] = []
        degraded: list[str] = []
        if route.exact:
            hits += self._exact(route.exact, parts, alone=not route.indexed)
        if route.indexed:
            hits += self._walk(route, parts, degraded)
        hits = sorted(hits)[: self._k]
        shortfall = None
        if len(hits) < self._k:
            hits, shortfall = self._short(route, tenants, hits, parts)
        plan = "; ".join([*parts, route.why])
        return _Found(hits, plan, shortfall, "; ".join(degraded) or None)

    def _exact(self, tenants: tuple[VisibleTenant, ...], parts: list[str], *, alone: bool) -> list[Hit]:
        table = self._retriever.chunk_set.table
        # Without the predicate the policy would bring the other tenants' rows too: then one scan must be for all.
        named = self._predicate or not alone
        hits, nodes = self._asked(
            lambda ids: dense_sql.exact_statement(table, ids, self._vector, self._k), ("exact",), tenants, named=named
        )
        parts.append(f"exact over {_partitions(tenants)} [{dense_sql.nodes_text(nodes)}]")
        return hits

    def _walk(self, route: Route, parts: list[str], degraded: list[str]) -> list[Hit]:
        target = self._retriever.chunk_set
        table = target.shared if route.shared else target.table
        # The shared table has nothing to prune, so there the predicate costs a comparison per row and gains nothing
        # but a second opinion on the policy.
        named = bool(self._predicate or route.exact)
        dense_sql.apply_settings(self._connection, route.scan.settings)
        hits, nodes = self._asked(
            lambda ids: dense_sql.index_statement(table, ids, self._vector, self._k),
            ("hnsw", route.shared),
            route.indexed,
            named=named,
            whole=route.shared,
        )
        where = "the shared index" if route.shared else _partitions(route.indexed)
        text = dense_sql.nodes_text(nodes)
        parts.append(f"hnsw over {where}, ef_search {route.scan.ef_search} [{text}]")
        if set(nodes) - {dense_sql.BY_DISTANCE}:
            degraded.append(f"an index is gone, its rows were scanned [{text}]")
        return hits

    def _asked(
        self,
        worded: Callable[[list[int] | None], Statement],
        key: tuple[Any, ...],
        tenants: tuple[VisibleTenant, ...],
        *,
        named: bool,
        whole: bool = False,
    ) -> tuple[list[Hit], dict[str, int]]:
        """Hits by distance and the nodes that read them: in one statement, or in one for each group of partitions."""
        hits: list[Hit] = []
        nodes: Counter[str] = Counter()
        for group in (tenants,) if whole or not named else dense_sql.in_groups(tenants):
            statement = worded([t.tenant_id for t in group] if named else None)
            hits += statement.run(self._connection)
            shape = (*key, named, tuple(t.index_build_id for t in group))
            nodes.update(self._retriever.nodes_of(self._connection, shape, statement))
        return sorted(hits)[: self._k], dict(sorted(nodes.items()))

    def _short(
        self, route: Route, tenants: tuple[VisibleTenant, ...], hits: list[Hit], parts: list[str]
    ) -> tuple[list[Hit], Shortfall | None]:
        if route.indexed:
            recorded = sum(t.rows for t in tenants)
            if recorded > self._retriever.limits.fallback_rows:
                # How many rows the shared table has is nothing that a principal may know.
                bounded = route.shared or max(t.rows for t in route.indexed) > route.scan.max_scan_tuples
                reason: ShortfallReason = "scan_bound_reached" if bounded else "index_exhausted"
                return hits, Shortfall(self._k, len(hits), reason)
            parts.append(f"short by {self._k - len(hits)}, so scanned again")
            dense_sql.apply_settings(self._connection, dense_sql.SCAN_SETTINGS)
            hits = self._exact(tenants, parts, alone=True)
        if len(hits) < self._k:
            return hits, Shortfall(self._k, len(hits), "fewer_rows_than_k")
        return hits, None


def _partitions(tenants: tuple[VisibleTenant, ...]) -> str:
    return f"{len(tenants)} partition{'s' if len(tenants) != 1 else ''}"


def _candidates(hits: list[Hit]) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(chunk_id=hit.chunk_id, tenant_id=hit.tenant_id, rank=rank, score=1.0 - hit.distance)
        for rank, hit in enumerate(hits, start=1)
    )
