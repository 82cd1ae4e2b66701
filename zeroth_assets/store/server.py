"""The embedded PostgreSQL server of one home: one server, however many processes ask for it.

What belongs here: start, stop and status. The server belongs to the home, not to the process that
started it: it outlives that process, and `stop` ends it.
"""

from __future__ import annotations

import contextlib
import logging
import random
import re
import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import filelock
import psutil

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store import cluster, place
from zeroth_assets.store.accounts import Account, run_as, server_account
from zeroth_assets.store.binaries import Binaries, binaries_folder, copy_binaries, usable_by
from zeroth_assets.store.passwords import Role, ensure_passwords
from zeroth_assets.store.process import (
    Postmaster,
    end_orphans,
    ended,
    find_postmaster,
    process_of,
    remove_stale_pid_file,
    stop_postmaster,
    wait_ended,
)

_log = logging.getLogger(__name__)

HOST = "127.0.0.1"
# Below the range from which the system takes the ports of outgoing connections.
PORTS = range(20_000, 32_000)
_LOCK_SECONDS = 600.0
# Long enough for the recovery of some gigabytes of log after a kill.
_START_SECONDS = 300.0
_ANSWER_SECONDS = 5.0
_POLL_SECONDS = 0.02
_LOG_LIMIT = 10 * 1024 * 1024
_STAMP = re.compile(r"^[\d-]+ [\d:.]+ \w+ \[\d+\] ")


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What `zeroth db status` shows."""

    state: Literal["running", "starting", "stopped", "absent"]
    data_dir: Path | None
    log: Path | None
    port: int | None
    pid: int | None
    version: str | None


@contextlib.contextmanager
def home_lock(home: Path, seconds: float = _LOCK_SECONDS) -> Iterator[None]:
    """Hold the home's server lock: starting, stopping and making passwords happen one at a time.

    Raises:
        DatabaseError: the lock cannot be opened, or another process keeps it.
    """
    path = place.prepare_state_folder(home) / "server.lock"
    lock = filelock.FileLock(path, timeout=seconds)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise DatabaseError(
            f"Another process has been starting or stopping the server of {home} for {seconds:.0f} s",
            remedy="wait for it or end it, then run the same command again",
        ) from None
    except OSError as error:
        raise DatabaseError(
            f"The lock {path} cannot be opened",
            found=str(error),
            remedy="run as the owner of the home, or set ZEROTH_HOME to a folder of your own",
        ) from error
    try:
        yield
    finally:
        lock.release()


def start(home: Path, pg_bin: Path | None = None) -> ServerStatus:
    """Make sure that the home's server runs and accepts connections; make it first if there is none.

    Safe to call from any number of processes at once, and after a kill of any of them at any moment.

    Raises:
        DatabaseError: it does not start; the last lines of its log and the next step are shown.
    """
    home = home.resolve()
    with home_lock(home):
        passwords = ensure_passwords(home)
        record = place.read_record(home)
        owner = place.cluster_owner(home, record)
        account = server_account(owner)
        if record is None or owner is None:
            if record is not None:
                _log.warning("The data of %s is gone from %s; a new server is made", home, record.cluster(home))
            record = place.new_cluster(home, account)
            place.write_record(home, record)
        folder = record.cluster(home)
        running = find_postmaster(folder / "data", account.uid)
        if running is not None and running.ready and not _answers(running.port):
            # Killed a moment ago, and not gone yet; or past help.
            if not wait_ended(running.process, _ANSWER_SECONDS):
                stop_postmaster(running, _ANSWER_SECONDS, _ANSWER_SECONDS)
            running = None
        if running is None:
            binaries = _binaries(record.programs(home), account, pg_bin)
            if cluster.data_version(folder / "data") is None:
                cluster.initialise(folder, binaries, account, passwords[Role.ADMIN])
            _check_major(folder / "data", binaries)
            running = _launch_on_free_port(record, folder, binaries, account)
            place.write_record(home, replace(record, port=running.port, version=binaries.version))
        elif not running.ready:
            running = _wait_ready(running.process, folder, account, log_from=0)
    return status(home)


def stop(home: Path, *, fast_seconds: float = 30.0, immediate_seconds: float = 10.0) -> bool:
    """Stop the home's server; True if one was running. Never touches another process.

    Raises:
        DatabaseError: the home, or its server, belongs to another user.
    """
    home = home.resolve()
    if not place.record_file(home).exists():
        return False
    with home_lock(home):
        record = place.read_record(home)
        owner = place.cluster_owner(home, record)
        if record is None or owner is None:
            return False
        account = server_account(owner)
        postmaster = find_postmaster(record.cluster(home) / "data", account.uid)
        mode = stop_postmaster(postmaster, fast_seconds, immediate_seconds) if postmaster is not None else None
        if mode != "fast":
            end_orphans(record.cluster_name, account.uid)
        if mode == "kill" or (mode == "immediate" and fast_seconds > 0):
            _log.warning(
                "The server did not stop in time; it was ended in mode %s and recovers at its next start", mode
            )
        return mode is not None


def status(home: Path) -> ServerStatus:
    """Look at the home's server without changing anything."""
    home = home.resolve()
    record = place.read_record(home)
    if record is None:
        return ServerStatus("absent", None, None, None, None, None)
    folder = record.cluster(home)
    data_dir, log = folder / "data", folder / "server.log"
    owner = place.cluster_owner(home, record)
    found = find_postmaster(data_dir, server_account(owner).uid) if owner is not None else None
    if found is None:
        return ServerStatus("stopped", data_dir, log, record.port, None, record.version)
    return ServerStatus("running" if found.ready else "starting", data_dir, log, found.port, found.pid, record.version)


