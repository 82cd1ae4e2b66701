"""Migrations: the numbered SQL files of `sql/`, applied in order, each once, each whole.

What belongs here: finding the files, checking them against what was applied, applying them; and the guard that one
database holds one corpus.

Alembic applies them, without Python revision files: a revision is a plain SQL file, named by its stem. (yoyo was tried
first. It marks a migration as applied in another transaction, on another connection, than it ran in, so that a kill
between the two leaves a database that no run can migrate; and its lock is a row that outlives a killed process.)
Alembic advances its version, and we record the file's checksum, in the transaction of the file itself. The lock is an
advisory one, which ends with its session.
"""

from __future__ import annotations

import hashlib
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import psycopg
import sqlalchemy
from alembic.runtime.migration import MigrationContext, RevisionStep
from alembic.script.base import Script
from alembic.script.revision import RevisionMap
from psycopg import sql
from sqlalchemy.pool import StaticPool

from zeroth_assets.errors import DatabaseError
from zeroth_assets.settings import project_file
from zeroth_assets.store.claim_keys import ensure_claim_key
from zeroth_assets.store.connect import Database
from zeroth_assets.store.failures import as_database_error, database_errors

_FILE_NAME = re.compile(r"^(\d{4})_[a-z0-9_]+\.sql$")
_BOOKKEEPING = "zeroth_migration"
_LOCK_TIMEOUT = "60s"


@dataclass(frozen=True, slots=True)
class MigrationFile:
    """One file of `sql/`. `revision` is its stem; `sha256` is of its bytes."""

    revision: str
    path: Path
    text: str
    sha256: str


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """Revisions that this call applied, and those that were applied before, each in order."""

    applied: tuple[str, ...]
    already: tuple[str, ...]

    @property
    def head(self) -> str | None:
        """The revision that the database is at."""
        return (*self.already, *self.applied)[-1] if self.applied or self.already else None


def read_migrations(folder: Path | None = None) -> tuple[MigrationFile, ...]:
    """The migration files of `folder` (default: the project's `sql/`), in order.

    Raises:
        DatabaseError: none there, a name that is not `NNNN_name.sql`, or a number that is missing or taken twice.
    """
    folder = project_file("sql") if folder is None else folder
    paths = sorted(folder.glob("*.sql"))
    names = [path.name for path in paths]
    numbers = [int(match.group(1)) for name in names if (match := _FILE_NAME.match(name))]
    if not paths or numbers != list(range(1, len(paths) + 1)):
        raise DatabaseError(
            "The migration files are not a numbered series",
            expected="0001_name.sql, 0002_name.sql, ... without a gap",
            found=f"{', '.join(names) or 'no .sql file'} in {folder}",
            remedy="restore the folder from the repository, or install the package again",
        )
    files = []
    for path in paths:
        payload = path.read_bytes()
        files.append(MigrationFile(path.stem, path, payload.decode(), hashlib.sha256(payload).hexdigest()))
    return tuple(files)


def migrate(db: Database, *, corpus: str | None = None, folder: Path | None = None) -> MigrationReport:
    """Bring the database to the newest schema, as `zeroth_owner`. Safe to call twice, and from several processes.

    Each file is one transaction: a failing one leaves what came before it, and nothing of itself. This home's key for
    claims is registered. With `corpus`, the database is also claimed for it (see `claim_corpus`).

    Raises:
        DatabaseError: an applied file has changed or is gone, a file fails, another process holds the lock for more
            than a minute, or the database holds another corpus.
    """
    files = read_migrations(folder)
    with db.owner() as connection:
        with database_errors("preparing to migrate"):
            _prepare(connection)
        # From here SQLAlchemy has the connection to itself, inside this block, and gives it back open.
        engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: connection, poolclass=StaticPool)
        try:
            with engine.connect() as handle:
                report = _apply(handle, connection, files)
        finally:
            if not connection.closed:
                connection.rollback()
                connection.execute("select pg_advisory_unlock_all()")
                connection.commit()
    ensure_claim_key(db)
    if corpus is not None:
        claim_corpus(db, corpus)
    return report


