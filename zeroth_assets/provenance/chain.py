"""The chain behind an artefact, followed through the sidecars.

What belongs here: from an artefact's inputs to their sidecars, and so on, down to the documents; its rendering as text
and as JSON. Nothing here reads a data file but the assignments, which say what a tenant's documents are.

An input is named in a sidecar as `artefact/partition`, as `artefact` where that has no partitions, as
`artefact#selection` where only some of it went in, or by a bare name for what is no artefact: `manifest` (the file) and
`migrations` (the SQL).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import polars as pl

from zeroth_assets.artefacts import ArtefactStore, Sidecar, fingerprint_of
from zeroth_assets.corpus.manifest import Manifest, ManifestRecord
from zeroth_assets.errors import ArtefactError

LinkKind = Literal["artefact", "selection", "manifest", "outside"]
_SHA256 = re.compile(r"^[0-9a-f]{64}$")
_SHOWN_DOCUMENTS = 20


@dataclass(frozen=True, slots=True)
class Link:
    """One thing on the chain: an artefact, a selection of one, the manifest's file, or something outside the store.

    `recorded` is the data version that the link above it was made of, None for the artefact asked about; `in_force` is
    the one there now, None where only reading can tell. `inputs` are the keys of the links below.
    """

    key: str
    kind: LinkKind
    recorded: str | None
    in_force: str | None
    inputs: tuple[str, ...] = ()
    describes: str = ""
    code: str = ""
    code_version: str = ""
    command: str = ""
    commit: str = ""
    created_at: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chain:
    """Everything that an artefact stands on: `links`, the one asked about first, each before what it was made of.

    `documents` are the manifest records at the bottom. `problems` are what the sidecars alone show to be wrong.
    """

    root: str
    links: tuple[Link, ...]
    documents: tuple[ManifestRecord, ...]
    problems: tuple[str, ...]

    def link(self, key: str) -> Link:
        """The link of that key."""
        return next(link for link in self.links if link.key == key)

    def to_json(self) -> dict[str, Any]:
        """The chain as plain values: `root`, `links`, `documents` (id, sha256, origin, licence) and `problems`."""
        return {
            "root": self.root,
            "links": [{k: v for k, v in asdict(link).items() if v not in (None, "", (), {})} for link in self.links],
            "documents": [
                {
                    "document_id": r.document_id,
                    "sha256": r.sha256,
                    "bytes": r.bytes,
                    "origin": r.origin,
                    "licence": r.licence,
                    **({} if r.retrieved_at is None else {"retrieved_at": r.retrieved_at}),
                    **({} if r.altered is None else {"altered": r.altered}),
                }
                for r in self.documents
            ],
            "problems": list(self.problems),
        }

    def to_text(self, documents: int | None = _SHOWN_DOCUMENTS) -> str:
        """The chain for people: a tree, then the documents (at most `documents` of them, all with None)."""
        shown = self.documents if documents is None else self.documents[:documents]
        lines = list(self._tree(self.root, "", set()))
        lines += ["", f"{len(self.documents)} documents:" if self.documents else "No documents below this artefact."]
        lines += [f"  {r.document_id}  sha256 {r.sha256}  {r.origin}" for r in shown]
        if len(shown) < len(self.documents):
            lines.append(f"  and {len(self.documents) - len(shown)} more")
        if self.problems:
            lines += ["", "Problems:", *(f"  {problem}" for problem in self.problems)]
        return "\n".join(lines)

    def _tree(self, key: str, indent: str, seen: set[str]) -> Iterator[str]:
        link = self.link(key)
        version = link.in_force or link.recorded or ""
        again = "  (as above)" if key in seen else ""
        yield f"{indent}{key}  sha256 {version}{again}" if version else f"{indent}{key}{again}"
        if key in seen:
            return
        seen.add(key)
        if link.describes:
            yield f"{indent}    {link.describes}"
        if link.code:
            yield f"{indent}    by {link.code}, version {link.code_version}, commit {link.commit}, {link.created_at}"
            yield f"{indent}    again: {link.command}"
        if link.parameters:
            yield f"{indent}    with {', '.join(f'{name} {value}' for name, value in sorted(link.parameters.items()))}"
        for below in link.inputs:
            yield from self._tree(below, f"{indent}  ", seen)


def trace(store: ArtefactStore, manifest: Manifest, artefact: str, partition: str | None = None) -> Chain:
    """The chain of an artefact, down to the documents that it stands on.

    A tenant's artefact stands on that tenant's documents; any other on all documents of the sources on its chain.

    Raises:
        ArtefactError: the artefact was never published, or one on its chain was withdrawn.
    """
    sidecar = store.require(artefact, partition)
    root = artefact if partition is None else f"{artefact}/{partition}"
    tracer = _Tracer(store, manifest)
    tracer.follow(root, None, sidecar)
    return Chain(root, tuple(tracer.links.values()), tracer.documents(), tuple(tracer.problems))


def sidecar_problems(sidecar: Sidecar) -> tuple[str, ...]:
    """What a sidecar leaves unsaid (a sentence, code, command, commit, inputs with a sha256 each) or says twice over.

    A sidecar that was edited by hand no longer agrees with its own fingerprint.
    """
    found = [] if sidecar.describes.strip() else ["it does not say what the artefact is (describes)"]
    found += [
        f"generated_by has no {name}" for name in ("code", "command", "commit") if not sidecar.generated_by.get(name)
    ]
    if not sidecar.inputs:
        found.append("it names no inputs")
    found += [f"input {k} has no sha256: {v!r}" for k, v in sidecar.inputs.items() if not _SHA256.fullmatch(v)]
    if sidecar.fingerprint != fingerprint_of(sidecar.code_version, sidecar.inputs, sidecar.parameters):
        found.append("its fingerprint is not that of its code version, inputs and parameters")
    return tuple(found)


class _Tracer:
    def __init__(self, store: ArtefactStore, manifest: Manifest) -> None:
        self._store = store
        self._manifest = manifest
        self.links: dict[str, Link] = {}
        self.problems: list[str] = []
        self._tenants: set[str] = set()
        self._missing: dict[str, set[str]] = {}

    def follow(self, key: str, recorded: str | None, sidecar: Sidecar | None = None, above: str = "") -> None:
        """Add the link of `key` and everything below it; `recorded` is what the link `above` it was made of."""
        known = self.links.get(key)
        if known is not None:
            self._compare(key, recorded, known.in_force or known.recorded, above)
            return
        name, _, partition = key.partition("/")
        sidecar = sidecar or (None if "#" in key else self._store.sidecar(name, partition or None))
        if sidecar is not None:
            self._artefact(key, recorded, sidecar, above)
        elif "#" in key:
            self._selection(key, recorded)
        elif key == "manifest":
            self.links[key] = Link(key, "manifest", recorded, self._manifest.sha256, describes="The manifest's file.")
            self._compare(key, recorded, self._manifest.sha256, above)
        elif partition:
            self._store.require(name, partition)
        else:
            self.links[key] = Link(key, "outside", recorded, None)

    def documents(self) -> tuple[ManifestRecord, ...]:
        if self._tenants:
            mine = self._assignments().filter(pl.col("tenant").is_in(sorted(self._tenants)))
            pairs = mine.select("document_id", "version").unique().sort("document_id", "version").iter_rows()
            return tuple(self._manifest.record(*pair) for pair in pairs)
        return tuple(
            record
            for source, missing in sorted(self._missing.items())
            for record in self._manifest.of_source(source)
            if record.sha256 not in missing
        )

    def _artefact(self, key: str, recorded: str | None, sidecar: Sidecar, above: str) -> None:
        self.links[key] = Link(
            key=key,
            kind="artefact",
            recorded=recorded,
            in_force=sidecar.sha256,
            inputs=tuple(sidecar.inputs),
            describes=sidecar.describes,
            code=sidecar.generated_by.get("code", ""),
            code_version=sidecar.code_version,
            command=sidecar.generated_by.get("command", ""),
            commit=sidecar.generated_by.get("commit", ""),
            created_at=sidecar.created_at,
            parameters=sidecar.parameters,
        )
        self.problems += [f"{key}: {problem}" for problem in sidecar_problems(sidecar)]
        self._compare(key, recorded, sidecar.sha256, above)
        if sidecar.artefact == "raw_documents" and sidecar.partition is not None:
            self._missing[sidecar.partition] = set(sidecar.details.get("missing", ()))
        for below, version in sidecar.inputs.items():
            self.follow(below, version, above=key)

    def _selection(self, key: str, recorded: str | None) -> None:
        name, _, selected = key.partition("#")
        inputs: tuple[str, ...] = ()
        describes = f"What {name} holds of {selected}."
        if name == "tenant_assignments":
            self._tenants.add(selected)
            sources = self._assignments().filter(pl.col("tenant") == selected)["source"].unique().sort().to_list()
            inputs = (*(f"parsed_documents/{source}" for source in sources), name)
            describes = f"The documents of tenant {selected}, by id, version, parser and text."
        elif name == "corpus_manifest":
            inputs = ("manifest",)
            describes = f"The manifest's records of source {selected}, by id and checksum."
        self.links[key] = Link(key, "selection", recorded, None, inputs, describes)
        for below in inputs:
            self.follow(below, None, above=key)

    def _compare(self, key: str, recorded: str | None, in_force: str | None, above: str) -> None:
        if recorded is not None and in_force is not None and recorded != in_force:
            self.problems.append(f"{above} was made of {key} {recorded[:16]}, and {in_force[:16]} is in force")

    def _assignments(self) -> pl.DataFrame:
        frame = self._store.read_frame("tenant_assignments", columns=["document_id", "version", "source", "tenant"])
        if frame.is_empty():
            raise ArtefactError("The tenant assignments are empty", remedy="run `zeroth materialize`")
        return frame
