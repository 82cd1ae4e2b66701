from __future__ import annotations

import dataclasses
from typing import Any

import polars as pl
import pytest

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.golden.model import SPAN_SCHEMA
from zeroth_assets.evaluation.retrieval_arms import RETRIEVERS, arm_key, askable, asks, split_arm
from zeroth_assets.evaluation.retrieval_figures import (
    ALL,
    FIGURE_SCHEMA,
    FIGURES,
    About,
    figures,
    per_query,
    without_interval,
)
from zeroth_assets.evaluation.retrieval_spans import SPANNED, Truth
from zeroth_assets_tests.evaluation.golden import builders

ABOUT = About("fixed_512", "bm25", "c", "g", seed=1, resamples=100)


def queries(*rows: tuple[str, bool]) -> pl.DataFrame:
    return pl.DataFrame(
        [(name, answerable, "single_chunk", name) for name, answerable in rows],
        schema={"query_id": pl.String, "answerable": pl.Boolean, "category": pl.String, "group": pl.String},
        orient="row",
    )


def runs(*rows: tuple[str, str, str, list[str]]) -> pl.DataFrame:
    names: dict[str, Any] = dict.fromkeys(("query_id", "role", "principal"), pl.String)
    return pl.DataFrame(rows, schema={**names, "ranking": pl.List(pl.String)}, orient="row")


