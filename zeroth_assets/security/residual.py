"""Residual channels: what any role can learn of rows that it may not see, measured and not waved through.

What belongs here: one measurement per channel, taken as `zeroth_app` under the rightful claim. None of them gives a
document's text; each says how much it gives instead, and what was done about it.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import psycopg
from psycopg import sql

from zeroth_assets.errors import DatabaseError
from zeroth_assets.security.ground import Ground, Relation, attempt
from zeroth_assets.security.report import Channel

_LEVEL = 0.95
_DRAWS = 2000
_WARM = 10  # by then caches and the functions' plans are warm
_REMOVED = re.compile(r"Rows Removed by (?:Filter|Index Recheck): (\d+)")
_ROWS = re.compile(r"rows=(\d+)")


def measure_channels(ground: Ground, repetitions: int = 200) -> tuple[Channel, ...]:
    """Every channel that this database lets be measured; empty where the rightful identity sees every tenant."""
    if not ground.hidden or not ground.content:
        return ()
    with ground.session(ground.cast.own) as connection:
        table = next(t for t in ground.content if t.kind == "p" or t.name.startswith("chunk_"))
        shared = next((t for t in ground.content if t.name.startswith("shared_")), None)
        channels = [
            _explain_analyze(ground, connection, [table, *([shared] if shared is not None else [])]),
            _estimates(ground, connection, table),
            _reltuples(ground, connection),
            _sizes(ground, connection),
            _bounds(ground, connection),
            _counters(ground, connection),
            _sessions(ground, connection),
            _wal(connection),
            _own_settings(connection),
        ]
        if shared is not None:
            channels.append(_index_walk(ground, connection, shared))
        absent = max(ground.tenants.values()) + 1000
        tables = (table, *([shared] if shared is not None else []))
        for where in tables:
            query = sql.SQL("select count(*) from {} where tenant_id = {}")
            pair = [query.format(where.identifier, value) for value in (min(ground.hidden), absent)]
            what = f"a tenant's number, {where.path}"
            channels.append(_timing(connection, what, "whether a tenant has rows", pair, repetitions))
        channels += _hidden_ids(ground, connection, tables, repetitions)
    return tuple(channels)


def _explain_analyze(ground: Ground, connection: psycopg.Connection[Any], tables: Sequence[Relation]) -> Channel:
    """Whoever can write SQL can also switch the index off whose condition would hide the rows that were passed over."""
    connection.execute("set local enable_indexscan = off; set local enable_indexonlyscan = off")
    connection.execute("set local enable_bitmapscan = off; savepoint probe")
    told: dict[str, int] = {}
    for table in tables:
        outcome = attempt(
            connection,
            sql.SQL("explain (analyze, costs off, timing off, summary off) select 1 from {}").format(table.identifier),
        )
        told[table.path] = sum(int(n) for row in outcome.rows for n in _REMOVED.findall(str(row[0])))
    connection.execute("set local enable_indexscan = on; set local enable_indexonlyscan = on")
    connection.execute("set local enable_bitmapscan = on; savepoint probe")
    most = max(told, key=lambda path: told[path])
    return Channel(
        "EXPLAIN ANALYZE, Rows Removed by Filter",
        "how many rows the policy hid from a scan, so how many all tenants have together",
        f"{told[most]:,} hidden rows told by one scan of {most}, its indexes switched off",
        "only whoever can write SQL sees it: the service runs EXPLAIN without ANALYZE, and passes on node names alone",
        told[most] > 0,
    )


def _estimates(ground: Ground, connection: psycopg.Connection[Any], table: Relation) -> Channel:
    tenant = min(ground.hidden)
    told = []
    for value in (tenant, max(ground.tenants.values()) + 1000):
        outcome = attempt(
            connection,
            sql.SQL("explain select 1 from {} where tenant_id = {}").format(table.identifier, value),
        )
        found = [int(n) for row in outcome.rows for n in _ROWS.findall(str(row[0]))]
        told.append(max(found, default=0))
    return Channel(
        "EXPLAIN, estimated rows of a tenant",
        "about how many chunks a tenant has, by its number",
        f"{told[0]:,} rows estimated for a hidden tenant, {told[1]:,} for a number that nobody has",
        "tenants are numbers, and no other column keeps statistics (0005): no value of a hidden row can be asked for",
        told[0] != told[1],
    )


def _reltuples(ground: Ground, connection: psycopg.Connection[Any]) -> Channel:
    outcome = attempt(
        connection,
        sql.SQL(
            "select count(*), coalesce(sum(reltuples), 0)::int8 from pg_class where oid = any ({}) and reltuples > 0"
        ).format([p.oid for p in ground.partitions]),
    )
    count, rows = outcome.rows[0] if outcome.rows else (0, 0)
    return Channel(
        "pg_class.reltuples, relpages",
        "the number of rows and pages of each partition at its last ANALYZE",
        f"{count} partitions tell {rows:,} rows",
        "partitions carry numbers for names; taking the columns away would break every client, and EXPLAIN would tell "
        "the same",
        bool(count),
    )


def _sizes(ground: Ground, connection: psycopg.Connection[Any]) -> Channel:
    told = 0
    for name in ("pg_relation_size", "pg_total_relation_size", "pg_table_size", "pg_indexes_size"):
        for partition in ground.partitions[:20]:
            told += attempt(
                connection, sql.SQL("select {}({}::oid::regclass)").format(sql.Identifier(name), partition.oid)
            ).worked
    return Channel(
        "pg_relation_size and its like",
        "the bytes of a partition and of its indexes",
        f"{told} of {4 * len(ground.partitions[:20])} calls answered",
        _taken(told, "EXECUTE revoked from PUBLIC where the database is ours"),
        told > 0,
    )


def _bounds(ground: Ground, connection: psycopg.Connection[Any]) -> Channel:
    outcome = attempt(
        connection,
        "select count(*) from pg_class where relpartbound is not null"
        " and pg_get_expr(relpartbound, oid) ~ 'FOR VALUES IN'",
    )
    told = int(outcome.rows[0][0]) if outcome.rows else 0
    return Channel(
        "partition names and bounds",
        "how many tenants have chunks, and their numbers",
        f"{told} partitions listed, {len(ground.tenants)} tenants",
        "opaque names, integer keys that are never used twice; keys and names of tenants stand in no catalogue",
        told > 0,
    )


def _counters(ground: Ground, connection: psycopg.Connection[Any]) -> Channel:
    views = ("pg_stat_all_tables", "pg_stat_all_indexes", "pg_statio_all_tables", "pg_stat_database", "pg_stat_io")
    told = [
        view
        for view in views
        if attempt(connection, sql.SQL("select * from {} limit 1").format(sql.Identifier(view))).rows
    ]
    return Channel(
        "pg_stat_* counters",
        "when a tenant was loaded, how many rows changed, how often its index was read",
        f"{len(told)} of {len(views)} views answered",
        _taken(len(told), "EXECUTE on pg_stat_get_* revoked from PUBLIC where the database is ours"),
        bool(told),
    )


def _sessions(ground: Ground, connection: psycopg.Connection[Any]) -> Channel:
    views = ("pg_stat_activity", "pg_locks", "pg_stat_progress_create_index", "pg_prepared_xacts")
    told = [
        view
        for view in views
        if attempt(connection, sql.SQL("select * from {} limit 1").format(sql.Identifier(view))).worked
    ]
    return Channel(
        "pg_stat_activity, pg_locks",
        "statements of other principals (one role runs them all) and which partitions they read",
        f"{len(told)} of {len(views)} views answered",
        _taken(
            len(told), "EXECUTE revoked from PUBLIC where the database is ours; claims are parameters, in no statement"
        ),
        bool(told),
    )


def _wal(connection: psycopg.Connection[Any]) -> Channel:
    calls = ("pg_current_wal_lsn()", "pg_current_xact_id()", "pg_current_snapshot()")
    told = [call for call in calls if attempt(connection, f"select {call}").worked]
    return Channel(
        "write-ahead log and transaction counters",
        "that somebody writes, and how much, never where",
        f"{', '.join(told) or 'none'} answered",
        "left: the whole server's, of no tenant",
        bool(told),
    )


def _own_settings(connection: psycopg.Connection[Any]) -> Channel:
    told = [
        what
        for what, statement in (
            ("its settings", "alter role zeroth_app set statement_timeout = '1h'"),
            ("its password", "alter role zeroth_app password 'SCRAM-SHA-256$4096:x$x:x'"),
        )
        if attempt(connection, statement).worked
    ]
    return Channel(
        "a role's own password and settings",
        "nothing; but injected SQL could lock the service out, or slow its later sessions",
        f"zeroth_app may change {' and '.join(told) or 'neither'}",
        "PostgreSQL has no right to take away; settings are undone at every start, the lint reports those that matter",
        bool(told),
    )


def _index_walk(ground: Ground, connection: psycopg.Connection[Any], shared: Relation) -> Channel:
    """How many rows an HNSW walk over all tenants brings back around the mean of one's own."""
    connection.execute("set local enable_seqscan = off; set local enable_sort = off; set local hnsw.ef_search = 10")
    connection.execute("savepoint probe")
    query = sql.SQL(
        "select count(*) from (select 1 from {t} order by embedding <=> (select avg(embedding) from {t}) limit 10) s"
    ).format(t=shared.identifier)
    outcome = attempt(connection, query)
    near = outcome.rows[0][0] if outcome.rows else 0
    connection.execute("set local enable_seqscan = on; set local enable_sort = on")
    connection.execute("savepoint probe")
    return Channel(
        "the shared index, rows that come back",
        "that hidden vectors lie near a point: they crowd one's own rows out of a walk",
        f"at ef_search 10, {near} of 10 rows near one's own mean",
        "only the baseline table has it; partitions have an index each, and a shortfall is filled by exact scan",
        int(near) < 10,
    )


