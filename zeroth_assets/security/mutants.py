"""Mutants: the boundary broken on purpose, one policy, grant, flag, function or setting at a time.

What belongs here: what is broken, by which statement, and which probe has to notice. `mutation` runs them. They are
applied by an administrator to throw-away databases alone.
"""

from __future__ import annotations

from dataclasses import dataclass

MATRIX, LINT, COMPLETE = "table x command x identity", "catalogue lint", "the rightful identity sees its rows"
CLAIM, ROLE, MAKING, FUNCTIONS = (
    "claim guessed, bent or replayed",
    "another role",
    "making things",
    "functions with hostile arguments",
)
SESSIONS, NAMES, STATISTICS = (
    "other sessions",
    "names, comments and definitions",
    "pg_statistic, pg_stats, pg_stats_ext",
)
OTHERS, CHANGE, ERRORS, LOG = (
    "the owner and the loader",
    "cursors, prepared statements and cached plans",
    "error texts",
    "the server's log",
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """`statement` breaks the copy; `everywhere` what the whole server shares, which `undo` puts right again.

    `killer` is the probe that has to go red, whichever others do as well.
    """

    name: str
    killer: str
    statement: str = ""
    everywhere: str = ""
    undo: str = ""


def _verified(body: str) -> str:
    return (
        "create or replace function zeroth.verified_principal() returns text language plpgsql stable security definer"
        f" parallel safe set search_path = pg_catalog, pg_temp as $f$ {body} $f$"
    )


def _permitted(body: str, volatility: str = "stable") -> str:
    return (
        f"create or replace function zeroth.permitted_tenants() returns int[] language sql {volatility} security definer"
        f" parallel safe set search_path = pg_catalog, pg_temp as $f$ {body} $f$"
    )


def _claim_reader(condition: str) -> str:
    """The migration's function with another condition in the place of its last one."""
    return _verified(
        "declare claim text := current_setting('zeroth.claim', true); part text[]; secret bytea; code text; begin"
        " part := regexp_match(claim, '^(1\\.([0-9a-f]{16})\\.([A-Za-z0-9_-]+)\\.([0-9]{1,12}))\\.([0-9a-f]{64})$');"
        " if part is null then return null; end if;"
        " select k.key into secret from zeroth_acl.claim_key k where k.key_id = part[2]"
        " and (k.retired_at is null or k.retired_at > clock_timestamp() or $r$RETIRED$r$ = 'accepted');"
        " code := encode(zeroth.hmac_sha256(coalesce(secret, '\\x00'::bytea), convert_to(part[1], 'UTF8')), 'hex');"
        f" if {condition} then return convert_from(decode(translate(part[3], '-_', '+/')"
        " || repeat('=', (4 - length(part[3]) % 4) % 4), 'base64'), 'UTF8'); end if; return null; end"
    )


_ALL_GRANTS = "select coalesce(array_agg(g.tenant_id), '{}') from zeroth_acl.grant_ g"
_BY_CLAIM = _ALL_GRANTS + " where g.principal = (select zeroth.verified_principal())"
_TRUE = "alter policy app_reads on {} using (true)"
_LIVE = "part[4]::numeric > extract(epoch from clock_timestamp())"
_NEAR = "part[4]::numeric <= extract(epoch from clock_timestamp()) + 3660"
_RIGHT = "code = part[5] and secret is not null"

MUTANTS: tuple[Mutant, ...] = (
    # Policies
    Mutant("chunk table: policy dropped", COMPLETE, "drop policy app_reads on zeroth.chunk_1"),
    Mutant("chunk table: USING (true)", MATRIX, _TRUE.format("zeroth.chunk_1")),
    Mutant("shared table: USING (true)", MATRIX, _TRUE.format("zeroth.shared_1")),
    Mutant("tenant: USING (true)", MATRIX, _TRUE.format("zeroth.tenant")),
    Mutant("index_build: USING (true)", MATRIX, _TRUE.format("zeroth.index_build")),
    Mutant("shared_part: USING (true)", MATRIX, _TRUE.format("zeroth.shared_part")),
    Mutant(
        "chunk table: a second policy that lets everybody in",
        MATRIX,
        "create policy more on zeroth.chunk_1 for select to public using (true)",
    ),
    Mutant(
        "chunk table: the policy trusts a plain setting",
        MATRIX,
        "alter policy app_reads on zeroth.chunk_1 using (tenant_id = any (zeroth.permitted_tenants()) or"
        " current_setting('zeroth.principal', true) <> '')",
    ),
    Mutant(
        "chunk table: an INSERT policy and the grant",
        MATRIX,
        "create policy adds on zeroth.chunk_1 for insert to zeroth_app with check (true);"
        " grant insert on zeroth.chunk_1 to zeroth_app",
    ),
    Mutant("chunk table: the loader's policy is USING (true)", OTHERS, "alter policy loader_keeps on zeroth.chunk_1 using (true)"),
    # Flags
    Mutant("chunk table: row security off", MATRIX, "alter table zeroth.chunk_1 disable row level security"),
    Mutant("chunk table: not forced, and a policy's owner sees", LINT, "alter table zeroth.chunk_1 no force row level security"),
    Mutant("shared table: not forced", OTHERS, "alter table zeroth.shared_1 no force row level security"),
    Mutant("partition: not forced", OTHERS, "alter table zeroth.chunk_1_t2 no force row level security"),
    Mutant("partition: row security off", OTHERS, "alter table zeroth.chunk_1_t2 disable row level security"),
    Mutant("shared table: row security off", MATRIX, "alter table zeroth.shared_1 disable row level security"),
    Mutant("tenant: row security off", MATRIX, "alter table zeroth.tenant disable row level security"),
    Mutant("index_build: row security off", MATRIX, "alter table zeroth.index_build disable row level security"),
    Mutant("grant_: row security off", LINT, "alter table zeroth_acl.grant_ disable row level security"),
    Mutant("claim_key: row security off", LINT, "alter table zeroth_acl.claim_key disable row level security"),
    # Grants
    Mutant("partition: SELECT granted", MATRIX, "grant select on zeroth.chunk_1_t2 to zeroth_app"),
    Mutant(
        "partition: one column granted, row security off",
        MATRIX,
        "alter table zeroth.chunk_1_t2 disable row level security; grant select (text) on zeroth.chunk_1_t2 to zeroth_app",
    ),
    Mutant("chunk table: UPDATE of a column granted", MATRIX, "grant update (text) on zeroth.chunk_1 to zeroth_app"),
    Mutant("shared table: DELETE granted", MATRIX, "grant delete on zeroth.shared_1 to zeroth_app"),
    Mutant("chunk table: TRUNCATE granted", MATRIX, "grant truncate on zeroth.chunk_1 to public"),
    Mutant("chunk table: TRIGGER and REFERENCES granted", MATRIX, "grant trigger, references on zeroth.chunk_1 to zeroth_app"),
    Mutant("chunk table: SELECT with grant option", MATRIX, "grant select on zeroth.chunk_1 to zeroth_app with grant option"),
    Mutant("shared table: owned by the querying role", MATRIX, "alter table zeroth.shared_1 owner to zeroth_app"),
    Mutant(
        "access list: readable",
        MATRIX,
        "grant usage on schema zeroth_acl to zeroth_app; grant select on zeroth_acl.grant_ to zeroth_app;"
        " create policy p on zeroth_acl.grant_ for select to zeroth_app using (true)",
    ),
    Mutant(
        "keys for claims: readable",
        MATRIX,
        "grant usage on schema zeroth_acl to zeroth_app; grant select on zeroth_acl.claim_key to zeroth_app;"
        " create policy p on zeroth_acl.claim_key for select to zeroth_app using (true)",
    ),
    Mutant("staging schema: USAGE granted", "access list and staging", "grant usage on schema zeroth_staging to zeroth_app"),
    Mutant("temporary tables granted", MAKING, "grant temporary on database {database} to zeroth_app"),
    Mutant("CREATE in schema public", MAKING, "grant create on schema public to public"),
    Mutant("sequence readable", "sequences", "grant select on zeroth.tenant_tenant_id_seq to zeroth_app"),
    Mutant("large objects can be made", "large objects", "grant execute on function lo_create(oid), lo_creat(int) to public"),
    Mutant(
        "a large object of somebody's, granted",
        "large objects",
        "do $d$ begin execute format('grant select on large object %s to zeroth_app', lo_from_bytea(0, 'text')); end $d$",
    ),
    Mutant("pg_statistic granted", STATISTICS, "grant select on pg_catalog.pg_statistic to zeroth_app"),
    Mutant("default privileges give tables away", LINT, "alter default privileges for role zeroth_owner grant select on tables to zeroth_app"),
    # Roles, which the whole server shares
    Mutant("BYPASSRLS", MATRIX, everywhere="alter role zeroth_app bypassrls", undo="alter role zeroth_app nobypassrls"),
    Mutant("SUPERUSER", MATRIX, everywhere="alter role zeroth_app superuser", undo="alter role zeroth_app nosuperuser"),
    Mutant("CREATEROLE", ROLE, everywhere="alter role zeroth_app createrole", undo="alter role zeroth_app nocreaterole"),
    Mutant("member of zeroth_owner", ROLE, everywhere="grant zeroth_owner to zeroth_app", undo="revoke zeroth_owner from zeroth_app"),
    Mutant("member of zeroth_loader", ROLE, everywhere="grant zeroth_loader to zeroth_app", undo="revoke zeroth_loader from zeroth_app"),
    Mutant("member of pg_read_all_data", MATRIX, everywhere="grant pg_read_all_data to zeroth_app", undo="revoke pg_read_all_data from zeroth_app"),
    Mutant("member of pg_monitor", SESSIONS, everywhere="grant pg_monitor to zeroth_app", undo="revoke pg_monitor from zeroth_app"),
    Mutant("may log in elsewhere", "other databases", everywhere="grant connect on database postgres to zeroth_app", undo="revoke connect on database postgres from zeroth_app"),
    # Functions behind the policies
    Mutant("permitted_tenants: everybody's", MATRIX, _permitted(_ALL_GRANTS)),
    Mutant(
        "permitted_tenants: falls back on a plain setting",
        MATRIX,
        _permitted(_ALL_GRANTS + " where g.principal = coalesce((select zeroth.verified_principal()),"
                   " nullif(current_setting('zeroth.principal', true), ''))"),
    ),
    Mutant("permitted_tenants: IMMUTABLE", CHANGE, _permitted(_BY_CLAIM, "immutable")),
    Mutant("permitted_tenants: SECURITY INVOKER", COMPLETE, "alter function zeroth.permitted_tenants() security invoker"),
    Mutant("permitted_tenants: search_path not pinned", LINT, "alter function zeroth.permitted_tenants() reset search_path"),
    Mutant("verified_principal: believes the claim's name", MATRIX, _claim_reader("true")),
    Mutant("verified_principal: code not compared", MATRIX, _claim_reader(f"secret is not null and {_LIVE} and {_NEAR}")),
    Mutant(
        "verified_principal: half of the code compared",
        CLAIM,
        _claim_reader(f"left(code, 32) = left(part[5], 32) and secret is not null and {_LIVE} and {_NEAR}"),
    ),
    Mutant("verified_principal: an unknown key passes", CLAIM, _claim_reader(f"code = part[5] and {_LIVE} and {_NEAR}").replace("k.key_id = part[2]", "k.key_id = 'none'")),
    Mutant("verified_principal: no expiry", MATRIX, _claim_reader(f"{_RIGHT} and {_NEAR}")),
    Mutant("verified_principal: any expiry ahead", CLAIM, _claim_reader(f"{_RIGHT} and {_LIVE}")),
    Mutant("verified_principal: retired keys pass", MATRIX, _claim_reader(f"{_RIGHT} and {_LIVE} and {_NEAR}").replace("RETIRED", "accepted")),
    Mutant("hmac_sha256: without the key", CLAIM, "create or replace function zeroth.hmac_sha256(key bytea, message bytea) returns bytea language sql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $f$ select sha256(message) $f$"),
    Mutant(
        "my_grants: everybody's",
        COMPLETE,
        "create or replace function zeroth.my_grants() returns table (tenant_id int, tenant_key text) language sql stable"
        " security definer set search_path = pg_catalog, pg_temp as"
        " 'select t.tenant_id, t.tenant_key from zeroth.tenant t'",
    ),
    Mutant(
        "principal_is_known: always",
        CLAIM,
        "create or replace function zeroth.principal_is_known() returns boolean language sql stable security definer"
        " set search_path = pg_catalog, pg_temp as 'select true'",
    ),
    Mutant("register_tenant: executable by PUBLIC", FUNCTIONS, "grant execute on function zeroth.register_tenant to public"),
    Mutant("unregister_tenant: executable", FUNCTIONS, "grant execute on function zeroth.unregister_tenant to zeroth_app"),
    Mutant("hmac_sha256: executable by PUBLIC", FUNCTIONS, "grant execute on function zeroth.hmac_sha256 to public"),
    Mutant(
        "an owner's function that counts chunks",
        FUNCTIONS,
        "create function public.peek() returns bigint language sql security definer as 'select count(*) from zeroth.chunk_1'",
    ),
    Mutant("division is marked leakproof", ERRORS, "alter function pg_catalog.int4div(int, int) leakproof"),
    Mutant("full text's @@ is marked leakproof", LINT, "alter function pg_catalog.ts_match_vq(tsvector, tsquery) leakproof"),
    Mutant("pg_read_file executable", FUNCTIONS, "grant execute on function pg_read_file(text) to zeroth_app"),
    Mutant("other sessions can be read again", SESSIONS, "grant execute on function pg_stat_get_activity(int) to public"),
    Mutant("other sessions can be ended again", SESSIONS, "grant execute on function pg_terminate_backend to public"),
    Mutant("locks can be read again", SESSIONS, "grant execute on function pg_lock_status() to public"),
    # What copies or tells
    Mutant("a view without security_invoker", MATRIX, "create view zeroth.v as select * from zeroth.chunk_1; grant select on zeroth.v to zeroth_app"),
    Mutant("a view of another schema's", MATRIX, "create view public.v as select tenant_id, text from zeroth.shared_1; grant select on public.v to public"),
    Mutant("a materialised view", MATRIX, "create materialized view public.m as select tenant_id, text from zeroth.chunk_1; grant select on public.m to zeroth_app"),
    Mutant("a copy of a table", MATRIX, "create table public.copied as select tenant_id, text from zeroth.chunk_1; grant select on public.copied to zeroth_app"),
    Mutant("a later table without a policy", MATRIX, "create table zeroth.later (tenant_id int, content text); insert into zeroth.later values (1, 'a'), (2, 'b'); grant select on zeroth.later to zeroth_app"),
    Mutant("a trigger on the chunk table", LINT, "create function public.t() returns trigger language plpgsql as 'begin return new; end'; create trigger t after insert on zeroth.chunk_1 for each row execute function public.t()"),
    Mutant("a publication of all tables", LINT, "create publication everything for all tables"),
    Mutant("statistics on document ids", "estimates of EXPLAIN", "alter table zeroth.shared_1 alter column document_id set statistics 100; alter table zeroth.chunk_1_t2 alter column document_id set statistics 100; analyze zeroth.shared_1, zeroth.chunk_1_t2"),
    Mutant("extended statistics", LINT, "create statistics zeroth.s on document_id, section_path from zeroth.shared_1"),
    Mutant("a tenant's key in a comment", NAMES, "comment on table zeroth.chunk_1_t2 is 'sec-birch and sec-alder and sec-cedar'"),
    Mutant("a partition named after its tenant", NAMES, 'alter table zeroth.chunk_1_t2 rename to "chunk_1_sec-birch"; alter table zeroth.chunk_1_t3 rename to "chunk_1_sec-cedar"; alter table zeroth.chunk_1_t1 rename to "chunk_1_sec-alder"'),
    Mutant("statements are logged", LOG, "alter database {database} set log_statement = 'all'"),
    Mutant("a claim that every session begins with", LINT, everywhere="alter role zeroth_app set zeroth.claim = '1.0.x'", undo="alter role zeroth_app reset zeroth.claim"),
)  # fmt: skip
