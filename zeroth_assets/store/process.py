"""The postmaster of one data directory: found, told from strangers, stopped.

What belongs here: processes only. A pid is a number that the system gives out again, so nothing here
signals a process that was not first shown to be PostgreSQL serving this very directory.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A running postmaster that serves the data directory asked about."""

    process: psutil.Process
    port: int
    ready: bool

    @property
    def pid(self) -> int:
        """Its process id."""
        return int(self.process.pid)


@dataclass(frozen=True, slots=True)
class PidFile:
    """What `postmaster.pid` says: pid, data directory, port and state."""

    pid: int
    data_dir: str
    port: int
    state: str


def read_pid_file(data_dir: Path) -> PidFile | None:
    """Parse `postmaster.pid`; None where it is absent or not complete yet."""
    try:
        lines = (data_dir / "postmaster.pid").read_text(errors="replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return PidFile(int(lines[0]), lines[1], int(lines[3]), lines[7].strip() if len(lines) > 7 else "")
    except (ValueError, IndexError):
        return None


def find_postmaster(data_dir: Path, uid: int) -> Postmaster | None:
    """The live postmaster of `data_dir`, run by `uid`; None if there is none, whatever the pid file says."""
    claim = read_pid_file(data_dir)
    if claim is None or claim.pid <= 1:
        return None
    try:
        process = psutil.Process(claim.pid)
    except psutil.NoSuchProcess:
        return None
    if not _serves(process, data_dir, claim, uid):
        return None
    return Postmaster(process, claim.port, claim.state == "ready")


def _serves(process: psutil.Process, data_dir: Path, claim: PidFile, uid: int) -> bool:
    try:
        # A killed process that nobody has waited for keeps its pid; it serves nothing.
        if process.status() == psutil.STATUS_ZOMBIE or process.uids().real != uid:
            return False
        command = process.cmdline()
        if not command or command[0].startswith("postgres:") or Path(command[0]).name != "postgres":
            return False
        try:
            return bool(Path(process.cwd()).samefile(data_dir))
        except (psutil.AccessDenied, OSError):
            # Root in a container often lacks the right to read another user's cwd; the command line is open to all.
            # A home that was copied brings the pid file of the original along: the directory named must be this one.
            named = Path(claim.data_dir)
            return claim.data_dir in command and named.is_dir() and named.samefile(data_dir)
    except psutil.NoSuchProcess:
        return False


def ended(process: psutil.Process) -> bool:
    """Whether a process is over: gone, replaced under its pid, or dead and un-reaped."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_ended(process: psutil.Process, seconds: float) -> bool:
    """Wait up to `seconds` for a process to be over; say whether it is."""
    deadline = time.monotonic() + seconds
    while not ended(process):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def stop_postmaster(postmaster: Postmaster, fast_seconds: float, immediate_seconds: float) -> str:
    """Stop it: `fast` (sessions are cut off), then `immediate` (recovery at next start), then `kill`.

    Returns the mode that worked.
    """
    steps = (("fast", signal.SIGINT, fast_seconds), ("immediate", signal.SIGQUIT, immediate_seconds))
    for mode, sign, seconds in steps:
        if _send(postmaster.process, sign) or wait_ended(postmaster.process, seconds):
            return mode
    _send(postmaster.process, signal.SIGKILL)
    wait_ended(postmaster.process, 30.0)
    return "kill"


def _send(process: psutil.Process, sign: signal.Signals) -> bool:
    """Send a signal to exactly this process; True if it was over already."""
    try:
        process.send_signal(sign)  # psutil compares the start time first, so a reused pid is never hit
    except psutil.NoSuchProcess:
        return True
    return False


def end_orphans(cluster_name: str, uid: int) -> int:
    """End server processes of `cluster_name` whose postmaster is dead; say how many there were.

    A backend in the middle of a long index build does not notice for minutes that its postmaster was killed, and the
    shared memory that it holds keeps a new one from starting. The caller has made sure that no postmaster lives.
    """
    orphans = list(_server_processes(cluster_name, uid))
    count = len(orphans)
    for sign, seconds in ((signal.SIGQUIT, 5.0), (signal.SIGKILL, 10.0)):
        for process in orphans:
            _send(process, sign)
        deadline = time.monotonic() + seconds
        orphans = [p for p in orphans if not wait_ended(p, max(0.0, deadline - time.monotonic()))]
        if not orphans:
            break
    return count


def _server_processes(cluster_name: str, uid: int) -> Iterator[psutil.Process]:
    # Every child of the postmaster carries the cluster's name in its title, readable by all.
    title = f"postgres: {cluster_name}: "
    for process in psutil.process_iter():
        try:
            if process.uids().real != uid or not " ".join(process.cmdline()).startswith(title):
                continue
            # A copy of a home has the name of the original, whose processes have a living postmaster.
            if not _has_living_postmaster(process):
                yield process
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue


def _has_living_postmaster(process: psutil.Process) -> bool:
    try:
        parent = process.parent()
        return parent is not None and not ended(parent) and Path((parent.cmdline() or [""])[0]).name == "postgres"
    except psutil.NoSuchProcess:
        return False


def end_by_argument(program: str, argument: str, uid: int) -> None:
    """Kill processes of `uid` that run `program` with `argument`: an initdb that outlived its parent."""
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
            if process.uids().real == uid and command and Path(command[0]).name == program and argument in command:
                _send(process, signal.SIGKILL)
                wait_ended(process, 10.0)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue


def process_of(pid: int) -> psutil.Process | None:
    """A handle on `pid`, or None if it is over."""
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def remove_stale_pid_file(data_dir: Path) -> None:
    """Take away a pid file whose process was shown not to be a postmaster of `data_dir`.

    PostgreSQL itself only asks whether the pid exists, and refuses to start if it was given to somebody else.
    """
    (data_dir / "postmaster.pid").unlink(missing_ok=True)
