from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Iterator

import pytest
from pydantic import SecretStr

from zeroth_assets.evaluation.judging.client import ChatClient, RequestRefused
from zeroth_assets.evaluation.judging.model import JudgeConfig, JudgeError, JudgeUnavailable
from zeroth_assets.evaluation.judging.prompt import answer_schema, render
from zeroth_assets.evaluation.judging.wire import Completion
from zeroth_assets_tests.evaluation.judging.chat_server import ChatServer
from zeroth_assets_tests.evaluation.judging.conftest import Bench, Clock

KEY = "sk-canary-0123456789"


@pytest.fixture
def ask(server: ChatServer, clock: Clock) -> Iterator[object]:
    clients: list[ChatClient] = []

    def call(**changes: object) -> Completion:
        config = JudgeConfig(**{"url": server.url, "model": "judge-2025-04-14", **changes})  # type: ignore[arg-type]
        client = ChatClient(config, sleep=clock.sleep, clock=clock, monotonic=clock)
        clients.append(client)
        return client.complete(config.model, render("q", ["secret passage text"]), seed=1, schema=answer_schema(1))

    yield call
    for client in clients:
        client.__exit__()


def test_the_schema_is_asked_for_in_every_spelling_at_once(ask: object, server: ChatServer) -> None:
    ask()  # type: ignore[operator]
    (body,) = server.bodies
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["schema"] == answer_schema(1)
    assert body["response_format"]["json_schema"]["strict"] is True
    assert body["structured_outputs"] == {"json": answer_schema(1)}
    assert body["json_schema"] == answer_schema(1)


def test_a_server_that_refuses_unknown_fields_gets_the_standard_one_from_then_on(bench: Bench) -> None:
    bench.server.refuses_fields = frozenset({"structured_outputs", "json_schema"})
    run = bench.run()
    assert run.complete
    assert len(bench.server.bodies) == 4
    assert "structured_outputs" not in bench.server.bodies[-1]
    assert "response_format" in bench.server.bodies[-1]


def test_a_server_without_response_format_gets_the_older_fields(ask: object, server: ChatServer) -> None:
    server.refuses_fields = frozenset({"response_format"})
    ask()  # type: ignore[operator]
    assert server.bodies[-1]["guided_json"] == answer_schema(1)
    assert len(server.bodies) == 3


def test_a_request_that_is_refused_in_every_spelling_is_an_error(ask: object, server: ChatServer) -> None:
    server.refuses_fields = frozenset({"messages"})
    with pytest.raises(RequestRefused, match="400"):
        ask()  # type: ignore[operator]
    assert len(server.bodies) == 3


def test_reasoning_models_get_their_own_output_limit_and_no_temperature(ask: object, server: ChatServer) -> None:
    ask(output_limit_field="max_completion_tokens", temperature=None)  # type: ignore[operator]
    assert "max_tokens" not in server.bodies[0]
    assert "temperature" not in server.bodies[0]
    assert server.bodies[0]["max_completion_tokens"] == 2_048


@pytest.mark.parametrize("misdeed", ["status 429", "status 500", "status 503", "drop", "half", "html", "envelope NaN"])
def test_a_passing_trouble_is_tried_again_with_growing_waits(
    ask: object, server: ChatServer, clock: Clock, misdeed: str
) -> None:
    server.script = [misdeed, misdeed]
    completion = ask()  # type: ignore[operator]
    assert completion.content == '{"P1": 0}'
    assert clock.waits == [1.0, 2.0]


@pytest.mark.parametrize("misdeed", ["status 429", "status 500", "drop"])
def test_tries_are_bounded(ask: object, server: ChatServer, clock: Clock, misdeed: str) -> None:
    server.always = misdeed
    with pytest.raises(JudgeUnavailable, match="4 tries"):
        ask(tries=4)  # type: ignore[operator]
    assert len(server.bodies) == 4
    assert clock.waits == [1.0, 2.0, 4.0]


def test_a_backoff_does_not_grow_beyond_the_longest_wait(ask: object, server: ChatServer, clock: Clock) -> None:
    server.always = "status 500"
    with pytest.raises(JudgeUnavailable):
        ask(tries=6, longest_wait_seconds=5)  # type: ignore[operator]
    assert clock.waits == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_retry_after_is_honoured_in_both_forms(ask: object, server: ChatServer, clock: Clock) -> None:
    server.script = ["status 429 30"]
    ask()  # type: ignore[operator]
    assert clock.waits == [30.0]
    server.script = ["status 429 Wed, 21 Oct 2099 07:28:00 GMT"]
    with pytest.raises(JudgeUnavailable, match="long wait"):
        ask()  # type: ignore[operator]


