from __future__ import annotations

import polars as pl
import pytest

from zeroth_assets.evaluation.golden.grades import chunk_qrels, part_grades
from zeroth_assets.evaluation.golden.judgments import (
    JUDGMENT_SCHEMA,
    NO_ANSWER,
    OTHER_CONTRACT,
    READ_WHOLE,
    answering_spans,
    hidden_from_asker,
    judgments_from_spans,
    merge_judgments,
)
from zeroth_assets.evaluation.golden.model import GoldenError
from zeroth_assets.evaluation.golden.pools import POOL_SCHEMA
from zeroth_assets.evaluation.metric_tables import evaluate
from zeroth_assets_tests.evaluation.golden.builders import chunks, queries, query, run, span, spans, unanswerable

TEXT = "x" * 400
CUT = chunks(
    [(1, "cuad:a", 0, 100), (2, "cuad:a", 100, 200), (3, "cuad:b", 0, 100), (4, "sec:f", 0, 100), (5, "rfc:1", 0, 100)]
)
ASKED = queries(
    query("expert", source="expert", about=["cuad:a"]),
    query("drafted", about=["rfc:1"]),
    unanswerable("absent", source="expert", about=["cuad:a"], unanswerable_reason="absent_from_document"),
    unanswerable("nothing"),
    unanswerable("hidden", category="tenant_scoped", unanswerable_reason="other_tenant", asker="rfc-x"),
)
TRUTH = spans(
    span("expert", "cuad:a", 10, 20, TEXT), span("drafted", "rfc:1", 10, 20, TEXT), span("hidden", "rfc:1", 0, 5, TEXT)
)


def judged(links: list[tuple[str, str]] | None = None) -> dict[tuple[str, str], tuple[int, str]]:
    names = ("expert", "drafted", "absent", "nothing", "hidden")
    rows = [(f"q:{name}", str(i), ["bm25"], 1) for name in names for i in range(1, 6)]
    pool = pl.DataFrame(rows, schema=POOL_SCHEMA, orient="row")
    qrels = chunk_qrels(part_grades(answering_spans(ASKED, TRUTH), CUT))
    table = judgments_from_spans(ASKED, qrels, pool, CUT, links or [])
    return {(r["query_id"], r["document_id"]): (r["grade"], r["judged_by"]) for r in table.iter_rows(named=True)}


def test_lawyers_read_the_named_contract_whole_and_other_contracts_are_no_answer_to_its_name() -> None:
    grades = judged()
    assert grades["q:expert", "1"] == (3, "expert span")
    assert grades["q:expert", "2"] == (0, READ_WHOLE)
    assert grades["q:expert", "3"] == grades["q:expert", "4"] == (0, OTHER_CONTRACT)


def test_a_document_that_holds_or_resembles_the_contract_stays_unjudged() -> None:
    grades = judged([("sec:f", "cuad:a")])
    assert ("q:expert", "4") not in grades
    assert ("q:absent", "4") not in grades
    assert grades["q:expert", "3"] == (0, OTHER_CONTRACT)


def test_beside_a_drafted_answer_nothing_is_judged() -> None:
    assert {key: value for key, value in judged().items() if key[0] == "q:drafted"} == {
        ("q:drafted", "5"): (3, "drafted span")
    }


def test_a_query_without_an_answer_for_its_asker_has_nothing_but_zeros() -> None:
    grades = judged()
    for name in ("nothing", "hidden"):
        assert [grades[f"q:{name}", str(i)] for i in range(1, 6)] == [(0, NO_ANSWER)] * 5
    assert [grades["q:absent", str(i)][0] for i in range(1, 6)] == [0] * 5


def test_the_spans_that_an_asker_must_not_see_are_listed() -> None:
    assert hidden_from_asker(ASKED, TRUTH)["query_id"].to_list() == ["q:hidden"]
    assert set(answering_spans(ASKED, TRUTH)["query_id"]) == {"q:expert", "q:drafted"}


def test_the_judgments_are_qrels_for_the_metric_tables() -> None:
    rows = [(*key, *value) for key, value in judged().items()]
    table = pl.DataFrame(rows, schema=JUDGMENT_SCHEMA, orient="row")
    scores = evaluate(run({"expert": [2, 1], "drafted": [4, 5]}), table, cutoffs=(5,))
    by_query = {row["query_id"]: row for row in scores.iter_rows(named=True)}
    assert by_query["q:expert"]["reciprocal_rank@5"] == 0.5
    assert by_query["q:expert"]["judged@5"] == 1.0
    assert by_query["q:drafted"]["judged@5"] == 0.5
    assert by_query["q:nothing"]["recall@5"] is None


def test_a_pool_of_another_chunk_set_is_refused() -> None:
    pool = pl.DataFrame([("q:expert", "99", ["bm25"], 1)], schema=POOL_SCHEMA, orient="row")
    with pytest.raises(GoldenError, match="chunk set does not"):
        judgments_from_spans(ASKED, chunk_qrels(part_grades(TRUTH, CUT)), pool, CUT, [])


def grader(*rows: tuple[str, str, int, str | None]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=JUDGMENT_SCHEMA, orient="row")


def test_the_first_grader_that_gave_a_grade_is_followed() -> None:
    people, model = grader(("q:a", "1", 3, "person")), grader(("q:a", "1", 0, "model"), ("q:a", "2", 2, "model"))
    assert merge_judgments([people, model]).rows() == [("q:a", "1", 3, "person"), ("q:a", "2", 2, "model")]
    assert merge_judgments([model, people])["grade"].to_list() == [0, 2]
    assert merge_judgments([]).is_empty()


@pytest.mark.parametrize(
    "bad",
    [
        grader(("q:a", "1", 4, "x")),
        grader(("q:a", "1", -1, "x")),
        grader(("q:a", "1", 1, None)),
        grader(("q:a", "1", 1, "x"), ("q:a", "1", 2, "x")),
    ],
)
def test_a_judgment_that_cannot_stand_is_refused(bad: pl.DataFrame) -> None:
    with pytest.raises(GoldenError, match="cannot stand"):
        merge_judgments([bad])
