"""Which servers we work with: the floors, and why a server below them is refused.

What belongs here: version numbers and their check.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import psycopg

from zeroth_assets.errors import DatabaseError

# Releases below these have faults that matter to an index under row-level security.
POSTGRES_FLOORS: dict[int, int] = {15: 16, 16: 12, 17: 8, 18: 2}
PGVECTOR_FLOOR: tuple[int, int, int] = (0, 8, 4)


@dataclass(frozen=True, slots=True)
class ServerVersions:
    """Versions of a server that passed. `pgvector` is what is installed, or else available to install."""

    postgres: str
    pgvector: str


def check_server(conn: psycopg.Connection) -> ServerVersions:
    """Check the server behind `conn` against the floors.

    Raises:
        DatabaseError: PostgreSQL or pgvector is too old, or pgvector is not there.
    """
    row = conn.execute(
        "select current_setting('server_version_num')::int,"
        " (select extversion from pg_extension where extname = 'vector'),"
        " (select default_version from pg_available_extensions where name = 'vector')"
    ).fetchone()
    if row is None:
        raise DatabaseError("The server did not tell its version", remedy="check that it is PostgreSQL")
    return check_versions(row[0], row[1], row[2])


def check_versions(server: int, installed: str | None, available: str | None) -> ServerVersions:
    """The same check on plain values: `server` as in `server_version_num`, pgvector's versions as text."""
    major, minor = server // 10_000, server % 10_000
    floor = POSTGRES_FLOORS.get(major, 0)
    if major < min(POSTGRES_FLOORS) or minor < floor:
        wanted = ", ".join(f"{m}.{n}" for m, n in sorted(POSTGRES_FLOORS.items(), reverse=True))
        advice = f"update it to {major}.{floor} (a minor update, data stays)" if floor else "move to a newer release"
        raise DatabaseError(
            "This PostgreSQL is too old",
            expected=f"at least {wanted} of its release line, or any newer line",
            found=f"{major}.{minor}",
            remedy=f"{advice}, or unset ZEROTH_DATABASE_URL to use the embedded server",
        )
    found = installed or available
    floor_text = ".".join(map(str, PGVECTOR_FLOOR))
    if found is None:
        raise DatabaseError(
            "This PostgreSQL has no pgvector",
            expected=f"the extension `vector`, {floor_text} or newer",
            remedy=f"install pgvector on the server (Debian: postgresql-{major}-pgvector; image: pgvector/pgvector)",
        )
    if _numbers(found) < PGVECTOR_FLOOR:
        if installed is not None and available is not None and _numbers(available) >= PGVECTOR_FLOOR:
            remedy = "run `ALTER EXTENSION vector UPDATE` in the database, as its administrator"
        else:
            remedy = "install a newer pgvector on the server, then run `ALTER EXTENSION vector UPDATE`"
        raise DatabaseError(
            "pgvector is too old on this server", expected=f"{floor_text} or newer", found=found, remedy=remedy
        )
    return ServerVersions(f"{major}.{minor}", found)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
