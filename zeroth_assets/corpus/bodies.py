"""Receiving a body: decoded, bounded in size and time, and only if its lengths agree.

What belongs here: from an open response to bytes in a file object. What the bytes are is judged elsewhere.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

import httpx

from zeroth_assets.corpus.transport import has_surplus

_HEAD_BYTES = 65536


class TransferError(Exception):
    """A request gave no whole answer. `retry`: asking again may help; `final`: not in the next run either;

    `unreached`: there was no connection.
    """

    def __init__(self, cause: str, *, retry: bool = True, final: bool = False, unreached: bool = False) -> None:
        self.cause, self.retry, self.final, self.unreached = cause, retry, final, unreached
        super().__init__(cause)


class Budget:
    """The transfer time that a document has, over all its attempts; waiting for a turn does not count."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds, self._clock, self._spent, self._since = seconds, clock, 0.0, 0.0

    def __enter__(self) -> None:
        self._since = self._clock()

    def __exit__(self, *_: object) -> None:
        self._spent += self._clock() - self._since

    def check(self) -> None:
        """Raise `TransferError` when the time is used up."""
        if self._spent + self._clock() - self._since > self._seconds:
            raise TransferError(f"the transfer took longer than its {self._seconds:.1f} s", retry=False)


def receive(response: httpx.Response, sink: BinaryIO, limit: int, budget: Budget) -> bytes:
    """Read the whole body into `sink`, decoded; returns its beginning.

    Raises:
        TransferError: it is not the length that it should be, too large, too slow, or coded in a way not asked for.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("gzip", "x-gzip", "identity", ""):
        raise TransferError(f"the content coding {encoding}, which nobody asked for", retry=False)
    counted = _counted(response, budget)
    head, written = b"", 0
    for part in _gunzip(counted) if "gzip" in encoding else counted:
        written += len(part)
        if written > limit:
            raise TransferError(f"more than {limit} bytes", retry=False, final=True)
        if len(head) < _HEAD_BYTES:
            head += part[: _HEAD_BYTES - len(head)]
        sink.write(part)
    return head


def _counted(response: httpx.Response, budget: Budget) -> Iterator[bytes]:
    """The body as it comes, in no more bytes and no fewer than Content-Length says."""
    length = response.headers.get("content-length", "")
    chunked = "chunked" in response.headers.get("transfer-encoding", "").lower()
    announced = int(length) if length.isdigit() and not chunked else None
    raw = 0
    for part in response.iter_raw():
        raw += len(part)
        budget.check()
        # Looked at before the iterator ends: then the connection goes back to the pool, and to another thread.
        if raw == announced and has_surplus(response):
            raise TransferError(f"more bytes than the {length} of Content-Length")
        yield part
    if announced is not None and raw != announced:
        raise TransferError(f"{raw} bytes where Content-Length said {length}")


def _gunzip(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Decode gzip, one member or several (RFC 1952), in bounded steps; a cut or damaged stream is an error."""
    decoder, begun = zlib.decompressobj(wbits=31), False
    try:
        for part in parts:
            data = part
            while data:
                if decoder.eof:
                    decoder = zlib.decompressobj(wbits=31)
                begun = True
                yield decoder.decompress(data, 2**20)
                data = decoder.unconsumed_tail or (decoder.unused_data if decoder.eof else b"")
    except zlib.error as error:
        raise TransferError(f"damaged gzip: {error}") from error
    if begun and not decoder.eof:
        raise TransferError("a gzip body that ends before its end")
