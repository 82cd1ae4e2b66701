"""Runs: frames that evaluation takes, with a row for every query, and quantiles per stage."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pytest

from zeroth_assets.errors import MeasurementError, QueryError
from zeroth_assets.evaluation.abstention import OUTCOME_SCHEMA, calibrate
from zeroth_assets.evaluation.abstention_outcomes import QUERIES_SCHEMA, outcomes_of
from zeroth_assets.evaluation.metric_tables import QRELS_SCHEMA, RUN_SCHEMA, evaluate
from zeroth_assets.search import runs
from zeroth_assets.search.retriever import Retriever
from zeroth_assets.search.retriever_model import RetrieverConfig
from zeroth_assets.search.runs import LATENCY_SCHEMA, PER_QUERY_SCHEMA, QueryRuns, latencies, run_queries
from zeroth_assets.store.connect import Database
from zeroth_assets_tests.search.corpus import CHUNK_SET, filled, text_of
from zeroth_assets_tests.search.test_retriever import HashedWords

QUESTIONS = [
    ("q1", "when does the idle timeout close a connection"),
    ("q2", "how many bytes encode packet numbers"),
    ("q3", "who was king in 1066"),
]


@pytest.fixture(scope="module")
def retriever(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Retriever]:
    store = filled(module_database, tmp_path_factory.mktemp("artefacts"))
    with Retriever(module_database, store, RetrieverConfig(CHUNK_SET), encoder=HashedWords()) as made:
        yield made


@pytest.fixture(scope="module")
def answered(retriever: Retriever) -> QueryRuns:
    return run_queries(retriever, "rfc-quic", QUESTIONS, k=6)


def qrels(answered: QueryRuns) -> pl.DataFrame:
    graded = {"q1": "closes the connection when", "q2": "Packet numbers"}
    rows = [
        (query_id, chunk, 3 if words in text_of(int(chunk)) else 0)
        for query_id, words in graded.items()
        for chunk in answered.run.filter(pl.col("query_id") == query_id)["document_id"]
    ]
    return pl.DataFrame(rows, schema=QRELS_SCHEMA, orient="row")


def test_a_run_is_what_evaluation_takes_and_every_query_has_its_row(answered: QueryRuns) -> None:
    assert answered.run.schema == RUN_SCHEMA == runs.RUN_SCHEMA
    assert answered.per_query.schema == PER_QUERY_SCHEMA
    assert answered.per_query["query_id"].to_list() == ["q1", "q2", "q3"]
    table = evaluate(
        answered.run.filter(pl.col("query_id") != "q3"), qrels(answered), cutoffs=(5,), measures=("success",)
    )
    assert table.height == 2
    assert len(answered.overlaps) == 3


def test_a_run_keeps_the_order_of_the_answer(answered: QueryRuns, retriever: Retriever) -> None:
    first = answered.run.filter(pl.col("query_id") == "q1").sort("score", descending=True)
    expected = [str(one.passage.chunk_id) for one in retriever.search("rfc-quic", QUESTIONS[0][1], 6).passages]
    assert first["document_id"].to_list() == expected
    assert run_queries(retriever, "rfc-quic", QUESTIONS, k=6, callers=3).run.equals(answered.run)


def test_latency_has_a_row_for_each_stage_that_ran(answered: QueryRuns) -> None:
    table = latencies(answered.per_query)
    assert table.schema == LATENCY_SCHEMA
    assert "fulltext" not in table["stage"].to_list()
    assert {"embedding", "dense", "lexical", "fusion", "re-read", "total"} <= set(table["stage"])
    assert (table["p50_ms"] <= table["p99_ms"]).all()
    total = table.row(by_predicate=pl.col("stage") == "total", named=True)
    assert total["p50_ms"] > 0


def test_progress_is_counted_and_a_query_twice_is_refused(retriever: Retriever) -> None:
    seen: list[tuple[int, int]] = []
    run_queries(retriever, "rfc-quic", QUESTIONS[:2], progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]
    with pytest.raises(MeasurementError, match="cannot be run"):
        run_queries(retriever, "rfc-quic", [QUESTIONS[0]] * 2)
    assert run_queries(retriever, "rfc-quic", []).run.schema == RUN_SCHEMA


def test_outcomes_join_runs_and_grades_for_the_calibration(answered: QueryRuns) -> None:
    queries = pl.DataFrame(
        [("q1", "fact", True), ("q2", "fact", True), ("q3", "absent", False)], schema=QUERIES_SCHEMA, orient="row"
    )
    table = outcomes_of(queries, answered.per_query, answered.run, qrels(answered), source="dense")
    assert table.schema == OUTCOME_SCHEMA
    assert table["correct"].to_list() == [True, True, False]
    assert table["candidates"].to_list() == [6, 6, 6]
    assert table["score"].to_list() == answered.per_query["best_dense"].to_list()
    assert calibrate(table, source="dense", fingerprints={"encoder": "print-1"}).answered == 0
    none = outcomes_of(queries, answered.per_query, answered.run.clear(), qrels(answered), source="reranker")
    assert none["candidates"].to_list() == [0, 0, 0]
    assert not none["correct"].any()


def test_outcomes_of_queries_that_were_not_run_or_were_withheld_are_refused(answered: QueryRuns) -> None:
    queries = pl.DataFrame([("q9", "fact", True)], schema=QUERIES_SCHEMA, orient="row")
    grades = qrels(answered)
    with pytest.raises(MeasurementError, match="not run"):
        outcomes_of(queries, answered.per_query, answered.run, grades, source="dense")
    withheld = answered.per_query.with_columns(abstained=pl.lit("weak_evidence"))
    with pytest.raises(MeasurementError, match="abstains"):
        outcomes_of(queries, withheld, answered.run, grades, source="dense")
    with pytest.raises(QueryError, match="cannot stand on"):
        outcomes_of(queries, answered.per_query, answered.run, grades, source="rrf")  # type: ignore[arg-type]
