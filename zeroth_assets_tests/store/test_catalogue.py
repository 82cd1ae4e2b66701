"""Each mutation of the schema is a finding, one at a time, in a transaction that is rolled back."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from zeroth_assets.store.catalogue import Finding, lint_catalogue
from zeroth_assets.store.connect import Database
from zeroth_assets.store.passwords import Role
from zeroth_assets_tests.store.builders import load, make_chunks, prepared


@pytest.fixture(scope="module")
def db(module_database: Database) -> Database:
    prepared(module_database)
    load(module_database, make_chunks(range(3)), tenant="alpha")
    with module_database.loader() as loader:
        loader.execute("select zeroth.ensure_shared(1)")
    return module_database


@pytest.fixture
def admin(db: Database) -> Iterator[psycopg.Connection]:
    with db.admin() as connection:
        yield connection
        connection.rollback()


@pytest.mark.parametrize("role", [Role.ADMIN, Role.OWNER, Role.LOADER, Role.APP])
def test_the_schema_as_migrated_and_loaded_has_no_finding_whoever_looks(db: Database, role: Role) -> None:
    with db.login(role).connect() as connection:
        assert lint_catalogue(connection) == ()


TEST = "tenant_id = any ((select zeroth.permitted_tenants())::int[])"
LATER = "set role zeroth_owner; create table zeroth.later (tenant_id int, content text); reset role;"
GUARDED = LATER + " alter table zeroth.later enable row level security, force row level security;"
EVENT_TRIGGER = (
    "create function public.watch() returns event_trigger language plpgsql as 'begin end';"
    " create event trigger watch on ddl_command_end execute function public.watch()"
)
MUTANTS = [
    (LATER, "zeroth.later", "row-level security is on"),
    (LATER, "zeroth.later", "row-level security is forced"),
    (LATER, "zeroth.later", "a table has a policy"),
    (GUARDED, "zeroth.later", "a table has a policy"),
    (GUARDED, "zeroth.later.content", "no statistics are kept"),
    (
        GUARDED + f" create policy p on zeroth.later using ({TEST} or true)",
        "zeroth.later, policy p",
        "tests the tenant",
    ),
    (GUARDED + f" create policy p on zeroth.later to zeroth_app using ({TEST})", "zeroth.later", "more than SELECT"),
    (
        GUARDED + " create policy p on zeroth.later for select to zeroth_app"
        " using (tenant_id = any (zeroth.permitted_tenants()))",  # called for every row
        "zeroth.later, policy p",
        "tests the tenant",
    ),
    (
        GUARDED + " create policy p on zeroth.later to zeroth_owner using (true)",
        "zeroth.later",
        "the owner sees content",
    ),
    ("create table zeroth.foreigner (n int)", "zeroth.foreigner", "owner zeroth_admin"),
    ("create table zeroth_staging.rest (n int)", "zeroth_staging.rest", "staging holds nothing"),
    (
        (
            "create table public.child (like zeroth.chunk_1 including all excluding indexes);"
            " alter table zeroth.chunk_1 attach partition public.child for values in (99)"
        ),
        "public.child",
        "row-level security is on",
    ),
    ("alter table zeroth.chunk_1 disable row level security", "zeroth.chunk_1", "row-level security is on"),
    ("alter table zeroth.chunk_1 no force row level security", "zeroth.chunk_1", "row-level security is forced"),
    ("alter table zeroth.chunk_1_t1 no force row level security", "zeroth.chunk_1_t1", "row-level security is forced"),
    ("alter table zeroth.shared_1 disable row level security", "zeroth.shared_1", "row-level security is on"),
    ("alter table zeroth_acl.claim_key no force row level security", "zeroth_acl.claim_key", "forced"),
    ("alter table zeroth.chunk_1 owner to zeroth_loader", "zeroth.chunk_1", "owner zeroth_loader"),
    ("alter policy app_reads on zeroth.chunk_1 using (true)", "zeroth.chunk_1, policy app_reads", "using true"),
    ("alter policy app_reads on zeroth.chunk_1 to public", "zeroth.chunk_1, policy app_reads", "for public"),
    ("alter policy app_reads on zeroth.chunk_1 to zeroth_loader", "zeroth.chunk_1, policy app_reads", "zeroth_loader"),
    ("alter policy loader_keeps on zeroth.chunk_1 to zeroth_app", "zeroth.chunk_1, policy loader_keeps", "zeroth_app"),
    ("alter policy loader_keeps on zeroth.chunk_1 using (true)", "zeroth.chunk_1, policy loader_keeps", "using true"),
    ("create policy too on zeroth.tenant for select to zeroth_app using (true)", "zeroth.tenant, policy too", "true"),
    ("create policy too on zeroth.chunk_1_t1 for select to zeroth_app using (true)", "chunk_1_t1, policy too", "true"),
    ("drop policy owner_keeps on zeroth_acl.claim_key", "zeroth_acl.claim_key", "a table has a policy"),
    ("grant select on zeroth.chunk_1_t1 to zeroth_app", "zeroth.chunk_1_t1", "a partition carries no grant"),
    ("grant select (text) on zeroth.chunk_1_t1 to zeroth_app", "zeroth.chunk_1_t1.text", "SELECT to zeroth_app"),
    ("grant select on zeroth.chunk_1 to public", "zeroth.chunk_1", "SELECT to public"),
    ("grant select on zeroth.chunk_1 to zeroth_dagster", "zeroth.chunk_1", "SELECT to zeroth_dagster"),
    ("grant select on zeroth.chunk_1 to zeroth_app with grant option", "zeroth.chunk_1", "with grant option"),
    ("grant update on zeroth.chunk_1 to zeroth_app", "zeroth.chunk_1", "UPDATE to zeroth_app"),
    ("grant references on zeroth.tenant to zeroth_app", "zeroth.tenant", "REFERENCES to zeroth_app"),
    ("grant truncate on zeroth.chunk_1 to zeroth_loader", "zeroth.chunk_1", "TRUNCATE to zeroth_loader"),
    ("grant update (text) on zeroth.chunk_1 to zeroth_loader", "zeroth.chunk_1.text", "UPDATE to zeroth_loader"),
    ("grant select on zeroth_acl.grant_ to zeroth_app", "zeroth_acl.grant_", "SELECT to zeroth_app"),
    ("grant usage on schema zeroth_acl to zeroth_app", "schema zeroth_acl", "USAGE to zeroth_app"),
    ("grant create on schema zeroth to zeroth_app", "schema zeroth", "CREATE for zeroth_app"),
    ("grant create on schema public to public", "schema public", "CREATE for zeroth_app"),
    ("grant usage on sequence zeroth.tenant_tenant_id_seq to zeroth_app", "zeroth.tenant_tenant_id_seq", "USAGE"),
    ("alter function zeroth.permitted_tenants() reset search_path", "zeroth.permitted_tenants()", "search_path"),
    ("alter function zeroth.my_grants() set search_path = public", "zeroth.my_grants()", "search_path"),
    ("alter function zeroth.permitted_tenants() leakproof", "zeroth.permitted_tenants()", "leakproof"),
    (
        "alter function zeroth.permitted_tenants() security invoker",
        "zeroth.permitted_tenants",
        "SECURITY DEFINER False",
    ),
    ("alter function zeroth.verified_principal() immutable", "zeroth.verified_principal", "volatility 'i'"),
    ("alter function zeroth.my_grants() owner to zeroth_admin", "zeroth.my_grants()", "owner zeroth_admin"),
    ("grant execute on function zeroth.hmac_sha256 to public", "zeroth.hmac_sha256(bytea,bytea)", "PUBLIC"),
    ("grant execute on function zeroth.register_tenant to zeroth_app", "zeroth.register_tenant(text)", "executable"),
    (
        (
            "create or replace function zeroth.verified_principal() returns text language sql stable security definer"
            " set search_path = pg_catalog, pg_temp as $$ select current_setting('zeroth.principal', true) $$"
        ),
        "zeroth.verified_principal",
        "another body",
    ),
    (
        (
            "create function public.peek() returns bigint language sql security definer"
            " as 'select count(*) from zeroth.chunk_1'"
        ),
        "public.peek()",
        "executable by zeroth_app",
    ),
    ("alter function pg_catalog.ts_match_vq(tsvector, tsquery) leakproof", "ts_match_vq", "leakproof"),
    ("create view zeroth.v as select * from zeroth.chunk_1", "zeroth.v", "view"),
    ("create view public.v as select * from zeroth.chunk_1", "public.v", "view over zeroth.chunk_1"),
    ("create materialized view public.m as select text from zeroth.chunk_1", "public.m", "materialised view over"),
    (
        (
            "create foreign data wrapper w; create server s foreign data wrapper w;"
            " create foreign table zeroth.f (n int) server s"
        ),
        "zeroth.f",
        "foreign table",
    ),
    ("create publication p for all tables", "publication p", "all tables"),
    ("create publication p for table zeroth.tenant", "publication p", "zeroth.tenant"),
    ("create publication p for tables in schema zeroth", "publication p", "schema zeroth"),
    (
        "alter default privileges for role zeroth_owner grant select on tables to zeroth_app",
        "default privileges of zeroth_owner",
        "SELECT on r to zeroth_app",
    ),
    (
        "alter default privileges for role zeroth_owner in schema zeroth grant execute on functions to public",
        "default privileges of zeroth_owner in zeroth",
        "EXECUTE on f to public",
    ),
    (
        "alter default privileges for role zeroth_owner grant execute on functions to public",
        "default privileges of zeroth_owner",
        "executable by PUBLIC",
    ),
    (EVENT_TRIGGER, "event trigger watch", "public.watch()"),
    (
        (
            "create function public.copy() returns trigger language plpgsql as 'begin return new; end';"
            " create trigger copy after insert on zeroth.chunk_1 for each row execute function public.copy()"
        ),
        "zeroth.chunk_1",
        "trigger copy",
    ),
    ("create rule r as on insert to zeroth.tenant do also nothing", "zeroth.tenant", "rule r"),
    ("alter role zeroth_app set zeroth.claim = 'x'", "role zeroth_app", "sets zeroth.claim"),
    ("alter role zeroth_owner set row_security = off", "role zeroth_owner", "sets row_security"),
    ("alter table zeroth.chunk_1 alter column text set statistics 100", "zeroth.chunk_1.text", "statistics target 100"),
    ("create statistics zeroth.s on document_id, text from zeroth.shared_1", "zeroth.s", "extended statistics"),
]


@pytest.mark.parametrize(("mutation", "where", "what"), MUTANTS, ids=[f"{w}-{r}" for _, w, r in MUTANTS])
def test_a_mutation_is_found(admin: psycopg.Connection, mutation: str, where: str, what: str) -> None:
    admin.execute(sql.SQL(mutation))
    found = [str(f) for f in lint_catalogue(admin)]
    assert [text for text in found if where in text and what in text], found


def test_a_table_that_keeps_the_rules_is_no_finding(admin: psycopg.Connection) -> None:
    """So that the lint is no ban on anything new."""
    for statement in (
        GUARDED,
        "select zeroth.forgo_statistics('zeroth.later')",
        f"create policy app_reads on zeroth.later for select to zeroth_app using ({TEST})",
        "create policy narrower on zeroth.later as restrictive using (tenant_id > 0)",
        "grant select on zeroth.later to zeroth_app",
        "create view zeroth.seen with (security_invoker = true) as select content from zeroth.later",
        "alter view zeroth.seen owner to zeroth_owner",
    ):
        admin.execute(sql.SQL(statement))
    assert lint_catalogue(admin) == ()


def test_the_search_path_of_who_looks_is_as_before_and_changes_no_finding(db: Database) -> None:
    with db.app() as connection:
        connection.execute("set search_path = zeroth, public")
        assert lint_catalogue(connection) == ()
        assert connection.execute("show search_path").fetchone() == ("zeroth, public",)


def test_a_finding_reads_as_a_sentence_with_what_to_do() -> None:
    finding = Finding("zeroth.later", "row-level security is on", "off", "turn it on")
    assert str(finding) == "zeroth.later: row-level security is on: off. To do: turn it on"
