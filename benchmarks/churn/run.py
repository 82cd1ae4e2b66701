"""What churn does to a tenant's HNSW: rows replaced and deleted in place, against an index that is built anew.

    python benchmarks/churn/run.py [--tenants KEY,KEY] [--json FILE]

Takes the real vectors of tenants of the home that ZEROTH_HOME and the other settings name; loads them into a server of
its own, which it removes. Of each tenant, and of all its tenants' rows as one partition, 15 % are held out to replace
others and 50 are the queries. Then 30 % of the rows are updated with held-out vectors (as many as there are, the others
with those of other rows) and 20 % deleted, by the load that the graph uses; VACUUM; and the same rows are loaded into a
partition that never knew others. Last, the ten true neighbours of queries are deleted while an open snapshot keeps
VACUUM from clearing them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.evaluation.bootstrap import mean_ci
from zeroth_assets.evaluation.exact import exact_top_k
from zeroth_assets.search import dense_sql
from zeroth_assets.search.dense import DenseRetriever
from zeroth_assets.search.dense_sql import IndexScan
from zeroth_assets.settings import load_settings
from zeroth_assets.store import server
from zeroth_assets.store.connect import Database, embedded_database, principal_session
from zeroth_assets.store.load import LoadReport, load_tenant
from zeroth_assets.store.migrate import migrate
from zeroth_assets.store.registry import ensure_chunk_set, find_chunk_set
from zeroth_assets.store.vacuum import vacuum_partition

K, QUERIES, UPDATED, DELETED, HELD_OUT = 10, 50, 0.30, 0.20, 0.15
CHUNK_SET = "churn"
Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Rows:
    """Chunks with their vectors, row for row."""

    chunks: pl.DataFrame
    vectors: Vectors

    def taken(self, places: NDArray[np.int64]) -> Rows:
        return Rows(self.chunks[places.tolist()], self.vectors[places])

    @property
    def ids(self) -> NDArray[np.int64]:
        return self.chunks["chunk_id"].to_numpy()


def load(db: Database, tenant: str, rows: Rows) -> LoadReport:
    return load_tenant(
        db,
        chunk_set=CHUNK_SET,
        tenant_key=tenant,
        chunks=rows.chunks,
        vectors=rows.vectors,
        fingerprint={"digest": "churn", "model": "as stored"},
        chunker_version="1",
        build_workers=0,
    )


def answers(db: Database, tenant: str, queries: Vectors, scan: IndexScan | None) -> list[list[int]]:
    """Chunk ids per query: over the tenant's HNSW under this scan, or as the retriever walks it."""
    if scan is None:
        with DenseRetriever(db, CHUNK_SET, fingerprint_digest="churn") as retriever:
            results = [retriever.search(tenant, query, K, path="hnsw") for query in queries]
        untold = sum(len(r.candidates) < K and r.shortfall is None for r in results)
        if untold:
            raise SystemExit(f"{untold} short answers did not say so")
        return [[c.chunk_id for c in result.candidates] for result in results]
    found = []
    with db.app() as connection:
        dense_sql.adapt(connection)
        target = find_chunk_set(connection, CHUNK_SET, None)
        connection.rollback()
        for query in queries:
            with principal_session(connection, tenant):
                tenants = dense_sql.visible_tenants(connection, target)
                dense_sql.apply_settings(connection, scan.settings)
                statement = dense_sql.index_statement(target.table, [t.tenant_id for t in tenants], query, K)
                nodes = dense_sql.scan_nodes(statement.explain(connection))
                if set(nodes) != {dense_sql.BY_DISTANCE}:
                    raise SystemExit(f"not the index alone: {nodes}")
                found.append([hit.chunk_id for hit in statement.run(connection)])
    return found


def judged(found: list[list[int]], live: Rows, queries: Vectors, gone: set[int]) -> dict[str, Any]:
    truth = exact_top_k(live.vectors, live.ids, queries, K).ids
    recalls = [len(set(ids) & set(true.tolist())) / len(true) for ids, true in zip(found, truth, strict=True)]
    interval = mean_ci(recalls, seed=1)
    return {
        "recall": interval.point,
        "low": interval.low,
        "high": interval.high,
        "fewest_rows": min(map(len, found)),
        "short": sum(len(ids) < K for ids in found),
        "deleted_rows_returned": sum(len(gone & set(ids)) for ids in found),
    }


def measured(db: Database, tenant: str, live: Rows, queries: Vectors, gone: set[int]) -> dict[str, Any]:
    scans = {"ef 40": IndexScan(40, 20_000, iterative=False), "ef 100": IndexScan(100, 20_000, iterative=False)}
    return {
        **{name: judged(answers(db, tenant, queries, scan), live, queries, gone) for name, scan in scans.items()},
        "retriever, by HNSW": judged(answers(db, tenant, queries, None), live, queries, gone),
    }


@contextmanager
def snapshot(db: Database) -> Iterator[None]:
    """A reader whose snapshot stays open: nothing that dies meanwhile can be vacuumed."""
    with db.owner() as connection:
        connection.rollback()
        connection.execute("begin isolation level repeatable read")
        connection.execute("select count(*) from zeroth.tenant")
        yield


