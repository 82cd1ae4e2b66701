"""The manifest: which documents the corpus holds, where their bytes are, and what those bytes must be.

What belongs here: the record, loading with validation (the JSON Schema beside this module, then what a schema cannot
say), writing, and which of a document's versions is current. No fetching.

A document may be listed several times, once per version; a version is the sha256 of its bytes. `supersedes` links a
version to the one that it replaced, so no version is ever overwritten.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from zeroth_assets.artefacts import write_atomic
from zeroth_assets.errors import ManifestError

MAX_PROBLEMS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRecord:
    """One version of one document. Fields as described in `manifest_schema.json`; absent ones are None or empty."""

    document_id: str
    source: str
    identifier: str
    title: str
    sha256: str
    bytes: int
    media_type: str
    licence: str
    tenant_attribute: str
    tenant_attribute_label: str | None = None
    url: str | None = None
    url_kind: str | None = None
    archive_url: str | None = None
    archive_member: str | None = None
    mirror_path: str | None = None
    date: str | None = None
    status: str | None = None
    obsoletes: tuple[str, ...] = ()
    obsoleted_by: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    updated_by: tuple[str, ...] = ()
    form: str | None = None
    accession: str | None = None
    period_end: str | None = None
    altered: str | None = None
    supersedes: str | None = None
    retrieved_at: str | None = None

    @property
    def origin(self) -> str:
        """Where the bytes come from, for people and provenance: the URL, `archive!member`, or `mirror:<path>`."""
        if self.url is not None:
            return self.url
        if self.archive_url is not None:
            return f"{self.archive_url}!{self.archive_member}"
        return f"mirror:{self.mirror_path}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """All records, in the file's order, and the sha256 of the file."""

    records: tuple[ManifestRecord, ...]
    sha256: str

    def __iter__(self) -> Iterator[ManifestRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def of_source(self, source: str) -> tuple[ManifestRecord, ...]:
        """The records of one source, all versions."""
        return tuple(r for r in self.records if r.source == source)

    def current(self) -> tuple[ManifestRecord, ...]:
        """One record per document: the version that no other supersedes."""
        return current_versions(self.records)

    def record(self, document_id: str, version: str | None = None) -> ManifestRecord:
        """The record of a document: of `version`, or of its current one.

        Raises:
            ManifestError: no such document or version.
        """
        candidates = self.records if version is not None else self.current()
        for record in candidates:
            if record.document_id == document_id and version in (None, record.sha256):
                return record
        named = document_id if version is None else f"{document_id} in version {version}"
        raise ManifestError(f"The manifest does not list {named}", remedy="`zeroth corpus verify` lists what is there")


def current_versions(records: Iterable[ManifestRecord]) -> tuple[ManifestRecord, ...]:
    """Those of `records` that no other of the same document supersedes, in the given order."""
    listed = tuple(records)
    superseded = {(r.document_id, r.supersedes) for r in listed if r.supersedes is not None}
    return tuple(r for r in listed if (r.document_id, r.sha256) not in superseded)


def load_manifest(path: Path) -> Manifest:
    """Read and validate a manifest.

    Raises:
        ManifestError: the file is missing or breaks a rule. Every problem is listed with its record and field, up to
            `MAX_PROBLEMS`.
    """
    try:
        payload = path.read_bytes()
    except OSError as error:
        raise ManifestError(
            f"The manifest {path} cannot be read",
            found=error.strerror or str(error),
            remedy="set ZEROTH_MANIFEST to a manifest file, `sample` or `published`",
        ) from error
    return parse_manifest(payload, str(path))


def parse_manifest(payload: bytes, name: str) -> Manifest:
    """A manifest from its bytes; `name` is what errors call it. Raises as `load_manifest`."""
    try:
        content = json.loads(payload.decode("utf-8"), object_pairs_hook=_refuse_twins)
    except ValueError as error:
        raise ManifestError(
            f"The manifest {name} is not JSON",
            expected="one JSON object",
            found=str(error),
            remedy="mend it at that place, or take the file from your version control",
        ) from error
    problems = [_described(error, content) for error in _validator().iter_errors(content)]
    records: tuple[ManifestRecord, ...] = ()
    if not problems:
        records = tuple(record_from_json(item) for item in content["records"])
        problems = list(_semantic_problems(records))
    if problems:
        raise _refusal(name, problems)
    return Manifest(records, hashlib.sha256(payload).hexdigest())


def dump_manifest(records: Iterable[ManifestRecord]) -> bytes:
    """The file for `records`: sorted by id and then as given, keys sorted, one field a line, absent fields left out."""
    blocks = []
    for record in sorted(records, key=lambda r: _natural(r.document_id)):
        lines = [f'  "{key}": {json.dumps(value, ensure_ascii=False)}' for key, value in record_to_json(record).items()]
        blocks.append(" {\n" + ",\n".join(lines) + "\n }")
    body = "[\n" + ",\n".join(blocks) + "\n]" if blocks else "[]"
    return f'{{\n"schema": 1,\n"records": {body}\n}}\n'.encode()


def write_manifest(records: Iterable[ManifestRecord], path: Path) -> Manifest:
    """Validate and write a manifest atomically. Raises as `load_manifest`; an invalid one leaves the file alone."""
    payload = dump_manifest(records)
    manifest = parse_manifest(payload, str(path))
    write_atomic(path, payload, mode=0o644)  # a list of public documents, and part of the package for the sample
    return manifest


def record_from_json(item: Mapping[str, Any]) -> ManifestRecord:
    """A record from a validated JSON object."""
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in item.items()}
    return ManifestRecord(**values)


