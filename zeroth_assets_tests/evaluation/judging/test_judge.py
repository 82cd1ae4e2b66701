from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from zeroth_assets.evaluation.judging.client import RequestRefused
from zeroth_assets.evaluation.judging.judge import judge_pool
from zeroth_assets.evaluation.judging.model import (
    BudgetError,
    JudgeError,
    JudgeQuery,
    JudgeUnavailable,
    Prices,
    SnapshotError,
    Usage,
)
from zeroth_assets_tests.evaluation.judging.chat_server import ChatServer, grade_of, running
from zeroth_assets_tests.evaluation.judging.conftest import Bench, small_pool


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_every_pair_of_the_pool_gets_the_grade_of_its_own_passage(bench: Bench) -> None:
    run = bench.run(passages_per_call=3)
    texts = dict(small_pool()[1].iter_rows())
    assert run.complete
    assert run.judgments.height == 15
    for row in run.judgments.iter_rows(named=True):
        assert row["grade"] == grade_of(texts[row["document_id"]])
        assert row["document_id"].startswith(f"doc-{row['query_id'][1:]}-")
    assert set(run.judgments["graded_by"]) == {"judge-2025-04-14@judge-2025-04-14"}


def test_a_record_carries_snapshot_prompt_hash_backend_version_seed_and_temperature(bench: Bench) -> None:
    bench.server.models[0]["owned_by"] = "vllm"
    bench.server.pages["/version"] = {"version": "0.14.1"}
    run = bench.run(seed=77, temperature=0.25)
    calls = [line for line in lines(bench.journal) if line["kind"] == "call"]
    assert len(calls) == 3
    for call in calls:
        assert call["judge"] == "judge-2025-04-14@judge-2025-04-14"
        assert call["prompt_hash"] == run.prompt_hash
        assert (call["backend"], call["backend_version"]) == ("vllm", "0.14.1")
        assert (call["seed"], call["temperature"]) == (77, 0.25)
        assert isinstance(call["order_seed"], int)
        assert call["system_fingerprint"] == "fp_1"
    assert {body["seed"] for body in bench.server.bodies} == {77}
    assert {body["temperature"] for body in bench.server.bodies} == {0.25}


def test_llama_cpp_tells_its_build_on_its_own_page(bench: Bench) -> None:
    bench.server.models[0]["owned_by"] = "llamacpp"
    bench.server.pages["/props"] = {"build_info": "b8681-abc"}
    run = bench.run()
    assert (run.snapshot.backend, run.snapshot.backend_version) == ("llamacpp", "b8681-abc")


def test_one_passage_per_query_is_shown_twice_and_both_grades_are_kept(bench: Bench) -> None:
    run = bench.run()
    assert run.repeats["query_id"].to_list() == ["q0", "q1", "q2"]
    assert (run.repeats["grade"] == run.repeats["second_grade"]).all()
    for body in bench.server.bodies:
        content = body["messages"][0]["content"]
        blocks = Counter(line for line in content.splitlines() if line.startswith("w"))
        assert sorted(blocks.values()) == [1, 1, 1, 1, 2]


def test_documents_of_the_same_text_are_asked_once_and_share_the_grade(bench: Bench) -> None:
    pairs, passages, queries = small_pool(1)
    twin = pl.DataFrame({"document_id": ["twin"], "text": [passages["text"][3]]})
    pool = pl.concat([pairs, pl.DataFrame({"query_id": ["q0"], "document_id": ["twin"]})])
    run = bench.run((pool, pl.concat([passages, twin]), queries), repeats_per_query=0)
    grades = dict(run.judgments.select("document_id", "grade").iter_rows())
    assert grades["twin"] == grades["doc-0-3"] == 3
    assert bench.server.bodies[0]["messages"][0]["content"].count(passages["text"][3]) == 1


def test_a_second_run_asks_nothing_again(bench: Bench) -> None:
    first = bench.run()
    asked = len(bench.server.bodies)
    again = bench.run()
    assert len(bench.server.bodies) == asked
    assert again.judgments.equals(first.judgments)
    assert again.usage == first.usage


def test_a_changed_passage_is_judged_again_and_nothing_else(bench: Bench) -> None:
    bench.run()
    asked = len(bench.server.bodies)
    pairs, passages, queries = small_pool()
    changed = passages.with_columns(
        pl.when(pl.col("document_id") == "doc-1-0").then(pl.lit("a b c d e f g h")).otherwise("text").alias("text")
    )
    run = bench.run((pairs, changed, queries))
    assert len(bench.server.bodies) == asked + 1
    assert run.judgments.filter(document_id="doc-1-0")["grade"].item() == 2
    assert run.judgments.height == 15


