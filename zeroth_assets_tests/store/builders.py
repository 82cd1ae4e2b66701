"""Small chunk frames and vectors for the tests of the store, and a migrated database to put them into."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zeroth_assets.store.connect import Database
from zeroth_assets.store.load import LoadReport, load_tenant
from zeroth_assets.store.migrate import migrate
from zeroth_assets.store.registry import ensure_chunk_set, list_tenants

DIMENSION = 8
CHUNK_SET = "fixed_512"


def prepared(db: Database, dimension: int = DIMENSION) -> Database:
    migrate(db)
    ensure_chunk_set(db, CHUNK_SET, dimension)
    return db


def make_chunks(numbers: range | list[int], marker: str = "one", document: str = "rfc:1") -> pl.DataFrame:
    """One chunk per number; `marker` goes into every text, so that a reader can tell two loads apart."""
    hashes = [hashlib.sha256(f"{document}/{n}".encode()).digest() for n in numbers]
    count = len(hashes)
    return pl.DataFrame(
        {
            "chunk_id": [int.from_bytes(h[:8], "big") >> 1 for h in hashes],
            "chunk_hash": hashes,
            "document_id": [document] * count,
            "document_version": ["v1"] * count,
            "ordinal": list(numbers),
            "char_start": [10 * n for n in numbers],
            "char_end": [10 * n + 9 for n in numbers],
            "page_first": [None if n % 3 == 0 else 1 for n in numbers],
            "page_last": [None if n % 3 == 0 else 2 for n in numbers],
            "pages_real": [n % 2 == 0 for n in numbers],
            "section_path": ["1 Scope > 1.1 Ünïcode 😀"] * count,
            "token_count": [12] * count,
            "text": [f"{marker} streams carry frames, number {n}" for n in numbers],
        },
        schema={
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
        },
    )


def make_vectors(rows: int, seed: int = 0, dimension: int = DIMENSION) -> NDArray[np.float32]:
    vectors: NDArray[np.float32] = np.random.default_rng(seed).standard_normal((rows, dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def load(db: Database, chunks: pl.DataFrame, tenant: str = "rfc-quic", seed: int = 0, **more: Any) -> LoadReport:
    """A load with everything filled in; any argument of `load_tenant` may be given."""
    arguments: dict[str, Any] = {
        "chunk_set": CHUNK_SET,
        "tenant_key": tenant,
        "chunks": chunks,
        "vectors": make_vectors(chunks.height, seed),
        "fingerprint": {"digest": "print-1", "model": "m"},
        "chunker_version": "1",
    }
    return load_tenant(db, **{**arguments, **more})


def tenant_id_of(db: Database, key: str) -> int:
    return next(tenant.tenant_id for tenant in list_tenants(db) if tenant.tenant_key == key)


def relations_of(db: Database, tenant_id: int) -> list[str]:
    """Tables and indexes that carry the tenant's id in their name, in any schema."""
    with db.admin() as connection:
        rows = connection.execute(
            "select relname from pg_class where relname ~ %s", (f"^chunk_[0-9]+_t{tenant_id}(_|$)",)
        ).fetchall()
    return [row[0] for row in rows]


def stored_rows(db: Database, tenant_id: int, table: str = "zeroth.chunk_1") -> list[tuple[Any, ...]]:
    """The tenant's rows as the administrator sees them: chunk id, text, vector as text, fingerprint."""
    with db.admin() as connection:
        return connection.execute(
            f"select chunk_id, text, embedding::text, fingerprint_digest from {table}"
            " join zeroth.index_build using (index_build_id)"
            f" where {table}.tenant_id = %s order by chunk_id",
            (tenant_id,),
        ).fetchall()
