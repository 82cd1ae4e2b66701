"""What access control costs a dense query, and where one path becomes cheaper than another.

    ZEROTH_HOME=.zeroth zeroth materialize && python benchmarks/dense/run.py --home .zeroth
    python benchmarks/dense/run.py --home .zeroth --partitions 10,30 --rows-per-tenant 40 --json /tmp/smoke.json

Vectors are those of the home's corpus, dealt to tenants in a throw-away database on the same server; where the corpus
has too few, each is used again with a little noise. Four tables: the explicit predicate against the policy alone as
partitions grow, with planning apart; the wording of the policy; exact scan against HNSW by size of the tenant; and
partitions against the shared index by number of tenants.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from zeroth_assets.evaluation.scratch import MADE_UP, corpus_vectors, load_vectors, scratch_database
from zeroth_assets.search import dense_sql
from zeroth_assets.search.path_costs import measure_path_costs
from zeroth_assets.search.path_model import PathCosts, as_mapping
from zeroth_assets.store.acl import grant
from zeroth_assets.store.connect import Database, embedded_database, principal_session
from zeroth_assets.store.registry import ChunkSet, ensure_chunk_set, find_chunk_set
from zeroth_assets.store.shared import load_shared

K = 10
CHUNK_SET = "bench"
WORDINGS = {
    "= any ((select f())::int[])": "tenant_id = any ((select zeroth.permitted_tenants())::int[])",
    "in (select unnest(f()))": "tenant_id in (select unnest(zeroth.permitted_tenants()))",
    "= any (f())": "tenant_id = any (zeroth.permitted_tenants())",
}
Vectors = NDArray[np.float32]


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def enough(real: Vectors, rows: int, seed: int = 0) -> Vectors:
    """The real vectors in random order; beyond them, again with noise of a tenth of their norm."""
    rng = np.random.default_rng(seed)
    drawn = real[rng.permutation(len(real))]
    while len(drawn) < rows:
        more = real[rng.permutation(len(real))] + rng.normal(scale=0.1 / np.sqrt(real.shape[1]), size=real.shape)
        drawn = np.concatenate([drawn, more / np.linalg.norm(more, axis=1, keepdims=True)])
    return np.asarray(drawn[:rows], dtype=np.float32)


def between(real: Vectors, count: int, seed: int = 1) -> Vectors:
    """Queries: half way between two vectors of the corpus, so that none of them is a row."""
    rng = np.random.default_rng(seed)
    mixed = real[rng.integers(0, len(real), count)] + real[rng.integers(0, len(real), count)]
    return np.asarray(mixed / np.linalg.norm(mixed, axis=1, keepdims=True), dtype=np.float32)


def best(ask: Callable[[], Any], repetitions: int) -> float:
    """Milliseconds of the fastest of several: other work on the machine only ever adds."""
    times = []
    for _ in range(repetitions):
        began = time.perf_counter()
        ask()
        times.append(time.perf_counter() - began)
    return min(times) * 1e3


class Meter:
    """Asks as `zeroth_app` in one transaction of a principal, exactly, and keeps planning apart."""

    def __init__(self, connection: psycopg.Connection[Any], target: ChunkSet, repetitions: int) -> None:
        self.connection, self.target, self.repetitions = connection, target, repetitions
        dense_sql.adapt(connection)

    def row(self, principal: str, tenant_ids: Sequence[int] | None, queries: Vectors) -> dict[str, float]:
        walls, plans, runs = [], [], []
        nodes: dict[str, int] = {}
        with principal_session(self.connection, principal, lifetime=3_600):
            for query in queries:
                statement = dense_sql.exact_statement(self.target.table, tenant_ids, query, K)
                statement.run(self.connection)
                walls.append(best(lambda s=statement: s.run(self.connection), self.repetitions))  # type: ignore[misc]
                told = statement.explain(self.connection, "analyze, timing off, format json")
                plans.append(float(told["Planning Time"]))
                runs.append(float(told["Execution Time"]))
                nodes = dense_sql.scan_nodes(told)
        return {
            "p50_ms": float(np.median(walls)),
            "planning_ms": float(np.median(plans)),
            "execution_ms": float(np.median(runs)),
            "scans": sum(nodes.values()),
        }


def tenant_ids(db: Database) -> dict[str, int]:
    with db.loader() as connection:
        return dict(connection.execute("select tenant_key, tenant_id from zeroth.tenant order by 2").fetchall())


def growth(db: Database, vectors: Vectors, queries: Vectors, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The predicate against the policy alone, as partitions grow."""
    rows: list[dict[str, Any]] = []
    made = 0
    for partitions in options.partitions:
        while made < partitions:
            part = vectors[made * options.rows_per_tenant :][: options.rows_per_tenant]
            load_vectors(db, CHUNK_SET, f"bench-{made:04}", part)
            made += 1
        ids = tenant_ids(db)
        one, three = [ids["bench-0003"]], [ids[f"bench-{n:04}"] for n in (1, 4, 7)]
        grant(db, f"three of {partitions}", ["bench-0001", "bench-0004", "bench-0007"])
        with db.app() as connection:
            meter = Meter(connection, find_chunk_set(connection, CHUNK_SET), options.repetitions)
            connection.rollback()
            for principal, chosen in (
                ("bench-0003", one),
                (f"three of {partitions}", three),
                ("all", list(ids.values())),
            ):
                for predicate in (True, False):
                    measured = meter.row(principal, chosen if predicate else None, queries)
                    sees = {1: "1 tenant", 3: "3 tenants"}.get(len(chosen), "all")
                    rows.append({"partitions": partitions, "sees": sees, "predicate": predicate, **measured})
        say(f"{partitions} partitions")
    return rows