def test_a_longer_retry_after_than_allowed_is_not_waited_for(ask: object, server: ChatServer, clock: Clock) -> None:
    server.script = ["status 429 3600"]
    with pytest.raises(JudgeUnavailable, match="3600"):
        ask()  # type: ignore[operator]
    assert clock.waits == []


def test_a_server_that_does_not_answer_is_timed_out(ask: object, server: ChatServer) -> None:
    server.script = ["slow"]
    with pytest.raises(JudgeUnavailable, match=r"0\.1 s"):
        ask(timeout_seconds=0.1, tries=1)  # type: ignore[operator]


def test_a_server_that_dribbles_is_held_to_the_deadline(server: ChatServer) -> None:
    ticks = iter([0.0, 1_000.0, 1_000.0])
    with (
        ChatClient(JudgeConfig(server.url, "m", tries=1), monotonic=lambda: next(ticks)) as client,
        pytest.raises(JudgeUnavailable, match="no whole answer"),
    ):
        client.get("/models")


def test_the_key_does_not_follow_a_redirect(ask: object, server: ChatServer) -> None:
    server.script = ["status 307"]
    with pytest.raises(RequestRefused, match="307"):
        ask(api_key=SecretStr(KEY))  # type: ignore[operator]
    assert b"elsewhere" not in b"".join(server.sent)


def test_nothing_listens(clock: Clock) -> None:
    config = JudgeConfig("http://127.0.0.1:9/v1", "m", tries=2)
    with ChatClient(config, sleep=clock.sleep) as client, pytest.raises(JudgeUnavailable, match="ConnectError"):
        client.get("/models")


def test_the_key_is_sent_and_stands_in_no_error_log_repr_record_or_pickle(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key = SecretStr(KEY)
    bench.run(api_key=key)
    assert f"Bearer {KEY}".encode() in b"".join(bench.server.sent)
    told = [bench.journal.read_text("utf-8"), repr(bench.config(api_key=key))]
    for status in (400, 401, 404, 500):
        bench.journal = bench.journal.with_name(f"{status}.jsonl")
        bench.server.always = f"status {status}"
        try:
            run = bench.run(api_key=key, tries=1)
            told.append(repr(run))
        except JudgeError as error:
            told += [str(error), repr(error), "".join(traceback.format_exception(error)), repr(pickle.dumps(error))]
        told.append(bench.journal.read_text("utf-8"))
    with ChatClient(bench.config(api_key=key)) as client:
        told.append(repr(client))
    told += [record.getMessage() for record in caplog.records]
    assert len(told) > 20
    for text in told:
        assert KEY not in text
        assert "w0x" not in text


def test_an_error_does_not_quote_what_was_sent(ask: object, server: ChatServer) -> None:
    server.script = ["status 403"]
    with pytest.raises(RequestRefused) as caught:
        ask(api_key=SecretStr(KEY))  # type: ignore[operator]
    text = "".join(traceback.format_exception(caught.value))
    assert "403 (server_error, ***)" in text
    assert "secret passage" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://host/v1", "http://user:pass@host/v1", "http://host/v1?key=1", "http://[/v1"]
)
def test_a_url_that_cannot_be_used_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(JudgeError, match="URL") as caught:
        ChatClient(JudgeConfig(url, "m"))
    assert "pass" not in str(caught.value).replace("password", "")


@pytest.mark.parametrize("key", ["with space", "with\nnewline", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(JudgeError, match="key") as caught:
        ChatClient(JudgeConfig("http://127.0.0.1/v1", "m", SecretStr(key)))
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"model": " "},
        {"tries": 0},
        {"passages_per_call": 0},
        {"timeout_seconds": 0},
        {"max_output_tokens": 0},
        {"money_budget": 1.0},
        {"repeats_per_query": -1},
        {"backoff_seconds": -1},
        {"concurrency": 0},
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(JudgeError, match="settings"):
        JudgeConfig(**{"url": "http://127.0.0.1/v1", "model": "m", **changes})  # type: ignore[arg-type]


def test_a_proxy_that_the_environment_names_gets_neither_passages_nor_key(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert bench.run(api_key=SecretStr(KEY)).judgments.height == 15
