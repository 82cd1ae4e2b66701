"""The server: what belongs here is `zeroth dev`, the Dagster web server and daemon on a home, and their end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import dagster as dg
import psutil
from filelock import FileLock, Timeout
from rich.console import Console

from zeroth_assets.defs import processes
from zeroth_assets.defs.instance import close_orphans, environment, open_instance
from zeroth_assets.defs.partitions import register_tenants
from zeroth_assets.defs.resources import Project
from zeroth_assets.errors import ArtefactError, RunError, SettingsError
from zeroth_assets.settings import Settings, project_file
from zeroth_assets.store import server as embedded

POLL_SECONDS = 0.2
ORPHANS_SECONDS = 30.0
# A code server that is just loading heeds no signal; with no run at work, nothing is lost by ending it.
IDLE_GRACE_SECONDS = 6.0


class _Asked(BaseException):
    """A signal asks us to stop. Not an Exception: nothing on the way may swallow it."""


def serve(settings: Settings, *, host: str, port: int, webserver: bool, daemon: bool, console: Console) -> int:
    """Run the UI until a signal comes, then stop what was started, the embedded database included. Returns 0.

    Raises:
        SettingsError: the port is taken, a daemon works on this home already, or nothing was asked for.
        RunError: the web server or the daemon ended by itself.
    """
    if not webserver and not daemon:
        raise SettingsError("Neither web server nor daemon is wanted", remedy="leave out one of the two --no- options")
    state_dir = settings.state_dir
    for url in processes.sweep(state_dir):
        console.print(f"ended what a killed `zeroth dev` had left running at {url}", highlight=False)
    with _signals(), _one_daemon(state_dir) if daemon else contextlib.nullcontext():
        if webserver:
            _check_port(host, port)
        was_running = embedded.status(state_dir).state == "running"
        url = f"http://{host}:{port}"
        console.print("starting the database and loading definitions; Ctrl-C stops it", highlight=False)
        try:
            project = Project()
            instance = _prepare(settings, project, console)
            variables = {**os.environ, **environment(settings, project.database)}
            keeper = _Housekeeping(instance, settings, console, (host, port) if webserver else None)
            try:
                with _children(state_dir, _commands(host, port, webserver, daemon), variables, url) as children:
                    _wait(children, keeper)
            finally:
                with _unstoppable():
                    keeper.close_orphans()
        except _Asked:
            console.print("stopping", highlight=False)
        finally:
            with _unstoppable():
                _stop_database(settings, was_running, console)
    return 0


def _prepare(settings: Settings, project: Project, console: Console) -> dg.DagsterInstance:
    instance = open_instance(settings, project.database)
    _close_orphans(instance, settings, console)
    try:
        register_tenants(instance, project.planner().tenants)
    except ArtefactError:
        console.print("no tenants yet: materialise the corpus group first, or run `zeroth materialize`")
    return instance


def _close_orphans(instance: dg.DagsterInstance, settings: Settings, console: Console) -> None:
    for run_id in close_orphans(instance, settings):
        console.print(f"run {run_id[:8]} was left by a process that is gone: marked failed", highlight=False)


def _commands(host: str, port: int, webserver: bool, daemon: bool) -> dict[str, list[str]]:
    # The daemon loads its code server anew every minute, and the former one warns as it ends.
    shared = ["-w", str(project_file("workspace.yaml")), "--code-server-log-level", "error"]
    commands = {}
    if webserver:
        where = ["-h", host, "-p", str(port), "--dagster-log-level", "warning"]
        commands["web server"] = [sys.executable, "-m", "dagster_webserver", *where, *shared]
    if daemon:
        commands["daemon"] = [sys.executable, "-m", "dagster._daemon", "run", "--log-level", "warning", *shared]
    return commands


@contextlib.contextmanager
def _children(
    state_dir: Path, commands: dict[str, list[str]], variables: dict[str, str], url: str
) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """The commands as processes. They are ended with the block, and by the watcher when we are killed."""
    path = processes.record_path(state_dir, os.getpid())
    watcher = subprocess.Popen(
        [sys.executable, "-m", processes.__name__, str(path)], stdin=subprocess.PIPE, start_new_session=True
    )
    children: dict[str, subprocess.Popen[bytes]] = {}
    marks: list[str] = []
    try:
        for name, command in commands.items():
            # A session of its own: a terminal's Ctrl-C reaches us alone, and we end the children in order.
            children[name] = subprocess.Popen(command, env=variables, start_new_session=True, cwd=Path.cwd())
            marks.append(processes.mark_of(psutil.Process(children[name].pid)))
            processes.Record(path, processes.this_process(), url, tuple(marks)).write()
        yield children
    finally:
        with _unstoppable():
            processes.end(marks, processes.GRACE_SECONDS if _runs_at_work(state_dir) else IDLE_GRACE_SECONDS)
            path.unlink(missing_ok=True)
            watcher.communicate()


def _runs_at_work(state_dir: Path) -> bool:
    return any(processes.is_alive(record.read_text("utf-8")) for record in (state_dir / "runs").glob("*"))


class _Housekeeping:
    """What is done while we wait: say when the UI answers, and close runs whose process was killed."""

    def __init__(
        self, instance: dg.DagsterInstance, settings: Settings, console: Console, ui: tuple[str, int] | None
    ) -> None:
        self._close: Callable[[], None] = lambda: _close_orphans(instance, settings, console)
        self._console, self._ui = console, ui
        self._next = time.monotonic() + ORPHANS_SECONDS

    def __call__(self) -> None:
        if self._ui is not None and _listens(*self._ui):
            self._console.print(f"Dagster UI: http://{self._ui[0]}:{self._ui[1]}", highlight=False)
            self._ui = None
        if time.monotonic() >= self._next:
            self.close_orphans()
            self._next = time.monotonic() + ORPHANS_SECONDS

    def close_orphans(self) -> None:
        """Close runs that nobody works on; a database that does not answer is the children's to report."""
        try:
            self._close()
        except Exception as error:
            self._console.print(f"orphaned runs could not be looked for: {type(error).__name__}", highlight=False)


