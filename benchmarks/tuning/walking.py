"""ef_search of pgvector's HNSW with calibration queries, in a throw-away server.

One plain table for each tenant and one over all of them, each with the product's index parameters, without policies:
how access control changes recall is `access_recall`'s to say. Beside the recall of the exact top 10 stands what counts:
the recall of what answers the query.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from psycopg import sql

from benchmarks.tuning.bench import Bench, say
from benchmarks.tuning.ground import Cut, Rankings, stored_cut, stored_vectors
from benchmarks.tuning.outcome import measured
from zeroth_assets.evaluation.retrieval_arms import NAMED_DOCUMENT, UNRESTRICTED
from zeroth_assets.store import server
from zeroth_assets.store.connect import open_database
from zeroth_assets.store.migrate import migrate

EF_SEARCH = (10, 20, 40, 80, 160, 320)
FLOOR = 0.95
K = 10


def ef(bench: Bench) -> None:
    name = "fixed_512"
    g = bench.lend("hnsw", bench.complete())
    kept = g.asked.filter(pl.col("role") != NAMED_DOCUMENT)
    g = type(g)(g.store, g.tenants, kept, g.queries, g.spans, g.all_queries, g.digest)
    _, queries = bench.vectors(g)
    cut, matrix = stored_cut(g, name, text=False), stored_vectors(g, name)
    exact = cut.dense(matrix, queries, K)
    results: dict[str, Any] = g.about() | {"chunks": cut.chunks.height, "m": 16, "ef_construction": 64, "searched": []}
    truth = cut.figures(exact)
    results["exact"] = {role: measured(part, g.groups, f"recall@{K}") for role, part in by_role(truth)}
    for value, rankings, milliseconds in walked(bench, cut, matrix, queries, say):
        found = cut.figures(rankings).join(overlap(exact, rankings), on=["role", "query_id"])
        row: dict[str, Any] = {"ef_search": value}
        for role, part in by_role(found):
            row[role] = {m: measured(part, g.groups, m) for m in ("of_exact", f"recall@{K}")}
            row[role]["p50_ms"] = round(float(np.median(milliseconds[role])), 2)
        results["searched"].append(row)
        say(f"ef_search {value}: {[(r, row[r]['of_exact']['value']) for r in ('single_tenant', 'unrestricted')]}")
        bench.write("ef", results)
    results["chosen"] = {
        role: next((r["ef_search"] for r in results["searched"] if r[role]["of_exact"]["low"] >= FLOOR), None)
        for role in ("single_tenant", "unrestricted")
    }
    bench.choose("hnsw", results["chosen"])
    bench.write("ef", results)


def by_role(values: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    return [(str(role), part) for (role,), part in values.group_by("role", maintain_order=True)]


def overlap(exact: Rankings, found: Rankings) -> pl.DataFrame:
    """role, query_id and the share of the exact top 10 that came back; of fewer, where the tenant has fewer."""
    rows = [(*key, len(set(ids) & set(found[key])) / len(ids)) for key, ids in exact.items()]
    return pl.DataFrame(rows, schema=["role", "query_id", "of_exact"], orient="row")


def walked(bench: Bench, cut: Cut, matrix: Any, queries: dict[str, Any], say: Any) -> Any:
    """For each ef_search: the rankings of the index, and what each statement took."""
    home = Path(tempfile.mkdtemp(prefix="ef-", dir=bench.scratch))
    home.chmod(0o711)  # the server may run as another user
    try:
        db = open_database(home, None, None)
        db.ensure_databases()
        migrate(db)
        with db.admin() as connection:
            tables = fill(connection, cut, matrix)
            say(f"{len(tables)} tables are indexed")
            for value in EF_SEARCH:
                found: Rankings = {}
                took: dict[str, list[float]] = {}
                for role, query_id, principal, text in cut.ground.asked.select(
                    "role", "query_id", "principal", "text"
                ).iter_rows():
                    table = tables["all" if role == UNRESTRICTED else principal]
                    ids, seconds = nearest(connection, table, queries[text], value)
                    found[role, query_id] = ids
                    took.setdefault(role, []).append(1000 * seconds)
                yield value, found, took
    finally:
        server.destroy(home)
        shutil.rmtree(home, ignore_errors=True)


def fill(connection: Any, cut: Cut, matrix: Any) -> dict[str, Any]:
    """A table with its index for each tenant and for all; the names of the tables."""
    ids, tenants = cut.chunks["chunk_id"].to_list(), cut.chunks["tenant"].to_numpy()
    tables: dict[str, Any] = {}
    connection.execute("create schema tuning")
    for number, label in enumerate(["all", *cut.ground.tenants]):
        rows = range(len(ids)) if label == "all" else np.flatnonzero(tenants == label).tolist()
        table = tables[label] = sql.Identifier("tuning", f"v{number}")
        connection.execute(sql.SQL("create table {} (id bigint, embedding vector({}))").format(table, matrix.shape[1]))
        with connection.cursor().copy(sql.SQL("copy {} from stdin").format(table)) as copy:
            for row in rows:
                copy.write_row((ids[row], "[" + ",".join(f"{x:.9g}" for x in matrix[row].tolist()) + "]"))
        connection.execute(
            sql.SQL(
                "create index on {} using hnsw (embedding vector_cosine_ops) with (m = 16, ef_construction = 64)"
            ).format(table)
        )
    return tables


def nearest(connection: Any, table: Any, vector: Any, value: int) -> tuple[list[int], float]:
    """The ten first of the index, and the seconds of the statement. Raises if the plan does not use the index."""
    text = "[" + ",".join(f"{x:.9g}" for x in vector.tolist()) + "]"
    statement = sql.SQL("select id from {} order by embedding <=> {}::vector limit {}").format(table, text, K)
    with connection.transaction():
        connection.execute("set local enable_seqscan = off")
        connection.execute("set local enable_sort = off")
        connection.execute(sql.SQL("set local hnsw.ef_search = {}").format(value))
        plan = str(connection.execute(sql.SQL("explain ") + statement, prepare=False).fetchall())
        if "Index Scan" not in plan:
            raise RuntimeError(f"the index was not used: {plan}")
        began = time.perf_counter()
        rows = connection.execute(statement, prepare=False).fetchall()
        return [int(row[0]) for row in rows], time.perf_counter() - began