def destroy(home: Path) -> None:
    """Stop the home's server and remove its data, wherever that lives. Everything in the database is lost."""
    home = home.resolve()
    record = place.read_record(home)
    if record is None:
        return
    stop(home, fast_seconds=0.0)
    place.cluster_owner(home, record)
    if record.base is not None:
        shutil.rmtree(record.base, ignore_errors=True)
    shutil.rmtree(home / "postgres")


def _binaries(programs: Path, account: Account, pg_bin: Path | None) -> Binaries:
    source = binaries_folder(pg_bin)
    installed = usable_by(account, source)
    return installed if installed is not None else copy_binaries(source, programs, account)


def _check_major(data_dir: Path, binaries: Binaries) -> None:
    made_by = cluster.data_version(data_dir)
    if made_by != binaries.major:
        raise DatabaseError(
            f"The data in {data_dir} was made by another PostgreSQL than the one installed",
            expected=f"PostgreSQL {made_by}",
            found=f"PostgreSQL {binaries.version} in {binaries.folder}",
            remedy=f"set ZEROTH_PG_BIN to a PostgreSQL {made_by}, or use a new ZEROTH_HOME and materialise again",
        )


def _launch_on_free_port(record: place.ServerRecord, folder: Path, binaries: Binaries, account: Account) -> Postmaster:
    data_dir, log = folder / "data", folder / "server.log"
    if (data_dir / "postmaster.pid").exists():
        end_orphans(record.cluster_name, account.uid)
        remove_stale_pid_file(data_dir)
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > _LOG_LIMIT:
            log.replace(log.with_name("server.log.1"))
    machine = cluster.this_machine()
    for port in candidate_ports(record.cluster_id, record.port):
        cluster.configure(data_dir, account, port, record.cluster_name, machine)
        log_from = log.stat().st_size if log.exists() else 0
        process = _launch(binaries, data_dir, log, account)
        try:
            return _wait_ready(process, folder, account, log_from)
        except _PortTakenError:
            _log.info("Port %d was taken while the server started; trying another", port)
    raise DatabaseError(
        "No free port was found for the embedded server",
        expected=f"a free port of {HOST} between {PORTS.start} and {PORTS.stop - 1}",
        remedy="end programs that hold ports in that range",
    )


class _PortTakenError(Exception):
    """Somebody took the port between our look and the server's."""


def _answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=_ANSWER_SECONDS):
            return True
    except OSError:
        return False


def candidate_ports(seed: str, preferred: int | None, tries: int = 50) -> Iterator[int]:
    """Free ports, the preferred one first, then in an order of the home's own so that homes seldom meet."""
    others = random.Random(seed).sample(PORTS, tries)  # noqa: S311  (no secret)
    for port in [preferred, *others] if preferred is not None else others:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        yield port


def _launch(binaries: Binaries, data_dir: Path, log: Path, account: Account) -> psutil.Process | None:
    """Start the postmaster as a child of nobody: it holds no descriptor, terminal or session of ours."""
    script = 'umask 077; log=$1; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!'
    command = ["/bin/sh", "-c", script, "sh", str(log), binaries.program("postgres"), "-D", str(data_dir)]
    return process_of(int(run_as(account, command).stdout.split()[-1]))


def _wait_ready(process: psutil.Process | None, folder: Path, account: Account, log_from: int) -> Postmaster:
    begun = time.monotonic()
    while True:
        found = find_postmaster(folder / "data", account.uid)
        if found is not None and found.ready:
            return found
        if process is None or ended(process):
            lines = _log_lines(folder / "server.log", log_from)
            text = "\n".join(lines)
            if "could not create any TCP/IP sockets" in text:
                raise _PortTakenError
            raise DatabaseError(
                "The embedded server does not start",
                found=" | ".join(lines[-8:]) or f"nothing in {folder / 'server.log'}",
                remedy=cluster.remedy_for(text, folder),
            )
        if time.monotonic() - begun > _START_SECONDS:
            raise DatabaseError(
                f"The embedded server has not become ready in {_START_SECONDS:.0f} s; it may be recovering",
                found=" | ".join(_log_lines(folder / "server.log", log_from)[-8:]),
                remedy="wait, then run the same command again; `zeroth db status` shows when it runs",
            )
        time.sleep(_POLL_SECONDS)


def _log_lines(log: Path, start_at: int) -> list[str]:
    """What the server wrote since `start_at`, without time stamps."""
    try:
        with log.open("rb") as stream:
            stream.seek(start_at)
            text = stream.read().decode(errors="replace")
    except OSError:
        return []
    return [_STAMP.sub("", line).strip() for line in text.splitlines() if line.strip()]
