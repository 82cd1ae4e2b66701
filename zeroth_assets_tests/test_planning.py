from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl
import pytest

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.chunking import CHUNKER_VERSION
from zeroth_assets.corpus.manifest import Manifest, load_manifest
from zeroth_assets.corpus.parse import PARSER_VERSION
from zeroth_assets.corpus.raw import raw_path
from zeroth_assets.corpus.tenants import ASSIGNMENT_SCHEMA
from zeroth_assets.embedding import ModelFiles
from zeroth_assets.errors import ArtefactError, SettingsError, TenantError
from zeroth_assets.planning import (
    PHASES,
    Planner,
    all_assets,
    measured_arms,
    partitioned_by,
    phase_assets,
    split_asset,
)
from zeroth_assets.planning.retrieval_stages import reranker_named
from zeroth_assets.settings import CHUNK_SETS, Settings, package_file, read_settings
from zeroth_assets.store.state import LiveBuild

MODEL = ModelFiles(
    name="m",
    revision="1",
    folder=Path("nowhere"),
    weights_sha256="w" * 64,
    pooling="mean",
    dimension=3,
    max_positions=512,
    query_prefix="",
)
LIVE = {("fixed_512", "rfc-a"): LiveBuild(7, 2), ("section_aware", "rfc-a"): LiveBuild(8, 2)}
SHARED = {"fixed_512": 3, "section_aware": 4}
TENANT = phase_assets("tenants")
MakePlanner = Callable[..., Planner]


@pytest.fixture
def manifest() -> Manifest:
    records = load_manifest(package_file("sample/corpus_manifest.json")).of_source("rfc")[:2]
    return Manifest(records, "a" * 64)


@pytest.fixture
def store(tmp_path: Path) -> ArtefactStore:
    return ArtefactStore(tmp_path / "artefacts")


@pytest.fixture
def planner(tmp_path: Path, store: ArtefactStore, manifest: Manifest) -> MakePlanner:
    def make(**changes: Any) -> Planner:
        settings: Settings = read_settings(home=tmp_path, manifest="sample", **changes.pop("settings", {}))
        arguments: dict[str, Any] = {
            "model": MODEL,
            "raw_dir": tmp_path / "raw",
            "migrations_digest": "m",
            "schema_version": "m",
            "live_builds": LIVE,
            "shared_builds": SHARED,
            **changes,
        }
        return Planner(settings, store, arguments.pop("manifest", manifest), **arguments)

    return make


@pytest.fixture
def everything(tmp_path: Path, store: ArtefactStore, manifest: Manifest, planner: MakePlanner) -> MakePlanner:
    """A store in which every artefact of one tenant was made by today's recipes."""
    for record in manifest:
        path = raw_path(tmp_path / "raw", record)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * record.bytes)

    def publish(artefact: str, partition: str | None, frame: pl.DataFrame, **details: Any) -> None:
        about = planner().recipe(artefact, partition).about("Made for a test.", publish, **details)
        store.write_frame(frame, artefact, partition, **about)

    rows = [(r.document_id, r.sha256, "rfc", "rfc-a", "rfc-a", "A", None, "own", 1.0, "t") for r in manifest]
    assignments = pl.DataFrame(rows, schema=ASSIGNMENT_SCHEMA, orient="row")
    keys: dict[str | None, str | None] = {"source": "rfc", "tenant": "rfc-a", "arm": "fixed_512.bm25", None: None}
    for asset in all_assets():
        stage, chunk_set = split_asset(asset)
        details: dict[str, Any] = {}
        if stage == "raw_documents":
            details = {"missing": [], "absent": []}
        elif stage == "database_schema":
            details = {"dimensions": dict.fromkeys(CHUNK_SETS, MODEL.dimension)}
        elif stage == "tenant_index" and chunk_set is not None:
            live = LIVE[chunk_set, "rfc-a"]
            details = {"index_build_id": live.index_build_id, "table_rows": live.rows}
        elif stage == "shared_index" and chunk_set is not None:
            details = {"shared_build_id": SHARED[chunk_set]}
        frame = assignments if stage == "tenant_assignments" else pl.DataFrame({"a": [asset]})
        publish(asset, keys[partitioned_by(asset)], frame, **details)
    return planner


def stale_of(planner: Planner) -> tuple[str, ...]:
    return planner.stale(TENANT, "rfc-a")


