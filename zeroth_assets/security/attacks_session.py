"""Attacks on who a session is: roles, claims, settings, predicates.

What belongs here: probes in which the statement is harmless and the session is not.
"""

from __future__ import annotations

import hashlib
import hmac
import time

from psycopg import sql

from zeroth_assets.errors import DatabaseError
from zeroth_assets.security.ground import Ground, attempt, become
from zeroth_assets.security.identities import Identity
from zeroth_assets.security.matrix import foreign, reading
from zeroth_assets.security.model import Probe, Record
from zeroth_assets.store.claims import CLAIM_SETTING, read_key, sign_claim
from zeroth_assets.store.passwords import Role
from zeroth_assets.store.registry import EVERYTHING

_WIDE_SETTINGS = (
    ("bytea_output", "escape"),
    ("standard_conforming_strings", "off"),
    ("client_encoding", "SQL_ASCII"),
    ("transform_null_equals", "on"),
    ("datestyle", "SQL, DMY"),
    ("timezone", "Pacific/Kiritimati"),
    ("intervalstyle", "iso_8601"),
    ("extra_float_digits", "-15"),
    ("search_path", "pg_temp, public, zeroth, pg_catalog"),
    ("plan_cache_mode", "force_generic_plan"),
    ("xmloption", "document"),
    ("default_transaction_isolation", "serializable"),
    ("max_parallel_workers_per_gather", "4"),
    ("debug_parallel_query", "on"),
    ("row_security", "on"),
    ("check_function_bodies", "off"),
)


def predicates(ground: Ground, record: Record) -> None:
    """With the tenant predicate, without it, and with a forged one: the same rows or none."""
    for identity in (ground.cast.own, *([ground.cast.other] if ground.cast.other else [])):
        with ground.session(identity) as connection:
            for relation in ground.relations:
                if not relation.has_tenant or relation.kind not in "rp" or relation.is_partition:
                    continue
                bare = sql.SQL(
                    "select count(*), coalesce(bit_xor(hashtextextended(tableoid::text || ctid::text, 0)), 0) from {}"
                ).format(relation.identifier)
                alone = attempt(connection, bare)
                if alone.refused:
                    continue
                record.tried(4)
                listed = sorted(identity.permitted)
                named = attempt(connection, bare + sql.SQL(" where tenant_id = any ({})").format(listed))
                if alone.rows != named.rows:
                    record.breach(f"{identity.name}: {relation.path}: other rows without the predicate than with it")
                others = sorted(frozenset(ground.tenants.values()) - identity.permitted)
                for text in ("tenant_id = any ({})", "tenant_id = any ({}) or false", "not tenant_id <> all ({})"):
                    forged = attempt(connection, bare + sql.SQL(" where " + text).format(others))
                    if forged.worked and forged.rows[0][0]:
                        record.breach(
                            f"{identity.name}: {relation.path}: {forged.rows[0][0]} rows by a forged predicate"
                        )


def row_security_off(ground: Ground, record: Record) -> None:
    """`set row_security = off` is an error or changes nothing."""
    for identity in ground.cast.all:
        with ground.session(identity) as connection:
            connection.execute("set local row_security = off")
            connection.execute("savepoint probe")
            for relation in ground.relations:
                record.tried()
                shown = foreign(attempt(connection, reading(relation)), identity, relation)
                if shown:
                    record.breach(f"{identity.name}: {relation.path}: {shown}")


def roles(ground: Ground, record: Record) -> None:
    """Becoming another role, or making one's own more than it is."""
    with ground.session(ground.cast.own) as connection:
        names = [r[0] for r in attempt(connection, "select rolname::text from pg_roles order by 1").rows]
        statements: list[sql.SQL | sql.Composed] = [
            sql.SQL(text).format(sql.Identifier(name))
            for name in names
            if name != "zeroth_app"
            for text in ("set local role {}", "set session authorization {}", "grant {} to zeroth_app")
        ]
        statements += [
            sql.SQL("alter role zeroth_app " + what)
            for what in ("superuser", "bypassrls", "createrole", "createdb", "replication")
        ]
        statements.append(sql.SQL("create role zeroth_probe"))
        statements.append(sql.SQL("alter database {} owner to zeroth_app").format(sql.Identifier(ground.db.name)))
        for statement in statements:
            record.tried()
            outcome = attempt(connection, statement)
            if outcome.worked:
                record.breach(f"{statement.as_string(connection)}: not refused")
        member = attempt(
            connection,
            "select r.rolname::text from pg_roles r where r.rolname <> 'zeroth_app' and"
            " pg_has_role('zeroth_app', r.oid, 'member')"
            " union all select a from pg_roles r,"
            " unnest(array[case when r.rolsuper then 'superuser' end,"
            " case when r.rolbypassrls then 'bypassrls' end, case when r.rolcreaterole then 'createrole' end,"
            " case when r.rolcreatedb then 'createdb' end,"
            " case when r.rolreplication then 'replication' end]) a where r.rolname = 'zeroth_app' and a is not null",
        )
        for row in member.rows:
            record.breach(f"zeroth_app is, or is a member of, {row[0]}")


