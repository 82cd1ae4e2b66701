"""A check that cannot fail guards nothing: each is made to fail here, and what it guards must stay as it was."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
import pytest

from zeroth_assets.embedding.memo import EmbedReport
from zeroth_assets.errors import ChunkingError, EmbeddingError, MeasurementError
from zeroth_assets.evaluation.ann_recall import measure_ann_recall
from zeroth_assets.planning import phase_assets
from zeroth_assets_tests.small_corpus import LANTERN, SmallCorpus, remade

TENANT = "rfc-lantern-signalling"
OTHER = "cuad-consulting"


def counted(column: str) -> Callable[..., pl.DataFrame]:
    """`measure_chunks`, with one chunk counted as breaking a rule."""
    from zeroth_assets.chunking import measure_chunks

    def measure(*arguments: Any, **named: Any) -> pl.DataFrame:
        return measure_chunks(*arguments, **named).with_columns(pl.lit(1, dtype=pl.Int64).alias(column))

    return measure


@pytest.mark.parametrize(
    ("column", "asset", "check"),
    [
        ("over_size", "chunks_fixed_512", "fits_the_encoder"),
        ("not_a_slice", "chunks_fixed_512", "offsets_are_exact"),
        ("crossing_section", "chunks_section_aware", "no_section_crossed"),
    ],
)
def test_chunks_that_break_the_contract_are_not_published(
    own: SmallCorpus, column: str, asset: str, check: str
) -> None:
    before = own.made_at()
    with mock.patch("zeroth_assets.defs.chunks.measure_chunks", counted(column)):
        done = own.zeroth("materialize", "--asset", asset, "--partition", TENANT)
    assert done.code == ChunkingError.exit_code
    assert f"{check} failed" in done.out
    assert own.made_at() == before


def spoiled(row: float) -> Callable[..., EmbedReport]:
    """`embed_with_memo`, with the first vector multiplied by `row`."""
    from zeroth_assets.embedding import embed_with_memo

    def embed(*arguments: Any, **named: Any) -> EmbedReport:
        report = embed_with_memo(*arguments, **named)
        vectors = report.vectors.copy()
        vectors[0] *= np.float32(row)
        return EmbedReport(vectors, report.hits, report.misses, report.seconds, report.chunks_per_second, report.batch)

    return embed


@pytest.mark.parametrize(("row", "check"), [(0.0, "no_zero_row"), (2.0, "unit_norm"), (float("nan"), "finite")])
def test_vectors_that_are_not_usable_are_not_published(own: SmallCorpus, row: float, check: str) -> None:
    before = own.made_at()
    with mock.patch("zeroth_assets.defs.embeddings.embed_with_memo", spoiled(row)):
        done = own.zeroth("materialize", "--asset", "embeddings_fixed_512", "--partition", TENANT)
    assert done.code == EmbeddingError.exit_code
    assert check in done.out
    assert own.made_at() == before


def test_a_figure_whose_plan_avoided_the_index_is_withheld(own: SmallCorpus) -> None:
    before = own.made_at()
    dear = functools.partial(measure_ann_recall, planner_settings={"random_page_cost": "1000000"})
    with mock.patch("zeroth_assets.defs.evaluation.measure_ann_recall", dear):
        done = own.zeroth("materialize", "--asset", "ann_recall_fixed_512", "--partition", "rfc-orchard-naming")
    assert done.code == MeasurementError.exit_code
    assert "withheld" in done.out
    assert own.made_at() == before


def test_one_tenants_failed_check_stops_only_what_stands_on_it(own: SmallCorpus) -> None:
    """Both tenants are stale; the first one's vectors are bad, the other goes through."""
    for tenant in (TENANT, OTHER):
        own.data_file("embeddings_fixed_512", tenant).unlink()
    before = own.made_at()
    real = spoiled(1.0)
    bad = spoiled(0.0)

    def embed(texts: list[str], *arguments: Any, **named: Any) -> EmbedReport:
        first = "Lantern" in texts[0] or "lantern" in texts[0]
        return (bad if first else real)(texts, *arguments, **named)

    with mock.patch("zeroth_assets.defs.embeddings.embed_with_memo", embed):
        done = own.remake("--plain")
    assert done.code == EmbeddingError.exit_code
    after = remade(before, own.made_at())
    assert {f"embeddings_fixed_512/{OTHER}", f"tenant_index_fixed_512/{OTHER}"} <= after
    assert not {name for name in after if name.endswith(TENANT)}
    assert own.remake("--plain").code == 0


def test_a_tenant_below_the_recall_floor_shows_red_and_its_figure_stays(own: SmallCorpus) -> None:
    """A figure that is true is published however bad it is; the check beside it says so."""
    report = own.zeroth("materialize", "--asset", "ann_recall_fixed_512", "--partition", TENANT, "--json")
    assert report.code == 0
    with mock.patch("zeroth_assets.defs.evaluation.recall_verdict", mock.Mock(wraps=_never_reached)):
        assert own.zeroth("materialize", "--asset", "ann_recall_fixed_512", "--partition", TENANT).code == 0
    assert not last_evaluation(own, "recall_reaches_floor").passed


