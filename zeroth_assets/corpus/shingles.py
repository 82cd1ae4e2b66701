"""Words and shingles: what two texts are compared by.

What belongs here: how a text becomes normalised words, how five consecutive words become a 64-bit shingle, and which
shingles a sample keeps. Nothing here compares documents.

A word is a run of letters, marks and digits; everything else separates. Case, compatibility forms (ligatures,
full-width letters), soft hyphens and zero-width characters do not count, so neither layout nor typography changes a
shingle. Hashes are blake2b and splitmix64: the same on every machine and in every version, so the figures of two
runs compare.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Progress = Callable[[int, int], None]

SHINGLES_VERSION = "1"
SHINGLE_WORDS = 5
SAMPLE_MODULUS = 16

_WORD = r"[\p{L}\p{M}\p{N}]+"
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_BATCH_CHARACTERS = 6_000_000


def normalise(text: str) -> str:
    """The text with case, compatibility forms and invisible characters taken out; lengths may change.

    Upper case before case folding, so that a text set in capitals folds to what its original folds to.

    >>> normalise("Straße ﬁne") == normalise("STRASSE FINE")
    True
    """
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", _SURROGATE.sub(" ", _INVISIBLE.sub("", text)))
    return unicodedata.normalize("NFKC", plain.upper().casefold())


def word_lists(texts: Sequence[str]) -> pl.Series:
    """The normalised words of each text, in order: a series of lists of strings.

    >>> word_lists(["The  Buyer's, ORDER"]).to_list()
    [['the', 'buyer', 's', 'order']]
    """
    return pl.Series("words", [normalise(text) for text in texts], dtype=pl.String).str.extract_all(_WORD)


def shingle_set(text: str) -> frozenset[tuple[str, ...]]:
    """The distinct shingles of a text as words, nothing hashed: the yardstick for the hashed ones.

    A text of fewer than five words, but at least one, has one shingle: all its words.
    """
    words: list[str] = word_lists([text]).to_list()[0]
    if not words:
        return frozenset()
    last = max(1, len(words) - SHINGLE_WORDS + 1)
    return frozenset(tuple(words[i : i + SHINGLE_WORDS]) for i in range(last))


def shingle_hashes(texts: Sequence[str], progress: Progress | None = None) -> list[Hashes]:
    """The distinct shingles of each text as sorted 64-bit hashes, shape (shingles,), dtype uint64."""
    hashed: list[Hashes] = []
    for batch in _batches(texts):
        hashed.extend(_hash_batch(word_lists(batch)))
        if progress is not None:
            progress(len(hashed), len(texts))
    return hashed


def sampled(hashes: Hashes) -> Hashes:
    """Those that a sample keeps: hash mod 16 = 0. Every text keeps the same ones, so an overlap is unbiased."""
    kept: Hashes = hashes[hashes % np.uint64(SAMPLE_MODULUS) == 0]
    return kept


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    start = size = 0
    for index, text in enumerate(texts):
        if size and size + len(text) > _BATCH_CHARACTERS:
            yield texts[start:index]
            start, size = index, 0
        size += len(text)
    if start < len(texts):
        yield texts[start:]


def _hash_batch(words: pl.Series) -> list[Hashes]:
    lengths = words.list.len().to_numpy().astype(np.int64)
    hashes = _word_hashes(words.explode().drop_nulls())
    windows = _combine(hashes, SHINGLE_WORDS)
    ends = np.cumsum(lengths)
    out: list[Hashes] = []
    for end, length in zip(ends.tolist(), lengths.tolist(), strict=True):
        start = end - length
        if length >= SHINGLE_WORDS:
            out.append(np.unique(windows[start : end - SHINGLE_WORDS + 1]))
        else:
            out.append(_combine(hashes[start:end], length))
    return out


def _word_hashes(words: pl.Series) -> Hashes:
    """A 64-bit hash of each word; each distinct word is hashed once."""
    distinct = words.unique().rename("word")
    digests = b"".join(hashlib.blake2b(w.encode(), digest_size=8).digest() for w in distinct)
    table = pl.DataFrame({"word": distinct, "hash": np.frombuffer(digests, dtype="<u8").astype(np.uint64)})
    joined = words.rename("word").to_frame().join(table, on="word", how="left", maintain_order="left")
    return joined["hash"].to_numpy().astype(np.uint64, copy=False)


def _combine(hashes: Hashes, width: int) -> Hashes:
    """One hash per window of `width` words: a polynomial in an odd base, mixed so that its low bits are uniform."""
    if width == 0 or len(hashes) < width:
        return np.empty(0, dtype=np.uint64)
    count = len(hashes) - width + 1
    total = np.full(count, width, dtype=np.uint64)
    for offset in range(width):
        total *= np.uint64(0x9E3779B97F4A7C15)
        total += hashes[offset : offset + count]
    return _mix(total)


def _mix(values: Hashes) -> Hashes:
    """The finaliser of splitmix64 (Steele, Lea and Flood, 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