def test_nothing_is_stale_when_everything_was_made_by_todays_recipes(everything: MakePlanner) -> None:
    planner = everything()
    assert planner.stale(("corpus_manifest", "database_schema")) == ()
    assert planner.stale(("raw_documents", "parsed_documents"), "rfc") == ()
    assert planner.stale(("tenant_assignments",)) == ()
    assert stale_of(planner) == ()
    for phase in PHASES:
        key = {"source": "rfc", "tenant": "rfc-a", "arm": "fixed_512.bm25"}.get(phase.partitioned_by or "")
        assert planner.stale(phase.assets, key) == ()


def test_in_an_empty_store_all_of_a_source_is_stale(planner: MakePlanner) -> None:
    assert planner().stale(("raw_documents", "parsed_documents"), "rfc") == ("raw_documents", "parsed_documents")


def test_a_chunker_version_makes_every_tenants_chain_stale(
    everything: MakePlanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CHUNKER_VERSION, "fixed_512", "next")
    assert stale_of(everything()) == tuple(a for a in TENANT if a.endswith("fixed_512"))


def test_a_parser_version_makes_the_source_and_its_tenants_stale(
    everything: MakePlanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PARSER_VERSION, "rfc", "next")
    assert everything().stale(("raw_documents", "parsed_documents"), "rfc") == ("parsed_documents",)
    assert stale_of(everything()) == TENANT


def test_other_weights_under_the_same_name_make_chunks_and_all_after_them_stale(everything: MakePlanner) -> None:
    assert stale_of(everything(model=replace(MODEL, weights_sha256="v" * 64))) == TENANT


def test_index_parameters_concern_the_index_and_its_recall_alone(everything: MakePlanner) -> None:
    stale = stale_of(everything(settings={"hnsw_ef_construction": 128}))
    assert {split_asset(a)[0] for a in stale} == {"tenant_index", "ann_recall"}


def test_an_index_that_the_database_has_lost_is_stale_whatever_its_receipt_says(everything: MakePlanner) -> None:
    stale = stale_of(everything(live_builds={k: v for k, v in LIVE.items() if k[0] != "fixed_512"}))
    assert stale == ("tenant_index_fixed_512", "ann_recall_fixed_512")


def test_an_index_build_that_is_not_the_receipts_is_stale(everything: MakePlanner) -> None:
    stale = stale_of(everything(live_builds={**LIVE, ("section_aware", "rfc-a"): LiveBuild(9, 2)}))
    assert stale == ("tenant_index_section_aware", "ann_recall_section_aware")


def test_a_database_without_the_newest_migration_is_stale(everything: MakePlanner) -> None:
    assert everything(schema_version=None).stale(("database_schema",)) == ("database_schema",)


def test_an_artefact_deleted_by_hand_is_stale_with_all_that_stands_on_it(
    everything: MakePlanner, store: ArtefactStore, tmp_path: Path
) -> None:
    sidecar = store.require("embeddings_fixed_512", "rfc-a")
    (tmp_path / "artefacts" / "embeddings_fixed_512" / sidecar.file).unlink()
    assert stale_of(everything()) == ("embeddings_fixed_512", "tenant_index_fixed_512", "ann_recall_fixed_512")


def test_a_raw_file_cut_short_makes_the_source_stale(
    everything: MakePlanner, manifest: Manifest, tmp_path: Path
) -> None:
    raw_path(tmp_path / "raw", manifest.records[0]).write_bytes(b"short")
    assert everything().stale(("raw_documents", "parsed_documents"), "rfc") == ("raw_documents", "parsed_documents")


def test_documents_that_could_not_be_had_are_asked_for_again(
    everything: MakePlanner, store: ArtefactStore, manifest: Manifest
) -> None:
    version = manifest.records[0].sha256
    about = everything().recipe("raw_documents", "rfc").about("d", str, missing=[version], absent=[version])
    store.write_frame(pl.DataFrame({"a": [1]}), "raw_documents", "rfc", **about)
    assert "raw_documents" in everything().stale(("raw_documents",), "rfc")


def test_a_new_version_of_a_document_makes_its_source_stale(everything: MakePlanner, manifest: Manifest) -> None:
    newer = replace(manifest.records[0], sha256="b" * 64)
    changed = Manifest((newer, *manifest.records[1:]), "b" * 64)
    assert everything(manifest=changed).stale(("raw_documents",), "rfc") == ("raw_documents",)


def test_a_tenant_without_documents_is_refused_by_name(everything: MakePlanner) -> None:
    with pytest.raises(TenantError, match="rfc-nobody"):
        everything().recipe("chunks_fixed_512", "rfc-nobody")


