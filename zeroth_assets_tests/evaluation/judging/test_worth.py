from __future__ import annotations

import json

import polars as pl
import pytest

from zeroth_assets.evaluation.golden.judgments import (
    DRAFTED_SPAN,
    EXPERT_SPAN,
    JUDGMENT_SCHEMA,
    NO_ANSWER,
    OTHER_CONTRACT,
    READ_WHOLE,
)
from zeroth_assets.evaluation.judging.agreement import Agreement, Withheld
from zeroth_assets.evaluation.judging.model import JUDGED_SCHEMA, REPEAT_SCHEMA, JudgedRun, Snapshot, Usage
from zeroth_assets.evaluation.judging.worth import (
    confusion_table,
    judge_in_words,
    reference_pairs,
    told_of_judge,
    worth_of,
)
from zeroth_assets_tests.evaluation.golden.builders import queries, query


def graded(questions: int = 12) -> pl.DataFrame:
    """Of each question two relevant passages, one that holds a part, 30 that hold nothing, and what is nobody's."""
    rows = []
    for q in range(questions):
        name = f"q:e{q}"
        rows += [(name, f"{q}-a", 3, EXPERT_SPAN), (name, f"{q}-b", 2, EXPERT_SPAN), (name, f"{q}-c", 1, EXPERT_SPAN)]
        rows += [(name, f"{q}-{i}", 0, READ_WHOLE) for i in range(30)]
        rows += [(name, f"{q}-x{i}", 0, OTHER_CONTRACT) for i in range(5)]
        rows += [(f"q:d{q}", f"{q}-d", 3, DRAFTED_SPAN), (f"q:n{q}", f"{q}-d", 0, NO_ANSWER)]
    return pl.DataFrame(rows, schema=JUDGMENT_SCHEMA, orient="row")


def asked(questions: int = 12) -> pl.DataFrame:
    return queries(*(query(f"{kind}{q}") for q in range(questions) for kind in "edn"))


def judged(pairs: pl.DataFrame, off: int = 0) -> JudgedRun:
    """A judge that says what people said, and misses by one in the first `off` pairs."""
    rows = [
        (query_id, document, min(3, grade + 1) if number < off else grade, "j@1", "p")
        for number, (query_id, document, grade) in enumerate(
            pairs.select("query_id", "document_id", "reference").iter_rows()
        )
    ]
    return JudgedRun(
        snapshot=Snapshot("j", "1", "j", "j"),
        prompt_hash="p",
        judgments=pl.DataFrame(rows, schema=JUDGED_SCHEMA, orient="row"),
        repeats=REPEAT_SCHEMA.to_frame(),
        failed={},
        usage=Usage(1, 2, 3),
        cost=None,
        currency=None,
        caveats=(),
    )


def test_of_each_drawn_question_every_grade_is_there_and_weights_lead_back_to_all() -> None:
    pairs = reference_pairs(graded(), asked(), limit=5, per_query=9, seed=1)
    experts = pairs.filter(people="experts")
    assert experts["query_id"].n_unique() == 5
    counts = dict(experts.group_by("reference").len().iter_rows())
    assert counts == {0: 30, 1: 5, 2: 5, 3: 5}
    by_grade = dict(experts.group_by("reference").agg(pl.col("weight").sum()).iter_rows())
    assert by_grade == pytest.approx({0: 12 * 30, 1: 12, 2: 12, 3: 12})


def test_what_follows_by_construction_is_nobodys_judgment() -> None:
    pairs = reference_pairs(graded(), asked(), limit=100, per_query=50, seed=1)
    assert not pairs.filter(pl.col("document_id").str.contains("x"))["document_id"].to_list()
    assert set(pairs["query_id"].str.slice(0, 3)) == {"q:e", "q:d"}


def test_another_question_moves_none_that_was_drawn_unless_it_takes_its_place() -> None:
    few, more = (set(reference_pairs(graded(n), asked(n), limit=4, per_query=9, seed=3)["query_id"]) for n in (10, 12))
    assert len(few - more) <= len(more - few) <= 4


def test_a_question_in_two_scopes_is_judged_once_within_its_document() -> None:
    both = queries(
        query("a/corpus", question_id="a"), query("a/document", question_id="a", scope="document", document_id="cuad:a")
    )
    rows = [(f"q:a/{scope}", "1", 3, EXPERT_SPAN) for scope in ("corpus", "document")]
    pairs = reference_pairs(
        pl.DataFrame(rows, schema=JUDGMENT_SCHEMA, orient="row"), both, limit=5, per_query=5, seed=1
    )
    assert pairs["query_id"].to_list() == ["q:a/document"]


def test_the_worth_of_a_judge_is_told_in_words_and_in_json_that_holds_no_nan() -> None:
    pairs = reference_pairs(graded(), asked(), limit=12, per_query=9, seed=1)
    run = judged(pairs, off=15)
    worth = worth_of(run, pairs, seed=1, resamples=100)
    assert isinstance(worth.experts, Agreement)
    assert 0.5 < worth.experts.kappa.point < 1
    assert worth.experts.relevant_recall is not None
    assert worth.experts.pool_kappa is not None
    assert isinstance(worth.itself, Withheld)
    told = json.loads(json.dumps(told_of_judge(run, worth), allow_nan=False))
    words = judge_in_words(told)
    assert words is not None
    assert words.startswith("j@1, against experts' spans: quadratic-weighted kappa 0.")
    assert "recall of relevant" in words
    assert confusion_table(worth.experts).columns == ["people", "judge 0", "judge 1", "judge 2", "judge 3"]


def test_without_experts_the_worth_is_withheld_and_says_so() -> None:
    drafted = graded().filter(pl.col("judged_by") == DRAFTED_SPAN)
    pairs = reference_pairs(drafted, asked(), limit=12, per_query=9, seed=1)
    told = told_of_judge(judged(pairs), worth_of(judged(pairs), pairs, seed=1, resamples=100))
    assert "agreement with experts' spans withheld: 0 graded pairs, fewer than 30" in told["worth"]
    assert told["agreement"]["experts"] == {"withheld": "too few", "detail": "0 graded pairs, fewer than 30", "n": 0}
    assert judge_in_words({**told, "pinned": False}) == f"j@1 (not pinned: not to be published), {told['worth']}"
    assert judge_in_words(None) is None
