"""Who may read which tenant: granting, revoking, listing, and what the asking principal holds.

What belongs here: the access list in `zeroth_acl`, kept as `zeroth_owner`. A change holds from the next statement of
every open session that is not under REPEATABLE READ: there, the session's snapshot and its claim's end bound it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import class_row, tuple_row

from zeroth_assets.errors import QueryError, TenantError
from zeroth_assets.store.claims import ClaimError, check_principal
from zeroth_assets.store.connect import Database
from zeroth_assets.store.failures import database_errors
from zeroth_assets.store.locks import locked

MEASURING = "measure."
_MEASUREMENT_LOCK = "zeroth.measurement"


class UnknownPrincipalError(QueryError):
    """Nobody of this name was ever granted a tenant."""


class NoTenantError(QueryError):
    """The principal is known and holds no tenant: there is nothing that it could find."""


@dataclass(frozen=True, slots=True)
class PrincipalGrants:
    """A principal and the tenants that it may read, by key; none, if all were revoked."""

    principal: str
    tenant_keys: tuple[str, ...]


def grant(db: Database, principal: str, tenant_keys: Iterable[str]) -> int:
    """Let `principal`, who becomes known, read tenants, all of them or none; returns how many grants are new.

    Raises:
        QueryError: the principal is not usable or a measurement's, or no tenant is named.
        TenantError: a tenant is not registered; names every such key.
    """
    return put_grants(db, check_person(principal), tenant_keys)


def check_person(principal: str) -> str:
    """Return `principal` if it may name somebody who asks.

    Raises:
        QueryError: it is not usable, or has the form of a measurement's, whose grants come and go with measurements.
    """
    check_principal(principal)
    if principal.startswith(MEASURING):
        raise QueryError(
            f"Principal {principal!r} cannot be somebody",
            expected=f"a name that does not begin with {MEASURING}: those are made by measurements, and end with them",
            remedy="choose another name",
        )
    return principal


@contextmanager
def measuring(db: Database, grants: Mapping[str, Iterable[str]], *, wait_seconds: float = 7_200.0) -> Iterator[None]:
    """Have just these tenants granted to these principals (`measure.*`) for the block; afterwards they are unknown.

    One at a time: another measurement of this database is waited for. What one left that was killed ends first.

    Raises:
        TenantError: a tenant is not registered.
        DatabaseError: the database failed, or another measurement takes longer than `wait_seconds`.
    """
    odd = [name for name in grants if not name.startswith(MEASURING)]
    if odd:
        raise QueryError("That is nobody's name in a measurement", expected=f"{MEASURING}...", found=", ".join(odd))
    with (
        database_errors("measuring under grants of its own"),
        db.owner() as holding,
        locked(holding, alone=(_MEASUREMENT_LOCK,), wait_seconds=wait_seconds),
    ):
        try:
            _forget_measurements(db)
            for name, tenant_keys in grants.items():
                put_grants(db, check_principal(name), tenant_keys)
            yield
        finally:
            _forget_measurements(db)


def end_left_measurements(db: Database) -> int:
    """Revoke what a measurement that was killed left granted; returns how many principals that ended.

    One that goes on is left alone.
    """
    with database_errors("ending the grants of former measurements"), db.owner() as connection:
        row = connection.execute("select to_regclass('zeroth_acl.principal') is not null").fetchone()
        if row is None or not row[0]:
            return 0  # a schema older than known principals
        row = connection.execute(
            "select pg_try_advisory_lock(hashtextextended(%s, 0))", (_MEASUREMENT_LOCK,)
        ).fetchone()
        return _forget_measurements(db) if row is not None and row[0] else 0


def _forget_measurements(db: Database) -> int:
    with database_errors("ending the grants of measurements"), _as_owner(db) as connection:
        connection.execute("delete from zeroth_acl.grant_ where starts_with(principal, %s)", (MEASURING,))
        return connection.execute(
            "delete from zeroth_acl.principal where starts_with(principal, %s)", (MEASURING,)
        ).rowcount


def put_grants(db: Database, principal: str, tenant_keys: Iterable[str]) -> int:
    """As `grant`, for whatever principal: for measurements, within `measuring`."""
    wanted = sorted(set(tenant_keys))
    if not wanted:
        raise QueryError("No tenant is named", expected="at least one tenant key", remedy="see `list_tenants`")
    with database_errors(f"granting tenants to {principal!r}"), _as_owner(db) as connection:
        ids = _tenant_ids(connection, wanted)
        return connection.execute(
            "insert into zeroth_acl.grant_ (principal, tenant_id) select %s, unnest(%s::int[]) on conflict do nothing",
            (principal, ids),
        ).rowcount


def revoke(db: Database, principal: str, tenant_keys: Iterable[str] | None = None) -> int:
    """Take tenants from `principal`, every one if none is named; returns how many grants that ended. It stays known.

    Raises:
        UnknownPrincipalError: it was never granted anything.
        TenantError: a tenant is not registered; names every such key.
    """
    with database_errors(f"revoking tenants of {principal!r}"), _as_owner(db) as connection:
        known = connection.execute("select 1 from zeroth_acl.principal where principal = %s", (principal,)).fetchone()
        if known is None:
            raise _unknown(principal)
        if tenant_keys is None:
            return connection.execute("delete from zeroth_acl.grant_ where principal = %s", (principal,)).rowcount
        ids = _tenant_ids(connection, sorted(set(tenant_keys)))
        return connection.execute(
            "delete from zeroth_acl.grant_ where principal = %s and tenant_id = any(%s)", (principal, ids)
        ).rowcount


def forget_principal(db: Database, principal: str) -> None:
    """Revoke everything and let the name be unknown again.

    Raises:
        UnknownPrincipalError: it is so already.
    """
    with database_errors(f"forgetting principal {principal!r}"), _as_owner(db) as connection:
        connection.execute("delete from zeroth_acl.grant_ where principal = %s", (principal,))
        if not connection.execute("delete from zeroth_acl.principal where principal = %s", (principal,)).rowcount:
            raise _unknown(principal)


def list_grants(db: Database) -> tuple[PrincipalGrants, ...]:
    """Every known principal, by name, with its tenants: for whoever keeps the list, never for a principal."""
    with (
        database_errors("listing grants"),
        db.owner() as connection,
        connection.cursor(row_factory=class_row(_Listed)) as cursor,
    ):
        cursor.execute(
            "select p.principal,"
            " coalesce(array_agg(t.tenant_key order by t.tenant_key) filter (where t.tenant_key is not null), '{}')"
            " as tenant_keys from zeroth_acl.principal p left join zeroth_acl.grant_ g using (principal)"
            " left join zeroth.tenant t using (tenant_id) group by p.principal order by p.principal"
        )
        return tuple(PrincipalGrants(row.principal, tuple(row.tenant_keys)) for row in cursor)


def permitted(connection: psycopg.Connection[Any]) -> dict[str, int]:
    """Tenant key to tenant id of what the session's principal may read now, by key; call it in a `principal_session`.

    Raises:
        ClaimError: the transaction has no claim that holds.
        UnknownPrincipalError: the principal was never granted anything.
        NoTenantError: all its grants were revoked, or its tenants are gone.
    """
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute("select tenant_key, tenant_id from zeroth.my_grants()")
        held = {str(key): int(tenant_id) for key, tenant_id in cursor}
        if held:
            return held
        row = cursor.execute("select zeroth.verified_principal(), zeroth.principal_is_known()").fetchone()
    principal, known = row if row is not None else (None, False)
    if principal is None:
        raise ClaimError(
            "Nobody is asking",
            expected="a transaction with a claim that holds",
            found="no claim, or one that ran out",
            remedy="ask within `principal_session`",
        )
    if not known:
        raise _unknown(principal)
    raise NoTenantError(
        f"Principal {principal!r} may read no tenant",
        expected="at least one grant",
        found="none",
        remedy="grant it one (`zeroth acl grant`)",
    )


@dataclass(frozen=True, slots=True)
class _Listed:
    principal: str
    tenant_keys: list[str]


@contextmanager
def _as_owner(db: Database) -> Iterator[psycopg.Connection]:
    with db.owner() as connection, connection.transaction():
        yield connection


def _tenant_ids(connection: psycopg.Connection, keys: list[str]) -> list[int]:
    # Locked, so that a tenant which is being retired is either gone for us or waits for our grant and takes it along.
    rows = connection.execute(
        "select tenant_key, tenant_id from zeroth.tenant where tenant_key = any(%s) for key share", (keys,)
    ).fetchall()
    found = {str(key): int(tenant_id) for key, tenant_id in rows}
    missing = [key for key in keys if key not in found]
    if missing:
        raise TenantError(
            "A tenant is not registered" if len(missing) == 1 else f"{len(missing)} tenants are not registered",
            expected="keys of loaded tenants",
            found=", ".join(map(repr, missing[:20])),
            remedy="load them first (`zeroth materialize`), or correct the keys",
        )
    return [found[key] for key in keys]


def _unknown(principal: str) -> UnknownPrincipalError:
    return UnknownPrincipalError(
        f"Principal {principal[:200]!r} is not known",
        expected="a principal that was granted a tenant",
        remedy="grant it one (`zeroth acl grant`), or correct the name: `zeroth acl list` shows them",
    )
