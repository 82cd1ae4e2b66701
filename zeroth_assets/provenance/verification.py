"""Verification: does every file on a chain still hold what was recorded of it?

What belongs here: reading again, from the publishers' bytes up. The first thing that does not agree is named and
ends it. What stands in the database is not read; `zeroth db` checks that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.corpus.manifest import Manifest, ManifestRecord, load_manifest
from zeroth_assets.corpus.model import text_digest
from zeroth_assets.corpus.raw import raw_path, read_raw
from zeroth_assets.errors import AcquisitionError, ArtefactError, ManifestError
from zeroth_assets.provenance.chain import Chain, Link
from zeroth_assets.provenance.digests import documents_digest, manifest_digest

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Verified:
    """What was read and found as recorded. `unread` are inputs outside the store that this could not check."""

    artefacts: int
    documents: int
    bytes: int
    chunks: int
    unread: tuple[str, ...]


def verify(
    chain: Chain,
    store: ArtefactStore,
    manifest: Manifest,
    raw_dir: Path,
    *,
    manifest_path: Path | None = None,
    outside: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Verified:
    """Read every file along a chain again, the documents first, the artefact asked about last.

    Documents against the manifest's checksums, artefacts against their sidecars, selections against their digests, and
    each chunk against the canonical text at its offsets. `manifest_path` has the manifest's file read again; `outside`
    gives what a bare input such as `migrations` is now.

    Raises:
        ArtefactError: the first thing that does not agree, by name.
    """
    if chain.problems:
        raise ArtefactError(
            f"The chain of {chain.root} is broken: {chain.problems[0]}",
            expected="each artefact made of what is in force, and saying so in full",
            remedy="run `zeroth materialize`, which makes anew what is stale",
        )
    _verify_manifest(manifest, manifest_path)
    size = sum(_verify_document(chain.root, raw_dir, record) for record in _counted(chain, progress))
    texts = _Texts(store)
    chunks = artefacts = 0
    unread: list[str] = []
    for link in reversed(chain.links):
        if link.kind == "selection":
            _verify_selection(link, store, manifest, texts)
        elif link.kind == "outside":
            unread += _verify_outside(link, outside or {})
        elif link.kind == "artefact":
            artefacts += 1
            chunks += _verify_artefact(link, store, texts)
    return Verified(artefacts, len(chain.documents), size, chunks, tuple(unread))


class _Texts:
    """Canonical texts by document version, read once per source (each read checks the file's sha256)."""

    def __init__(self, store: ArtefactStore) -> None:
        self._store = store
        self._known: dict[tuple[str, str], tuple[str, str]] = {}
        self._sources: set[str] = set()

    def of(self, document_id: str, version: str) -> tuple[str, str] | None:
        """(text, parser version) of a document version, or None where it is not among the parsed."""
        source = document_id.partition(":")[0]
        if source not in self._sources:
            columns = ["document_id", "version", "text", "parser_version"]
            for row in self._store.read_frame("parsed_documents", source, columns=columns).iter_rows():
                self._known[row[0], row[1]] = (row[2], row[3])
            self._sources.add(source)
        return self._known.get((document_id, version))


def _counted(chain: Chain, progress: Progress | None) -> Iterable[ManifestRecord]:
    for done, record in enumerate(chain.documents, start=1):
        yield record
        if progress is not None:
            progress(done, len(chain.documents))


def _verify_manifest(manifest: Manifest, path: Path | None) -> None:
    if path is None:
        return
    try:
        found = load_manifest(path).sha256
    except ManifestError as error:
        raise ArtefactError("The manifest at the bottom of the chain cannot be read", found=str(error)) from error
    if found != manifest.sha256:
        raise _mismatch("manifest", manifest.sha256, found, str(path))


def _verify_document(root: str, raw_dir: Path, record: ManifestRecord) -> int:
    try:
        return len(read_raw(raw_dir, record))
    except (AcquisitionError, OSError) as error:
        raise ArtefactError(
            f"{root} stands on {record.document_id}, whose bytes are not those of {record.origin}",
            expected=f"sha256 {record.sha256} in {raw_path(raw_dir, record)}",
            found=getattr(error, "found", "") or str(error),
            remedy=f"run `zeroth materialize --asset raw_documents --partition {record.source}`, which fetches it",
        ) from error


def _verify_artefact(link: Link, store: ArtefactStore, texts: _Texts) -> int:
    """Read an artefact again; returns how many chunks were compared with their documents."""
    name, _, partition = link.key.partition("/")
    store.read_bytes(name, partition or None)
    found = store.require(name, partition or None).sha256
    if found != link.in_force:
        raise _mismatch(link.key, str(link.in_force), found, "its sidecar, which changed meanwhile")
    if not name.startswith("chunks_"):
        return 0
    columns = ["document_id", "document_version", "ordinal", "char_start", "char_end", "text"]
    frame = store.read_frame(name, partition or None, columns=columns)
    for document_id, version, ordinal, start, end, text in frame.iter_rows():
        parsed = texts.of(document_id, version)
        if parsed is None or parsed[0][start:end] != text:
            raise ArtefactError(
                f"Chunk {ordinal} of {document_id} in {link.key} is not in the canonical text",
                expected=f"the characters {start} to {end} of version {version[:16]}",
                found="no such version among the parsed documents" if parsed is None else "another text at that place",
                remedy=f"run `{link.command}`",
            )
    return frame.height


def _verify_selection(link: Link, store: ArtefactStore, manifest: Manifest, texts: _Texts) -> None:
    name, _, selected = link.key.partition("#")
    if name == "corpus_manifest":
        found = manifest_digest(manifest, selected)
    elif name == "tenant_assignments":
        found = documents_digest(_documents_of(selected, store, texts))
    else:
        raise ArtefactError(f"Nothing is known of the selection {link.key}", remedy="use the version that wrote it")
    if link.recorded is not None and found != link.recorded:
        raise _mismatch(link.key, link.recorded, found, "what is in force")


def _documents_of(tenant: str, store: ArtefactStore, texts: _Texts) -> Iterable[tuple[str, str, str, str | None]]:
    mine = store.read_frame("tenant_assignments").filter(pl.col("tenant") == tenant)
    for row in mine.iter_rows(named=True):
        parsed = texts.of(row["document_id"], row["version"])
        if parsed is None:
            raise ArtefactError(
                f"{row['document_id']} of tenant {tenant} is not among the parsed documents",
                expected=f"version {row['version'][:16]}",
                remedy=f"run `zeroth materialize --asset parsed_documents --partition {row['source']}`",
            )
        text, parser_version = parsed
        digest = None if row.get("text_sha256") is None else text_digest(text)
        yield row["document_id"], row["version"], parser_version, digest


def _verify_outside(link: Link, outside: Mapping[str, str]) -> list[str]:
    if link.key not in outside:
        return [link.key]
    if link.recorded is not None and outside[link.key] != link.recorded:
        raise _mismatch(link.key, link.recorded, outside[link.key], "what is there now")
    return []


def _mismatch(key: str, expected: str, found: str, where: str) -> ArtefactError:
    return ArtefactError(
        f"{key} is not what the chain was made of",
        expected=f"sha256 {expected}",
        found=f"sha256 {found} in {where}",
        remedy="run `zeroth materialize`, which makes anew what is stale",
    )
