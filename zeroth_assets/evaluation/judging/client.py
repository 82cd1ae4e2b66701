"""A client of OpenAI-compatible chat servers that survives bad days and tells nobody its key.

What belongs here: connections, retries, deadlines, which answers of a server are worth another try. What the messages
say is in `wire`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from zeroth_assets.corpus.answers import retry_after
from zeroth_assets.evaluation.judging.model import JudgeConfig, JudgeError, JudgeUnavailable, Usage
from zeroth_assets.evaluation.judging.validate import strict_json
from zeroth_assets.evaluation.judging.wire import SPELLINGS, Completion, completion_body, encode, most_tokens
from zeroth_assets.evaluation.judging.wire import read_completion as _read_completion
from zeroth_assets.evaluation.judging.wire import token as _token

_RETRIED = frozenset({408, 429, 500, 502, 503, 504, 529})
_FIELDS_REFUSED = frozenset({400, 422})
_LARGEST_ANSWER = 8 * 2**20
_CONNECT_SECONDS = 10.0


class RequestRefused(JudgeError):  # noqa: N818 - what the server did
    """The server understood the request and will not serve it; asking again would not help."""

    def __init__(self, what: str, *, expected: str = "", found: str = "", remedy: str = "", status: int = 0) -> None:
        super().__init__(what, expected=expected, found=found, remedy=remedy)
        self.status = status


class _Again(Exception):  # noqa: N818 - a signal between two functions of this module
    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.after = reason, after


class ChatClient:
    """One server, one key. Time and waiting are passed in; `transport` replaces the network.

    `spelling` is the way of asking for a schema that the server was found to accept.
    """

    def __init__(
        self,
        config: JudgeConfig,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.config = config
        self.spelling = SPELLINGS[0]
        self._base = _checked_url(config.url)
        self._sleep, self._clock, self._monotonic = sleep, clock, monotonic
        headers = {"User-Agent": "zeroth-assets", "Accept": "application/json"}
        key = _checked_key(config)
        if key:
            headers["Authorization"] = f"Bearer {key}"
        self._key = key
        # No redirects: the key goes to the configured server and nowhere else.
        self._http = httpx.Client(
            headers=headers,
            timeout=httpx.Timeout(config.timeout_seconds, connect=min(_CONNECT_SECONDS, config.timeout_seconds)),
            follow_redirects=False,
            # A proxy that the environment names is not the configured server: it would read the passages, and the key.
            trust_env=False,
            transport=transport,
        )

    def __repr__(self) -> str:
        return f"ChatClient({self._base})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, *, at_root: bool = False) -> Any:
        """The JSON at a path under the API's base, or of the server itself; None where there is no such page.

        Raises:
            JudgeUnavailable, RequestRefused: see `complete`.
        """
        base = self._base.removesuffix("/v1") if at_root else self._base
        try:
            return self._ask("GET", f"{base}{path}", None)
        except RequestRefused as error:
            if error.status in (404, 405, 501):
                return None
            raise

    def complete(
        self,
        model: str,
        messages: list[dict[str, str]],
        *,
        seed: int,
        schema: dict[str, Any] | None,
        limit: int | None = None,
    ) -> Completion:
        """One completion, constrained to `schema`. A server that refuses the fields of one spelling gets the next.

        Raises:
            JudgeUnavailable: no answer after `config.tries` tries, or the server asks for a longer wait than allowed.
            RequestRefused: the server refuses the request itself (key, model, size).
        """
        bound = most_tokens(messages, limit or self.config.max_output_tokens)
        spellings = SPELLINGS[SPELLINGS.index(self.spelling) :] if schema is not None else SPELLINGS[:1]
        first: RequestRefused | None = None
        for spelling in spellings:
            body = completion_body(
                self.config, model, messages, seed=seed, schema=schema, spelling=spelling, limit=limit
            )
            try:
                envelope = self._ask("POST", f"{self._base}/chat/completions", encode(body))
            except RequestRefused as error:
                if error.status not in _FIELDS_REFUSED:
                    raise
                first = first or error
                continue
            if schema is not None:
                self.spelling = spelling
            return _read_completion(envelope, bound)
        assert first is not None  # every spelling was refused, and there is at least one
        raise first

    def most(self, messages: list[dict[str, str]]) -> Usage:
        """An upper bound on what `complete` can cost with these messages."""
        return most_tokens(messages, self.config.max_output_tokens)

    def _ask(self, method: str, url: str, content: bytes | None) -> Any:
        reason = ""
        for attempt in range(self.config.tries):
            try:
                return self._once(method, url, content)
            except _Again as again:
                reason = again.reason
                wait = min(self.config.backoff_seconds * 2**attempt, self.config.longest_wait_seconds)
                if again.after is not None and again.after > self.config.longest_wait_seconds:
                    raise JudgeUnavailable(
                        f"The judge's server at {self._base} asks for a long wait",
                        expected=f"at most {self.config.longest_wait_seconds:g} s",
                        found=f"{reason}, Retry-After {again.after:g} s",
                        remedy="run the same command later: what is judged is kept",
                    ) from None
                if attempt + 1 < self.config.tries:
                    self._sleep(max(wait, again.after or 0.0))
        raise JudgeUnavailable(
            f"The judge's server at {self._base} gives no answer",
            expected=f"an answer in {self.config.tries} tries",
            found=reason,
            remedy="see that it runs, then run the same command: what is judged is kept",
        )

    def _once(self, method: str, url: str, content: bytes | None) -> Any:
        headers = {"Content-Type": "application/json"} if content is not None else {}
        deadline = self._monotonic() + self.config.timeout_seconds
        try:
            with self._http.stream(method, url, content=content, headers=headers) as response:
                body = self._received(response, deadline)
        except httpx.TimeoutException:
            raise _Again(f"no answer within {self.config.timeout_seconds:g} s") from None
        except (httpx.TransportError, httpx.DecodingError) as error:
            # The type alone: a message may carry what was sent.
            raise _Again(f"a broken connection ({type(error).__name__})") from None
        status = response.status_code
        if status in _RETRIED:
            raise _Again(f"status {status}", retry_after(response.headers, self._clock()))
        parsed = _parsed(body)
        if not 200 <= status < 300:
            raise RequestRefused(
                f"The judge's server at {self._base} refuses the request",
                expected="status 200",
                found=f"status {status}{self._reason(parsed)}",
                remedy=_remedy(status),
                status=status,
            )
        if parsed is None:
            raise _Again("an answer that is not JSON")
        return parsed

    def _received(self, response: httpx.Response, deadline: float) -> bytes:
        parts: list[bytes] = []
        size = 0
        for part in response.iter_bytes():
            parts.append(part)
            size += len(part)
            if size > _LARGEST_ANSWER:
                raise _Again(f"an answer of more than {_LARGEST_ANSWER:,} bytes")
            # A read timeout is per packet; a server that sends a byte a second would never meet it.
            if self._monotonic() > deadline:
                raise _Again(f"no whole answer within {self.config.timeout_seconds:g} s")
        return b"".join(parts)

    def _reason(self, parsed: Any) -> str:
        """The type and code of a server's error. Its message is left out: it may quote the prompt, or the key."""
        error = parsed.get("error") if isinstance(parsed, dict) else None
        if not isinstance(error, dict):
            return ""
        told = [str(error[name]) for name in ("type", "code") if isinstance(error.get(name), str)]
        # Cut at the key before anything is shortened: a part of it is not recognised any more.
        pieces = [text.split(self._key) if self._key else [text] for text in told]
        text = ", ".join("***".join(_token(piece) if piece else "" for piece in cut) for cut in pieces)
        if self._key:
            text = text.replace(_token(self._key), "***")
        return f" ({text})" if text else ""


