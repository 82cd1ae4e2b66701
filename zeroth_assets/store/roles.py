"""Roles and databases of an installation: made where absent, checked where present.

What belongs here: what an administrator does once. What the roles may do inside the data database stands in `sql/`.

Rights that the administrator's login needs on an external server: CREATEROLE, CREATEDB, and the right to create the
extension `vector` (a superuser, or a managed service that trusts it). A person may make any of these things
beforehand instead; what exists is not made again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import psycopg
from psycopg import errors, sql

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store.passwords import Role, Secret

MANAGED: tuple[Role, ...] = (Role.OWNER, Role.LOADER, Role.APP, Role.DAGSTER)
_LOCK_KEY = 0x7A65726F7468  # "zeroth"
# Functions that PUBLIC may run by default, and who keeps them. What a session tells of itself (pg_stat_get_xact_...)
# stays everybody's.
_RESTRICTED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("^(lo_|loread$|lowrite$)", ()),
    ("^pg_(try_)?advisory_", (Role.OWNER.value, Role.LOADER.value)),
    (
        (
            "^pg_(stat_(get_(?!xact_)|have_)|lock_status$|blocking_pids$|prepared_xact$"
            "|(relation|table|total_relation|indexes|database|tablespace)_size$)"
        ),
        (Role.OWNER.value, Role.LOADER.value, "pg_monitor"),
    ),
    ("^(pg_(cancel|terminate)_backend|currtid2?)$", (Role.OWNER.value, Role.LOADER.value, "pg_signal_backend")),
)


@contextlib.contextmanager
def setup_lock(conn: psycopg.Connection) -> Iterator[None]:
    """One process at a time sets up a server; `conn` is in autocommit mode. The lock ends with the session."""
    conn.execute("select pg_advisory_lock(%s)", [_LOCK_KEY])
    try:
        yield
    finally:
        if not conn.closed:
            conn.execute("select pg_advisory_unlock(%s)", [_LOCK_KEY])


def ensure_roles(conn: psycopg.Connection, passwords: Mapping[Role, Secret], *, ours: bool) -> list[Role]:
    """Create the roles that are absent; return those created.

    Args:
        conn: the administrator's connection, in autocommit mode.
        passwords: one per role. The server is sent a SCRAM verifier, so that no log of it can hold a password.
        ours: the server is ours alone (embedded): roles are put right where they differ, passwords included.

    Raises:
        DatabaseError: the administrator may not create roles, or a role is there with more rights than it may have.
    """
    rows = conn.execute(
        "select rolname, rolsuper, rolbypassrls, rolcanlogin, rolcreaterole, rolcreatedb from pg_roles"
        " where rolname = any(%s)",
        [[role.value for role in MANAGED]],
    ).fetchall()
    present = {Role(row[0]): row[1:] for row in rows}
    created = []
    for role in MANAGED:
        name = sql.Identifier(role.value)
        secret = sql.Literal(_verifier(conn, role, passwords[role]))
        if role not in present:
            with explained(f"role {role} cannot be created", "CREATEROLE"):
                conn.execute(sql.SQL("create role {} login password {}").format(name, secret))
            created.append(role)
            continue
        if ours:
            conn.execute(
                sql.SQL(
                    "alter role {} login nosuperuser nobypassrls nocreaterole nocreatedb noreplication password {}"
                ).format(name, secret)
            )
            continue
        superuser, bypass, login, *_ = present[role]
        if superuser or bypass or not login:
            raise DatabaseError(
                f"Role {role} exists on this server with rights that void row-level security, or cannot log in",
                expected="LOGIN NOSUPERUSER NOBYPASSRLS",
                found=f"superuser {superuser}, bypassrls {bypass}, login {login}",
                remedy=f"ALTER ROLE {role} LOGIN NOSUPERUSER NOBYPASSRLS, as a superuser",
            )
    return created


def reset_settings(conn: psycopg.Connection) -> None:
    """Undo what a role has set for its own later sessions (`alter role ... set`), in one database or in all.

    Any role may do that to itself, and it would outlive whoever misused its login: no rows seen, every query timed out.
    Where the administrator may not alter the role (an external server, a role made by somebody else), it stays.
    """
    rows = conn.execute(
        "select r.rolname, d.datname from pg_db_role_setting s join pg_roles r on r.oid = s.setrole"
        " left join pg_database d on d.oid = s.setdatabase where r.rolname = any(%s)",
        [[role.value for role in MANAGED]],
    ).fetchall()
    for role, database in rows:
        where = sql.SQL(" in database {}").format(sql.Identifier(database)) if database else sql.SQL("")
        with contextlib.suppress(errors.InsufficientPrivilege):
            conn.execute(sql.SQL("alter role {}{} reset all").format(sql.Identifier(role), where))


def reset_passwords(conn: psycopg.Connection, passwords: Mapping[Role, Secret]) -> None:
    """Give the roles of a server the passwords of this home. Other homes that use the server are locked out."""
    for role in MANAGED:
        with explained(f"the password of {role} cannot be set", "CREATEROLE, with ADMIN OPTION on the role"):
            conn.execute(
                sql.SQL("alter role {} password {}").format(
                    sql.Identifier(role.value), sql.Literal(_verifier(conn, role, passwords[role]))
                )
            )


def _verifier(conn: psycopg.Connection, role: Role, password: Secret) -> str:
    encrypted = conn.pgconn.encrypt_password(password.reveal().encode(), role.value.encode(), b"scram-sha-256")
    return encrypted.decode()


def ensure_database(conn: psycopg.Connection, name: str, owner: Role, grants: Mapping[Role, Sequence[str]]) -> bool:
    """Create database `name` for `owner` if it is absent, and let the roles of `grants` in; true if it was absent.

    `conn` is the administrator's, in autocommit mode. An existing database of another owner keeps its owner and what
    everybody may do there; `owner` is then given what it needs.
    """
    row = conn.execute(
        "select pg_get_userbyid(datdba), pg_encoding_to_char(encoding) from pg_database where datname = %s", [name]
    ).fetchone()
    database, role = sql.Identifier(name), sql.Identifier(owner.value)
    if row is None:
        with explained(f"database {name} cannot be created", f"CREATEDB, and membership in {owner}"):
            _join(conn, owner)
            # A copy of template0, so that it has nobody's local additions and does not wait for sessions on template1.
            conn.execute(
                sql.SQL("create database {} owner {} template template0 encoding 'UTF8'").format(database, role)
            )
            conn.execute(sql.SQL("revoke all on database {} from public").format(database))
    elif row[1] != "UTF8":
        raise DatabaseError(
            f"Database {name} does not hold Unicode text",
            expected="encoding UTF8",
            found=f"encoding {row[1]}",
            remedy="name another database in ZEROTH_DATABASE_URL; it is made if it does not exist",
        )
    for grantee, rights in {owner: ("CONNECT", "CREATE", "TEMPORARY"), **grants}.items():
        _grant(conn, name, grantee, rights)
    return row is None


def _grant(conn: psycopg.Connection, name: str, role: Role, rights: Sequence[str]) -> None:
    """Grant what is missing, then look: to grant without the right to do so is only a warning to PostgreSQL."""
    question = "select r from unnest(%s::text[]) r where not has_database_privilege(%s, %s, r)"
    missing = [row[0] for row in conn.execute(question, [list(rights), role.value, name])]
    if not missing:
        return
    statement = sql.SQL("grant {} on database {} to {}").format(
        sql.SQL(", ").join(map(sql.SQL, missing)), sql.Identifier(name), sql.Identifier(role.value)
    )
    with explained(f"{', '.join(missing)} on database {name} cannot be granted to {role}", "ownership of the database"):
        conn.execute(statement)
    if conn.execute(question, [missing, role.value, name]).fetchone() is not None:
        raise DatabaseError(
            f"Role {role} lacks rights on database {name}, and this administrator cannot grant them",
            expected=", ".join(missing),
            remedy=f"as the owner of the database: {statement.as_string(conn)}",
        )


def _join(conn: psycopg.Connection, role: Role) -> None:
    """Make the administrator a member of `role`: whoever is no superuser cannot make a database for it otherwise."""
    row = conn.execute("select rolsuper from pg_roles where rolname = current_user").fetchone()
    if row is not None and row[0]:
        return
    conn.execute(sql.SQL("grant {} to current_user").format(sql.Identifier(role.value)))


def ensure_extension(conn: psycopg.Connection) -> None:
    """Make the extension `vector`; `conn` is the administrator's, in the data database, in autocommit mode."""
    if conn.execute("select 1 from pg_extension where extname = 'vector'").fetchone() is None:
        with explained("the extension `vector` cannot be created", "a superuser's, or a service that trusts it"):
            conn.execute("create extension vector")


