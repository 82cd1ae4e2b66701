"""The main job on real documents, with the packaged model."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from zeroth_assets.settings import CHUNK_SETS, project_file
from zeroth_assets_tests.small_corpus import SmallCorpus, small_corpus

PER_SOURCE = {"rfc": 10, "cuad": 9, "sec": 2}
MODEL = {"ZEROTH_MODEL": "all-MiniLM-L6-v2", "ZEROTH_ENGINE": "auto", "ZEROTH_PRECISION": "auto"}


def smallest(records: list[dict[str, Any]], source: str) -> list[dict[str, Any]]:
    """The documents of whichever tenant needs the fewest bytes for the wanted number of them."""
    tenants: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        if record["source"] == source:
            tenants[record["tenant_attribute"]].append(record)
    count = PER_SOURCE[source]
    groups = [sorted(group, key=lambda r: r["bytes"])[:count] for group in tenants.values() if len(group) >= count]
    return min(groups, key=lambda group: sum(r["bytes"] for r in group))


@pytest.mark.mirror
def test_the_main_job_measures_real_tenants_of_every_source(mirror: Path) -> None:
    published = json.loads(project_file("corpus_manifest.json").read_text("utf-8"))
    records = [record for source in PER_SOURCE for record in smallest(published["records"], source)]
    assert len(records) >= 20
    few = {"ZEROTH_GOLDEN_ANSWERABLE": "40", "ZEROTH_GOLDEN_UNANSWERABLE": "30", "ZEROTH_LATENCY_QUERIES": "5"}
    extra = {**MODEL, **few, "ZEROTH_MIRROR": str(mirror), "ZEROTH_ANN_QUERIES": "30"}
    with small_corpus("mirror", None, (), **extra) as corpus:
        corpus.manifest.write_text(json.dumps({**published, "records": records}), "utf-8")
        done = corpus.zeroth("materialize", "--json")
        assert done.code == 0, done.out + done.err
        assert done.json["missing"] == []
        figures = corpus.zeroth("metrics", "--json").json
        tenants = corpus.zeroth("corpus", "tenants", "--json").json
        assert sum(tenant["documents"] for tenant in tenants) == len(records)
        assert {tenant["tenant"].partition("-")[0] for tenant in tenants} == set(PER_SOURCE)
        assert {(row["tenant"], row["chunk_set"]) for row in figures} == {
            (tenant["tenant"], chunk_set) for tenant in tenants for chunk_set in CHUNK_SETS
        }
        for row in figures:
            assert row["recall"] > 0.9
            assert row["recall_low"] <= row["recall"] <= row["recall_high"]
            assert row["tenant_rows"] > 0
        assert_offsets_hold(corpus)
        assert corpus.zeroth("materialize", "--json").json["runs"] == []


def assert_offsets_hold(corpus: SmallCorpus) -> None:
    """Every chunk is the slice of its document's text, read from the artefacts."""
    import polars as pl

    from zeroth_assets.artefacts import ArtefactStore

    store = ArtefactStore(corpus.artefacts)
    texts = {
        row["document_id"]: row["text"]
        for source in PER_SOURCE
        for row in store.read_frame("parsed_documents", source, columns=["document_id", "text"]).iter_rows(named=True)
    }
    for chunk_set in CHUNK_SETS:
        for tenant in store.partitions(f"chunks_{chunk_set}"):
            chunks: pl.DataFrame = store.read_frame(f"chunks_{chunk_set}", tenant)
            for row in chunks.iter_rows(named=True):
                assert texts[row["document_id"]][row["char_start"] : row["char_end"]] == row["text"]
