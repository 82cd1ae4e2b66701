"""Judging answers: is this the document, another version of it, a request to wait, or something else under status 200?

What belongs here: pure functions from an answer to a verdict. Nothing here sends, waits or writes.

The checksum decides first: bytes that the manifest names are the document, whatever they look like. The heuristics
below only judge bytes that are not.
"""

from __future__ import annotations

import email.utils
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

DEFAULT_PAUSE_SECONDS = 600.0  # what sec.gov names for an address that went over its threshold
_THRESHOLD = re.compile(
    rb"request rate threshold|undeclared automated tool|daily (?:quota|limit)|quota (?:exceeded|reached)"
    rb"|exceeded (?:your|the) (?:quota|limit|maximum)|too many requests|unusual traffic|automated access",
    re.IGNORECASE,
)
_ERROR_TITLE = re.compile(
    rb"<title[^>]*>[^<]*(?:error|not found|denied|forbidden|unavailable|maintenance|sign in|log ?in|captcha"
    rb"|just a moment|moved|\b40[0-9]\b|\b50[0-9]\b)[^<]*</title",
    re.IGNORECASE,
)
_ERROR_TEXT = re.compile(
    rb"\b(?:404|40[13]|50[0-4]|not found|error|forbidden|access denied|unavailable|unauthori[sz]ed|try again)\b",
    re.IGNORECASE,
)
_PASSWORD_FIELD = re.compile(rb"<input[^>]+type\s*=\s*[\"']?password", re.IGNORECASE)
_HTML_START = re.compile(rb"(?:<\?xml[^>]*\?>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S)
_HTML_ANYWHERE = re.compile(rb"<(?:html|body|div|table|p|font)\b", re.IGNORECASE)
_SIGNATURES = {
    b"%PDF-": "a PDF",
    b"PK\x03\x04": "a zip file",
    b"\x1f\x8b": "gzip data",
    b"\x89PNG": "an image",
    b"GIF8": "an image",
    b"\xff\xd8\xff": "an image",
}


@dataclass(frozen=True, slots=True)
class Expected:
    """What a document should be. `sha256` and `bytes` are None where nobody has seen it yet.

    `lenient`: bodies are not judged here, because the caller does not know the type before it has seen them.
    """

    media_type: str
    sha256: str | None = None
    bytes: int | None = None
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. `headers` has lower-case names; `body` is decoded (of an archive, its beginning)."""

    url: str
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """One line for a person who reads the dead-letter table."""
        kind = self.headers.get("content-type", "no content type")
        return f"{self.status} ({kind}, {len(self.body)} bytes) from {self.url}"


Kind = Literal["document", "changed", "wait", "pause", "refused"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`document`: as named. `changed`: plausible, with other bytes. `wait`: ask again, after `seconds` if known.

    `pause`: leave the host alone for `seconds`. `refused`: not a document; `final` says that asking again is no use.
    """

    kind: Kind
    cause: str = ""
    seconds: float | None = None
    final: bool = False


def judge(answer: Answer, expected: Expected, *, now: float, longest_wait: float) -> Verdict:
    """The verdict on an answer. `now` is wall-clock time; a longer Retry-After than `longest_wait` is a pause."""
    status = answer.status
    if status == 200:
        return _judge_body(answer, expected)
    after = retry_after(answer.headers, now)
    head = answer.body[:65536]
    named = _THRESHOLD.search(head)
    reason = f"{status}: {excerpt(head)}" if head.strip() else f"{status} without a reason"
    if status in (429, 503):
        if after is not None and after > longest_wait:
            return Verdict("pause", reason, after)
        if named and after is None and status == 429 and b"quota" in named.group().lower():
            return Verdict("pause", reason, DEFAULT_PAUSE_SECONDS)
        return Verdict("wait", reason, after)
    if status == 403 and (looks_like_html(head) or named):
        return Verdict("pause", reason, after or DEFAULT_PAUSE_SECONDS)
    if status >= 500 or status in (408, 425):
        return Verdict("wait", reason, after)
    if status in (404, 410):
        return Verdict("refused", f"{status}: the publisher does not have it", final=True)
    if status in (401, 407):
        return Verdict("refused", f"{status}: the publisher asks for a login", final=True)
    return Verdict("refused", reason, final=400 <= status < 500)


def _judge_body(answer: Answer, expected: Expected) -> Verdict:
    body = answer.body
    if expected.sha256 is not None and hashlib.sha256(body).hexdigest() == expected.sha256:
        return Verdict("document")
    if len(body) < 65536 and looks_like_html(body) and _THRESHOLD.search(body):
        return Verdict("pause", f"200 with a page about limits: {excerpt(body)}", DEFAULT_PAUSE_SECONDS)
    if expected.lenient:
        return Verdict("changed")
    problem = problem_of(body, expected, answer.headers.get("content-type", ""))
    return Verdict("refused", f"200 with {problem}") if problem else Verdict("changed")


def problem_of(body: bytes, expected: Expected, content_type: str = "") -> str | None:
    """Why these bytes cannot be a version of the document, as a noun phrase; None if they may be."""
    if not body.strip():
        return "an empty body"
    kind = next((name for start, name in _SIGNATURES.items() if body.startswith(start)), None)
    if expected.media_type == "application/zip":
        return None if kind == "a zip file" else f"{kind or 'no zip file'}: {excerpt(body)}"
    if kind or b"\x00" in body[:4096]:
        return f"{kind or 'binary data'} where text was expected"
    declared = content_type.partition(";")[0].strip().lower()
    if declared.startswith(("image/", "audio/", "video/", "application/pdf", "application/zip", "application/json")):
        return f"the content type {declared}"
    if _PASSWORD_FIELD.search(body[:262144]):
        return "a login page"
    if expected.media_type == "text/html":
        problem = _problem_of_html(body, expected)
    else:
        problem = _problem_of_text(body, declared)
    return problem or _looks_short(body, expected)


def _problem_of_html(body: bytes, expected: Expected) -> str | None:
    smaller = expected.bytes is None or len(body) < expected.bytes / 2
    if smaller and _ERROR_TITLE.search(body[:65536]):
        return f"an error page: {excerpt(body)}"
    if not _HTML_ANYWHERE.search(body[:262144]):
        return f"no HTML: {excerpt(body)}"
    return None


def _problem_of_text(body: bytes, declared: str) -> str | None:
    if looks_like_html(body) or declared in ("text/html", "application/xhtml+xml"):
        return f"an HTML page where plain text was expected: {excerpt(body)}"
    if body.lstrip()[:5].lower() == b"<?xml":
        return f"XML where plain text was expected: {excerpt(body)}"
    if len(body) < 2000 and _ERROR_TEXT.search(body):
        return f"an error message: {excerpt(body)}"
    if body.lstrip()[:1] in b"{[" and len(body) < 1_000_000:
        try:
            json.loads(body)
        except ValueError:
            return None
        return f"JSON where plain text was expected: {excerpt(body)}"
    return None


def _looks_short(body: bytes, expected: Expected) -> str | None:
    if expected.bytes is None or len(body) >= expected.bytes:
        return None
    share = f"{len(body)} of {expected.bytes} bytes"
    if len(body) < expected.bytes / 10:
        return f"{share}, too few for a new version"
    tail = body[-2048:].lower()
    ended = (b"</html" in tail or b"</document" in tail) if looks_like_html(body) else body[-1:] in b"\n\r\f"
    return None if ended else f"{share} that end in mid-{'page' if looks_like_html(body) else 'line'}: cut off"


def looks_like_html(body: bytes) -> bool:
    """Whether the bytes open as an HTML page does."""
    return _HTML_START.match(body[:8192].removeprefix(b"\xef\xbb\xbf").lstrip()) is not None


def excerpt(body: bytes, length: int = 120) -> str:
    """The first words of a body, without markup, for a message."""
    text = body[:8192].decode("utf-8", "replace")
    text = re.sub(r"(?is)<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>", " ", text)
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= length else f"{text[: length - 3]}..."


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait by the Retry-After header (RFC 9110, section 10.2.3), in either form; None if absent or noise.

    A date is compared with the answer's own Date where it has one, so that a wrong clock here does no harm.

    >>> retry_after({"retry-after": "120"}, 0.0)
    120.0
    >>> retry_after({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "date": "Wed, 21 Oct 2026 07:27:00 GMT"}, 0.0)
    60.0
    """
    value = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}", value):
        return float(value)
    until = _timestamp(value)
    if until is None:
        return None
    return max(0.0, until - (_timestamp(headers.get("date", "")) or now))


def _timestamp(value: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None
