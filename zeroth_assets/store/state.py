"""What the database holds now, in few statements, for whoever plans.

What belongs here: the applied schema and the live index builds. A database without our schema is an empty answer, not
an error: the plan then makes it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import errors, sql

from zeroth_assets.store.connect import Database
from zeroth_assets.store.failures import database_errors
from zeroth_assets.store.migrate import read_migrations
from zeroth_assets.store.registry import IndexBuild
from zeroth_assets.store.shared_state import read_state, shared_sets

_ABSENT = (errors.UndefinedTable, errors.InvalidSchemaName, errors.InsufficientPrivilege)
# Of a row `b` of zeroth.index_build: its index is on the tenant's partition and valid, or it needs none and the
# partition is there.
_STANDS = sql.SQL("""
    case b.index_kind when 'hnsw' then exists (
        select from pg_catalog.pg_index x
        join pg_catalog.pg_class i on i.oid = x.indexrelid
        join pg_catalog.pg_class t on t.oid = x.indrelid
        join pg_catalog.pg_namespace n on n.oid = i.relnamespace and n.oid = t.relnamespace
        where n.nspname = 'zeroth' and i.relname = b.index_name
          and t.relname = zeroth.partition_name(b.chunk_set_id, b.tenant_id)
          and x.indisvalid and x.indisready
    ) else zeroth.partition_exists(b.chunk_set_id, b.tenant_id) end
""")


@dataclass(frozen=True, slots=True)
class LiveBuild:
    """What the database holds for one chunk set and tenant."""

    index_build_id: int
    rows: int


def migrations_digest() -> str:
    """Digest of the migrations that this version of the package brings."""
    return _digest([(f.revision, f.sha256) for f in read_migrations()])


def applied_digest(db: Database) -> str | None:
    """Digest of the migrations that the database has applied, None for none; `migrations_digest` if it is current."""
    with database_errors("reading the applied migrations"), db.owner() as connection:
        try:
            query = "select revision, sha256 from zeroth_migration.applied_file order by revision"
            rows = connection.execute(query).fetchall()
        except _ABSENT:
            return None
    return _digest([(row[0], row[1]) for row in rows])


def live_builds(db: Database) -> dict[tuple[str, str], LiveBuild]:
    """(chunk set, tenant key) to the build in force, as `zeroth_loader`; without those whose index is gone or invalid.

    `rows` is what the build recorded. Counting every partition would be too dear for each plan: whether the rows are
    still there is told by `read.verify_build`, which `zeroth provenance --verify` and every load run.
    """
    with database_errors("reading the index builds"), db.loader() as connection:
        try:
            rows = connection.execute(
                sql.SQL(
                    "select s.name, t.tenant_key, b.index_build_id, b.row_count from zeroth.index_build b"
                    " join zeroth.tenant t using (tenant_id) join zeroth.chunk_set s using (chunk_set_id)"
                    " where b.status = 'live' and {} order by b.index_build_id"
                ).format(_STANDS)
            ).fetchall()
        except _ABSENT:
            return {}
    return {(row[0], row[1]): LiveBuild(row[2], row[3]) for row in rows}


def shared_builds(db: Database) -> dict[str, int]:
    """Chunk set to the build of its shared index, as `zeroth_loader`: of those that hold just the live builds."""
    with database_errors("reading the shared indexes"), db.loader() as connection:
        try:
            states = [read_state(connection, found) for found in shared_sets(connection)]
        except _ABSENT:
            return {}
    return {s.chunk_set.name: s.build.shared_build_id for s in states if s.build is not None and s.current}


def is_standing(connection: psycopg.Connection[Any], build: IndexBuild) -> bool:
    """Whether the build's index is on its tenant's partition and valid. For `zeroth_loader`."""
    row = connection.execute(
        sql.SQL("select {} from zeroth.index_build b where b.index_build_id = %s").format(_STANDS),
        (build.index_build_id,),
    ).fetchone()
    return row is not None and bool(row[0])


def _digest(revisions: list[tuple[str, str]]) -> str:
    return hashlib.sha256("\n".join(f"{name} {checksum}" for name, checksum in revisions).encode()).hexdigest()
