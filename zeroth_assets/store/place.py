"""Where the embedded server keeps its data, and the small record of it in the home.

What belongs here: the choice of the folder, the proof that it is still ours, the record. Ordinarily that is
`<home>/postgres/cluster`. As root, a home may lie where the server's user cannot go (below a 0700 folder).
No folder outside the home is opened up for that: the data then lives in a folder of its own, and the
home remembers where.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store.accounts import Account, reaches
from zeroth_assets.store.passwords import write_private


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """What the home remembers of its server.

    `base` is None for `<home>/postgres` (a home can then be moved), else an absolute path elsewhere.
    """

    cluster_id: str
    base: str | None = None
    port: int | None = None
    version: str | None = None

    @property
    def cluster_name(self) -> str:
        """The name that every server process carries in its title."""
        return f"zeroth-{self.cluster_id}"

    def cluster(self, home: Path) -> Path:
        """The private folder of the server's user: `data` and `server.log`."""
        return self._base(home) / "cluster"

    def programs(self, home: Path) -> Path:
        """Where programs are copied to, if the server's user cannot reach the installed ones."""
        return self._base(home) / "programs"

    def _base(self, home: Path) -> Path:
        return Path(self.base) if self.base is not None else home / "postgres"


def record_file(home: Path) -> Path:
    """Where the record is kept."""
    return home / "postgres" / "server.json"


def read_record(home: Path) -> ServerRecord | None:
    """The home's record, or None for a home without a server.

    Raises:
        DatabaseError: it cannot be read, or is not what we wrote.
    """
    path = record_file(home)
    try:
        raw = json.loads(path.read_text())
        record = ServerRecord(**raw)
        types = {"cluster_id": str, "base": str | None, "port": int | None, "version": str | None}
        wrong = [name for name, kind in types.items() if not isinstance(getattr(record, name), kind)]
        if wrong:
            raise TypeError(f"wrong type: {', '.join(wrong)}")
    except FileNotFoundError:
        return None
    except PermissionError:
        raise DatabaseError(
            f"{path} cannot be read by this user",
            expected="a home that belongs to the user who runs zeroth",
            remedy="run as the owner of that folder, or set ZEROTH_HOME to a folder of your own",
        ) from None
    except (ValueError, TypeError) as error:
        raise DatabaseError(
            f"{path} is not the record of an embedded server",
            found=str(error),
            remedy="stop the server that runs from this home, remove the `postgres` folder and materialise again",
        ) from error
    return record


def write_record(home: Path, record: ServerRecord) -> None:
    """Keep the record, whole or not at all."""
    write_private(record_file(home), json.dumps(asdict(record), indent=1) + "\n", mode=0o644)


def prepare_state_folder(home: Path) -> Path:
    """Make `<home>/postgres`. Root makes it passable, not readable: the server's user has to get through.

    Raises:
        DatabaseError: the home cannot be made or written.
    """
    folder = home / "postgres"
    try:
        home.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0 and folder.stat().st_uid == 0:
            folder.chmod(0o711)
    except OSError as error:
        raise DatabaseError(
            f"The server's folder {folder} cannot be made",
            found=str(error),
            remedy="set ZEROTH_HOME to a folder that you can write",
        ) from error
    return folder


def new_cluster(home: Path, account: Account, bases: Sequence[Path] | None = None) -> ServerRecord:
    """Choose and make the folder for a new server, owned by `account`, mode 0700; the record is not written yet.

    Raises:
        DatabaseError: no place is left where the server's user can live.
    """
    cluster_id = secrets.token_hex(6)
    inside = home / "postgres"
    if not account.switch:
        (inside / "cluster").mkdir(mode=0o700, exist_ok=True)
        return ServerRecord(cluster_id)
    if reaches(account, inside) and _give_folder(inside, account):
        return ServerRecord(cluster_id)
    for parent in elsewhere() if bases is None else bases:
        if not (_is_safe_base(parent) and reaches(account, parent)):
            continue
        name = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
        try:
            # mkdtemp makes a folder that was not there: nobody can have prepared it for us. It stays root's.
            base = Path(tempfile.mkdtemp(prefix=f"zeroth-{name}-", dir=parent))
            base.chmod(0o711)
        except OSError:
            continue
        if _give_folder(base, account):
            return ServerRecord(cluster_id, str(base))
        shutil.rmtree(base, ignore_errors=True)
    raise DatabaseError(
        f"User {account.name}, who runs the server for root, cannot reach {home}, and no other place was found",
        expected="a home that this user can pass through to, or a writable /var/lib or /var/tmp",
        remedy="set ZEROTH_HOME to a folder outside of private ones (for example /srv/zeroth)",
    )


def _give_folder(base: Path, account: Account) -> bool:
    """Make `base/cluster` the account's own; False on a disk where that cannot be done (a share, a desktop's mount)."""
    folder = base / "cluster"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        os.chown(folder, account.uid, account.gid, follow_symlinks=False)
    except OSError:
        return False
    info = folder.lstat()
    return info.st_uid == account.uid and not info.st_mode & 0o077


def elsewhere() -> tuple[Path, ...]:
    """Places for data that cannot live in the home, best first; /var/lib is not swept by any cleaner."""
    return (Path("/var/lib"), Path("/var/tmp"), Path(tempfile.gettempdir()))  # noqa: S108  (mkdtemp makes it safe)


def _is_safe_base(base: Path) -> bool:
    """Whether nobody but root could swap a folder of ours in `base` for another."""
    try:
        info = base.stat()
    except OSError:
        return False
    writable_by_others = info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return (
        stat.S_ISDIR(info.st_mode)
        and info.st_uid == 0
        and (not writable_by_others or bool(info.st_mode & stat.S_ISVTX))
    )


def cluster_owner(home: Path, record: ServerRecord | None) -> int | None:
    """The uid that owns the server's folder, or None where there is no such folder yet.

    Raises:
        DatabaseError: it is a link or no folder, is open to others, or is root's: somebody put it there.
    """
    if record is None:
        # A start that was killed early, or a record removed by hand: whoever owns the data goes on owning it.
        folder = home / "postgres" / "cluster"
        info = _look(folder)
        return None if info is None or info.st_uid == 0 else info.st_uid
    if record.base is not None:
        above = _look(Path(record.base))
        if above is not None and (not stat.S_ISDIR(above.st_mode) or above.st_mode & 0o022 or above.st_uid != 0):
            raise _not_ours(Path(record.base), above)
    folder = record.cluster(home)
    info = _look(folder)
    if info is None:
        return None
    if not stat.S_ISDIR(info.st_mode) or info.st_mode & 0o077 or info.st_uid == 0:
        raise _not_ours(folder, info)
    return info.st_uid


def _look(folder: Path) -> os.stat_result | None:
    try:
        return folder.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DatabaseError(
            f"The server's folder {folder} cannot be looked at",
            found=str(error),
            remedy="run as the owner of the home, or set ZEROTH_HOME to a folder of your own",
        ) from error


def _not_ours(folder: Path, info: os.stat_result) -> DatabaseError:
    return DatabaseError(
        f"{folder} is not the folder that the server's data was put into",
        expected="a private folder of the server's unprivileged user",
        found=f"{stat.filemode(info.st_mode)}, owner uid {info.st_uid}",
        remedy="find out who changed it; restore its owner and mode, or remove the home's `postgres` folder",
    )
