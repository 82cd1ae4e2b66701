from __future__ import annotations

import pickle
import subprocess
from contextlib import AbstractContextManager
from typing import Protocol

import psycopg
import pytest
import sqlalchemy
from psycopg.errors import InsufficientPrivilege

from zeroth_assets.errors import DatabaseError, QueryError
from zeroth_assets.store import server
from zeroth_assets.store.claims import ClaimError
from zeroth_assets.store.connect import Database, open_database, principal_session
from zeroth_assets.store.migrate import migrate
from zeroth_assets.store.passwords import Role
from zeroth_assets_tests.database_fixtures import make_home, remove_home
from zeroth_assets_tests.store.helpers import python_script


class Connect(Protocol):
    def __call__(self, *, autocommit: bool = ...) -> AbstractContextManager[psycopg.Connection]: ...


def _connectors(db: Database) -> dict[Role, Connect]:
    return {Role.OWNER: db.owner, Role.LOADER: db.loader, Role.APP: db.app, Role.ADMIN: db.admin}


def test_each_role_connects_as_itself_to_the_data_database(fresh_database: Database) -> None:
    for role, connect in _connectors(fresh_database).items():
        with connect() as conn:
            row = conn.execute("select session_user, current_user, current_database()").fetchone()
        assert row == (role.value, role.value, fresh_database.name)


def test_only_the_administrator_is_above_the_policies(database: Database) -> None:
    with database.admin() as conn:
        rows = conn.execute("select rolname from pg_roles where rolsuper or rolbypassrls").fetchall()
    assert rows == [(Role.ADMIN.value,)]


def test_a_role_that_was_given_too_much_is_refused_and_put_right(database: Database) -> None:
    with database.admin(autocommit=True) as conn:
        conn.execute("alter role zeroth_app bypassrls")
    try:
        with pytest.raises(DatabaseError, match="bypasses row-level security True"), database.app():
            pass
    finally:
        database.ensure_databases()
    with database.app() as conn:
        assert conn.execute("select 1").fetchone() == (1,)


def test_the_data_database_is_the_owners_and_has_vector(fresh_database: Database) -> None:
    with fresh_database.owner() as conn:
        row = conn.execute("select pg_get_userbyid(datdba) from pg_database where datname = current_database()")
        assert row.fetchone() == ("zeroth_owner",)
        assert conn.execute("select '[1,2]'::vector <=> '[1,2]'").fetchone() == (0.0,)
        conn.execute("create schema zeroth")


@pytest.mark.parametrize(
    ("role", "statement"),
    [
        (Role.APP, "create temporary table t (n int)"),
        (Role.APP, "create table public.t (n int)"),
        (Role.APP, "create schema s"),
        (Role.LOADER, "create table public.t (n int)"),
        (Role.LOADER, "create schema s"),
        (Role.OWNER, "create role r"),
        (Role.OWNER, "create database d"),
    ],
)
def test_a_role_may_not_do_what_is_another_roles(module_database: Database, role: Role, statement: str) -> None:
    with _connectors(module_database)[role](autocommit=True) as conn, pytest.raises(InsufficientPrivilege):
        conn.execute(statement)


def test_the_loader_may_use_temporary_tables(module_database: Database) -> None:
    with module_database.loader() as conn:
        conn.execute("create temporary table t (n int)")


def test_no_role_gets_into_a_database_that_is_not_its_own(module_database: Database) -> None:
    for role, names in {
        Role.APP: ("postgres", "template1", module_database.dagster_name),
        Role.LOADER: ("postgres", "template1", module_database.dagster_name),
        Role.OWNER: ("postgres", "template1", module_database.dagster_name),
        Role.DAGSTER: ("postgres", "template1", module_database.name),
    }.items():
        for name in names:
            with pytest.raises(DatabaseError, match="permission denied"):
                module_database.login(role).to(name).connect()


def test_dagsters_url_works_as_sqlalchemy_reads_it(module_database: Database) -> None:
    engine = sqlalchemy.create_engine(module_database.dagster_url())
    with engine.begin() as conn:
        row = conn.execute(sqlalchemy.text("select current_user, current_database()")).fetchone()
        conn.execute(sqlalchemy.text("create table runs (id int)"))
    engine.dispose()
    assert row is not None
    assert tuple(row) == ("zeroth_dagster", module_database.dagster_name)


def test_a_role_url_works_for_psycopg(module_database: Database) -> None:
    with psycopg.connect(module_database.url_for(Role.LOADER)) as conn:
        assert conn.execute("select current_user").fetchone() == ("zeroth_loader",)


def test_ensure_databases_runs_twice_and_from_four_processes_at_once(database: Database) -> None:
    db = database.named("together")
    script = (
        "from zeroth_assets.store.connect import embedded_database\n"
        "print(embedded_database(home).named('together').ensure_databases().postgres)"
    )
    command = python_script(script, database.home)
    makers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    ends = [maker.communicate(timeout=120) for maker in makers]
    assert [maker.returncode for maker in makers] == [0] * 4, ends
    db.ensure_databases()
    with db.app() as conn:
        assert conn.execute("select extname from pg_extension where extname = 'vector'").fetchone() == ("vector",)