def claims(ground: Ground, record: Record) -> None:
    """Claims guessed, bent and replayed; and settings under which a bent one might pass."""
    own = ground.cast.own
    version, key_id, name, expiry, code = own.claim.split(".")
    payload = own.claim.rpartition(".")[0]
    bent = {
        "expiry put off": f"{version}.{key_id}.{name}.{int(expiry) + 60}.{code}",
        "expiry with leading zeros": f"{version}.{key_id}.{name}.{expiry.zfill(12)}.{code}",
        "another key": f"{version}.{'0' * 16}.{name}.{expiry}.{code}",
        "another version": f"2.{key_id}.{name}.{expiry}.{code}",
        "name cut": f"{version}.{key_id}.{name[:-1]}.{expiry}.{code}",
        "name padded": f"{version}.{key_id}.{name}=.{expiry}.{code}",
        "code in capitals": f"{version}.{key_id}.{name}.{expiry}.{code.upper()}",
        "code cut": own.claim[:-1],
        "code of zeros": f"{version}.{key_id}.{name}.{expiry}.{'0' * 64}",
        **{f"code made with {what}": f"{payload}.{guess}" for what, guess in _guessed_codes(payload).items()},
        "line break behind": own.claim + "\n",
        "blank before": " " + own.claim,
        "two claims": own.claim + own.claim,
        "quoted": f"'{own.claim}'",
        "very long": own.claim + "0" * 1_000_000,
        "an expression": "1' || zeroth.verified_principal() || '",
    }
    for place in range(0, 64, 7):
        digit = "0" if code[place] != "0" else "1"
        bent[f"digit {place} of the code"] = (
            f"{version}.{key_id}.{name}.{expiry}.{code[:place]}{digit}{code[place + 1 :]}"
        )
    key = read_key(ground.db.home, ground.db.name)
    if key is not None:
        far = sign_claim("zeroth-security-stranger", key, time.time() + 7200)
        bent["signed for far ahead"] = far.text
    with ground.session(Identity("", frozenset())) as connection:
        for what, claim in bent.items():
            record.tried()
            become(connection, Identity("", frozenset(), {CLAIM_SETTING: claim}))
            connection.execute("savepoint probe")
            outcome = attempt(
                connection,
                "select zeroth.verified_principal(), zeroth.permitted_tenants(), zeroth.principal_is_known()",
            )
            if not outcome.worked:
                record.breach(f"{what}: error {outcome.state}, which tells a claim from another")
            elif outcome.rows != [(None, [], False)]:
                record.breach(f"{what}: accepted")


def _guessed_codes(payload: str) -> dict[str, str]:
    """Codes that somebody without the key can compute."""
    message = payload.encode()
    keys = {"an empty key": b"", "a zero byte": b"\x00", "32 zero bytes": bytes(32), "the key's name": message[2:18]}
    codes = {what: hmac.new(key, message, hashlib.sha256).hexdigest() for what, key in keys.items()}
    return {
        **codes,
        "no key": hashlib.sha256(message).hexdigest(),
        "half a key": hashlib.sha256(message * 2).hexdigest(),
    }


def settings(ground: Ground, record: Record) -> None:
    """Settings that any session may make, under the functions on which the policies stand."""
    table = ground.content[0] if ground.content else None
    forged = ground.cast.named("forged code")
    for name, value in _WIDE_SETTINGS:
        for identity in (ground.cast.own, forged):
            with ground.session(identity) as connection:
                made = attempt(connection, sql.SQL("select set_config({}, {}, true)").format(name, value))
                if not made.worked:
                    continue
                connection.execute("select set_config(%s, %s, true)", (name, value))
                connection.execute("savepoint probe")
                record.tried()
                seen = attempt(connection, "select zeroth.permitted_tenants()")
                if not seen.worked or set(seen.rows[0][0]) != identity.permitted:
                    record.breach(f"{identity.name}: {name} = {value}: other tenants are permitted")
                if table is not None and (shown := foreign(attempt(connection, reading(table)), identity, table)):
                    record.breach(f"{identity.name}: {name} = {value}: {shown}")
    for name in ("zeroth.loading_tenant", "zeroth.principal", "zeroth.tenant", "zeroth.tenant_id", "app.tenant"):
        for value in (str(min(ground.hidden, default=0)), EVERYTHING):
            with ground.session(Identity("", frozenset(), {name: value})) as connection:
                record.tried()
                for relation in ground.relations:
                    if shown := foreign(attempt(connection, reading(relation)), Identity("", frozenset()), relation):
                        record.breach(f"{name} = {value}: {relation.path}: {shown}")


def other_databases(ground: Ground, record: Record) -> None:
    """Logging in to other databases of the installation as the querying role."""
    with ground.session(ground.cast.own) as connection:
        rows = attempt(connection, "select datname::text from pg_database where datallowconn").rows
    ours = ("postgres", "template1") if ground.db.embedded else ()
    names = [row[0] for row in rows if row[0] == ground.db.dagster_name or row[0] in ours]
    for name in names:
        record.tried()
        try:
            ground.db.login(Role.APP).to(name).connect().close()
        except DatabaseError:
            continue
        record.breach(f"zeroth_app logs in to {name}")
    if not names:
        record.skip("no other database of this installation")


PROBES = (
    Probe(
        "tenant predicate dropped or forged",
        "reads every table that names tenants with its predicate, without it, and with that of other tenants",
        "other rows without the predicate than with it, or any row by a forged one",
        predicates,
    ),
    Probe("row_security = off", "switches row security off in the session", "a foreign row", row_security_off),
    Probe(
        "another role",
        "SET ROLE and SET SESSION AUTHORIZATION to, and GRANT of, every role; attributes for oneself; new roles",
        "any of it is not refused, or the role is a member of another",
        roles,
    ),
    Probe(
        "claim guessed, bent or replayed",
        "a rightful claim with a part of it changed, cut, padded or forged",
        "it is accepted, or told from another by an error",
        claims,
    ),
    Probe(
        "settings under the policies' functions",
        "makes every setting that could change how a claim is read, and plain settings that name a tenant",
        "another tenant is permitted than without it",
        settings,
    ),
    Probe("other databases", "logs in to them with the querying role's password", "a login works", other_databases),
)
