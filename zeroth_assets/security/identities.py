"""Who asks: every identity that a session can take on, from nobody to the rightful one.

What belongs here: choosing principals of the database at hand, and the settings that make a session each of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from zeroth_assets.errors import MeasurementError
from zeroth_assets.store.acl import list_grants
from zeroth_assets.store.claims import CLAIM_SETTING, ClaimKey, new_key, read_key, sign_claim
from zeroth_assets.store.connect import Database
from zeroth_assets.store.passwords import Secret

OWN, OTHER, NOBODY = "own claim", "another tenant's claim", "no claim"
_STRANGER = "zeroth-security-stranger"


@dataclass(frozen=True, slots=True)
class Identity:
    """A name, the settings that a session of it makes, and the tenants that it may see."""

    name: str
    permitted: frozenset[int]
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def claim(self) -> str:
        """The claim that it shows; empty if none."""
        return self.settings.get(CLAIM_SETTING, "")


@dataclass(frozen=True, slots=True)
class Cast:
    """The identities, and the two principals behind them."""

    own: Identity
    other: Identity | None
    all: tuple[Identity, ...]

    def named(self, name: str) -> Identity:
        """The identity of that name."""
        return next(identity for identity in self.all if identity.name == name)

    @property
    def without_rights(self) -> tuple[Identity, ...]:
        """Those that may see nothing."""
        return tuple(identity for identity in self.all if not identity.permitted)


def choose_identities(
    db: Database, tenants: Mapping[str, int], retired: ClaimKey | None = None, now: float | None = None
) -> Cast:
    """Identities made of the principals that the database has; nothing is written.

    `retired` is a key that the database does not accept any more; without one, a retired key of the database is taken,
    or one that it never knew.

    Raises:
        MeasurementError: nobody holds a grant, or this home has no key for claims.
    """
    now = time.time() if now is None else now
    key = read_key(db.home, db.name)
    held = {
        grant.principal: frozenset(tenants[name] for name in grant.tenant_keys if name in tenants)
        for grant in list_grants(db)
    }
    narrow = sorted((len(ids), name) for name, ids in held.items() if ids and len(ids) < len(tenants))
    wide = sorted((len(ids), name) for name, ids in held.items() if ids)
    if key is None or not wide:
        raise MeasurementError(
            "There is nobody whose access could be checked",
            expected="a principal with a grant, and this home's key for claims",
            found=f"{len(held)} principals, {len(wide)} of them with a grant; key: {'yes' if key else 'none'}",
            remedy="run `zeroth db migrate` and `zeroth materialize`, or grant somebody a tenant",
        )
    own_name = (narrow or wide)[0][1]
    other_name = _stranger_to(held, own_name, (name for _, name in narrow))
    own = _claimed(OWN, own_name, key, now, held[own_name])
    other = None if other_name is None else _claimed(OTHER, other_name, key, now, held[other_name])
    widest = wide[-1][1]
    payload, _, code = own.claim.rpartition(".")
    forged = sign_claim(widest if widest != own_name else _STRANGER, key, now).text.rpartition(".")[0]
    none: frozenset[int] = frozenset()
    bad = (
        Identity(NOBODY, none),
        Identity("empty claim", none, {CLAIM_SETTING: ""}),
        Identity("forged code", none, {CLAIM_SETTING: f"{payload}.{_flipped(code)}"}),
        Identity("own code under another's name", none, {CLAIM_SETTING: f"{forged}.{code}"}),
        Identity("expired claim", none, {CLAIM_SETTING: sign_claim(widest, key, now - 7200).text}),
        Identity("retired key", none, {CLAIM_SETTING: sign_claim(widest, retired or _old_key(db), now).text}),
        Identity("plain setting, unsigned", none, {"zeroth.principal": widest}),
        Identity("plain claim, unsigned", none, {CLAIM_SETTING: widest}),
        _claimed("principal without grants", _without_grants(held), key, now, none),
    )
    rightful = (own,) if other is None else (other, own)
    return Cast(own, other, (*bad, *rightful))


def _claimed(name: str, principal: str, key: ClaimKey, now: float, permitted: frozenset[int]) -> Identity:
    return Identity(name, permitted, {CLAIM_SETTING: sign_claim(principal, key, now).text})


def _stranger_to(held: Mapping[str, frozenset[int]], own: str, names: Iterable[str]) -> str | None:
    for name in names:
        if not held[name] & held[own]:
            return name
    return next((name for name in names if held[name] - held[own]), None)


def _without_grants(held: Mapping[str, frozenset[int]]) -> str:
    return next((name for name, ids in sorted(held.items()) if not ids), _STRANGER)


def _flipped(code: str) -> str:
    """Another last digit: the rest of the code is right."""
    return code[:-1] + ("0" if code[-1] != "0" else "1")


def _old_key(db: Database) -> ClaimKey:
    with db.owner() as connection:
        row = connection.execute(
            "select key_id, encode(key, 'hex') from zeroth_acl.claim_key where retired_at <= clock_timestamp() limit 1"
        ).fetchone()
    return new_key() if row is None else ClaimKey(str(row[0]), Secret(str(row[1])))
