"""Other indexes on the one shared table: halfvec, binary quantisation with re-scoring, IVFFlat, beside HNSW.

    ZEROTH_HOME=.zeroth zeroth materialize && python benchmarks/ablations/run.py --home .zeroth
    python benchmarks/ablations/run.py --home .zeroth --rows 2000 --json /tmp/smoke.json

Vectors are those of the home's corpus, with the tenants that they have there, in a throw-away database on the same
server; where there are fewer than `--rows`, each is used again with a little noise. One index at a time stands on the
shared table, under its policy; queries run as `zeroth_app`. Truth is NumPy.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from zeroth_assets.evaluation.bootstrap import mean_ci
from zeroth_assets.evaluation.exact import exact_top_k
from zeroth_assets.evaluation.scratch import corpus_vectors, load_vectors, scratch_database
from zeroth_assets.search import dense_sql
from zeroth_assets.search.dense_sql import BinaryVector, IndexScan
from zeroth_assets.store.connect import Database, embedded_database, principal_session
from zeroth_assets.store.read import StoredVectors
from zeroth_assets.store.registry import ChunkSet, IndexParameters, ensure_chunk_set
from zeroth_assets.store.shared import load_shared

K, M, EF_CONSTRUCTION = 10, 16, 64
CHUNK_SET = "bench"
Vectors = NDArray[np.float32]

_PLAIN = "select chunk_id from {table} order by embedding <=> %(q)s::vector limit 10"
_HALF = "select chunk_id from {table} order by (embedding::halfvec({d})) <=> (%(q)s::vector::halfvec({d})) limit 10"
_BITS = (
    "select chunk_id from (select chunk_id, embedding from {table} order by binary_quantize(embedding)::bit({d})"
    " <~> binary_quantize(%(q)s::vector)::bit({d}) limit {candidates}) c order by embedding <=> %(q)s::vector limit 10"
)


@dataclass(frozen=True, slots=True)
class Arm:
    """An index, a query for it, and settings; `index` is None for the exact scan."""

    name: str
    index: str | None
    query: str = _PLAIN
    settings: Mapping[str, str] = field(default_factory=dict)
    candidates: int = K


def arms(rows: int) -> Iterator[Arm]:
    hnsw = f"with (m = {M}, ef_construction = {EF_CONSTRUCTION})"
    yield Arm("exact scan", None)
    for ef in (40, 100, 200):
        walk = IndexScan(ef, 20_000, iterative=False).settings
        yield Arm(f"HNSW, ef_search {ef}", f"using hnsw (embedding vector_cosine_ops) {hnsw}", settings=walk)
    for ef in (40, 100, 200):
        walk = IndexScan(ef, 20_000, iterative=False).settings
        on = f"using hnsw ((embedding::halfvec({{d}})) halfvec_cosine_ops) {hnsw}"
        yield Arm(f"HNSW on halfvec, ef_search {ef}", on, _HALF, walk)
    for candidates in (40, 100, 200, 400):
        # As many candidates as ef_search gives are re-scored by the whole vector. The outer order needs a sort.
        walk = {**IndexScan(candidates, 20_000, iterative=False).settings, "enable_sort": "on"}
        on = f"using hnsw ((binary_quantize(embedding)::bit({{d}})) bit_hamming_ops) {hnsw}"
        yield Arm(f"HNSW on bits, {candidates} re-scored", on, _BITS, walk, candidates)
    # pgvector's documentation: lists = rows / 1000 up to a million rows, probes = sqrt(lists).
    lists = max(1, rows // 1_000)
    for probes in dict.fromkeys((max(1, round(math.sqrt(lists))), min(lists, 4 * max(1, round(math.sqrt(lists)))))):
        probe = {"ivfflat.probes": str(probes), "enable_seqscan": "off", "enable_sort": "off"}
        on = f"using ivfflat (embedding vector_cosine_ops) with (lists = {lists})"
        yield Arm(f"IVFFlat, {lists} lists, {probes} probes", on, settings=probe)


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def fill(db: Database, stored: StoredVectors, rows: int) -> tuple[ChunkSet, dict[str, NDArray[np.int64]], Vectors]:
    """Every tenant's vectors, again with noise until there are `rows`; ids by tenant, and all vectors in that order."""
    target = ensure_chunk_set(db, CHUNK_SET, stored.vectors.shape[1])
    rng = np.random.default_rng(0)
    times = max(1, math.ceil(rows / len(stored.vectors)))
    ids: dict[str, NDArray[np.int64]] = {}
    every = []
    for tenant_id in np.unique(stored.tenant_ids):
        own = stored.vectors[stored.tenant_ids == tenant_id]
        copies = [own]
        for _ in range(times - 1):
            noisy = own + rng.normal(scale=0.1 / np.sqrt(own.shape[1]), size=own.shape)
            copies.append(np.asarray(noisy / np.linalg.norm(noisy, axis=1, keepdims=True), dtype=np.float32))
        vectors = np.concatenate(copies)
        # Without an index of its own: the shared one is what is looked at.
        ids[f"bench-{tenant_id}"], _ = load_vectors(
            db, CHUNK_SET, f"bench-{tenant_id}", vectors, parameters=IndexParameters(kind="none")
        )
        every.append(vectors)
    return target, ids, np.concatenate(every)


