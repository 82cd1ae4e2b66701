"""New versions: bytes that a publisher serves in place of those that the manifest names.

What belongs here: setting such bytes aside as a candidate, and `update_manifest`, which turns candidates into records
when a person asks for it. Nothing is overwritten: the former version keeps its record and its file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from zeroth_assets.artefacts import write_atomic
from zeroth_assets.corpus.dead_letters import DeadLetters
from zeroth_assets.corpus.hosts import when
from zeroth_assets.corpus.manifest import Manifest, ManifestRecord, load_manifest, write_manifest
from zeroth_assets.corpus.raw import document_folder, extension_of, raw_path, source_locks
from zeroth_assets.errors import ManifestError
from zeroth_assets.settings import SOURCES


@dataclass(frozen=True, slots=True)
class Candidate:
    """A version that waits for a decision. `replaces` is the version that was asked for; `path` holds the bytes."""

    document_id: str
    replaces: str
    sha256: str
    bytes: int
    origin: str
    retrieved_at: str
    path: Path


def store_candidate(record: ManifestRecord, payload: bytes, *, raw_dir: Path, origin: str, now: float) -> Candidate:
    """Set bytes aside under the document's folder; bytes first, so that a description never lacks them."""
    sha256 = hashlib.sha256(payload).hexdigest()
    folder = document_folder(raw_dir, record) / "candidates"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{sha256}.{extension_of(record)}"
    found = Candidate(record.document_id, record.sha256, sha256, len(payload), origin, when(now), path)
    write_atomic(path, payload)
    described = {**dataclasses.asdict(found), "path": path.name}
    write_atomic(folder / f"{sha256}.json", json.dumps(described, indent=1, sort_keys=True).encode())
    return found


def candidates(raw_dir: Path, document_ids: Iterable[str] | None = None) -> tuple[Candidate, ...]:
    """Candidates whose bytes are whole, ordered by document and time; of the given documents or all."""
    wanted = None if document_ids is None else set(document_ids)
    found = []
    for description in sorted(raw_dir.glob("*/*/candidates/*.json")):
        try:
            values = json.loads(description.read_text(encoding="utf-8"))
            candidate = Candidate(**{**values, "path": description.parent / values["path"]})
            digest = hashlib.sha256(candidate.path.read_bytes()).hexdigest()
        except (ValueError, TypeError, KeyError, OSError):
            continue  # half of a candidate is none; the next fetch makes it again
        if digest == candidate.sha256 and (wanted is None or candidate.document_id in wanted):
            found.append(candidate)
    return tuple(sorted(found, key=lambda c: (c.document_id, c.retrieved_at, c.sha256)))


@dataclass(frozen=True, slots=True)
class ManifestUpdate:
    """What `update_manifest` did: the records it added, and candidates that it left with the reason."""

    manifest: Manifest
    added: tuple[ManifestRecord, ...]
    left: tuple[tuple[Candidate, str], ...]


def update_manifest(
    manifest_path: Path,
    *,
    raw_dir: Path,
    state_dir: Path | None = None,
    document_ids: Iterable[str] | None = None,
    dry_run: bool = False,
) -> ManifestUpdate:
    """Turn candidates into records that supersede the versions they replace; the old records stay.

    Of several candidates for a document the latest is taken. A kill leaves the manifest as it was or as it should be,
    and the same call completes.

    Raises:
        ManifestError: the manifest cannot be read or written.
    """
    state_dir = state_dir or raw_dir.parent
    with source_locks(state_dir, SOURCES), manifest_lock(manifest_path):
        manifest = load_manifest(manifest_path)
        current = {record.document_id: record for record in manifest.current()}
        listed = {(record.document_id, record.sha256) for record in manifest}
        taken: dict[str, Candidate] = {}
        left = []
        done = []
        for candidate in candidates(raw_dir, document_ids):
            record = current.get(candidate.document_id)
            if record is None:
                left.append((candidate, "the manifest does not list the document"))
            elif (candidate.document_id, candidate.sha256) in listed:
                done.append(candidate)
            elif candidate.replaces != record.sha256:
                left.append((candidate, f"the current version is {record.sha256[:12]} by now: fetch again"))
            else:
                if former := taken.get(candidate.document_id):
                    left.append((former, "a later candidate was taken"))
                taken[candidate.document_id] = candidate
        added = tuple(_successor(current[c.document_id], c) for c in taken.values())
        if dry_run or not (added or done):
            return ManifestUpdate(manifest, added, tuple(left))
        for record in added:
            _keep(taken[record.document_id], raw_path(raw_dir, record))
        if added:
            manifest = write_manifest_to((*manifest.records, *added), manifest_path)
        DeadLetters(state_dir).forget((c.document_id, c.replaces) for c in taken.values())
        for candidate in (*taken.values(), *done, *(c for c, _ in left if c.document_id in taken)):
            candidate.path.with_suffix(".json").unlink(missing_ok=True)
            candidate.path.unlink(missing_ok=True)
    return ManifestUpdate(manifest, added, tuple(left))


@contextmanager
def manifest_lock(manifest_path: Path) -> Iterator[None]:
    """The lock under which a manifest is read, changed and written.

    Raises:
        ManifestError: the folder cannot be written, as where an installed package carries the manifest.
    """
    lock = FileLock(manifest_path.with_name(f".{manifest_path.name}.lock"), timeout=60)
    try:
        lock.acquire()
    except (OSError, TimeoutError) as error:
        raise _unwritable(manifest_path, error) from error
    try:
        yield
    finally:
        lock.release()


def write_manifest_to(records: Iterable[ManifestRecord], path: Path) -> Manifest:
    """`write_manifest` with a refusal by the file system told as the user's problem that it is."""
    try:
        return write_manifest(records, path)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: Exception) -> ManifestError:
    return ManifestError(
        f"The manifest {path} cannot be changed",
        expected="a file and folder that may be written, and no other process that holds its lock",
        found=str(error),
        remedy="copy the manifest to a place of your own and set ZEROTH_MANIFEST to it",
    )


def _successor(record: ManifestRecord, candidate: Candidate) -> ManifestRecord:
    return dataclasses.replace(
        record,
        sha256=candidate.sha256,
        bytes=candidate.bytes,
        supersedes=record.sha256,
        retrieved_at=candidate.retrieved_at,
        altered=None,
    )


def _keep(candidate: Candidate, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(target, candidate.path.read_bytes())