def _parsed(body: bytes) -> Any:
    try:
        return strict_json(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def _remedy(status: int) -> str:
    if status in (401, 403):
        return "set a key that this server accepts"
    if status == 404:
        return "check the server's URL (it ends where /chat/completions begins, often in /v1) and the model's name"
    if status == 413:
        return "show fewer passages per call"
    return "check the model's name and the judge's settings; the server's own log says more"


def _checked_url(url: str) -> str:
    try:
        parsed = httpx.URL(urlsplit(url.strip()).geturl())
    except (httpx.InvalidURL, ValueError):
        parsed = httpx.URL("")
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo or parsed.query or parsed.fragment:
        raise JudgeError(
            "The judge's URL cannot be used",
            expected="http(s)://host[:port]/path without user, password, query or fragment",
            found="another form (not shown, it may hold a secret)",
            remedy="for instance http://127.0.0.1:8000/v1; a key belongs in its own setting",
        )
    return str(parsed).rstrip("/")


def _checked_key(config: JudgeConfig) -> str:
    key = config.api_key.get_secret_value().strip() if config.api_key is not None else ""
    if not all(c.isascii() and c.isprintable() and not c.isspace() for c in key):
        raise JudgeError(
            "The judge's key cannot be sent",
            expected="printable ASCII without spaces",
            found="other characters (not shown)",
            remedy="copy the key anew",
        )
    return key