def test_no_password_shows_in_the_handles_text_or_in_the_servers_log(database: Database) -> None:
    log = server.status(database.home).log
    assert log is not None
    shown = f"{database!r} {database} {database.login(Role.APP)!r} {database.passwords}" + log.read_text()
    assert "127.0.0.1" in repr(database)
    for secret in database.passwords.values():
        assert secret.reveal() not in shown


def test_the_handle_travels_to_other_processes(database: Database) -> None:
    with pickle.loads(pickle.dumps(database)).app() as conn:
        assert conn.execute("select current_user").fetchone() == ("zeroth_app",)


def test_variables_of_the_caller_do_not_turn_the_connection_elsewhere(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {"PGHOSTADDR": "127.0.0.9", "PGSSLMODE": "require", "PGUSER": "x", "PGDATABASE": "x", "PGPASSWORD": "x"}
    for name, value in others.items():
        monkeypatch.setenv(name, value)
    with database.app() as conn:
        assert conn.execute("select current_user").fetchone() == ("zeroth_app",)


def test_a_block_commits_at_its_end_and_rolls_back_on_an_error(fresh_database: Database) -> None:
    with fresh_database.owner() as conn:
        conn.execute("create schema s; create table s.t (n int)")
    with pytest.raises(psycopg.errors.DivisionByZero), fresh_database.owner() as conn:
        conn.execute("insert into s.t values (1)").connection.execute("select 1 / 0")
    with fresh_database.owner() as conn:
        assert conn.execute("select count(*) from s.t").fetchone() == (0,)


def test_no_statement_is_prepared_behind_ones_back(database: Database) -> None:
    with database.app() as conn:
        for _ in range(20):
            conn.execute("select %s::int", [1])
        assert conn.execute("select count(*) from pg_prepared_statements").fetchone() == (0,)


def test_a_stopped_server_is_a_clear_error_and_opening_starts_it_again() -> None:
    home = make_home("stopped")
    try:
        db = open_database(home, None)
        db.ensure_databases()
        server.stop(home)
        with pytest.raises(DatabaseError, match=r"does not answer at 127\.0\.0\.1") as caught, db.app():
            pass
        assert "db start" in caught.value.remedy
        with open_database(home, None).app() as conn:
            assert conn.execute("select 1").fetchone() == (1,)
    finally:
        remove_home(home)


@pytest.fixture(scope="module")
def migrated(module_database: Database) -> Database:
    migrate(module_database)
    return module_database


def _principal(conn: psycopg.Connection) -> object:
    row = conn.execute(
        "select zeroth.verified_principal(), nullif(current_setting('zeroth.claim', true), '')"
    ).fetchone()
    assert row is not None
    return row[0] if row[1] is not None else row


@pytest.mark.parametrize("autocommit", [False, True])
def test_the_principal_lasts_for_one_transaction(migrated: Database, autocommit: bool) -> None:
    with migrated.app(autocommit=autocommit) as conn:
        with principal_session(conn, "rfc-quic'; drop table x --"):
            assert _principal(conn) == "rfc-quic'; drop table x --"
        assert _principal(conn) == (None, None)


def test_an_error_inside_ends_the_principal_as_well(migrated: Database) -> None:
    with migrated.app(autocommit=True) as conn:
        with pytest.raises(ZeroDivisionError), principal_session(conn, "a"):
            _ = 1 / 0
        assert _principal(conn) == (None, None)


def test_a_principal_within_an_open_transaction_is_refused_for_it_would_outlive_its_block(migrated: Database) -> None:
    with migrated.app() as conn:
        conn.execute("select 1")
        with pytest.raises(QueryError, match="already open"), principal_session(conn, "a"):
            pass
        conn.rollback()
        with principal_session(conn, "a"), pytest.raises(QueryError), principal_session(conn, "b"):
            pass


@pytest.mark.parametrize("principal", ["", "a\0b", "a\nb", "x" * 201])
def test_an_unusable_principal_is_refused(migrated: Database, principal: str) -> None:
    with migrated.app() as conn, pytest.raises(QueryError), principal_session(conn, principal):
        pass


def test_a_connection_that_cannot_sign_is_refused_a_principal(migrated: Database) -> None:
    for connect in (migrated.owner, migrated.loader, migrated.admin):
        with connect() as conn, pytest.raises(ClaimError, match=r"Database\.app\(\)"), principal_session(conn, "a"):
            pass


def test_a_database_that_was_never_migrated_has_no_key_and_says_what_to_do(fresh_database: Database) -> None:
    with fresh_database.app() as conn, pytest.raises(ClaimError) as caught, principal_session(conn, "a"):
        pass
    assert "zeroth db migrate" in caught.value.remedy
