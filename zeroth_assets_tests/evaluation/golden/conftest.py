"""The packaged sample, parsed once, and the real contracts with their labels, read once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from zeroth_assets.corpus.dedup import dedup_report
from zeroth_assets.corpus.manifest import Manifest, load_manifest
from zeroth_assets.corpus.model import documents_to_frame
from zeroth_assets.corpus.parse import parse_document
from zeroth_assets.corpus.tenants import tenant_keys
from zeroth_assets.evaluation.golden.cuad_label_files import IN_MIRROR
from zeroth_assets.evaluation.golden.cuad_labels import Labels, read_cuad_labels
from zeroth_assets.evaluation.golden.cuad_queries import phrasings
from zeroth_assets.evaluation.golden.model import texts_of

TOPICS = list(phrasings()["topics"])
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Corpus:
    documents: pl.DataFrame
    manifest: Manifest
    tenants: pl.DataFrame
    pairs: pl.DataFrame


@dataclass(frozen=True, slots=True)
class Contracts:
    labels: Labels
    texts: dict[tuple[str, str], str]
    manifest: Manifest


def tenants_of(manifest: Manifest) -> pl.DataFrame:
    keys = tenant_keys(manifest.records)
    rows = [(r.document_id, keys[r.source, r.tenant_attribute], keys[r.source, r.tenant_attribute]) for r in manifest]
    return pl.DataFrame(rows, schema=["document_id", "tenant", "raw_tenant"], orient="row")


@pytest.fixture(scope="session")
def sample() -> Corpus:
    folder = ROOT / "zeroth_assets" / "sample"
    manifest = load_manifest(folder / "corpus_manifest.json")
    parsed = [
        parse_document(record, (folder / "documents" / str(record.mirror_path)).read_bytes())
        for record in manifest.current()
    ]
    frame = documents_to_frame(parsed)
    return Corpus(frame, manifest, tenants_of(manifest), dedup_report(frame).pairs)


@pytest.fixture(scope="session")
def contracts(mirror: Path) -> Contracts:
    manifest = load_manifest(ROOT / "corpus_manifest.json")
    rows = [
        (r.document_id, r.sha256, (mirror / str(r.mirror_path)).read_bytes().decode().removeprefix("\ufeff"))
        for r in manifest.current()
        if r.source == "cuad"
    ]
    texts = texts_of(pl.DataFrame(rows, schema=["document_id", "version", "text"], orient="row"))
    return Contracts(read_cuad_labels(mirror / IN_MIRROR[0], manifest.current(), texts, TOPICS), texts, manifest)
