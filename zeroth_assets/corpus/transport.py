"""An httpx transport that sees when a server sends more than its Content-Length announced.

What belongs here: counting bytes under the HTTP library. A body is cut at Content-Length by every client; if the
number is too small, the cut document would look whole. The library drops what follows without a word, so the bytes
are counted where they arrive.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

_END_OF_HEAD = b"\r\n\r\n"


class TalliedStream(httpcore.NetworkStream):
    """A connection that counts what arrived since the last request."""

    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner
        self._reading = False
        self._head: bytearray | None = bytearray()
        self._body = 0

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read and count."""
        data = self._inner.read(max_bytes, timeout)
        self._reading = True
        if self._head is None:
            self._body += len(data)
            return data
        self._head += data
        end = self._head.find(_END_OF_HEAD)
        while end >= 0 and self._head[9:10] == b"1":  # an interim answer (RFC 9110, section 15.2): the next head counts
            del self._head[: end + len(_END_OF_HEAD)]
            end = self._head.find(_END_OF_HEAD)
        if end >= 0:
            self._body = len(self._head) - end - len(_END_OF_HEAD)
            self._head = None
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write; the first write after an answer begins a new request."""
        if self._reading:
            self._reading, self._head, self._body = False, bytearray(), 0
        self._inner.write(buffer, timeout)

    def close(self) -> None:
        """Close the connection."""
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """The connection under TLS, counted in clear text."""
        return TalliedStream(self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        """As the connection has it."""
        return self._inner.get_extra_info(info)

    def surplus(self, content_length: int) -> bool:
        """Whether more than `content_length` bytes of body came, or wait to be read."""
        if self._body > content_length:
            return True
        if not self._inner.get_extra_info("is_readable"):
            return False
        try:
            return bool(self._inner.read(1, timeout=0.05))
        except (httpcore.TimeoutException, httpcore.NetworkError):
            return False


class _TalliedBackend(httpcore.SyncBackend):
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        return TalliedStream(super().connect_tcp(host, port, timeout, local_address, socket_options))


@functools.cache
def _default_context() -> ssl.SSLContext:
    """Certificates of the authorities that are trusted, read once per process: it takes longer than a document."""
    return httpx.create_ssl_context()


class TallyingTransport(httpx.HTTPTransport):
    """httpx's own transport over counted connections."""

    def __init__(self, context: ssl.SSLContext | None = None, connections: int = 16) -> None:
        context = context or _default_context()
        super().__init__(verify=context)
        self._pool.close()
        self._pool = httpcore.ConnectionPool(
            ssl_context=context,
            max_connections=connections,
            max_keepalive_connections=connections,
            keepalive_expiry=30.0,
            network_backend=_TalliedBackend(),
        )


def has_surplus(response: httpx.Response) -> bool:
    """Whether the server sent more body than announced; False where that cannot be seen (a proxy, a test's transport).

    To be asked when the body is read and the response not yet closed.
    """
    stream = response.extensions.get("network_stream")
    length = response.headers.get("content-length", "")
    if not isinstance(stream, TalliedStream) or not length.isdigit():
        return False
    return stream.surplus(int(length))
