"""Reading everything again: are the raw bytes on disk those that the manifest names?

What belongs here: `verify_raw` and its report. It changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from zeroth_assets.corpus.manifest import ManifestRecord, current_versions
from zeroth_assets.corpus.raw import raw_path

VERIFY_SCHEMA = pl.Schema(
    {
        "document_id": pl.String,
        "version": pl.String,
        "source": pl.String,
        "current": pl.Boolean,
        "state": pl.String,
        "found": pl.String,
        "path": pl.String,
    }
)


@dataclass(frozen=True, slots=True)
class Verification:
    """`documents` has `VERIFY_SCHEMA`; its `state` is intact, missing, size, checksum or unreadable.

    `strays` are files under the raw folder that no record names: candidates, archives, versions no longer listed.
    """

    documents: pl.DataFrame
    strays: tuple[Path, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Records by state."""
        return dict(self.documents.group_by("state").len().sort("state").iter_rows())

    @property
    def intact(self) -> bool:
        """Whether every current version is whole, and no replaced one is damaged (it may be missing)."""
        bad = (pl.col("state") != "intact") & (pl.col("current") | (pl.col("state") != "missing"))
        return self.documents.filter(bad).is_empty()


def verify_raw(
    records: Iterable[ManifestRecord], raw_dir: Path, *, progress: Callable[[int, int], None] | None = None
) -> Verification:
    """Read every record's file and compare its size and checksum; nothing is fetched or changed."""
    wanted = list(records)
    current = {(r.document_id, r.sha256) for r in current_versions(wanted)}
    rows = []
    for index, record in enumerate(wanted):
        path = raw_path(raw_dir, record)
        state, found = _state(path, record)
        key = (record.document_id, record.sha256)
        rows.append((*key, record.source, key in current, state, found, str(path)))
        if progress is not None:
            progress(index + 1, len(wanted))
    known = {row[6] for row in rows}
    strays = [p for p in sorted(raw_dir.rglob("*")) if p.is_file() and str(p) not in known]
    return Verification(pl.DataFrame(rows, schema=VERIFY_SCHEMA, orient="row"), tuple(strays))


def _state(path: Path, record: ManifestRecord) -> tuple[str, str | None]:
    try:
        size = path.stat().st_size
        if size != record.bytes:
            return "size", f"{size} bytes, not {record.bytes}"
        with path.open("rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
    except FileNotFoundError:
        return "missing", None
    except OSError as error:
        return "unreadable", error.strerror or str(error)
    return ("intact", None) if digest == record.sha256 else ("checksum", f"sha256 {digest}")
