"""Measuring what each way to the nearest chunks costs, on the index at hand.

What belongs here: the measurement. What is made of it is `path_model`'s, which a retriever reads.

Everything runs as `zeroth_app` under one principal who sees every tenant that is to be measured; a narrower principal
is stood in for by the explicit predicate. An index's time counts only at an ef_search where it reached the target
recall against the exact scan of the same rows, in the same transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from zeroth_assets.errors import MeasurementError
from zeroth_assets.search import dense_sql
from zeroth_assets.search.dense_route import Limits, choose_route, ef_search
from zeroth_assets.search.dense_sql import MAX_EF_SEARCH, Hit, IndexScan, VisibleTenant
from zeroth_assets.search.path_model import PathCosts, SizePoint, WidthPoint, check_points
from zeroth_assets.store.connect import Database, principal_session
from zeroth_assets.store.failures import database_errors
from zeroth_assets.store.registry import EVERYTHING, find_chunk_set

__all__ = ["LADDER", "WIDTHS", "PathCosts", "measure_path_costs"]

LADDER = (100, 200, 400, 800, 1_000)
WIDTHS = (2, 3, 5, 10, 20, 40, 80, 150, 300)
_TIE_TOLERANCE = 1e-6  # float32 sums may swap rows that differ by less
_LIFETIME = 3_600.0
Progress = Callable[[int, int], None]


def measure_path_costs(
    db: Database,
    chunk_set: str,
    *,
    queries: NDArray[np.float32],
    measured_at: datetime,
    principal: str = EVERYTHING,
    dimension: int | None = None,
    k: int = 10,
    target_recall: float = 0.995,
    ladder: Sequence[int] = LADDER,
    widths: Sequence[int] = WIDTHS,
    most_sizes: int = 12,
    repetitions: int = 3,
    seed: int = 0,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> PathCosts:
    """Costs over tenant sizes (up to `most_sizes` tenants, evenly over the logarithm of their rows) and over numbers of
    tenants, drawn by `seed`, each set containing the one before.

    `target_recall` is set above what is to be kept, since it is reached on few queries: with fewer than 30 a recall of
    0.96 has been taken for 1.

    `queries` is float32 (q, dimension), unit norm, of the kind that will be asked. Where no shared index stands, its
    points are None and a retriever keeps to the partitions; so they are below the first number of tenants at which it
    missed the target.

    Raises:
        MeasurementError: no queries, a k that no index can give, or no tenant with rows.
        DatabaseError: the database failed.
    """
    if queries.ndim != 2 or not len(queries) or not 1 <= k <= MAX_EF_SEARCH // 2:
        raise MeasurementError(
            "Path costs cannot be measured",
            expected=f"queries (q, dimension) and k in 1..{MAX_EF_SEARCH // 2}",
            found=f"queries {queries.shape}, k={k}",
        )
    bounds = limits or Limits()
    with database_errors(f"measuring path costs of {chunk_set}"), db.app() as connection:
        dense_sql.adapt(connection)
        target = find_chunk_set(connection, chunk_set, dimension)
        connection.rollback()
        with principal_session(connection, principal):
            tenants = [t for t in dense_sql.visible_tenants(connection, target) if t.rows]
            if not tenants:
                raise MeasurementError(
                    f"Principal {principal!r} sees no tenant with rows in {chunk_set}",
                    expected="a principal who is granted the tenants to be measured",
                    remedy="load tenants, or name another principal",
                )
            fingerprints = {t.fingerprint_digest for t in tenants}
            if len(fingerprints) > 1:
                raise MeasurementError(
                    f"The indexes of {chunk_set} are of different fingerprints",
                    expected="one",
                    found=", ".join(sorted(fingerprints)),
                    remedy="load the tenants anew under one encoder",
                )
            described: dict[str, Any] = {
                "chunk_set": chunk_set,
                "dimension": target.dimension,
                "fingerprint_digest": next(iter(fingerprints)),
                "k": k,
                "queries": len(queries),
                "target_recall": target_recall,
                "measured_at": measured_at.isoformat(timespec="seconds"),
                "server": _server(connection),
            }
            shared = target.shared if dense_sql.shared_stands(connection, target, tenants) else None
        chosen = _spread(tenants, most_sizes)
        counts = sorted({min(n, len(tenants)) for n in widths if n <= len(tenants)} | {len(tenants)})
        meter = _Meter(connection, target.table, queries, k, target_recall, ladder, repetitions, progress)
        meter.total = len(chosen) + len(counts)
        sizes: list[SizePoint] = []
        points: list[WidthPoint] = []
        # A transaction for each: a principal's claim expires.
        for tenant in chosen:
            with principal_session(connection, principal, lifetime=_LIFETIME):
                sizes.append(meter.size(tenant, bounds))
        by_size = PathCosts(**described, sizes=tuple(sizes), widths=())
        order = np.random.default_rng(seed).permutation(len(tenants))
        # From wide to narrow: where the shared index misses its recall, nothing narrower is trusted to it, and walking
        # it would only take long.
        for count in reversed(counts):
            some = [tenants[i] for i in sorted(order[:count])]
            with principal_session(connection, principal, lifetime=_LIFETIME):
                point = meter.width(some, tenants, by_size, shared, bounds)
            points.insert(0, point)
            if point.shared_recall is not None and point.shared_recall < target_recall:
                shared = None
    check_points(sizes, points)
    return PathCosts(**described, sizes=tuple(sizes), widths=tuple(points))


class _Meter:
    """Asks and times, within one transaction."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        table: sql.Identifier,
        queries: NDArray[np.float32],
        k: int,
        target: float,
        ladder: Sequence[int],
        repetitions: int,
        progress: Progress | None,
    ) -> None:
        self._connection, self._table, self._queries, self._k = connection, table, queries, k
        self._target, self._ladder = target, sorted(ladder)
        self._repetitions, self._progress = max(repetitions, 1), progress
        self.done = self.total = 0

    def size(self, tenant: VisibleTenant, limits: Limits) -> SizePoint:
        """One tenant's partition, both ways."""
        ids = [tenant.tenant_id]
        exact_ms, truth = self._timed(lambda q: self._exact(ids, q))
        ms, ef, recall = None, None, None
        if tenant.indexed:
            ms, ef, recall = self._climb(self._table, ids, truth, limits.scan_tuples)
        self._step()
        return SizePoint(tenant.rows, exact_ms, ms, ef, recall)

    def width(
        self,
        tenants: Sequence[VisibleTenant],
        every: Sequence[VisibleTenant],
        costs: PathCosts,
        shared: sql.Identifier | None,
        limits: Limits,
    ) -> WidthPoint:
        """Several tenants over their partitions, as the retriever would, and over the shared index."""
        route = choose_route(tenants, self._k, costs=costs, path="partitions", shared=False, limits=limits)
        exact, indexed = [t.tenant_id for t in route.exact], [t.tenant_id for t in route.indexed]

        def over_partitions(query: NDArray[np.float32]) -> list[Hit]:
            hits = self._exact(exact, query) if exact else []
            if indexed:
                hits += self._walk(self._table, indexed, query, route.scan)
            return sorted(hits)[: self._k]

        partitions_ms, found = self._timed(over_partitions)
        ids = [t.tenant_id for t in tenants]
        ms, ef, recall = None, None, None
        if shared is not None:
            dense_sql.apply_settings(self._connection, dense_sql.SCAN_SETTINGS)
            truth = [self._exact(ids, query) for query in self._queries] if indexed else found
            ms, ef, recall = self._climb(shared, ids, truth, limits.shared_scan_tuples)
        self._step()
        rows = sum(t.rows for t in tenants)
        return WidthPoint(len(tenants), rows, rows / sum(t.rows for t in every), partitions_ms, ms, ef, recall)

    def _climb(
        self, table: sql.Identifier, ids: list[int], truth: list[list[Hit]], bound: int
    ) -> tuple[float, int, float]:
        """Time and recall one step above the least ef_search that reaches the target, or at the largest.

        The step more is a margin: a query that an index misses wholly is rare, so that few queries do not show it.
        """
        ef, recall, reached = 0, 0.0, False
        for step in self._ladder:
            ef = ef_search(self._k, step)
            answers = (self._walk(table, ids, query, IndexScan(ef, bound)) for query in self._queries)
            recall = float(np.mean([_recalled(a, t) for a, t in zip(answers, truth, strict=True)]))
            if reached:
                break
            reached = recall >= self._target
        ms, _ = self._timed(lambda query: self._walk(table, ids, query, IndexScan(ef, bound)))
        return ms, ef, recall

    def _timed(self, ask: Callable[[NDArray[np.float32]], list[Hit]]) -> tuple[float, list[list[Hit]]]:
        """Milliseconds, the median over queries of each one's best time, and the answers. The best, because whatever
        else the machine does makes a time longer and never shorter; the first asking does not count."""
        seconds, answers = [], []
        for query in self._queries:
            answers.append(ask(query))
            times = []
            for _ in range(self._repetitions):
                dense_sql.apply_settings(self._connection, dense_sql.SCAN_SETTINGS)
                began = time.perf_counter()
                ask(query)
                times.append(time.perf_counter() - began)
            seconds.append(min(times))
        return float(np.median(seconds)) * 1e3, answers

    def _exact(self, ids: list[int], query: NDArray[np.float32]) -> list[Hit]:
        return self._merged(
            dense_sql.exact_statement(self._table, group, query, self._k) for group in dense_sql.in_groups(ids)
        )

    def _walk(self, table: sql.Identifier, ids: list[int], query: NDArray[np.float32], scan: IndexScan) -> list[Hit]:
        # The settings are part of what an index costs; their undoing, which ends with the transaction, is not.
        dense_sql.apply_settings(self._connection, scan.settings)
        groups = dense_sql.in_groups(ids) if table == self._table else (ids,)
        return self._merged(dense_sql.index_statement(table, group, query, self._k) for group in groups)

    def _merged(self, statements: Iterable[dense_sql.Statement]) -> list[Hit]:
        return sorted(hit for statement in statements for hit in statement.run(self._connection))[: self._k]

    def _step(self) -> None:
        self.done += 1
        if self._progress is not None:
            self._progress(self.done, self.total)


def _recalled(answer: list[Hit], truth: list[Hit]) -> float:
    """Share of the exact k that came back; whatever is no farther than the k-th counts."""
    if not truth:
        return 1.0
    reach = truth[-1].distance + _TIE_TOLERANCE
    return min(sum(hit.distance <= reach for hit in answer), len(truth)) / len(truth)


def _spread(tenants: Sequence[VisibleTenant], most: int) -> list[VisibleTenant]:
    """Up to `most` tenants, the smallest and the largest among them, evenly over log(rows)."""
    ordered = sorted(tenants, key=lambda t: (t.rows, t.tenant_id))
    if len(ordered) <= most:
        return ordered
    logs = np.log([t.rows for t in ordered])
    places = {int(np.abs(logs - aim).argmin()) for aim in np.linspace(logs[0], logs[-1], most)}
    return [ordered[i] for i in sorted(places | {len(ordered) - 1})]


def _server(connection: psycopg.Connection[Any]) -> str:
    row = connection.execute(
        "select current_setting('server_version') || ', pgvector '"
        " || coalesce((select extversion from pg_extension where extname = 'vector'), 'absent')"
    ).fetchone()
    assert row is not None
    return f"PostgreSQL {row[0]}"
