"""The full-text arm: PostgreSQL's own, which runs under the policy from the first row to the last.

What belongs here: one statement and the reading of its plan. `@@` is not leakproof, so under a policy PostgreSQL
evaluates it after the policy and takes no GIN index for it; what keeps the scan small is that the tenant predicate
prunes to the permitted partitions. Nothing is ever marked leakproof to change that.

The query becomes a tsquery by PostgreSQL's own parsers of plain text, which know no syntax error: in mode `any`, its
distinct lexemes, any of which may match; in mode `web`, all words, "quoted phrases", or, -not, as search engines do.
"""

from __future__ import annotations

import time
from typing import Any, Literal

import psycopg
from psycopg import sql

from zeroth_assets.errors import QueryError
from zeroth_assets.search.model import Candidate, Shortfall, StageResult
from zeroth_assets.search.query_text import checked_k, checked_query
from zeroth_assets.search.sessions import Sessions, permitted
from zeroth_assets.store.registry import ChunkSet

STAGE = "fulltext"
Mode = Literal["any", "web"]

# More lexemes make a plan slow and a ranking no better.
MAX_LEXEMES = 256
# Faults of the query's text; all else is the database's.
_OF_THE_QUERY = (
    psycopg.errors.ProgramLimitExceeded,
    psycopg.errors.StatementTooComplex,
    psycopg.errors.SyntaxError,
    psycopg.errors.DataException,
)


class FullTextRetriever:
    """Full text for one chunk set, as `zeroth_app`. `explain` reads the plan of every query, which costs a planning."""

    def __init__(
        self,
        sessions: Sessions,
        chunk_set: str,
        *,
        dimension: int | None = None,
        mode: Mode = "any",
        timeout_seconds: float = 10.0,
        explain: bool = False,
    ) -> None:
        self.sessions = sessions
        self.chunk_set = chunk_set
        self._dimension = dimension
        self._mode: Mode = mode
        self._timeout = timeout_seconds
        self._explain = explain
        self._target: ChunkSet | None = None

    def search(self, principal: str, query: str, k: int = 10) -> StageResult:
        """At most `k` chunks that match, best `ts_rank_cd` first, equal ones by chunk id.

        Raises:
            QueryError: principal, query or k is refused, or PostgreSQL cannot hold the query.
            DatabaseError: the database failed, or took longer than `timeout_seconds`.
        """
        query, k = checked_query(query), checked_k(k)
        if self._target is None:
            self._target = self.sessions.chunk_set(self.chunk_set, self._dimension)
        began = time.perf_counter()
        with self.sessions.session(principal, f"searching {self.chunk_set} by full text") as connection:
            connection.execute("select set_config('statement_timeout', %s, true)", [f"{self._timeout * 1e3:.0f}ms"])
            tenants = sorted(permitted(connection).values())
            asked = time.perf_counter()
            try:
                parsed, cut = self._parsed(connection, query)
                statement = _statement(self._target, tenants)
                plan = _plan_of(connection, statement, (parsed, parsed, k)) if self._explain else None
                planned = time.perf_counter()
                rows = connection.execute(statement, (parsed, parsed, k), prepare=False).fetchall()
            except _OF_THE_QUERY as error:
                raise QueryError(
                    "PostgreSQL's full text cannot hold the query",
                    expected="words that it can index",
                    found=error.diag.message_primary or type(error).__name__,
                    remedy="leave the longest words out",
                ) from error
        done = time.perf_counter()
        shortfall = None
        if len(rows) < k:
            shortfall = Shortfall(k, len(rows), "fewer_rows_than_k" if tenants else "no_tenant")
        return StageResult(
            stage=STAGE,
            candidates=tuple(
                Candidate(chunk_id=int(chunk), tenant_id=int(tenant), rank=rank, score=float(score))
                for rank, (tenant, chunk, score) in enumerate(rows, 1)
            ),
            shortfall=shortfall,
            seconds={"permitted": asked - began, "plan": planned - asked, "search": done - planned},
            plan=plan,
            degraded=cut,
            counts={"tenants": len(tenants)},
        )

    def _parsed(self, connection: psycopg.Connection[Any], query: str) -> tuple[str, str | None]:
        """The tsquery as text, and what was left out of it."""
        if self._mode == "web":
            words = query.split()
            row = connection.execute(
                "select websearch_to_tsquery('pg_catalog.english', %s)::text",
                [" ".join(words[:MAX_LEXEMES])],
                prepare=False,
            ).fetchone()
            assert row is not None  # a select without from has one row
            return str(row[0]), _cut(len(words))
        rows = connection.execute(
            "select lexeme from unnest(to_tsvector('pg_catalog.english', %s)) order by positions[1], lexeme",
            [query],
            prepare=False,
        ).fetchall()
        return " | ".join(_quoted(str(row[0])) for row in rows[:MAX_LEXEMES]), _cut(len(rows))


def _quoted(lexeme: str) -> str:
    """A lexeme as tsquery's input has it: in quotes, with quotes and backslashes doubled."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def _cut(count: int) -> str | None:
    return None if count <= MAX_LEXEMES else f"only the first {MAX_LEXEMES} of {count:,} words were searched for"


def _statement(target: ChunkSet, tenants: list[int]) -> sql.Composed:
    # The tenants are the database's own answer, written out so that partitions are pruned when it is planned. With
    # none, the policy alone decides, and its answer is none.
    where = sql.SQL("tenant_id = any({}) and ").format(sql.Literal(tenants)) if tenants else sql.SQL("")
    return sql.SQL(
        "select tenant_id, chunk_id, ts_rank_cd(tsv, %s::tsquery) as score from {} where {}tsv @@ %s::tsquery"
        " order by score desc, chunk_id, tenant_id limit %s"
    ).format(target.table, where)


def _plan_of(connection: psycopg.Connection[Any], statement: sql.Composed, values: tuple[object, ...]) -> str:
    """The scan nodes of the plan, with how often each occurs."""
    row = connection.execute(sql.SQL("explain (format json) ") + statement, values, prepare=False).fetchone()
    assert row is not None
    nodes: dict[str, int] = {}
    waiting = [row[0][0]["Plan"]]
    while waiting:
        node = waiting.pop()
        waiting.extend(node.get("Plans", ()))
        if "Scan" in node["Node Type"]:
            nodes[node["Node Type"]] = nodes.get(node["Node Type"], 0) + 1
    return ", ".join(f"{name} x {count}" for name, count in sorted(nodes.items())) or "no scan"