def _hidden_ids(
    ground: Ground, connection: psycopg.Connection[Any], tables: Sequence[Relation], repetitions: int
) -> Iterator[Channel]:
    """Whether the id of a hidden chunk is told from one that nobody has.

    To compare integers is leakproof, so that the primary key's index may be asked before the policy looks at the row.
    """
    for table in tables:
        known = _a_hidden_id(ground, table)
        if known is None:
            continue
        tenant, chunk = known
        query = sql.SQL("select count(*) from {} where tenant_id = {} and chunk_id = {}")
        pair = [query.format(table.identifier, tenant, value) for value in (chunk, chunk ^ 0x5555)]
        removed = []
        for statement in pair:
            plan = attempt(connection, sql.SQL("explain (analyze, costs off, timing off, summary off) ") + statement)
            removed.append(sum(int(n) for row in plan.rows for n in _REMOVED.findall(str(row[0]))))
        yield Channel(
            f"EXPLAIN ANALYZE, a chunk's id, {table.path}",
            "whether a tenant has a chunk of that id: 63 bits of a hash, so of a text known before",
            f"{removed[0]} rows removed for a hidden id, {removed[1]} for one that nobody has",
            "only whoever can write SQL sees it; ids cannot be enumerated",
            removed[0] != removed[1],
        )
        yield _timing(connection, f"a chunk's id, {table.path}", "as the row above, by the clock", pair, repetitions)


