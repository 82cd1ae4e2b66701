from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from zeroth_assets.artefacts import write_atomic
from zeroth_assets.corpus.additions import Description, add_document
from zeroth_assets.corpus.manifest import ManifestRecord, load_manifest
from zeroth_assets.corpus.raw import raw_path, read_raw
from zeroth_assets.errors import AcquisitionError, ManifestError
from zeroth_assets_tests.corpus import publisher as answers
from zeroth_assets_tests.corpus.fetching import Home, page_of, text_of
from zeroth_assets_tests.corpus.publisher import Publisher


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home", None)


@pytest.fixture
def site() -> Iterator[Publisher]:
    with Publisher() as running:
        yield running


def about(**changes: Any) -> Description:
    given: dict[str, Any] = {"source": "cuad", "licence": "CC0", "tenant_attribute": "License", **changes}
    return Description(**given)


def add(home: Home, location: str | Path, description: Description | None = None, **changes: Any) -> ManifestRecord:
    return add_document(
        str(location),
        description or about(),
        manifest_path=home.folder.parent / "manifest.json",
        raw_dir=home.raw_dir,
        options=home.fetch_options(),
        **changes,
    )


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    path = tmp_path / "ACME_01_02_2020 - LICENSE AGREEMENT (1).txt"
    path.write_bytes(text_of(1))
    return path


def test_a_file_joins_with_bytes_record_and_a_url_that_leads_back_to_it(home: Home, contract: Path) -> None:
    record = add(home, contract)
    manifest = load_manifest(home.folder.parent / "manifest.json")
    assert manifest.records == (record,)
    assert record.document_id == "cuad:acme-01-02-2020-license-agreement-1"
    assert (record.licence, record.tenant_attribute, record.media_type) == ("CC0", "License", "text/plain")
    assert record.url == contract.as_uri()
    assert read_raw(home.raw_dir, record) == text_of(1)
    assert home.acquire(record).counts["intact"] == 1


def test_plain_text_of_ones_own_joins_under_its_own_source(home: Home, contract: Path) -> None:
    record = add(home, contract, about(source="text", identifier="Notes, 2024"))
    assert (record.document_id, record.source, record.identifier) == ("text:notes-2024", "text", "Notes, 2024")


def test_a_file_that_joined_is_read_again_from_where_it_was(home: Home, contract: Path) -> None:
    record = add(home, contract)
    for path in home.raw_dir.rglob("*.txt"):
        path.unlink()
    assert home.acquire(record).counts["fetched"] == 1
    assert home.has(record)


def test_a_url_joins(home: Home, site: Publisher) -> None:
    url = site.serve("/rfc/rfc0099.txt", answers.answer(200, text_of(99)))
    record = add(home, url, about(source="rfc", tenant_attribute="Quic", title="A memo", date="2020-06"))
    assert (record.document_id, record.identifier, record.url, record.title) == ("rfc:99", "99", url, "A memo")


def test_a_filing_joins_with_form_and_period_and_takes_its_title_from_the_page(home: Home, site: Publisher) -> None:
    url = site.serve("/x.htm", answers.answer(200, page_of(1), "text/html"))
    description = about(
        source="sec", tenant_attribute="BA", identifier="0000012927", form="10-K/A", period_end="2003-12-31"
    )
    record = add(home, url, description)
    assert record.document_id == "sec:12927:10-k-a:2003-12-31"
    assert (record.media_type, record.title, record.form) == ("text/html", "form10k", "10-K/A")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"licence": " "}, "licence"),
        ({"tenant_attribute": ""}, "tenant_attribute"),
        ({"source": "rfc"}, "identifier"),
        ({"source": "sec"}, "identifier, form, period_end"),
        ({"source": "arxiv"}, "no source"),
    ],
)
def test_what_is_missing_is_named_before_anything_is_read(home: Home, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ManifestError, match=named):
        add(home, "/nowhere/at all.txt", about(**changes))


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        (b"", "an empty body"),
        (b"%PDF-1.7 x", "a PDF"),
        (b"PK\x03\x04 docx", "a zip file"),
        ("In UTF-16".encode("utf-16"), "binary data"),
        (b"\x01\x02\x03\x04" * 50, "binary data"),
        (b"<html><title>Sign in</title><input type=password></html>", "login page"),
        (b"<html><title>404 Not Found</title><p>sorry</html>", "error page"),
        (b'{"error": 404}', "error message"),
    ],
)
def test_what_is_no_document_does_not_join(home: Home, tmp_path: Path, payload: bytes, found: str) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(payload)
    with pytest.raises(AcquisitionError, match=found):
        add(home, path)
    assert not (tmp_path / "manifest.json").exists()
    assert home.files() == []