def wordings(db: Database, queries: Vectors, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The policy worded in three ways, on the partitions that are there."""
    ids = tenant_ids(db)
    three = f"three of {options.partitions[-1]}"
    cases = (
        ("1 tenant, predicate too", "bench-0003", [ids["bench-0003"]]),
        ("1 tenant, policy alone", "bench-0003", None),
        ("3 tenants, predicate too", three, [ids[f"bench-{n:04}"] for n in (1, 4, 7)]),
        ("all, policy alone", "all", None),
    )
    rows = []
    with db.app() as connection:
        target = find_chunk_set(connection, CHUNK_SET)
        connection.rollback()
        for name, text in WORDINGS.items():
            with db.owner() as owner:
                owner.execute(f"alter policy app_reads on zeroth.chunk_{target.chunk_set_id} using ({text})")
            # Called for every row, the function takes seconds: one query is enough to see that.
            few = 1 if name == "= any (f())" else options.repetitions
            meter = Meter(connection, target, few)
            for case, principal, chosen in cases:
                measured = meter.row(principal, chosen, queries[:1] if few == 1 else queries)
                rows.append({"wording": name, "case": case, **measured})
            say(f"policy {name}")
    first = next(iter(WORDINGS.values()))
    with db.owner() as owner:
        owner.execute(f"alter policy app_reads on zeroth.chunk_{target.chunk_set_id} using ({first})")
    return rows


def sizes(base: Database, real: Vectors, queries: Vectors, options: argparse.Namespace) -> PathCosts:
    """Exact against HNSW over tenant sizes, in a database of its own, with the shared index beside them."""
    with scratch_database(base, "bench_dense_sizes") as db:
        ensure_chunk_set(db, CHUNK_SET, real.shape[1])
        for number, rows in enumerate(options.sizes):
            load_vectors(db, CHUNK_SET, f"bench-{number:04}", enough(real, rows, seed=number))
            say(f"a tenant of {rows} rows")
        return measure_path_costs(db, CHUNK_SET, queries=queries, measured_at=datetime.now(UTC), widths=())


def tables(result: dict[str, Any]) -> str:
    lines = [
        "| partitions | sees | predicate | p50 ms | planning | execution | partitions scanned |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        "| {partitions} | {sees} | {predicate} | {p50_ms:.2f} | {planning_ms:.2f} | {execution_ms:.2f}"
        " | {scans} |".format(**row)
        for row in result["growth"]
    ]
    cases = list(dict.fromkeys(row["case"] for row in result["wordings"]))
    lines += ["", "| policy | " + " | ".join(cases) + " |", "| --- |" + " --- |" * len(cases)]
    for name in WORDINGS:
        times = [row["p50_ms"] for row in result["wordings"] if row["wording"] == name]
        lines.append(f"| `{name}` | " + " | ".join(f"{t:.1f}" for t in times) + " |")
    costs = result["sizes"]
    lines += [
        "",
        "| rows of the tenant | exact ms | HNSW ms | ef_search | recall@10 |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        "| {rows:,} | {exact_ms:.2f} | {hnsw_ms:.2f} | {ef_search} | {recall:.3f} |".format(**p) for p in costs["sizes"]
    ]
    found = costs["thresholds"]
    beyond = " (extrapolated)" if found["exact_rows_extrapolated"] else ""
    lines += ["", f"Exact is the cheaper up to {found['exact_rows']:,} rows{beyond}.", ""]
    lines += [
        "| tenants | rows | share | partitions ms | shared ms | ef_search | recall@10 |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for point in result["widths"]["widths"]:
        shared = "| | | |"
        if point["shared_ms"] is not None:
            shared = "| {shared_ms:.2f} | {shared_ef_search} | {shared_recall:.3f} |".format(**point)
        lines.append("| {tenants} | {rows:,} | {share:.3f} | {partitions_ms:.2f} ".format(**point) + shared)
    lines += [
        "",
        f"The shared index is the cheaper from {result['widths']['thresholds']['shared_tenants']} tenants on.",
    ]
    return "\n".join(lines)


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True, help="a materialised home; its server must be ours to use")
    parser.add_argument("--chunk-set", default="fixed_512")
    parser.add_argument("--vectors", help="a pattern of .npy files, one per tenant, in place of the home's database")
    parser.add_argument("--partitions", type=numbers, default=[10, 50, 150, 300])
    parser.add_argument("--rows-per-tenant", type=int, default=150)
    parser.add_argument("--sizes", type=numbers, default=[100, 300, 1_000, 2_000, 4_000, 8_000])
    parser.add_argument("--queries", type=int, default=15)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results.json")
    options = parser.parse_args()
    base = embedded_database(options.home)
    real = corpus_vectors(base, options.chunk_set, options.vectors).vectors
    queries = between(real, options.queries)
    result: dict[str, Any] = {
        "real_vectors": len(real),
        "rows_per_tenant": options.rows_per_tenant,
        "fingerprint": MADE_UP,
    }
    with scratch_database(base, "bench_dense") as db:
        ensure_chunk_set(db, CHUNK_SET, real.shape[1])
        vectors = enough(real, max(options.partitions) * options.rows_per_tenant)
        result["growth"] = growth(db, vectors, queries, options)
        result["wordings"] = wordings(db, queries, options)
        say("the shared index")
        load_shared(db, CHUNK_SET)
        costs = measure_path_costs(db, CHUNK_SET, queries=queries, measured_at=datetime.now(UTC))
        result["widths"] = as_mapping(costs)
    result["sizes"] = as_mapping(sizes(base, real, queries, options))
    result["load_average"] = os.getloadavg()
    options.json.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
    print(tables(result))


if __name__ == "__main__":
    main()
