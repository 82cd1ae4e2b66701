"""The boundary's shape: what each role may see and do, with and without the explicit tenant predicate."""

from __future__ import annotations

import numpy as np
import psycopg
import pytest
from psycopg import errors

from zeroth_assets.store.connect import Database, principal_session
from zeroth_assets_tests.store.builders import load, make_chunks, make_vectors, prepared

TENANTS = ("alpha", "beta", "gamma")


@pytest.fixture(scope="module")
def ids(module_database: Database) -> dict[str, int]:
    prepared(module_database)
    sizes = {"alpha": 4, "beta": 700, "gamma": 2}
    return {
        key: load(module_database, make_chunks(range(sizes[key]), key, f"doc:{key}"), tenant=key).tenant_id
        for key in TENANTS
    }


@pytest.fixture
def db(module_database: Database, ids: dict[str, int]) -> Database:
    assert len(ids) == len(TENANTS)
    return module_database


def owners_of(connection: psycopg.Connection, where: str = "") -> set[str]:
    rows = connection.execute(f"select distinct split_part(text, ' ', 1) from zeroth.chunk_1 {where}").fetchall()
    return {row[0] for row in rows}


@pytest.mark.parametrize("principal", TENANTS)
def test_a_principal_sees_its_own_rows_with_and_without_a_predicate(
    db: Database, ids: dict[str, int], principal: str
) -> None:
    with db.app() as connection, principal_session(connection, principal):
        assert owners_of(connection) == {principal}
        assert owners_of(connection, f"where tenant_id = {ids[principal]}") == {principal}
        assert owners_of(connection, "where true or tenant_id = 1") == {principal}
        for other in TENANTS:
            if other != principal:
                assert owners_of(connection, f"where tenant_id = {ids[other]}") == set()
        keys = connection.execute("select tenant_key from zeroth.tenant").fetchall()
        assert keys == [(principal,)]
        builds = connection.execute("select tenant_id from zeroth.index_build").fetchall()
        assert builds == [(ids[principal],)]


def test_the_principal_all_sees_every_tenant_and_those_added_later(db: Database) -> None:
    with db.app() as connection, principal_session(connection, "all"):
        assert owners_of(connection) >= set(TENANTS)
    load(db, make_chunks(range(2), "delta"), tenant="delta")
    with db.app() as connection, principal_session(connection, "all"):
        assert "delta" in owners_of(connection)


def test_without_a_principal_nothing_is_seen(db: Database) -> None:
    with db.app() as connection:
        for table in ("chunk_1", "tenant", "index_build"):
            row = connection.execute(f"select count(*) from zeroth.{table}").fetchone()
            assert row == (0,)


@pytest.mark.parametrize("principal", ["nobody", "ALPHA", "alpha ", "alpha'", "%", "1"])
def test_an_unknown_principal_sees_nothing(db: Database, principal: str) -> None:
    with db.app() as connection, principal_session(connection, principal):
        assert owners_of(connection) == set()


def test_a_principal_ends_with_its_transaction_on_the_same_connection(db: Database) -> None:
    with db.app() as connection:
        for _ in range(7):  # past the point where psycopg prepares the statement
            with principal_session(connection, "alpha"):
                assert owners_of(connection) == {"alpha"}
            assert owners_of(connection) == set()
            connection.rollback()
            with principal_session(connection, "gamma"):
                assert owners_of(connection) == {"gamma"}


def test_a_grant_and_its_withdrawal_hold_from_the_next_statement(db: Database, ids: dict[str, int]) -> None:
    with db.app() as connection, principal_session(connection, "bob"):
        assert owners_of(connection) == set()
        with db.owner() as owner:
            owner.execute("insert into zeroth_acl.grant_ values ('bob', %s)", (ids["gamma"],))
        assert owners_of(connection) == {"gamma"}
        with db.owner() as owner:
            owner.execute("delete from zeroth_acl.grant_ where principal = 'bob'")
        assert owners_of(connection) == set()


