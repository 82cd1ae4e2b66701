from __future__ import annotations

import errno
from pathlib import Path

import pytest

from zeroth_assets.corpus.manifest import load_manifest
from zeroth_assets.corpus.raw import raw_path, read_raw, safe_name, store
from zeroth_assets.errors import AcquisitionError
from zeroth_assets.settings import project_file
from zeroth_assets_tests.corpus.fetching import memo, text_of


def test_names_of_the_whole_corpus_suit_any_file_system(tmp_path: Path) -> None:
    manifest = load_manifest(project_file("corpus_manifest.json"))
    paths = [raw_path(Path("raw"), record) for record in manifest]
    assert len({str(p).lower() for p in paths}) == len(paths)
    for path in paths:
        for part in path.parts:
            assert part.isascii()
            assert len(part) <= 100
            assert not set(part) & set('<>:"/\\|?* ')
            assert not part.endswith(".")


def test_different_ids_never_share_a_folder() -> None:
    ids = ["1:10-k:2020", "1-10-k-2020", "1.10-k.2020", "con", "nul.txt"]
    names = [safe_name(i) for i in ids]
    assert len(set(names)) == len(ids)
    assert names[3:] == ["con_", "nul.txt_"]


def test_damaged_and_missing_bytes_are_never_handed_out(tmp_path: Path) -> None:
    with pytest.raises(AcquisitionError, match=r"not there.*raw_documents --partition rfc"):
        read_raw(tmp_path, memo(1))
    path = raw_path(tmp_path, memo(1))
    path.parent.mkdir(parents=True)
    path.write_bytes(text_of(2))
    with pytest.raises(AcquisitionError, match="damaged"):
        read_raw(tmp_path, memo(1))
    path.write_bytes(text_of(1))
    assert read_raw(tmp_path, memo(1)) == text_of(1)


def test_an_error_of_the_disk_is_told_apart_from_one_of_the_file(tmp_path: Path) -> None:
    def full(path: Path, payload: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def odd(path: Path, payload: bytes) -> None:
        raise OSError(errno.ENAMETOOLONG, "File name too long")

    with pytest.raises(AcquisitionError, match="No space left"):
        store(tmp_path / "a/b", b"x", full)
    with pytest.raises(OSError, match="File name too long"):
        store(tmp_path / "a/b", b"x", odd)
