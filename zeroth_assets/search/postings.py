"""Postings: which chunks hold a term, and how often, as typed arrays.

What belongs here: the arrays, and looking up a term or a chunk. No scores, since what a term is worth depends on who
asks; building, joining and files have modules of their own.

Terms are ordered by a 64-bit hash, so that a query's terms are found by one binary search over a memory-mapped array
and no dictionary is ever held. The spelling stands beside it and is compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zeroth_assets.errors import ArtefactError

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Part:
    """`chunks` chunks of `tenant`, in a row."""

    tenant: str
    chunks: int


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """Postings over n chunks, v terms and p pairs of term and chunk.

    `chunk_ids` int64 (n), ascending within each part; `lengths` uint32 (n), in terms; `hashes` uint64 (v), strictly
    ascending; `spellings` uint8, all terms in UTF-8 one after another, cut at `spelling_ends` int64 (v + 1);
    `starts` int64 (v + 1) into `chunks`, the chunk numbers of each term, ascending, and `counts`, how often the term is
    in each: the narrowest unsigned type that holds them. Built for one tenant; joined ones have several parts.
    """

    parts: tuple[Part, ...]
    chunk_set: str
    analyser: str
    chunk_ids: Array
    lengths: Array
    hashes: Array
    spellings: Array
    spelling_ends: Array
    starts: Array
    chunks: Array
    counts: Array

    @property
    def size(self) -> int:
        """Chunks."""
        return len(self.chunk_ids)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(int(getattr(self, name).nbytes) for name in ARRAYS)

    def terms(self) -> list[str]:
        """All terms, in the order of `hashes`."""
        blob, ends = self.spellings.tobytes(), self.spelling_ends.tolist()
        return [blob[a:b].decode() for a, b in pairwise(ends)]

    def ranges(self, spelled: Sequence[bytes], hashes: Array) -> list[tuple[int, int]]:
        """Where in `chunks` and `counts` each term's entries lie, given in UTF-8 and by `term_hashes`.

        (0, 0) where no chunk holds the term.
        """
        if not len(self.hashes):
            return [(0, 0)] * len(spelled)
        rows = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        after = rows + 1
        columns = (
            (self.hashes[rows] == hashes).tolist(),
            self.spelling_ends[rows].tolist(),
            self.spelling_ends[after].tolist(),
            self.starts[rows].tolist(),
            self.starts[after].tolist(),
        )
        blob = self.spellings.data
        return [
            (first, end) if same and blob[spelled_first:spelled_end] == term else (0, 0)
            for term, same, spelled_first, spelled_end, first, end in zip(spelled, *columns, strict=True)
        ]

    def place(self, chunk_id: int) -> int | None:
        """The number of a chunk, or None."""
        if not -(1 << 63) <= chunk_id < 1 << 63:
            return None
        first = 0
        for part in self.parts:
            ids = self.chunk_ids[first : first + part.chunks]
            at = int(np.searchsorted(ids, chunk_id))
            if at < part.chunks and int(ids[at]) == chunk_id:
                return first + at
            first += part.chunks
        return None


ARRAYS = ("chunk_ids", "lengths", "hashes", "spellings", "spelling_ends", "starts", "chunks", "counts")


def term_hashes(spelled: Iterable[bytes]) -> Array:
    """64 bits of BLAKE2b of each term: the same in every process and on every machine (little-endian on disk)."""
    digests = b"".join(hashlib.blake2b(term, digest_size=8).digest() for term in spelled)
    return np.frombuffer(digests, dtype="<u8")


def spelled_out(term: str) -> bytes:
    """A term in UTF-8, with lone surrogates, which have no UTF-8 form, as `?`."""
    return term.encode(errors="replace")


def check_together(postings: Sequence[Postings]) -> None:
    """Make sure that postings may be searched as one.

    Raises:
        ArtefactError: a tenant is there twice, or they differ in chunk set or analyser.
    """
    tenants = [part.tenant for p in postings for part in p.parts]
    kinds = sorted({(p.chunk_set, p.analyser) for p in postings})
    if len(set(tenants)) != len(tenants):
        twice = sorted({tenant for tenant in tenants if tenants.count(tenant) > 1})
        raise ArtefactError("Postings hold a tenant twice", expected="each tenant once", found=", ".join(twice))
    if len(kinds) > 1:
        raise ArtefactError(
            "Postings of different kinds cannot be searched together",
            expected="one chunk set and one analyser",
            found="; ".join(f"{chunk_set} by {analyser}" for chunk_set, analyser in kinds),
            remedy="build the older ones again",
        )


def narrowest(largest: int) -> Any:
    """The narrowest unsigned type that holds `largest`."""
    return np.dtype("<u1" if largest < 1 << 8 else "<u2" if largest < 1 << 16 else "<u4")


def narrow(values: Array, largest: int) -> Array:
    """`values` in the narrowest unsigned type that holds `largest`."""
    return values.astype(narrowest(largest))
