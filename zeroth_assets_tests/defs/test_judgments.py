"""Judgments by a model, through runs on the small corpus: a loopback server is the judge, and misbehaves.

One home goes through the whole story, since each run of it costs seconds; every test reads what was kept of a moment.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from zeroth_assets.artefacts import ArtefactStore, Sidecar
from zeroth_assets.errors import MeasurementError, SettingsError
from zeroth_assets.evaluation.golden.judgments import DRAFTED_SPAN, EXPERT_SPAN, READ_WHOLE
from zeroth_assets.evaluation.judging.model import BudgetError, JudgeUnavailable, SheetError, SnapshotError
from zeroth_assets.evaluation.judging.worth import reference_pairs, worth_of
from zeroth_assets_tests.evaluation.judging.chat_server import ChatServer, running
from zeroth_assets_tests.evaluation.judging.test_worth import asked, graded, judged
from zeroth_assets_tests.small_corpus import Done, Materialised, SmallCorpus, small_corpus

DRAFTER = "the-authors-of-the-sample-together-with-its-documents-2025-01-01"
KEY = "sk-canary-7f3a9c1e5b"
MODEL = "judge-2025-04-14"
LABEL = f"{MODEL}@{MODEL}"
DRAWN: dict[str, int] = {"limit": 12, "per_query": 9, "seed": 1}


@dataclass
class Story:
    """The home, the server, and what was seen: how a command ended, calls made so far, the sidecar of the moment."""

    corpus: SmallCorpus
    server: ChatServer
    done: dict[str, Done] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    sidecars: dict[str, Sidecar] = field(default_factory=dict)
    sheets: Path = Path()
    before_refusal: dict[str, int] = field(default_factory=dict)

    @property
    def store(self) -> ArtefactStore:
        return ArtefactStore(self.corpus.artefacts)

    def run(self, name: str, *arguments: str, **extra: str) -> Done:
        told = {
            "ZEROTH_JUDGE_URL": self.server.url,
            "ZEROTH_JUDGE_MODEL": MODEL,
            "ZEROTH_JUDGE_API_KEY": KEY,
            "ZEROTH_JUDGE_TRIES": "1",
            "ZEROTH_JUDGE_INPUT_PRICE": "2",
            "ZEROTH_JUDGE_OUTPUT_PRICE": "8",
            "ZEROTH_JUDGE_CURRENCY": "EUR",
        }
        self.done[name] = self.corpus.zeroth(*arguments, **{**told, **extra})
        self.calls[name] = len(self.server.bodies)
        self.sidecars[name] = self.store.require("judgments")
        return self.done[name]

    def judge(self, name: str, **extra: str) -> Done:
        return self.run(name, "materialize", "--asset", "judgments", **extra)


def answers_of(sheet: Path) -> str:
    """The sheet as a person would give it back: in every grade, one apart from the passage's length by turns."""
    rows = list(csv.DictReader(io.StringIO(sheet.read_text("utf-8-sig"), newline="")))
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows({**row, "grade": str(number % 4)} for number, row in enumerate(rows))
    return out.getvalue()


