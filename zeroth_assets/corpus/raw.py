"""Raw bytes on disk: where a version of a document lies, and how it gets there whole or not at all.

What belongs here: file names that every file system takes, the atomic write, and the comparison of a file with its
record. Nothing here fetches.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.errors import AcquisitionError

_EXTENSIONS = {"text/plain": "txt", "text/html": "htm"}
_RESERVED = frozenset({"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(1, 10))})


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
    except (FileNotFoundError, NotADirectoryError):
        return False