APP_REFUSED = [
    "select * from zeroth.chunk_1_t1",
    "select * from zeroth_acl.grant_",
    "select * from zeroth.retired_partition",
    "create table zeroth_staging.mine (n int)",
    "create table zeroth.mine (n int)",
    "create table public.mine (n int)",
    "create temporary table mine (n int)",
    "create schema mine",
    "insert into zeroth.chunk_1 (tenant_id, chunk_id) values (1, 1)",
    "insert into zeroth.tenant (tenant_key) values ('mine')",
    "insert into zeroth_acl.grant_ values ('alpha', 2)",
    "update zeroth.chunk_1 set text = ''",
    "update zeroth.index_build set status = 'superseded'",
    "delete from zeroth.chunk_1",
    "delete from zeroth.tenant",
    "truncate zeroth.chunk_1",
    "insert into zeroth.meta values ('corpus', 'mine')",
    "select zeroth.register_tenant('mine')",
    "select zeroth.ensure_chunk_set('mine', 3)",
    "select zeroth.stage_partition(1, 1)",
    "select zeroth.index_partition(1, 1, 99, 16, 64)",
    "select zeroth.attach_partition(1, 1)",
    "select zeroth.drop_superseded_indexes(1, 1)",
    "select zeroth.unregister_tenant(1)",
    "select zeroth.loading_tenant()",
    "select zeroth.partition_exists(1, 1)",
    "select zeroth.vector_schema()",
    "select zeroth.hmac_sha256('key', 'message')",
    "select * from zeroth_acl.claim_key",
    "select * from zeroth_acl.principal",
    "insert into zeroth_acl.claim_key values ('0123456789abcdef', sha256('mine'))",
    "update zeroth_acl.claim_key set key = sha256('mine')",
    "select nextval('zeroth.tenant_tenant_id_seq')",
    "select * from zeroth_migration.applied_file",
    "set role zeroth_owner",
    "set role zeroth_loader",
    "set session authorization zeroth_owner",
    "alter table zeroth.chunk_1 no force row level security",
    "drop policy app_reads on zeroth.chunk_1",
    "copy zeroth.chunk_1 from stdin",
]


@pytest.mark.parametrize("statement", APP_REFUSED)
def test_the_app_role_is_refused(db: Database, statement: str) -> None:
    with db.app() as connection, principal_session(connection, "all"), pytest.raises(errors.InsufficientPrivilege):
        connection.execute(statement)


LOADER_REFUSED = [
    "select * from zeroth_acl.grant_",
    "select * from zeroth.chunk_1_t1",
    "insert into zeroth.tenant (tenant_key) values ('mine')",
    "delete from zeroth.index_build",
    "update zeroth.index_build set fingerprint_digest = 'forged'",
    "update zeroth.chunk_1 set text = ''",
    "truncate zeroth.chunk_1",
    "create table zeroth.mine (n int)",
    "create table zeroth_staging.mine (n int)",
    "select zeroth.ensure_chunk_set('mine', 3)",
    "select zeroth.permitted_tenants()",
    "select zeroth.verified_principal()",
    "select * from zeroth.my_grants()",
    "select zeroth.hmac_sha256('key', 'message')",
    "select * from zeroth_acl.claim_key",
    "set role zeroth_owner",
]


@pytest.mark.parametrize("statement", LOADER_REFUSED)
def test_the_loader_role_is_refused(db: Database, statement: str) -> None:
    with db.loader() as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute(statement)


def test_the_loader_touches_the_tenant_it_has_declared_and_no_other(db: Database, ids: dict[str, int]) -> None:
    with db.loader() as connection:
        assert owners_of(connection) == set()
        connection.execute("select set_config('zeroth.loading_tenant', %s, true)", (str(ids["gamma"]),))
        assert owners_of(connection) == {"gamma"}
        deleted = connection.execute("delete from zeroth.chunk_1 where tenant_id = %s", (ids["alpha"],))
        assert deleted.rowcount == 0
        with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
            connection.execute(
                "insert into zeroth.index_build (chunk_set_id, tenant_id, status, fingerprint_digest, fingerprint,"
                " chunker_version, row_count, rows_digest, index_kind, inputs, started_at, finished_at)"
                " values (1, %s, 'superseded', '', '{}', '', 0, '', 'none', '{}', now(), now())",
                (ids["alpha"],),
            )


@pytest.mark.parametrize("principal", [None, "alpha", "all"])
def test_the_owner_sees_no_chunk_at_all(db: Database, ids: dict[str, int], principal: str | None) -> None:
    with db.owner() as connection:
        if principal is not None:
            claim = db.signer().sign(principal).text
            connection.execute("select set_config('zeroth.claim', %s, true)", (claim,))
        assert owners_of(connection) == set()
        row = connection.execute(f"select count(*) from zeroth.chunk_1_t{ids['alpha']}").fetchone()
        assert row == (0,)


