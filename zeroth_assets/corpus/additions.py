"""A user's own documents: from a URL or file to a manifest record whose bytes are on disk.

What belongs here: the checks that a document must pass to join the corpus, and its id.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from zeroth_assets.artefacts import private_folder, write_atomic
from zeroth_assets.corpus.answers import Expected, excerpt, looks_like_html, problem_of
from zeroth_assets.corpus.dead_letters import DeadLetters
from zeroth_assets.corpus.hosts import HostDown, HostPaused, Hosts, when
from zeroth_assets.corpus.http import MAX_DOCUMENT_BYTES, Fetcher, FetchFailure, FetchOptions
from zeroth_assets.corpus.local_files import UnfitFile, read_file
from zeroth_assets.corpus.manifest import Manifest, ManifestRecord, current_versions, dump_manifest, parse_manifest
from zeroth_assets.corpus.manifest_build import sec_document_id, slug_of
from zeroth_assets.corpus.origins import is_web
from zeroth_assets.corpus.raw import raw_path, refusals_of, source_locks, store
from zeroth_assets.corpus.versions import manifest_lock, write_manifest_to
from zeroth_assets.errors import AcquisitionError, ManifestError
from zeroth_assets.settings import SOURCES


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a person says of a document that they add. `licence` and `tenant_attribute` must be given.

    `identifier`: the RFC number, the name of the contract or text, or the filer's CIK or ticker; the first two are read
    from the location's file name where they are not given. `form` and `period_end` belong to filings.
    """

    source: str
    licence: str
    tenant_attribute: str
    tenant_attribute_label: str | None = None
    identifier: str | None = None
    title: str | None = None
    date: str | None = None
    form: str | None = None
    period_end: str | None = None
    accession: str | None = None


def add_document(
    location: str,
    description: Description,
    *,
    manifest_path: Path,
    raw_dir: Path,
    state_dir: Path | None = None,
    options: FetchOptions | None = None,
    replace: bool = False,
    write: Callable[[Path, bytes], None] = write_atomic,
) -> ManifestRecord:
    """Fetch or read a document, check it, store its bytes and append its record to the manifest.

    With `replace`, a document that the manifest lists already gets a new version; the old one stays. The bytes are
    stored first and the manifest written atomically after them: a kill in between leaves the manifest as it was.

    Raises:
        ManifestError: the description is incomplete, or the document or its id is listed already.
        AcquisitionError: the bytes cannot be had, or are not those of a document.
    """
    options = options or FetchOptions()
    state_dir = state_dir or raw_dir.parent
    document_id, identifier = _identity(location, description)
    payload, url, declared = _read(location, state_dir, options)
    media_type = "text/html" if looks_like_html(payload) or _says_html(location, payload) else "text/plain"
    problem = problem_of(payload, Expected(media_type), "" if media_type == "text/html" else declared)
    problem = problem or _undecodable(payload)
    if problem is not None:
        raise AcquisitionError(
            f"{location} is not added", expected="plain text or HTML", found=problem, remedy="name the document itself"
        )
    record = ManifestRecord(
        document_id=document_id,
        source=description.source,
        identifier=identifier,
        title=(description.title or _title(payload, media_type) or identifier).strip(),
        sha256=hashlib.sha256(payload).hexdigest(),
        bytes=len(payload),
        media_type=media_type,
        licence=description.licence.strip(),
        tenant_attribute=description.tenant_attribute.strip(),
        tenant_attribute_label=description.tenant_attribute_label,
        url=url,
        url_kind="publisher" if is_web(url) else None,
        date=description.date,
        form=description.form,
        period_end=description.period_end,
        accession=description.accession,
        retrieved_at=when(options.now()),
    )
    with source_locks(state_dir, [record.source]), manifest_lock(manifest_path):
        manifest = _or_empty(manifest_path)
        record = _linked(record, manifest, replace)
        records = (*manifest.records, record)
        parse_manifest(dump_manifest(records), str(manifest_path))  # refuse before any byte is stored
        with refusals_of(raw_dir):
            private_folder(raw_dir)
        store(raw_path(raw_dir, record), payload, write)
        write_manifest_to(records, manifest_path)
    return record