def _wait(children: dict[str, subprocess.Popen[bytes]], housekeeping: _Housekeeping) -> None:
    while True:
        for name, child in children.items():
            if child.poll() is not None:
                raise RunError(
                    f"The {name} ended by itself",
                    found=f"exit code {child.returncode}",
                    remedy="see the lines above, and start again",
                )
        housekeeping()
        time.sleep(POLL_SECONDS)


def _stop_database(settings: Settings, was_running: bool, console: Console) -> None:
    if was_running or settings.database_url:
        return
    others = [r for r in processes.records(settings.state_dir) if processes.is_alive(r.owner)]
    if others or _held(settings.state_dir / "materialize.lock"):
        console.print("stopped; others work with the database, so it runs on (`zeroth db stop` ends it)")
    elif embedded.stop(settings.state_dir):
        console.print("stopped, the embedded database too")


def _held(lock: Path) -> bool:
    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Turn the first SIGINT, SIGTERM or SIGHUP into `_Asked`, from whatever we are doing."""

    def ask(signum: int, frame: FrameType | None) -> None:
        raise _Asked

    former = {s: signal.signal(s, ask) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _unstoppable() -> Iterator[None]:
    """An impatient second Ctrl-C must not leave half of it running."""
    former = {s: signal.signal(s, signal.SIG_IGN) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _one_daemon(state_dir: Path) -> Iterator[None]:
    """Two daemons on one instance would both launch what is queued."""
    state_dir.mkdir(parents=True, exist_ok=True)
    lock = FileLock(state_dir / "daemon.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        urls = [r.url for r in processes.records(state_dir) if processes.is_alive(r.owner)]
        raise SettingsError(
            f"A daemon works on {state_dir} already",
            expected="one `zeroth dev` a home",
            found=", ".join(urls) or "another process holds daemon.lock",
            remedy="open that one, or add a second UI with `zeroth dev --no-daemon --port 3001`",
        ) from None
    try:
        yield
    finally:
        lock.release()


def _listens(host: str, port: int) -> bool:
    try:
        with socket.create_connection((_reachable(host), port), timeout=1.0):
            return True
    except OSError:
        return False


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104


def _check_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise SettingsError(
                f"The UI cannot listen on {host}:{port}",
                expected="a free port",
                found=error.strerror or str(error),
                remedy="name another: zeroth dev --port 3001",
            ) from error
