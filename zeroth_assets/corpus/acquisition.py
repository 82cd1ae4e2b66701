"""Acquisition: from records of the manifest to verified bytes on disk.

What belongs here: the run over many documents. How one document is asked for, paced and judged lies beside it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from zeroth_assets.artefacts import write_atomic
from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.corpus.raw import is_intact, raw_path, read_raw
from zeroth_assets.corpus.report import FetchReport, Outcome, report_of
from zeroth_assets.errors import AcquisitionError

__all__ = ["acquire", "raw_path", "read_raw"]


def acquire(
    records: Iterable[ManifestRecord],
    *,
    raw_dir: Path,
    mirror: str | None,
    clock: Callable[[], float] = time.monotonic,
    progress: Callable[[int, int], None] | None = None,
) -> FetchReport:
    """Bring every record's bytes to `raw_path(raw_dir, record)`, verified; what is intact there is not touched.

    Raises:
        AcquisitionError: nothing can proceed, such as a mirror that is not there. One document's failure is in the
            report instead.
    """
    if mirror is None or not Path(mirror).is_dir():
        raise AcquisitionError(
            f"The mirror {mirror} is not there",
            expected="a folder that holds the documents of the manifest",
            remedy="correct ZEROTH_MIRROR, or unset it",
        )
    wanted = list(records)
    outcomes = []
    started = clock()
    for index, record in enumerate(wanted):
        outcomes.append(_copy(record, raw_dir, Path(mirror), clock))
        if progress is not None:
            progress(index + 1, len(wanted))
    return report_of(outcomes, seconds=clock() - started)


def _copy(record: ManifestRecord, raw_dir: Path, mirror: Path, clock: Callable[[], float]) -> Outcome:
    about = (record.document_id, record.sha256, record.source)
    target = raw_path(raw_dir, record)
    if is_intact(target, record):
        return Outcome(*about, "intact", bytes=record.bytes, origin=record.origin)
    started = clock()
    source = mirror / (record.mirror_path or "")
    try:
        payload = source.read_bytes()
    except OSError as error:
        return Outcome(*about, "failed", 1, f"{source}: {error.strerror}", origin=str(source))
    found = hashlib.sha256(payload).hexdigest()
    if found != record.sha256:
        return Outcome(*about, "failed", 1, f"sha256 is {found}, not {record.sha256}", origin=str(source))
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(target, payload)
    return Outcome(*about, "fetched", 1, bytes=len(payload), seconds=clock() - started, origin=str(source))
