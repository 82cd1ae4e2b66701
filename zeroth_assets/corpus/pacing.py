"""Pacing: how often a host may be asked, over all processes of this machine.

What belongs here: the ceilings, and the token bucket that keeps them. The bucket's capacity is 1.0 and it fills at
the ceiling's rate, so there is never a burst: n requests take at least (n - 1) / rate seconds, in the opening second
as in any other.

The bucket of a host is two files, a lock and a state, in a folder that all processes share (publishers count
requests per address, and a machine has one). Whoever finds the token there takes it and writes the time; whoever does
not, sleeps without the lock and looks again, so that no process starves another and no place in a queue is lost with
a killed process. Grants are stamped when they are made, not planned ahead: requests stay apart even if one wakes late.

Times are of the monotonic clock, which all processes of a machine share and which no correction of the wall clock
moves: set back by an hour, a wall clock would stall every fetch; set forward, it would let a burst through. It starts
anew at a reboot, so a grant "in the future" is read as one made just now.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from zeroth_assets.errors import AcquisitionError

LOCK_PATIENCE_SECONDS = 120.0
LONGEST_HOLD_SECONDS = 600.0
_SHORTEST_SLEEP_SECONDS = 0.0005
_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|::1")


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Requests per second that a host may get. `hosts` overrides, by host name; None there means unpaced.

    Loopback is nobody's publisher and is unpaced unless `hosts` names it.
    """

    sec_per_second: float = 8.0
    per_second: float = 5.0
    hosts: Mapping[str, float | None] = field(default_factory=dict)

    def rate(self, host: str) -> float | None:
        """The ceiling for a key of `pacing_key`; None is unpaced."""
        if host in self.hosts:
            return self.hosts[host]
        if _LOOPBACK.fullmatch(host):
            return None
        return self.sec_per_second if host == "sec.gov" else self.per_second


def pacing_key(url: str) -> str:
    """The host as its publisher counts it: all of sec.gov's names are one; ports make no difference."""
    host = (urllib.parse.urlsplit(url).hostname or "").lower().rstrip(".")
    return "sec.gov" if is_sec(host) else host


def is_sec(host: str) -> bool:
    """Whether a host name is sec.gov or below it."""
    return host == "sec.gov" or host.endswith(".sec.gov")


def default_pacing_dir() -> Path:
    """The folder that all processes of this machine share: not under a home, of which a machine may have several."""
    return Path(tempfile.gettempdir()) / "zeroth-pacing"


@dataclass(frozen=True, slots=True)
class _State:
    granted: float
    held_until: float


class Pacer:
    """Hands out permission to ask a host, one request at a time."""

    def __init__(
        self,
        folder: Path,
        ceilings: Ceilings,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._folder = folder
        self._ceilings = ceilings
        self._clock = clock
        self._sleep = sleep
        self._guard = threading.Lock()
        self._turns: dict[str, threading.Lock] = {}
        self._holds: dict[str, float] = {}

    def wait(self, host: str) -> float:
        """Block until `host` may be asked once; returns the seconds waited.

        Raises:
            AcquisitionError: another process keeps the host's lock for longer than `LOCK_PATIENCE_SECONDS`, or the
                folder cannot be written.
        """
        rate = self._ceilings.rate(host)
        if rate is None:
            return self._wait_for_hold(host)
        started = self._clock()
        with self._turn(host):
            while (delay := self._try(host, 1.0 / rate)) > 0:
                self._sleep(delay)
        return self._clock() - started

    def hold(self, host: str, seconds: float) -> None:
        """Let nobody ask `host` for so long: what a short Retry-After wants."""
        until = self._clock() + min(seconds, LONGEST_HOLD_SECONDS)
        with self._guard:
            self._holds[host] = max(self._holds.get(host, 0.0), until)
        if self._ceilings.rate(host) is not None:
            with self._turn(host), self._locked(host):
                state = self._read(host)
                self._write(host, _State(state.granted, max(state.held_until, until)))

    def _try(self, host: str, interval: float) -> float:
        """Take the token if it is there, and return 0; else the seconds until it may be."""
        with self._locked(host):
            state = self._read(host)
            now = self._clock()
            if state.granted > now:
                # Unreadable, or from before a reboot: as if asked just now, so that it can cost one interval at most.
                state = _State(now, 0.0)
                self._write(host, state)
            delay = max(state.granted + interval, state.held_until) - now
            if delay > 0:
                return max(delay, _SHORTEST_SLEEP_SECONDS)
            self._write(host, _State(now, 0.0))
            return 0.0

    def _wait_for_hold(self, host: str) -> float:
        started = self._clock()
        while True:
            with self._guard:
                delay = self._holds.get(host, 0.0) - self._clock()
            if delay <= 0:
                return self._clock() - started
            self._sleep(delay)

    def _turn(self, host: str) -> threading.Lock:
        with self._guard:
            return self._turns.setdefault(host, threading.Lock())

    @contextmanager
    def _locked(self, host: str) -> Iterator[None]:
        path = self._path(host, "lock")
        try:
            self._prepare()
            lock = FileLock(path, timeout=LOCK_PATIENCE_SECONDS, mode=0o666, thread_local=False)
            lock.acquire(poll_interval=0.005)
        except (Timeout, OSError) as error:
            raise AcquisitionError(
                f"The pacing of {host} cannot be shared with this machine's other processes",
                expected=f"a lock on {path} within {LOCK_PATIENCE_SECONDS:.0f} s",
                found=str(error),
                remedy="end the process that hangs with it, or make the folder writable",
            ) from error
        try:
            yield
        finally:
            lock.release()

    def _prepare(self) -> None:
        if self._folder.is_dir():
            return
        with suppress(FileExistsError):
            self._folder.mkdir(parents=True)
            # Other users of this machine share its address, and so the bucket.
            self._folder.chmod(0o1777)

    def _path(self, host: str, kind: str) -> Path:
        return self._folder / f"{re.sub(r'[^a-z0-9.-]', '_', host) or '_'}.{kind}"

    def _read(self, host: str) -> _State:
        try:
            values = json.loads(self._path(host, "state").read_text(encoding="ascii"))
            return _State(float(values["granted"]), float(values["held_until"]))
        except FileNotFoundError:
            return _State(float("-inf"), 0.0)
        except (ValueError, KeyError, TypeError, OSError):
            return _State(float("inf"), 0.0)

    def _write(self, host: str, state: _State) -> None:
        path = self._path(host, "state")
        fresh = not path.exists()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            text = json.dumps({"granted": state.granted, "held_until": state.held_until}).ljust(100)
            os.write(descriptor, text.encode("ascii"))  # one fixed-length write: a kill leaves the old or the new
            os.ftruncate(descriptor, len(text))
            if fresh and hasattr(os, "fchmod"):
                os.fchmod(descriptor, 0o666)
        finally:
            os.close(descriptor)
