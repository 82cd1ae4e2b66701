"""The dense retriever against one shared index, on made-up tenants of very unequal size that overlap more or less.

    python benchmarks/synthetic/run.py
    python benchmarks/synthetic/run.py --rows 12000 --tenants 40 --dial-rows 12000 --json /tmp/smoke.json

Makes its own embedded server in a folder of its own, and removes it. `--rows` is the size at the dial that resembles
real collections; the other two positions get `--dial-rows`. Truth is NumPy over the generated vectors.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil
import psycopg
from numpy.typing import NDArray

from zeroth_assets.evaluation.bootstrap import mean_ci
from zeroth_assets.evaluation.exact import Neighbours, exact_top_k
from zeroth_assets.evaluation.synthetic import MIDDLE, MIRROR, SEPARATED, SyntheticCorpus, make_corpus
from zeroth_assets.search import dense_sql
from zeroth_assets.search.dense import DenseRetriever
from zeroth_assets.search.dense_sql import IndexScan
from zeroth_assets.search.path_costs import PathCosts, measure_path_costs
from zeroth_assets.search.path_model import as_mapping
from zeroth_assets.store import server
from zeroth_assets.store.acl import grant
from zeroth_assets.store.connect import Database, embedded_database, principal_session
from zeroth_assets.store.load import load_tenant
from zeroth_assets.store.migrate import migrate
from zeroth_assets.store.registry import ChunkSet, ensure_chunk_set, find_chunk_set
from zeroth_assets.store.shared import load_shared

K = 10
CHUNK_SET = "synthetic"
FINGERPRINT = {"digest": "made-up", "model": "made up"}
CLASSES = ((50_000, "50,000 and more"), (5_000, "5,000 to 49,999"), (500, "500 to 4,999"), (0, "under 500"))
PLANNED_AT = (1, 10, 50, 100, 200, 300)
POST_FILTERED = IndexScan(ef_search=40, max_scan_tuples=20_000, iterative=False)
Vectors = NDArray[np.float32]
Ask = Callable[[str, Vectors], tuple[list[int], str]]


def key_of(tenant: int) -> str:
    return f"made-{tenant:04}"


def chunks(tenant: int, rows: int) -> pl.DataFrame:
    hashes = [hashlib.sha256(b"%d/%d" % (tenant, row)).digest() for row in range(rows)]
    ranges = pl.int_range(rows, dtype=pl.Int64, eager=True)
    one = [f"doc:{tenant}"] * rows
    return pl.DataFrame(
        {
            "chunk_id": [int.from_bytes(h[:8], "big") >> 1 for h in hashes],
            "chunk_hash": hashes,
            "document_id": one,
            "document_version": ["v"] * rows,
            "ordinal": ranges,
            "char_start": ranges,
            "char_end": ranges + 1,
            "page_first": ranges,
            "page_last": ranges,
            "pages_real": [True] * rows,
            "section_path": [""] * rows,
            "token_count": ranges,
            "text": ["made up"] * rows,
        }
    )


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def planning_times(db: Database, query: Vectors, repetitions: int = 15) -> list[dict[str, Any]]:
    """What planning costs now that so many tenants are loaded: one named, ten, all of them, and the policy alone."""
    rows = []
    with db.app() as connection:
        dense_sql.adapt(connection)
        target = find_chunk_set(connection, CHUNK_SET, None)
        connection.rollback()
        with principal_session(connection, "all"):
            ids = [t.tenant_id for t in dense_sql.visible_tenants(connection, target)]
            forms = {"one named": ids[:1], "ten named": ids[:10], "all named": ids, "policy alone": None}
            for kind in ("exact", "hnsw"):
                for form, named in forms.items():
                    make = dense_sql.exact_statement if kind == "exact" else dense_sql.index_statement
                    dense_sql.apply_settings(connection, dense_sql.SCAN_SETTINGS)
                    if kind == "hnsw":
                        dense_sql.apply_settings(connection, IndexScan(200, 20_000).settings)
                    statement = make(target.table, named, query, K)
                    times = [
                        float(statement.explain(connection, "summary, format json")["Planning Time"])
                        for _ in range(repetitions + 2)
                    ]
                    rows.append(
                        {"tenants": len(ids), "kind": kind, "form": form, "planning_ms": float(np.median(times[2:]))}
                    )
    return rows


class Loaded:
    """A corpus in a database of its own, and its truth in memory."""

    def __init__(self, db: Database, corpus: SyntheticCorpus, workers: int, memory_mb: int) -> None:
        self.db, self.corpus = db, corpus
        migrate(db)
        ensure_chunk_set(db, CHUNK_SET, corpus.dimension)
        self.vectors: list[Vectors] = []
        self.ids: list[NDArray[np.int64]] = []
        began = time.perf_counter()
        index_seconds = 0.0
        self.planning: list[dict[str, Any]] = []
        for tenant, rows in enumerate(corpus.sizes):
            frame, vectors = chunks(tenant, rows), corpus.vectors(tenant)
            report = load_tenant(
                db,
                chunk_set=CHUNK_SET,
                tenant_key=key_of(tenant),
                chunks=frame,
                vectors=vectors,
                fingerprint=FINGERPRINT,
                chunker_version="1",
                build_memory_mb=memory_mb,
                build_workers=workers if rows > 20_000 else 0,
            )
            index_seconds += report.index_seconds
            self.vectors.append(vectors)
            self.ids.append(frame["chunk_id"].to_numpy())
            if tenant < 5 or tenant % 50 == 0:
                say(f"tenant {tenant}: {rows:,} rows, index {report.index_seconds:.1f} s")
            if tenant + 1 in PLANNED_AT:
                self.planning += planning_times(db, vectors[0])
        self.partition_seconds, self.partition_index_seconds = time.perf_counter() - began, index_seconds
        say("the shared index")
        shared = load_shared(db, CHUNK_SET, build_memory_mb=memory_mb, build_workers=workers)
        self.shared_index_seconds, self.shared_index_bytes = shared.index_seconds, shared.index_bytes

    def truth(self, tenants: list[int], queries: Vectors) -> Neighbours:
        vectors = np.concatenate([self.vectors[t] for t in tenants])
        return exact_top_k(vectors, np.concatenate([self.ids[t] for t in tenants]), queries, K)

    def overlap_found(self) -> dict[str, float]:
        """Cosine between centroids, and the share of a row's ten nearest neighbours that are its own tenant's."""
        centroids = np.array([v.mean(axis=0) for v in self.vectors])
        centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
        cosine = (centroids @ centroids.T)[np.triu_indices(len(centroids), 1)]
        rng = np.random.default_rng(0)
        tenant_of = np.repeat(np.arange(len(self.vectors)), self.corpus.sizes)
        flat = np.concatenate(self.vectors)
        drawn = rng.choice(len(flat), min(200, len(flat)), replace=False)
        similar = flat[drawn] @ flat.T
        similar[np.arange(len(drawn)), drawn] = -1
        nearest = np.argpartition(-similar, 10, axis=1)[:, :10]
        own = float((tenant_of[nearest] == tenant_of[drawn][:, None]).mean())
        return {"centroid_cosine": float(cosine.mean()), "own_tenant_share_of_10_nearest": own}


def ask_dense(retriever: DenseRetriever, path: Any = None) -> Ask:
    def ask(principal: str, query: Vectors) -> tuple[list[int], str]:
        result = retriever.search(principal, query, K, path=path)
        plan = str(result.plan)
        parts = ["scan"] * ("exact over" in plan) + ["hnsw"] * ("hnsw over" in plan)
        if "the shared index" in plan:
            parts = ["shared"]
        return [c.chunk_id for c in result.candidates], " + ".join(parts)

    return ask


def ask_post_filtered(connection: psycopg.Connection[Any], target: ChunkSet) -> Ask:
    dense_sql.adapt(connection)

    def ask(principal: str, query: Vectors) -> tuple[list[int], str]:
        with principal_session(connection, principal):
            dense_sql.apply_settings(connection, POST_FILTERED.settings)
            hits = dense_sql.index_statement(target.shared, None, query, K).run(connection)
        return [hit.chunk_id for hit in hits], "shared, ef 40"

    return ask


def cpu_spent() -> float:
    """CPU seconds of this process and of the backends that serve it: what a busy machine does not change. Ticks of
    10 ms, so only sums over many queries mean something; parallel workers are not counted."""
    spent = time.process_time()
    for process in psutil.process_iter(["cmdline"]):
        if "zeroth_app dial_" in " ".join(process.info["cmdline"] or ()):
            times = process.cpu_times()
            spent += times.user + times.system
    return spent


class Tally:
    """What one arm gave for one group of queries."""

    def __init__(self) -> None:
        self.recall: list[float] = []
        self.seconds: list[float] = []
        self.empty = self.short = 0
        self.plans: Counter[str] = Counter()
        self.cpu_seconds = 0.0

    def add(self, ask: Ask, principal: str, queries: Vectors, truth: Neighbours) -> None:
        for query in queries[:3]:
            ask(principal, query)
        cpu = cpu_spent()
        answers = []
        for query in queries:
            began = time.perf_counter()
            answers.append(ask(principal, query))
            self.seconds.append(time.perf_counter() - began)
        self.cpu_seconds += cpu_spent() - cpu
        for number, (found, plan) in enumerate(answers):
            wanted = truth.ids[number]
            self.recall.append(len(set(found) & set(wanted.tolist())) / len(wanted))
            self.empty += not found
            self.short += len(found) < len(wanted)
            self.plans[plan] += 1

    def row(self) -> dict[str, Any]:
        interval = mean_ci(self.recall, seed=1)
        p50, p95 = np.quantile(self.seconds, [0.5, 0.95]) * 1e3
        return {
            "queries": len(self.recall),
            "recall": interval.point,
            "low": interval.low,
            "high": interval.high,
            "empty": self.empty,
            "short": self.short,
            "p50_ms": float(p50),
            "p95_ms": float(p95),
            "cpu_ms": self.cpu_seconds / len(self.recall) * 1e3,
            "plans": dict(self.plans),
        }


def by_class(loaded: Loaded, arms: dict[str, Ask], queries: int, per_class: int) -> list[dict[str, Any]]:
    """Single-tenant principals by size, asking about their own documents and about anything in the collection."""
    rows = []
    sizes = np.array(loaded.corpus.sizes)
    upper = int(sizes.max()) + 1
    for least, name in CLASSES:
        members = np.flatnonzero((sizes >= least) & (sizes < upper))
        upper = least
        if not len(members):
            continue
        chosen = members[np.unique(np.linspace(0, len(members) - 1, min(per_class, len(members))).astype(int))]
        for kind in ("own", "anything"):
            tallies = {arm: Tally() for arm in arms}
            for tenant in map(int, chosen):
                asked = (
                    loaded.corpus.queries(tenant, queries)
                    if kind == "own"
                    else loaded.corpus.questions_about_anything(queries, salt=1_000 * (tenant + 1))
                )
                truth = loaded.truth([tenant], asked)
                for arm, ask in arms.items():
                    tallies[arm].add(ask, key_of(tenant), asked, truth)
            rows += [
                {"class": name, "tenants": len(chosen), "about": kind, "arm": arm, **tally.row()}
                for arm, tally in tallies.items()
            ]
    return rows


def wide(loaded: Loaded, arms: dict[str, Ask], queries: int) -> list[dict[str, Any]]:
    """Principals of several tenants: drawn at random, and all but the largest."""
    count = len(loaded.corpus.sizes)
    rng = np.random.default_rng(5)
    groups = {"all": list(range(count)), "all but the largest": list(range(1, count))}
    for n in (3, 10, 30, 100):
        if n < count:
            groups[f"{n} tenants"] = sorted(map(int, rng.choice(count, n, replace=False)))
    asked = loaded.corpus.questions_about_anything(queries, salt=77)
    rows = []
    for name, tenants in groups.items():
        principal = "all" if name == "all" else f"group {name}"
        if name != "all":
            grant(loaded.db, principal, [key_of(t) for t in tenants])
        truth = loaded.truth(tenants, asked)
        share = sum(loaded.corpus.sizes[t] for t in tenants) / loaded.corpus.rows
        for arm, ask in arms.items():
            tally = Tally()
            tally.add(ask, principal, asked, truth)
            rows.append({"principal": name, "tenants": len(tenants), "share": share, "arm": arm, **tally.row()})
        say(f"principal {name}")
    return rows


def measure(db: Database, corpus: SyntheticCorpus, options: argparse.Namespace) -> dict[str, Any]:
    loaded = Loaded(db, corpus, options.workers, options.memory_mb)
    say("path costs")
    costs: PathCosts = measure_path_costs(
        db, CHUNK_SET, queries=corpus.questions_about_anything(options.cost_queries), measured_at=datetime.now(UTC)
    )
    say(f"exact up to {costs.exact_rows:,} rows, shared index from {costs.shared_tenants} tenants")
    with (
        DenseRetriever(db, CHUNK_SET, fingerprint_digest="made-up", costs=costs) as retriever,
        db.app() as connection,
    ):
        post = ask_post_filtered(connection, retriever.chunk_set)
        narrow = {"dense": ask_dense(retriever), "shared, ef 40": post}
        broad = {
            "dense": ask_dense(retriever),
            "partitions": ask_dense(retriever, "partitions"),
            "shared": ask_dense(retriever, "shared"),
            "shared, ef 40": post,
        }
        return {
            "overlap": corpus.overlap,
            "load_average": os.getloadavg(),
            "rows": corpus.rows,
            "tenants": len(corpus.sizes),
            "dimension": corpus.dimension,
            "found": loaded.overlap_found(),
            "partition_load_seconds": loaded.partition_seconds,
            "partition_index_seconds": loaded.partition_index_seconds,
            "shared_index_seconds": loaded.shared_index_seconds,
            "shared_index_bytes": loaded.shared_index_bytes,
            "planning": loaded.planning,
            "costs": as_mapping(costs),
            "by_class": by_class(loaded, narrow, options.queries, options.per_class),
            "wide": wide(loaded, broad, options.queries),
        }


def tables(results: dict[str, dict[str, Any]]) -> str:
    lines = []
    for name, result in results.items():
        found = result["found"]
        lines += [
            f"### {name}: {result['rows']:,} rows, {result['tenants']} tenants",
            "",
            "Centroid cosine {centroid_cosine:.2f}, own {own_tenant_share_of_10_nearest:.0%} of ten.".format(**found),
            "",
            "| rows of the tenant | asks about | arm | recall@10 | empty | short | p50, p95 ms | CPU ms | path |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
        for row in result["by_class"]:
            path = ", ".join(f"{plan} {n}" for plan, n in row["plans"].items())
            lines.append(f"| {row['class']} | {row['about']} | {row['arm']} | {_figures(row)} | {path} |")
        lines += [
            "",
            "| principal | share | arm | recall@10 | empty | short | p50, p95 ms | CPU ms | path |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
        for row in result["wide"]:
            path = ", ".join(f"{plan} {n}" for plan, n in row["plans"].items())
            lines.append(f"| {row['principal']} | {row['share']:.3f} | {row['arm']} | {_figures(row)} | {path} |")
        lines += ["", *_planning_table(result["planning"]), ""]
    return "\n".join(lines)


def _planning_table(planning: list[dict[str, Any]]) -> list[str]:
    counts = sorted({row["tenants"] for row in planning})
    lines = [
        "| planning, ms | " + " | ".join(f"{n} tenants" for n in counts) + " |",
        "| --- " * (len(counts) + 1) + "|",
    ]
    for kind, form in dict.fromkeys((row["kind"], row["form"]) for row in planning):
        times = {row["tenants"]: row["planning_ms"] for row in planning if (row["kind"], row["form"]) == (kind, form)}
        lines.append(f"| {kind}, {form} | " + " | ".join(f"{times[n]:.2f}" for n in counts) + " |")
    return lines


def _figures(row: dict[str, Any]) -> str:
    return (
        "{recall:.3f} [{low:.3f}, {high:.3f}] | {empty} of {queries} | {short} | {p50_ms:.2f}, {p95_ms:.2f}"
        " | {cpu_ms:.1f}".format(**row)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dial-rows", type=int, default=200_000, help="rows at the other two positions; 0 for none")
    parser.add_argument("--tenants", type=int, default=300)
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--queries", type=int, default=25, help="per tenant and kind")
    parser.add_argument("--per-class", type=int, default=8, help="tenants measured per size class")
    parser.add_argument("--cost-queries", type=int, default=40)
    parser.add_argument("--workers", type=int, default=1, help="parallel workers of an index build")
    parser.add_argument("--memory-mb", type=int, default=2_048, help="maintenance_work_mem of an index build")
    parser.add_argument("--home", type=Path, help="a folder to be made; removed at the end")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results.json")
    options = parser.parse_args()
    home = options.home or Path(tempfile.mkdtemp(prefix="zeroth-synthetic-"))
    home.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        home.chmod(0o711)
    positions = {
        "mirror-like": (MIRROR, options.rows),
        "separated": (SEPARATED, options.dial_rows),
        "middle": (MIDDLE, options.dial_rows),
    }
    results: dict[str, dict[str, Any]] = {}
    try:
        base = embedded_database(home)
        for number, (name, (overlap, rows)) in enumerate(positions.items()):
            if not rows:
                continue
            say(f"{name}: {rows:,} rows")
            db = base.named(f"dial_{number}")
            db.ensure_databases()
            corpus = make_corpus(rows=rows, tenants=options.tenants, dimension=options.dimension, overlap=overlap)
            results[name] = measure(db, corpus, options)
            options.json.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
            with base.admin(autocommit=True, dbname="postgres") as connection:
                connection.execute(f"drop database {db.name} with (force)")
        print(tables(results))
    finally:
        server.destroy(home)
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
