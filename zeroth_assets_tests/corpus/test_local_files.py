from __future__ import annotations

import dataclasses
import os
import stat
from pathlib import Path

import pytest

from zeroth_assets.corpus.http import MAX_DOCUMENT_BYTES
from zeroth_assets.corpus.local_files import UnfitFile, read_file
from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets_tests.corpus.fetching import Home, memo, row, text_of

ONE, TWO = memo(1), memo(2)


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """A folder that holds memo 2; what lies at memo 1's path is the test's."""
    (tmp_path / "mirror" / "rfc").mkdir(parents=True)
    (tmp_path / "mirror" / "rfc" / "rfc2.txt").write_bytes(text_of(2))
    return tmp_path / "mirror"


@pytest.fixture
def place(mirror: Path) -> Path:
    return mirror / "rfc" / "rfc1.txt"


@pytest.fixture
def home(tmp_path: Path, mirror: Path) -> Home:
    return Home(tmp_path / "home", str(mirror))


def fails(home: Home, cause: str, record: ManifestRecord = ONE) -> None:
    """This document fails with the cause, in the dead-letter table too, and the other arrives."""
    report = home.acquire(record, TWO)
    failed = row(report, record)
    assert (failed["status"], row(report, TWO)["status"]) == ("failed", "fetched")
    assert cause in failed["cause"]
    assert failed["next_step"]
    [letter] = home.table.frame().iter_rows(named=True)
    assert (letter["document_id"], letter["cause"]) == (record.document_id, failed["cause"])
    assert not home.has(record)


def test_a_fifo_is_refused_without_waiting_for_a_writer(home: Home, place: Path) -> None:
    os.mkfifo(place)
    fails(home, "is a FIFO")


def test_a_link_to_an_endless_device_is_refused(home: Home, place: Path) -> None:
    place.symlink_to("/dev/zero")
    fails(home, "leads out of")


def test_a_link_out_of_the_mirror_is_refused_even_to_the_right_bytes(home: Home, place: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_bytes(text_of(1))
    place.symlink_to(tmp_path / "outside.txt")
    fails(home, "leads out of")
    assert not list(home.folder.rglob("candidates"))


def test_a_folder_of_the_mirror_that_is_a_link_out_of_it_is_refused(home: Home, mirror: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "rfc1.txt").write_bytes(text_of(1))
    (mirror / "away").symlink_to(tmp_path / "outside")
    fails(home, "leads out of", dataclasses.replace(ONE, mirror_path="away/rfc1.txt"))


def test_a_link_in_a_circle_is_refused(home: Home, place: Path) -> None:
    place.symlink_to(place)
    report = home.acquire(ONE, TWO)
    assert (row(report, ONE)["status"], row(report, TWO)["status"]) == ("failed", "fetched")


def test_a_folder_in_a_documents_place_is_refused(home: Home, place: Path) -> None:
    place.mkdir()
    fails(home, "is a folder")


def test_a_file_over_the_limit_is_refused_before_it_is_read(home: Home, place: Path) -> None:
    with place.open("wb") as sparse:
        sparse.truncate(2**40)
    fails(home, f"{2**40} bytes, more than the {MAX_DOCUMENT_BYTES}")


def test_a_file_that_says_it_is_empty_and_is_not_is_bounded_too() -> None:
    path = Path("/proc/self/environ")
    if not path.exists() or path.stat().st_size:
        pytest.skip("no procfs")
    with pytest.raises(UnfitFile, match="more than the 3 bytes"):
        read_file(path, 3)


def test_a_device_is_refused_where_no_folder_bounds_the_path() -> None:
    with pytest.raises(UnfitFile, match="a device"):
        read_file(Path("/dev/zero"), 10)


def test_links_that_stay_inside_are_followed_and_the_mirror_may_be_one(home: Home, place: Path, tmp_path: Path) -> None:
    (place.parent / "stored.txt").write_bytes(text_of(1))
    place.symlink_to("stored.txt")
    (tmp_path / "link").symlink_to(tmp_path / "mirror")
    home.mirror = str(tmp_path / "link")
    assert home.acquire(ONE, TWO).count("fetched") == 2


@pytest.mark.parametrize("payload", [b"", text_of(1)], ids=["empty", "whole"])
def test_a_length_other_than_the_manifests_is_refused_though_the_checksum_is_right(
    home: Home, place: Path, payload: bytes
) -> None:
    place.write_bytes(payload)
    fails(home, "where its `bytes` says", memo(1, payload, bytes=len(payload) + 1))
    assert "correct `bytes`" in home.table.frame()["next_step"].item()


def test_a_fifo_in_an_archives_place_is_refused(home: Home, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "archive.zip")
    url = (tmp_path / "archive.zip").as_uri()
    fails(home, "no zip file", dataclasses.replace(ONE, mirror_path=None, archive_url=url, archive_member="a.txt"))


def test_what_is_fetched_is_for_the_owner_alone(home: Home, place: Path) -> None:
    place.write_bytes(text_of(7))  # other bytes than the manifest's: a candidate
    home.acquire(ONE, TWO)
    written = [p for p in home.raw_dir.rglob("*") if p.is_file()]
    assert len(written) == 3
    assert {stat.S_IMODE(p.stat().st_mode) for p in (*written, home.table.path)} == {0o600}
    assert stat.S_IMODE(home.raw_dir.stat().st_mode) == 0o700
    assert home.folder.stat().st_mode == place.parent.stat().st_mode
