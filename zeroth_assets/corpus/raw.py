"""Raw bytes on disk: where a version of a document lies, and how it gets there whole or not at all.

What belongs here: file names that every file system takes, the atomic write, and the comparison of a file with its
record. Nothing here fetches.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock

from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.errors import AcquisitionError

_EXTENSIONS = {"text/plain": "txt", "text/html": "htm"}
_RESERVED = frozenset({"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(1, 10))})

_HOPELESS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EFBIG}


def raw_path(raw_dir: Path, record: ManifestRecord) -> Path:
    """Where the bytes of this version lie: `<raw_dir>/<source>/<safe id>/<sha256>.<ext>`."""
    return document_folder(raw_dir, record) / f"{record.sha256}.{extension_of(record)}"


def document_folder(raw_dir: Path, record: ManifestRecord) -> Path:
    """The folder of all versions of the record's document."""
    return raw_dir / record.source / safe_name(record.document_id.partition(":")[2])


def extension_of(record: ManifestRecord) -> str:
    """File name extension for the record's media type."""
    return _EXTENSIONS[record.media_type]


def safe_name(identifier: str) -> str:
    """A document_id's part after the source as a file name: `:` becomes `_`, which no id holds, so it is one to one.

    Ids are lower case and short (see the manifest's schema), so the names also differ where case does not count.
    """
    name = identifier.replace(":", "_")
    return f"{name}_" if name.partition(".")[0] in _RESERVED else name


def read_raw(raw_dir: Path, record: ManifestRecord) -> bytes:
    """The verified bytes of a version.

    Raises:
        AcquisitionError: they are not on disk, or are not those that the manifest names.
    """
    path = raw_path(raw_dir, record)
    remedy = f"run `zeroth materialize --asset raw_documents --partition {record.source}`"
    try:
        payload = path.read_bytes()
    except FileNotFoundError as error:
        raise AcquisitionError(
            f"The bytes of {record.document_id} are not there", expected=f"a file {path}", remedy=remedy
        ) from error
    found = hashlib.sha256(payload).hexdigest()
    if found != record.sha256:
        raise AcquisitionError(
            f"The bytes of {record.document_id} are damaged",
            expected=f"{record.bytes} bytes with sha256 {record.sha256}",
            found=f"{len(payload)} bytes with sha256 {found} in {path}",
            remedy=remedy,
        )
    return payload


def is_intact(path: Path, record: ManifestRecord) -> bool:
    """Whether the file holds the record's bytes: its size first, then the checksum."""
    try:
        if path.stat().st_size != record.bytes:
            return False
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest() == record.sha256
    except OSError:
        return False  # absent, or not to be read: either way its bytes are wanted again


def store(target: Path, payload: bytes, write: Callable[[Path, bytes], None]) -> None:
    """Put bytes under their final name by `write` (temporary file, fsync, rename), making the folder.

    Raises:
        AcquisitionError: the disk is full, read-only or failing, so that no document can be stored.
    """
    with refusals_of(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        write(target, payload)


@contextmanager
def refusals_of(path: Path) -> Iterator[None]:
    """Turn an error of the disk itself into one for a person; others pass, they may be this file's alone.

    Raises:
        AcquisitionError: the disk takes no more files.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _HOPELESS:
            raise
        raise AcquisitionError(
            f"Nothing can be written to {path.parent}",
            expected="a disk with room, in a folder that may be written",
            found=error.strerror or str(error),
            remedy="free some room or set ZEROTH_HOME to another disk; the same command then goes on where it stopped",
        ) from error


@contextmanager
def source_locks(state_dir: Path, sources: Iterable[str]) -> Iterator[None]:
    """Hold the sources' raw files alone; a second process waits, and then finds intact what the first has fetched."""
    with ExitStack() as stack:
        with refusals_of(state_dir / "acquire"):
            state_dir.mkdir(parents=True, exist_ok=True)
            for source in sorted(set(sources)):
                stack.enter_context(FileLock(state_dir / f"acquire-{source}.lock"))
        yield


def remove_leftovers(raw_dir: Path, record: ManifestRecord) -> None:
    """Remove half-written files of a killed process. The caller holds the source's lock."""
    folder = document_folder(raw_dir, record)
    for leftover in (*folder.glob(".*.part"), *folder.glob("candidates/.*.part")):
        leftover.unlink(missing_ok=True)
