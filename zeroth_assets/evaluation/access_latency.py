"""The dense retriever's time beside that of the shared index, asked in turns.

What belongs here: taking both times alike, and their table. What a busy machine does to one it does to the other: each
query is asked three times of either, in changing order, principal and settings included, and its best time counts,
because whatever else the machine does makes a time longer and never shorter.

For a single tenant the other side is the unrestricted principal's shared index at ef_search 40; for several tenants it
is the shared index asked as the same principal, at the least ef_search that recalls as much of these queries' exact
neighbours as the retriever does. Both sides go through the same door: a connection that is lent and cleaned, a claim,
and the look at what the principal may see.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zeroth_assets.evaluation.access_grid import Unit
from zeroth_assets.evaluation.access_principals import UNRESTRICTED
from zeroth_assets.search import dense_sql
from zeroth_assets.search.connections import Connections
from zeroth_assets.search.dense import DenseRetriever
from zeroth_assets.search.dense_route import Path
from zeroth_assets.search.dense_sql import Hit, IndexScan
from zeroth_assets.store.acl import list_grants
from zeroth_assets.store.connect import Database, principal_session
from zeroth_assets.store.registry import ChunkSet

K, REPETITIONS = 10, 3
LADDER = (40, 100, 200, 400, 800, 1_000)
MAX_SCAN_TUPLES = 40_000
SCHEMA = pl.Schema(
    [
        ("principal", pl.String),
        ("tenants", pl.Int64),
        ("queries", pl.Int64),
        ("path", pl.String),
        ("retriever_p50_ms", pl.Float64),
        ("retriever_p95_ms", pl.Float64),
        ("shared_ef_search", pl.Int64),
        ("shared_recall", pl.Float64),
        ("shared_p50_ms", pl.Float64),
        ("shared_p95_ms", pl.Float64),
        ("retriever_ms", pl.List(pl.Float64)),
        ("shared_ms", pl.List(pl.Float64)),
    ]
)
Ask = Callable[[NDArray[np.float32]], Any]


def against_shared(
    db: Database,
    retriever: DenseRetriever,
    units: Sequence[Unit],
    progress: Callable[[int, int], None],
    *,
    most_queries: int = 50,
) -> pl.DataFrame:
    """A row per principal in `SCHEMA`, with each query's best times."""
    tenants = {grants.principal: len(grants.tenant_keys) for grants in list_grants(db)}
    rows = []
    connections = Connections(db, dense_sql.adapt)
    with contextlib.closing(connections):
        for done, unit in enumerate(units, start=1):
            count = tenants[unit.principal]
            asker = UNRESTRICTED if count == 1 else unit.principal
            scan, recall = IndexScan(40, MAX_SCAN_TUPLES, iterative=False), None
            asked = unit.asked.vectors[:most_queries]
            if count > 1:
                scan, recall = _tuned(connections, retriever, unit.principal, asked)

            def shared(query: NDArray[np.float32], asker: str = asker, scan: IndexScan = scan) -> list[Any]:
                return _over_shared(connections, retriever.chunk_set, asker, query, scan)

            def dense(query: NDArray[np.float32], principal: str = unit.principal) -> Any:
                return retriever.search(principal, query, K)

            own, others = _in_turns(dense, shared, asked)
            rows.append(
                {
                    "principal": unit.principal,
                    "tenants": count,
                    "queries": len(own),
                    "path": str(dense(asked[0]).plan),
                    "retriever_p50_ms": float(np.quantile(own, 0.5)),
                    "retriever_p95_ms": float(np.quantile(own, 0.95)),
                    "shared_ef_search": scan.ef_search,
                    "shared_recall": recall,
                    "shared_p50_ms": float(np.quantile(others, 0.5)),
                    "shared_p95_ms": float(np.quantile(others, 0.95)),
                    "retriever_ms": own,
                    "shared_ms": others,
                }
            )
            progress(done, len(units))
    return pl.DataFrame(rows, schema=SCHEMA)


def latency_table(frame: pl.DataFrame) -> str:
    """Single tenants together and each principal of several, as Markdown."""
    lines = [
        "| who asks | retriever p50, p95 ms | shared index p50, p95 ms | at ef_search | p95 no worse |",
        "| --- | --- | --- | --- | --- |",
    ]
    single = frame.filter(tenants=1)
    if single.height:
        own, other = (np.concatenate(single[name].to_list()) for name in ("retriever_ms", "shared_ms"))
        held = single.filter(pl.col("retriever_p95_ms") <= pl.col("shared_p95_ms")).height
        lines.append(
            f"| {single.height} single tenants | {_pair(own)} | {_pair(other)} | 40, unrestricted | "
            f"{'yes' if np.quantile(own, 0.95) <= np.quantile(other, 0.95) else 'no'}; for {held} of {single.height} |"
        )
    lines += [
        " | ".join(
            (
                f"| {row['principal']}: {row['tenants']} tenants",
                _pair(row["retriever_ms"]),
                _pair(row["shared_ms"]),
                f"{row['shared_ef_search']}, recall {row['shared_recall']:.3f}",
                f"{'yes' if row['retriever_p95_ms'] <= row['shared_p95_ms'] else 'no'} |",
            )
        )
        for row in frame.filter(pl.col("tenants") > 1).iter_rows(named=True)
    ]
    return "\n".join(lines)


def _pair(times: Any) -> str:
    p50, p95 = np.quantile(times, [0.5, 0.95])
    return f"{p50:.2f}, {p95:.2f}"


def _in_turns(one: Ask, other: Ask, queries: NDArray[np.float32]) -> tuple[list[float], list[float]]:
    best: tuple[list[float], list[float]] = ([], [])
    for query in queries:
        times: tuple[list[float], list[float]] = ([], [])
        for turn in range(REPETITIONS + 1):
            for which in (0, 1) if turn % 2 else (1, 0):
                began = time.perf_counter()
                (one, other)[which](query)
                if turn:
                    times[which].append((time.perf_counter() - began) * 1e3)
        for which in (0, 1):
            best[which].append(min(times[which]))
    return best


def _over_shared(
    connections: Connections, chunk_set: ChunkSet, principal: str, query: NDArray[np.float32], scan: IndexScan
) -> list[Hit]:
    with connections.borrow() as connection, principal_session(connection, principal):
        dense_sql.visible_tenants(connection, chunk_set)
        dense_sql.apply_settings(connection, scan.settings)
        return dense_sql.index_statement(chunk_set.shared, None, query, K).run(connection)


def _tuned(
    connections: Connections, retriever: DenseRetriever, principal: str, queries: NDArray[np.float32]
) -> tuple[IndexScan, float]:
    """The least scan of the shared index that recalls what the retriever does, and its recall."""

    def found(path: Path | None) -> list[set[int]]:
        return [{c.chunk_id for c in retriever.search(principal, q, K, path=path).candidates} for q in queries]

    truth = found("exact")

    def recall_of(answers: list[set[int]]) -> float:
        return float(np.mean([len(a & b) / len(b) for a, b in zip(answers, truth, strict=True)]))

    owed, scan, recall = recall_of(found(None)), IndexScan(LADDER[0], MAX_SCAN_TUPLES), 0.0
    for ef in LADDER:
        scan = IndexScan(ef, MAX_SCAN_TUPLES)
        recall = recall_of(
            [{h.chunk_id for h in _over_shared(connections, retriever.chunk_set, principal, q, scan)} for q in queries]
        )
        if recall >= owed:
            break
    return scan, recall
