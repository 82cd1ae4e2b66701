"""Eight tenants of very different size under one shared index, whose rows lie anyhow among each other's."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zeroth_assets.store.connect import Database
from zeroth_assets.store.load import load_tenant
from zeroth_assets.store.migrate import migrate
from zeroth_assets.store.registry import ensure_chunk_set
from zeroth_assets.store.shared import load_shared

CHUNK_SET, DIMENSION = "fixed_512", 24
SIZES = {"t-6": 6, "t-14": 14, "t-30": 30, "t-60": 60, "t-120": 120, "t-300": 300, "t-700": 700, "t-1400": 1400}
FINGERPRINT = {"digest": "f" * 64, "model": "made up"}


def unit_vectors(rows: int, seed: int, dimension: int = DIMENSION) -> NDArray[np.float32]:
    raw = np.random.default_rng(seed).normal(size=(rows, dimension))
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True), dtype=np.float32)


def chunks(rows: int, label: str) -> pl.DataFrame:
    hashes = [hashlib.sha256(f"{label}{i}".encode()).digest() for i in range(rows)]
    numbers = np.arange(rows, dtype=np.int64)
    return pl.DataFrame(
        {
            "chunk_id": [int.from_bytes(h[:8], "big") >> 1 for h in hashes],
            "chunk_hash": hashes,
            "document_id": [f"rfc:{label}"] * rows,
            "document_version": ["0" * 64] * rows,
            "ordinal": numbers,
            "char_start": numbers,
            "char_end": numbers + 1,
            "page_first": numbers,
            "page_last": numbers,
            "pages_real": [True] * rows,
            "section_path": ["1 Introduction"] * rows,
            "token_count": numbers,
            "text": ["words"] * rows,
        }
    )


def load_one(db: Database, tenant: str, vectors: NDArray[np.float32]) -> None:
    load_tenant(
        db,
        chunk_set=CHUNK_SET,
        tenant_key=tenant,
        chunks=chunks(len(vectors), tenant),
        vectors=vectors,
        fingerprint=FINGERPRINT,
        chunker_version="1",
    )


def load_everything(db: Database, sizes: Mapping[str, int] = SIZES) -> Database:
    migrate(db)
    ensure_chunk_set(db, CHUNK_SET, DIMENSION)
    for number, (tenant, rows) in enumerate(sizes.items()):
        load_one(db, tenant, unit_vectors(rows, number))
    load_shared(db, CHUNK_SET)
    return db
