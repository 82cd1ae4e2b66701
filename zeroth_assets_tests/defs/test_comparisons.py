"""The assets over all arms on the small corpus: comparisons, abstention, latency."""

from __future__ import annotations

import polars as pl
import pytest

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.defs import latency
from zeroth_assets.errors import ArtefactError
from zeroth_assets.evaluation.retrieval_abstention import published_threshold
from zeroth_assets.evaluation.retrieval_family import WHOLE
from zeroth_assets.planning import measured_arms
from zeroth_assets.settings import read_settings
from zeroth_assets_tests.small_corpus import SETTINGS, SmallCorpus

ARMS = measured_arms(read_settings(manifest="sample", arms=SETTINGS["ZEROTH_ARMS"]))


def asked(*rows: tuple[str, str, str]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["query_id", "role", "principal"], orient="row")


def test_every_arm_is_timed_for_every_role_and_number_of_callers(shared: SmallCorpus) -> None:
    frame = ArtefactStore(shared.artefacts).read_frame("latency_metrics")
    totals = frame.filter(stage="total")
    keys = set(totals.select("chunk_set", "arm", "callers").rows())
    assert keys == {(*arm.split("."), callers) for arm in ARMS for callers in latency.CALLERS}
    assert (frame["p50_ms"] <= frame["p99_ms"]).all()
    embedded = set(frame.filter(stage="embedding")["arm"])
    assert "bm25" not in embedded
    assert {"dense_exact", "rrf"} <= embedded


def test_what_was_compared_is_the_family_that_was_named(shared: SmallCorpus) -> None:
    store = ArtefactStore(shared.artefacts)
    details = store.require("metric_comparisons").details
    frame = store.read_frame("metric_comparisons")
    named = {(c.a, c.b, c.metric) for c in WHOLE.primary}
    primary = set(frame.filter("primary").select("arm_a", "arm_b", "metric").rows())
    assert primary
    assert primary <= named
    assert details["family"] == WHOLE.digest
    gone = {name for name in details["left_out"] if "rrf_rerank" in name}
    assert gone, "without a reranker its comparisons fall away, and are told"


def test_a_threshold_is_withheld_or_comes_back_as_it_was_calibrated(shared: SmallCorpus) -> None:
    store = ArtefactStore(shared.artefacts)
    details = store.require("abstention_metrics").details
    for name in details["thresholds"]:
        arm, role = name.split("/")
        chunk_set, retriever = arm.split(".")
        threshold = published_threshold(store, chunk_set, retriever, role)
        assert (threshold.split, threshold.fingerprints["chunk_set"]) == ("calibration", chunk_set)
        assert threshold.fingerprints["encoder"]
    assert details["thresholds"] or details["withheld"]
    with pytest.raises(ArtefactError, match="no abstention threshold"):
        published_threshold(store, "fixed_512", "bm25", "unrestricted")


def test_the_queries_that_are_timed_are_few_the_same_and_of_the_busiest_principals() -> None:
    rows = [(f"q:{number}", "single_tenant", "busy") for number in range(8)]
    rows += [("q:other", "single_tenant", "idle"), ("q:all", "unrestricted", "all")]
    frame = asked(*rows)
    drawn = latency.drawn_queries(frame, 5)
    assert drawn.filter(role="single_tenant")["principal"].to_list() == ["busy"] * 5
    assert drawn.filter(role="unrestricted").height == 1
    assert drawn.equals(latency.drawn_queries(frame, 5))
    assert latency.drawn_queries(frame, 100).height == frame.height