def _a_hidden_id(ground: Ground, table: Relation) -> tuple[int, int] | None:
    """A hidden chunk, as the administrator sees it; None where the policies bind him too."""
    with contextlib.suppress(psycopg.Error, DatabaseError), ground.db.admin() as admin:
        row = admin.execute(
            sql.SQL("select tenant_id, chunk_id from {} where tenant_id = any (%s) limit 1").format(table.identifier),
            (sorted(ground.hidden),),
        ).fetchone()
        return None if row is None else (int(row[0]), int(row[1]))
    return None


def _timing(
    connection: psycopg.Connection[Any], name: str, tells: str, pair: Sequence[sql.Composed], repetitions: int
) -> Channel:
    """Seconds of a statement that meets a hidden row against one that meets none, in turns."""
    asked = [statement.as_string(connection) for statement in pair]
    taken: list[list[float]] = [[], []]
    for turn in range(repetitions + _WARM):
        for which in (0, 1) if turn % 2 else (1, 0):
            began = time.perf_counter()
            connection.execute(asked[which].encode(), prepare=False).fetchone()
            if turn >= _WARM:
                taken[which].append(time.perf_counter() - began)
    low, high = paired_interval(*taken)
    told = not low <= 0 <= high
    difference = float(np.median(np.asarray(taken[0]) - np.asarray(taken[1])))
    return Channel(
        f"timing: {name}",
        tells,
        f"{float(np.median(taken[0])) * 1e6:.0f} us (median) where there is a hidden row, {difference * 1e6:+.1f} us "
        f"against none, 95 % interval [{low * 1e6:+.1f}, {high * 1e6:+.1f}] over {repetitions} pairs: "
        + ("distinguishable" if told else "not distinguishable"),
        "tenants and chunks are opaque numbers; any other column of a hidden row is compared behind the policy alone",
        told,
    )


def paired_interval(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """95 % percentile-bootstrap interval of the median of the paired differences, with a fixed seed."""
    differences = np.asarray(one) - np.asarray(other)
    drawn = np.random.default_rng(7).integers(0, len(differences), size=(_DRAWS, len(differences)))
    medians = np.median(differences[drawn], axis=1)
    tail = (1 - _LEVEL) / 2
    return float(np.quantile(medians, tail)), float(np.quantile(medians, 1 - tail))


def _taken(told: int, how: str) -> str:
    return f"closed: {how}" if not told else f"open here: {how}, and this one is not, or was set up before"
