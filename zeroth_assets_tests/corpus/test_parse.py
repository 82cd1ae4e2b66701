from __future__ import annotations

import dataclasses
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import polars as pl
import pytest

from zeroth_assets.corpus import parse
from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.corpus.model import documents_to_frame
from zeroth_assets.corpus.parse import PARSER_VERSION, ParseReport, parse_document, parse_source
from zeroth_assets.corpus.rfc import parse_rfc
from zeroth_assets.errors import AcquisitionError, ParseError

RFC_TEXT = b"Title\n\n1.  Introduction\n\n   Text.\n\n2.  Security\n\n   None.\n"


def record(number: int, source: str = "rfc") -> ManifestRecord:
    return ManifestRecord(
        document_id=f"{source}:{number:04d}",
        source=source,
        identifier=str(number),
        title=f"Document {number}",
        sha256=f"{number:064x}",
        bytes=len(RFC_TEXT),
        media_type="text/plain",
        licence="test",
        tenant_attribute="test",
    )


def read(_: ManifestRecord) -> bytes:
    return RFC_TEXT


def frame(report: ParseReport) -> pl.DataFrame:
    return documents_to_frame(list(report.documents))


@pytest.mark.parametrize(
    ("source", "raw"),
    [
        ("rfc", RFC_TEXT),
        ("cuad", b"1. Term. One year.\n\n2. Notices. In writing.\n"),
        ("text", b"A title\n\nSome words.\r\n"),
        ("sec", b"<html><body><p>Item 1. Business</p><p>We make things.</p></body></html>"),
    ],
)
def test_each_source_has_its_parser_and_the_record_names_the_document(source: str, raw: bytes) -> None:
    document = parse_document(record(7, source), raw)
    assert (document.document_id, document.version, document.source) == (f"{source}:0007", f"{7:064x}", source)
    assert document.parser_version == PARSER_VERSION[source]
    assert list(document.blocks) == sorted(document.blocks, key=lambda b: (b.start, -b.end))


def test_an_unknown_source_is_refused_with_the_sources_that_there_are() -> None:
    with pytest.raises(ParseError, match="cuad, rfc, sec, text"):
        parse_document(record(1, "gopher"), RFC_TEXT)


@pytest.mark.parametrize("raw", [b"", b" \n\t\n", b"\xef\xbb\xbf"])
def test_a_document_without_text_is_an_error_that_names_it(raw: bytes) -> None:
    with pytest.raises(ParseError, match="rfc:0001 holds no text"):
        parse_document(record(1), raw)


def test_one_new_document_parses_one_document() -> None:
    first = parse_source([record(n) for n in range(5)], read)
    again = parse_source([record(n) for n in range(6)], read, frame(first))
    assert (first.parsed, first.reused) == (5, 0)
    assert (again.parsed, again.reused) == (1, 5)
    assert again.documents[:5] == first.documents


def test_another_version_another_parser_or_another_title_is_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    previous = frame(parse_source([record(1), record(2)], read))
    changed = dataclasses.replace(record(1), sha256="f" * 64)
    renamed = dataclasses.replace(record(2), title="Renamed")
    assert parse_source([changed, record(2)], read, previous).reused == 1
    assert parse_source([record(1), renamed], read, previous).reused == 1
    monkeypatch.setitem(parse.PARSER_VERSION, "rfc", "rfc-0")
    assert parse_source([record(1), record(2)], read, previous).reused == 0


def test_a_document_that_fails_stops_no_other_and_is_reported_with_its_reason() -> None:
    def reader(wanted: ManifestRecord) -> bytes:
        if wanted.identifier == "2":
            raise AcquisitionError("The raw file of rfc:0002 is not there")
        return b"" if wanted.identifier == "3" else RFC_TEXT

    report = parse_source([record(n) for n in range(1, 6)], reader)
    assert [d.document_id for d in report.documents] == ["rfc:0001", "rfc:0004", "rfc:0005"]
    assert [(f.document_id, f.reason) for f in report.failed] == [
        ("rfc:0002", "AcquisitionError"),
        ("rfc:0003", "ParseError"),
    ]
    assert "not there" in report.failed[0].detail


def test_a_fault_inside_a_parser_costs_one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(document_id: str, version: str, title: str, raw: bytes) -> object:
        if document_id == "rfc:0002":
            raise RecursionError("too deep")
        return parse_rfc(document_id, version, title, raw)

    monkeypatch.setattr(parse, "parse_rfc", faulty)
    report = parse_source([record(n) for n in range(1, 4)], read)
    assert [(f.document_id, f.reason) for f in report.failed] == [("rfc:0002", "RecursionError")]
    assert len(report.documents) == 2


def test_progress_ends_at_the_total_and_counts_reused_and_failed_ones() -> None:
    previous = frame(parse_source([record(1)], read))
    calls: list[tuple[int, int]] = []
    parse_source(
        [record(1), record(2), record(3)],
        lambda r: b"" if r.identifier == "3" else RFC_TEXT,
        previous,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert calls == [(1, 3), (2, 3), (3, 3)]


def test_two_processes_give_what_one_gives() -> None:
    records = [record(n) for n in range(20)]

    def reader(wanted: ManifestRecord) -> bytes:
        return b"" if wanted.identifier == "9" else RFC_TEXT

    assert parse_source(records, reader, workers=2) == parse_source(records, reader)


@pytest.mark.parametrize("error", [OSError("no more processes"), BrokenProcessPool("a worker was killed")])
def test_where_processes_fail_the_rest_is_parsed_here(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    class Broken:
        def __init__(self, **_: object) -> None:
            raise error

    monkeypatch.setattr(parse, "ProcessPoolExecutor", Broken)
    assert parse_source([record(n) for n in range(20)], read, workers=2).parsed == 20


@pytest.mark.mirror
def test_a_sample_of_the_real_documents_parses_in_two_processes(mirror: Path) -> None:
    paths = sorted((mirror / "rfc").glob("rfc[0-9]*.txt"))[:40]
    records = {path: record(n) for n, path in enumerate(paths)}
    by_id = {r.document_id: path for path, r in records.items()}
    report = parse_source(list(records.values()), lambda r: by_id[r.document_id].read_bytes(), workers=2)
    assert report.failed == ()
    assert report.parsed == 40


def test_plain_text_keeps_every_character_and_is_given_no_structure() -> None:
    document = parse_document(record(3, "text"), "Título\n\n1. One\r\n  two \x00".encode())
    assert document.text == "Título\n\n1. One\n  two \ufffd"
    assert (document.sections, document.blocks) == ((), ())
    assert document.pages
    assert not any(page.real for page in document.pages)
