"""What EXPLAIN tells: the planner's estimates come before the policies, so there must be nothing to estimate from."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from zeroth_assets.settings import project_file
from zeroth_assets.store.binaries import binaries_folder
from zeroth_assets.store.connect import Database, embedded_database, principal_session
from zeroth_assets.store.migrate import migrate
from zeroth_assets.store.registry import ensure_chunk_set
from zeroth_assets_tests.database_fixtures import make_home, remove_home
from zeroth_assets_tests.store.builders import CHUNK_SET, DIMENSION, load, make_chunks, prepared

FIRST_WITHOUT = "0005_no_statistics.sql"
# A condition that the other tenant's rows meet, and its like that they do not.
PROBES = (
    ("chunk_1", "document_id = 'doc:beta'", "document_id = 'doc:gone'"),
    ("chunk_1", "document_version = 'v1'", "document_version = 'v2'"),
    ("chunk_1", "section_path < '1 Scope > 2'", "section_path < '0'"),
    ("chunk_1", "text >= 'beta' and text < 'betb'", "text >= 'cage' and text < 'cagf'"),
    ("chunk_1", "token_count = 12", "token_count = 13"),
    ("chunk_1", "char_start > 2000", "char_start > 9000000"),
    ("chunk_1", "page_first = 1", "page_first = 9"),
    ("chunk_1", "chunk_id > 0", "chunk_id > 9223372036854775806"),
    ("tenant", "tenant_key < 'c'", "tenant_key < 'a'"),
    ("index_build", "chunker_version = '1'", "chunker_version = '0'"),
)


def earlier(tmp_path: Path) -> Path:
    """The migrations as they were before statistics were given up."""
    folder = Path(shutil.copytree(project_file("sql"), tmp_path / "sql"))
    for file in folder.glob("*.sql"):
        if file.name >= FIRST_WITHOUT:
            file.unlink()
    return folder


def load_two(db: Database) -> dict[str, int]:
    return {
        key: load(db, make_chunks(range(400), key, f"doc:{key}"), tenant=key).tenant_id for key in ("alpha", "beta")
    }


def analyse_everything(db: Database) -> None:
    with db.owner(autocommit=True) as connection:
        connection.execute("analyze zeroth.chunk_1, zeroth.tenant, zeroth.index_build, zeroth_acl.grant_")


def kept(db: Database) -> set[tuple[str, str]]:
    """Tables and columns of ours that have statistics."""
    with db.admin() as connection:
        rows = connection.execute(
            "select c.relname, a.attname from pg_statistic s join pg_class c on c.oid = s.starelid"
            " join pg_attribute a on a.attrelid = s.starelid and a.attnum = s.staattnum"
            " where c.relnamespace in ('zeroth'::regnamespace, 'zeroth_acl'::regnamespace)"
            " and c.relname not in ('meta', 'chunk_set')"
        ).fetchall()
    return {(str(table), str(column)) for table, column in rows}


def estimate(connection: psycopg.Connection, table: str, condition: str) -> object:
    statement = sql.SQL("explain select 1 from zeroth.{} where " + condition).format(sql.Identifier(table))
    return connection.execute(statement).fetchall()[0][0].partition("rows=")[2]


@contextlib.contextmanager
def as_principal(db: Database, principal: str) -> Iterator[psycopg.Connection]:
    """A transaction of the principal's, also under a schema of before claims."""
    with db.app() as connection:
        row = connection.execute("select to_regproc('zeroth.verified_principal') is null").fetchone()
        connection.rollback()
        if row == (True,):
            connection.execute("select set_config('zeroth.principal', %s, true)", (principal,))
            yield connection
        else:
            with principal_session(connection, principal):
                yield connection


def told_apart(db: Database, beta: int) -> list[str]:
    """The probes by which tenant alpha learns of beta's rows."""
    with as_principal(db, "alpha") as connection:
        return [
            there
            for table, there, gone in PROBES
            if estimate(connection, table, f"tenant_id = {beta} and ({there})")
            != estimate(connection, table, f"tenant_id = {beta} and ({gone})")
        ]


