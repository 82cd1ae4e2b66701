"""Signed claims: who asks, as the database can verify it.

What belongs here: the claim's form (`sql/0006_signed_claims.sql` reads it), the keys that a home signs with, and the
signer that a connection carries. What the database knows of keys is in `claim_keys`.

A claim is a bearer's token of one database: until it expires, whoever holds it reads as its principal. It goes to the
server as a parameter of a statement, never as part of one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zeroth_assets.errors import DatabaseError, QueryError
from zeroth_assets.store import server
from zeroth_assets.store.passwords import Secret, write_private

CLAIM_SETTING = "zeroth.claim"
VERSION = "1"
DEFAULT_LIFETIME = 900
MAX_LIFETIME = 3600  # the database's own bound, which no client can move
_KEY_BYTES = 32


class ClaimError(QueryError):
    """A claim cannot be made, is refused by the database, or ran out while it was used."""


@dataclass(frozen=True, slots=True)
class ClaimKey:
    """A key and its name. `former` names the keys that this home signed with before."""

    key_id: str
    key: Secret
    former: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """A signed claim. `text` is what the setting holds, `expires` its end in seconds since 1970."""

    text: str = field(repr=False)
    principal: str
    expires: int


def check_principal(principal: str) -> str:
    """Return `principal` if it may name somebody.

    Raises:
        QueryError: it is empty, longer than 200 characters, or not printable.
    """
    if not principal or len(principal) > 200 or not principal.isprintable():
        raise QueryError(
            "The principal is not usable",
            expected="1 to 200 printable characters",
            found=repr(principal[:60]),
            remedy="pass the name that the caller's verified session carries",
        )
    return principal


def sign_claim(principal: str, key: ClaimKey, now: float, lifetime: float = DEFAULT_LIFETIME) -> Claim:
    """A claim that `principal` asks, from `now` (seconds since 1970) for `lifetime` seconds, rounded down to a second.

    Raises:
        QueryError: the principal is not usable.
        ClaimError: the lifetime is not within what the database accepts.
    """
    if not 1 <= lifetime <= MAX_LIFETIME:
        raise ClaimError("The claim's lifetime is refused", expected=f"1 to {MAX_LIFETIME} s", found=f"{lifetime} s")
    name = base64.urlsafe_b64encode(check_principal(principal).encode()).decode().rstrip("=")
    expires = int(now + lifetime)
    payload = f"{VERSION}.{key.key_id}.{name}.{expires}"
    code = hmac.new(bytes.fromhex(key.key.reveal()), payload.encode(), hashlib.sha256).hexdigest()
    return Claim(f"{payload}.{code}", principal, expires)


def new_key(former: tuple[str, ...] = ()) -> ClaimKey:
    """A key of 32 random bytes under a random name."""
    return ClaimKey(secrets.token_hex(8), Secret(secrets.token_hex(_KEY_BYTES)), former)


def key_file(home: Path) -> Path:
    """Where the keys of `home` are kept, one for each database."""
    return home / "postgres" / "claim_keys.json"


def read_key(home: Path, database: str) -> ClaimKey | None:
    """The key with which `home` signs for `database`; None if it has none yet.

    Raises:
        DatabaseError: the file cannot be read, or is not what we wrote.
    """
    entry = _read(home).get(database)
    return None if entry is None else ClaimKey(entry["key_id"], Secret(entry["key"]), tuple(entry["former"]))


def keep_key(home: Path, database: str, key: ClaimKey) -> None:
    """Sign for `database` with `key` from now on, in every process. The caller holds the home's lock."""
    entry = {"key_id": key.key_id, "key": key.key.reveal(), "former": list(key.former)}
    write_private(key_file(home), json.dumps({**_read(home), database: entry}, indent=1) + "\n")


def ensure_key(home: Path, database: str) -> ClaimKey:
    """The key with which `home` signs for `database`, made if absent."""
    with server.home_lock(home):
        key = read_key(home, database)
        if key is None:
            key = new_key()
            keep_key(home, database, key)
    return key


class ClaimSigner:
    """Signs for one database with the key that its home has now; a key that is changed meanwhile is taken up."""

    __slots__ = ("_clock", "_database", "_home", "_key", "_seen")

    def __init__(self, home: Path, database: str, clock: Callable[[], float] = time.time) -> None:
        self._home = home
        self._database = database
        self._clock = clock
        self._key: ClaimKey | None = None
        self._seen: tuple[int, int] | None = None

    def __repr__(self) -> str:
        return f"ClaimSigner({self._database!r})"

    def now(self) -> float:
        """Seconds since 1970 by the clock that claims are dated with."""
        return self._clock()

    def sign(self, principal: str, lifetime: float = DEFAULT_LIFETIME) -> Claim:
        """A claim for `principal` from now on.

        Raises:
            ClaimError: the home has no key for this database, or the lifetime is refused.
            QueryError: the principal is not usable.
            DatabaseError: the key file cannot be read.
        """
        return sign_claim(principal, self._current(), self._clock(), lifetime)

    def _current(self) -> ClaimKey:
        try:
            stat = key_file(self._home).stat()
            seen = (stat.st_mtime_ns, stat.st_ino)  # the file is replaced whole: a change is another inode
        except FileNotFoundError:
            seen = None
        if self._key is None or seen != self._seen:
            self._key, self._seen = read_key(self._home, self._database), seen
        if self._key is None:
            raise ClaimError(
                "This home has no key to sign claims with",
                expected=f"a key for database {self._database!r} in {key_file(self._home)}",
                remedy="run `zeroth db migrate`, which makes one and registers it",
            )
        return self._key


def _read(home: Path) -> dict[str, dict[str, Any]]:
    path = key_file(home)
    try:
        mode = path.stat().st_mode
        text = path.read_text()
    except FileNotFoundError:
        return {}
    except PermissionError:
        raise DatabaseError(
            f"The claim keys in {path} cannot be read by this user",
            expected="a home that belongs to the user who runs zeroth",
            remedy="run as the owner of that folder, or set ZEROTH_HOME to a folder of your own",
        ) from None
    try:
        if mode & 0o077:
            path.chmod(0o600)
        kept = json.loads(text)
        usable = all(_is_entry(entry) for entry in kept.values())
    except (ValueError, AttributeError, PermissionError):
        usable = False
    if not usable:
        # No `from`: a JSON error carries the document, and with it the keys.
        raise DatabaseError(
            f"The claim keys in {path} cannot be used",
            expected="a JSON object with one key per database, readable by its owner alone",
            remedy="restore the file from a backup; or remove it and run `zeroth db migrate`, which makes new keys",
        ) from None
    return dict(kept)


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, dict):
        return False
    key_id, key, former = entry.get("key_id"), entry.get("key"), entry.get("former")
    return (
        isinstance(key_id, str)
        and re.fullmatch(r"[0-9a-f]{16}", key_id) is not None
        and isinstance(key, str)
        and re.fullmatch(rf"[0-9a-f]{{{2 * _KEY_BYTES}}}", key) is not None
        and isinstance(former, list)
        and all(isinstance(name, str) for name in former)
    )