def last_evaluation(corpus: SmallCorpus, check: str) -> Any:
    """The last evaluation of a check of ann_recall_fixed_512, of whichever tenant."""
    with corpus.active():
        from dagster import AssetCheckKey, AssetKey

        from zeroth_assets.defs.instance import open_instance
        from zeroth_assets.defs.resources import Project

        project = Project()
        with open_instance(project.settings, project.database) as instance:
            key = AssetCheckKey(AssetKey("ann_recall_fixed_512"), check)
            history = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
            evaluation = history[0].event.asset_check_evaluation if history[0].event else None
    assert evaluation is not None
    return evaluation


def own_of_tenants(before: dict[str, int], corpus: SmallCorpus) -> set[str]:
    """What was remade of that which a tenant has for itself; what stands on all tenants follows an index."""
    own = set(phase_assets("tenants"))
    return {name for name in remade(before, corpus.made_at()) if name.partition("/")[0] in own}


def load_otherwise(corpus: SmallCorpus, tenant: str) -> None:
    """The tenant's rows with another index, and no receipt: the state after a kill between commit and receipt."""
    with corpus.active():
        from zeroth_assets.defs.resources import Project
        from zeroth_assets.store.load import load_tenant
        from zeroth_assets.store.registry import IndexParameters

        project = Project()
        about = project.store.require("embeddings_fixed_512", tenant).details
        load_tenant(
            project.database,
            chunk_set="fixed_512",
            tenant_key=tenant,
            chunks=project.store.read_frame("chunks_fixed_512", tenant),
            vectors=project.store.read_matrix("embeddings_fixed_512", tenant),
            fingerprint={**about["fingerprint"], "digest": about["fingerprint_digest"]},
            chunker_version=project.store.require("chunks_fixed_512", tenant).code_version,
            parameters=IndexParameters("hnsw", 2, 4),
        )


def test_a_figure_is_not_measured_on_an_index_that_the_receipt_does_not_name(own: SmallCorpus) -> None:
    load_otherwise(own, TENANT)
    before = own.made_at()
    done = own.zeroth("materialize", "--asset", "ann_recall_fixed_512", "--partition", TENANT)
    assert done.code == MeasurementError.exit_code
    assert "is not the one that it would cite" in done.out + done.err
    assert f"zeroth materialize --tenant {TENANT}" in " ".join((done.out + done.err).split())
    assert own.made_at() == before
    assert own.remake("--tenant", TENANT).code == 0
    assert {f"{a}_fixed_512/{TENANT}" for a in ("tenant_index", "ann_recall")} == own_of_tenants(before, own)


def test_an_index_that_somebody_dropped_is_made_again_with_its_figure(own: SmallCorpus) -> None:
    with own.active():
        from zeroth_assets.defs.resources import Project
        from zeroth_assets.store.registry import current_build

        database = Project().database
        build = current_build(database, "fixed_512", TENANT)
        assert build is not None
        with database.admin() as connection:
            connection.execute(f"drop index zeroth.{build.index_name}".encode())
    before = own.made_at()
    assert own.remake().code == 0
    assert {f"{a}_fixed_512/{TENANT}" for a in ("tenant_index", "ann_recall")} == own_of_tenants(before, own)


def test_a_tenant_without_a_sentence_to_ask_has_its_figure_withheld_and_fails_nothing(own: SmallCorpus) -> None:
    own.rewrite(LANTERN, lambda text: text.replace(b".", b";").replace(b"?", b";").replace(b"!", b";"))
    done = own.remake()
    assert done.code == 0, done.out
    assert own.remake("--json").json["runs"] == []

    shown = own.zeroth("metrics")
    assert shown.code == 0
    for chunk_set in ("fixed_512", "section_aware"):
        assert f"withheld: {chunk_set} {TENANT}: No sentence of tenant '{TENANT}' is fit to be a query" in shown.out
    rows = own.zeroth("metrics", "--json")
    assert TENANT not in {row["tenant"] for row in rows.json}
    assert f"withheld: fixed_512 {TENANT}" in rows.err
    alone = own.zeroth("metrics", "--tenant", TENANT, "--json")
    assert (alone.code, alone.json) == (0, [])
    assert "withheld" not in own.zeroth("metrics", "--tenant", OTHER).out

    floor = last_evaluation(own, "recall_reaches_floor")
    assert (floor.passed, floor.severity.value) == (False, "WARN")
    assert "No sentence" in floor.metadata["found"].value
    assert last_evaluation(own, "figures_are_honest").passed


def _never_reached(report: Any, *, floor: float) -> Any:
    from zeroth_assets.evaluation.ann_report import recall_verdict

    return recall_verdict(report, floor=floor).__class__(problems=("below the floor",))
