from __future__ import annotations

import polars as pl
import pytest

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.golden.model import GoldenError
from zeroth_assets.evaluation.golden.pools import build_pool, lexical_contributions
from zeroth_assets.evaluation.metric_tables import QRELS_SCHEMA
from zeroth_assets.search.bm25 import BM25Index
from zeroth_assets_tests.evaluation.golden.builders import chunks, queries, query, run

TEXTS = {"rfc:1": "idle timeout of a link", "rfc:2": "idle hands and timeout", "rfc:3": "packet number"}
CUT = chunks([(i, d, 0, 99) for i, d in enumerate(TEXTS, start=1)], TEXTS)
INDEX = BM25Index.build({1: TEXTS["rfc:1"], 2: TEXTS["rfc:2"], 3: TEXTS["rfc:3"]})
ASKED = queries(
    query("all", text="idle timeout"),
    query("one", text="idle timeout", scope="document", document_id="rfc:2"),
    query("none", text="?!"),
)
QRELS = pl.DataFrame([("q:all", "3", 3), ("q:one", "2", 1)], schema=QRELS_SCHEMA, orient="row")


def test_bm25_searches_everything_or_the_one_document_that_a_query_is_limited_to() -> None:
    found = lexical_contributions(ASKED, INDEX, CUT)
    assert sorted(found.filter(pl.col("query_id") == "q:all")["document_id"]) == ["1", "2"]
    assert found.filter(pl.col("query_id") == "q:one").select("document_id", "rank").rows() == [("2", 1)]


def test_a_query_without_words_contributes_nothing_and_stops_nothing() -> None:
    assert "q:none" not in set(lexical_contributions(ASKED, INDEX, CUT)["query_id"])


def test_the_pool_unites_bm25_every_arms_top_and_the_passages_and_says_who_brought_what() -> None:
    lexical = lexical_contributions(ASKED, INDEX, CUT)
    pool = build_pool(ASKED, lexical=lexical, runs={"dense": run({"all": [1, 3, 2]})}, qrels=QRELS, depth=2)
    members = {
        (row["query_id"], row["document_id"]): (row["contributors"], row["best_rank"])
        for row in pool.members.iter_rows(named=True)
    }
    assert members["q:all", "1"] == (["bm25", "dense"], 1)
    assert members["q:all", "3"] == (["answer passages", "dense"], 2)
    assert members["q:all", "2"][0] == ["bm25"]
    assert members["q:one", "2"] == (["answer passages", "bm25"], 1)
    assert len(members) == 4
    summary = {row["contributor"]: row for row in pool.summary.iter_rows(named=True)}
    assert summary["dense"]["chunks"] == 2
    assert summary["dense"]["only_from_it"] == 0
    assert summary["bm25"]["only_from_it"] == 1


def test_the_depths_are_kept() -> None:
    many = BM25Index.build(dict.fromkeys(range(80), "timeout"))
    found = lexical_contributions(queries(query("a", text="timeout")), many, CUT)
    assert found.height == 50
    arm = run({"a": list(range(100, 140))})
    pool = build_pool(queries(query("a")), lexical=found, runs={"dense": arm}, qrels=QRELS.clear())
    assert pool.members.height == 60


def test_a_run_with_a_strange_query_or_a_document_twice_or_a_taken_name_is_refused() -> None:
    nothing = lexical_contributions(ASKED.clear(), INDEX, CUT)
    with pytest.raises(GoldenError, match="does not have"):
        build_pool(ASKED, lexical=nothing, runs={"dense": run({"zzz": [1]})}, qrels=QRELS)
    with pytest.raises(MeasurementError, match="twice"):
        build_pool(ASKED, lexical=nothing, runs={"dense": run({"all": [1, 1]})}, qrels=QRELS)
    with pytest.raises(GoldenError, match="another name"):
        build_pool(ASKED, lexical=nothing, runs={"bm25": run({"all": [1]})}, qrels=QRELS)


def test_progress_counts_queries() -> None:
    seen: list[tuple[int, int]] = []
    lexical_contributions(ASKED, INDEX, CUT, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
