from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from zeroth_assets.defs import processes
from zeroth_assets.defs.processes import Record, end, find, is_alive, mark_of, records, sweep, this_process

# It ignores SIGINT, and says so before it waits for ever.
STUBBORN = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


@pytest.fixture
def family() -> Iterator[list[psutil.Process]]:
    """A process and its stubborn child."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        both = [psutil.Process(parent.pid), psutil.Process(int(parent.stdout.readline()))]
        yield both
        for process in both:
            if process.is_running():
                process.kill()


def ended_mark() -> str:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        mark = mark_of(psutil.Process(process.pid))
        process.communicate(b"\n")
    return mark


def test_a_process_is_alive_until_it_ends() -> None:
    assert is_alive(this_process())
    assert not is_alive(ended_mark())


def test_a_pid_that_was_given_to_another_process_does_not_count() -> None:
    known = json.loads(this_process())
    assert find(json.dumps({**known, "started": known["started"] - 60})) is None


def test_a_process_on_another_host_cannot_be_seen_and_counts_as_alive() -> None:
    elsewhere = json.dumps({**json.loads(ended_mark()), "host": "elsewhere"})
    assert is_alive(elsewhere)
    assert end([elsewhere], grace=0.1) == 0


def test_what_does_not_end_when_asked_is_killed_with_its_children(family: list[psutil.Process]) -> None:
    assert end([mark_of(family[0])], grace=0.5) == 1
    assert psutil.wait_procs(family, timeout=5)[1] == []


def test_what_a_killed_child_left_is_found_by_its_session() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, start_new_session=True) as parent:
        assert parent.stdout is not None
        orphan = psutil.Process(int(parent.stdout.readline()))
        mark = mark_of(psutil.Process(parent.pid))
        parent.kill()
    assert orphan.is_running()
    assert end([mark], grace=0.5) == 1
    assert psutil.wait_procs([orphan], timeout=5)[1] == []


def test_a_sweep_ends_what_a_dead_owner_left_and_forgets_it(tmp_path: Path, family: list[psutil.Process]) -> None:
    path = processes.record_path(tmp_path, 1)
    Record(path, ended_mark(), "http://127.0.0.1:3000", (mark_of(family[0]),)).write()
    assert sweep(tmp_path, grace=0.5) == ["http://127.0.0.1:3000"]
    assert list(records(tmp_path)) == []
    assert psutil.wait_procs(family, timeout=5)[1] == []


def test_a_sweep_leaves_the_children_of_a_living_owner_alone(tmp_path: Path, family: list[psutil.Process]) -> None:
    Record(processes.record_path(tmp_path, 1), this_process(), "http://x", (mark_of(family[0]),)).write()
    assert sweep(tmp_path) == []
    assert len(list(records(tmp_path))) == 1
    assert all(process.is_running() for process in family)


def test_the_watcher_ends_the_children_when_its_standard_input_closes(
    tmp_path: Path, family: list[psutil.Process]
) -> None:
    path = processes.record_path(tmp_path, 1)
    Record(path, this_process(), "http://x", (mark_of(family[0]),)).write()
    watcher = subprocess.Popen([sys.executable, "-m", processes.__name__, str(path)], stdin=subprocess.PIPE)
    family[1].kill()  # the parent then ends by itself, as a child that heeds the signal does
    watcher.communicate(timeout=60)
    assert watcher.returncode == 0
    assert not path.exists()
    assert psutil.wait_procs(family, timeout=5)[1] == []


def test_the_watcher_does_nothing_when_the_owner_ended_in_order(tmp_path: Path, family: list[psutil.Process]) -> None:
    missing = processes.record_path(tmp_path, 1)
    done = subprocess.run([sys.executable, "-m", processes.__name__, str(missing)], input=b"", timeout=60, check=False)
    assert done.returncode == 0
    assert all(process.is_running() for process in family)