def qrels(*rows: tuple[str, str, int, str]) -> pl.DataFrame:
    schema = {"query_id": pl.String, "document_id": pl.String, "grade": pl.Int64, "tenant": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def value(table: pl.DataFrame, query: str, metric: str, role: str = "unrestricted") -> float:
    return float(table.filter((pl.col("query_id") == query) & (pl.col("role") == role))[metric].item())


def test_an_empty_answer_counts_as_zero_and_is_not_left_out() -> None:
    table = per_query(
        runs(("a", "unrestricted", "all", ["1"]), ("b", "unrestricted", "all", [])),
        queries(("a", True), ("b", True)),
        qrels(("a", "1", 3, "t"), ("b", "1", 3, "t")),
    )
    assert (value(table, "a", "success@5"), value(table, "b", "success@5")) == (1.0, 0.0)
    row = (
        figures(table, ABOUT).filter((pl.col("metric") == "success@5") & (pl.col("category") == ALL)).row(0, named=True)
    )
    assert (row["value"], row["n"]) == (0.5, 2)


def test_a_query_without_an_answer_is_in_no_figure() -> None:
    table = per_query(
        runs(("a", "unrestricted", "all", ["1"]), ("b", "unrestricted", "all", ["1"])),
        queries(("a", True), ("b", False)),
        qrels(("a", "1", 3, "t")),
    )
    assert table["query_id"].to_list() == ["a"]


def test_an_answer_that_no_chunk_holds_counts_as_zero_and_is_marked() -> None:
    table = per_query(
        runs(("a", "unrestricted", "all", ["1"]), ("b", "unrestricted", "all", ["2"])),
        queries(("a", True), ("b", True)),
        qrels(("a", "1", 3, "t"), ("b", "2", 1, "t")),
    )
    assert table.select("query_id", "unreachable").rows() == [("a", False), ("b", True)]
    assert value(table, "b", "recall@10") == 0.0


def test_what_a_principal_may_not_see_is_no_loss_of_the_retrievers() -> None:
    """The better chunk lies with another tenant: asked as `t`, the one that may be seen is all that there is."""
    grades = qrels(("a", "1", 2, "t"), ("a", "9", 3, "other"))
    asked = runs(("a", "single_tenant", "t", ["1"]), ("a", "unrestricted", "all", ["1"]))
    table = per_query(asked, queries(("a", True)), grades)
    assert value(table, "a", "ndcg_exponential@10", "single_tenant") == 1.0
    assert value(table, "a", "recall@10", "unrestricted") == 0.5


def test_the_order_of_the_ranking_is_the_order_that_is_judged() -> None:
    grades = qrels(("a", "1", 3, "t"), ("a", "2", 0, "t"))
    first = per_query(runs(("a", "unrestricted", "all", ["1", "2"])), queries(("a", True)), grades)
    last = per_query(runs(("a", "unrestricted", "all", ["2", "1"])), queries(("a", True)), grades)
    assert value(first, "a", "reciprocal_rank@10") == 1.0
    assert value(last, "a", "reciprocal_rank@10") == 0.5


def test_nothing_to_measure_is_refused_with_the_reason() -> None:
    with pytest.raises(MeasurementError, match="nothing to measure"):
        per_query(runs(), queries(), qrels())


def test_every_figure_has_its_definition_its_n_and_an_interval_or_says_why_not() -> None:
    asked = [(f"q{i}", "unrestricted", "all", ["1"] if i % 3 else ["2"]) for i in range(12)]
    table = per_query(
        runs(*asked), queries(*((q[0], True) for q in asked)), qrels(*((q[0], "1", 3, "t") for q in asked))
    )
    made = figures(table, ABOUT)
    assert made.schema == FIGURE_SCHEMA
    assert set(made["metric"]) == set(FIGURES) - set(SPANNED)
    assert made["definition"].null_count() == 0
    assert without_interval(made).is_empty()
    spoiled = made.with_columns(low=pl.lit(None, pl.Float64), warning=pl.lit(None, pl.String))
    assert without_interval(spoiled).height == made.height


def test_queries_of_one_group_are_one_unit() -> None:
    asked = [(f"q{i}", "unrestricted", "all", ["1"]) for i in range(8)]
    grouped = queries(*((q[0], True) for q in asked)).with_columns(group=pl.Series([f"g{i // 2}" for i in range(8)]))
    mixed = [(q[0], "1" if i % 2 else "2", 3, "t") for i, q in enumerate(asked)]
    made = figures(per_query(runs(*asked), grouped, qrels(*mixed)), ABOUT)
    assert set(made["n"]) == {8}
    assert set(made["units"]) == {4}


def test_an_arms_key_comes_apart_again() -> None:
    for name in RETRIEVERS:
        assert split_arm(arm_key("section_aware", name)) == ("section_aware", name)


def span(query: str, part: int, document: str) -> tuple[object, ...]:
    return (query, part, document, "v", 0, 1, "x", 3, "quoted")


def test_who_asks_what() -> None:
    told = pl.DataFrame(
        [
            ("q:home", "corpus", None, True, ["d1"], None),
            ("q:apart", "corpus", None, True, ["d1", "d2"], None),
            ("q:scoped", "corpus", "t2", False, ["d1"], None),
            ("q:nothing", "corpus", None, False, [], None),
            ("q:absent", "corpus", None, False, ["d2"], None),
            ("q:inside", "document", None, True, ["d1"], "d1"),
            ("q:elsewhere", "document", None, True, ["d9"], "d9"),
        ],
        schema={
            "query_id": pl.String,
            "scope": pl.String,
            "asker": pl.String,
            "answerable": pl.Boolean,
            "about": pl.List(pl.String),
            "document_id": pl.String,
        },
        orient="row",
    )
    # q:home has an alternative elsewhere; q:apart needs a part of each tenant.
    rows = [span("q:home", 0, "d1"), span("q:home", 0, "d2"), span("q:apart", 0, "d1"), span("q:apart", 1, "d2")]
    spans = pl.DataFrame(rows, schema=SPAN_SCHEMA, orient="row")
    asked = asks(told, spans, {"d1": "t1", "d2": "t2"}, "all")
    assert set(asked.rows()) == {
        ("q:home", "unrestricted", "all"),
        ("q:apart", "unrestricted", "all"),
        ("q:nothing", "unrestricted", "all"),
        ("q:absent", "unrestricted", "all"),
        ("q:home", "single_tenant", "t1"),
        ("q:scoped", "single_tenant", "t2"),
        ("q:absent", "single_tenant", "t2"),
        ("q:inside", "named_document", "t1"),
    }


def test_a_question_of_two_parts_of_which_one_is_found_is_half_answered() -> None:
    text = "x" * 1000
    cut = builders.chunks([(i, "rfc:1", 100 * i, 100 * i + 100) for i in range(10)])
    spans = builders.spans(
        builders.span("a", "rfc:1", 10, 20, text), builders.span("a", "rfc:1", 310, 320, text, part=1)
    )
    asked = runs(("q:a", "unrestricted", "all", ["0", "7"]), ("q:b", "unrestricted", "all", ["7"]))
    grades = qrels(("q:a", "0", 3, "t"), ("q:a", "3", 3, "t"), ("q:b", "1", 3, "t"))
    table = per_query(asked, queries(("q:a", True), ("q:b", True)), grades, Truth.of(spans, cut))
    assert (value(table, "q:a", "parts_found@10"), value(table, "q:a", "all_parts@10")) == (0.5, 0.0)
    assert value(table, "q:a", "success@5") == 1.0, "one hit counts, and does not answer"
    assert value(table, "q:a", "span_recall@5") == 0.5
    assert value(table, "q:b", "span_recall@5") == 0.0, "a query without spans here found nothing of them"
    assert set(figures(table, ABOUT)["metric"]) == set(FIGURES)


def test_a_chunk_that_nobody_graded_is_passed_over_by_bpref_alone() -> None:
    grades = qrels(("a", "1", 3, "t"), ("a", "2", 0, "t"))
    table = per_query(runs(("a", "unrestricted", "all", ["9", "1", "2"])), queries(("a", True)), grades)
    assert value(table, "a", "bpref@50") == 1.0
    assert value(table, "a", "reciprocal_rank@10") == 0.5
    assert value(table, "a", "judged@10") == pytest.approx(2 / 3)


def test_what_came_back_empty_has_no_share_that_is_judged_and_counts_as_zero_elsewhere() -> None:
    table = per_query(
        runs(
            ("a", "unrestricted", "all", ["1"]),
            ("b", "unrestricted", "all", []),
            ("c", "single_tenant", "t", ["9"]),
            ("d", "single_tenant", "u", []),
        ),
        queries(("a", True), ("b", True), ("c", True), ("d", True)),
        qrels(*((name, "1", 3, "t") for name in "abcd")),
    )
    made = figures(table, ABOUT).filter(pl.col("category") == ALL)

    def figure(role: str, metric: str) -> tuple[float, int]:
        row = made.filter((pl.col("role") == role) & (pl.col("metric") == metric)).row(0, named=True)
        assert row["query_ids"] is not None
        assert len(row["query_ids"]) == len(row["values"]) == row["n"]
        return row["value"], row["n"]

    assert figure("unrestricted", "judged@10") == (1.0, 1)
    assert figure("unrestricted", "success@10") == (0.5, 2)
    assert figure("single_tenant", "judged@10") == (0.0, 1)
    empty = figures(table.filter(pl.col("query_id") == "d"), ABOUT).filter(pl.col("metric") == "judged@10")
    assert (empty["value"].item(), empty["n"].item()) == (None, 0)
    assert without_interval(empty).is_empty()
    assert "nothing came back" in empty["warning"].item()


def test_a_figure_tells_how_many_of_its_grades_are_a_models_and_what_that_is_worth() -> None:
    rows = qrels(("a", "1", 3, "t"), ("a", "2", 0, "t"), ("b", "1", 3, "t"))
    by = pl.Series("judged_by", ["drafted span", "model j@1", "drafted span"])
    table = per_query(
        runs(("a", "unrestricted", "all", ["1"]), ("b", "single_tenant", "t", ["1"])),
        queries(("a", True), ("b", True)),
        rows.with_columns(by),
    )
    made = figures(table, dataclasses.replace(ABOUT, judge="j@1, kappa 0.7")).filter(pl.col("metric") == "success@5")
    shown = made.filter(pl.col("category") == ALL).select("role", "grades", "model_grades", "judge").rows()
    assert sorted(shown) == [("single_tenant", 1, 0, None), ("unrestricted", 2, 1, "j@1, kappa 0.7")]


def test_questions_about_what_is_not_indexed_yet_wait() -> None:
    told = pl.DataFrame(
        [("q:here", True, ["d1"], "t1"), ("q:half", True, ["d1", "d9"], None), ("q:other", True, ["d9"], None),
         ("q:nothing", False, ["d9"], None), ("q:absent", False, ["d1"], None), ("q:nowhere", False, [], None),
         ("q:stranger", False, [], "t9")],
        schema={"query_id": pl.String, "answerable": pl.Boolean, "about": pl.List(pl.String), "asker": pl.String},
        orient="row",
    )  # fmt: skip
    rows = [
        span("q:here", 0, "d1"), span("q:here", 0, "d9"), span("q:half", 0, "d1"), span("q:half", 1, "d9"),
        span("q:other", 0, "d9"),
    ]  # fmt: skip
    spans = pl.DataFrame(rows, schema=SPAN_SCHEMA, orient="row")
    asked, waiting = askable(told, spans, {"d1": "t1", "d2": "t2"})
    assert asked["query_id"].to_list() == ["q:here", "q:absent", "q:nowhere"]
    assert waiting["query_id"].to_list() == ["q:half", "q:other", "q:nothing", "q:stranger"]