def test_a_pool_that_grew_costs_what_it_grew_by(bench: Bench) -> None:
    pairs, passages, queries = small_pool()
    former = bench.run((pairs.filter(~pl.col("document_id").str.ends_with("-4")), passages, queries))
    asked = len(bench.server.bodies)
    grown = bench.run((pairs, passages, queries))
    news = [body["messages"][0]["content"] for body in bench.server.bodies[asked:]]
    assert len(news) == 3
    assert all(f"w{number}x4y" in text and "x3y" not in text for number, text in enumerate(news))
    assert grown.judgments.height == 15
    assert former.judgments.join(grown.judgments, on=former.judgments.columns, how="anti").is_empty()
    assert set(former.repeats.rows()) <= set(grown.repeats.rows())
    shrunk = bench.run((pairs.head(2), passages, queries))
    assert len(bench.server.bodies) == asked + 3
    assert shrunk.judgments.height == 2


def test_the_same_question_and_passage_under_other_ids_is_not_asked_again(bench: Bench) -> None:
    pairs, passages, queries = small_pool()
    bench.run((pairs, passages, queries))
    asked = len(bench.server.bodies)
    renamed = [pl.concat_str(pl.lit("other-"), name).alias(name) for name in ("query_id", "document_id")]
    others = [JudgeQuery(f"other-{query.query_id}", query.question, query.drafter) for query in queries]
    run = bench.run((pairs.with_columns(renamed), passages.with_columns(renamed[1:]), others))
    assert len(bench.server.bodies) == asked
    assert run.judgments.height == 15
    bench.run((pairs, passages, queries), temperature=0.5)
    assert len(bench.server.bodies) > asked, "another temperature is another judge"


def test_a_journal_may_be_chosen_by_the_snapshot_that_answers(bench: Bench, tmp_path: Path) -> None:
    pairs, passages, queries = small_pool()
    for model in ("judge-2025-04-14", "judge-2025-08-01"):
        bench.server.models = [{"id": model, "owned_by": "someone"}]
        run = judge_pool(
            pairs,
            passages,
            bench.config(model=model),
            queries=queries,
            journal=lambda snapshot: tmp_path / f"{snapshot.snapshot}.jsonl",
        )
        assert run.complete
    assert {path.stem for path in tmp_path.glob("judge-*.jsonl")} == {"judge-2025-04-14", "judge-2025-08-01"}


KILLED = """
import sys
from pathlib import Path
from zeroth_assets.evaluation.judging.judge import judge_pool
from zeroth_assets.evaluation.judging.model import JudgeConfig
from zeroth_assets_tests.evaluation.judging.conftest import small_pool
pool, passages, queries = small_pool()
judge_pool(pool, passages, JudgeConfig(sys.argv[1], "judge-2025-04-14"), queries=queries, journal=Path(sys.argv[2]))
"""


def test_after_kill_9_what_was_judged_is_kept_and_the_same_run_completes_it(bench: Bench) -> None:
    process: list[subprocess.Popen[bytes]] = []

    def kill_at_third(number: int) -> None:
        if number == 3:
            os.kill(process[0].pid, signal.SIGKILL)

    bench.server.on_completion = kill_at_third
    process.append(subprocess.Popen([sys.executable, "-c", KILLED, bench.server.url, str(bench.journal)]))
    assert process[0].wait(60) == -signal.SIGKILL
    kept = [line for line in lines(bench.journal) if line["kind"] == "call"]
    assert [call["query_id"] for call in kept] == ["q0", "q1"]

    bench.server.on_completion = None
    run = bench.run()
    assert run.complete
    assert run.judgments.height == 15
    assert not run.judgments.select("query_id", "document_id").is_duplicated().any()
    assert len(bench.server.bodies) == 4


def test_a_line_that_was_cut_short_is_cut_off_and_its_call_made_again(bench: Bench) -> None:
    bench.run()
    whole = bench.journal.read_bytes()
    bench.journal.write_bytes(whole[:-40])
    run = bench.run()
    assert run.judgments.height == 15
    assert len(bench.server.bodies) == 4
    assert all(lines(bench.journal))


