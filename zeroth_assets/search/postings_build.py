"""Building the postings of one tenant from its chunks.

What belongs here: from texts to arrays, in time and memory that suit a tenant of any size. Each distinct word is
analysed once; what remains is numbering words and adding sparse rows, none of which touches a term by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from zeroth_assets.errors import ArtefactError, ChunkingError
from zeroth_assets.search.analyser import Analyser
from zeroth_assets.search.postings import Array, Part, Postings, narrow, spelled_out, term_hashes

# Texts whose counts are gathered at once: bounds what building needs beside its result.
_BATCH = 4096


class _Words(dict[str, int]):
    """Numbers words as they turn up."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


def build_postings(
    chunk_ids: Sequence[int] | Array,
    texts: Sequence[str],
    *,
    tenant: str,
    chunk_set: str,
    analyser: Analyser,
    progress: Callable[[int, int], None] | None = None,
) -> Postings:
    """Postings of one tenant's chunks: each distinct word is analysed once, then counts are sums of sparse rows.

    Raises:
        ChunkingError: an id is there twice, or ids and texts differ in number.
    """
    ids = np.asarray(chunk_ids, dtype="<i8").reshape(-1)
    _check_ids(ids, len(texts))
    order = np.argsort(ids, kind="stable")
    words = _Words()
    numbers, ends = _word_numbers([texts[i] for i in order.tolist()], words, progress)
    spelled, word_terms = _terms_of(words, analyser)
    hashes = term_hashes(spelled)
    by_hash = np.argsort(hashes, kind="stable")
    spelled, hashes = [spelled[i] for i in by_hash.tolist()], hashes[by_hash]
    _check_hashes(hashes)
    counted = _counted(numbers, ends, word_terms[:, by_hash] if len(by_hash) else word_terms)
    columns = counted.tocsc()
    return Postings(
        parts=(Part(tenant, len(ids)),),
        chunk_set=chunk_set,
        analyser=analyser.identity,
        chunk_ids=ids[order],
        lengths=np.asarray(counted.sum(axis=1), dtype="<u4").reshape(-1),
        hashes=hashes,
        spellings=np.frombuffer(b"".join(spelled), dtype=np.uint8),
        spelling_ends=np.cumsum([0, *map(len, spelled)], dtype="<i8"),
        starts=columns.indptr.astype("<i8"),
        chunks=narrow(columns.indices, max(0, len(ids) - 1)),
        counts=narrow(columns.data, int(columns.data.max(initial=0))),
    )


def _check_ids(ids: Array, texts: int) -> None:
    values, times = np.unique(ids, return_counts=True)
    if len(ids) != texts or len(values) != len(ids):
        raise ChunkingError(
            "Chunks cannot be indexed",
            expected="one text for each chunk id, and each id once",
            found=f"{len(ids)} ids, {texts} texts, {int((times > 1).sum())} ids more than once",
        )


def _check_hashes(hashes: Array) -> None:
    if len(hashes) > 1 and not bool(np.all(hashes[1:] > hashes[:-1])):
        raise ArtefactError(
            "Two terms have one hash", expected="a hash of 64 bits for each term", found="a collision, one in billions"
        )


def _word_numbers(
    texts: Sequence[str], words: _Words, progress: Callable[[int, int], None] | None
) -> tuple[Array, Array]:
    """The number of each word of all texts in a row, and where each text's end (n + 1)."""
    numbers: list[Array] = [np.zeros(0, dtype=np.int32)]
    sizes = [0]
    number_of = words.__getitem__
    # A text at a time: its words are looked up while the processor's cache still holds them.
    for done, text in enumerate(texts, 1):
        split = text.split()
        sizes.append(len(split))
        numbers.append(np.fromiter(map(number_of, split), dtype=np.int32, count=len(split)))
        if progress is not None and (done % _BATCH == 0 or done == len(texts)):
            progress(done, len(texts))
    return np.concatenate(numbers), np.cumsum(sizes)


def _terms_of(words: Iterable[str], analyser: Analyser) -> tuple[list[bytes], Any]:
    """Distinct terms, and a sparse matrix of how often each word (row) gives each of them (column)."""
    terms: dict[bytes, int] = {}
    columns: list[int] = []
    ends = [0]
    for word in words:
        columns.extend([terms.setdefault(spelled_out(term), len(terms)) for term in analyser.terms(word)])
        ends.append(len(columns))
    ones = np.ones(len(columns), dtype=np.int32)
    matrix = sparse.csr_array((ones, np.asarray(columns, dtype=np.int32), ends), shape=(len(ends) - 1, len(terms)))
    return list(terms), matrix


def _counted(numbers: Array, ends: Array, word_terms: Any) -> Any:
    """A sparse matrix of how often each text (row) holds each term (column)."""
    blocks = []
    for first in range(0, max(1, len(ends) - 1), _BATCH):
        bounds = ends[first : first + _BATCH + 1]
        inside = numbers[bounds[0] : bounds[-1]]
        block = sparse.csr_array(
            (np.ones(len(inside), dtype=np.int32), inside, bounds - bounds[0]),
            shape=(len(bounds) - 1, word_terms.shape[0]),
        )
        blocks.append(block @ word_terms)
    return sparse.csr_array(sparse.vstack(blocks, format="csr"))