@pytest.fixture(scope="module")
def story(materialised: Materialised, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    server = ChatServer(model=MODEL, grade=lambda text: (len(text) // 7) % 4)
    with small_corpus("judged", like=materialised.corpus) as corpus, running(server):
        one = Story(corpus, server, sheets=tmp_path_factory.mktemp("sheets"))
        one.sidecars["before"] = one.store.require("judgments")
        server.models.append({"id": "judge", "owned_by": "someone"})
        server.models.append({"id": DRAFTER, "owned_by": "someone"})
        one.judge("alias", ZEROTH_JUDGE_MODEL="judge")
        one.judge("drafter", ZEROTH_JUDGE_MODEL=DRAFTER)
        server.on_completion = lambda number: setattr(server, "always", "status 500" if number >= 3 else None)
        one.judge("dies")
        server.on_completion, server.always = None, None
        one.judge("budget", ZEROTH_JUDGE_TOKEN_BUDGET="5000")
        server.script = ["status 429", "truncated"]
        one.judge("misbehaves", ZEROTH_JUDGE_TRIES="3")
        one.judge("mended")
        one.run("rest", "materialize", "--json")
        one.run("nothing stale", "materialize", "--json")
        one.run("sheet", "judge", "sheet", str(one.sheets), "--size", "40")
        (one.sheets / "graded.csv").write_text(answers_of(one.sheets / "sheet.csv"), "utf-8")
        (one.sheets / "half.csv").write_text((one.sheets / "sheet.csv").read_text("utf-8"), "utf-8")
        one.run("half graded", "judge", "import", str(one.sheets / "half.csv"))
        one.run("graded", "judge", "import", str(one.sheets / "graded.csv"), "--json")
        one.run("metrics", "metrics", "retrieval")
        one.run("comparisons", "metrics", "comparisons")
        one.run("metrics json", "metrics", "retrieval", "--json")
        one.run("lend", "ledger", "lend", "bm25", "--split", "test", "--out", str(one.sheets / "lent.jsonl"))
        one.run("choose", "ledger", "choose", "bm25")
        one.before_refusal = corpus.made_at()
        one.run("refused", "materialize", "--asset", "retrieval_metrics", "--partition", "fixed_512.bm25")
        one.run("ledger", "ledger", "show", "--json")
        yield one


def test_an_alias_that_nothing_pins_is_refused_where_figures_are_published(story: Story) -> None:
    done = story.done["alias"]
    assert done.code == SnapshotError.exit_code
    assert "not pinned" in done.out + done.err
    assert story.calls["alias"] == 1, "a probe of a few tokens, and no passage"
    assert story.sidecars["alias"] == story.sidecars["before"]


def test_a_judge_that_drafted_the_questions_is_refused(story: Story) -> None:
    done = story.done["drafter"]
    assert done.code == SnapshotError.exit_code
    assert "drafted a question" in done.out + done.err
    assert story.calls["drafter"] == story.calls["alias"]


def test_a_server_that_dies_in_the_middle_leaves_what_was_published_and_keeps_what_was_judged(story: Story) -> None:
    done = story.done["dies"]
    assert done.code == JudgeUnavailable.exit_code
    assert "what is judged is kept" in done.out + done.err
    assert story.sidecars["dies"] == story.sidecars["before"]
    assert story.calls["dies"] - story.calls["drafter"] == 5, "two answers, then three failures in a row"


def test_a_budget_ends_the_run_before_it_is_exceeded(story: Story) -> None:
    done = story.done["budget"]
    assert done.code == BudgetError.exit_code
    assert "token budget" in done.out + done.err
    assert story.sidecars["budget"] == story.sidecars["before"]
    (journal,) = (story.corpus.home / "judge").glob(f"{MODEL}*.jsonl")
    assert oct(journal.stat().st_mode & 0o777) == "0o600"


def test_a_rate_limit_is_waited_out_and_a_truncated_answer_is_no_grade(story: Story) -> None:
    done, sidecar = story.done["misbehaves"], story.sidecars["misbehaves"]
    assert done.code == 0, done.out + done.err
    assert list(sidecar.details["judge"]["failed"].values()) == ["truncated"]
    assert " 0 unjudged" not in str(sidecar.details["who"])


def test_nothing_that_was_judged_is_paid_for_twice(story: Story) -> None:
    whole = story.sidecars["mended"].details["judge"]
    assert whole["failed"] == {}
    assert story.calls["mended"] - story.calls["misbehaves"] == 1, "the truncated call alone"
    prompts = [body["messages"][0]["content"] for body in story.server.bodies]
    assert len(prompts) - len(set(prompts)) <= 6, "asked again: what failed, or was cut short"
    usage = whole["usage"]
    assert whole["cost"] == pytest.approx((usage["input_tokens"] * 2 + usage["output_tokens"] * 8) / 1e6)
    assert whole["currency"] == "EUR"


def test_every_pooled_passage_has_a_grade_and_a_persons_goes_before_the_models(story: Story) -> None:
    pool, graded = story.store.read_frame("judgment_pool"), story.store.read_frame("judgments")
    keys = ["chunk_set", "query_id", "document_id"]
    assert pool.join(graded, on=keys, how="anti").is_empty()
    assert not graded.select(keys).is_duplicated().any()
    by_model = graded.filter(pl.col("judged_by") == f"model {LABEL}")
    assert by_model.height > 50
    with story.corpus.active():
        people = graded.filter(~pl.col("judged_by").str.starts_with("model "))
    assert set(people["judged_by"]) == {"drafted span", "by construction: the query has no answer for its asker"}


def test_what_the_judge_is_worth_stands_in_the_metadata_of_the_grades(story: Story) -> None:
    about = story.sidecars["mended"].details["judge"]
    assert (about["label"], about["pinned"]) == (LABEL, True)
    assert "agreement with experts' spans withheld" in about["worth"], "the sample has no experts"
    assert about["agreement"]["drafters"]["withheld"] == "too few"
    assert about["agreement"]["drafters"]["n"] > 0
    parameters = story.sidecars["mended"].parameters["judge"]
    assert parameters["model"] == MODEL
    assert len(parameters["prompt"]) == 64
    assert not {"url", "api_key", "token_budget", "input_price"} & set(parameters)


def test_grades_of_a_judge_make_what_stands_on_them_stale_and_nothing_else(story: Story) -> None:
    rest = story.done["rest"]
    assert rest.code == 0, rest.out + rest.err
    made = {asset for run in rest.json["runs"] for asset in run["assets"]}
    assert {"golden_set", "retrieval_metrics", "metric_comparisons", "abstention_metrics"} <= made
    assert not {"retrieval_runs", "judgment_pool", "judgments", "golden_queries"} & made
    assert story.done["nothing stale"].json["runs"] == []


def test_every_figure_that_rests_on_a_model_says_so_with_the_models_worth(story: Story) -> None:
    shown = story.done["metrics"].out
    assert f"are by the model {LABEL}, agreement with experts' spans withheld" in shown
    assert f"the model {LABEL}, agreement with experts' spans withheld" in story.done["comparisons"].out
    rows = story.done["metrics json"].json
    resting = [row for row in rows if row["model_grades"]]
    assert resting
    assert all(row["judge"].startswith(LABEL) for row in resting)
    assert {row["metric"] for row in rows if row["judge"] is None} >= {"span_iou@5", "all_parts@10"}
    golden = story.store.require("golden_set").details
    assert {row["golden_fingerprint"] for row in rows} == {golden["truth"]} != {golden["digest"]}


def test_the_judge_is_shown_nothing_but_question_and_passages(story: Story) -> None:
    with story.corpus.active():
        tenants = set(story.store.read_frame("tenant_assignments")["tenant"])
        ids = set(story.store.read_frame("golden_queries")["query_id"])
    for body in story.server.bodies[1:]:
        text = json.dumps(body["messages"])
        assert not [name for name in (*tenants, *ids) if name in text]


def test_a_person_grades_a_sheet_and_the_agreement_is_kept_and_shown(story: Story) -> None:
    assert story.done["sheet"].code == 0, story.done["sheet"].err
    assert {path.name for path in story.sheets.iterdir()} == {
        "sheet.html", "sheet.csv", "graded.csv", "half.csv", "lent.jsonl",
    }  # fmt: skip
    assert all(oct((story.sheets / name).stat().st_mode & 0o777) == "0o600" for name in ("sheet.html", "sheet.csv"))
    half = story.done["half graded"]
    assert half.code == SheetError.exit_code
    assert "no grade in rows 2, 3, 4" in half.err
    told = story.done["graded"].json
    assert (told["judge"], told["n"]) == (LABEL, 40)
    assert told["kappa"]["low"] < told["kappa"]["high"]
    record = json.loads(Path(told["record"]).read_text("utf-8"))
    assert "passage" not in str(record)
    assert f"{LABEL} and a person: quadratic-weighted kappa" in story.done["metrics"].out


def test_the_key_is_nowhere_in_the_home_in_what_dagster_keeps_or_in_what_was_printed(story: Story) -> None:
    assert any(KEY.encode() in part for part in story.server.sent), "it was sent to the server"
    printed = "".join(done.out + done.err for done in story.done.values())
    assert KEY not in printed
    found = [path for path in files_under(story.corpus.home) if KEY.encode() in path.read_bytes()]
    assert found == []
    with story.corpus.active():
        from zeroth_assets.defs.resources import Project

        with Project().database.admin(dbname=Project().database.dagster_name) as conn:
            events = [row[0] for row in conn.execute("select event from event_logs").fetchall()]
            runs = [str(row[0]) for row in conn.execute("select run_body from runs").fetchall()]
    assert events
    assert runs
    assert not [text for text in (*events, *runs) if KEY in text]


def test_figures_of_a_retriever_that_was_tuned_on_test_queries_are_withheld(story: Story) -> None:
    assert story.done["lend"].code == story.done["choose"].code == 0, story.done["lend"].err
    lent = [json.loads(line) for line in (story.sheets / "lent.jsonl").read_text("utf-8").splitlines()]
    assert {row["act"]: row["queries"] for row in story.done["ledger"].json} == {"read": len(lent), "chosen": 0}
    assert story.done["refused"].code == MeasurementError.exit_code
    assert "chosen with test queries" in story.done["refused"].out + story.done["refused"].err
    assert story.corpus.made_at() == story.before_refusal
    with story.corpus.active():
        from zeroth_assets.defs.resources import Project

        planner = Project().planner()
        fresh = {arm: planner.is_fresh("retrieval_metrics", f"fixed_512.{arm}") for arm in ("bm25", "rrf")}
    assert fresh == {"bm25": False, "rrf": True}
    assert story.corpus.zeroth("ledger", "choose", "nothing").code == SettingsError.exit_code


def test_the_checks_of_a_judge_are_red_where_it_is_not_measured_or_did_not_answer() -> None:
    from zeroth_assets.defs.judgments import _checks

    def passed(people: str, **changes: Any) -> dict[str | None, bool]:
        pairs = reference_pairs(graded().filter(pl.col("judged_by").is_in(people.split("/"))), asked(), **DRAWN)
        run = dataclasses.replace(judged(pairs, off=40), **changes)
        return {one.check_name: one.passed for one in _checks((run, worth_of(run, pairs, seed=1, resamples=100)))}

    everybody = f"{EXPERT_SPAN}/{READ_WHOLE}/{DRAFTED_SPAN}"
    assert passed(everybody) == {"judge_is_measured": True, "judge_answered": True}
    assert passed(DRAFTED_SPAN) == {"judge_is_measured": False, "judge_answered": True}
    assert passed(everybody, failed={"q:1": "truncated"}) == {"judge_is_measured": True, "judge_answered": False}
    assert all(one.passed for one in _checks(None))


def files_under(folder: Path) -> list[Path]:
    """Every file that this process can read; PostgreSQL's own belong to another user, and its tables are asked."""
    return [
        Path(place) / name
        for place, _, names in os.walk(folder)
        for name in names
        if (Path(place) / name).is_file() and os.access(Path(place) / name, os.R_OK)
    ]