def restrict_functions(conn: psycopg.Connection) -> None:
    """Take from everybody what PostgreSQL grants at large and no query needs; `conn` as for `ensure_extension`.

    Large objects are storage that no policy and no quota binds. Advisory locks are taken by name, so that whoever may
    take them can hold up loads, sweeps and migrations. All queries come as one role: to PostgreSQL, one principal's
    sessions are another's own, to be read, cancelled and ended. Counters, locks and sizes tell of every tenant's rows.
    It takes a superuser, and is done only in a database that is ours: in another's, other programs may need them.
    """
    row = conn.execute(
        "select r.rolsuper and pg_get_userbyid(d.datdba) = %s from pg_roles r, pg_database d"
        " where r.rolname = current_user and d.datname = current_database()",
        [Role.OWNER.value],
    ).fetchone()
    if row is None or not row[0]:
        return
    with conn.transaction():
        for pattern, keepers in _RESTRICTED:
            found = conn.execute(
                "select oid::regprocedure::text from pg_proc"
                " where pronamespace = 'pg_catalog'::regnamespace and proname ~ %s"
                " and exists (select from aclexplode(coalesce(proacl, acldefault('f', proowner))) a"
                " where a.grantee = 0)",
                [pattern],
            ).fetchall()
            if not found:
                continue
            functions = sql.SQL(", ").join(sql.SQL(name) for (name,) in found)
            conn.execute(sql.SQL("revoke execute on function {} from public").format(functions))
            if keepers:
                roles = sql.SQL(", ").join(map(sql.Identifier, keepers))
                conn.execute(sql.SQL("grant execute on function {} to {}").format(functions, roles))


@contextlib.contextmanager
def explained(what: str, right: str) -> Iterator[None]:
    """Turn "permission denied" into what could not be done and which right it takes."""
    try:
        yield
    except errors.InsufficientPrivilege as error:
        raise DatabaseError(
            f"On this server, {what}",
            expected=f"an administrator's login with this right: {right}",
            found=error.diag.message_primary or "permission denied",
            remedy="use a login that has it in ZEROTH_DATABASE_URL, or let an administrator do it once",
        ) from error