def claim_corpus(db: Database, corpus: str) -> None:
    """Make sure that this database holds `corpus` and no other: the first claim stays.

    Raises:
        DatabaseError: it was claimed for another corpus.
    """
    with database_errors("reading which corpus the database holds"), db.owner() as connection:
        connection.execute(
            "insert into zeroth.meta (key, value) values ('corpus', %s) on conflict (key) do nothing", (corpus,)
        )
        row = connection.execute("select value from zeroth.meta where key = 'corpus'").fetchone()
        connection.commit()
    found = row[0] if row else None
    if found != corpus:
        raise DatabaseError(
            "The database holds another corpus",
            expected=f"corpus {corpus!r}",
            found=f"corpus {found!r}",
            remedy="set ZEROTH_HOME (or ZEROTH_DATABASE_URL) to a place of this corpus' own",
        )


def _prepare(connection: psycopg.Connection[Any]) -> None:
    """Take the lock for this session, and have the bookkeeping tables."""
    connection.rollback()
    connection.autocommit = False
    connection.execute(sql.SQL("set lock_timeout = {}").format(_LOCK_TIMEOUT))
    connection.execute("select pg_advisory_lock(hashtextextended('zeroth.migrate', 0))")
    connection.execute("reset lock_timeout")
    connection.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(_BOOKKEEPING)))
    connection.execute(
        sql.SQL(
            "create table if not exists {} (revision text primary key, sha256 text not null,"
            " applied_at timestamptz not null default clock_timestamp())"
        ).format(sql.Identifier(_BOOKKEEPING, "applied_file"))
    )
    connection.commit()


def _apply(
    handle: sqlalchemy.Connection, raw: psycopg.Connection[Any], files: tuple[MigrationFile, ...]
) -> MigrationReport:
    """Apply what is missing through Alembic. `raw` is the connection under `handle`, for files of many statements."""
    rows = raw.execute(
        sql.SQL("select revision, sha256 from {} order by revision").format(
            sql.Identifier(_BOOKKEEPING, "applied_file")
        )
    ).fetchall()
    raw.rollback()
    recorded = {str(revision): str(digest) for revision, digest in rows}
    _refuse_rewritten_history(recorded, files)
    todo = [file for file in files if file.revision not in recorded]

    revisions = RevisionMap(lambda: [_script(raw, files, position) for position in range(len(files))])

    def steps(heads: tuple[str, ...], _context: MigrationContext) -> Iterator[RevisionStep]:
        for file in todo:
            yield RevisionStep(revisions, cast(Script, revisions.get_revision(file.revision)), True)

    context = MigrationContext.configure(
        handle,
        opts={"fn": steps, "version_table_schema": _BOOKKEEPING, "transaction_per_migration": True},
    )
    with context.begin_transaction():
        context.run_migrations()
    return MigrationReport(tuple(file.revision for file in todo), tuple(sorted(recorded)))


def _script(raw: psycopg.Connection[Any], files: tuple[MigrationFile, ...], position: int) -> Script:
    """An Alembic revision whose upgrade runs the file and records its checksum."""
    file = files[position]

    def upgrade() -> None:
        try:
            raw.execute(cast(Any, file.text))  # the files are ours; without parameters they may hold many statements
            raw.execute(
                sql.SQL("insert into {} (revision, sha256) values (%s, %s)").format(
                    sql.Identifier(_BOOKKEEPING, "applied_file")
                ),
                (file.revision, file.sha256),
            )
        except psycopg.Error as error:
            raise as_database_error(error, f"applying migration {file.path.name} (rolled back)") from error

    module = types.ModuleType(file.revision)
    module.__dict__.update(
        revision=file.revision,
        down_revision=files[position - 1].revision if position else None,
        upgrade=upgrade,
    )
    return Script(module, file.revision, str(file.path))


def _refuse_rewritten_history(recorded: dict[str, str], files: tuple[MigrationFile, ...]) -> None:
    present = {file.revision: file.sha256 for file in files}
    differences = [
        f"{revision}.sql was applied as {digest[:12]} and is {present.get(revision, 'gone')[:12]}"
        for revision, digest in sorted(recorded.items())
        if present.get(revision) != digest
    ]
    if differences:
        raise DatabaseError(
            "Migrations that this database has applied are not those at hand",
            expected="applied files unchanged",
            found="; ".join(differences),
            remedy="restore them (`git checkout sql/`) and put the change into a new file with the next number; if the "
            "database is newer than this version of zeroth-assets, install the newer version",
        )
