"""What the database holds now, in few statements, for whoever plans.

What belongs here: the applied schema and the live index builds. A database without our schema is an empty answer, not
an error: the plan then makes it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from psycopg import errors

from zeroth_assets.store.connect import Database
from zeroth_assets.store.failures import database_errors
from zeroth_assets.store.migrate import read_migrations

_ABSENT = (errors.UndefinedTable, errors.InvalidSchemaName, errors.InsufficientPrivilege)


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
    """(chunk set, tenant key) to the build in force, as `zeroth_loader`."""
    with database_errors("reading the index builds"), db.loader() as connection:
        try:
            rows = connection.execute(
                "select s.name, t.tenant_key, b.index_build_id, b.row_count from zeroth.index_build b"
                " join zeroth.tenant t using (tenant_id) join zeroth.chunk_set s using (chunk_set_id)"
                " where b.status = 'live' order by b.index_build_id"
            ).fetchall()
        except _ABSENT:
            return {}
    return {(row[0], row[1]): LiveBuild(row[2], row[3]) for row in rows}


def _digest(revisions: list[tuple[str, str]]) -> str:
    return hashlib.sha256("\n".join(f"{name} {checksum}" for name, checksum in revisions).encode()).hexdigest()
