"""Abstention of an arm: calibrated on one split, reported on the other, a lack of candidates counted apart."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.metric_tables import QRELS_SCHEMA
from zeroth_assets.evaluation.retrieval_abstention import (
    ABSTENTION_SCHEMA,
    Ground,
    abstention_of,
    abstention_table,
    naive_inflation,
    score_source,
)
from zeroth_assets.evaluation.retrieval_arms import RETRIEVERS
from zeroth_assets.evaluation.retrieval_figures import run_of
from zeroth_assets_tests.evaluation.retrieval_tables import runs_of

GROUND = Ground("corpus-1", "golden-1", target=0.05, seed=1, resamples=100)
FINGERPRINTS = {"encoder": "print-1", "chunk_set": "fixed_512"}
CHUNKS = [str(number) for number in range(8)]


def ground(*, empty: int = 0) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """20 answerable and 20 unanswerable queries a split, with scores apart; `empty` unanswerable ones of the test
    split found nothing."""
    rows: list[dict[str, Any]] = []
    for split in ("calibration", "test"):
        for number in range(40):
            answerable = number < 20
            nothing = split == "test" and not answerable and number - 20 < empty
            rows.append(
                {
                    "query_id": f"q:{split}-{number}",
                    "role": "single_tenant",
                    "split": split,
                    "score": None if nothing else (0.8 if answerable else 0.3) + number / 1_000,
                    "ranking": [] if nothing else CHUNKS,
                    "answerable": answerable,
                }
            )
    queries = pl.DataFrame(
        [(row["query_id"], "single_chunk" if row["answerable"] else "unanswerable", row["answerable"]) for row in rows],
        schema={"query_id": pl.String, "category": pl.String, "answerable": pl.Boolean},
        orient="row",
    )
    qrels = pl.DataFrame(
        [(row["query_id"], "2", 3) for row in rows if row["answerable"]], schema=QRELS_SCHEMA, orient="row"
    )
    return runs_of(rows), queries, qrels


def table_of(*, empty: int = 0, arm: str = "dense_postfilter") -> dict[str, dict[str, Any]]:
    runs, queries, qrels = ground(empty=empty)
    results = abstention_of(
        runs,
        queries,
        qrels,
        chunk_set="fixed_512",
        arm=RETRIEVERS[arm],
        fingerprints=FINGERPRINTS,
        ground=GROUND,
    )
    table = abstention_table(results, GROUND)
    assert table.schema == ABSTENTION_SCHEMA
    assert set(table["split"]) == {"test"}
    return {row["metric"]: row for row in table.filter(pl.col("category") == "all").iter_rows(named=True)}


def test_a_threshold_of_the_calibration_split_is_reported_on_the_test_split() -> None:
    figures = table_of()
    assert figures["correct_abstention"]["value"] == 0.95  # one of 20 is what the target allows
    assert figures["correct_abstention"]["n"] == 20
    assert figures["answer_coverage"]["value"] == 1.0
    assert figures["selective_accuracy"]["value"] == pytest.approx(20 / 21)
    assert figures["auroc"]["threshold"] < 0.8
    assert figures["auroc"]["corpus_fingerprint"] == "corpus-1"


def test_an_empty_list_of_candidates_is_counted_apart_and_only_the_naive_count_takes_it_for_wisdom() -> None:
    figures = table_of(empty=15)
    assert figures["correct_abstention"]["n"] == 5
    assert figures["correct_abstention_naive"]["n"] == 20
    assert figures["insufficient_candidates"]["value"] == pytest.approx(15 / 40)


def test_a_short_list_is_no_evidence_to_judge_either() -> None:
    runs, queries, qrels = ground()
    short = runs.with_columns(
        pl.when(pl.col("split") == "test").then(pl.lit(2)).otherwise("candidates").alias("candidates")
    )
    (result,) = abstention_of(
        short, queries, qrels, chunk_set="c", arm=RETRIEVERS["rrf"], fingerprints=FINGERPRINTS, ground=GROUND
    )
    assert result.report is not None
    assert result.report.insufficient == 40


def test_a_role_without_unanswerable_queries_is_withheld_with_the_reason() -> None:
    runs, queries, qrels = ground()
    (result,) = abstention_of(
        runs.join(queries.filter("answerable"), on="query_id", how="semi"),
        queries,
        qrels,
        chunk_set="fixed_512",
        arm=RETRIEVERS["dense_exact"],
        fingerprints=FINGERPRINTS,
        ground=GROUND,
    )
    assert result.report is None
    assert "nothing to calibrate on" in str(result.withheld)
    assert abstention_table([result], GROUND).is_empty()


def test_only_scores_that_say_how_well_a_passage_fits_carry_a_threshold() -> None:
    assert score_source(RETRIEVERS["rrf_rerank"]) == "reranker"
    assert score_source(RETRIEVERS["rrf"]) == "dense"
    assert score_source(RETRIEVERS["bm25"]) is None
    runs, queries, qrels = ground()
    with pytest.raises(MeasurementError, match="no score"):
        abstention_of(runs, queries, qrels, chunk_set="c", arm=RETRIEVERS["bm25"], fingerprints={}, ground=GROUND)


def test_a_run_keeps_its_order_and_an_empty_answer_has_no_row() -> None:
    runs = runs_of(
        [
            {"query_id": "q:1", "role": "r", "split": "test", "score": 0.5, "ranking": ["9", "3"]},
            {"query_id": "q:2", "role": "r", "split": "test", "score": None, "ranking": []},
        ]
    )
    assert run_of(runs).rows() == [("q:1", "9", 1.0), ("q:1", "3", 0.5)]


def test_what_a_lack_of_candidates_would_be_taken_for_is_counted_without_any_threshold() -> None:
    runs, queries, qrels = ground(empty=15)
    given: dict[str, Any] = {
        "chunk_set": "fixed_512",
        "arm": RETRIEVERS["dense_postfilter"],
        "fingerprints": FINGERPRINTS,
    }
    table = abstention_table(abstention_of(runs, queries, qrels, ground=GROUND, **given), GROUND)
    assert naive_inflation(table).rows() == [("fixed_512", "dense_postfilter", "single_tenant", 15, 20, 0.75)]
    runs, queries, qrels = ground()
    full = abstention_table(abstention_of(runs, queries, qrels, ground=GROUND, **given), GROUND)
    assert naive_inflation(full).is_empty()