class Bench:
    def __init__(self, db: Database, target: ChunkSet, ids: dict[str, NDArray[np.int64]], vectors: Vectors) -> None:
        self.db, self.target, self.ids, self.vectors = db, target, ids, vectors
        self.all_ids = np.concatenate(list(ids.values()))

    def index(self, arm: Arm, memory_mb: int) -> tuple[float, int]:
        """Replace the shared table's index by this arm's; seconds and bytes."""
        d = self.target.dimension
        with self.db.admin(autocommit=True) as connection:
            for (name,) in connection.execute(
                "select i.indexrelid::regclass::text from pg_index i where indrelid = to_regclass(%s)"
                " and not indisprimary",
                (f"zeroth.shared_{self.target.chunk_set_id}",),
            ).fetchall():
                connection.execute(f"drop index {name}")
            if arm.index is None:
                return 0.0, 0
            connection.execute(f"set maintenance_work_mem = '{memory_mb}MB'")
            connection.execute("set max_parallel_maintenance_workers = 0")
            began = time.perf_counter()
            connection.execute(
                f"create index bench_index on zeroth.shared_{self.target.chunk_set_id} " + arm.index.format(d=d)
            )
            seconds = time.perf_counter() - began
            row = connection.execute("select pg_relation_size('zeroth.bench_index')").fetchone()
            assert row is not None
            return seconds, int(row[0])

    def ask(self, connection: psycopg.Connection[Any], arm: Arm, query: Vectors) -> list[int]:
        text = arm.query.format(
            table=f"zeroth.shared_{self.target.chunk_set_id}", d=self.target.dimension, candidates=arm.candidates
        )
        statement = sql.SQL(text)
        return [r[0] for r in connection.execute(statement, {"q": BinaryVector.of(query)}).fetchall()]

    def run(self, connection: psycopg.Connection[Any], arm: Arm, principal: str, queries: Vectors) -> dict[str, Any]:
        vectors, ids = self.vectors, self.all_ids
        if principal != "all":
            mine = np.isin(ids, self.ids[principal])
            vectors, ids = vectors[mine], ids[mine]
        truth = exact_top_k(vectors, ids, queries, K).ids
        recalls, seconds, empty = [], [], 0
        with principal_session(connection, principal, lifetime=3_600):
            dense_sql.apply_settings(connection, arm.settings)
            for query, wanted in zip(queries, truth, strict=True):
                found = self.ask(connection, arm, query)
                times = []
                for _ in range(3):
                    began = time.perf_counter()
                    self.ask(connection, arm, query)
                    times.append(time.perf_counter() - began)
                seconds.append(min(times))
                recalls.append(len(set(found) & set(wanted.tolist())) / len(wanted))
                empty += not found
        interval = mean_ci(recalls, seed=1)
        p50 = float(np.median(seconds)) * 1e3
        return {"recall": interval.point, "low": interval.low, "high": interval.high, "empty": empty, "p50_ms": p50}


