from __future__ import annotations

import dataclasses
import io
import unicodedata
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from zeroth_assets.corpus.acquisition import retry_dead
from zeroth_assets.corpus.archives import Archive, BadMember, archive_path, is_archive
from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets_tests.corpus import publisher as answers
from zeroth_assets_tests.corpus.fetching import Home, memo, row, text_of
from zeroth_assets_tests.corpus.publisher import Publisher

FOLDER = "CUAD_v1/full_contract_txt"


def contract(number: int, url: str, payload: bytes | None = None) -> ManifestRecord:
    return dataclasses.replace(
        memo(number, payload),
        document_id=f"cuad:contract-{number}",
        source="cuad",
        mirror_path=None,
        archive_url=url,
        archive_member=f"{FOLDER}/Contract {number}.txt",
    )


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, payload in members.items():
            archive.writestr(name, payload)
    return buffer.getvalue()


def good(count: int = 5) -> dict[str, bytes]:
    return {f"{FOLDER}/Contract {n}.txt": text_of(n) for n in range(1, count + 1)}


@pytest.fixture
def site() -> Iterator[Publisher]:
    with Publisher() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home", None)


def test_the_archive_is_fetched_once_kept_and_not_asked_for_again(home: Home, site: Publisher) -> None:
    url = site.serve("/CUAD_v1.zip", answers.answer(200, zipped(good()), "application/zip"))
    records = [contract(n, url) for n in range(1, 6)]
    report = home.acquire(*records[:3])
    assert (report.count("fetched"), report.requests) == (3, 1)
    assert is_archive(archive_path(home.raw_dir, url))
    assert row(report, records[0])["origin"] == f"{url}!{FOLDER}/Contract 1.txt"
    rest = home.acquire(*records)
    assert (rest.counts["intact"], rest.counts["fetched"], rest.requests) == (3, 2, 0)


def test_an_archive_that_is_cut_is_fetched_again_and_leaves_no_half_file(home: Home, site: Publisher) -> None:
    payload = zipped(good())
    url = site.serve("/CUAD_v1.zip", answers.answer(200, payload[: len(payload) // 2], "application/zip"))
    report = home.acquire(contract(1, url), contract(2, url))
    assert report.counts["failed"] == 2
    assert "one without its end" in row(report, contract(1, url))["cause"]
    assert home.files() == []
    site.serve("/CUAD_v1.zip", answers.reset_at(payload), answers.answer(200, payload, "application/zip"))
    assert home.acquire(contract(1, url), contract(2, url)).counts["fetched"] == 2


def test_a_page_in_place_of_the_archive_is_told(home: Home, site: Publisher) -> None:
    url = site.serve("/CUAD_v1.zip", answers.page(200, "Record not found"))
    report = home.acquire(contract(1, url))
    assert "no zip file: Record not found" in row(report, contract(1, url))["cause"]


def test_a_pause_at_the_archive_leaves_its_members_pending(home: Home, site: Publisher) -> None:
    url = site.serve("/CUAD_v1.zip", answers.page(403, "Rate limit"))
    report = home.acquire(contract(1, url), contract(2, url))
    assert (report.counts["pending"], report.requests, len(report.pauses)) == (2, 1, 1)


def test_one_member_that_is_missing_does_not_stop_the_others(home: Home, site: Publisher) -> None:
    members = good()
    del members[f"{FOLDER}/Contract 2.txt"]
    url = site.serve("/CUAD_v1.zip", answers.answer(200, zipped(members), "application/zip"))
    report = home.acquire(*(contract(n, url) for n in range(1, 6)))
    assert report.counts["fetched"] == 4
    assert "no member" in row(report, contract(2, url))["cause"]
    site.serve("/CUAD_v1.zip", answers.answer(200, zipped(good()), "application/zip"))
    records = [contract(n, url) for n in range(1, 6)]
    retried = retry_dead(records, raw_dir=home.raw_dir, options=home.fetch_options())
    assert (retried.counts["fetched"], retried.requests) == (1, 1)


def test_no_member_name_leads_out_of_the_raw_folder(home: Home, site: Publisher) -> None:
    evil = {"../../../evil.txt": b"x", "/abs.txt": b"x", **good()}
    url = site.serve("/CUAD_v1.zip", answers.answer(200, zipped(evil), "application/zip"))
    record = dataclasses.replace(contract(1, url, b"x"), archive_member="../../../evil.txt")
    assert home.acquire(record).counts["fetched"] == 1
    outside = [p for p in home.folder.parent.rglob("*.txt") if home.raw_dir not in p.parents]
    assert outside == []


def test_a_member_with_other_bytes_becomes_a_candidate(home: Home, site: Publisher) -> None:
    url = site.serve("/CUAD_v1.zip", answers.answer(200, zipped(good()), "application/zip"))
    record = contract(1, url, b"what the manifest names, and the archive does not hold")
    assert "other bytes than the manifest's" in row(home.acquire(record), record)["cause"]


def test_a_local_archive_serves_too(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "My archive.zip"
    path.write_bytes(zipped(good()))
    report = home.acquire(contract(1, path.as_uri()), contract(2, (tmp_path / "absent.zip").as_uri()))
    assert (report.counts["fetched"], report.counts["failed"]) == (1, 1)


def test_a_member_that_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    path.write_bytes(zipped({"bomb.txt": b"0" * 5_000_000}))
    with pytest.raises(BadMember, match="more than 1000000 bytes"):
        Archive(path).read("bomb.txt", limit=1_000_000)


def test_a_damaged_member_is_told_by_its_crc(tmp_path: Path) -> None:
    path = tmp_path / "damaged.zip"
    payload = bytearray(zipped({"a.txt": text_of(1)}))
    payload[80] ^= 0xFF
    path.write_bytes(payload)
    with pytest.raises(BadMember, match="cannot be unpacked"):
        Archive(path).read("a.txt")


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_an_accent_is_found_however_it_was_composed(tmp_path: Path, form: Literal["NFC", "NFD"]) -> None:
    path = tmp_path / "accents.zip"
    path.write_bytes(zipped({unicodedata.normalize("NFD", "LECLANCHÉ.txt"): b"text"}))
    assert Archive(path).read(unicodedata.normalize(form, "LECLANCHÉ.txt")) == b"text"


def test_a_utf8_name_that_the_archive_did_not_mark_as_such_is_found(tmp_path: Path) -> None:
    path = tmp_path / "unmarked.zip"
    path.write_bytes(_unmarked("LECLANCHÉ.txt".encode(), b"text"))
    assert Archive(path).read("LECLANCHÉ.txt") == b"text"


def _unmarked(name: bytes, payload: bytes) -> bytes:
    """A zip file whose one stored member has `name` without the flag that says UTF-8."""
    plain = zipped({"x" * len(name): payload})
    return plain.replace(b"x" * len(name), name)
