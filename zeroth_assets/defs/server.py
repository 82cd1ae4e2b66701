"""The server: what belongs here is `zeroth dev`, the Dagster web server and daemon on a home, and their end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from rich.console import Console

from zeroth_assets.defs.instance import close_orphans, environment, open_instance
from zeroth_assets.defs.partitions import register_tenants
from zeroth_assets.defs.resources import Project
from zeroth_assets.errors import ArtefactError, SettingsError
from zeroth_assets.settings import Settings, project_file
from zeroth_assets.store import server as embedded

GRACE_SECONDS = 20.0


def serve(settings: Settings, *, host: str, port: int, webserver: bool, daemon: bool, console: Console) -> int:
    """Run the UI until it ends or a signal comes, then stop what was started, the embedded database included.

    Returns the exit code: 0 after a signal, otherwise that of the child that ended first.

    Raises:
        SettingsError: the port is taken, or nothing was asked for.
    """
    if not webserver and not daemon:
        raise SettingsError("Neither web server nor daemon is wanted", remedy="leave out one of the two --no- options")
    if webserver:
        _check_port(host, port)
    was_running = embedded.status(settings.state_dir).state == "running"
    project = Project()
    instance = open_instance(settings, project.database)
    for run_id in close_orphans(instance, settings):
        console.print(f"run {run_id[:8]} was left by a process that is gone: marked failed")
    try:
        register_tenants(instance, project.planner().tenants)
    except ArtefactError:
        console.print("no tenants yet: materialise the corpus group first, or run `zeroth materialize`")
    instance.dispose()
    variables = {**os.environ, **environment(settings, project.database)}
    children = [_child(command, variables) for command in _commands(host, port, webserver, daemon)]
    if webserver:
        console.print(f"Dagster UI: http://{host}:{port}  (Ctrl-C stops it)", highlight=False)
    try:
        return _wait(children)
    finally:
        _stop(children)
        if not was_running and not settings.database_url:
            embedded.stop(settings.state_dir)
            console.print("stopped, the embedded database too")


def _commands(host: str, port: int, webserver: bool, daemon: bool) -> list[list[str]]:
    workspace = str(project_file("workspace.yaml"))
    commands = []
    if webserver:
        arguments = ["-m", "dagster_webserver", "-h", host, "-p", str(port), "-w", workspace]
        commands.append([sys.executable, *arguments])
    if daemon:
        commands.append([sys.executable, "-m", "dagster._daemon", "run", "-w", workspace])
    return commands


def _child(command: list[str], variables: dict[str, str]) -> subprocess.Popen[bytes]:
    # A session of its own: a terminal's Ctrl-C reaches us alone, and we end the children in order.
    return subprocess.Popen(command, env=variables, start_new_session=True, cwd=Path.cwd())


def _wait(children: list[subprocess.Popen[bytes]]) -> int:
    asked = False

    def ask(signum: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True

    former = {s: signal.signal(s, ask) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        while not asked:
            for child in children:
                if child.poll() is not None:
                    return child.returncode or 1
            time.sleep(0.2)
        return 0
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _stop(children: list[subprocess.Popen[bytes]]) -> None:
    for child in children:
        if child.poll() is None:
            child.send_signal(signal.SIGINT)
    deadline = time.monotonic() + GRACE_SECONDS
    for child in children:
        try:
            child.wait(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


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
