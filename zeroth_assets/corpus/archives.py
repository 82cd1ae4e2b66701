"""Documents that are published as members of a zip file: the archive is fetched once and kept, members are read.

What belongs here: finding and reading members. Nothing is extracted to a path that the archive names: a member's
bytes go where `raw_path` says, whatever the member is called, so no name can lead out of the folder.
"""

from __future__ import annotations

import hashlib
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

from zeroth_assets.corpus.http import MAX_DOCUMENT_BYTES


class BadMember(Exception):  # noqa: N818
    """A member is not there, or cannot be read; the message says why."""


def archive_path(raw_dir: Path, url: str) -> Path:
    """Where the archive of a URL is kept."""
    return raw_dir / "archives" / f"{hashlib.sha256(url.encode()).hexdigest()[:16]}.zip"


def is_archive(path: Path) -> bool:
    """Whether the file is a zip file with a directory that can be read; a cut one has lost it."""
    try:
        with zipfile.ZipFile(path) as archive:
            return bool(archive.infolist())
    except (OSError, zipfile.BadZipFile):
        return False


class Archive:
    """An open zip file. `read` may be called from several threads."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path)
        self._members: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            for name in _spellings(info):
                self._members.setdefault(name, info)

    def close(self) -> None:
        """Close the file."""
        self._zip.close()

    def read(self, member: str, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
        """A member's bytes, checked against the archive's CRC.

        Raises:
            BadMember: absent, encrypted, damaged, or larger than `limit` when unpacked.
        """
        info = self._members.get(unicodedata.normalize("NFC", member))
        if info is None:
            raise BadMember(f"the archive has no member {member!r}")
        if info.flag_bits & 0x1:
            raise BadMember(f"{member!r} is encrypted")
        try:
            with self._zip.open(info) as handle:
                payload = handle.read(limit + 1)  # the size in the directory is the archive's word, not a bound
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, OSError, EOFError) as error:
            raise BadMember(f"{member!r} cannot be unpacked: {error}") from error
        if len(payload) > limit:
            raise BadMember(f"{member!r} unpacks to more than {limit} bytes")
        return payload


def _spellings(info: zipfile.ZipInfo) -> Iterable[str]:
    """A member's name as stored and, where the archive did not mark it as UTF-8, as what its bytes are in UTF-8."""
    yield unicodedata.normalize("NFC", info.filename)
    if not info.flag_bits & 0x800:
        try:
            yield unicodedata.normalize("NFC", info.filename.encode("cp437").decode("utf-8"))
        except UnicodeError:
            return
