"""Before every measurement and at service start: is this a database in which a figure or an answer means anything?

What belongs here: the roles that the connected one is or can become, row-level security on every table and partition,
grants on partitions, versions. It reads the catalogue alone, as the role that will ask. The whole shape of the boundary
is the lint's (`catalogue`), which takes longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store.catalogue import Finding, apply_rules
from zeroth_assets.store.catalogue_rules import TABLE_RULES
from zeroth_assets.store.connect import Database
from zeroth_assets.store.failures import database_errors
from zeroth_assets.store.passwords import Role
from zeroth_assets.store.versions import ServerVersions, check_server

_SHOWN = 20
# Built-in roles that see past a policy: the server's files, every statement that runs, or other sessions.
_BEYOND = (
    "pg_read_all_data",
    "pg_write_all_data",
    "pg_read_server_files",
    "pg_write_server_files",
    "pg_execute_server_program",
    "pg_monitor",
    "pg_read_all_stats",
    "pg_signal_backend",
    "pg_create_subscription",
    "pg_maintain",
)
# Who one is, and every role that SET ROLE, inheritance or SET SESSION AUTHORIZATION leads to.
_REACH = """
    with recursive reach as (
      select r.oid, r.rolname::text as path from pg_roles r where r.rolname in (session_user, current_user)
      union
      select m.roleid, reach.path || ' -> ' || r.rolname
      from reach join pg_auth_members m on m.member = reach.oid join pg_roles r on r.oid = m.roleid
    )
    select distinct reach.path, f.found from reach join pg_roles r on r.oid = reach.oid
    cross join lateral (
      select 'superuser' where r.rolsuper
      union all select 'BYPASSRLS' where r.rolbypassrls
      union all select 'CREATEROLE: it can make itself a member of others' where r.rolcreaterole
      union all select 'REPLICATION: it can read every row from the log' where r.rolreplication
      union all select 'sees past policies' where r.rolname::text = any (%(beyond)s)
      union all select 'another role of this installation' where r.rolname::text = any (%(others)s)
      union all select 'owner of ' || count(*) || ' tables behind the boundary, such as ' || min(c.oid::regclass::text)
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname in ('zeroth', 'zeroth_acl', 'zeroth_staging') and c.relkind in ('r', 'p', 'v', 'm', 'f')
          and c.relowner = r.oid having count(*) > 0
      union all select 'owner of schema ' || n.nspname from pg_namespace n
        where n.nspname in ('zeroth', 'zeroth_acl', 'zeroth_staging') and n.nspowner = r.oid
      union all select 'owner of this database' from pg_database d
        where d.datname = current_database() and d.datdba = r.oid
    ) f (found)
    order by 1, 2
"""
_LEAST = """
    select count(*) filter (where c.relispartition), count(*) filter (where not c.relispartition)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('zeroth', 'zeroth_acl') and c.relkind in ('r', 'p')
"""


class PreflightError(DatabaseError):
    """The database may not be measured or served from; `differences` has every reason."""

    def __init__(self, differences: tuple[Finding, ...]) -> None:
        self.differences = differences
        shown = "; ".join(f"{f.object}: {f.rule}: {f.found}" for f in differences[:_SHOWN])
        more = f"; and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
        super().__init__(
            "The database may not be measured or served from",
            expected="a role that policies bind, forced row-level security, no grant on a partition, versions at the "
            "floors",
            found=f"{len(differences)} {'difference' if len(differences) == 1 else 'differences'}: {shown}{more}",
            remedy="; ".join(dict.fromkeys(f.remedy for f in differences)),
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (PreflightError, (self.differences,))


@dataclass(frozen=True, slots=True)
class PreflightReport:
    """What was found in order: the role that asks, versions, tables and partitions that were looked at."""

    role: str
    versions: ServerVersions
    tables: int
    partitions: int


def preflight(db: Database) -> PreflightReport:
    """Look before anything is measured or served, as `zeroth_app` logs in.

    Raises:
        PreflightError: something would void the boundary or the figures; lists everything at once.
        DatabaseError: the server does not answer, or refuses the login.
    """
    # Not by `Database.app()`, which stops at the first thing that is wrong with the role.
    with database_errors("looking before measuring"), db.login(Role.APP).connect() as connection:
        return preflight_connection(connection)


def preflight_connection(connection: psycopg.Connection[Any]) -> PreflightReport:
    """The same for a connection that a service holds already.

    Raises:
        PreflightError: as for `preflight`.
    """
    findings: list[Finding] = []
    versions = None
    with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
        try:
            versions = check_server(connection)
        except DatabaseError as error:
            findings.append(Finding("the server", error.what, error.found, error.remedy))
        who = cursor.execute("select session_user::text, current_user::text").fetchone()
        session, current = who if who is not None else ("", "")
        if {session, current} != {Role.APP.value}:
            findings.append(
                Finding(
                    "the connection",
                    f"it is {Role.APP}'s",
                    f"session user {session}, current user {current}",
                    "connect as zeroth_app, and let no pooler log in as somebody else",
                )
            )
        others = [role.value for role in Role if role is not Role.APP]
        for path, found in cursor.execute(_REACH, {"beyond": list(_BEYOND), "others": others}).fetchall():
            findings.append(
                Finding(
                    f"role {path}",
                    "a role that asks is bound by the policies, and so is all that it can become",
                    found,
                    "take it away (ALTER ROLE ..., REVOKE ... FROM ..., ALTER ... OWNER TO zeroth_owner)",
                )
            )
        counted = cursor.execute(_LEAST).fetchone()
        partitions, tables = counted if counted is not None else (0, 0)
        if not tables:
            findings.append(Finding("schema zeroth", "there are tables", "none", "run `zeroth db migrate`"))
        findings += apply_rules(connection, TABLE_RULES)
    if findings or versions is None:
        raise PreflightError(tuple(findings))
    return PreflightReport(current, versions, tables, partitions)