@pytest.fixture(params=["newest", "16"])
def server_database(request: pytest.FixtureRequest, database: Database) -> Iterator[Database]:
    """A new database on the session's server, and on one that cannot clear a column's statistics by function."""
    if request.param == "newest":
        yield request.getfixturevalue("fresh_database")
        return
    older = binaries_folder().parents[1] / "pginstall" / "bin"
    if not older.is_dir():
        pytest.skip("the package has no PostgreSQL 16")
    home = make_home("older")
    try:
        db = embedded_database(home, older)
        db.ensure_databases()
        yield db
    finally:
        remove_home(home)


def test_an_estimate_says_nothing_about_another_tenants_rows(fresh_database: Database) -> None:
    db = prepared(fresh_database)
    beta = load_two(db)["beta"]
    assert told_apart(db, beta) == []
    analyse_everything(db)
    load(db, make_chunks(range(390), "beta", "doc:beta"), tenant="beta")  # deletes, so that it vacuums and analyses
    assert told_apart(db, beta) == []


def test_only_the_tenant_of_a_chunk_has_statistics(fresh_database: Database) -> None:
    db = prepared(fresh_database)
    load_two(db)
    analyse_everything(db)
    assert kept(db) == {(table, "tenant_id") for table in ("chunk_1", "chunk_1_t1", "chunk_1_t2")}


def test_statistics_of_an_earlier_version_are_cleared_and_the_rows_stay(
    server_database: Database, tmp_path: Path
) -> None:
    db = server_database
    migrate(db, folder=earlier(tmp_path))
    ensure_chunk_set(db, CHUNK_SET, DIMENSION)
    ids = load_two(db)
    analyse_everything(db)
    assert len(told_apart(db, ids["beta"])) >= 5  # the leak, without which this test shows nothing
    question = (
        "select count(*), sum(chunk_id), sum(hashtext(text)), sum(length(tsv)), count(distinct embedding)"
        " from zeroth.chunk_1"
    )
    with as_principal(db, "all") as connection:
        before = connection.execute(question).fetchone()
    indexes = (
        "select indexname from pg_indexes where schemaname = 'zeroth'"
        " and tablename ~ '^(chunk_.*|tenant|index_build|retired_partition|meta)$' order by 1"
    )
    with db.admin() as connection:
        indexed = connection.execute(indexes).fetchall()

    migrate(db)

    assert {column for _, column in kept(db)} <= {"tenant_id"}
    assert told_apart(db, ids["beta"]) == []
    analyse_everything(db)
    assert told_apart(db, ids["beta"]) == []
    with as_principal(db, "all") as connection:
        assert connection.execute(question).fetchone() == before
    with as_principal(db, "alpha") as connection:
        assert connection.execute("select distinct tenant_id from zeroth.chunk_1").fetchall() == [(ids["alpha"],)]
    with db.admin() as connection:
        assert connection.execute(indexes).fetchall() == indexed
        stored = connection.execute(
            "select distinct a.attstorage::text from pg_attribute a where a.attname = 'embedding'"
            " and a.attrelid::regclass::text ~ '^zeroth.chunk_[0-9]+(_t[0-9]+)?$'"
        ).fetchall()
        assert stored == [("p",)]
        unforced = connection.execute(
            "select relname from pg_class where relnamespace = 'zeroth'::regnamespace and relkind in ('r', 'p')"
            " and not (relrowsecurity and relforcerowsecurity)"
        ).fetchall()
    assert unforced == []
    report = load(db, make_chunks(range(390), "beta", "doc:beta"), tenant="beta")
    assert (report.kind, report.deleted) == ("changed", 10)
    load(db, make_chunks(range(20), "gamma", "doc:gamma"), tenant="gamma")
    assert {column for _, column in kept(db)} == {"tenant_id"}
