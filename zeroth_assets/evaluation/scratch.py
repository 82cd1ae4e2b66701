"""A throw-away database filled with vectors, for measurements that change what they measure.

What belongs here: making and dropping it, and loading vectors for which there are no documents. The chunks are made up
around them; loading is the product's own, so partitions, policies and indexes are those that a corpus gets.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from psycopg import sql

from zeroth_assets.errors import MeasurementError
from zeroth_assets.store.connect import Database
from zeroth_assets.store.load import LoadReport, load_tenant
from zeroth_assets.store.migrate import migrate
from zeroth_assets.store.read import StoredVectors, read_vectors
from zeroth_assets.store.registry import EVERYTHING, IndexParameters

MADE_UP = "made-up"


@contextlib.contextmanager
def scratch_database(base: Database, name: str) -> Iterator[Database]:
    """A new, migrated database on the same server, dropped at the end; one of that name is dropped first."""
    db = base.named(name)
    _drop(base, db)
    db.ensure_databases()
    try:
        migrate(db)
        yield db
    finally:
        _drop(base, db)


def corpus_vectors(base: Database, chunk_set: str, pattern: str | None = None) -> StoredVectors:
    """Vectors of a corpus to fill one with: those that `all` may read in the home's database, or, with `pattern`, those
    of the files that it matches (`.npy`, one per tenant), which need no database; their chunk ids are made up.

    Raises:
        MeasurementError: no file matches.
    """
    if pattern is None:
        return read_vectors(base, chunk_set, EVERYTHING)
    files = sorted(Path(pattern).parent.glob(Path(pattern).name))
    if not files:
        raise MeasurementError("There are no vectors", expected="files of vectors", found=f"none that match {pattern}")
    parts = [np.asarray(np.load(file), dtype=np.float32) for file in files]
    tenants = np.repeat(np.arange(1, len(parts) + 1, dtype=np.int32), [len(part) for part in parts])
    return StoredVectors(tenants, np.arange(len(tenants), dtype=np.int64), np.concatenate(parts))


def load_vectors(
    db: Database,
    chunk_set: str,
    tenant_key: str,
    vectors: NDArray[np.float32],
    *,
    parameters: IndexParameters | None = None,
    build_memory_mb: int = 1_024,
    build_workers: int = 0,
) -> tuple[NDArray[np.int64], LoadReport]:
    """Make the tenant's rows these vectors (float32, unit norm); returns the id of each row's chunk, and the report."""
    frame = made_up_chunks(tenant_key, len(vectors))
    report = load_tenant(
        db,
        chunk_set=chunk_set,
        tenant_key=tenant_key,
        chunks=frame,
        vectors=vectors,
        fingerprint={"digest": MADE_UP, "model": MADE_UP},
        chunker_version=MADE_UP,
        parameters=parameters,
        build_memory_mb=build_memory_mb,
        build_workers=build_workers,
    )
    return frame["chunk_id"].to_numpy(), report


def made_up_chunks(label: str, rows: int) -> pl.DataFrame:
    """A chunk frame of that many rows, the same for the same label."""
    hashes = [hashlib.sha256(f"{label}/{row}".encode()).digest() for row in range(rows)]
    number = pl.int_range(rows, dtype=pl.Int64, eager=True)
    return pl.DataFrame({"chunk_hash": pl.Series(hashes, dtype=pl.Binary), "ordinal": number}).select(
        pl.Series("chunk_id", [int.from_bytes(h[:8], "big") >> 1 for h in hashes], dtype=pl.Int64),
        "chunk_hash",
        pl.lit(f"doc:{label}").alias("document_id"),
        pl.lit(MADE_UP).alias("document_version"),
        "ordinal",
        pl.col("ordinal").alias("char_start"),
        (pl.col("ordinal") + 1).alias("char_end"),
        pl.col("ordinal").alias("page_first"),
        pl.col("ordinal").alias("page_last"),
        pl.lit(True).alias("pages_real"),
        pl.lit("").alias("section_path"),
        pl.col("ordinal").alias("token_count"),
        pl.lit(MADE_UP).alias("text"),
    )


def _drop(base: Database, db: Database) -> None:
    with base.admin(autocommit=True, dbname="postgres") as connection:
        for name in (db.name, db.dagster_name):
            connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