@pytest.mark.parametrize("grades", ["[]", '{"doc-0-0": true}', '{"doc-0-0": 9}', '"3"'])
def test_a_journal_whose_grades_are_none_is_named_and_not_believed(bench: Bench, grades: str) -> None:
    bench.run()
    whole = bench.journal.read_text("utf-8")
    bench.journal.write_text(re.sub(r'"grades": \{[^}]*\}', f'"grades": {grades}', whole, count=1), "utf-8")
    with pytest.raises(JudgeError, match="journal is damaged"):
        bench.run()


def test_a_journal_that_cannot_be_opened_is_a_typed_error(bench: Bench) -> None:
    bench.journal.mkdir()
    with pytest.raises(JudgeError, match="cannot be opened"):
        bench.run()


def test_a_damaged_line_is_named(bench: Bench) -> None:
    bench.run()
    text = bench.journal.read_text("utf-8").splitlines()
    text[1] = text[1][:50]
    bench.journal.write_text("\n".join(text) + "\n", "utf-8")
    with pytest.raises(JudgeError, match="line 2"):
        bench.run()


def test_two_runs_do_not_write_one_journal(bench: Bench) -> None:
    other: list[JudgeError] = []

    def second(number: int) -> None:
        try:
            bench.run()
        except JudgeError as error:
            other.append(error)

    bench.server.on_completion = second
    bench.run()
    assert len(other) == 3
    assert "in use" in str(other[0])


@pytest.mark.parametrize(
    ("misdeed", "kind"),
    [
        ("truncated", "truncated"),
        ("filtered", "refused"),
        ("refusal", "refused"),
        ("tool", "stopped"),
        ("prose", "not json"),
        ("fenced", "not json"),
        ("deep", "not json"),
        ("NaN", "not json"),
        ("list", "schema"),
        ("stranger", "schema"),
        ("grade 2.0", "schema"),
        ("grade true", "schema"),
        ("grade text", "schema"),
        ("grade null", "schema"),
        ("no choices", "stopped"),
        ("no content", "schema"),
        ("grade 4", "bounds"),
        ("grade -1", "bounds"),
        ("missing", "incomplete"),
        ("duplicate", "duplicate"),
    ],
)
def test_an_answer_that_is_no_judgment_is_a_failure_and_never_a_grade(bench: Bench, misdeed: str, kind: str) -> None:
    bench.server.always = misdeed
    run = bench.run(small_pool(1))
    assert run.failed == {"q0": kind}
    assert run.judgments.is_empty()
    calls = [line for line in lines(bench.journal) if line["kind"] == "call"]
    assert [call["grades"] for call in calls] == [{}]

    bench.server.always = None
    assert bench.run(small_pool(1)).complete


def test_a_truncated_answer_is_not_asked_for_again_with_the_same_limit(bench: Bench) -> None:
    bench.server.always = "truncated"
    bench.run(small_pool(1))
    assert len(bench.server.bodies) == 1


def test_a_bad_answer_is_asked_for_again_with_another_seed_which_the_record_names(bench: Bench) -> None:
    bench.server.script = ["grade 4"]
    run = bench.run(small_pool(1), seed=5)
    assert run.complete
    assert [body["seed"] for body in bench.server.bodies] == [5, 6]
    assert lines(bench.journal)[-1]["seed"] == 6
    assert run.usage.calls == 2
    assert run.usage.tokens == 240


def test_a_model_that_changes_during_the_run_ends_it_and_what_came_before_is_kept(bench: Bench) -> None:
    bench.server.script = ["prose", "wrong snapshot"]
    with pytest.raises(SnapshotError, match="judge-2025-08-01"):
        bench.run()
    assert [line.get("failure") for line in lines(bench.journal)][-1] == "wrong model"
    assert bench.run().complete


@pytest.mark.parametrize("misdeed", ["alias", "no model"])
def test_an_answer_must_say_the_snapshot_itself(bench: Bench, misdeed: str) -> None:
    bench.server.always = misdeed
    with pytest.raises(SnapshotError):
        bench.run()


def test_a_journal_of_another_snapshot_or_another_prompt_is_refused(bench: Bench, tmp_path: Path) -> None:
    bench.run()
    bench.server.models.append({"id": "judge-2025-08-01"})
    with pytest.raises(SnapshotError, match="another judge"):
        bench.run(model="judge-2025-08-01")
    pairs, passages, queries = small_pool()
    with pytest.raises(SnapshotError, match="another judge"):
        judge_pool(
            pairs, passages, bench.config(), queries=queries, journal=bench.journal, statement="Grade by length."
        )


