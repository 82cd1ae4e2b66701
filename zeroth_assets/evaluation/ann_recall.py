"""Recall of a tenant's HNSW index against exact search, over `hnsw.ef_search`, as the role that queries.

What belongs here: the measurement. Its report, and whether it may stand, are in `ann_report`, its picture in `plots`.

Truth is computed in NumPy from the vectors that the principal can read, so no planner can make it approximate. The
index is asked with every other plan switched off, so no exact scan can flatter it, and the plan of each query is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import psycopg
from numpy.typing import NDArray

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.ann_refusals import changed_error, check_input, dead_rows_error, require_build
from zeroth_assets.evaluation.ann_report import FIGURE_SCHEMA, HNSW_NODE, PER_QUERY_SCHEMA, AnnRecallReport
from zeroth_assets.evaluation.bootstrap import mean_ci
from zeroth_assets.evaluation.exact import TIE_TOLERANCE, cosine_distances, exact_top_k, recalled, unit
from zeroth_assets.evaluation.probe import HNSW_FORCED, Answer, IndexProbe, PlanNode, open_probe, vector_literal
from zeroth_assets.store.connect import Database, principal_session
from zeroth_assets.store.failures import database_errors
from zeroth_assets.store.read import read_vectors
from zeroth_assets.store.registry import ChunkSet, IndexBuild, find_chunk_set, live_build
from zeroth_assets.store.vacuum import vacuum_partition

EF_SEARCH = (5, 10, 40, 100, 200, 800)


def measure_ann_recall(
    db: Database,
    *,
    chunk_set: str,
    tenant_key: str,
    queries: NDArray[np.float32],
    seed: int,
    principal: str | None = None,
    dimension: int | None = None,
    fingerprint_digest: str | None = None,
    expected_build: int | None = None,
    ef_search: Sequence[int] = EF_SEARCH,
    k: int = 10,
    repetitions: int = 1,
    resamples: int = 1_000,
    planner_settings: Mapping[str, str] = HNSW_FORCED,
    progress: Callable[[int, int], None] | None = None,
) -> AnnRecallReport:
    """Measure a tenant's index as `zeroth_app` under `principal` (default: the tenant's own).

    `queries` is float32 (q, dimension). `fingerprint_digest`, if given, must be that of the vectors in the index: a
    query of another model has no recall there. `expected_build`, if given, must be the build in force: a figure that
    cites one build is not measured on another. The partition is vacuumed first, since dead entries cost recall. Each
    query runs once unmeasured per ef_search, with its plan read, then `repetitions` times measured. `progress` counts
    queries run.

    Raises:
        MeasurementError: the figure is withheld: no index, no rows, another build, dead rows that VACUUM could not
            clear, a plan without this index, rows that changed under the measurement, a foreign fingerprint, or input
            that is refused.
        QueryError: the principal is not usable.
        DatabaseError: the database failed.
    """
    check_input(queries, ef_search, k, repetitions)
    principal = tenant_key if principal is None else principal
    label = f"{chunk_set}/{tenant_key}"
    with database_errors(f"measuring the index of {label}"), db.app() as connection:
        target = find_chunk_set(connection, chunk_set, dimension)
        connection.rollback()
        build = _build_in_force(connection, target, tenant_key, principal, fingerprint_digest)
        require_build(label, tenant_key, build, expected_build)
        dead = vacuum_partition(db, target, build.tenant_id)
        if dead:
            raise dead_rows_error(label, dead)
        truth = _Truth.of(db, target, build, principal, queries, k)
        counter = _Counter(progress, len(ef_search) * len(queries) * (1 + repetitions))
        role = _current_role(connection)
        with open_probe(
            connection, chunk_set=target, tenant_id=build.tenant_id, principal=principal, settings=planner_settings
        ) as probe:
            passes = [_pass(probe, truth, ef, repetitions, build.index_name, label, counter) for ef in ef_search]
        after = _build_in_force(connection, target, tenant_key, principal, fingerprint_digest)
    if after.index_build_id != build.index_build_id:
        raise changed_error(label, f"build {build.index_build_id} became {after.index_build_id}")
    about = {
        "chunk_set": chunk_set,
        "tenant": tenant_key,
        "principal": principal,
        "role": role,
        "k": k,
        "queries": len(queries),
        "tenant_rows": len(truth.chunk_ids),
        "index_build_id": build.index_build_id,
        "dead_rows": dead,
        "m": build.m,
        "ef_construction": build.ef_construction,
        "seed": seed,
        "resamples": resamples,
    }
    return AnnRecallReport(
        figures=pl.DataFrame([_figure(p, truth, about) for p in passes], schema=FIGURE_SCHEMA),
        per_query=pl.concat([p.per_query for p in passes]),
        build=build,
        tenant_rows=len(truth.chunk_ids),
    )


@dataclass(frozen=True, slots=True)
class _Truth:
    """A tenant's stored vectors, and the distance of each query's k-th exact neighbour among them."""

    chunk_ids: NDArray[np.int64]
    vectors: NDArray[np.float32]
    queries: NDArray[np.float32]
    kth_distance: NDArray[np.float64]
    k: int

    @classmethod
    def of(
        cls, db: Database, target: ChunkSet, build: IndexBuild, principal: str, queries: NDArray[np.float32], k: int
    ) -> _Truth:
        stored = read_vectors(db, target.name, principal, target.dimension)
        mine = stored.tenant_ids == build.tenant_id
        chunk_ids, vectors = stored.chunk_ids[mine], stored.vectors[mine]
        if not len(chunk_ids):
            raise MeasurementError(
                f"Principal {principal!r} can read no row of the tenant",
                expected="at least one row to recall",
                remedy="load the tenant, or grant it to the principal",
            )
        neighbours = exact_top_k(vectors, chunk_ids, queries, k)
        # Rows are ordered by chunk id, which `position` relies on.
        return cls(
            chunk_ids, unit(vectors, "stored vector"), unit(queries, "query vector"), neighbours.distances[:, -1], k
        )

    def recall(self, query: int, returned: NDArray[np.int64]) -> float | None:
        """Of one query's answer; None if it holds a row that the truth does not know, or one row twice."""
        position = np.minimum(np.searchsorted(self.chunk_ids, returned), len(self.chunk_ids) - 1)
        if not np.array_equal(self.chunk_ids[position], returned) or np.unique(returned).size != returned.size:
            return None
        distances = cosine_distances(self.vectors[position], self.queries[query])
        return recalled(
            distances, float(self.kth_distance[query]), rows=len(self.chunk_ids), k=self.k, tolerance=TIE_TOLERANCE
        )


