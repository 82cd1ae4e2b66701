from __future__ import annotations

import threading

import psycopg
import pytest

from zeroth_assets.errors import DatabaseError, QueryError, TenantError
from zeroth_assets.search.sessions import Sessions
from zeroth_assets.store.acl import (
    NoTenantError,
    UnknownPrincipalError,
    end_left_measurements,
    forget_principal,
    grant,
    list_grants,
    measuring,
    permitted,
    put_grants,
    revoke,
)
from zeroth_assets.store.claims import ClaimError
from zeroth_assets.store.connect import Database, principal_session
from zeroth_assets.store.retire import retire_tenant
from zeroth_assets_tests.store.builders import load, make_chunks, prepared

SEEN = "select array(select distinct split_part(text, ' ', 1) from zeroth.chunk_1 order by 1)"


@pytest.fixture(scope="module")
def ids(module_database: Database) -> dict[str, int]:
    prepared(module_database)
    return {
        key: load(module_database, make_chunks(range(3), key, f"doc:{key}"), tenant=key).tenant_id
        for key in ("alpha", "beta", "gamma")
    }


@pytest.fixture
def db(module_database: Database, ids: dict[str, int]) -> Database:
    assert len(ids) == 3
    return module_database


def seen(connection: psycopg.Connection, prepare: bool | None = None) -> list[str]:
    row = connection.execute(SEEN, prepare=prepare).fetchone()
    assert row is not None
    return list(row[0])


def held(db: Database, principal: str) -> dict[str, int]:
    with db.app() as connection, principal_session(connection, principal):
        return permitted(connection)


def test_grants_add_up_and_are_listed_by_principal(db: Database, ids: dict[str, int]) -> None:
    assert grant(db, "ann", ["beta", "alpha", "beta"]) == 2
    assert grant(db, "ann", ["alpha", "gamma"]) == 1
    assert held(db, "ann") == ids
    assert revoke(db, "ann", ["beta"]) == 1
    assert revoke(db, "ann", ["beta"]) == 0
    listed = {entry.principal: entry.tenant_keys for entry in list_grants(db)}
    assert listed["ann"] == ("alpha", "gamma")
    assert listed["all"] == ("alpha", "beta", "gamma")
    assert listed["alpha"] == ("alpha",)


def test_a_principal_reads_its_own_grants_and_nobody_elses(db: Database, ids: dict[str, int]) -> None:
    grant(db, "ben", ["beta"])
    grant(db, "cleo", ["gamma"])
    with db.app() as connection, principal_session(connection, "ben"):
        rows = connection.execute("select * from zeroth.my_grants()").fetchall()
        assert rows == [(ids["beta"], "beta")]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("select * from zeroth_acl.grant_")


def test_an_unknown_tenant_is_refused_by_name_and_nothing_is_granted(db: Database) -> None:
    with pytest.raises(TenantError, match=r"'nowhere', 'nowhere-else'") as caught:
        grant(db, "dan", ["nowhere-else", "alpha", "nowhere"])
    assert "2 tenants" in caught.value.what
    with pytest.raises(UnknownPrincipalError):
        held(db, "dan")
    grant(db, "dan", ["alpha"])
    with pytest.raises(TenantError, match="nowhere"):
        revoke(db, "dan", ["alpha", "nowhere"])
    assert list(held(db, "dan")) == ["alpha"]


def test_an_unknown_principal_and_one_without_a_tenant_are_told_apart(db: Database) -> None:
    with pytest.raises(UnknownPrincipalError, match="'eve' is not known"):
        held(db, "eve")
    with pytest.raises(UnknownPrincipalError):
        revoke(db, "eve")
    grant(db, "eve", ["alpha", "beta"])
    assert revoke(db, "eve") == 2
    with pytest.raises(NoTenantError, match="'eve' may read no tenant"):
        held(db, "eve")
    forget_principal(db, "eve")
    with pytest.raises(UnknownPrincipalError):
        held(db, "eve")
    with pytest.raises(UnknownPrincipalError):
        forget_principal(db, "eve")


@pytest.mark.parametrize("principal", ["", "a\nb", "x" * 201])
def test_an_unusable_principal_is_granted_nothing(db: Database, principal: str) -> None:
    with pytest.raises(QueryError):
        grant(db, principal, ["alpha"])


def test_no_tenant_named_is_an_error_and_no_grant_of_everything(db: Database) -> None:
    with pytest.raises(QueryError, match="No tenant"):
        grant(db, "fay", [])
    grant(db, "fay", ["alpha"])
    assert revoke(db, "fay", []) == 0
    assert list(held(db, "fay")) == ["alpha"]


def test_without_a_claim_asking_for_grants_is_an_error(db: Database) -> None:
    with db.app() as connection, pytest.raises(ClaimError, match="Nobody is asking"):
        permitted(connection)


