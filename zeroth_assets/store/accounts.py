"""Which system user runs the embedded server, and work done in that user's name.

What belongs here: the choice of the user, and the few file operations that root does as that user.

PostgreSQL refuses to run as root. As root, the server runs as the first of these users that exists:
`zeroth` (make one for a user that nothing else shares), `postgres`, `nobody`. A data directory that already exists
decides: its owner goes on running it. Whatever that user can write, root must not write to by name: a
link planted there would lead root anywhere. So files below the data directory are written *as* that user.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from zeroth_assets.errors import DatabaseError

CANDIDATES: tuple[str, ...] = ("zeroth", "postgres", "nobody")


class SpawnOptions(TypedDict, total=False):
    """The part of `subprocess.Popen`'s arguments that changes the user."""

    user: int
    group: int
    extra_groups: Sequence[int]


@dataclass(frozen=True, slots=True)
class Account:
    """A system user, and whether becoming that user takes a step (`switch`) or it is us already."""

    name: str
    uid: int
    gid: int
    switch: bool

    @property
    def spawn(self) -> SpawnOptions:
        """Arguments for `subprocess` that run the child as this user, with no group of ours."""
        if not self.switch:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def server_account(
    owner: int | None,
    *,
    euid: int | None = None,
    candidates: Sequence[str] = CANDIDATES,
    users: Mapping[str, pwd.struct_passwd] | None = None,
) -> Account:
    """The user who runs the server.

    Args:
        owner: uid of the data directory's owner, if there is one yet.
        euid: who we are; None asks the system.
        candidates: names to try as root, best first.
        users: the system's users by name; None asks the system.

    Raises:
        DatabaseError: as root, no unprivileged user exists; or the data directory is somebody else's.
    """
    euid = os.geteuid() if euid is None else euid
    if users is None:
        users = {entry.pw_name: entry for entry in reversed(pwd.getpwall())} | _looked_up(candidates)
    by_uid = {entry.pw_uid: entry for entry in users.values()}
    if euid != 0:
        if owner is not None and owner != euid:
            holder = by_uid[owner].pw_name if owner in by_uid else str(owner)
            raise DatabaseError(
                "The embedded server's data belongs to another user",
                expected="a home of the user who runs zeroth",
                found=f"owner {holder}, and we are uid {euid}",
                remedy=f"run as {holder} or as root, or set ZEROTH_HOME to a folder of your own",
            )
        entry = by_uid.get(euid)
        if entry is None:
            raise DatabaseError(
                f"The user with uid {euid} has no entry in /etc/passwd, which initdb insists on",
                remedy="add the user (useradd), or set ZEROTH_DATABASE_URL to a PostgreSQL server",
            )
        return Account(entry.pw_name, euid, entry.pw_gid, switch=False)
    if owner:
        if owner not in by_uid:
            raise DatabaseError(
                f"The embedded server's data belongs to uid {owner}, who is no user of this machine",
                remedy=f"chown -R the data directory to one of: {', '.join(candidates)}",
            )
        return Account(by_uid[owner].pw_name, owner, by_uid[owner].pw_gid, switch=True)
    for name in candidates:
        entry = users.get(name)
        if entry is not None and entry.pw_uid != 0:
            return Account(name, entry.pw_uid, entry.pw_gid, switch=True)
    raise DatabaseError(
        "PostgreSQL does not run as root, and there is no unprivileged user to run it as",
        expected=f"a system user named {', '.join(candidates[:-1])} or {candidates[-1]}",
        remedy="create one (useradd --system zeroth), run zeroth as an ordinary user, or set ZEROTH_DATABASE_URL",
    )


def _looked_up(names: Sequence[str]) -> dict[str, pwd.struct_passwd]:
    """Users that a directory service knows, though it does not list them."""
    found = {}
    for name in names:
        try:
            found[name] = pwd.getpwnam(name)
        except KeyError:
            continue
    return found


def reaches(account: Account, folder: Path) -> bool:
    """Whether `account` may enter `folder`: tried, not computed, so access lists and mounts count too."""
    return run_as(account, ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder)]).returncode == 0


def write_as(account: Account, path: Path, text: str) -> None:
    """Write `text` to `path` as `account`: whole or not at all, mode 0600.

    Raises:
        DatabaseError: the write failed; the system's reason is shown.
    """
    script = 'umask 077; cat > "$1.part" && mv -f -- "$1.part" "$1"'
    done = run_as(account, ["/bin/sh", "-c", script, "sh", str(path)], text)
    if done.returncode != 0:
        raise DatabaseError(
            f"{path} could not be written as user {account.name}",
            found=done.stdout.strip()[-400:],
            remedy="check the disk's free space and the folder's owner",
        )


def run_as(
    account: Account, command: Sequence[str], stdin: str = "", timeout: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run a short command as `account` with a clean environment; stdout and stderr come back together."""
    return subprocess.run(
        command,
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd="/",
        env=clean_environment(),
        start_new_session=True,
        timeout=timeout,
        check=False,
        **account.spawn,
    )


def clean_environment() -> dict[str, str]:
    """What PostgreSQL's programs see: no PG* variable of the caller's, messages in English."""
    return {"PATH": os.environ.get("PATH") or os.defpath, "LC_ALL": "C"}
