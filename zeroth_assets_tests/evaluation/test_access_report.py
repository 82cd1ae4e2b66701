"""Table, finding, verdict and pictures from a frame of figures."""

from __future__ import annotations

import dataclasses
import struct
from typing import Any

import polars as pl
import pytest

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.access_model import (
    ACCESS_PER_QUERY_SCHEMA,
    ACCESS_SCHEMA,
    LEFT_OUT,
    AccessReport,
    merge_reports,
    plan_cells,
)
from zeroth_assets.evaluation.access_plots import (
    plot_empty_answers,
    plot_latency,
    plot_recall_by_ef,
    plot_recall_by_share,
)
from zeroth_assets.evaluation.access_report import (
    COMPARISON_SCHEMA,
    SINGLE,
    access_summary,
    access_table,
    compare_designs,
    headline_rows,
    seed_finding,
    verdict,
)

ROWS = {"all": 10_000, "a": 20, "b": 200, "c": 2_000}


def report_of(principal: str) -> AccessReport:
    """Figures as they would be: behind the shared index a tenant recalls ef_search x share of its ten, else all."""
    tenants, share = (3 if principal == "all" else 1), ROWS[principal] / ROWS["all"]
    plan = plan_cells(tenants=tenants, rows=ROWS[principal])
    figures, per_query = [], []
    for cell in plan.cells:
        filtered = cell.design == "shared_postfilter"
        recall = min(1.0, (cell.ef_search or 0) * share / cell.k) if filtered else 1.0
        asked = cell.queries or 50
        empty = int(50 * (1 - recall)) if filtered and principal != "all" else 0
        row: dict[str, Any] = dict.fromkeys(ACCESS_SCHEMA, None)
        row |= {
            "chunk_set": "fixed_512", "principal": principal, "tenants": tenants, "rows": ROWS[principal],
            "tenant": None if tenants > 1 else principal, "total_rows": ROWS["all"], "share": share,
            "design": cell.design, "ef_search": cell.ef_search, "k": cell.k, "predicate": cell.predicate,
            "queries": asked, "recall": recall, "recall_low": max(0.0, recall - 0.1),
            "recall_high": min(1.0, recall + 0.1),
            "rows_mean": recall * cell.k, "short_queries": 0, "short_share": 1 - recall, "empty_queries": empty,
            "cross_tenant_rows": 0, "latency_p50_ms": 1.5, "latency_p95_ms": 2.5, "latency_p99_ms": 3.0,
            "planning_p50_ms": 0.1, "buffers_hit": 900.0, "buffers_read": 0.0, "plan_node": "Index Scan", "scans": 1,
            "explained": 3, "role": "zeroth_app", "seed": 1, "resamples": 100,
        }  # fmt: skip
        figures.append(row)
        per_query.append(
            pl.DataFrame(
                {name: [row.get(name)] * asked for name in ACCESS_PER_QUERY_SCHEMA}
            ).with_columns(query_id=pl.Series([f"q{n}" for n in range(asked)]), rows=pl.lit(10))
        )  # fmt: skip
    frame = pl.concat([one.cast(ACCESS_PER_QUERY_SCHEMA) for one in per_query])
    return AccessReport(pl.DataFrame(figures, schema=ACCESS_SCHEMA), frame, plan.left_out)


@pytest.fixture(scope="module")
def report() -> AccessReport:
    return merge_reports([report_of(principal) for principal in ROWS])


@pytest.fixture(scope="module")
def comparison(report: AccessReport) -> pl.DataFrame:
    return compare_designs(report.figures, seed=1, resamples=100)


def test_single_tenants_count_once_each_and_the_worst_is_named(comparison: pl.DataFrame) -> None:
    assert comparison.schema == COMPARISON_SCHEMA
    row = comparison.filter(scope=SINGLE, design="shared_postfilter", ef_search=40, k=10, predicate=False).row(
        0, named=True
    )
    assert row["principals"] == 3
    assert row["recall"] == pytest.approx((0.008 + 0.08 + 0.8) / 3)
    assert (row["worst_principal"], row["worst_recall"]) == ("a", pytest.approx(0.008))
    assert row["empty_queries"] == 49 + 46 + 9


