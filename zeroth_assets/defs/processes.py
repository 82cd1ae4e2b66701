"""Processes: what belongs here is telling a process from one that has its pid, and ending what a killed one left.

`zeroth dev` writes a record of itself and its children. A watcher, this module run by itself, ends the children when
their owner is killed; where the watcher was killed too, the next `zeroth dev` or `zeroth db stop` does. Nothing heavy
is imported here: the watcher lives as long as the UI.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

GRACE_SECONDS = 20.0
FOLDER = "dev"


@dataclass(frozen=True, slots=True)
class Record:
    """What a `zeroth dev` started: its own mark, where its UI listens, and its children's marks."""

    path: Path
    owner: str
    url: str
    children: tuple[str, ...]

    def write(self) -> None:
        """Publish the record."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps({"owner": self.owner, "url": self.url, "children": self.children}))
        part.replace(self.path)


def this_process() -> str:
    """A mark that no other process has had: host, pid and start time."""
    return mark_of(psutil.Process())


def mark_of(process: psutil.Process) -> str:
    """The mark of a process that runs."""
    return json.dumps({"host": socket.gethostname(), "pid": process.pid, "started": process.create_time()})


def find(mark: str) -> psutil.Process | None:
    """The process that a mark is of, if it runs on this host; a pid that was given to another does not count."""
    known = json.loads(mark)
    if not _is_here(known):
        return None
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(known["pid"])
        if _is_marked(process, known) and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def is_alive(mark: str) -> bool:
    """Whether the process of the mark still runs. One on another host counts as alive: it cannot be seen from here."""
    return not _is_here(json.loads(mark)) or find(mark) is not None


def end(marks: Sequence[str], grace: float = GRACE_SECONDS) -> int:
    """Ask the processes to end, wait for them and all that they started, kill what is left. Returns how many ran.

    A child that was killed leaves its own children behind: they still carry its session, by which they are found.
    """
    asked: list[psutil.Process] = []
    family: list[psutil.Process] = []
    for mark in marks:
        leader, started = find(mark), _started_by(mark)
        asked += [leader] if leader is not None else started
        family += [*([leader] if leader is not None else []), *started]
    for process in asked:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGINT)
    _, left = psutil.wait_procs(family, timeout=grace)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=grace)
    return len(asked)


def _started_by(mark: str) -> list[psutil.Process]:
    known = json.loads(mark)
    if not _is_here(known):
        return []
    started: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        leader = psutil.Process(known["pid"])
        if not _is_marked(leader, known):
            return []  # a pid is given anew only when no session bears it any more
        started += leader.children(recursive=True)
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            if process.pid != known["pid"] and os.getsid(process.pid) == known["pid"] and process not in started:
                started.append(process)
    return started


def records(state_dir: Path) -> Iterator[Record]:
    """The records of a home, those of dead owners included."""
    for path in sorted((state_dir / FOLDER).glob("*.json")):
        with suppress(FileNotFoundError):
            yield read_record(path)


def read_record(path: Path) -> Record:
    """Read one record."""
    known = json.loads(path.read_text("utf-8"))
    return Record(path, known["owner"], known["url"], tuple(known["children"]))


def record_path(state_dir: Path, pid: int) -> Path:
    """Where the `zeroth dev` with this pid writes its record."""
    return state_dir / FOLDER / f"{socket.gethostname()}-{pid}.json"


def sweep(state_dir: Path, grace: float = GRACE_SECONDS) -> list[str]:
    """End what killed `zeroth dev` of this home left running. Returns their URLs."""
    swept = []
    for record in records(state_dir):
        if is_alive(record.owner):
            continue
        if end(record.children, grace):
            swept.append(record.url)
        record.path.unlink(missing_ok=True)
    return swept


def watch(path: Path) -> None:
    """Wait until standard input ends, which it does when the owner is gone; a record that is still there is swept."""
    sys.stdin.buffer.read()
    with suppress(FileNotFoundError):
        end(read_record(path).children)
        path.unlink(missing_ok=True)


def _is_marked(process: psutil.Process, known: dict[str, Any]) -> bool:
    return abs(process.create_time() - float(known["started"])) < 1.0


def _is_here(known: dict[str, Any]) -> bool:
    return bool(known.get("host", socket.gethostname()) == socket.gethostname())


if __name__ == "__main__":
    watch(Path(sys.argv[1]))