def memory_model(rows: int, dimension: int, measured: Mapping[str, int]) -> list[dict[str, Any]]:
    """Graph bytes per vector (Mmax0 + mL * Mmax) * 4 with Mmax0 = 2M, Mmax = M, mL = 1 / ln M (Malkov and Yashunin
    2016, 4.2.3), and the vectors; pgvector's own graph has 6 bytes per link. PQ codes are calculated alone."""
    graph = (2 * M + M / math.log(M)) * 4
    sizes = {"HNSW": 4 * dimension, "HNSW on halfvec": 2 * dimension, "HNSW on bits": math.ceil(dimension / 8)}
    found = [
        {
            "index": name,
            "graph": graph,
            "vector": vector,
            "model_bytes": (graph + vector) * rows,
            "measured_bytes": measured[name],
            "ratio": measured[name] / ((graph + vector) * rows),
        }
        for name, vector in sizes.items()
    ]
    codes = [
        {"index": f"PQ, {parts} codes of 8 bits (calculated)", "vector": parts, "model_bytes": parts * rows}
        for parts in (dimension // 8, dimension // 4)
    ]
    return [*found, *codes]


def tables(result: dict[str, Any]) -> str:
    about = (
        "{rows:,} rows ({real_rows:,} real) of {dimension} dimensions, {tenants} tenants; restricted to"
        " {restricted_share:.1%} of the rows."
    )
    lines = [
        about.format(**result),
        "",
        "| index | build s | MB | recall@10, all | p50 ms | recall@10, restricted | empty, restricted |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in result["arms"]:
        wide, narrow = row["all"], row["restricted"]
        lines.append(
            f"| {row['name']} | {row['build_seconds']:.1f} | {row['bytes'] / 1e6:.1f} | {wide['recall']:.3f}"
            f" [{wide['low']:.3f}, {wide['high']:.3f}] | {wide['p50_ms']:.2f} | {narrow['recall']:.3f}"
            f" [{narrow['low']:.3f}, {narrow['high']:.3f}] | {narrow['empty']} of {result['queries']} |"
        )
    lines += ["", "| index | graph B/row | vector B/row | model MB | measured MB | measured / model |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for row in result["memory"]:
        graph = f"{row['graph']:.0f}" if "graph" in row else ""
        real = f"{row['measured_bytes'] / 1e6:.1f} | {row['ratio']:.2f}" if "ratio" in row else " | "
        lines.append(f"| {row['index']} | {graph} | {row['vector']} | {row['model_bytes'] / 1e6:.1f} | {real} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True, help="a materialised home; its server must be ours to use")
    parser.add_argument("--chunk-set", default="fixed_512")
    parser.add_argument("--vectors", help="a pattern of .npy files, one per tenant, in place of the home's database")
    parser.add_argument("--rows", type=int, default=20_000, help="at least; all of the corpus if it has more")
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--memory-mb", type=int, default=1_024)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results.json")
    options = parser.parse_args()
    base = embedded_database(options.home)
    stored = corpus_vectors(base, options.chunk_set, options.vectors)
    rng = np.random.default_rng(1)
    a, b = (stored.vectors[rng.integers(0, len(stored.vectors), options.queries)] for _ in range(2))
    # Half way between two vectors of the corpus, so that no query is a row.
    queries = np.asarray((a + b) / np.linalg.norm(a + b, axis=1, keepdims=True), dtype=np.float32)
    with scratch_database(base, "bench_ablations") as db:
        target, ids, vectors = fill(db, stored, options.rows)
        say(f"{len(vectors):,} rows")
        load_shared(db, CHUNK_SET)
        bench = Bench(db, target, ids, vectors)
        # The tenant whose share is nearest to a twentieth.
        restricted = min(ids, key=lambda tenant: abs(len(ids[tenant]) / len(vectors) - 0.05))
        found, measured, standing = [], {}, (None, 0.0, 0)
        with db.app() as connection:
            dense_sql.adapt(connection)
            for arm in arms(len(vectors)):
                if arm.index is None or arm.index != standing[0]:
                    standing = (arm.index, *bench.index(arm, options.memory_mb))  # type: ignore[assignment]
                measured[arm.name.partition(",")[0]] = standing[2]
                row = {"name": arm.name, "build_seconds": standing[1], "bytes": standing[2]}
                row["all"] = bench.run(connection, arm, "all", queries)
                row["restricted"] = bench.run(connection, arm, restricted, queries)
                found.append({**row, "arm": asdict(arm)})
                say(arm.name)
    result = {
        "rows": len(vectors),
        "real_rows": len(stored.vectors),
        "dimension": target.dimension,
        "tenants": len(ids),
        "restricted": restricted,
        "restricted_share": len(ids[restricted]) / len(vectors),
        "queries": len(queries),
        "arms": found,
        "memory": memory_model(len(vectors), target.dimension, measured),
    }
    result["load_average"] = os.getloadavg()
    options.json.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
    print(tables(result))


if __name__ == "__main__":
    main()
