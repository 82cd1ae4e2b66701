"""Asking one host for one document over HTTP: paced, bounded, judged, and asked again where that may help.

What belongs here: how we behave towards publishers (`FetchOptions`) and one document's attempts (`Fetcher`). What an
answer means stands in `answers`, what is known of hosts in `hosts`.
"""

from __future__ import annotations

import io
import random
import ssl
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import httpx

from zeroth_assets import __version__
from zeroth_assets.corpus.answers import DEFAULT_PAUSE_SECONDS, Answer, Expected, Verdict, judge
from zeroth_assets.corpus.bodies import Budget, TransferError, receive
from zeroth_assets.corpus.hosts import HostPaused, Hosts, host_of
from zeroth_assets.corpus.pacing import Ceilings, Pacer, default_pacing_dir, is_sec, pacing_key
from zeroth_assets.corpus.transport import TallyingTransport

MAX_REDIRECTS = 5
MAX_DOCUMENT_BYTES = 64 * 2**20
MAX_ARCHIVE_BYTES = 2**30
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Up to `attempts` requests for a document; waits double from `base` to `cap` seconds, with full jitter.

    A Retry-After up to `longest_wait` is waited for; a longer one pauses the host.
    """

    attempts: int = 5
    base: float = 0.5
    cap: float = 30.0
    longest_wait: float = 120.0


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How publishers' hosts are treated, and the clocks that a test replaces.

    `timeout` bounds one silence, `deadline` the time that a document's transfer may take in all its attempts (None:
    four timeouts, and a second for each 50 kB expected). `clock` measures, `now` is the time of day.
    """

    contact: str | None = None
    ceilings: Ceilings = field(default_factory=Ceilings)
    pacing_dir: Path = field(default_factory=default_pacing_dir)
    timeout: float = 30.0
    deadline: float | None = None
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    transport: httpx.BaseTransport | None = None
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] | None = None
    seed: int | None = None

    @property
    def user_agent(self) -> str:
        """Who asks: the program, and whom to write to."""
        return f"zeroth-assets/{__version__} ({self.contact or 'no contact declared'})"


class FetchFailure(Exception):  # noqa: N818
    """A document could not be had. `final`: not by asking again either."""

    def __init__(self, cause: str, *, final: bool, attempts: int, last_answer: str | None = None) -> None:
        self.cause = cause
        self.final = final
        self.attempts = attempts
        self.last_answer = last_answer
        super().__init__(cause)


class Stopped(Exception):  # noqa: N818
    """The run is being ended from outside."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came. `changed`: it is plausible, and not the bytes that were expected."""

    changed: bool
    attempts: int
    answer: Answer


