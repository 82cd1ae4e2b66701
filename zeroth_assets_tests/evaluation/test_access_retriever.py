"""The dense retriever as a design of its own: what it gives each principal, whose rows, and how long beside the shared
index."""

from __future__ import annotations

import dataclasses
from typing import Any

import polars as pl
import pytest

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.access_grid import Unit
from zeroth_assets.evaluation.access_latency import against_shared, latency_table
from zeroth_assets.evaluation.access_model import RETRIEVER, AccessReport
from zeroth_assets.evaluation.access_principals import Asked, granted_for_measurement, wide_principals
from zeroth_assets.evaluation.access_report import access_table, compare_designs, verdict
from zeroth_assets.evaluation.access_retriever import measure_retriever
from zeroth_assets.search.dense import DenseRetriever
from zeroth_assets.store.connect import Database
from zeroth_assets_tests.evaluation.access_corpus import CHUNK_SET, load_everything, unit_vectors

SIZES = {"t-6": 6, "t-14": 14, "t-30": 30, "t-120": 120}
QUERIES = unit_vectors(12, 98)
QUERY_IDS = tuple(f"q{number:02}" for number in range(len(QUERIES)))
WIDE = wide_principals(SIZES, seed=7)
THREE = WIDE[0]


@pytest.fixture(scope="module")
def db(module_database: Database) -> Database:
    return load_everything(module_database, SIZES)


def measure(db: Database, principal: str, **more: Any) -> AccessReport:
    arguments: dict[str, Any] = {"ks": (10,), "costs": None, "seed": 7, "resamples": 100}
    return measure_retriever(
        db, chunk_set=CHUNK_SET, principal=principal, queries=QUERIES, query_ids=QUERY_IDS, **{**arguments, **more}
    )


def test_the_retriever_gives_a_tenant_several_and_all_what_exact_search_gives(db: Database) -> None:
    with granted_for_measurement(db, WIDE):
        for principal in ("t-14", THREE.name, "all"):
            report = measure(db, principal)
            assert verdict(report).problems == ()
            for row in report.figures.iter_rows(named=True):
                assert (row["design"], row["recall"], row["empty_queries"], row["short_queries"]) == (
                    RETRIEVER,
                    1,
                    0,
                    0,
                )
                assert row["plan_node"].startswith("exact over")
            assert report.figures["predicate"].to_list() == [False, True]
            assert report.per_query.height == 2 * len(QUERIES)


def test_where_there_are_fewer_rows_than_k_there_is_no_figure(db: Database) -> None:
    assert measure(db, "t-6").figures.is_empty()
    assert measure(db, "t-6", ks=(5, 10)).figures["k"].unique().to_list() == [5]


def test_an_answer_that_is_short_and_does_not_say_so_is_no_figure(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = DenseRetriever.search

    def cut(self: DenseRetriever, *arguments: Any, **named: Any) -> Any:
        result = search(self, *arguments, **named)
        return dataclasses.replace(result, candidates=result.candidates[:9])

    monkeypatch.setattr(DenseRetriever, "search", cut)
    with pytest.raises(MeasurementError, match="did not say so"):
        measure(db, "t-14")


def test_the_table_and_the_times_hold_a_row_of_the_retriever(db: Database) -> None:
    asked = Asked(QUERY_IDS[:3], QUERIES[:3])
    units = [Unit("t-120", asked), Unit(THREE.name, asked)]
    with (
        granted_for_measurement(db, WIDE),
        DenseRetriever(db, CHUNK_SET, fingerprint_digest=None, for_measurement=True) as retriever,
    ):
        report = measure(db, "t-120")
        times = against_shared(db, retriever, units, lambda done, total: None)
    assert "dense retriever" in access_table(compare_designs(report.figures, seed=7))
    single, several = times.sort("tenants").iter_rows(named=True)
    assert (single["shared_ef_search"], single["shared_recall"], single["queries"]) == (40, None, 3)
    assert several["shared_recall"] == 1.0
    assert times.select(pl.col("retriever_p50_ms", "shared_p50_ms").min() > 0).row(0) == (True, True)
    table = latency_table(times)
    assert "1 single tenants" in table
    assert "3 tenants" in table
