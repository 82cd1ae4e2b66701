from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from zeroth_assets.chunking import ChunkReport, chunk_documents, measure_chunks
from zeroth_assets.corpus.manifest import load_manifest
from zeroth_assets.corpus.model import Document
from zeroth_assets.corpus.parse import parse_document
from zeroth_assets.settings import project_file
from zeroth_assets_tests.chunking.tokenizers_for_tests import packaged

EVERY = {"rfc": 60, "cuad": 40, "sec": 9}


@cache
def some_documents(mirror: Path) -> tuple[Document, ...]:
    manifest = load_manifest(project_file("corpus_manifest.json"))
    records = [r for source, step in EVERY.items() for r in manifest.of_source(source)[::step]]
    return tuple(parse_document(r, (mirror / str(r.mirror_path)).read_bytes()) for r in records)


@pytest.mark.mirror
@pytest.mark.parametrize("chunk_set", ["fixed_512", "section_aware"])
def test_real_documents_are_cut_within_the_contract(mirror: Path, chunk_set: str) -> None:
    documents = some_documents(mirror)
    report = ChunkReport()
    chunks = chunk_documents(documents, chunk_set, packaged(), report=report)
    measured = measure_chunks(documents, chunks, report)
    assert measured["source"].to_list() == ["cuad", "rfc", "sec"]
    for wrong in ("over_size", "not_a_slice", "characters_uncovered", "empty_documents"):
        assert measured[wrong].sum() == 0, wrong
    crossing = measured["crossing_section"].sum()
    assert crossing == 0 if chunk_set == "section_aware" else crossing > 0


@pytest.mark.mirror
def test_section_aware_starts_fewer_chunks_in_mid_sentence_and_cuts_fewer_blocks(mirror: Path) -> None:
    documents = some_documents(mirror)
    fixed, aware = (
        measure_chunks(documents, chunk_documents(documents, name, packaged())).sum().to_dicts()[0]
        for name in ("fixed_512", "section_aware")
    )
    assert aware["starts_mid_sentence"] < fixed["starts_mid_sentence"] / 5
    for kind in ("table_row", "list_item", "code"):
        assert aware[f"cuts_in_{kind}"] <= fixed[f"cuts_in_{kind}"] / 2, kind
