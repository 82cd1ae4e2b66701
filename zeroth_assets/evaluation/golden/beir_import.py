"""From a BEIR folder to a corpus that the graph takes: a manifest, a mirror of plain texts, and the set's truth.

What belongs here: writing these three, and the ids that documents get. Nothing is judged or measured.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zeroth_assets.artefacts import write_atomic
from zeroth_assets.corpus.manifest import ManifestRecord, write_manifest
from zeroth_assets.corpus.raw import safe_name
from zeroth_assets.corpus.text import replace_unstorable
from zeroth_assets.evaluation.golden.beir import BeirSet, read_beir
from zeroth_assets.evaluation.golden.imported import (
    FOLDER,
    SET_FILE,
    SOURCE,
    ImportedSet,
    qrels_path,
    read_imported,
)
from zeroth_assets.evaluation.golden.model import GoldenError

MAX_ID = 60
MAX_TITLE = 500
_NOT_IN_AN_ID = re.compile(r"[^a-z0-9.]+")


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What was written: the manifest's path, and counts. `empty` documents have no text and are left out."""

    manifest: Path
    documents: int
    empty: int
    queries: int
    calibration_queries: int
    judgments: int


def import_beir(
    folder: Path,
    out: Path,
    *,
    name: str,
    licence: str,
    split: str = "test",
    calibration: Sequence[str] = (),
    drop_identical_ids: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ImportReport:
    """Write `out/<name>.json`, `out/documents/` and `out/beir/` for the BEIR folder `folder`.

    A document's bytes are its title, a blank line and its text, as UTF-8. `split` names the qrels that figures are of,
    `calibration` those to calibrate on. Everything is read and checked before anything is written. What an earlier
    import wrote is written over.

    Raises:
        GoldenError: as `beir.read_beir`, with file and line; a query lies in two splits; or `out` cannot be written.
    """
    made = read_beir(folder, name=name, split=split)
    ids = document_ids(row.removeprefix(f"{name}:") for row in made.documents["document_id"])
    about = ImportedSet(name, split, tuple(calibration), tuple(_empty(made)), drop_identical_ids)
    payloads = _payloads(made, set(about.empty))
    records = [
        _record(name, identifier, ids[identifier], title, payload, licence)
        for identifier, (title, payload) in payloads.items()
    ]
    golden = read_imported(folder, records, about)  # a refusal comes before the first byte is written
    manifest = out / f"{name}.json"
    try:
        for done, record in enumerate(records, 1):
            path = out / str(record.mirror_path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(payloads[record.identifier][1])  # a torn file shows by the manifest's checksum
            if progress is not None:
                progress(done, len(records))
        _write_truth(folder, out / FOLDER, about)
        write_manifest(records, manifest)
    except OSError as error:
        raise GoldenError(
            f"{out} cannot be written",
            expected="a folder of your own, with room on its disk",
            found=error.strerror or str(error),
        ) from error
    tested = golden.queries["split"] == "test"
    return ImportReport(
        manifest, len(records), len(about.empty), int(tested.sum()), int((~tested).sum()), golden.qrels.height
    )


def document_ids(identifiers: Iterable[str]) -> dict[str, str]:
    """An id for each of a set's documents that a manifest takes: lower case, and distinct.

    An id that has that form already stays. Where two would be alike, those that were changed end in a hash of what they
    were.

    >>> document_ids(["MED-10", "4983", "a_b", "a b"])
    {'MED-10': 'med-10', '4983': '4983', 'a_b': 'a-b-648fa9b3', 'a b': 'a-b-c8687a08'}

    Raises:
        GoldenError: two ids are alike even so.
    """
    plain = {identifier: _NOT_IN_AN_ID.sub("-", identifier.lower()).strip("-.") for identifier in identifiers}
    shared = Counter(plain.values())
    ids = {}
    for identifier, slug in plain.items():
        kept = slug
        if (slug != identifier and (shared[slug] > 1 or not slug)) or len(slug) > MAX_ID:
            digest = hashlib.sha256(identifier.encode("utf-8", "surrogatepass")).hexdigest()[:8]
            kept = f"{slug[:MAX_ID].rstrip('-.')}-{digest}".lstrip("-")
        ids[identifier] = kept
    [(most, times), *_] = Counter(ids.values()).most_common(1) or [("", 0)]
    if times > 1:
        alike = sorted(identifier for identifier, kept in ids.items() if kept == most)
        raise GoldenError("Two document ids cannot be told apart", expected="distinct ids", found=", ".join(alike[:3]))
    return ids


def _empty(made: BeirSet) -> list[str]:
    return [
        document.removeprefix(f"{made.name}:")
        for document, text in made.documents.select("document_id", "text").iter_rows()
        if not text.strip()
    ]


def _payloads(made: BeirSet, empty: set[str]) -> dict[str, tuple[str, bytes]]:
    """Title and bytes by the set's own id."""
    return {
        identifier: (title, text.encode())
        for document, title, text in made.documents.select("document_id", "title", "text").iter_rows()
        if (identifier := document.removeprefix(f"{made.name}:")) not in empty
    }


def _record(name: str, identifier: str, slug: str, title: str, payload: bytes, licence: str) -> ManifestRecord:
    document_id = f"{SOURCE}:{name}:{slug}"
    digest = hashlib.sha256(payload).hexdigest()
    return ManifestRecord(
        document_id=document_id,
        source=SOURCE,
        identifier=identifier,
        title=" ".join(replace_unstorable(title)[0].split())[:MAX_TITLE] or identifier,
        sha256=digest,
        bytes=len(payload),
        media_type="text/plain",
        licence=licence,
        tenant_attribute=name,
        mirror_path=f"documents/{digest[:2]}/{safe_name(f'{name}:{slug}')}.txt",
    )


def _write_truth(folder: Path, place: Path, about: ImportedSet) -> None:
    (place / "qrels").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / "queries.jsonl", place / "queries.jsonl")
    for split in (about.reported, *about.calibration):
        shutil.copyfile(qrels_path(folder, split), qrels_path(place, split))
    said: Mapping[str, object] = about.to_json()
    write_atomic(place / SET_FILE, (json.dumps(said, indent=1) + "\n").encode(), mode=0o644)
