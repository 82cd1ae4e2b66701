"""Passwords of the database roles: made once, kept in one file that only its owner reads.

What belongs here: the roles by name, a wrapper that never prints what it holds, and the file.
"""

from __future__ import annotations

import enum
import json
import logging
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from zeroth_assets.errors import DatabaseError

_log = logging.getLogger(__name__)


class Role(enum.StrEnum):
    """The roles of one installation; the value is the role's name in PostgreSQL."""

    ADMIN = "zeroth_admin"
    OWNER = "zeroth_owner"
    LOADER = "zeroth_loader"
    APP = "zeroth_app"
    DAGSTER = "zeroth_dagster"


class Secret:
    """A password that shows as `***` wherever it is printed, logged or dumped with a traceback's locals."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The password itself, for the one call that needs it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and secrets.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash(self._value)


def password_file(home: Path) -> Path:
    """Where the passwords of `home` are kept."""
    return home / "postgres" / "passwords.json"


def ensure_passwords(home: Path) -> Mapping[Role, Secret]:
    """Read the passwords of `home`, making those that are absent.

    The caller holds the home's lock: two processes that both made passwords would lock each other out.

    Raises:
        DatabaseError: the file cannot be read, or is not what we wrote.
    """
    path = password_file(home)
    kept = _read(path)
    missing = [role for role in Role if role not in kept]
    if missing:
        # Letters and digits only, so that a password is the same in a URL, in a shell and in SQL.
        kept.update({role: Secret(secrets.token_hex(24)) for role in missing})
        write_private(path, json.dumps({role.value: kept[role].reveal() for role in Role}, indent=1) + "\n")
    return kept


def _read(path: Path) -> dict[Role, Secret]:
    try:
        mode = path.stat().st_mode
        text = path.read_text()
    except FileNotFoundError:
        return {}
    except PermissionError:
        raise DatabaseError(
            f"The database passwords in {path} cannot be read by this user",
            expected="a home that belongs to the user who runs zeroth",
            remedy="run as the owner of that folder, or set ZEROTH_HOME to a folder of your own",
        ) from None
    if mode & 0o077:
        _log.warning("%s was readable by others; its mode is now 0600", path)
        path.chmod(0o600)
    try:
        raw = json.loads(text)
        kept = {Role(name): Secret(value) for name, value in raw.items() if isinstance(value, str) and value}
    except (ValueError, AttributeError):
        kept = {}
    if not kept:
        # No `from`: a JSON error carries the document, and with it the passwords.
        raise DatabaseError(
            f"The database passwords in {path} cannot be used",
            expected="a JSON object with one password per role",
            remedy="restore the file from a backup, or remove the folder that holds it and materialise again",
        ) from None
    return kept


def write_private(path: Path, text: str, mode: int = 0o600) -> None:
    """Write `text` to `path` whole or not at all, readable as `mode` says, owned as its folder is.

    Root that works in somebody else's home thus leaves files that this somebody can still use.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w") as stream:
            folder = path.parent.stat()
            if os.geteuid() == 0 and folder.st_uid != 0:
                os.fchown(stream.fileno(), folder.st_uid, folder.st_gid)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
