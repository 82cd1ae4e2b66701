"""What a run knows of the hosts that it asks: which are paused, which cannot be reached, how many requests they got.

What belongs here: the state that the workers of one run share, and the two ways in which a host ends its part in it.
"""

from __future__ import annotations

import threading
import urllib.parse
from datetime import UTC, datetime

from zeroth_assets.corpus.dead_letters import DeadLetters
from zeroth_assets.corpus.report import Pause

# A host that answered once and then refuses connections is given this many documents to come back.
PATIENCE = 3


class HostPaused(Exception):  # noqa: N818 - it is a state, not an error
    """The host wants to be left alone: the document stays pending. `attempts` is 0 where it was not asked at all."""

    def __init__(self, pause: Pause, attempts: int = 0) -> None:
        self.pause = pause
        self.attempts = attempts
        super().__init__(pause.reason)


class HostDown(Exception):  # noqa: N818
    """The host cannot be reached in this run: the document stays pending."""

    def __init__(self, host: str, cause: str) -> None:
        self.host = host
        self.cause = cause
        super().__init__(cause)


def host_of(url: str) -> str:
    """Host name, with the port where it is not the scheme's own."""
    parts = urllib.parse.urlsplit(url)
    host = (parts.hostname or "").lower()
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return host if parts.port in (None, usual) else f"{host}:{parts.port}"


def when(timestamp: float) -> str:
    """A time for people, in UTC."""
    return datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="seconds")


class Hosts:
    """Shared by all workers of a run. Pauses are read from disk at the start and written when they arise."""

    def __init__(self, table: DeadLetters, now: float) -> None:
        self._table = table
        self._guard = threading.Lock()
        self._pauses = table.pauses(now)
        self._down: dict[str, str] = {}
        self._failures: dict[str, int] = {}
        self._answered: set[str] = set()
        self.requests = 0

    @property
    def pauses(self) -> tuple[Pause, ...]:
        """The pauses in force, by host."""
        with self._guard:
            return tuple(self._pauses[h] for h in sorted(self._pauses))

    @property
    def down(self) -> dict[str, str]:
        """Hosts that could not be reached, with the cause."""
        with self._guard:
            return dict(self._down)

    def check(self, url: str) -> None:
        """Pass if the URL's host may be asked.

        Raises:
            HostPaused, HostDown: it may not, for the rest of this run.
        """
        host = host_of(url)
        with self._guard:
            if host in self._pauses:
                raise HostPaused(self._pauses[host])
            if host in self._down:
                raise HostDown(host, self._down[host])

    def count(self) -> None:
        """One request goes out."""
        with self._guard:
            self.requests += 1

    def answered(self, url: str) -> None:
        """The host is there."""
        with self._guard:
            self._answered.add(host_of(url))
            self._failures.pop(host_of(url), None)

    def pause(self, url: str, reason: str, until: float) -> Pause:
        """Leave the host alone until a time, in this run and, by the table, in others."""
        pause = Pause(host_of(url), reason, until)
        with self._guard:
            former = self._pauses.get(pause.host)
            if former is not None and former.until >= until:
                return former
            self._pauses[pause.host] = pause
        self._table.pause(pause)
        return pause

    def unreachable(self, url: str, cause: str) -> None:
        """A document used up its attempts without a connection: after that, hosts that never answered are down."""
        host = host_of(url)
        with self._guard:
            self._failures[host] = self._failures.get(host, 0) + 1
            if host not in self._answered or self._failures[host] >= PATIENCE:
                self._down[host] = cause