def churn(db: Database, name: str, every: Rows, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    order = rng.permutation(every.chunks.height)
    queries = every.vectors[order[:QUERIES]]
    held = int(HELD_OUT * len(order))
    spare = every.vectors[order[QUERIES : QUERIES + held]]
    base = every.taken(np.sort(order[QUERIES + held :]))
    count = base.chunks.height
    report = load(db, name, base)
    result: dict[str, Any] = {"rows": count, "before": measured(db, name, base, queries, set())}
    say(f"{name}: {count} rows, index {report.index_seconds:.1f} s")

    turn = rng.permutation(count)
    updated, deleted = turn[: int(UPDATED * count)], turn[int(UPDATED * count) : int((UPDATED + DELETED) * count)]
    vectors = base.vectors.copy()
    lent = np.concatenate([spare, base.vectors[deleted], base.vectors[np.roll(updated, 1)]])
    vectors[updated] = lent[: len(updated)]
    kept = np.setdiff1d(np.arange(count), deleted)
    live = Rows(base.chunks, vectors).taken(kept)
    gone = set(base.ids[deleted].tolist())
    with snapshot(db):
        report = load(db, name, live)
        result["load"] = {"updated": report.updated, "deleted": report.deleted, "dead_rows_kept": report.dead_rows}
        result["churned, not vacuumed"] = measured(db, name, live, queries, gone)
    report = load(db, name, live)
    with db.loader() as connection:
        target = find_chunk_set(connection, CHUNK_SET, None)
    result["dead_after_vacuum"] = vacuum_partition(db, target, report.tenant_id)
    result["churned, vacuumed"] = measured(db, name, live, queries, gone)
    load(db, f"{name}-fresh", live)
    result["built anew"] = measured(db, f"{name}-fresh", live, queries, gone)

    # Now the true neighbours of queries go, and their dead entries stay.
    asked = queries[: min(QUERIES, max(1, live.chunks.height // (4 * K)))]
    nearest = np.unique(exact_top_k(live.vectors, live.ids, asked, K).ids.ravel())
    left = live.taken(np.flatnonzero(~np.isin(live.ids, nearest)))
    with snapshot(db):
        report = load(db, name, left)
        result["true neighbours deleted, not vacuumed"] = {
            "queries": len(asked),
            "deleted": report.deleted,
            "dead_rows_kept": report.dead_rows,
            **measured(db, name, left, asked, gone | set(nearest.tolist())),
        }
    return result


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def tables(results: dict[str, dict[str, Any]]) -> str:
    states = ["before", "churned, not vacuumed", "churned, vacuumed", "built anew"]
    states += ["true neighbours deleted, not vacuumed"]
    heads = ["partition", "state", "HNSW, ef 40: recall@10", "short", "HNSW, ef 100", "short"]
    heads += ["retriever, by HNSW", "short", "deleted rows returned"]
    lines = [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    for name, result in results.items():
        for state in states:
            arms = [result[state][arm] for arm in ("ef 40", "ef 100", "retriever, by HNSW")]
            cells = [f"{a['recall']:.3f} [{a['low']:.3f}, {a['high']:.3f}] | {a['short']}" for a in arms]
            returned = sum(a["deleted_rows_returned"] for a in arms)
            lines.append(f"| {name}, {result['rows']:,} rows | {state} | {' | '.join(cells)} | {returned} |")
    return "\n".join(lines)


def main() -> int:
    """Measure and print; 1 if a deleted row came back, or churn cost more than 0.01 of recall."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenants", help="comma-separated; the two largest of the home if not given")
    parser.add_argument("--chunk-set", default="fixed_512")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results.json")
    options = parser.parse_args()
    store = ArtefactStore(load_settings().state_dir / "artefacts")
    every = store.partitions(f"embeddings_{options.chunk_set}")
    found = {key: rows_of(store, options.chunk_set, key) for key in every}
    largest = sorted(found, key=lambda key: -found[key].chunks.height)[:2]
    parts = {key: found[key] for key in (options.tenants.split(",") if options.tenants else largest)}
    parts[f"{len(found)} tenants as one"] = Rows(
        pl.concat([rows.chunks for rows in found.values()]).unique("chunk_id", maintain_order=True),
        np.concatenate([rows.vectors for rows in found.values()]),
    )
    home = Path(tempfile.mkdtemp(prefix="zeroth-churn-"))
    if os.geteuid() == 0:
        home.chmod(0o711)
    results: dict[str, dict[str, Any]] = {}
    try:
        db = embedded_database(home)
        db.ensure_databases()
        migrate(db)
        ensure_chunk_set(db, CHUNK_SET, next(iter(parts.values())).vectors.shape[1])
        for number, (name, rows) in enumerate(parts.items()):
            results[name] = churn(db, f"part-{number}", rows, options.seed)
            options.json.write_text(json.dumps(results, indent=1) + "\n")
    finally:
        server.destroy(home)
        shutil.rmtree(home, ignore_errors=True)
    print(tables(results))
    arms = ("ef 40", "ef 100", "retriever, by HNSW")
    lost = [
        f"{name}, {arm}: {result['built anew'][arm]['recall'] - result['churned, vacuumed'][arm]['recall']:.3f}"
        for name, result in results.items()
        for arm in arms
        if result["built anew"][arm]["recall"] - result["churned, vacuumed"][arm]["recall"] > 0.01
    ]
    back = sum(
        state[arm]["deleted_rows_returned"]
        for result in results.values()
        for state in result.values()
        if isinstance(state, dict) and "ef 40" in state
        for arm in arms
    )
    print(f"\ndeleted rows returned: {back}; more than 0.01 below a fresh build: {'; '.join(lost) or 'none'}")
    return 1 if back or lost else 0


def rows_of(store: ArtefactStore, chunk_set: str, key: str) -> Rows:
    chunks = store.read_frame(f"chunks_{chunk_set}", key)
    return Rows(chunks, store.read_matrix(f"embeddings_{chunk_set}", key))


if __name__ == "__main__":
    raise SystemExit(main())