def test_a_judge_does_not_grade_questions_that_its_own_model_drafted(bench: Bench) -> None:
    pairs, passages, queries = small_pool()
    queries[1] = JudgeQuery("q1", "What?", "vendor/Judge-2024-01-01")
    with pytest.raises(SnapshotError, match="drafted"):
        bench.run((pairs, passages, queries))
    assert bench.server.bodies == []


def test_a_drafter_whose_name_was_not_recorded_is_a_caveat_on_the_record(bench: Bench) -> None:
    pairs, passages, queries = small_pool()
    queries[1] = JudgeQuery("q1", "What?", None)
    run = bench.run((pairs, passages, queries))
    by_query = {line["query_id"]: line["caveats"] for line in lines(bench.journal) if line["kind"] == "call"}
    assert [len(by_query[q]) for q in ("q0", "q1", "q2")] == [0, 1, 0]  # type: ignore[arg-type]
    assert "not recorded" in run.caveats[0]


def test_tokens_and_money_are_counted_over_all_sittings_and_failures(bench: Bench) -> None:
    prices = Prices(input_per_million=10.0, output_per_million=100.0, currency="EUR")
    bench.server.script = ["truncated"]
    first = bench.run(prices=prices)
    assert first.failed == {"q0": "truncated"}
    second = bench.run(prices=prices)
    assert second.usage == Usage(calls=4, input_tokens=400, output_tokens=80)
    assert (first.sitting.calls, second.sitting.calls) == (3, 1)
    assert second.cost == pytest.approx(4 * (100 * 10 + 20 * 100) / 1e6)
    assert second.currency == "EUR"


def test_without_prices_the_cost_is_unknown_and_not_nothing(bench: Bench) -> None:
    assert bench.run().cost is None


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 100, "completion_tokens": 920, "completion_tokens_details": {"reasoning_tokens": 900}},
        {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "total_tokens": 1020,
            "completion_tokens_details": {"reasoning_tokens": 900},
        },
        {"prompt_tokens": 100, "completion_tokens": 20, "completion_tokens_details": {"reasoning_tokens": 900}},
        {
            "prompt_tokens": 100,
            "completion_tokens": 700,
            "total_tokens": 1020,
            "completion_tokens_details": {"reasoning_tokens": 220},
        },
    ],
)
def test_reasoning_counts_whichever_way_a_server_tells_it(bench: Bench, usage: dict[str, object]) -> None:
    bench.server.usage = usage
    run = bench.run(small_pool(1))
    assert (run.usage.calls, run.usage.input_tokens, run.usage.output_tokens) == (1, 100, 920)
    details = usage["completion_tokens_details"]
    assert isinstance(details, dict)
    assert run.usage.reasoning_tokens == details["reasoning_tokens"]


def test_reasoning_that_eats_the_budget_ends_the_run_with_what_is_judged_kept(bench: Bench) -> None:
    bench.server.usage = {
        "prompt_tokens": 100,
        "completion_tokens": 9_000,
        "completion_tokens_details": {"reasoning_tokens": 8_980},
    }
    with pytest.raises(BudgetError, match="reasoning included"):
        bench.run(token_budget=10_000)
    assert [line["query_id"] for line in lines(bench.journal) if line["kind"] == "call"] == ["q0"]
    assert bench.run(token_budget=100_000).complete


def test_a_money_budget_is_never_exceeded(bench: Bench) -> None:
    prices = Prices(1.0, 10.0)
    bench.server.usage = {"prompt_tokens": 100, "completion_tokens": 500}
    with pytest.raises(BudgetError, match="money"):
        bench.run(prices=prices, money_budget=0.025)
    spent = sum((Usage(**line["usage"]) for line in lines(bench.journal)), Usage())  # type: ignore[arg-type]
    cost = spent.cost(prices)
    assert cost is not None
    assert 0 < cost <= 0.025


def test_a_usage_that_is_not_told_is_an_upper_bound_and_says_so(bench: Bench) -> None:
    bench.server.usage = None
    run = bench.run(small_pool(1), max_output_tokens=500)
    assert not run.usage.reported
    assert run.usage.output_tokens == 500
    assert any("upper bounds" in caveat for caveat in run.caveats)


