"""`zeroth dev` as a process: what it refuses, and what is left of it when it is stopped or killed."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Iterator

import psutil
import pytest

from zeroth_assets.defs import processes
from zeroth_assets.errors import SettingsError
from zeroth_assets.store import server
from zeroth_assets_tests.defs import browser
from zeroth_assets_tests.small_corpus import SmallCorpus, quick_server, small_corpus

# The daemon alone: it starts a code server as the web server does, in half the time.
DAEMON = "--no-webserver"


@pytest.fixture(scope="module")
def corpus() -> Iterator[SmallCorpus]:
    with small_corpus("dev") as made:
        quick_server(made.home)
        server.stop(made.home)
        yield made


def command(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def children(dev: browser.Dev) -> list[psutil.Process]:
    """The watcher, the daemon and its code server, once all of them run."""
    for _ in range(600):
        family = dev.family()
        if sum("dagster" in command(p) for p in family) >= 2:
            return family
        with pytest.raises(psutil.TimeoutExpired):
            dev.process.wait(timeout=0.1)
    raise AssertionError(dev.log.read_text("utf-8"))


def test_a_signal_stops_all_that_was_started_the_database_included(corpus: SmallCorpus) -> None:
    with browser.zeroth_dev(corpus, DAEMON) as dev:
        family = children(dev)
        second = corpus.process("dev", "--port", str(browser.free_port()), DAEMON)
        assert second.code == SettingsError.exit_code
        assert "A daemon works on" in second.err
        assert dev.url in second.err
        assert dev.end(signal.SIGTERM) == 0
    assert browser.left_of(family, seconds=1) == []
    assert server.status(corpus.home).state == "stopped"


def test_a_database_that_ran_before_runs_on(corpus: SmallCorpus) -> None:
    server.start(corpus.home)
    with browser.zeroth_dev(corpus, DAEMON) as dev:
        children(dev)
        assert dev.end(signal.SIGINT) == 0
    assert server.status(corpus.home).state == "running"


def test_nothing_outlives_a_kill_and_the_next_one_starts(corpus: SmallCorpus) -> None:
    with browser.zeroth_dev(corpus, DAEMON) as dev:
        family = children(dev)
        dev.process.kill()
        assert browser.left_of(family) == []
    assert list(processes.records(corpus.home)) == []
    with browser.zeroth_dev(corpus, DAEMON) as again:
        children(again)
        assert again.end(signal.SIGINT) == 0


def test_what_outlives_a_kill_of_the_watcher_too_is_ended_by_db_stop(corpus: SmallCorpus) -> None:
    with browser.zeroth_dev(corpus, DAEMON) as dev:
        family = children(dev)
        watcher = next(p for p in family if processes.__name__ in command(p))
        watcher.kill()
        dev.process.kill()
        rest = [p for p in family if p.pid != watcher.pid]
        assert len(rest) >= 2
        assert corpus.process("db", "stop").code == 0
        assert browser.left_of(rest, seconds=1) == []
    assert list(processes.records(corpus.home)) == []


def test_a_child_that_ends_by_itself_is_an_error_and_takes_the_rest_with_it(corpus: SmallCorpus) -> None:
    with browser.zeroth_dev(corpus, DAEMON) as dev:
        family = children(dev)
        next(p for p in family if "dagster._daemon" in command(p)).kill()
        assert dev.process.wait(timeout=browser.STOP_SECONDS) != 0
        assert "The daemon ended by itself" in dev.log.read_text("utf-8")
    assert browser.left_of(family, seconds=5) == []


def test_a_port_that_is_taken_is_named(corpus: SmallCorpus) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = corpus.zeroth("dev", "--port", str(port))
    assert done.code == SettingsError.exit_code


def test_neither_web_server_nor_daemon_is_refused(corpus: SmallCorpus) -> None:
    assert corpus.zeroth("dev", "--no-webserver", "--no-daemon").code == SettingsError.exit_code
