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
    """Read the whole body into `sink`, decoded; returns its beginning. Checks lengths before anything is used."""
    head, written, raw = b"", 0, 0

    def counted() -> Iterator[bytes]:
        nonlocal raw
        for part in response.iter_raw(65536):
            raw += len(part)
            budget.check()
            yield part

    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("gzip", "x-gzip"):
        parts = _gunzip(counted())
    elif encoding in ("identity", ""):
        parts = counted()
    else:
        raise TransferError(f"the content coding {encoding}, which nobody asked for", retry=False)
    for part in parts:
        written += len(part)
        if written > limit:
            raise TransferError(f"more than {limit} bytes", retry=False, final=True)
        if len(head) < _HEAD_BYTES:
            head += part[: _HEAD_BYTES - len(head)]
        sink.write(part)
    length = response.headers.get("content-length", "")
    if length.isdigit() and "chunked" not in response.headers.get("transfer-encoding", "").lower():
        if int(length) != raw:
            raise TransferError(f"{raw} bytes where Content-Length said {length}")
        if has_surplus(response):
            raise TransferError(f"more bytes than the {length} of Content-Length")
    return head


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
