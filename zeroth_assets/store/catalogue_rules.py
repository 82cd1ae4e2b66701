"""Rules over the catalogue, each a statement that gives the objects which break it.

What belongs here: what may stand in the database, said so that everything else is a finding. `RULES` is in the order
in which a reader wants them; `TABLE_RULES` are those that a preflight needs too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql


@dataclass(frozen=True, slots=True)
class Rule:
    """`statement` gives (object, found) for each object that breaks the rule."""

    name: str
    statement: sql.SQL
    remedy: str


# Ours: what lies in our schemas, and whatever inherits from it, wherever that lies.
_OURS = """
  with recursive ours as (
    select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('zeroth', 'zeroth_acl', 'zeroth_staging')
    union
    select i.inhrelid from ours o join pg_inherits i on i.inhparent = o.oid
  ), named as (
    select c.*, n.nspname, c.oid::regclass::text as name, pg_get_userbyid(c.relowner) as owner
    from ours o join pg_class c on c.oid = o.oid join pg_namespace n on n.oid = c.relnamespace
  )
"""
_TERMS: dict[LiteralString, LiteralString] = {
    "$role": "coalesce(nullif(a.grantee, 0)::regrole::text, 'public')",
    "$schemas": "('zeroth', 'zeroth_acl', 'zeroth_staging')",
    # Tables that name no tenant: statistics on them tell nothing.
    "$without_tenants": "('zeroth.meta', 'zeroth.chunk_set')",
    # What a load may correct on a build that is there.
    "$changed_by_loads": "('zeroth.index_build.status', 'zeroth.index_build.inputs', 'zeroth.index_build.index_name',"
    " 'zeroth.index_build.finished_at', 'zeroth.shared_build.status', 'zeroth.shared_build.index_name',"
    " 'zeroth.shared_build.rows_since_index', 'zeroth.shared_build.finished_at')",
    # SECURITY DEFINER functions that a query may call: each answers for the claim's principal alone.
    "$answering": "('permitted_tenants', 'verified_principal', 'my_grants', 'principal_is_known')",
}


def _rule(name: str, statement: LiteralString, remedy: str) -> Rule:
    """A statement that mentions `named` has the CTE of that name; `$` marks a term."""
    for term, meaning in _TERMS.items():
        statement = statement.replace(term, meaning)
    return Rule(name, sql.SQL(_OURS + statement if "named" in statement else statement), remedy)


TABLE_RULES: tuple[Rule, ...] = (
    _rule(
        "row-level security is on",
        "select name, 'off' from named where relkind in ('r', 'p') and not relrowsecurity",
        "ALTER TABLE ... ENABLE ROW LEVEL SECURITY",
    ),
    _rule(
        "row-level security is forced",
        "select name, 'not forced' from named where relkind in ('r', 'p') and not relforcerowsecurity",
        "ALTER TABLE ... FORCE ROW LEVEL SECURITY",
    ),
    _rule(
        "a partition carries no grant",
        """
        select name, string_agg(distinct a.privilege_type || ' to ' || $role, ', ')
        from named, aclexplode(relacl) a
        where (relispartition or exists (select from pg_inherits i where i.inhrelid = named.oid))
          and a.grantee <> relowner group by name""",
        "REVOKE it: a policy on the parent does not guard the partition",
    ),
)

RULES: tuple[Rule, ...] = (
    *TABLE_RULES,
    _rule(
        "zeroth_owner owns it",
        """
        select name, 'owner ' || owner from named where relkind not in ('i', 'I', 't') and owner <> 'zeroth_owner'
        union all
        select 'schema ' || n.nspname, 'owner ' || pg_get_userbyid(n.nspowner) from pg_namespace n
        where n.nspname in $schemas and pg_get_userbyid(n.nspowner) <> 'zeroth_owner'
        union all
        select p.oid::regprocedure::text, 'owner ' || pg_get_userbyid(p.proowner)
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname in $schemas and pg_get_userbyid(p.proowner) <> 'zeroth_owner'
        """,
        "ALTER ... OWNER TO zeroth_owner, or drop what is not ours",
    ),
    _rule(
        "it is a kind of relation that policies bind",
        """
        select name, case relkind when 'm' then 'materialised view' when 'f' then 'foreign table' else 'view' end
        from named where relkind in ('m', 'f')
          or relkind = 'v' and not exists (
            select from pg_class c, pg_options_to_table(c.reloptions) o
            where c.oid = named.oid and o.option_name = 'security_invoker' and o.option_value in ('true', 'on', '1'))
        """,
        "drop it; a view needs `security_invoker = true`, the others hold or fetch rows as their owner",
    ),
    _rule(
        "no view reads it as somebody else",
        """
        select distinct v.oid::regclass::text, case v.relkind when 'm' then 'materialised view' else 'view' end
          || ' over ' || named.name
        from named
        join pg_depend d on d.refobjid = named.oid and d.refclassid = 'pg_class'::regclass
          and d.classid = 'pg_rewrite'::regclass
        join pg_rewrite w on w.oid = d.objid
        join pg_class v on v.oid = w.ev_class and v.oid <> named.oid
        where v.relkind = 'm' or v.relkind = 'v' and not exists (
          select from pg_options_to_table(v.reloptions) o
          where o.option_name = 'security_invoker' and o.option_value in ('true', 'on', '1'))
        """,
        "drop it, or ALTER VIEW ... SET (security_invoker = true)",
    ),
    _rule(
        "a table has a policy",
        """
        select name, 'none' from named
        where relkind in ('r', 'p') and not relispartition and nspname <> 'zeroth_staging'
          and not exists (select from pg_policy p where p.polrelid = named.oid)
        """,
        "CREATE POLICY with the tenant test that the chunk tables have",
    ),
    _rule(
        "staging holds nothing between loads",
        "select name, 'left behind' from named where nspname = 'zeroth_staging' and relkind in ('r', 'p')",
        "DROP TABLE: a load makes and attaches its table in one transaction",
    ),
    _rule(
        "grants are those of the design",
        """
        select name, string_agg(distinct a.privilege_type || ' to ' || $role
          || case when a.is_grantable then ' with grant option' else '' end, ', ')
        from named, aclexplode(relacl) a
        where a.grantee <> relowner and relkind <> 'S' and (
          a.is_grantable or nspname <> 'zeroth' or not ($role = 'zeroth_app' and a.privilege_type = 'SELECT'
            or $role = 'zeroth_loader' and a.privilege_type in ('SELECT', 'INSERT', 'DELETE')))
        group by name
        union all
        select name, string_agg(distinct a.privilege_type || ' to ' || $role, ', ')
        from named, aclexplode(relacl) a where relkind = 'S' and a.grantee <> relowner group by name
        union all
        select name || '.' || t.attname, string_agg(distinct a.privilege_type || ' to ' || $role, ', ')
        from named join pg_attribute t on t.attrelid = named.oid, aclexplode(t.attacl) a
        where a.grantee <> relowner and not ($role = 'zeroth_loader' and a.privilege_type = 'UPDATE'
          and name || '.' || t.attname in $changed_by_loads)
        group by name, t.attname
        union all
        select 'schema ' || n.nspname, string_agg(distinct a.privilege_type || ' to ' || $role, ', ')
        from pg_namespace n, aclexplode(n.nspacl) a
        where n.nspname in $schemas and a.grantee <> n.nspowner and (
          a.is_grantable or a.privilege_type <> 'USAGE' or not (
            n.nspname = 'zeroth' and $role in ('zeroth_app', 'zeroth_loader')
            or n.nspname = 'zeroth_staging' and $role = 'zeroth_loader'))
        group by n.nspname
        """,
        "REVOKE it",
    ),
    _rule(
        "zeroth_app makes nothing",
        """
        select 'schema ' || n.nspname, 'CREATE for zeroth_app' from pg_namespace n
        where has_schema_privilege('zeroth_app', n.oid, 'CREATE')
        union all
        select 'database ' || current_database(), p || ' for zeroth_app' from unnest(array['CREATE', 'TEMPORARY']) p
        where has_database_privilege('zeroth_app', current_database(), p)
        """,
        "REVOKE it from zeroth_app, and from PUBLIC where it comes from there",
    ),
    _rule(
        "functions are pinned and nobody's by default",
        """
        select p.oid::regprocedure::text, f.found
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        join pg_language l on l.oid = p.prolang
        cross join lateral (values
          (case when not ('search_path=pg_catalog, pg_temp' = any (coalesce(p.proconfig, '{}')))
            then 'search_path not pinned to pg_catalog, pg_temp' end),
          (case when exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
            where a.grantee = 0) then 'executable by PUBLIC' end),
          (case when exists (select from aclexplode(p.proacl) a where a.grantee <> 0 and a.grantee <> p.proowner
            and a.grantee::regrole::text not in ('zeroth_app', 'zeroth_loader')) then 'executable by another role' end),
          (case when p.proleakproof then 'marked leakproof' end),
          (case when l.lanname not in ('sql', 'plpgsql') then 'language ' || l.lanname end),
          (case when p.prosecdef and n.nspname <> 'zeroth' then 'SECURITY DEFINER outside of schema zeroth' end)
        ) f (found)
        where n.nspname in $schemas and f.found is not null
        """,
        "ALTER FUNCTION ... SET search_path = pg_catalog, pg_temp; REVOKE EXECUTE ... FROM PUBLIC; NOT LEAKPROOF",
    ),
    _rule(
        "a query calls no owner's function but those that answer for its claim",
        """
        select p.oid::regprocedure::text, 'SECURITY DEFINER, executable by zeroth_app'
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where p.prosecdef and n.nspname not in ('pg_catalog', 'information_schema')
          and has_function_privilege('zeroth_app', p.oid, 'EXECUTE')
          and not (n.nspname = 'zeroth' and p.proname in $answering)
        """,
        "REVOKE EXECUTE from zeroth_app and PUBLIC, or make it SECURITY INVOKER",
    ),
    _rule(
        "no operator is marked leakproof that was not made so",
        """
        select p.oid::regprocedure::text, 'marked leakproof' from pg_proc p
        where p.proleakproof and p.pronamespace::regnamespace::text not in $schemas
          and (p.oid >= 16384 or p.proname ~ '^(ts_match|ts_rank|ts_headline|to_tsquery|to_tsvector)'
            or p.proname ~ '(like|nlike|regexeq|regexne)$')
        """,
        "ALTER FUNCTION ... NOT LEAKPROOF: it would see rows before the policy does",
    ),
    _rule(
        "only known triggers and rules fire",
        """
        select name, 'trigger ' || t.tgname from named join pg_trigger t on t.tgrelid = named.oid
        where not t.tgisinternal and not (name = 'zeroth_acl.grant_' and t.tgname = 'know_principal')
        union all
        select name, 'rule ' || w.rulename from named join pg_rewrite w on w.ev_class = named.oid
        where relkind in ('r', 'p')
        """,
        "drop it: it can copy rows elsewhere",
    ),
    _rule(
        "no event trigger runs along with a migration",
        """
        select 'event trigger ' || e.evtname, 'calls ' || e.evtfoid::regprocedure::text from pg_event_trigger e
        where e.evtenabled <> 'D' and not exists (
          select from pg_depend d
          where d.classid = 'pg_event_trigger'::regclass and d.objid = e.oid and d.deptype = 'e')
        """,
        "DROP EVENT TRIGGER or disable it: its function runs with the rights of whoever migrates",
    ),
    _rule(
        "no row leaves by replication",
        """
        select 'publication ' || p.pubname, 'all tables' from pg_publication p where p.puballtables
        union all
        select 'publication ' || p.pubname, named.name from named
        join pg_publication_rel r on r.prrelid = named.oid join pg_publication p on p.oid = r.prpubid
        union all
        select 'publication ' || p.pubname, 'schema ' || x.pnnspid::regnamespace::text from pg_publication_namespace x
        join pg_publication p on p.oid = x.pnpubid
        where x.pnnspid::regnamespace::text in $schemas
        """,
        "DROP PUBLICATION: a subscriber is bound by no policy",
    ),
    _rule(
        "default privileges give nothing away",
        """
        select 'default privileges of ' || pg_get_userbyid(d.defaclrole)
          || coalesce(' in ' || nullif(d.defaclnamespace, 0)::regnamespace::text, ''),
          a.privilege_type || ' on ' || d.defaclobjtype::text || ' to ' || $role
        from pg_default_acl d, aclexplode(d.defaclacl) a
        where a.grantee <> d.defaclrole and (pg_get_userbyid(d.defaclrole) = 'zeroth_owner'
          or d.defaclnamespace::regnamespace::text in $schemas)
        union all
        select 'default privileges of zeroth_owner', 'functions are executable by PUBLIC'
        where not exists (select from pg_default_acl d where pg_get_userbyid(d.defaclrole) = 'zeroth_owner'
          and d.defaclnamespace = 0 and d.defaclobjtype = 'f')
        """,
        "ALTER DEFAULT PRIVILEGES FOR ROLE zeroth_owner REVOKE ...",
    ),
    _rule(
        "no role has settings that weaken or fake a session",
        """
        select 'role ' || r.rolname, 'sets ' || split_part(c, '=', 1)
        from pg_db_role_setting s join pg_roles r on r.oid = s.setrole, unnest(s.setconfig) c
        where r.rolname in ('zeroth_owner', 'zeroth_loader', 'zeroth_app')
          and split_part(c, '=', 1)
            ~ '^(zeroth\\..*|role|session_authorization|row_security|search_path|.*_preload_libraries)$'
        """,
        "ALTER ROLE ... RESET ...; `zeroth db start` does it on the embedded server",
    ),
    _rule(
        "no statistics are kept on what policies hide",
        """
        select name || '.' || t.attname, 'statistics target ' || coalesce(t.attstattarget::text, 'default')
        from named join pg_attribute t on t.attrelid = named.oid and t.attnum > 0 and not t.attisdropped
        where relkind in ('r', 'p') and nspname in ('zeroth', 'zeroth_acl') and name not in $without_tenants
          and coalesce(t.attstattarget, -1) <> 0
          and not (t.attname = 'tenant_id' and relname ~ '^[a-z]+_[0-9]+(_t[0-9]+)?$')
        union all
        select x.stxnamespace::regnamespace::text || '.' || x.stxname, 'extended statistics on ' || name
        from named join pg_statistic_ext x on x.stxrelid = named.oid
        """,
        "SELECT zeroth.forgo_statistics('the table'): EXPLAIN would tell by its estimate what is hidden",
    ),
)
