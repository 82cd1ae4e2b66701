from __future__ import annotations

import pytest

from zeroth_assets.evaluation.judging.client import ChatClient
from zeroth_assets.evaluation.judging.model import JudgeQuery, Snapshot, SnapshotError
from zeroth_assets.evaluation.judging.snapshot import drafter_caveat, is_pinned, resolve, same_model
from zeroth_assets_tests.evaluation.judging.chat_server import ChatServer
from zeroth_assets_tests.evaluation.judging.conftest import Bench


def ask(bench: Bench, model: str, *, publishing: bool = True) -> Snapshot:
    with ChatClient(bench.config(model=model, publishing=publishing)) as client:
        return resolve(client)[0]


@pytest.mark.parametrize(
    ("name", "pinned"),
    [
        ("judge-2025-04-14", True),
        ("judge-20250414", True),
        ("judge-2411", True),
        ("org/judge-7b@1a2b3c4", True),
        ("judge@" + "ab12" * 16, True),
        ("judge-latest", False),
        ("judge:latest", False),
        ("judge-2025-04-14-latest", False),
        ("judge", False),
        ("judge-7b-instruct", False),
        ("judge@main", False),
        ("judge@deadbeef", False),
        ("models/judge.Q4_K_M.gguf", False),
        ("judge-2099-13-45", False),
    ],
)
def test_a_pinned_name_carries_a_date_or_a_revision(name: str, pinned: bool) -> None:
    assert is_pinned(name) is pinned


def test_a_dated_name_is_its_own_snapshot_and_costs_no_question(bench: Bench) -> None:
    assert ask(bench, "judge-2025-04-14").label == "judge-2025-04-14@judge-2025-04-14"
    assert bench.server.bodies == []


def test_an_alias_is_resolved_by_what_a_completion_says(bench: Bench) -> None:
    bench.server.models = [{"id": "judge-latest"}, {"id": "judge-2025-04-14"}]
    bench.server.answers_as = "judge-2025-04-14"
    snapshot = ask(bench, "judge-latest")
    assert snapshot.label == "judge-latest@judge-2025-04-14"
    assert snapshot.request_name == "judge-2025-04-14"


def test_an_alias_is_resolved_by_the_servers_list_where_that_tells_it(bench: Bench) -> None:
    bench.server.models = [{"id": "judge-2411", "aliases": ["judge-latest"]}, {"id": "other-2411"}]
    assert ask(bench, "judge-latest").label == "judge-latest@judge-2411"
    assert bench.server.bodies == []


def test_an_unlisted_snapshot_is_asked_for_by_the_alias_and_held_to_all_the_same(bench: Bench) -> None:
    bench.server.models = [{"id": "judge"}]
    bench.server.answers_as = "judge-2025-04-14"
    snapshot = ask(bench, "judge")
    assert (snapshot.request_name, snapshot.answer_name) == ("judge", "judge-2025-04-14")
    run = bench.run(model="judge", publishing=True)
    assert run.complete
    assert set(run.judgments["graded_by"]) == {"judge@judge-2025-04-14"}


@pytest.mark.parametrize("name", ["judge-latest", "judge", "judge-7b"])
def test_a_name_that_nothing_pins_is_refused_where_figures_are_published(bench: Bench, name: str) -> None:
    bench.server.models = [{"id": name}]
    with pytest.raises(SnapshotError, match="not pinned"):
        ask(bench, name)


def test_a_name_that_nothing_pins_serves_unpublished_work_and_says_so(bench: Bench) -> None:
    bench.server.models = [{"id": "judge-7b"}]
    run = bench.run(model="judge-7b")
    assert set(run.judgments["graded_by"]) == {"judge-7b@unresolved"}
    assert any("not pinned" in caveat for caveat in run.caveats)
    assert run.snapshot.backend_version == "fp_1"


def test_a_model_that_the_server_does_not_serve_is_refused(bench: Bench) -> None:
    with pytest.raises(SnapshotError, match="does not serve"):
        ask(bench, "another-2025-04-14")


def test_a_server_that_lists_nothing_is_still_asked(bench: Bench) -> None:
    bench.server.models = []
    bench.server.answers_as = "judge-2025-04-14"
    assert ask(bench, "judge").label == "judge@judge-2025-04-14"


def test_a_server_that_does_not_say_who_answers_is_refused(bench: Bench) -> None:
    bench.server.models = [{"id": "judge"}]
    bench.server.always = "no model"
    with pytest.raises(SnapshotError, match="does not say"):
        ask(bench, "judge")


def test_what_the_resolving_costs_is_counted(bench: Bench) -> None:
    bench.server.models = [{"id": "judge"}]
    bench.server.answers_as = "judge-2025-04-14"
    assert bench.run(model="judge").usage.calls == 4


@pytest.mark.parametrize(
    ("drafter", "same"),
    [
        ("judge", True),
        ("Judge-2024-01-01", True),
        ("vendor/judge-latest", True),
        ("judge@1a2b3c4d", True),
        ("judge-mini", False),
        ("lawyers", False),
    ],
)
def test_versions_of_a_model_are_the_same_model(drafter: str, same: bool) -> None:
    assert same_model(Snapshot("judge-latest", "judge-2025-04-14", "judge", "judge-2025-04-14"), drafter) is same


def test_a_drafter_that_only_the_snapshot_gives_away_is_found() -> None:
    judge = Snapshot("best", "judge-2025-04-14", "best", "judge-2025-04-14")
    with pytest.raises(SnapshotError):
        drafter_caveat(judge, JudgeQuery("q", "?", "judge-2024-01-01"))


def test_what_a_server_calls_itself_is_made_safe_to_print(server: ChatServer, bench: Bench) -> None:
    server.models[0]["owned_by"] = "evil\n<script>" + "x" * 500
    assert ask(bench, "judge-2025-04-14").backend.startswith("evil__script_")
    assert len(ask(bench, "judge-2025-04-14").backend) <= 120


@pytest.mark.parametrize("drafter", [None, "", " ", "language model; name not recorded", "unknown", "a language model"])
def test_a_drafter_without_a_name_is_never_a_silent_pass(drafter: str | None) -> None:
    judge = Snapshot("judge-latest", "judge-2025-04-14", "judge", "judge-2025-04-14")
    caveat = drafter_caveat(judge, JudgeQuery("q", "?", drafter))
    assert caveat is not None
    assert "not recorded" in caveat
    assert drafter_caveat(judge, JudgeQuery("q", "?", "CUAD annotators")) is None