def test_the_finding_is_stated_with_its_numbers(report: AccessReport, comparison: pl.DataFrame) -> None:
    finding = seed_finding(comparison, report.figures)
    assert finding.unrestricted.recall == (1.0,) * 5
    assert finding.unrestricted.plateau == 40
    assert finding.restricted.recall == pytest.approx(
        tuple(sum(min(1, ef * s / 10) for s in (0.002, 0.02, 0.2)) / 3 for ef in (40, 100, 200, 400, 800))
    )
    assert (finding.restricted.rising, finding.restricted.plateau) == (True, 800)
    assert (finding.tenants, finding.queries, finding.tenants_below_half, finding.exact_empty) == (3, 150, 2, 0)
    for told in ("recovers 1.000", "on average 0.296", "104 of their 150 queries return nothing", "the worst 0.008"):
        assert told in finding.text
    assert "a plateau from 40 on" in finding.text
    assert "still rising" in finding.text


def test_without_the_principal_of_everything_there_is_no_finding(
    report: AccessReport, comparison: pl.DataFrame
) -> None:
    with pytest.raises(MeasurementError, match="cannot be stated"):
        seed_finding(comparison, report.figures.filter(tenants=1))
    with pytest.raises(MeasurementError, match="cannot be stated"):
        seed_finding(comparison, report.figures, ef_search=41)


def test_the_table_has_a_row_per_scope_and_design_asked_of_every_query(comparison: pl.DataFrame) -> None:
    rows = headline_rows(comparison)
    assert rows.select("scope", "design").is_unique().all()
    assert rows.filter(scope=SINGLE).height == 6
    assert rows.filter(scope="all").height == 5
    assert rows.filter(scope=SINGLE)["queries"].to_list() == [150] * 6
    table = access_table(comparison)
    lines = table.splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert len(lines) == 2 + 11
    assert "partition per tenant, HNSW" in table
    assert "0 of 150" in table


def test_the_summary_holds_finding_table_and_reasons(report: AccessReport) -> None:
    text = access_summary(report, seed=1, left_out=[LEFT_OUT[reason] for reason in report.left_out])
    assert "| who asks |" in text
    assert "an exact scan has no ef_search" in text


def test_figures_that_are_what_they_claim_stand(report: AccessReport) -> None:
    assert verdict(report).ok
    assert verdict(dataclasses.replace(report, withheld=("a: other plan",))).warnings == ("a: other plan",)


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [("cross_tenant_rows", 1, "not granted"), ("role", "postgres", "not zeroth_app"), ("explained", 0, "no plan"),
     ("recall_low", 1.0, "no interval")],
)  # fmt: skip
def test_one_figure_that_is_not_what_it_claims_is_a_problem(
    report: AccessReport, column: str, value: object, told: str
) -> None:
    spoiled = report.figures.with_columns(
        pl.when(pl.int_range(pl.len()) == 5).then(pl.lit(value)).otherwise(pl.col(column)).alias(column),
        **({"recall_high": pl.lit(1.0)} if column == "recall_low" else {}),
    )
    assert any(told in problem for problem in verdict(dataclasses.replace(report, figures=spoiled)).problems)


def test_rows_that_depend_on_the_predicate_are_a_problem(report: AccessReport) -> None:
    spoiled = report.per_query.with_columns(
        rows=pl.when(pl.col("predicate") & (pl.col("query_id") == "q3")).then(9).otherwise("rows")
    )
    assert "by the policy alone" in verdict(dataclasses.replace(report, per_query=spoiled)).problems[0]
    assert verdict(AccessReport(ACCESS_SCHEMA.to_frame(), ACCESS_PER_QUERY_SCHEMA.to_frame())).problems


def test_the_pictures_are_small_png_files_and_the_same_each_time(
    report: AccessReport, comparison: pl.DataFrame
) -> None:
    pictures = [
        plot_recall_by_share(report.figures),
        plot_recall_by_ef(comparison),
        plot_empty_answers(comparison),
        plot_latency(comparison),
    ]
    for picture in pictures:
        assert picture[:8] == b"\x89PNG\r\n\x1a\n"
        assert len(picture) < 150_000
        width, height = struct.unpack(">II", picture[16:24])
        assert 600 < width < 1300
        assert 300 < height < 900
    assert plot_latency(comparison) == pictures[3]
    assert pictures[0] != plot_recall_by_share(report.figures, ef_search=800)


def test_nothing_is_drawn_of_nothing(report: AccessReport, comparison: pl.DataFrame) -> None:
    for draw in (plot_recall_by_ef, plot_empty_answers, plot_latency):
        with pytest.raises(MeasurementError, match="nothing to draw"):
            draw(comparison, k=11)
    with pytest.raises(MeasurementError, match="nothing to draw"):
        plot_recall_by_share(report.figures.filter(pl.col("tenants") > 1))
