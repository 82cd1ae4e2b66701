from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store import preflight as module
from zeroth_assets.store.connect import Database, external_database
from zeroth_assets.store.passwords import Role
from zeroth_assets.store.preflight import PreflightError, preflight, preflight_connection
from zeroth_assets.store.versions import ServerVersions
from zeroth_assets_tests.store.builders import load, make_chunks, prepared


@pytest.fixture(scope="module")
def db(module_database: Database) -> Database:
    prepared(module_database)
    load(module_database, make_chunks(range(3)), tenant="alpha")
    return module_database


@contextmanager
def changed(db: Database, change: str, back: str) -> Iterator[None]:
    with db.admin(autocommit=True) as admin:
        for statement in change.split(";"):
            admin.execute(statement)
    try:
        yield
    finally:
        with db.admin(autocommit=True) as admin:
            for statement in back.split(";"):
                admin.execute(statement)


def refused(db: Database) -> PreflightError:
    with pytest.raises(PreflightError) as caught:
        preflight(db)
    return caught.value


def test_a_sound_database_passes_and_says_what_was_looked_at(db: Database) -> None:
    report = preflight(db)
    assert (report.role, report.partitions) == ("zeroth_app", 1)
    assert report.tables >= 8
    assert report.versions.postgres.startswith(("15.", "16.", "17.", "18."))


ROLES = [
    ("alter role zeroth_app superuser", "alter role zeroth_app nosuperuser", "role zeroth_app", "superuser"),
    ("alter role zeroth_app bypassrls", "alter role zeroth_app nobypassrls", "role zeroth_app", "BYPASSRLS"),
    ("alter role zeroth_app createrole", "alter role zeroth_app nocreaterole", "role zeroth_app", "CREATEROLE"),
    ("alter role zeroth_app replication", "alter role zeroth_app noreplication", "role zeroth_app", "REPLICATION"),
    (
        "grant zeroth_owner to zeroth_app",
        "revoke zeroth_owner from zeroth_app",
        "role zeroth_app -> zeroth_owner",
        "owner of",
    ),
    (
        "grant zeroth_loader to zeroth_app",
        "revoke zeroth_loader from zeroth_app",
        "role zeroth_app -> zeroth_loader",
        "another role",
    ),
    (
        "grant pg_read_server_files to zeroth_app",
        "revoke pg_read_server_files from zeroth_app",
        "role zeroth_app -> pg_read_server_files",
        "sees past policies",
    ),
    (
        "create role pre_one; create role pre_two bypassrls; grant pre_two to pre_one; grant pre_one to zeroth_app",
        "drop role pre_one; drop role pre_two",
        "role zeroth_app -> pre_one -> pre_two",
        "BYPASSRLS",
    ),
]


@pytest.mark.parametrize(("change", "back", "where", "what"), ROLES, ids=[where for _, _, where, _ in ROLES])
def test_a_role_that_is_or_can_become_too_much_is_refused(
    db: Database, change: str, back: str, where: str, what: str
) -> None:
    with changed(db, change, back):
        error = refused(db)
    assert [d for d in error.differences if d.object == where and what in d.found], error.differences
    assert where in error.found
    preflight(db)


TABLES = [
    ("alter table {} disable row level security", "alter table {} enable row level security", "is on"),
    ("alter table {} no force row level security", "alter table {} force row level security", "is forced"),
]


@pytest.mark.parametrize("table", ["zeroth.chunk_1", "zeroth.chunk_1_t1", "zeroth.tenant", "zeroth_acl.claim_key"])
@pytest.mark.parametrize(("change", "back", "rule"), TABLES, ids=["off", "not forced"])
def test_row_security_that_is_off_or_not_forced_is_refused(
    db: Database, table: str, change: str, back: str, rule: str
) -> None:
    with changed(db, change.format(table), back.format(table)):
        (difference,) = refused(db).differences
    assert difference.object == table
    assert rule in difference.rule


def test_a_grant_on_a_partition_is_refused(db: Database) -> None:
    grant, back = (
        "grant select on zeroth.chunk_1_t1 to zeroth_app",
        "revoke select on zeroth.chunk_1_t1 from zeroth_app",
    )
    with changed(db, grant, back):
        (difference,) = refused(db).differences
    assert (difference.object, difference.found) == ("zeroth.chunk_1_t1", "SELECT to zeroth_app")


def test_every_difference_is_told_at_once_and_survives_pickling(db: Database) -> None:
    change = "alter role zeroth_app createrole; alter table zeroth.chunk_1_t1 disable row level security"
    back = "alter role zeroth_app nocreaterole; alter table zeroth.chunk_1_t1 enable row level security"
    with changed(db, change, back):
        error = refused(db)
    assert len(error.differences) == 2
    assert "2 differences" in error.found
    assert "CREATEROLE" in str(error)
    assert pickle.loads(pickle.dumps(error)).differences == error.differences


def test_a_connection_of_another_role_is_refused(db: Database) -> None:
    for connect in (db.admin, db.owner, db.loader):
        with connect() as connection, pytest.raises(PreflightError, match=r"session user zeroth_"):
            preflight_connection(connection)
    with db.admin() as connection:
        connection.execute("set role zeroth_app")  # it can reset it
        with pytest.raises(PreflightError, match="superuser"):
            preflight_connection(connection)
    with db.app() as connection:
        assert preflight_connection(connection).role == "zeroth_app"


def test_versions_below_the_floor_are_refused_among_the_rest(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_old(_: object) -> ServerVersions:
        raise DatabaseError("This PostgreSQL is too old", found="18.1", remedy="update it to 18.2")

    monkeypatch.setattr(module, "check_server", too_old)
    (difference,) = refused(db).differences
    assert (difference.found, difference.remedy) == ("18.1", "update it to 18.2")


def test_a_database_that_was_never_migrated_is_refused(fresh_database: Database) -> None:
    (difference,) = refused(fresh_database).differences
    assert "zeroth db migrate" in difference.remedy


def test_it_works_on_a_server_that_is_not_ours_by_its_url(db: Database) -> None:
    outside = external_database(db.url_for(Role.ADMIN), db.home)
    assert not outside.embedded
    assert preflight(outside) == preflight(db)
