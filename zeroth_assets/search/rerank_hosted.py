"""A reranker that somebody hosts: opt-in, and a trust boundary.

What belongs here: sending a query and its passages to one URL over TLS, and reading scores from what comes back. Only
`Passage`s go, which exist only where the caller's policy let them be read. Nothing of them goes into an error.

The protocol is the one that hosted rerankers share: POST `{"model", "query", "documents", "top_n"}`, answered by
`{"results": [{"index", "relevance_score"}]}`.
"""

from __future__ import annotations

import ipaddress
import json
import ssl
from collections.abc import Sequence
from urllib.parse import urlsplit

import httpx

from zeroth_assets.errors import SettingsError
from zeroth_assets.search.passages import Passage
from zeroth_assets.search.rerank import Deadline, RerankError, RerankResult, too_late

_MAX_ANSWER = 1 << 20


class HostedReranker:
    """Scores by a service. Never the default; whoever configures it decides that passages may leave."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str | None = None,
        shortlist: int = 50,
        max_characters: int = 20_000,
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        """Check the address; nothing is sent yet. `verify` may name a private authority, and cannot be switched off.

        Raises:
            SettingsError: the URL is not https (http is taken for a loopback address alone), or TLS is not verified.
        """
        _check_url(url)
        if verify is False:
            raise SettingsError(
                "A hosted reranker's certificate is always verified",
                expected="True, or an ssl.SSLContext with your authority",
                found="False",
            )
        self._url, self._model = url, model
        self._headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._shortlist, self._max_characters, self._verify = shortlist, max_characters, verify

    @property
    def identity(self) -> str:
        """Where and what; the service may still change behind it, which no client can see."""
        return f"hosted {urlsplit(self._url).netloc.rpartition('@')[2]} {self._model}"

    @property
    def shortlist(self) -> int:
        """Passages at most."""
        return self._shortlist

    def rerank(self, query: str, passages: Sequence[Passage], budget_seconds: float) -> RerankResult:
        """Raises: RerankError: no answer in time, another status than 200, or an answer of another shape."""
        deadline = Deadline(budget_seconds)
        payload = {
            "model": self._model,
            "query": query,
            "documents": [passage.text[: self._max_characters] for passage in passages],
            "top_n": len(passages),
        }
        try:
            # No redirects: the passages go where the setting says. No proxies or credentials from the environment.
            with (
                httpx.Client(verify=self._verify, timeout=budget_seconds, trust_env=False) as client,
                client.stream("POST", self._url, json=payload, headers=self._headers) as answer,
            ):
                if answer.status_code != 200:
                    raise _refused(f"status {answer.status_code}")
                body = bytearray()
                for block in answer.iter_bytes():
                    body += block
                    deadline.check()
                    if len(body) > _MAX_ANSWER:
                        raise _refused(f"more than {_MAX_ANSWER:,} bytes")
        except httpx.TimeoutException:
            raise too_late(budget_seconds) from None
        except httpx.HTTPError as error:
            raise _refused(type(error).__name__) from None
        scores = _scores(bytes(body), len(passages))
        return RerankResult(scores, sum(len(passage.text) > self._max_characters for passage in passages))


def _scores(body: bytes, count: int) -> tuple[float, ...]:
    try:
        results = {int(one["index"]): float(one["relevance_score"]) for one in json.loads(body)["results"]}
    except (ValueError, KeyError, TypeError):
        raise _refused("an answer of another shape") from None
    if sorted(results) != list(range(count)):
        raise _refused(f"scores for {len(results)} places of {count}")
    return tuple(results[place] for place in range(count))


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and _is_loopback(parts.hostname or ""):
        return
    raise SettingsError(
        "The hosted reranker cannot be asked over a connection that others can read",
        expected="an https:// URL (http:// for a loopback address alone)",
        found=f"{parts.scheme or 'no scheme'}://{parts.hostname or ''}",
        remedy="give the service a certificate, or leave the reranker out",
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refused(found: str) -> RerankError:
    return RerankError("The hosted reranker gave no usable answer", expected="one score for each passage", found=found)