def record_to_json(record: ManifestRecord) -> dict[str, Any]:
    """The JSON object of a record, keys sorted, absent fields left out."""
    values = dataclasses.asdict(record)
    return {key: list(v) if isinstance(v, tuple) else v for key, v in sorted(values.items()) if v not in (None, ())}


@functools.cache
def _validator() -> Draft202012Validator:
    text = resources.files("zeroth_assets.corpus").joinpath("manifest_schema.json").read_text(encoding="utf-8")
    return Draft202012Validator(json.loads(text))


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON lets a key come twice and the last one win: a merge accident that must not pass in silence."""
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        twins = sorted({key for key in keys if keys.count(key) > 1})
        raise ValueError(f"a JSON object names {', '.join(twins)} twice: {json.dumps(dict(pairs))[:200]}")
    return dict(pairs)


def _described(error: ValidationError, content: Any) -> str:
    path = list(error.absolute_path)
    message = error.message if len(error.message) <= 200 else f"{error.message[:197]}..."
    if len(path) < 2 or path[0] != "records":
        return f"{'.'.join(str(p) for p in path) or 'top level'}: {message}"
    if error.validator == "anyOf" and len(path) == 2:
        message = "none of url, archive_url and mirror_path is given: nothing says where the bytes are"
    if error.validator == "pattern":
        message = f"{error.instance!r} does not have the form {error.validator_value}"
    item = content["records"][path[1]]
    return _label(int(path[1]), item.get("document_id") if isinstance(item, dict) else None, path[2:], message)


def _label(index: int, document_id: object, field: Iterable[str | int], message: str) -> str:
    where = ".".join(str(p) for p in field)
    return f"record {index} ({document_id or 'no document_id'}){f', field {where}' if where else ''}: {message}"


def _semantic_problems(records: tuple[ManifestRecord, ...]) -> Iterator[str]:
    seen: dict[tuple[str, str], int] = {}
    accessions: dict[str, str | None] = {}
    superseded: dict[tuple[str, str | None], int] = {}
    versions = {(r.document_id, r.sha256) for r in records}
    current: dict[str, int] = {}
    for record in current_versions(records):
        current[record.document_id] = current.get(record.document_id, 0) + 1
    for index, record in enumerate(records):
        label = functools.partial(_label, index, record.document_id)
        if not record.document_id.startswith(f"{record.source}:"):
            yield label(["source"], f"{record.source!r} is not the source that the document_id names")
        key = (record.document_id, record.sha256)
        if key in seen:
            yield label(["sha256"], f"the same version stands in record {seen[key]} already")
        seen.setdefault(key, index)
        for field in ("date", "period_end", "retrieved_at"):
            value = getattr(record, field)
            if value is not None and not _is_calendar_date(value[:10]):
                yield label([field], f"{value!r} is not a date of the calendar")
        for field in ("mirror_path", "archive_member"):
            value = getattr(record, field)
            if value is not None and any(part in ("", ".", "..") for part in value.split("/")):
                yield label([field], f"{value!r} must be a plain relative path, without '.' or '..'")
        if accessions.setdefault(record.document_id, record.accession) != record.accession:
            yield label(["accession"], f"{record.accession} is another filing than {accessions[record.document_id]}")
        if record.supersedes is not None:
            if record.supersedes == record.sha256 or (record.document_id, record.supersedes) not in versions:
                yield label(["supersedes"], f"{record.supersedes} is not another listed version of the document")
            link = (record.document_id, record.supersedes)
            if link in superseded:
                yield label(["supersedes"], f"record {superseded[link]} supersedes the same version")
            superseded.setdefault(link, index)
        if current.get(record.document_id, 0) != 1:
            yield label(["supersedes"], "the document's versions must form one chain, so that one of them is current")


def _is_calendar_date(value: str) -> bool:
    try:
        date.fromisoformat(value + "-01-01"[len(value) - 4 :] if len(value) in (4, 7) else value)
    except ValueError:
        return False
    return True


def _natural(document_id: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that puts rfc:793 before rfc:1034."""
    return tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in document_id.split(":"))


def _refusal(name: str, problems: list[str]) -> ManifestError:
    listed = problems[:MAX_PROBLEMS]
    more = f"\n  and {len(problems) - len(listed)} more" if len(problems) > len(listed) else ""
    return ManifestError(
        f"The manifest {name} is refused: {len(problems)} problem{'s' if len(problems) > 1 else ''}",
        expected="what zeroth_assets/corpus/manifest_schema.json describes",
        found="".join(f"\n  {p}" for p in listed) + more,
        remedy="correct the records named",
    )
