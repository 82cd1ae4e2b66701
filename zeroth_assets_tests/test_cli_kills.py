from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dagster as dg
import pytest

from zeroth_assets.defs.instance import UNFINISHED, open_instance
from zeroth_assets.defs.resources import Project
from zeroth_assets.store import server
from zeroth_assets_tests.defs.test_runner import TENANTS, all_of, alone, rows_of
from zeroth_assets_tests.small_corpus import LANTERN, Materialised, SmallCorpus

POOL = "encoder"
PATIENCE_SECONDS = 200.0
# What holds a measured time, or says how it was built: made twice it differs.
TIMED = ("tenant_index", "ann_recall", "access_recall", "path_costs", "retrieval_runs", "latency_metrics", "dedup")
WAITS = "another materialisation works on this home"


@contextmanager
def instance_of(corpus: SmallCorpus) -> Iterator[dg.DagsterInstance]:
    with corpus.active():
        project = Project()
        with open_instance(project.settings, project.database) as instance:
            yield instance


def unfinished(instance: dg.DagsterInstance) -> list[str]:
    return [run.run_id for run in instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED))]


def claimed(instance: dg.DagsterInstance) -> int:
    return instance.event_log_storage.get_concurrency_info(POOL).active_slot_count


def until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def read_until(process: subprocess.Popen[str], words: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return
    pytest.fail(f"{words!r} was never said")


def kill(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_a_run_killed_with_its_pool_slot_claimed_is_closed_by_the_same_command(own: SmallCorpus) -> None:
    own.rewrite(LANTERN, lambda content: content.replace(b"lamp", b"lantern"))
    server.start(own.home)
    process = own.start("materialize", "--no-fan-ins", "--plain")
    with instance_of(own) as instance:
        until(lambda: claimed(instance) == 1, process)
        kill(process)
        [left] = unfinished(instance)
        # Nothing but the next command frees it: without that, every later run would wait on the pool for ever.
        assert claimed(instance) == 1
    done = own.process("materialize", "--no-fan-ins", "--plain")
    assert done.code == 0, done.out + done.err
    assert f"run {left[:8]} was left by a process that is gone: marked failed" in done.out
    with instance_of(own) as instance:
        assert unfinished(instance) == []
        assert claimed(instance) == 0
        run = instance.get_run_by_id(left)
        assert run is not None
        assert run.status is dg.DagsterRunStatus.FAILURE
    assert rows_of(own, LANTERN) > 0
    assert own.remake("--json").json["runs"] == []


def test_kill_9_at_any_moment_loses_nothing_and_the_same_command_completes(
    empty: SmallCorpus, materialised: Materialised
) -> None:
    moments = random.Random(7)
    for words in ("starting the database", "ok corpus_manifest", "ok tenant_assignments", "ok golden_queries"):
        process = empty.start("materialize", "--plain", PYTHONUNBUFFERED="1")
        read_until(process, words)
        timer = threading.Timer(moments.uniform(0.0, 1.5), lambda p=process: os.killpg(p.pid, signal.SIGKILL))
        timer.start()
        process.communicate()
        timer.join()
        assert process.returncode == -signal.SIGKILL
    done = empty.zeroth("materialize")
    assert done.code == 0, done.out + done.err
    with instance_of(empty) as instance:
        assert unfinished(instance) == []
        assert claimed(instance) == 0
    found, wanted = empty.data_versions(), materialised.corpus.data_versions()
    settled = {name for name in wanted if not name.startswith(TIMED)}
    assert any(name.startswith("retrieval_metrics/") for name in settled)
    assert {name: found[name] for name in settled} == {name: wanted[name] for name in settled}
    assert all_of(*TENANTS) <= set(found)
    assert not list(empty.artefacts.glob("**/*.part"))
    assert empty.zeroth("corpus", "verify").code == 0


def test_ctrl_c_inside_a_step_says_so_and_the_same_command_completes(own: SmallCorpus) -> None:
    own.rewrite(LANTERN, lambda content: content.replace(b"lamp", b"lantern"))
    process = own.start("materialize", "--no-fan-ins", "--plain")
    until(lambda: server.status(own.home).state == "running", process)
    with instance_of(own) as instance:
        until(lambda: claimed(instance) == 1, process)
        # As a terminal does: to the whole group, the server's processes not among it.
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 130, said
        assert "interrupted; the same command goes on from here" in said
        assert "Traceback" not in said
        assert unfinished(instance) == []
        assert claimed(instance) == 0
    assert server.status(own.home).state == "running"
    assert own.remake().code == 0
    assert own.remake("--json").json["runs"] == []


def test_two_at_once_take_turns_and_the_second_finds_the_work_done(empty: SmallCorpus) -> None:
    both = [empty.start("materialize", "--plain", "--no-fan-ins", "--source", "rfc") for _ in range(2)]
    said = [process.communicate(timeout=PATIENCE_SECONDS)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sorted(WAITS in text for text in said) == [False, True]
    [waited] = [text for text in said if WAITS in text]
    [worked] = [text for text in said if WAITS not in text]
    assert "nothing is stale" in waited
    for tenant in ("rfc-lantern-signalling", "rfc-orchard-naming"):
        assert re.search(rf"^ok {tenant} \d+ assets", worked, re.MULTILINE), worked
    assert alone("rfc-lantern-signalling", "rfc-orchard-naming") <= set(empty.data_versions())
