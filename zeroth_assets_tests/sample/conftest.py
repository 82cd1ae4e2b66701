from __future__ import annotations

from pathlib import Path

import pytest

from zeroth_assets.corpus.manifest import Manifest, load_manifest
from zeroth_assets.corpus.model import Document
from zeroth_assets.corpus.parse import parse_document
from zeroth_assets.settings import package_file

SAMPLE = package_file("sample")


@pytest.fixture(scope="session")
def sample() -> Manifest:
    return load_manifest(SAMPLE / "corpus_manifest.json")


@pytest.fixture(scope="session")
def raw(sample: Manifest) -> dict[str, bytes]:
    return {r.document_id: (SAMPLE / "documents" / Path(r.mirror_path or "")).read_bytes() for r in sample}


@pytest.fixture(scope="session")
def parsed(sample: Manifest, raw: dict[str, bytes]) -> dict[str, Document]:
    return {r.document_id: parse_document(r, raw[r.document_id]) for r in sample}