def _identity(location: str, about: Description) -> tuple[str, str]:
    """(document_id, identifier), from the description and, where it leaves them open, the location's file name."""
    missing = [f for f in ("licence", "tenant_attribute") if not getattr(about, f).strip()]
    if about.source not in SOURCES:
        raise ManifestError(f"{about.source!r} is no source", expected=f"one of {', '.join(SOURCES)}")
    path = urllib.parse.unquote(urllib.parse.urlsplit(location).path) if is_web(location) else location
    stem = Path(path).stem
    identifier = (about.identifier or "").strip()
    if about.source == "rfc":
        match = re.fullmatch(r"(?:rfc)?[ -]?0*([1-9]\d*)", identifier or stem, re.IGNORECASE)
        if match is None:
            missing.append("identifier (the RFC's number)")
        document_id, identifier = (f"rfc:{match[1]}", match[1]) if match else ("", "")
    elif about.source == "sec":
        missing += [f for f in ("identifier", "form", "period_end") if not (getattr(about, f) or "").strip()]
        cik = identifier if identifier.isdigit() else None
        document_id = sec_document_id(cik, identifier, about.form or "", about.period_end or "")
        identifier = about.accession or f"{identifier} {about.form} {about.period_end}"
    else:
        identifier = identifier or stem
        document_id = f"{about.source}:{slug_of(identifier)}"
    if missing:
        raise ManifestError(
            f"{location} is not added",
            expected="a source, licence and tenant attribute, and what the source's ids are made of",
            found=f"nothing for {', '.join(missing)}",
            remedy="give them as options",
        )
    return document_id, identifier


def _read(location: str, state_dir: Path, options: FetchOptions) -> tuple[bytes, str, str]:
    """Bytes, URL and declared content type of a location."""
    if not is_web(location):
        path = Path(location).expanduser().resolve()
        try:
            return read_file(path, MAX_DOCUMENT_BYTES), path.as_uri(), ""
        except UnfitFile as error:
            raise AcquisitionError(
                f"{path} is not added",
                expected=f"a regular file of at most {MAX_DOCUMENT_BYTES} bytes",
                found=str(error),
                remedy="name the document itself",
            ) from error
        except OSError as error:
            raise AcquisitionError(f"{path} cannot be read", found=error.strerror or str(error)) from error
    hosts = Hosts(DeadLetters(state_dir), options.now())
    try:
        with Fetcher(options, hosts) as fetcher:
            payload, fetched = fetcher.fetch_bytes(location, Expected("text/plain", lenient=True))
    except FetchFailure as failure:
        raise AcquisitionError(
            f"{location} is not added", found=failure.cause, remedy="open it in a browser and name what it leads to"
        ) from failure
    except HostPaused as paused:
        raise AcquisitionError(
            f"{location} is not asked for",
            found=f"{paused.pause.host} is paused: {paused.pause.reason}",
            remedy=f"run again after {when(paused.pause.until)}",
        ) from paused
    except HostDown as down:
        raise AcquisitionError(f"{down.host} cannot be reached", found=down.cause, remedy="run again later") from down
    return payload, location, fetched.answer.headers.get("content-type", "")


def _or_empty(path: Path) -> Manifest:
    payload = path.read_bytes() if path.exists() else dump_manifest(())
    return parse_manifest(payload, str(path))


def _linked(record: ManifestRecord, manifest: Manifest, replace: bool) -> ManifestRecord:
    versions = [r for r in manifest if r.document_id == record.document_id]
    if not versions:
        return record
    if any(r.sha256 == record.sha256 for r in versions):
        raise ManifestError(
            f"{record.document_id} is listed with these bytes already",
            found=f"sha256 {record.sha256}",
            remedy="nothing is to be done; another document needs another identifier",
        )
    if not replace:
        raise ManifestError(
            f"{record.document_id} is listed with other bytes",
            expected="a document that the manifest does not list",
            found=f"sha256 {record.sha256[:12]} beside {', '.join(r.sha256[:12] for r in versions)}",
            remedy="add it with `--replace` as a new version, or give it another identifier",
        )
    return dataclasses.replace(record, supersedes=current_versions(versions)[0].sha256)


def _says_html(location: str, payload: bytes) -> bool:
    suffix = os.path.splitext(urllib.parse.urlsplit(location).path)[1].lower()  # noqa: PTH122 - of a URL too
    return suffix in (".htm", ".html") and b"<" in payload[:4096]


def _undecodable(payload: bytes) -> str | None:
    """Text in UTF-16 or noise: control characters that no text has."""
    sample = payload[:65536]
    controls = sum(byte < 32 and byte not in b"\t\n\r\f\x1a\x1b" for byte in sample)
    return f"binary data: {excerpt(sample, 40)}" if controls > len(sample) / 100 else None


def _title(payload: bytes, media_type: str) -> str | None:
    if media_type != "text/html":
        return None
    match = re.search(rb"<title[^>]*>(.*?)</title", payload[:65536], re.IGNORECASE | re.DOTALL)
    return excerpt(match[1], 300) or None if match else None
