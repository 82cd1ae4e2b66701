"""Parsing by source: one document, or all of a source's with reuse of what was parsed before.

What belongs here: which parser reads which source, and the loop over documents in which one failure stops no other.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace

import polars as pl

from zeroth_assets.corpus.cuad import CUAD_PARSER_VERSION, parse_cuad
from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.corpus.model import Document, documents_from_frame
from zeroth_assets.corpus.plain import PLAIN_PARSER_VERSION, parse_plain
from zeroth_assets.corpus.rfc import RFC_PARSER_VERSION, parse_rfc
from zeroth_assets.corpus.sections import validate_document
from zeroth_assets.corpus.tenk import TENK_PARSER_VERSION, parse_tenk
from zeroth_assets.errors import ParseError, ZerothError

PARSER_VERSION: dict[str, str] = {
    "rfc": RFC_PARSER_VERSION,
    "cuad": CUAD_PARSER_VERSION,
    "sec": TENK_PARSER_VERSION,
    "text": PLAIN_PARSER_VERSION,
}

Progress = Callable[[int, int], None]
_IN_FLIGHT_PER_WORKER = 4
_WORTH_A_POOL = 16


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """A document that could not be parsed: `reason` is the error's type, `detail` what it said."""

    document_id: str
    version: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class ParseReport:
    """What a source's documents became. `documents` holds the reused and the newly parsed, by document id."""

    documents: tuple[Document, ...]
    reused: int
    parsed: int
    failed: tuple[ParseFailure, ...]


def parse_document(record: ManifestRecord, raw: bytes) -> Document:
    """Parse one document with its source's parser and check the result against the contracts of `model`.

    Blocks come in order of the text, an outer one before what it holds.

    Raises:
        ParseError: no parser for the source, no text in the bytes, or a range contract broken.
    """
    if record.source == "rfc":
        document = parse_rfc(record.document_id, record.sha256, record.title, raw)
    elif record.source == "cuad":
        document = parse_cuad(record.document_id, record.sha256, record.title, raw)
    elif record.source == "sec":
        document = parse_tenk(record.document_id, record.sha256, record.title, raw, record.media_type)
    elif record.source == "text":
        document = parse_plain(record.document_id, record.sha256, record.title, raw)
    else:
        raise ParseError(
            f"{record.document_id} has a source without a parser",
            expected=f"one of {', '.join(sorted(PARSER_VERSION))}",
            found=record.source,
            remedy="Correct the manifest record",
        )
    if not document.text.strip():
        raise ParseError(
            f"{record.document_id} holds no text",
            expected="a document with words",
            found=f"{len(raw)} bytes, nothing readable in them",
            remedy="Look at the raw file; fetch it again or take the record out of the manifest",
        )
    validate_document(document)
    return replace(document, blocks=tuple(sorted(document.blocks, key=lambda b: (b.start, -b.end))))


def parse_source(
    records: Sequence[ManifestRecord],
    read_raw: Callable[[ManifestRecord], bytes],
    previous: pl.DataFrame | None = None,
    progress: Progress | None = None,
    workers: int = 1,
) -> ParseReport:
    """Parse `records`, taking over from `previous` (`DOCUMENT_SCHEMA`) each row whose id, version and parser agree.

    `read_raw` gives a record's bytes and is called in this process. With `workers` above 1, parsing runs in that many
    spawned processes; if they cannot be started or die, the rest is parsed here. A document that fails, in reading or
    in parsing, is reported in `failed` and stops no other.
    """
    known = _reusable(records, previous)
    pending = [r for r in records if (r.document_id, r.sha256) not in known]
    documents: list[Document] = list(known.values())
    failed: list[ParseFailure] = []
    done = len(known)
    if progress is not None:
        progress(done, len(records))
    for outcome in _outcomes(pending, read_raw, workers):
        if isinstance(outcome, Document):
            documents.append(outcome)
        else:
            failed.append(outcome)
        done += 1
        if progress is not None:
            progress(done, len(records))
    documents.sort(key=lambda d: (d.document_id, d.version))
    return ParseReport(tuple(documents), len(known), len(documents) - len(known), tuple(failed))


def _reusable(records: Sequence[ManifestRecord], previous: pl.DataFrame | None) -> dict[tuple[str, str], Document]:
    if previous is None or previous.is_empty() or not records:
        return {}
    wanted = pl.DataFrame(
        {
            "document_id": [r.document_id for r in records],
            "version": [r.sha256 for r in records],
            "parser_version": [PARSER_VERSION.get(r.source, "") for r in records],
            "wanted_title": [r.title for r in records],
        }
    ).unique()
    rows = previous.join(wanted, on=["document_id", "version", "parser_version"], how="inner")
    rows = rows.filter(pl.col("title") == pl.col("wanted_title")).drop("wanted_title")
    return {(d.document_id, d.version): d for d in documents_from_frame(rows)}


def _outcomes(
    pending: Sequence[ManifestRecord], read_raw: Callable[[ManifestRecord], bytes], workers: int
) -> Iterator[Document | ParseFailure]:
    remaining = list(pending)
    if workers > 1 and len(pending) >= _WORTH_A_POOL:
        try:
            for record, outcome in _in_processes(pending, read_raw, workers):
                remaining.remove(record)
                yield outcome
        except (BrokenProcessPool, OSError):
            pass
    for record in remaining:
        raw = _read(record, read_raw)
        yield raw if isinstance(raw, ParseFailure) else _attempt(record, raw)


def _in_processes(
    pending: Sequence[ManifestRecord], read_raw: Callable[[ManifestRecord], bytes], workers: int
) -> Iterator[tuple[ManifestRecord, Document | ParseFailure]]:
    """Outcomes in the order of `pending`, with few documents in flight so that memory stays bounded."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=workers, mp_context=context) as pool:
        queue: list[tuple[ManifestRecord, object]] = []
        for record in pending:
            raw = _read(record, read_raw)
            queue.append((record, raw if isinstance(raw, ParseFailure) else pool.submit(_attempt, record, raw)))
            if len(queue) >= workers * _IN_FLIGHT_PER_WORKER:
                yield _collect(queue.pop(0))
        while queue:
            yield _collect(queue.pop(0))


def _collect(entry: tuple[ManifestRecord, object]) -> tuple[ManifestRecord, Document | ParseFailure]:
    record, pending = entry
    if isinstance(pending, ParseFailure):
        return record, pending
    return record, pending.result()  # type: ignore[attr-defined]


def _read(record: ManifestRecord, read_raw: Callable[[ManifestRecord], bytes]) -> bytes | ParseFailure:
    try:
        return read_raw(record)
    except (ZerothError, OSError) as error:
        return _failure(record, error)


def _attempt(record: ManifestRecord, raw: bytes) -> Document | ParseFailure:
    """Parse, or say why not. Any exception counts: a parser's fault in one document must not cost the others."""
    try:
        return parse_document(record, raw)
    except Exception as error:
        return _failure(record, error)


def _failure(record: ManifestRecord, error: Exception) -> ParseFailure:
    return ParseFailure(record.document_id, record.sha256, type(error).__name__, str(error) or repr(error))