class Fetcher:
    """One client for a run; its methods may be called from several threads."""

    def __init__(self, options: FetchOptions, hosts: Hosts) -> None:
        self._options = options
        self._hosts = hosts
        self._stop = threading.Event()
        self._sleep = options.sleep or self._doze
        self._pacer = Pacer(options.pacing_dir, options.ceilings, clock=options.clock, sleep=self._sleep)
        self._random = random.Random(options.seed)  # noqa: S311 - jitter, no secret
        # A proxy from the environment needs httpx's own transport; surplus bytes cannot be seen behind one.
        transport = options.transport or (None if urllib.request.getproxies() else TallyingTransport())
        self._client = httpx.Client(
            transport=transport,
            timeout=options.timeout,
            follow_redirects=False,
            headers={"user-agent": options.user_agent, "accept-encoding": "gzip", "accept": "*/*"},
        )

    def __enter__(self) -> Fetcher:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def stop(self) -> None:
        """Wake every sleeper and let nothing new begin: their documents raise `Stopped`."""
        self._stop.set()

    def fetch_bytes(self, url: str, expected: Expected) -> tuple[bytes, Fetched]:
        """A document's bytes. Raises as `fetch`."""
        sink = io.BytesIO()
        fetched = self.fetch(url, expected, sink)
        return sink.getvalue(), fetched

    def fetch(self, url: str, expected: Expected, sink: BinaryIO) -> Fetched:
        """Bring what `url` serves into `sink`, which holds the last attempt's body.

        Raises:
            FetchFailure: this document cannot be had.
            HostPaused, HostDown: its host is not to be asked any more in this run.
            Stopped: `stop` was called.
        """
        policy, options = self._options.retries, self._options
        budget = Budget(options.deadline or options.timeout * 4 + (expected.bytes or 0) / 50_000, options.clock)
        unreached, last, wait = 0, Verdict("refused", "nothing was asked"), 0.0
        answer: Answer | None = None
        status: int | None = None
        for attempt in range(1, policy.attempts + 1):
            if attempt > 1:
                self._pacer.hold(pacing_key(url), wait) if last.kind == "wait" and last.seconds else self._sleep(wait)
            if self._stop.is_set():
                raise Stopped
            status = None
            try:
                answer = self._follow(url, expected, sink, budget)
                status = answer.status
                last = judge(answer, expected, now=options.now(), longest_wait=policy.longest_wait)
            except TransferError as error:
                last = Verdict("wait" if error.retry else "refused", error.cause, final=error.final)
                unreached += error.unreached
                if error.unreached and not error.retry:
                    self._hosts.unreachable(url, error.cause)
            summary = answer.summary if answer else None
            if last.kind in ("document", "changed") and answer is not None:
                return Fetched(last.kind == "changed", attempt, answer)
            if last.kind == "pause":
                until = options.now() + (last.seconds or DEFAULT_PAUSE_SECONDS)
                raise HostPaused(self._hosts.pause(answer.url if answer else url, last.cause, until), attempt)
            if last.kind == "refused":
                raise FetchFailure(last.cause, final=last.final, attempts=attempt, last_answer=summary)
            jittered = self._random.uniform(0.5, 1.0) * min(policy.cap, policy.base * 2 ** (attempt - 1))
            wait = max(last.seconds, 0.001) if last.seconds is not None else jittered
        if unreached == policy.attempts:
            self._hosts.unreachable(url, last.cause)
        if answer is not None and status == 429:
            # Asked this often to slow down, the host means us and not the document.
            pause = self._hosts.pause(answer.url, last.cause, options.now() + DEFAULT_PAUSE_SECONDS)
            raise HostPaused(pause, policy.attempts)
        cause = f"{last.cause}, after {policy.attempts} attempts"
        raise FetchFailure(cause, final=False, attempts=policy.attempts, last_answer=answer.summary if answer else None)

    def _follow(self, url: str, expected: Expected, sink: BinaryIO, budget: Budget) -> Answer:
        """One request, and those that its redirects ask for."""
        seen = [url]
        while True:
            answer = self._request(seen[-1], expected, sink, budget)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or location is None:
                return answer
            target = urllib.parse.urljoin(seen[-1], location)
            if target in seen:
                raise TransferError(f"a redirect loop over {' -> '.join([*seen, target])}", retry=False, final=True)
            if len(seen) > MAX_REDIRECTS:
                raise TransferError(
                    f"more than {MAX_REDIRECTS} redirects, the last to {target}", retry=False, final=True
                )
            if not same_site(seen[-1], target):
                raise TransferError(f"a redirect to another site, {target}", retry=False, final=True)
            seen.append(target)

    def _request(self, url: str, expected: Expected, sink: BinaryIO, budget: Budget) -> Answer:
        self._hosts.check(url)
        if is_sec(urllib.parse.urlsplit(url).hostname or "") and not self._options.contact:
            raise TransferError("sec.gov wants a declared contact (ZEROTH_CONTACT)", retry=False)
        self._pacer.wait(pacing_key(url))
        self._hosts.check(url)  # another worker may have met a pause while this one waited
        if self._stop.is_set():
            raise Stopped
        self._hosts.count()
        sink.seek(0)
        sink.truncate()
        try:
            with budget, self._client.stream("GET", url) as response:
                self._hosts.answered(url)
                limit = MAX_ARCHIVE_BYTES if expected.media_type == "application/zip" else MAX_DOCUMENT_BYTES
                head = receive(response, sink, limit, budget)
                headers = {k.lower(): v for k, v in response.headers.items()}
                return Answer(url, response.status_code, head if limit == MAX_ARCHIVE_BYTES else _all(sink), headers)
        except httpx.InvalidURL as error:
            raise TransferError(f"no usable URL: {error}", retry=False, final=True) from error
        except httpx.UnsupportedProtocol as error:
            raise TransferError(f"no usable URL: {error}", retry=False, final=True) from error
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            tls = _is_tls(error)
            cause = f"{'TLS' if tls else 'no connection'} to {host_of(url)}: {error or type(error).__name__}"
            raise TransferError(cause, retry=not tls, unreached=True) from error
        except httpx.TransportError as error:
            raise TransferError(f"{type(error).__name__} from {host_of(url)}: {error or 'no details'}") from error

    def _doze(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise Stopped


def same_site(one: str, other: str) -> bool:
    """Whether a redirect from `one` to `other` stays with the publisher: the same host or one below the other, the

    same port or each scheme's own, and never from https to http.

    >>> same_site("http://rfc-editor.org/a", "https://www.rfc-editor.org/b")
    True
    >>> same_site("https://www.sec.gov/a", "http://www.sec.gov/a"), same_site("https://a.org/", "https://b.org/")
    (False, False)
    """
    a, b = urllib.parse.urlsplit(one), urllib.parse.urlsplit(other)
    if b.scheme not in ("http", "https") or (a.scheme, b.scheme) == ("https", "http"):
        return False
    first, second = a.hostname or "", b.hostname or ""
    related = first == second or second.endswith(f".{first}") or first.endswith(f".{second}")
    usual = {"http": 80, "https": 443}
    ports = [None if p.port in (None, usual[p.scheme]) else p.port for p in (a, b)]
    return bool(first and second) and related and ports[0] == ports[1]


def _all(sink: BinaryIO) -> bytes:
    sink.seek(0)
    return sink.read()


def _is_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False
