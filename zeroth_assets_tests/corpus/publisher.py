"""A publisher on loopback that misbehaves on command.

`Publisher(folder)` serves files below a folder; `serve(path, ...)` replaces what one path gives by a sequence of
behaviours, one per request, the last of which repeats. Every request is kept. Answers are written as raw bytes, so
that they can break every rule.
"""

from __future__ import annotations

import gzip
import socket
import ssl
import struct
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType


@dataclass(frozen=True)
class Request:
    path: str
    headers: Mapping[str, str]
    at: float


# A behaviour writes an answer to the connection and says whether the connection may be used again.
Behaviour = Callable[[socket.socket], bool]


def head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def answer(
    status: int = 200, body: bytes = b"", kind: str = "text/plain", headers: Mapping[str, str] | None = None
) -> Behaviour:
    """A well-formed answer."""

    def write(connection: socket.socket) -> bool:
        given = {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}
        connection.sendall(head(status, given) + body)
        return True

    return write


def page(status: int, title: str, text: str = "", headers: Mapping[str, str] | None = None) -> Behaviour:
    """An HTML page."""
    html = f"<!DOCTYPE html><html><head><title>{title}</title></head><body><p>{text or title}</p></body></html>"
    return answer(status, html.encode(), "text/html; charset=utf-8", headers)


def redirect(location: str, status: int = 302) -> Behaviour:
    return answer(status, b"moved", headers={"Location": location})


def gzipped(body: bytes, keep: float = 1.0) -> Behaviour:
    """Under Content-Encoding gzip; with `keep` below 1 the stream is cut and Content-Length fits the cut."""
    packed = gzip.compress(body)
    return answer(200, packed[: int(len(packed) * keep)], headers={"Content-Encoding": "gzip"})


def chunked(body: bytes, size: int = 1000, end: bool = True) -> Behaviour:
    """In chunks; without `end` the connection closes before the last one."""

    def write(connection: socket.socket) -> bool:
        connection.sendall(head(200, {"Transfer-Encoding": "chunked", "Content-Type": "text/plain"}))
        for start in range(0, len(body), size):
            part = body[start : start + size]
            connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        if end:
            connection.sendall(b"0\r\n\r\n")
        return end

    return write


def reset_at(body: bytes, share: float = 0.6) -> Behaviour:
    """The connection is reset (RST, not FIN) after a share of the body."""

    def write(connection: socket.socket) -> bool:
        connection.sendall(head(200, {"Content-Length": str(len(body))}) + body[: int(len(body) * share)])
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    return write


def announced(body: bytes, length: int) -> Behaviour:
    """Content-Length says `length`, whatever the body has; then the connection closes."""

    def write(connection: socket.socket) -> bool:
        connection.sendall(head(200, {"Content-Length": str(length), "Content-Type": "text/plain"}) + body)
        return False

    return write


def drip(body: bytes, pause: float = 0.02) -> Behaviour:
    """One byte at a time."""

    def write(connection: socket.socket) -> bool:
        connection.sendall(head(200, {"Content-Length": str(len(body))}))
        for index in range(len(body)):
            connection.sendall(body[index : index + 1])
            time.sleep(pause)
        return True

    return write


def noise(data: bytes = b"\x15\x03\x01 this is no HTTP\r\n\r\n") -> Behaviour:
    def write(connection: socket.socket) -> bool:
        connection.sendall(data)
        return False

    return write


def after(seconds: float, then: Behaviour) -> Behaviour:
    """Silence, then an answer."""

    def write(connection: socket.socket) -> bool:
        time.sleep(seconds)
        return then(connection)

    return write


class Publisher:
    """Use as a context manager. `base` is its URL."""

    def __init__(self, folder: Path | None = None, *, tls: ssl.SSLContext | None = None, delay: float = 0.0) -> None:
        self._folder = folder
        self._tls = tls
        self._delay = delay
        self._scripts: dict[str, list[Behaviour]] = {}
        self._guard = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        self.base = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.requests: list[Request] = []

    def serve(self, path: str, *behaviours: Behaviour) -> str:
        """Let `path` behave so; returns its URL."""
        with self._guard:
            self._scripts[path] = list(behaviours)
        return f"{self.base}{path}"

    def asked(self, path: str) -> int:
        """How often a path was asked for."""
        with self._guard:
            return sum(r.path == path for r in self.requests)

    def forget(self) -> None:
        with self._guard:
            self.requests.clear()

    def __enter__(self) -> Publisher:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts, which keeps the port open otherwise
        self._listener.close()
        with self._guard:
            for connection in self._connections:
                connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with self._guard:
                self._connections.add(connection)
            received = b""
            while True:
                while b"\r\n\r\n" not in received:
                    data = connection.recv(65536)
                    if not data:
                        return
                    received += data
                    if not received[:1].isalpha():  # a TLS greeting, where TLS is not spoken
                        noise()(connection)
                        return
                request, _, received = received.partition(b"\r\n\r\n")
                if not self._behaviour(request.decode("latin-1"))(connection):
                    return
        except OSError:
            return  # the client went away, or the test ended
        finally:
            with self._guard:
                self._connections.discard(connection)
            connection.close()

    def _behaviour(self, request: str) -> Behaviour:
        first, *rest = request.split("\r\n")
        path = first.split(" ")[1]
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in rest)}
        with self._guard:
            self.requests.append(Request(path, headers, time.monotonic()))
            script = self._scripts.get(path)
            if script:
                return script.pop(0) if len(script) > 1 else script[0]
        if self._delay:
            time.sleep(self._delay)
        return self._file(path)

    def _file(self, path: str) -> Behaviour:
        if self._folder is None:
            return page(404, "404 Not Found")
        try:
            body = (self._folder / urllib.parse.unquote(path).lstrip("/")).read_bytes()
        except OSError:
            return page(404, "404 Not Found")
        return answer(200, body, "text/html" if path.endswith((".htm", ".html")) else "text/plain")