def test_an_asset_that_does_not_exist_is_refused(everything: MakePlanner) -> None:
    with pytest.raises(ArtefactError, match="no asset 'chunks_nope'"):
        everything().recipe("chunks_nope", "rfc-a")


def test_asset_names_split_into_stage_and_chunk_set() -> None:
    assert split_asset("ann_recall_section_aware") == ("ann_recall", "section_aware")
    assert split_asset("raw_documents") == ("raw_documents", None)


def test_what_stands_on_all_tenants_is_stale_with_any_one_of_them(
    everything: MakePlanner, store: ArtefactStore
) -> None:
    index = store.require("tenant_index_fixed_512", "rfc-a")
    about = everything().recipe("tenant_index_fixed_512", "rfc-a").about("Other rows.", str, **index.details)
    store.write_frame(pl.DataFrame({"a": ["other rows"]}), "tenant_index_fixed_512", "rfc-a", **about)
    planner = everything()
    assert stale_of(planner) == ("ann_recall_fixed_512",)
    assert planner.stale(phase_assets("shared")) == ("shared_index_fixed_512", "path_costs_fixed_512")
    assert planner.stale(phase_assets("access"), "rfc-a") == ("access_recall_fixed_512",)
    assert planner.stale(phase_assets("questions")) == ()


def test_a_shared_index_that_the_database_has_lost_is_stale(everything: MakePlanner) -> None:
    stale = everything(shared_builds={"fixed_512": 3}).stale(phase_assets("shared"))
    assert stale == ("shared_index_section_aware", "path_costs_section_aware")


def test_a_figure_that_fell_below_its_baseline_stays_stale_until_it_is_mended_or_accepted(
    everything: MakePlanner, store: ArtefactStore
) -> None:
    for regressed, stale in ((True, ("ann_recall_fixed_512",)), (False, ())):
        about = everything().recipe("ann_recall_fixed_512", "rfc-a").about("A figure.", str, regressed=regressed)
        store.write_frame(pl.DataFrame({"a": [1]}), "ann_recall_fixed_512", "rfc-a", **about)
        assert stale_of(everything()) == stale


def test_a_fan_in_stands_on_the_tenants_that_there_are(everything: MakePlanner, store: ArtefactStore) -> None:
    before = set(everything().recipe("shared_index_fixed_512").inputs)
    assert before == {"tenant_index_fixed_512/rfc-a"}
    store.remove("tenant_index_fixed_512", "rfc-a")
    with pytest.raises(ArtefactError, match="tenant_index_fixed_512/rfc-a is missing"):
        everything().recipe("shared_index_fixed_512")


def test_a_partition_for_an_asset_without_any_is_refused(everything: MakePlanner) -> None:
    with pytest.raises(ArtefactError, match="has no partitions"):
        everything().recipe("shared_index_fixed_512", "rfc-a")
    with pytest.raises(ArtefactError, match="has partitions"):
        everything().recipe("chunks_fixed_512")


def test_the_arms_that_are_measured_can_be_narrowed_and_one_that_there_is_not_is_refused() -> None:
    assert measured_arms(read_settings(arms="rrf, bm25")) == (
        "fixed_512.bm25",
        "fixed_512.rrf",
        "section_aware.bm25",
        "section_aware.rrf",
    )
    with pytest.raises(SettingsError, match="ZEROTH_RERANKER"):
        measured_arms(read_settings(arms="rrf_rerank"))
    assert "fixed_512.rrf_rerank" in measured_arms(read_settings(arms="rrf_rerank", reranker="late"))


def test_a_reranker_is_named_by_its_model_where_that_is_chosen_too() -> None:

    assert reranker_named(read_settings(manifest="sample")) == "none"
    assert reranker_named(read_settings(manifest="sample", reranker="late", reranker_model="x")) == "late"
    assert reranker_named(read_settings(manifest="sample", reranker="cross", reranker_model="a/b")) == "cross a/b"


def test_a_database_without_a_table_for_a_chunk_set_or_dimension_is_stale(everything: MakePlanner) -> None:
    assert everything().stale(("database_schema",)) == ()
    narrow = everything(model=replace(MODEL, dimension=7))
    assert narrow.stale(("database_schema",)) == ("database_schema",)
    with mock.patch("zeroth_assets.planning.corpus_stages.CHUNK_SETS", (*CHUNK_SETS, "fixed_512_context")):
        assert everything().stale(("database_schema",)) == ("database_schema",)