def test_changes_hold_from_the_next_statement_of_every_open_session_cached_plans_included(db: Database) -> None:
    """Two sessions: one within a READ COMMITTED transaction, one with a transaction for each statement."""
    grant(db, "gus", ["alpha"])
    with db.app() as inside, db.app() as between:
        inside.prepare_threshold = between.prepare_threshold = 0
        inside.execute("set plan_cache_mode = force_generic_plan")
        inside.commit()

        def both() -> list[list[str]]:
            found = [seen(inside, prepare=True)]
            with principal_session(between, "gus"):
                found.append(seen(between, prepare=True))
            return found

        with principal_session(inside, "gus"):
            for _ in range(7):
                assert both() == [["alpha"]] * 2
            revoke(db, "gus", ["alpha"])
            assert both() == [[]] * 2
            grant(db, "gus", ["beta", "gamma"])
            assert both() == [["beta", "gamma"]] * 2
            revoke(db, "gus", ["gamma"])
            assert both() == [["beta"]] * 2
            revoke(db, "gus")
            assert both() == [[]] * 2
            with pytest.raises(NoTenantError):
                permitted(inside)


def test_a_plan_cached_for_one_principal_gives_the_next_its_own_rows(db: Database) -> None:
    with db.app() as connection:
        connection.prepare_threshold = 0
        connection.execute("set plan_cache_mode = force_generic_plan")
        connection.commit()
        for _ in range(3):
            for principal in ("alpha", "gamma"):
                with principal_session(connection, principal):
                    assert seen(connection, prepare=True) == [principal]


def test_a_retired_tenant_leaves_its_principal_known_and_without_a_tenant(db: Database) -> None:
    load(db, make_chunks(range(2), "leaving", "doc:leaving"), tenant="leaving")
    with db.app() as connection, principal_session(connection, "leaving"):
        assert seen(connection) == ["leaving"]
        retire_tenant(db, "leaving", sweep_wait_seconds=0.1)
        assert seen(connection) == []
        with pytest.raises(NoTenantError):
            permitted(connection)
    load(db, make_chunks(range(2), "again", "doc:again"), tenant="leaving")
    assert list(held(db, "leaving")) == ["leaving"]


def test_a_snapshot_keeps_a_grant_no_longer_than_its_transaction(db: Database) -> None:
    """REPEATABLE READ sees the access list as of its snapshot; the claim's end bounds that (see test_claims)."""
    grant(db, "hal", ["alpha"])
    with db.app() as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with principal_session(connection, "hal"):
            assert seen(connection) == ["alpha"]
            revoke(db, "hal")
            assert seen(connection) == ["alpha"]
        with principal_session(connection, "hal"):
            assert seen(connection) == []


def test_a_measurements_principals_end_with_it_however_it_ends(db: Database) -> None:
    before = list_grants(db)
    with measuring(db, {"measure.two": ["alpha", "beta"]}):
        assert set(held(db, "measure.two")) == {"alpha", "beta"}
    assert list_grants(db) == before
    with pytest.raises(TenantError, match="nowhere"), measuring(db, {"measure.a": ["alpha"], "measure.b": ["nowhere"]}):
        pass
    with pytest.raises(RuntimeError), measuring(db, {"measure.a": ["alpha"]}):
        raise RuntimeError("the measurement failed")
    assert list_grants(db) == before


def test_what_a_killed_measurement_left_ends_at_the_next_start_and_one_that_goes_on_is_left_alone(db: Database) -> None:
    before = list_grants(db)
    put_grants(db, "measure.ten", ["alpha", "beta"])
    assert end_left_measurements(db) == 1
    assert list_grants(db) == before
    put_grants(db, "measure.ten", ["alpha", "gamma"])
    with measuring(db, {"measure.one": ["alpha"]}):
        assert [one.principal for one in list_grants(db) if one.principal.startswith("measure.")] == ["measure.one"]
        assert end_left_measurements(db) == 0
        assert set(held(db, "measure.one")) == {"alpha"}
    assert list_grants(db) == before


def test_two_measurements_wait_for_each_other_and_take_nothing_from_each_other(db: Database) -> None:
    inside, leave, found = threading.Event(), threading.Event(), []

    def first() -> None:
        with measuring(db, {"measure.some": ["alpha"]}):
            inside.set()
            leave.wait(30)
            found.append(set(held(db, "measure.some")))

    running = threading.Thread(target=first)
    running.start()
    assert inside.wait(30)
    try:
        with (
            pytest.raises(DatabaseError, match="measuring"),
            measuring(db, {"measure.some": ["beta"]}, wait_seconds=0.05),
        ):
            pass
    finally:
        leave.set()
        running.join()
    assert found == [{"alpha"}]
    with measuring(db, {"measure.some": ["beta"]}):
        assert set(held(db, "measure.some")) == {"beta"}


def test_nobody_can_be_named_like_a_measurement_or_ask_as_one(db: Database) -> None:
    with pytest.raises(QueryError, match="cannot be somebody"):
        grant(db, "measure.all-but-one", ["alpha"])
    with pytest.raises(QueryError, match="nobody's name"), measuring(db, {"ann": ["alpha"]}):
        pass
    with (
        measuring(db, {"measure.one": ["alpha"]}),
        Sessions(db) as sessions,
        pytest.raises(QueryError, match="cannot be somebody"),
        sessions.session("measure.one", "asking"),
    ):
        pass
