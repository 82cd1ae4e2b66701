"""An external server: roles and databases made by an administrator's login, great or small, or found there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store.connect import Database, embedded_database, external_database, open_database
from zeroth_assets.store.passwords import Role, password_file
from zeroth_assets_tests.database_fixtures import make_home, remove_home

MANAGED = ("zeroth_owner", "zeroth_loader", "zeroth_app", "zeroth_dagster")


@pytest.fixture(scope="module")
def foreign() -> Iterator[Database]:
    """A server that plays somebody else's: nothing of ours is in it."""
    home = make_home("foreign")
    yield embedded_database(home)
    remove_home(home)


@pytest.fixture
def superuser(foreign: Database) -> Iterator[psycopg.Connection]:
    """The foreign server's superuser; afterwards the server is empty again."""
    with foreign.administrator.connect(autocommit=True) as conn:
        yield conn
        for (name,) in conn.execute("select datname from pg_database where not datistemplate").fetchall():
            if name != "postgres":
                conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
        for role in (*MANAGED, "chief"):
            if conn.execute("select 1 from pg_roles where rolname = %s", [role]).fetchone():
                conn.execute(sql.SQL("drop owned by {0}; drop role {0}").format(sql.Identifier(role)))


def _chief(foreign: Database, superuser: psycopg.Connection, rights: str, dbname: str = "postgres") -> str:
    """The URL of an administrator who is no superuser."""
    superuser.execute(f"create role chief login {rights} password 'pw'")
    return f"postgresql://chief:pw@127.0.0.1:{foreign.administrator.port}/{dbname}"


def test_a_superusers_url_gives_roles_databases_and_logins(
    foreign: Database, superuser: psycopg.Connection, tmp_path: Path
) -> None:
    db = open_database(tmp_path, foreign.administrator.url)
    assert not db.embedded
    assert db.name == "zeroth"
    db.ensure_databases()
    db.ensure_databases()
    with db.app() as conn:
        assert conn.execute("select current_user, current_database()").fetchone() == ("zeroth_app", "zeroth")
    with db.admin() as conn:
        assert conn.execute("select current_user").fetchone() == ("zeroth_admin",)
    with psycopg.connect(db.dagster_url()) as conn:
        assert conn.execute("select current_database()").fetchone() == ("zeroth_dagster",)
    assert password_file(tmp_path).stat().st_mode & 0o777 == 0o600
    # The foreign server's own databases are not ours to lock.
    row = superuser.execute("select has_database_privilege('public', 'postgres', 'CONNECT')").fetchone()
    assert row == (True,)


def test_an_administrator_with_createrole_and_createdb_is_enough_but_for_the_extension(
    foreign: Database, superuser: psycopg.Connection, tmp_path: Path
) -> None:
    db = external_database(_chief(foreign, superuser, "createrole createdb", "library"), tmp_path)
    assert db.name == "library"
    with pytest.raises(DatabaseError, match="extension `vector` cannot be created"):
        db.ensure_databases()
    with foreign.administrator.to("library").connect(autocommit=True) as conn:
        conn.execute("create extension vector")
    db.ensure_databases()
    with db.owner() as conn:
        conn.execute("create schema zeroth")
    with db.loader() as conn:
        conn.execute("create temporary table t (v vector(2))")


@pytest.mark.parametrize(("rights", "lacking"), [("createdb", "CREATEROLE"), ("createrole", "CREATEDB")])
def test_an_administrator_who_lacks_a_right_is_told_which(
    foreign: Database, superuser: psycopg.Connection, tmp_path: Path, rights: str, lacking: str
) -> None:
    db = external_database(_chief(foreign, superuser, rights), tmp_path)
    with pytest.raises(DatabaseError, match=lacking):
        db.ensure_databases()


def test_a_database_that_was_there_keeps_its_owner_and_its_doors(
    foreign: Database, superuser: psycopg.Connection, tmp_path: Path
) -> None:
    superuser.execute("create database library")
    db = external_database(foreign.administrator.to("library").url, tmp_path)
    db.ensure_databases()
    question = "select pg_get_userbyid(datdba), has_database_privilege('public', oid, 'CONNECT') from pg_database"
    assert superuser.execute(question + " where datname = 'library'").fetchone() == ("zeroth_admin", True)
    with db.owner() as conn:
        conn.execute("create schema zeroth")


def test_a_second_home_is_told_to_bring_the_passwords_or_reset_them(
    foreign: Database, superuser: psycopg.Connection, tmp_path: Path
) -> None:
    first = external_database(foreign.administrator.url, tmp_path / "first")
    first.ensure_databases()
    second = external_database(foreign.administrator.url, tmp_path / "second")
    with pytest.raises(DatabaseError, match="with this home's password") as caught:
        second.ensure_databases()
    assert "copy that file" in caught.value.remedy
    with first.app() as conn:
        assert conn.execute("select 1").fetchone() == (1,)
    second.reset_passwords()
    second.ensure_databases()
    with pytest.raises(DatabaseError, match="password authentication failed"), first.app():
        pass


def test_a_role_with_rights_that_void_the_policies_is_refused_and_not_changed(
    foreign: Database, superuser: psycopg.Connection, tmp_path: Path
) -> None:
    superuser.execute("create role zeroth_app login bypassrls")
    with pytest.raises(DatabaseError, match="void row-level security") as caught:
        external_database(foreign.administrator.url, tmp_path).ensure_databases()
    assert "ALTER ROLE zeroth_app" in caught.value.remedy
    assert superuser.execute("select rolbypassrls from pg_roles where rolname = 'zeroth_app'").fetchone() == (True,)


