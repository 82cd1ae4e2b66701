from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from zeroth_assets.corpus.raw import raw_path
from zeroth_assets.corpus.verification import verify_raw
from zeroth_assets_tests.corpus.fetching import memo, text_of

RECORDS = [memo(n) for n in range(1, 4)]


@pytest.fixture
def raw_dir(tmp_path: Path) -> Path:
    for number, record in enumerate(RECORDS, start=1):
        path = raw_path(tmp_path, record)
        path.parent.mkdir(parents=True)
        path.write_bytes(text_of(number))
    return tmp_path


def test_whole_files_are_intact_and_every_record_is_read(raw_dir: Path) -> None:
    seen: list[tuple[int, int]] = []
    result = verify_raw(RECORDS, raw_dir, progress=lambda done, total: seen.append((done, total)))
    assert (result.counts, result.intact, result.strays) == ({"intact": 3}, True, ())
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("payload", "state"), [(None, "missing"), (b"short", "size"), (text_of(1)[:-1] + b"?", "checksum")]
)
def test_damage_is_named_by_its_kind(raw_dir: Path, payload: bytes | None, state: str) -> None:
    path = raw_path(raw_dir, RECORDS[0])
    path.unlink()
    if payload is not None:
        path.write_bytes(payload)
    result = verify_raw(RECORDS, raw_dir)
    assert result.documents["state"].to_list() == [state, "intact", "intact"]
    assert not result.intact


def test_a_replaced_version_may_be_missing_but_not_damaged(raw_dir: Path) -> None:
    newer = dataclasses.replace(memo(1, text_of(9)), supersedes=RECORDS[0].sha256)
    raw_path(raw_dir, newer).write_bytes(text_of(9))
    raw_path(raw_dir, RECORDS[0]).unlink()
    assert verify_raw([*RECORDS, newer], raw_dir).intact
    raw_path(raw_dir, RECORDS[0]).write_bytes(b"half")
    assert not verify_raw([*RECORDS, newer], raw_dir).intact


def test_files_that_no_record_names_are_listed_and_left(raw_dir: Path) -> None:
    stray = raw_dir / "rfc/1/unknown.txt"
    stray.write_bytes(b"?")
    assert verify_raw(RECORDS, raw_dir).strays == (stray,)
    assert stray.exists()
