"""How long a revocation takes to reach results, and what verifying a claim costs each statement.

    python benchmarks/revocation/run.py

It makes a server of its own in a temporary folder and removes it. The cost is measured side by side: two databases on
that server with the same rows, one as migrated, one whose policies ask a plain setting as they did before claims; their
statements take turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import psycopg
from psycopg import sql

from zeroth_assets.store.connect import Database, embedded_database, principal_session
from zeroth_assets.store.revocation import RevocationReport, measure_revocation
from zeroth_assets_tests.database_fixtures import make_home, remove_home
from zeroth_assets_tests.store.builders import CHUNK_SET, load, make_chunks, make_vectors, prepared

DIMENSION = 384
PLAIN = """
    create or replace function zeroth.permitted_tenants() returns int[]
    language sql stable security definer parallel safe set search_path = pg_catalog, pg_temp
    as $$
      select coalesce(array_agg(g.tenant_id order by g.tenant_id), '{}'::int[])
      from zeroth_acl.grant_ g where g.principal = nullif(current_setting('zeroth.principal', true), '')
    $$
"""


@contextmanager
def server() -> Iterator[Database]:
    home = make_home("revocation")
    try:
        yield embedded_database(home)
    finally:
        remove_home(home)


def filled(db: Database, rows: int) -> int:
    db.ensure_databases()
    prepared(db, DIMENSION)
    load(db, make_chunks(range(20), "other", "doc:other"), tenant="other", vectors=make_vectors(20, 1, DIMENSION))
    report = load(db, make_chunks(range(rows)), tenant="asked", vectors=make_vectors(rows, 2, DIMENSION))
    return report.tenant_id


@contextmanager
def as_before(conn: psycopg.Connection, principal: str) -> Iterator[None]:
    with conn.transaction():
        conn.execute("select set_config('zeroth.principal', %s, true)", [principal])
        yield


def milliseconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - begun)


def answer(conn: psycopg.Connection, statement: str) -> None:
    conn.execute(sql.SQL(statement)).fetchall()


def quantiles(values: list[float] | tuple[float, ...]) -> str:
    return f"{statistics.median(values):.2f} | {sorted(values)[-(-95 * len(values) // 100) - 1]:.2f}"


def cost(signed: Database, plain: Database, tenant: int, repeats: int) -> None:
    vector = "[" + ",".join(map(str, make_vectors(1, 3, DIMENSION)[0])) + "]"
    search = (
        f"select chunk_id from zeroth.chunk_1 where tenant_id = {tenant} order by embedding <=> '{vector}' limit 10"
    )
    print("| what | median ms, plain | p95 | median ms, signed | p95 |\n| --- | --- | --- | --- | --- |")
    with signed.app(autocommit=True) as new, plain.app(autocommit=True) as old:
        for name, statement in (
            ("an empty statement", "select 1"),
            ("the permitted tenants alone", "select zeroth.permitted_tenants()"),
            ("ten nearest of the tenant's chunks", search),
        ):
            times: dict[str, list[float]] = {"old": [], "new": []}
            with principal_session(new, "asked"), as_before(old, "asked"):
                for _ in range(repeats):
                    times["old"].append(milliseconds(partial(answer, old, statement)))
                    times["new"].append(milliseconds(partial(answer, new, statement)))
            print(f"| {name} | {quantiles(times['old'])} | {quantiles(times['new'])} |")

        def signed_transaction() -> None:
            with principal_session(new, "asked"):
                pass

        def plain_transaction() -> None:
            with as_before(old, "asked"):
                pass

        pairs = [(milliseconds(plain_transaction), milliseconds(signed_transaction)) for _ in range(repeats)]
        print(
            f"| a transaction that only says who asks | {quantiles([p for p, _ in pairs])} |"
            f" {quantiles([s for _, s in pairs])} |"
        )


def revocation(db: Database, trials: int) -> None:
    print(
        "\n| open session | revoke() to first empty answer, median ms | p95 | revoke() itself, median ms | p95 |"
        " one statement, median ms | statements after it that still gave rows |\n" + "| --- " * 7 + "|"
    )
    for name, one in (("one READ COMMITTED transaction, cached plan", True), ("a transaction per statement", False)):
        report: RevocationReport = measure_revocation(db, CHUNK_SET, "asked", trials=trials, one_transaction=one)
        print(
            f"| {name} | {quantiles(report.to_result)} | {quantiles(report.call)} |"
            f" {statistics.median(report.statement):.2f} | {report.stale} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=600)
    options = parser.parse_args()
    with server() as signed:
        tenant = filled(signed, options.rows)
        plain = signed.named("plain")
        assert filled(plain, options.rows) == tenant
        with plain.owner() as owner:
            owner.execute(PLAIN)
        cost(signed, plain, tenant, options.repeats)
        revocation(signed, options.trials)


if __name__ == "__main__":
    main()
