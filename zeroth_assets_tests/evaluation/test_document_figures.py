from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.document_figures import (
    DOCUMENT_FIGURES,
    DOCUMENT_HEADLINE,
    document_figures,
    document_runs,
    headline_of,
)
from zeroth_assets.evaluation.retrieval_figures import FIGURE_SCHEMA, HEADLINE, About

ABOUT = About("fixed_512", "bm25", "corpus", "golden", seed=1, resamples=100)
# Document a has two chunks, b and c one each.
CHUNKS = pl.DataFrame({"chunk_id": [1, 2, 3, 4], "document_id": ["a", "a", "b", "c"]})
QRELS = pl.DataFrame(
    [("q:x/1", "a", 2), ("q:x/1", "c", 1), ("q:x/2", "b", 1), ("q:x/2", "gone", 1), ("q:x/3", "a", 0)],
    schema={"query_id": pl.String, "document_id": pl.String, "grade": pl.Int64},
    orient="row",
)
QUERIES = pl.DataFrame(
    {
        "query_id": ["q:x/1", "q:x/2", "q:x/3", "q:own"],
        "category": ["imported"] * 3 + ["single_chunk"],
        "group": ["g1", "g2", "g3", "g4"],
    }
)


def runs(**rankings: list[str]) -> pl.DataFrame:
    rows = [(f"q:x/{name[1:]}", "unrestricted", len(found), found) for name, found in rankings.items()]
    rows.append(("q:own", "unrestricted", 1, ["1"]))
    rows.append(("q:x/1", "single_tenant", 1, ["3"]))
    schema: dict[str, Any] = {
        "query_id": pl.String,
        "role": pl.String,
        "returned": pl.Int64,
        "ranking": pl.List(pl.String),
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def values(table: pl.DataFrame, metric: str) -> dict[str, float]:
    row = table.row(by_predicate=pl.col("metric") == metric, named=True)
    return dict(zip(row["query_ids"], row["values"], strict=True))


def test_figures_are_of_documents_by_their_best_chunk_and_linear_in_the_grade() -> None:
    # Query 1: b, a, c; query 2 finds nothing; query 3 has no relevant document.
    table = document_figures(runs(_1=["3", "2", "1", "4"], _2=[], _3=["1"]), QUERIES, QRELS, CHUNKS, ABOUT, kept=50)
    assert table.schema == FIGURE_SCHEMA
    assert set(table["metric"]) == set(DOCUMENT_FIGURES)
    assert (set(table["n"]), set(table["unreachable"]), set(table["role"])) == ({3}, {1}, {"unrestricted"})
    gain = 2 / math.log2(3) + 1 / math.log2(4)
    found = values(table, DOCUMENT_HEADLINE)
    assert found == pytest.approx({"q:x/1": gain / (2 + 1 / math.log2(3)), "q:x/2": 0.0, "q:x/3": 0.0})
    assert values(table, "document_recall@100") == {"q:x/1": 1.0, "q:x/2": 0.0, "q:x/3": 0.0}
    assert values(table, "document_reciprocal_rank@10")["q:x/1"] == 0.5


def test_a_document_that_is_not_in_the_corpus_still_counts_as_missed() -> None:
    table = document_figures(runs(_1=["1"], _2=["3"], _3=[]), QUERIES, QRELS, CHUNKS, ABOUT, kept=50)
    assert values(table, "document_recall@100")["q:x/2"] == 0.5


def test_a_ranking_that_was_cut_short_makes_a_lower_bound_and_one_that_found_no_more_does_not() -> None:
    def warned(kept: int) -> set[str]:
        table = document_figures(runs(_1=["1", "2"], _2=["3"], _3=["4"]), QUERIES, QRELS, CHUNKS, ABOUT, kept=kept)
        told = table.filter(pl.col("warning").str.contains("a lower bound: 1 of 3 rankings were cut after 2 chunks"))
        return set(told["metric"])

    assert warned(50) == set()
    assert warned(2) == {"document_recall@100", "document_average_precision@100"}


def test_without_imported_queries_there_is_no_figure_and_with_them_alone_they_lead() -> None:
    own = QUERIES.filter(pl.col("category") != "imported")
    assert document_figures(runs(), own, QRELS, CHUNKS, ABOUT, kept=50).is_empty()
    table = document_figures(runs(_1=["1"], _2=[], _3=[]), QUERIES, QRELS, CHUNKS, ABOUT, kept=50)
    assert headline_of(table) == DOCUMENT_HEADLINE
    assert headline_of(table.with_columns(pl.lit(HEADLINE).alias("metric"))) == HEADLINE
    assert headline_of(FIGURE_SCHEMA.to_frame()) == HEADLINE


def test_a_chunk_that_the_chunk_set_does_not_hold_is_refused() -> None:
    with pytest.raises(MeasurementError, match="chunk set does not"):
        document_runs(runs(_1=["99"]), CHUNKS)
