"""Many queries through one retriever: ranked runs to be judged, and what each query took.

What belongs here: frames in the shapes that evaluation takes, and quantiles of latency. What is right or wrong is
evaluation's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import polars as pl

from zeroth_assets.errors import MeasurementError
from zeroth_assets.search.retriever import Retriever
from zeroth_assets.search.retriever_model import RetrievalResult

# As `evaluation.metric_tables` takes runs: a document is a chunk, and a score descends with the rank.
RUN_SCHEMA = pl.Schema({"query_id": pl.String, "document_id": pl.String, "score": pl.Float64})
STAGES = ("access", "embedding", "dense", "lexical", "fulltext", "fusion", "re-read", "rerank", "order", "total")
PER_QUERY_SCHEMA = pl.Schema(
    {
        "query_id": pl.String,
        "principal": pl.String,
        "returned": pl.Int64,
        "candidates": pl.Int64,
        "shortfall": pl.String,
        "shortfall_complete": pl.Boolean,
        "abstained": pl.String,
        "degraded": pl.String,
        "best_dense": pl.Float64,
        "best_reranker": pl.Float64,
        "truncated": pl.Int64,
        "plan_dense": pl.String,
        **{f"{stage}_ms": pl.Float64 for stage in STAGES},
    }
)
LATENCY_SCHEMA = pl.Schema(
    {"stage": pl.String, "n": pl.Int64, "p50_ms": pl.Float64, "p95_ms": pl.Float64, "p99_ms": pl.Float64}
)
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class QueryRuns:
    """`run` in RUN_SCHEMA, `per_query` in PER_QUERY_SCHEMA with a row for every query, in the order given.

    `overlaps` are how many of the top 20 the dense and the lexical arm share, per query; empty unless both ran.
    """

    run: pl.DataFrame
    per_query: pl.DataFrame
    overlaps: tuple[int, ...]


def run_queries(
    retriever: Retriever,
    principal: str,
    queries: Sequence[tuple[str, str]],
    *,
    k: int = 50,
    callers: int = 1,
    progress: Progress | None = None,
) -> QueryRuns:
    """Ask `(query id, text)` one after another, or by several callers at once; the first query once more beforehand.

    The run's score is 1 / rank: stages score on scales of their own, and only the order is the answer's.

    Raises:
        MeasurementError: a query id is there twice, or fewer than one caller.
        QueryError, ArtefactError, DatabaseError: as `Retriever.search`; a run with holes is none.
    """
    if len({query_id for query_id, _ in queries}) != len(queries) or callers < 1:
        raise MeasurementError(
            "The queries cannot be run",
            expected="each query id once, and at least one caller",
            found=f"{len(queries)} queries, {len({q for q, _ in queries})} ids, {callers} callers",
        )
    if queries:
        retriever.search(principal, queries[0][1], k)  # opens connections and files, which no later query pays for
    results: list[RetrievalResult] = []
    with ThreadPoolExecutor(callers) as pool:
        for done, result in enumerate(pool.map(lambda query: retriever.search(principal, query[1], k), queries), 1):
            results.append(result)
            if progress is not None:
                progress(done, len(queries))
    named = list(zip((query_id for query_id, _ in queries), results, strict=True))
    run = [
        (query_id, str(one.passage.chunk_id), 1.0 / one.rank) for query_id, result in named for one in result.passages
    ]
    per_query = [_row(query_id, principal, result) for query_id, result in named]
    return QueryRuns(
        run=pl.DataFrame(run, schema=RUN_SCHEMA, orient="row"),
        per_query=pl.DataFrame(per_query, schema=PER_QUERY_SCHEMA, orient="row"),
        overlaps=tuple(shared for _, result in named if (shared := _overlap(result)) is not None),
    )


def latencies(per_query: pl.DataFrame) -> pl.DataFrame:
    """p50, p95 and p99 of each stage that ran, in LATENCY_SCHEMA; arms run side by side, so rows do not add up."""
    rows = []
    for stage in STAGES:
        taken = per_query[f"{stage}_ms"].drop_nulls()
        if len(taken):
            quantiles = (taken.quantile(q, "linear") for q in (0.5, 0.95, 0.99))
            rows.append((stage, len(taken), *quantiles))
    return pl.DataFrame(rows, schema=LATENCY_SCHEMA, orient="row")


def _row(query_id: str, principal: str, result: RetrievalResult) -> tuple[object, ...]:
    trace = result.trace
    plans = {stage.stage: stage.plan for stage in trace.stages}
    return (
        query_id,
        principal,
        len(result.passages),
        len(trace.order),
        None if result.shortfall is None else result.shortfall.reason,
        None if result.shortfall is None else result.shortfall.complete,
        None if result.abstention is None else result.abstention.reason,
        "; ".join(trace.degradations) or None,
        result.best_scores.get("dense"),
        result.best_scores.get("reranker"),
        0 if trace.rerank is None else trace.rerank.truncated,
        plans.get("dense"),
        *(None if (seconds := trace.seconds.get(stage)) is None else seconds * 1e3 for stage in STAGES),
    )


def _overlap(result: RetrievalResult) -> int | None:
    tops = {
        stage.stage: {(c.tenant_id, c.chunk_id) for c in stage.candidates[:20]}
        for stage in result.trace.stages
        if stage.stage in ("dense", "lexical")
    }
    return len(tops["dense"] & tops["lexical"]) if len(tops) == 2 else None