def test_one_query_that_times_out_does_not_stop_the_others(bench: Bench) -> None:
    bench.server.script = ["slow"]
    run = bench.run(timeout_seconds=0.1, tries=1)
    assert run.failed == {"q0": "unavailable"}
    assert set(run.judgments["query_id"]) == {"q1", "q2"}


def test_a_server_that_stays_down_ends_the_run(bench: Bench) -> None:
    bench.queries = 6
    bench.server.always = "status 500"
    with pytest.raises(JudgeUnavailable, match="500"):
        bench.run(tries=2)
    assert len(bench.server.bodies) == 6


def test_a_refused_key_ends_the_run_at_once(bench: Bench) -> None:
    bench.server.always = "status 401"
    with pytest.raises(RequestRefused, match="key"):
        bench.run()
    assert len(bench.server.bodies) == 1


def test_a_request_that_is_too_large_is_that_querys_failure(bench: Bench) -> None:
    bench.server.script = ["status 413"]
    assert bench.run().failed == {"q0": "refused"}


@pytest.mark.parametrize(
    ("break_it", "what"),
    [
        (lambda p, t, q: (p.clear(), t, q), "is empty"),
        (lambda p, t, q: (p.drop("document_id"), t, q), "lacks columns"),
        (lambda p, t, q: (pl.concat([p, p.head(1)]), t, q), "row twice"),
        (lambda p, t, q: (p, pl.concat([t, t.head(1)]), q), "row twice"),
        (lambda p, t, q: (p, t.tail(3), q), "document without text"),
        (lambda p, t, q: (p, t.with_columns(text=pl.lit(" ")), q), "document without text"),
        (lambda p, t, q: (p, t, q[1:]), "query without a question"),
        (lambda p, t, q: (p, t, [*q, q[0]]), "query is there twice"),
        (lambda p, t, q: (p.with_columns(query_id=pl.lit(None, pl.String)), t, q), "no text"),
    ],
)
def test_a_pool_that_cannot_be_judged_is_refused(bench: Bench, break_it: object, what: str) -> None:
    with pytest.raises(JudgeError, match=what) as caught:
        bench.run(break_it(*small_pool()))  # type: ignore[operator]
    assert "w0x" not in str(caught.value)
    assert bench.server.bodies == []


def test_progress_is_told_by_query(bench: Bench) -> None:
    seen: list[tuple[int, int]] = []
    pairs, passages, queries = small_pool()
    judge_pool(
        pairs,
        passages,
        bench.config(),
        queries=queries,
        journal=bench.journal,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_a_server_whose_configuration_changes_is_a_caveat(bench: Bench, tmp_path: Path) -> None:
    class Changing(ChatServer):
        def completion(self, body: dict[str, object]) -> dict[str, object]:
            return {**super().completion(body), "system_fingerprint": f"fp_{len(self.bodies)}"}

    with running(Changing()) as server:
        run = Bench(server, bench.clock, tmp_path / "changing.jsonl").run()
    assert any("changed its configuration" in caveat for caveat in run.caveats)


def test_several_calls_at_a_time_give_the_same_judgments(bench: Bench, tmp_path: Path) -> None:
    one = bench.run(small_pool(12), passages_per_call=2)
    several = Bench(bench.server, bench.clock, tmp_path / "several.jsonl").run(
        small_pool(12), passages_per_call=2, concurrency=4
    )
    assert several.judgments.equals(one.judgments)
    assert several.repeats.equals(one.repeats)
    assert several.usage == one.usage


def test_calls_under_way_together_do_not_exceed_the_budget(bench: Bench) -> None:
    bench.server.usage = {"prompt_tokens": 400, "completion_tokens": 2_000}
    with pytest.raises(BudgetError, match="under way"):
        bench.run(small_pool(12), concurrency=4, token_budget=12_000)
    calls = [line for line in lines(bench.journal) if line["kind"] == "call"]
    spent = sum((Usage(**line["usage"]) for line in calls), Usage())  # type: ignore[arg-type]
    assert 2_400 <= spent.tokens <= 12_000
    assert len(bench.server.bodies) == len(calls)


def test_when_the_model_changes_calls_under_way_are_kept_and_no_more_are_made(bench: Bench) -> None:
    bench.server.script = ["wrong snapshot"]
    with pytest.raises(SnapshotError):
        bench.run(small_pool(20), concurrency=3)
    assert len(bench.server.bodies) < 20
    assert len(lines(bench.journal)) == 1 + len(bench.server.bodies)