@pytest.mark.parametrize(
    ("behaviour", "found"),
    [
        (answers.page(404, "no"), "404"),
        (answers.page(403, "threshold"), "is paused"),
        (answers.redirect("https://example.org/elsewhere"), "another site"),
        (answers.reset_at(text_of(1)), "after 3 attempts"),
        (answers.page(200, "Sign in"), "error page"),
    ],
)
def test_a_url_that_gives_no_document_does_not_join(
    home: Home, site: Publisher, behaviour: answers.Behaviour, found: str
) -> None:
    with pytest.raises(AcquisitionError, match=found):
        add(home, site.serve("/contract.txt", behaviour))
    assert home.files() == []


def test_a_url_at_sec_gov_needs_a_contact(home: Home) -> None:
    with pytest.raises(AcquisitionError, match="ZEROTH_CONTACT"):
        add(home, "https://www.sec.gov/contract.txt")


def test_a_file_that_is_not_there_is_named(home: Home, tmp_path: Path) -> None:
    with pytest.raises(AcquisitionError, match=r"absent\.txt cannot be read"):
        add(home, tmp_path / "absent.txt")


def test_the_same_document_twice_is_refused_and_changes_nothing(home: Home, contract: Path) -> None:
    add(home, contract)
    before = (home.folder.parent / "manifest.json").read_bytes()
    with pytest.raises(ManifestError, match="with these bytes already"):
        add(home, contract)
    assert (home.folder.parent / "manifest.json").read_bytes() == before


def test_other_bytes_under_a_listed_id_join_only_as_a_new_version(home: Home, contract: Path) -> None:
    first = add(home, contract)
    contract.write_bytes(text_of(2))
    with pytest.raises(ManifestError, match="--replace"):
        add(home, contract)
    second = add(home, contract, replace=True)
    assert second.supersedes == first.sha256
    manifest = load_manifest(home.folder.parent / "manifest.json")
    assert (len(manifest), manifest.current()) == (2, (second,))
    assert read_raw(home.raw_dir, first) == text_of(1)


def test_a_bad_date_is_refused_before_any_byte_is_stored(home: Home, contract: Path) -> None:
    with pytest.raises(ManifestError, match="field date"):
        add(home, contract, about(date="June 2020"))
    assert home.files() == []


def test_a_kill_between_bytes_and_manifest_is_completed_by_the_same_call(home: Home, contract: Path) -> None:
    def killed(path: Path, payload: bytes) -> None:
        write_atomic(path, payload)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add(home, contract, write=killed)
    assert not (home.folder.parent / "manifest.json").exists()
    record = add(home, contract)
    assert home.files() == [f"{record.sha256}.txt"]


def test_a_device_a_fifo_and_a_folder_are_refused_without_being_read(home: Home, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.txt"
    os.mkfifo(fifo)
    (tmp_path / "zero.txt").symlink_to("/dev/zero")
    for path, kind in ((fifo, "a FIFO"), (tmp_path / "zero.txt", "a device"), (tmp_path, "a folder")):
        with pytest.raises(AcquisitionError, match=kind):
            add(home, path)


def test_what_is_added_is_for_the_owner_alone(home: Home, contract: Path) -> None:
    record = add(home, contract)
    assert stat.S_IMODE(raw_path(home.raw_dir, record).stat().st_mode) == 0o600
    assert stat.S_IMODE(home.raw_dir.stat().st_mode) == 0o700