@dataclass(slots=True)
class _Counter:
    """Counts queries run, for whoever watches."""

    progress: Callable[[int, int], None] | None
    total: int
    done: int = 0

    def step(self) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, self.total)


@dataclass(frozen=True, slots=True)
class _Pass:
    """One ef_search over all queries. `seconds` is (repetitions, queries)."""

    ef_search: int
    node: PlanNode
    per_query: pl.DataFrame
    seconds: NDArray[np.float64]


def _pass(
    probe: IndexProbe, truth: _Truth, ef_search: int, repetitions: int, index: str | None, label: str, counter: _Counter
) -> _Pass:
    probe.set_ef_search(ef_search)
    literals = [vector_literal(query) for query in truth.queries]
    answers: list[Answer] = []
    nodes: set[PlanNode] = set()
    for literal in literals:
        nodes.add(probe.plan(literal, truth.k))
        answers.append(probe.ask(literal, truth.k))
        counter.step()
    seconds = np.empty((repetitions, len(literals)))
    for repetition in range(repetitions):
        for number, literal in enumerate(literals):
            answer = probe.ask(literal, truth.k)
            seconds[repetition, number] = answer.seconds
            if not np.array_equal(np.sort(answer.chunk_ids), np.sort(answers[number].chunk_ids)):
                raise changed_error(label, f"query {number} got other rows when asked again")
            counter.step()
    per_query = _per_query(ef_search, truth, answers, seconds, label)
    return _Pass(ef_search, _only(nodes, index, label, ef_search), per_query, seconds)