@pytest.mark.parametrize(
    "call",
    [
        "zeroth.stage_partition(1, 9999)",
        "zeroth.stage_partition(9999, 1)",
        "zeroth.stage_partition(null, null)",
        "zeroth.stage_partition(1, 1)",
        "zeroth.attach_partition(1, 1)",
        "zeroth.attach_partition(null, 1)",
        "zeroth.index_partition(1, 1, null, 16, 64)",
        "zeroth.index_partition(1, 1, 5, 1, 64)",
        "zeroth.index_partition(1, 1, 5, 16, null)",
        "zeroth.index_partition(1, 9999, 5, 16, 64)",
        "zeroth.drop_superseded_indexes(1, 9999)",
        "zeroth.unregister_tenant(9999)",
        "zeroth.unregister_tenant(null)",
    ],
)
def test_owner_functions_refuse_what_they_do_not_know(db: Database, call: str) -> None:
    with db.loader() as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute(f"select {call}")
    assert caught.value.sqlstate is not None
    assert caught.value.sqlstate.startswith("ZA")


def test_every_table_is_under_forced_row_security_and_no_partition_has_a_grant(db: Database) -> None:
    with db.admin() as connection:
        loose = connection.execute(
            "select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace"
            " where n.nspname in ('zeroth', 'zeroth_acl', 'zeroth_staging') and c.relkind in ('r', 'p')"
            " and not (c.relrowsecurity and c.relforcerowsecurity and pg_get_userbyid(c.relowner) = 'zeroth_owner')"
        ).fetchall()
        granted = connection.execute(
            "select c.relname, a.grantee::regrole::text from pg_class c, aclexplode(c.relacl) a"
            " where c.relispartition and c.relkind = 'r' and a.grantee::regrole::text <> 'zeroth_owner'"
        ).fetchall()
        open_functions = connection.execute(
            "select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
            " where n.nspname like 'zeroth%' and (has_function_privilege('public', p.oid, 'execute')"
            " or p.proconfig is null or not exists (select from unnest(p.proconfig) c where c like 'search_path=%'))"
        ).fetchall()
        staged = connection.execute(
            "select relname from pg_class where relnamespace = 'zeroth_staging'::regnamespace"
        ).fetchall()
        on_root = connection.execute(
            "select c.relname from pg_class c join pg_am a on a.oid = c.relam where c.relkind = 'I' and amname = 'hnsw'"
        ).fetchall()
    assert (loose, granted, open_functions, staged, on_root) == ([], [], [], [], [])


def plan_of(connection: psycopg.Connection, where: str) -> str:
    vector = "[" + ",".join(map(str, make_vectors(1, seed=4)[0])) + "]"
    rows = connection.execute(
        f"explain (costs off) select chunk_id from zeroth.chunk_1 {where} order by embedding <=> '{vector}' limit 10",
        prepare=False,
    ).fetchall()
    return "\n".join(row[0] for row in rows)


def test_an_explicit_predicate_prunes_to_one_partition_and_uses_its_hnsw(db: Database, ids: dict[str, int]) -> None:
    with db.app() as connection, principal_session(connection, "beta"):
        connection.execute("set local enable_sort = off")
        plan = plan_of(connection, f"where tenant_id = {ids['beta']}")
        assert "Index Scan using chunk_1_t" in plan
        assert "_hnsw_" in plan
        assert "Append" not in plan
        assert "InitPlan" in plan  # the policy is asked once, not per row
        assert f"chunk_1_t{ids['alpha']}" not in plan


def test_search_finds_the_same_rows_with_and_without_the_predicate(db: Database, ids: dict[str, int]) -> None:
    vector = "[" + ",".join(map(str, make_vectors(1, seed=4)[0])) + "]"
    with db.app() as connection, principal_session(connection, "beta"):
        connection.execute("set local enable_indexscan = off")
        found = [
            connection.execute(
                f"select chunk_id from zeroth.chunk_1 {where} order by embedding <=> '{vector}' limit 10",
                prepare=False,
            ).fetchall()
            for where in ("", f"where tenant_id = {ids['beta']}")
        ]
    assert found[0] == found[1]
    chunks = make_chunks(range(700), "beta", "doc:beta")
    order = np.argsort(-(make_vectors(700) @ make_vectors(1, seed=4)[0]))[:10]
    assert [row[0] for row in found[0]] == chunks["chunk_id"].to_numpy()[order].tolist()


def test_breaking_the_policy_shows_foreign_rows_so_these_tests_can_fail(db: Database) -> None:
    with db.owner() as connection:
        connection.execute("alter policy app_reads on zeroth.chunk_1 using (true)")
    try:
        with db.app() as connection, principal_session(connection, "alpha"):
            assert owners_of(connection) > {"alpha"}
    finally:
        with db.owner() as connection:
            connection.execute(
                "alter policy app_reads on zeroth.chunk_1"
                " using (tenant_id = any ((select zeroth.permitted_tenants())::int[]))"
            )
