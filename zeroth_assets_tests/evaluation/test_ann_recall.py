"""Recall of real HNSW indexes on the embedded server: a good one, a poor one, and figures that must be withheld."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psycopg
import pytest
from numpy.typing import NDArray

from zeroth_assets.errors import MeasurementError, QueryError
from zeroth_assets.evaluation import ann_recall
from zeroth_assets.evaluation.ann_recall import measure_ann_recall
from zeroth_assets.evaluation.ann_report import (
    FIGURE_SCHEMA,
    PER_QUERY_SCHEMA,
    AnnRecallReport,
    Verdict,
    recall_verdict,
    verdict,
)
from zeroth_assets.evaluation.exact import exact_top_k
from zeroth_assets.evaluation.probe import HNSW_FORCED, PlanNode, open_probe, scan_node, vector_literal
from zeroth_assets.store.connect import Database
from zeroth_assets.store.load import load_tenant
from zeroth_assets.store.migrate import migrate
from zeroth_assets.store.registry import IndexParameters, ensure_chunk_set, find_chunk_set

DIMENSION, ROWS = 48, 1_500
FINGERPRINT = {"digest": "f" * 64, "model": "made up"}
RNG = np.random.default_rng(20)
CENTRES = RNG.normal(size=(40, DIMENSION))


def _vectors(rows: int) -> NDArray[np.float32]:
    raw = CENTRES[RNG.integers(0, len(CENTRES), rows)] + RNG.normal(scale=2.5, size=(rows, DIMENSION))
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True), dtype=np.float32)


def _chunks(rows: int, label: str) -> pl.DataFrame:
    hashes = [hashlib.sha256(f"{label}{i}".encode()).digest() for i in range(rows)]
    ranges = np.arange(rows, dtype=np.int64)
    return pl.DataFrame(
        {
            "chunk_id": [int.from_bytes(h[:8], "big") >> 1 for h in hashes],
            "chunk_hash": hashes,
            "document_id": [f"rfc:{label}"] * rows,
            "document_version": ["0" * 64] * rows,
            "ordinal": ranges,
            "char_start": ranges,
            "char_end": ranges + 1,
            "page_first": ranges,
            "page_last": ranges,
            "pages_real": [True] * rows,
            "section_path": ["1 Introduction"] * rows,
            "token_count": ranges,
            "text": ["words"] * rows,
        }
    )


def _load(db: Database, tenant: str, vectors: NDArray[np.float32], parameters: IndexParameters) -> None:
    load_tenant(
        db,
        chunk_set="fixed_512",
        tenant_key=tenant,
        chunks=_chunks(len(vectors), tenant),
        vectors=vectors,
        fingerprint=FINGERPRINT,
        chunker_version="1",
        parameters=parameters,
    )


VECTORS, QUERIES = _vectors(ROWS), _vectors(50)


@pytest.fixture(scope="module")
def db(module_database: Database) -> Database:
    migrate(module_database)
    ensure_chunk_set(module_database, "fixed_512", DIMENSION)
    _load(module_database, "rfc-good", VECTORS, IndexParameters(m=16, ef_construction=64))
    _load(module_database, "rfc-poor", VECTORS, IndexParameters(m=2, ef_construction=4))
    _load(module_database, "rfc-small", VECTORS[:7], IndexParameters())
    _load(module_database, "rfc-bare", VECTORS[:50], IndexParameters(kind="none"))
    twins = np.repeat(VECTORS[:20], 8, axis=0)
    _load(module_database, "rfc-twins", twins, IndexParameters())
    return module_database


def _measure(db: Database, tenant: str, **options: Any) -> AnnRecallReport:
    return measure_ann_recall(
        db, chunk_set="fixed_512", tenant_key=tenant, queries=options.pop("queries", QUERIES), seed=3, **options
    )


@pytest.fixture(scope="module")
def good(db: Database) -> AnnRecallReport:
    return _measure(db, "rfc-good", fingerprint_digest=FINGERPRINT["digest"], repetitions=2)


def test_a_good_index_recalls_nearly_everything_at_the_headline(good: AnnRecallReport) -> None:
    assert good.figures.schema == FIGURE_SCHEMA
    assert good.per_query.schema == PER_QUERY_SCHEMA
    headline = good.at(40)
    assert headline["recall"] > 0.97
    assert headline["recall_low"] < headline["recall"] <= headline["recall_high"]
    assert verdict(good).ok
    assert recall_verdict(good) == Verdict()


def test_every_figure_says_where_it_comes_from(good: AnnRecallReport) -> None:
    assert good.figures["ef_search"].to_list() == [5, 10, 40, 100, 200, 800]
    for row in good.figures.iter_rows(named=True):
        assert row["role"] == "zeroth_app"
        assert row["plan_node"] == "Index Scan"
        assert row["index_name"] == good.build.index_name
        assert (row["m"], row["ef_construction"], row["index_build_id"]) == (16, 64, good.build.index_build_id)
        assert (row["tenant_rows"], row["queries"], row["seed"], row["resamples"]) == (ROWS, 50, 3, 1000)
        assert 0 < row["latency_p50_ms"] <= row["latency_p95_ms"]
        assert not row["trivial"]


def test_ef_search_below_k_returns_that_many_rows_and_says_how_many_queries_are_short(good: AnnRecallReport) -> None:
    five = good.at(5)
    assert (five["rows_mean"], five["rows_min"], five["short_queries"], five["empty_queries"]) == (5.0, 5, 50, 0)
    assert 0.3 < five["recall_low"] < five["recall"] <= five["recall_high"] <= 0.5
    assert good.at(10)["short_queries"] == 0


def test_recall_equals_a_count_of_ids_made_by_hand(db: Database, good: AnnRecallReport) -> None:
    ids = _chunks(ROWS, "rfc-good")["chunk_id"].to_numpy()
    truth = exact_top_k(VECTORS, ids, QUERIES, 10)
    with db.app() as connection:
        target = find_chunk_set(connection, "fixed_512")
        connection.rollback()
        with open_probe(
            connection, chunk_set=target, tenant_id=good.build.tenant_id, principal="rfc-good", settings=HNSW_FORCED
        ) as probe:
            probe.set_ef_search(10)
            found = [probe.ask(vector_literal(query), 10).chunk_ids for query in QUERIES]
    by_hand = [len(set(a.tolist()) & set(b.tolist())) / 10 for a, b in zip(found, truth.ids, strict=True)]
    measured = good.per_query.filter(pl.col("ef_search") == 10)["recall"].to_list()
    assert measured == pytest.approx(by_hand)
    assert good.at(10)["recall"] == pytest.approx(np.mean(by_hand))
    assert good.at(10)["recall"] < 1.0


def test_a_poor_index_is_flagged_by_the_recall_verdict_and_not_by_the_other(db: Database) -> None:
    poor = _measure(db, "rfc-poor")
    found = recall_verdict(poor)
    assert not found.ok
    assert "recall@10 at ef_search 40" in found.problems[0]
    assert verdict(poor).ok


def test_a_floor_inside_the_interval_is_a_warning(good: AnnRecallReport) -> None:
    ten = good.at(10)
    found = recall_verdict(good, floor=ten["recall"], ef_search=10)
    assert found.ok
    assert "cannot tell from 50 queries" in found.warnings[0]


def test_a_tenant_smaller_than_ef_search_is_trivial_and_its_recall_of_1_has_wilsons_interval(db: Database) -> None:
    small = _measure(db, "rfc-small")
    headline = small.at(40)
    assert headline["trivial"]
    assert not small.at(5)["trivial"]
    assert (headline["recall"], headline["recall_high"], headline["rows_mean"]) == (1.0, 1.0, 7.0)
    assert headline["recall_low"] == pytest.approx(50 / (50 + 1.959964**2), abs=1e-6)
    assert headline["interval_method"] == "wilson"
    assert headline["short_queries"] == 0
    assert verdict(small).ok


def test_equal_vectors_count_whichever_of_them_came_back(db: Database) -> None:
    """Each vector stands eight times; the ten nearest end within a group of eight."""
    twins = _measure(db, "rfc-twins", ef_search=[200])
    assert twins.at(200)["recall"] == 1.0


def test_the_principal_of_all_tenants_measures_the_same_partition(db: Database, good: AnnRecallReport) -> None:
    wide = _measure(db, "rfc-good", principal="all", ef_search=[10])
    assert wide.tenant_rows == ROWS
    assert wide.at(10)["recall"] == good.at(10)["recall"]
    assert wide.at(10)["principal"] == "all"


def test_a_plan_that_avoided_the_index_withholds_the_figure(db: Database) -> None:
    """By prices, not by enable_indexscan: PostgreSQL 18 takes the index of a lone partition even where that is off."""
    dear = {"random_page_cost": "1000000", "seq_page_cost": "0", "hnsw.iterative_scan": "off"}
    with pytest.raises(
        MeasurementError, match=r"withheld: a query avoided the index.*Expected: Index Scan using chunk_"
    ):
        _measure(db, "rfc-good", planner_settings=dear)


def test_the_forced_settings_prevail_over_prices(db: Database) -> None:
    dear = {"random_page_cost": "1000000", "seq_page_cost": "0", "cpu_operator_cost": "0"}
    assert verdict(_measure(db, "rfc-good", planner_settings={**HNSW_FORCED, **dear}, ef_search=[10])).ok


def test_forcing_is_what_makes_a_small_tenant_use_its_index(db: Database) -> None:
    with pytest.raises(MeasurementError, match="withheld"):
        _measure(db, "rfc-small", planner_settings={})


def test_a_tenant_without_an_index_has_no_recall(db: Database) -> None:
    with pytest.raises(MeasurementError, match="no HNSW index"):
        _measure(db, "rfc-bare")


@pytest.mark.parametrize("tenant", ["rfc-unknown", "rfc-good"])
def test_a_principal_that_may_not_see_the_tenant_gets_no_figure(db: Database, tenant: str) -> None:
    with pytest.raises(MeasurementError, match="sees no index build") as caught:
        _measure(db, tenant, principal="rfc-small")
    # A new build would not cure what a missing grant did.
    assert f"`zeroth acl grant rfc-small {tenant}`" in str(caught.value.remedy)


def test_a_figure_is_withheld_where_the_build_in_force_is_not_the_one_that_it_would_cite(
    db: Database, good: AnnRecallReport
) -> None:
    build = good.build.index_build_id
    assert _measure(db, "rfc-good", expected_build=build, ef_search=[10]).build.index_build_id == build
    with pytest.raises(
        MeasurementError,
        match=rf"(?s)withheld.*index build {build + 99}.*index build {build} .*zeroth materialize --tenant rfc-good",
    ):
        _measure(db, "rfc-good", expected_build=build + 99, ef_search=[10])


def test_dead_rows_that_a_snapshot_keeps_withhold_the_figure_until_it_ends(db: Database) -> None:
    _load(db, "rfc-dead", VECTORS[:600], IndexParameters())
    with db.admin() as old:
        old.execute("set transaction isolation level repeatable read")
        old.execute("select 1")
        _load(db, "rfc-dead", VECTORS[:60], IndexParameters())
        with pytest.raises(MeasurementError, match=r"(?s)withheld: dead rows.*540 that an open transaction"):
            _measure(db, "rfc-dead", ef_search=[40])
    # Nobody loads again: the measurement clears them itself.
    freed = _measure(db, "rfc-dead", ef_search=[40])
    assert freed.at(40)["dead_rows"] == 0
    assert freed.at(40)["short_queries"] == 0
    assert verdict(freed).ok


def test_queries_of_another_model_are_refused(db: Database) -> None:
    with pytest.raises(MeasurementError, match="not embedded as the rows"):
        _measure(db, "rfc-good", fingerprint_digest="0" * 64)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queries": QUERIES[:0]}, "no queries"),
        ({"queries": QUERIES[0]}, "no queries"),
        ({"queries": QUERIES[:, :5]}, "fit together"),
        ({"queries": np.full_like(QUERIES, np.nan)}, "no direction"),
        ({"queries": np.zeros_like(QUERIES)}, "no direction"),
        ({"k": 0}, "out of range"),
        ({"ef_search": [0]}, "out of range"),
        ({"ef_search": [1001]}, "out of range"),
        ({"ef_search": []}, "out of range"),
        ({"repetitions": 0}, "out of range"),
    ],
)
def test_bad_input_is_refused(db: Database, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MeasurementError, match=message):
        _measure(db, "rfc-good", **options)


def test_an_empty_principal_is_refused(db: Database) -> None:
    with pytest.raises(QueryError, match="principal"):
        _measure(db, "rfc-good", principal="")


@pytest.mark.parametrize("moment", [1, 51, 100])
def test_rows_that_change_under_the_measurement_withhold_it(db: Database, moment: int) -> None:
    """While plans are read, between the passes, and after the last query."""
    tenant = f"rfc-moving-{moment}"
    _load(db, tenant, VECTORS[:60], IndexParameters())

    def reload(done: int, total: int) -> None:
        assert total == 100
        if done == moment:
            _load(db, tenant, VECTORS[60:130], IndexParameters())

    with pytest.raises(MeasurementError, match="changed while it was measured"):
        _measure(db, tenant, progress=reload, ef_search=[40])


def test_progress_counts_every_query_and_ends_at_the_total(db: Database) -> None:
    seen: list[tuple[int, int]] = []
    _measure(db, "rfc-small", ef_search=[5, 40], progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i, 200) for i in range(1, 201)]


def test_no_setting_of_the_measurement_survives_it(db: Database) -> None:
    with db.app() as connection:
        target = find_chunk_set(connection, "fixed_512")
        connection.rollback()
        with open_probe(connection, chunk_set=target, tenant_id=1, principal="rfc-good") as probe:
            probe.set_ef_search(800)
            probe.ask(vector_literal(QUERIES[0]), 10)
        settings = connection.execute(
            "select current_setting('enable_sort'), current_setting('hnsw.ef_search'),"
            " nullif(current_setting('zeroth.claim', true), '')"
        ).fetchone()
    assert settings == ("on", "40", None)


def test_the_statement_is_never_prepared(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psycopg.Connection, "prepare_threshold", 0, raising=False)
    with db.app() as connection:
        target = find_chunk_set(connection, "fixed_512")
        connection.rollback()
        with open_probe(connection, chunk_set=target, tenant_id=1, principal="rfc-good") as probe:
            for _ in range(8):
                probe.ask(vector_literal(QUERIES[0]), 10)
            kept = connection.execute(
                "select count(*) from pg_prepared_statements where statement like '%order by embedding%'"
                " and statement not like '%pg_prepared%'"
            ).fetchone()
    assert kept == (0,)


def _with_figure(report: AnnRecallReport, **changed: Any) -> AnnRecallReport:
    figures = report.figures.with_columns(**{name: pl.lit(value) for name, value in changed.items()})
    return dataclasses.replace(report, figures=figures)


def test_the_verdict_names_each_thing_that_is_not_as_claimed(good: AnnRecallReport) -> None:
    assert "Seq Scan using no index" in verdict(_with_figure(good, plan_node="Seq Scan", index_name=None)).problems[0]
    assert "using chunk_1_t1_pkey" in verdict(_with_figure(good, index_name="chunk_1_t1_pkey")).problems[0]
    assert "measured as postgres" in verdict(_with_figure(good, role="postgres")).problems[0]
    assert "3 dead rows" in verdict(_with_figure(good, dead_rows=3)).problems[0]
    assert "no interval" in verdict(_with_figure(good, recall_low=1.0, recall_high=1.0)).problems[0]
    assert "no interval" in verdict(_with_figure(good, recall_low=float("nan"))).problems[0]
    assert "truth over 9 rows" in verdict(dataclasses.replace(good, tenant_rows=9)).problems[0]
    assert "computed otherwise" in verdict(dataclasses.replace(good, truth="sql")).problems[0]
    assert "nothing was measured" in verdict(dataclasses.replace(good, figures=good.figures.clear())).problems[0]


def test_figures_that_were_not_measured_cannot_be_judged(good: AnnRecallReport) -> None:
    with pytest.raises(MeasurementError, match="ef_search = 41 was not measured"):
        recall_verdict(good, ef_search=41)
    with pytest.raises(MeasurementError, match="floor"):
        recall_verdict(good, floor=95)


def test_the_node_that_reads_rows_is_found_beneath_limits_and_beside_policies() -> None:
    scan = {"Node Type": "Index Scan", "Index Name": "i"}
    policy = {"Node Type": "Function Scan", "Parent Relationship": "InitPlan"}
    plan = {"Node Type": "Limit", "Plans": [policy, {"Node Type": "Append", "Plans": [scan]}]}
    assert scan_node(plan) == PlanNode("Index Scan", "i")
    bitmap = {"Node Type": "Bitmap Heap Scan", "Plans": [{"Node Type": "Bitmap Index Scan", "Index Name": "i"}]}
    assert scan_node(bitmap) == PlanNode("Bitmap Heap Scan", None)
    with pytest.raises(MeasurementError, match="one partition"):
        scan_node({"Node Type": "Append", "Plans": [scan, scan]})
    with pytest.raises(MeasurementError, match="one partition"):
        scan_node({"Node Type": "Result"})


def test_a_vector_is_written_without_loss() -> None:
    vector = RNG.normal(size=500).astype(np.float32)
    assert np.array_equal(np.array(eval(vector_literal(vector)), dtype=np.float32), vector)  # our own digits


def test_truth_never_reads_through_sql_ordering() -> None:
    """The truth comes from `read_vectors` and NumPy; this module holds no SQL that orders by distance."""
    assert "<=>" not in Path(ann_recall.__file__).read_text()
