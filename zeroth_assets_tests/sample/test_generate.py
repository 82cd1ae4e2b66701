from __future__ import annotations

import hashlib
from pathlib import Path

from zeroth_assets.corpus.manifest import Manifest
from zeroth_assets.sample.generate import generate, main
from zeroth_assets.settings import read_settings
from zeroth_assets_tests.sample.conftest import SAMPLE


def _files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_the_generator_rewrites_the_committed_files_byte_for_byte(tmp_path: Path) -> None:
    generate(tmp_path)
    assert _files(tmp_path / "documents") == _files(SAMPLE / "documents")
    for name in ("corpus_manifest.json", "facts.json"):
        assert (tmp_path / name).read_bytes() == (SAMPLE / name).read_bytes(), name


def test_a_document_that_no_longer_belongs_is_removed(tmp_path: Path) -> None:
    stray = tmp_path / "documents" / "rfc" / "rfc1.txt"
    stray.parent.mkdir(parents=True)
    stray.write_text("stray")
    assert main([str(tmp_path)]) == 0
    assert not stray.exists()


def test_the_manifest_lists_every_file_and_nothing_else(sample: Manifest, raw: dict[str, bytes]) -> None:
    assert {r.mirror_path for r in sample} == set(_files(SAMPLE / "documents"))
    for record in sample:
        content = raw[record.document_id]
        assert (record.sha256, record.bytes) == (hashlib.sha256(content).hexdigest(), len(content))
        assert "CC0" in record.licence


def test_the_settings_find_the_sample_by_default(sample: Manifest) -> None:
    settings = read_settings(manifest="sample", mirror=None)
    assert settings.manifest_path == SAMPLE / "corpus_manifest.json"
    assert (Path(settings.mirror_location or "") / (sample.records[0].mirror_path or "")).is_file()
