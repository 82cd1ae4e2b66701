from __future__ import annotations

import math
import random

import ir_measures
import polars as pl
import pytest

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.incomplete import bpref, bpref_table, condensed
from zeroth_assets.evaluation.metric_tables import evaluate

QRELS = {"query_id": pl.String, "document_id": pl.String, "grade": pl.Int64}
RUN = {"query_id": pl.String, "document_id": pl.String, "score": pl.Float64}


def test_bpref_equals_ir_measures_on_random_runs_and_so_does_the_table() -> None:
    rng = random.Random(7)
    qrels, run = [], []
    for query in (f"q{i:03}" for i in range(150)):
        pool = [f"d{i}" for i in range(30)]
        judged = rng.sample(pool, rng.randint(1, 20))
        qrels += [(query, d, rng.randint(0, 3)) for d in judged]
        run += [(query, d, float(-place)) for place, d in enumerate(rng.sample(pool, rng.randint(1, 25)))]
    oracle = {
        m.query_id: m.value
        for m in ir_measures.iter_calc(
            [ir_measures.Bpref(rel=2)],
            [ir_measures.Qrel(*row) for row in qrels],
            [ir_measures.ScoredDoc(*row) for row in run],
        )
    }
    table = bpref_table(pl.DataFrame(run, RUN, orient="row"), pl.DataFrame(qrels, QRELS, orient="row"))
    compared = 0
    for query, value in table.iter_rows():
        grades = {d: g for q, d, g in qrels if q == query}
        ours = bpref([d for q, d, _ in run if q == query], grades)
        assert (value is None) == math.isnan(ours)
        if value is not None:
            assert value == pytest.approx(ours, abs=1e-12)
            assert value == pytest.approx(oracle[query], abs=1e-9)
            compared += 1
    assert compared > 100


def test_unjudged_documents_are_passed_over() -> None:
    grades = {"r": 3, "n": 0}
    assert bpref(["u1", "u2", "r", "n"], grades) == bpref(["r", "n"], grades) == 1.0


def test_without_a_relevant_document_bpref_is_undefined() -> None:
    assert math.isnan(bpref(["n"], {"n": 0}))


def test_bad_rankings_and_grades_are_refused() -> None:
    with pytest.raises(MeasurementError, match="twice"):
        bpref(["a", "a"], {"a": 1})
    with pytest.raises(MeasurementError, match="out of range"):
        bpref(["a"], {"a": 4})


def test_a_condensed_list_is_the_run_without_its_unjudged_documents() -> None:
    qrels = pl.DataFrame([("q", "a", 3), ("q", "b", 0)], QRELS, orient="row")
    run = pl.DataFrame([("q", "u", 3.0), ("q", "b", 2.0), ("q", "a", 1.0)], RUN, orient="row")
    short = condensed(run, qrels)
    assert short["document_id"].to_list() == ["b", "a"]
    assert evaluate(short, qrels, cutoffs=(5,), measures=("reciprocal_rank",))["reciprocal_rank@5"].to_list() == [0.5]
    assert evaluate(short, qrels, cutoffs=(5,), measures=("judged",))["judged@5"].to_list() == [1.0]
