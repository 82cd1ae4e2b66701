"""Policies and the functions that they ask, compared with what the migrations made of them.

What belongs here: the few wordings that a policy may have, the exceptions with their reasons, and the bodies of the
functions on which every policy stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from zeroth_assets.store.migrate import read_migrations

Difference = tuple[str, str, str, str]

# As PostgreSQL writes them back. The sub-select is part of it: without it the function is called for every row.
APP_TEST = "(tenant_id = ANY (( SELECT zeroth.permitted_tenants() AS permitted_tenants)::integer[]))"
LOADER_TEST = "(tenant_id = ( SELECT zeroth.loading_tenant() AS loading_tenant))"

# (table, policy, role): why it tests no tenant.
EXEMPT: Mapping[tuple[str, str, str], str] = MappingProxyType(
    {
        ("zeroth.meta", "anyone_reads", "zeroth_app"): "one row: the corpus' name, the same for every tenant",
        ("zeroth.meta", "anyone_reads", "zeroth_loader"): "as above",
        ("zeroth.chunk_set", "anyone_reads", "zeroth_app"): "names and dimensions of chunk sets, of no tenant",
        ("zeroth.chunk_set", "anyone_reads", "zeroth_loader"): "as above",
        ("zeroth.tenant", "loader_reads", "zeroth_loader"): "a load registers tenants and lists them; no content",
        ("zeroth.index_build", "loader_reads", "zeroth_loader"): "planning reads every tenant's build; no content",
        ("zeroth.shared_build", "loader_keeps", "zeroth_loader"): "the record of an index over all tenants; no content",
        ("zeroth.shared_part", "loader_reads", "zeroth_loader"): "which builds that index stands on; no content",
    }
)
_CONTENT_COLUMNS = ("text", "tsv", "embedding", "section_path", "document_id", "content", "vector")
_POLICIES = """
    select c.oid::regclass::text, p.polname, p.polcmd::text, p.polpermissive,
      pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid),
      array(select coalesce(nullif(r, 0)::regrole::text, 'public') from unnest(p.polroles) r),
      exists (select from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        and (a.attname = any (%s) or a.atttypid::regtype::text ~ '(^|\\.)(vector|halfvec|sparsevec|tsvector)$'))
    from pg_policy p join pg_class c on c.oid = p.polrelid join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('zeroth', 'zeroth_acl', 'zeroth_staging')
      or c.oid in (select i.inhrelid from pg_inherits i join pg_class q on q.oid = i.inhparent
        join pg_namespace m on m.oid = q.relnamespace where m.nspname in ('zeroth', 'zeroth_acl'))
"""
_FUNCTION = re.compile(
    r"create\s+(?:or\s+replace\s+)?function\s+(zeroth(?:_acl)?\.\w+)\s*\(.*?\bas\s+(\$\w*\$)(.*?)\2", re.S | re.I
)
# name: (SECURITY DEFINER, volatility)
_ASKED: Mapping[str, tuple[bool, str]] = MappingProxyType(
    {
        "zeroth.permitted_tenants": (True, "s"),
        "zeroth.verified_principal": (True, "s"),
        "zeroth.my_grants": (True, "s"),
        "zeroth.principal_is_known": (True, "s"),
        "zeroth.loading_tenant": (False, "s"),
        "zeroth.hmac_sha256": (False, "i"),
    }
)


def policy_differences(connection: psycopg.Connection[Any]) -> Iterator[Difference]:
    """Policies that let a role past without the tenant test, as (object, rule, found, remedy)."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(_POLICIES, (list(_CONTENT_COLUMNS),)).fetchall()
    for table, policy, command, permissive, using, check, roles, content in rows:
        if not permissive:  # it can only narrow what the others let through
            continue
        for role in roles:
            reason = _objection(role, command, using, check, content)
            if reason is not None and (table, policy, role) not in EXEMPT:
                yield (
                    f"{table}, policy {policy}",
                    "a policy tests the tenant",
                    f"for {role}: {reason}",
                    "word it as the chunk tables' is, or say in `catalogue_policies.EXEMPT` why it needs no test",
                )


def _objection(role: str, command: str, using: str | None, check: str | None, content: bool) -> str | None:
    written = using if using is not None else check
    shown = f"using {using}, with check {check}"
    match role:
        case "zeroth_owner":
            return "the owner sees content" if content else None
        case "zeroth_app":
            if command != "r":
                return "more than SELECT"
            return None if written == APP_TEST else shown
        case "zeroth_loader":
            tests = [test for test in (using, check) if test is not None]
            return None if tests and all(test == LOADER_TEST for test in tests) else shown
        case _:
            return "a role that has no business here"


def function_differences(connection: psycopg.Connection[Any]) -> Iterator[Difference]:
    """Functions behind the policies that are not those of the migrations, as (object, rule, found, remedy)."""
    rule, remedy = "the policies' functions are those of the migrations", "create it again as in `sql/`"
    with connection.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(
            "select n.nspname || '.' || p.proname, p.prosrc, p.prosecdef, p.provolatile::text, p.pronargs"
            " from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
            " where n.nspname || '.' || p.proname = any(%s)",
            (list(_ASKED),),
        ).fetchall()
    bodies = {
        match.group(1).lower(): match.group(3) for file in read_migrations() for match in _FUNCTION.finditer(file.text)
    }
    for name, (definer, volatility) in _ASKED.items():
        found = [row for row in rows if row[0] == name]
        if len(found) != 1:
            yield name, rule, f"{len(found)} functions of this name", remedy
            continue
        _, source, is_definer, is_volatile, _ = found[0]
        if source != bodies.get(name):
            yield name, rule, "another body", remedy
        if (is_definer, is_volatile) != (definer, volatility):
            yield name, rule, f"SECURITY DEFINER {is_definer}, volatility {is_volatile!r}", remedy