def test_a_database_of_another_encoding_is_refused(
    foreign: Database, superuser: psycopg.Connection, tmp_path: Path
) -> None:
    superuser.execute("create database library template template0 encoding 'LATIN1' locale 'C'")
    with pytest.raises(DatabaseError, match="encoding LATIN1"):
        external_database(foreign.administrator.to("library").url, tmp_path).ensure_databases()


def test_a_wrong_administrators_password_is_said_and_not_shown(foreign: Database, tmp_path: Path) -> None:
    url = f"postgresql://zeroth_admin:hunter2@127.0.0.1:{foreign.administrator.port}/postgres"
    db = external_database(url, tmp_path)
    with pytest.raises(DatabaseError, match="password authentication failed") as caught:
        db.ensure_databases()
    assert "hunter2" not in f"{caught.value} {db!r} {db.administrator!r}"
    assert "ZEROTH_DATABASE_URL" in caught.value.remedy


def test_the_server_is_sent_verifiers_and_never_a_password(
    foreign: Database, superuser: psycopg.Connection, tmp_path: Path
) -> None:
    superuser.execute("alter system set log_statement = 'all'")
    superuser.execute("select pg_reload_conf()")
    db = external_database(foreign.administrator.url, tmp_path)
    db.ensure_databases()
    superuser.execute("alter system reset log_statement")
    superuser.execute("select pg_reload_conf()")
    log = (foreign.home / "postgres" / "cluster" / "server.log").read_text()
    assert "create role" in log
    assert not [role for role in Role if db.passwords[role].reveal() in log]


def _settings_of(conn: psycopg.Connection, role: str) -> list[tuple[str, ...]]:
    return conn.execute(
        "select unnest(s.setconfig) from pg_db_role_setting s join pg_roles r on r.oid = s.setrole"
        " where r.rolname = %s order by 1",
        [role],
    ).fetchall()


@pytest.mark.parametrize("kind", ["embedded", "external"])
def test_what_a_role_set_for_its_later_sessions_is_undone(
    foreign: Database, superuser: psycopg.Connection, tmp_path: Path, kind: str
) -> None:
    db = foreign.named("own") if kind == "embedded" else external_database(foreign.administrator.url, tmp_path)
    db.ensure_databases()
    with db.app(autocommit=True) as conn:
        conn.execute("alter role zeroth_app set row_security = off")
        conn.execute(
            sql.SQL("alter role zeroth_app in database {} set statement_timeout = '1s'").format(sql.Identifier(db.name))
        )
    assert len(_settings_of(superuser, "zeroth_app")) == 2
    db.ensure_databases()
    assert _settings_of(superuser, "zeroth_app") == []
    with db.app() as conn:
        row = conn.execute("select current_setting('row_security'), current_setting('statement_timeout')").fetchone()
    assert row == ("on", "0")


def test_an_administrator_who_may_not_alter_a_role_leaves_its_settings(
    foreign: Database, superuser: psycopg.Connection, tmp_path: Path
) -> None:
    first = external_database(foreign.administrator.to("library").url, tmp_path)
    first.ensure_databases()
    superuser.execute("alter role zeroth_app set work_mem = '8MB'")
    chief = external_database(_chief(foreign, superuser, "createrole createdb", "library"), tmp_path)
    with superuser.transaction():
        for role in ("zeroth_owner", "zeroth_dagster"):  # for the databases; zeroth_app is not the chief's
            superuser.execute(sql.SQL("grant {} to chief").format(sql.Identifier(role)))
    chief.ensure_databases()
    assert _settings_of(superuser, "zeroth_app") == [("work_mem=8MB",)]


@pytest.mark.parametrize(
    "statement",
    [
        "select lo_create(0)",
        "select lo_creat(-1)",
        "select lo_from_bytea(0, 'x')",
        "select lo_open(1, 131072)",
        "select lowrite(0, 'x')",
        "select pg_advisory_lock(hashtextextended('zeroth.sweep', 0))",
        "select pg_advisory_lock_shared(1, 2)",
        "select pg_try_advisory_lock(1)",
        "select pg_advisory_xact_lock(1)",
        "select pg_try_advisory_xact_lock_shared(1, 2)",
        "select query from pg_stat_activity",
        "select n_live_tup from pg_stat_all_tables",
        "select relation from pg_locks",
        "select pg_terminate_backend(1)",
        "select pg_cancel_backend(1)",
        "select pg_relation_size('pg_class')",
        "select pg_database_size(current_database())",
        "select currtid2('zeroth.tenant', '(0,1)')",
    ],
)
def test_a_query_is_left_no_function_that_reaches_beyond_its_own_session(database: Database, statement: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege), database.app() as conn:
        conn.execute(sql.SQL(statement))


def test_the_loader_and_the_owner_lock_and_measure_but_store_no_objects(database: Database) -> None:
    for session in (database.loader, database.owner):
        with session() as conn:
            conn.execute("select pg_advisory_lock(1), pg_advisory_unlock_all()")
            conn.execute("select count(*), pg_relation_size('pg_class') from pg_stat_activity")
        with pytest.raises(psycopg.errors.InsufficientPrivilege), session() as conn:
            conn.execute("select lo_create(0)")


def test_functions_of_a_database_of_somebody_elses_are_left_to_everybody(
    foreign: Database, superuser: psycopg.Connection, tmp_path: Path
) -> None:
    superuser.execute("create database library")
    db = external_database(foreign.administrator.to("library").url, tmp_path)
    db.ensure_databases()
    with db.app() as conn:
        assert conn.execute("select pg_try_advisory_lock(1)").fetchone() == (True,)
