"""Chunks and vectors as rows of a chunk table: checked, then put into PostgreSQL's binary COPY format.

What belongs here: the table's columns in their order, every reason to refuse a batch before anything is written, and
the encoding of rows. No connection.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zeroth_assets.errors import ChunkingError, EmbeddingError, ZerothError

COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
COPY_TRAILER = struct.pack(">h", -1)
UNIT_NORM_TOLERANCE = 1e-3

CHUNK_COLUMNS: tuple[str, ...] = (
    "chunk_id",
    "chunk_hash",
    "document_id",
    "document_version",
    "ordinal",
    "char_start",
    "char_end",
    "page_first",
    "page_last",
    "pages_real",
    "section_path",
    "token_count",
    "text",
)
ROW_COLUMNS: tuple[str, ...] = ("tenant_id", *CHUNK_COLUMNS, "embedding", "index_build_id")
_TEXTS = ("document_id", "document_version", "section_path", "text")
_INT4 = ("ordinal", "char_start", "char_end", "page_first", "page_last", "token_count")
_MAY_BE_NULL = ("page_first", "page_last")
_TYPES: dict[str, pl.DataType] = {
    "chunk_id": pl.Int64(),
    "chunk_hash": pl.Binary(),
    "pages_real": pl.Boolean(),
    **{name: pl.String() for name in _TEXTS},
    **{name: pl.Int64() for name in _INT4},
}


@dataclass(frozen=True, slots=True)
class Batch:
    """A tenant's chunks with their vectors: float32, shape (rows, dimension), row by row in the frame's order."""

    chunks: pl.DataFrame
    vectors: NDArray[np.float32]

    @property
    def rows(self) -> int:
        """How many rows."""
        return self.chunks.height

    @property
    def dimension(self) -> int:
        """Of the vectors."""
        return int(self.vectors.shape[1])

    @property
    def rows_digest(self) -> str:
        """See `rows_digest`."""
        return rows_digest(self.chunks["chunk_id"].to_numpy())

    def copy_rows(self, tenant_id: int, build_id: int) -> Iterator[bytes]:
        """One COPY tuple per row, in the order of `ROW_COLUMNS`."""
        head = struct.pack(">hii", len(ROW_COLUMNS), 4, tenant_id)
        tail = struct.pack(">ii", 4, build_id)
        prefix = struct.pack(">iHH", 4 + 4 * self.dimension, self.dimension, 0)
        big_endian = self.vectors.astype(">f4")
        encoders = [_ENCODERS[name] for name in CHUNK_COLUMNS]
        for position, row in enumerate(self.chunks.select(CHUNK_COLUMNS).iter_rows()):
            fields = [encode(value) for encode, value in zip(encoders, row, strict=True)]
            yield b"".join((head, *fields, prefix, big_endian[position].tobytes(), tail))


def check_batch(chunks: pl.DataFrame, vectors: NDArray[np.float32]) -> Batch:
    """The batch, if every row of it can be stored and found again.

    Raises:
        ChunkingError: a column is missing, of another type, or null; a chunk id occurs twice; a hash is not 32 bytes; a
            number does not fit; a text holds NUL.
        EmbeddingError: not a float32 matrix with one row per chunk, or a vector that is not finite or not of norm 1
            (a zero vector is absent from a cosine index and present in a scan).
    """
    _check_vectors(vectors, chunks.height)
    wrong = [
        f"{name} is {chunks.schema.get(name, 'absent')}"
        for name in CHUNK_COLUMNS
        if chunks.schema.get(name) != _TYPES[name]
    ]
    if wrong:
        raise ChunkingError(
            "The chunk frame does not have the declared schema",
            expected=", ".join(f"{name} {_TYPES[name]}" for name in CHUNK_COLUMNS),
            found="; ".join(wrong),
            remedy="make it with `zeroth_assets.chunking.chunks_to_frame`",
        )
    for name in CHUNK_COLUMNS:
        if name not in _MAY_BE_NULL and (missing := chunks[name].null_count()):
            raise _bad_chunks(f"Column {name} has nulls", "a value in every row", f"{missing} nulls")
    ids = chunks["chunk_id"]
    if ids.n_unique() != ids.len():
        twice = ids.filter(ids.is_duplicated()).unique().sort().head(5).to_list()
        raise _bad_chunks("Chunk ids occur twice", "each id once", ", ".join(map(str, twice)))
    if (short := int((chunks["chunk_hash"].bin.size() != 32).sum())) > 0:
        raise _bad_chunks("Chunk hashes are not sha256", "32 bytes", f"{short} of another length")
    for name in _INT4:
        if ((chunks[name] < 0) | (chunks[name] > 2**31 - 1)).any():
            raise _bad_chunks(f"Column {name} has values out of range", "0 to 2**31 - 1", f"{chunks[name].max()!r}")
    for name in _TEXTS:
        hit = chunks.filter(chunks[name].str.contains("\0", literal=True))
        if hit.height:
            raise _bad_chunks(
                f"Column {name} holds NUL, which PostgreSQL cannot store",
                "text that the parser has cleaned (NUL becomes U+FFFD)",
                f"{hit.height} rows, first chunk id {hit['chunk_id'][0]}",
            )
    return Batch(chunks, vectors)


def rows_digest(chunk_ids: NDArray[np.int64]) -> str:
    """sha256 (hex) over the ascending ids, eight bytes each, big-endian: which chunks, in any order."""
    return hashlib.sha256(np.sort(chunk_ids).astype(">i8").tobytes()).hexdigest()


def _check_vectors(vectors: NDArray[np.float32], rows: int) -> None:
    if vectors.ndim != 2 or vectors.dtype != np.float32 or vectors.shape[1] == 0:
        raise _bad_vectors("not a float32 matrix", "float32, (rows, dimension)", f"{vectors.dtype}, {vectors.shape}")
    if vectors.shape[0] != rows:
        raise _bad_vectors("not one per chunk", f"{rows} rows", f"{vectors.shape[0]} rows")
    if not np.isfinite(vectors).all():
        bad = int((~np.isfinite(vectors).all(axis=1)).sum())
        raise _bad_vectors("not finite", "no NaN and no infinity", f"{bad} rows with one")
    off = np.abs(np.linalg.norm(vectors.astype(np.float64), axis=1) - 1.0)
    if rows and float(off.max()) > UNIT_NORM_TOLERANCE:
        row = int(off.argmax())
        norm = float(np.linalg.norm(vectors[row]))
        raise _bad_vectors("not of unit norm", f"1 within {UNIT_NORM_TOLERANCE}", f"norm {norm:.6f} in row {row}")


def _bad_chunks(what: str, expected: str, found: str) -> ZerothError:
    return ChunkingError(what, expected=expected, found=found, remedy="materialise the tenant's chunks again")


def _bad_vectors(what: str, expected: str, found: str) -> ZerothError:
    return EmbeddingError(
        f"The vectors are {what}",
        expected=expected,
        found=found,
        remedy="materialise the tenant's embeddings again; they are loaded as they are or not at all",
    )


def _encode_int4(value: int | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">ii", 4, value)


def _encode_int8(value: int) -> bytes:
    return struct.pack(">iq", 8, value)


def _encode_bool(value: bool) -> bytes:
    return struct.pack(">i?", 1, value)


def _encode_bytes(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def _encode_text(value: str) -> bytes:
    return _encode_bytes(value.encode())


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "chunk_id": _encode_int8,
    "chunk_hash": _encode_bytes,
    "pages_real": _encode_bool,
    **dict.fromkeys(_TEXTS, _encode_text),
    **dict.fromkeys(_INT4, _encode_int4),
}