def _per_query(
    ef_search: int, truth: _Truth, answers: list[Answer], seconds: NDArray[np.float64], label: str
) -> pl.DataFrame:
    rows = []
    for query, answer in enumerate(answers):
        recall = truth.recall(query, answer.chunk_ids)
        if recall is None:
            raise changed_error(label, f"query {query} got a row that was not there when the truth was read")
        kth, latency = float(truth.kth_distance[query]), float(np.median(seconds[:, query])) * 1e3
        rows.append((ef_search, query, recall, len(answer.chunk_ids), kth, latency))
    return pl.DataFrame(rows, schema=PER_QUERY_SCHEMA, orient="row")


def _figure(measured: _Pass, truth: _Truth, about: Mapping[str, Any]) -> dict[str, Any]:
    rows, recalls = measured.per_query["rows"], measured.per_query["recall"].to_numpy()
    # Below k, ef_search rows at most come back: recall cannot exceed their share, and its interval must not.
    reachable = min(measured.ef_search, truth.k, len(truth.chunk_ids)) / min(truth.k, len(truth.chunk_ids))
    interval = mean_ci(
        recalls,
        seed=about["seed"],
        resamples=about["resamples"],
        bounds=(0.0, max(reachable, float(recalls.max()))),
    )
    p50, p95 = np.quantile(measured.seconds, [0.5, 0.95]) * 1e3
    return {
        **about,
        "ef_search": measured.ef_search,
        "recall": interval.point,
        "recall_low": interval.low,
        "recall_high": interval.high,
        "interval_method": interval.method,
        "interval_warning": interval.warning,
        "rows_mean": rows.mean(),
        "rows_min": rows.min(),
        "short_queries": int((rows < min(truth.k, len(truth.chunk_ids))).sum()),
        "empty_queries": int((rows == 0).sum()),
        "latency_p50_ms": float(p50),
        "latency_p95_ms": float(p95),
        "plan_node": measured.node.node,
        "index_name": measured.node.index,
        "trivial": len(truth.chunk_ids) <= measured.ef_search,
    }


def _only(nodes: set[PlanNode], index: str | None, label: str, ef_search: int) -> PlanNode:
    """The node that every query's plan has, if it is the scan of the tenant's index."""
    if nodes != {PlanNode(HNSW_NODE, index)}:
        raise MeasurementError(
            f"The figure of {label} at ef_search {ef_search} is withheld: a query avoided the index",
            expected=str(PlanNode(HNSW_NODE, index)),
            found=", ".join(sorted(map(str, nodes))),
            remedy="report the plan: with every other path off, the planner should have no choice",
        )
    return next(iter(nodes))


def _build_in_force(
    connection: psycopg.Connection[Any],
    target: ChunkSet,
    tenant_key: str,
    principal: str,
    fingerprint_digest: str | None,
) -> IndexBuild:
    """The tenant's live build as the principal sees it, if its index can be measured."""
    with principal_session(connection, principal):
        build = live_build(connection, target, tenant_key)
    label = f"{target.name}/{tenant_key}"
    if build is None:
        raise MeasurementError(
            f"Principal {principal!r} sees no index build of {label}",
            expected="a tenant that is loaded and granted",
            remedy=f"where `zeroth acl list {principal}` names {tenant_key}, run `zeroth materialize --asset"
            f" tenant_index_{target.name} --partition {tenant_key}`; else `zeroth acl grant {principal} {tenant_key}`",
        )
    if build.index_kind != "hnsw" or build.index_name is None:
        raise MeasurementError(
            f"{label} has no HNSW index, so that it has no recall", expected="index kind hnsw", found=build.index_kind
        )
    if fingerprint_digest not in (None, build.fingerprint_digest):
        raise MeasurementError(
            f"The queries were not embedded as the rows of {label} were",
            expected=f"fingerprint {build.fingerprint_digest}",
            found=str(fingerprint_digest),
            remedy="embed the queries with the encoder of the index, or load the tenant anew",
        )
    return build


def _current_role(connection: psycopg.Connection[Any]) -> str:
    row = connection.execute("select current_user").fetchone()
    connection.rollback()
    assert row is not None  # a select without from has one row
    return str(row[0])
