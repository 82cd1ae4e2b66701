"""Recall under access control on the embedded server: the cliff itself, the designs without it, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from zeroth_assets.errors import DatabaseError, MeasurementError, QueryError
from zeroth_assets.evaluation import access_recall, access_truth
from zeroth_assets.evaluation.access_grid import Unit, measure_grid
from zeroth_assets.evaluation.access_model import (
    ACCESS_PER_QUERY_SCHEMA,
    ACCESS_SCHEMA,
    CELL_COLUMNS,
    AccessReport,
    Cell,
    plan_cells,
)
from zeroth_assets.evaluation.access_principals import (
    Asked,
    granted_for_measurement,
    spread_queries,
    wide_principals,
)
from zeroth_assets.evaluation.access_probe import open_access_probe, read_plan
from zeroth_assets.evaluation.access_recall import measure_access
from zeroth_assets.evaluation.exact import exact_top_k
from zeroth_assets.evaluation.probe import vector_literal
from zeroth_assets.store.acl import (
    NoTenantError,
    UnknownPrincipalError,
    forget_principal,
    grant,
    list_grants,
    put_grants,
    revoke,
)
from zeroth_assets.store.connect import Database
from zeroth_assets.store.read import read_vectors
from zeroth_assets.store.registry import ensure_chunk_set, list_tenants
from zeroth_assets.store.shared import load_shared
from zeroth_assets_tests.evaluation.access_corpus import (
    CHUNK_SET,
    DIMENSION,
    SIZES,
    load_everything,
    load_one,
    unit_vectors,
)

QUERIES = unit_vectors(25, 99)
QUERY_IDS = tuple(f"q{number:02}" for number in range(len(QUERIES)))
TOTAL = sum(SIZES.values())
SMALL = "t-14"


@pytest.fixture(scope="module")
def db(module_database: Database) -> Database:
    return load_everything(module_database)


def measure(db: Database, principal: str, **more: Any) -> AccessReport:
    arguments: dict[str, Any] = {
        "chunk_set": CHUNK_SET,
        "principal": principal,
        "queries": QUERIES,
        "query_ids": QUERY_IDS,
        "seed": 7,
        "resamples": 100,
    }
    return measure_access(db, **{**arguments, **more})


@pytest.fixture(scope="module")
def small(db: Database) -> AccessReport:
    return measure(db, SMALL, ef_search=(40, 200, 800), ks=(10,))


@pytest.fixture(scope="module")
def everything(db: Database) -> AccessReport:
    return measure(db, "all", ef_search=(40,), ks=(10,))


def at(report: AccessReport, design: str, ef_search: int | None = 40, predicate: bool = True) -> dict[str, Any]:
    found = report.figures.filter(
        design=design, k=10, predicate=predicate, **({} if ef_search is None else {"ef_search": ef_search})
    )
    assert found.height == 1
    return found.row(0, named=True)


def test_the_shared_index_answers_everybody_and_leaves_a_small_tenant_with_nothing(
    small: AccessReport, everything: AccessReport
) -> None:
    cliff, wide = at(small, "shared_postfilter"), at(everything, "shared_postfilter")
    assert wide["recall"] > 0.95
    assert (wide["empty_queries"], wide["rows_mean"]) == (0, 10.0)
    assert cliff["recall"] < 0.1
    assert cliff["empty_queries"] > 10
    assert cliff["short_share"] == 1.0
    assert cliff["expected_survivors"] == pytest.approx(40 * 14 / TOTAL)
    assert cliff["rows_mean"] == pytest.approx(cliff["expected_survivors"], abs=0.5)
    assert at(small, "shared_postfilter", 800)["recall"] > cliff["recall"]


@pytest.mark.parametrize("design", ["partition_hnsw", "partition_exact", "partial_hnsw"])
def test_a_tenant_of_its_own_gets_everything(small: AccessReport, design: str) -> None:
    row = at(small, design, None if design == "partition_exact" else 40)
    assert (row["recall"], row["empty_queries"], row["short_queries"], row["rows_mean"]) == (1.0, 0, 0, 10.0)
    assert row["recall_low"] < 1.0
    assert row["interval_method"] == "wilson"


@pytest.mark.parametrize("design", ["shared_strict", "shared_relaxed"])
def test_an_iterative_scan_goes_on_until_the_rows_are_there(small: AccessReport, design: str) -> None:
    row = at(small, design, predicate=False)
    assert row["recall"] > 0.95
    assert row["removed_rows"] > 1000
    assert row["buffers_hit"] > at(small, "shared_postfilter")["buffers_hit"]


def test_each_figure_names_its_plan_and_what_the_planner_would_have_done(
    db: Database, small: AccessReport, everything: AccessReport
) -> None:
    assert small.figures.schema == ACCESS_SCHEMA
    assert small.per_query.schema == ACCESS_PER_QUERY_SCHEMA
    assert small.withheld == everything.withheld == ()
    tenant = next(t.tenant_id for t in list_tenants(db) if t.tenant_key == SMALL)
    shared, partial = at(small, "shared_postfilter"), at(small, "partial_hnsw")
    assert (shared["plan_node"], shared["index_name"]) == ("Index Scan", "shared_1_hnsw_1")
    assert (partial["plan_node"], partial["index_name"]) == ("Index Scan", f"shared_1_t{tenant}_hnsw")
    assert at(small, "partition_hnsw")["index_name"].startswith(f"chunk_1_t{tenant}_hnsw_")
    assert at(small, "partition_exact", None)["plan_node"] == "Seq Scan"
    assert at(everything, "partition_hnsw")["index_name"] == "8 indexes"
    # With the predicate it goes by the primary key and sorts: exact.
    assert "shared_1_pkey" in shared["planner_choice"]
    assert shared["role"] == "zeroth_app"
    assert (shared["tenants"], shared["tenant"], shared["rows"], shared["total_rows"]) == (1, SMALL, 14, TOTAL)
    assert (everything.figures["tenants"][0], everything.figures["tenant"][0]) == (8, None)
    assert shared["planning_p50_ms"] > 0


@pytest.mark.parametrize("tenant", ["t-300", "t-1400"])
def test_an_exact_search_of_one_partition_is_a_scan_although_the_planner_would_take_its_index(
    db: Database, tenant: str
) -> None:
    report = measure(db, tenant, designs=("partition_exact",), ks=(10,))
    assert report.withheld == ()
    assert report.figures["plan_node"].to_list() == ["Seq Scan", "Seq Scan"]
    assert report.figures["recall"].to_list() == [1.0, 1.0]
    assert "_hnsw_" in at(report, "partition_exact", None)["planner_choice"]


def test_every_cell_is_asked_every_query_once_and_no_row_is_another_tenants(small: AccessReport) -> None:
    counts = small.per_query.group_by(CELL_COLUMNS).agg(pl.len(), pl.col("query_id").n_unique().alias("ids"))
    assert (counts["len"] == counts["ids"]).all()
    joined = small.figures.join(counts, on=CELL_COLUMNS, nulls_equal=True)
    assert joined.height == small.figures.height
    assert (joined["queries"] == joined["len"]).all()
    assert small.cross_tenant_rows == 0


def test_the_policy_alone_gives_the_rows_that_the_predicate_gives(small: AccessReport) -> None:
    for design in ("shared_postfilter", "partition_exact"):
        rows = small.per_query.filter(pl.col("design") == design)
        columns = ("ef_search", "query_id", "recall", "rows")
        assert rows.filter(predicate=True).select(columns).equals(rows.filter(predicate=False).select(columns))


def test_the_partial_index_is_gone_afterwards_unless_it_is_to_be_kept(db: Database) -> None:
    def standing() -> int:
        with db.admin() as connection:
            row = connection.execute(
                "select count(*) from pg_class where relname ~ '^shared_1_t[0-9]+_hnsw$'"
            ).fetchone()
        return int(row[0]) if row else 0

    arguments: dict[str, Any] = {"designs": ("partial_hnsw", "shared_postfilter"), "ef_search": (40,), "ks": (10,)}
    measure(db, SMALL, **arguments, keep_partial_index=True)
    assert standing() == 1
    report = measure(db, SMALL, **arguments)
    assert standing() == 0
    assert at(report, "shared_postfilter")["index_name"] == "shared_1_hnsw_1"


def test_a_row_of_a_tenant_that_was_not_granted_is_counted_wherever_the_policy_lets_it_through(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = access_truth.granted_tenants

    def narrower(db: Database, principal: str) -> dict[int, str]:
        return {i: key for i, key in real(db, principal).items() if key != "t-1400"}

    monkeypatch.setattr(access_recall, "granted_tenants", narrower)
    report = measure(db, "all", designs=("shared_postfilter",), ef_search=(40,), ks=(10,))
    assert report.cross_tenant_rows > len(QUERIES)


def test_equal_distances_at_the_edge_count_whichever_row_came(fresh_database: Database) -> None:
    db = load_everything(fresh_database)
    twins = np.repeat(unit_vectors(2, 5), 20, axis=0)
    load_one(db, "twins", twins)
    load_shared(db, CHUNK_SET)
    report = measure(db, "twins", queries=unit_vectors(2, 5), query_ids=("a", "b"), ef_search=(40,), ks=(10,))
    for design in ("partition_exact", "partition_hnsw"):
        assert report.figures.filter(design=design)["recall"].to_list() == [1.0, 1.0]


def test_truth_is_what_numpy_finds_among_the_rows_of_the_principal_alone(db: Database) -> None:
    """The same recall as computed here by ids from a plain top-10."""
    report = measure(db, "t-700", designs=("shared_postfilter",), ef_search=(20,), ks=(10,))
    stored = read_vectors(db, CHUNK_SET, "t-700", DIMENSION)
    best = exact_top_k(stored.vectors, stored.chunk_ids, QUERIES, 10).ids
    target = ensure_chunk_set(db, CHUNK_SET, DIMENSION)
    cell = Cell("shared_postfilter", 20, 10, True)
    with (
        db.app() as connection,
        open_access_probe(
            connection, chunk_set=target, cell=cell, principal="t-700", tenant_ids=[int(stored.tenant_ids[0])]
        ) as probe,
    ):
        answers = [probe.ask(vector_literal(query)) for query in QUERIES]
    wanted = [len(set(ids) & set(a.chunk_ids.tolist())) / 10 for ids, a in zip(best.tolist(), answers, strict=True)]
    assert report.per_query.filter(predicate=True)["recall"].to_list() == wanted
    assert 0 < float(np.mean(wanted)) < 1


REFUSED = [
    ({"principal": "nobody"}, UnknownPrincipalError, "unknown"),
    ({"ks": (0,)}, MeasurementError, "out of range"),
    ({"ks": ()}, MeasurementError, "out of range"),
    ({"ef_search": (1001,)}, MeasurementError, "out of range"),
    ({"designs": ("magic",)}, MeasurementError, "out of range"),
    ({"ks": (50,)}, MeasurementError, "Nothing of"),
    ({"queries": unit_vectors(25, 1, 23)}, QueryError, "do not fit"),
    ({"queries": np.full_like(QUERIES, np.nan)}, QueryError, "not finite"),
    ({"queries": QUERIES * np.float32(1.1)}, QueryError, "not of unit norm"),
    ({"queries": np.zeros_like(QUERIES)}, QueryError, "not of unit norm"),
    ({"queries": QUERIES[:0], "query_ids": ()}, QueryError, "do not fit"),
    ({"query_ids": ("q",) * len(QUERIES)}, QueryError, "ids of their own"),
    ({"fingerprint_digest": "0" * 64}, MeasurementError, "not embedded as"),
    ({"chunk_set": "unknown"}, DatabaseError, "not in the database"),
]


@pytest.mark.parametrize(("wrong", "error", "message"), REFUSED)
def test_what_cannot_be_measured_is_refused(
    db: Database, wrong: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        measure(db, **{"principal": SMALL, "ef_search": (40,), **wrong})


def test_a_principal_whose_grants_were_revoked_has_no_tenant(db: Database) -> None:
    grant(db, "guest", [SMALL])
    revoke(db, "guest")
    with pytest.raises(NoTenantError, match="has no tenant"):
        measure(db, "guest")
    forget_principal(db, "guest")


def test_a_shared_index_that_is_not_the_live_builds_is_not_measured_and_the_partitions_are(
    fresh_database: Database,
) -> None:
    db = load_everything(fresh_database)
    load_one(db, SMALL, unit_vectors(15, 70))
    with pytest.raises(MeasurementError, match=r"not the tenants' live builds.*t-14"):
        measure(db, "t-30")
    report = measure(db, "t-30", designs=("partition_hnsw", "partition_exact"), ef_search=(40,), ks=(10,))
    assert report.figures["recall"].min() == 1.0

    def meddle(done: int, total: int) -> None:
        if done == total:
            load_one(db, "t-30", unit_vectors(31, 71))

    with pytest.raises(MeasurementError, match="changed while"):
        measure(db, "t-30", designs=("partition_exact",), ks=(10,), progress=meddle)


def test_dead_rows_that_somebody_keeps_alive_withhold_the_figures(fresh_database: Database) -> None:
    db = load_everything(fresh_database)
    with db.admin() as reader:
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select count(*) from zeroth.tenant")
        load_one(db, SMALL, unit_vectors(14, 70))
        with pytest.raises(MeasurementError, match="dead rows"):
            measure(db, SMALL, designs=("partition_hnsw",), ks=(10,))


def test_a_grid_that_lost_its_server_goes_on_where_it_was_with_no_figure_twice(db: Database, tmp_path: Path) -> None:
    units = [Unit(name, Asked(QUERY_IDS[:9], QUERIES[:9])) for name in ("t-6", SMALL, "t-30")]
    begun: list[str] = []

    def run(**more: Any) -> AccessReport:
        return measure_grid(
            db,
            units,
            chunk_set=CHUNK_SET,
            seed=7,
            folder=tmp_path,
            ef_search=(40,),
            ks=(5,),
            resamples=100,
            on_unit=begun.append,
            **more,
        )

    def cut(done: int, total: int) -> None:
        if begun == ["t-6", SMALL] and done == 3:
            with db.admin(autocommit=True) as connection:
                connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity where usename in ('zeroth_app',"
                    " 'zeroth_loader') and datname = current_database()"
                )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "zeroth_assets.evaluation.access_grid.measure_access",
            lambda *a, **k: measure_access(*a, **{**k, "progress": cut}),
        )
        with pytest.raises(DatabaseError, match="measuring"):
            run()
    assert begun == ["t-6", SMALL]
    begun.clear()
    report = run()
    assert begun == [SMALL, "t-30"]
    assert not report.figures.select("principal", *CELL_COLUMNS).is_duplicated().any()
    assert report.figures["principal"].unique(maintain_order=True).to_list() == ["t-6", SMALL, "t-30"]
    begun.clear()
    assert run().figures.equals(report.figures)
    assert begun == []
    with pytest.raises(MeasurementError, match="twice"):
        measure_grid(db, [units[0]] * 2, chunk_set=CHUNK_SET, seed=7, folder=tmp_path)


def test_the_grid_leaves_out_what_cannot_differ_and_says_why() -> None:
    plan = plan_cells(tenants=1, rows=600)
    assert len(plan.cells) == len(set(plan.cells))
    assert {c.ef_search for c in plan.cells if c.design == "partition_exact"} == {None}
    assert not [
        c for c in plan.cells if c.design in ("shared_postfilter", "partition_hnsw") and c.k > (c.ef_search or 99)
    ]
    assert {c.predicate for c in plan.cells if c.design == "partial_hnsw"} == {True}
    assert sum(c.design == "shared_postfilter" for c in plan.cells) == 2 * (5 + 4)
    wide = plan_cells(tenants=138, rows=50_000)
    assert not [c for c in wide.cells if c.design == "partial_hnsw"]
    assert {"exact", "partial_many", "partition_many"} <= set(wide.left_out)
    assert "k_above_rows" in plan_cells(tenants=1, rows=49).left_out


def test_wide_principals_are_granted_what_they_are_said_to_be_for_as_long_as_it_takes(db: Database) -> None:
    chosen = wide_principals(SIZES, seed=3)
    assert [p.name for p in chosen] == ["measure.3-tenants", "measure.all-but-one", "all"]
    assert [len(p.tenant_keys) for p in chosen] == [3, 7, 8]
    assert "t-1400" not in chosen[1].tenant_keys
    before = list_grants(db)
    put_grants(db, "measure.3-tenants", [SMALL, "t-6"])  # as a killed run leaves it
    with granted_for_measurement(db, chosen):
        report = measure(db, "measure.3-tenants", designs=("partition_exact",), ks=(10,))
        assert report.figures["tenants"].to_list() == [3, 3]
        assert report.figures["rows"][0] == sum(SIZES[key] for key in chosen[0].tenant_keys)
    assert list_grants(db) == before


def test_wide_principals_ask_in_turns_of_one_query_per_tenant() -> None:
    of = {t: Asked(tuple(f"{t}:{i}" for i in range(5)), unit_vectors(5, n)) for n, t in enumerate(("a", "b", "c"))}
    asked = spread_queries(of, ["a", "b", "gone"], n=5, seed=1)
    assert sorted(i.split(":")[0] for i in asked.query_ids) == ["a", "a", "b", "b", "b"] or sorted(
        i.split(":")[0] for i in asked.query_ids
    ) == ["a", "a", "a", "b", "b"]
    assert spread_queries(of, ["b", "a"], n=5, seed=1).query_ids == asked.query_ids
    for name, vector in zip(asked.query_ids, asked.vectors, strict=True):
        tenant, place = name.split(":")
        assert np.array_equal(vector, of[tenant].vectors[int(place)])
    with pytest.raises(MeasurementError, match="no queries"):
        spread_queries(of, ["gone"], n=5, seed=1)


def test_a_policys_own_scan_is_no_scan_of_the_plan() -> None:
    node = {"Node Type": "Seq Scan", "Plan Rows": 5}
    plan = {"Node Type": "Limit", "Plans": [{**node, "Parent Relationship": "InitPlan"}, {**node, "Plan Rows": 7}]}
    found = read_plan({"Plan": plan})
    assert (found.scans, found.estimated_rows, found.actual_rows, str(found)) == (1, 7.0, None, "Seq Scan")
