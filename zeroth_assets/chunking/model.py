"""What a chunk is, its id, and its frame.

What belongs here: the dataclass, the schema, the identity of a chunk. No cutting.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from zeroth_assets.errors import ChunkingError

# One entry per chunk set; raise it when the chunker would cut otherwise, and every chunk of the set gets a new id.
CHUNKER_VERSION: dict[str, str] = {"fixed_512": "1", "section_aware": "1"}


@dataclass(frozen=True, slots=True)
class Chunk:
    """`document.text[char_start:char_end] == text`, always.

    `token_count` is what the encoder reads, special tokens included. Pages are None where the document has none;
    `pages_real` is False where they are estimated. `section_path` names the innermost section in which it starts.
    """

    chunk_id: int
    chunk_hash: bytes
    document_id: str
    document_version: str
    ordinal: int
    char_start: int
    char_end: int
    page_first: int | None
    page_last: int | None
    pages_real: bool
    section_path: str
    token_count: int
    text: str


CHUNK_SCHEMA = pl.Schema(
    {
        "chunk_id": pl.Int64,
        "chunk_hash": pl.Binary,
        "document_id": pl.String,
        "document_version": pl.String,
        "ordinal": pl.Int64,
        "char_start": pl.Int64,
        "char_end": pl.Int64,
        "page_first": pl.Int64,
        "page_last": pl.Int64,
        "pages_real": pl.Boolean,
        "section_path": pl.String,
        "token_count": pl.Int64,
        "text": pl.String,
    }
)


def chunk_hash(
    document_id: str, version: str, chunker: str, chunker_version: str, parameters: Mapping[str, object], ordinal: int
) -> bytes:
    """sha256 of what makes a chunk the one it is: the document's version, how it was cut, and its place in the row."""
    payload = [document_id, version, chunker, chunker_version, dict(parameters), ordinal]
    return hashlib.sha256(json.dumps(payload, sort_keys=True, ensure_ascii=True).encode()).digest()


def id_of(digest: bytes) -> int:
    """The first 63 bits of a hash: a positive bigint.

    >>> id_of(b"\\xff" * 32) == 2**63 - 1
    True
    """
    return int.from_bytes(digest[:8], "big") >> 1


def check_ids(chunks: Iterable[Chunk]) -> None:
    """Make sure that no two chunks share an id.

    Raises:
        ChunkingError: two do, either because one chunk is there twice or because 63 bits of two hashes are equal.
    """
    seen: dict[int, Chunk] = {}
    for chunk in chunks:
        other = seen.setdefault(chunk.chunk_id, chunk)
        if other is not chunk:
            same = other.chunk_hash == chunk.chunk_hash
            raise ChunkingError(
                f"Two chunks have the id {chunk.chunk_id}",
                expected="one chunk per id",
                found=f"{other.document_id} chunk {other.ordinal} and {chunk.document_id} chunk {chunk.ordinal}, "
                + ("the same chunk twice" if same else "two hashes that agree in their first 63 bits"),
                remedy="give each document once" if same else "raise this chunk set's entry in CHUNKER_VERSION",
            )


def chunks_to_frame(chunks: Sequence[Chunk]) -> pl.DataFrame:
    """One row per chunk in `CHUNK_SCHEMA`, ordered by document, version and ordinal.

    Raises:
        ChunkingError: two chunks share an id.
    """
    check_ids(chunks)
    ordered = sorted(chunks, key=lambda c: (c.document_id, c.document_version, c.ordinal))
    columns = {name: [getattr(chunk, name) for chunk in ordered] for name in CHUNK_SCHEMA}
    return pl.DataFrame(columns, schema=CHUNK_SCHEMA)


def chunks_from_frame(frame: pl.DataFrame) -> list[Chunk]:
    """The inverse of `chunks_to_frame`."""
    return [Chunk(**row) for row in frame.select(CHUNK_SCHEMA.names()).iter_rows(named=True)]
