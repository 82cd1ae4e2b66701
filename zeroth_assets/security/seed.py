"""A small database with a sentence of each tenant's own in its chunks, for a suite that may break things.

What belongs here: throw-away databases and servers. Nothing here is ever run against a database that was there before.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from psycopg import sql

from zeroth_assets.security.ground import Ground, survey
from zeroth_assets.store import acl, server
from zeroth_assets.store.claim_keys import rotate_claim_key
from zeroth_assets.store.claims import ClaimKey, keep_key, read_key
from zeroth_assets.store.connect import Database, embedded_database
from zeroth_assets.store.load import load_tenant
from zeroth_assets.store.migrate import migrate
from zeroth_assets.store.registry import IndexParameters, ensure_chunk_set
from zeroth_assets.store.shared import load_shared

CHUNK_SET = "fixed_512"
DIMENSION = 8
# No two of them share a word, and none is a word of the filling sentences.
WORDS = {"sec-alder": "quorvantic", "sec-birch": "zelmurian", "sec-cedar": "obrixatel"}
_SIZES = {"sec-alder": 12, "sec-birch": 60, "sec-cedar": 7}


@dataclass(frozen=True, slots=True)
class Seeded:
    """A seeded database, the sentences by tenant key, and a key that it accepts no longer."""

    db: Database
    canaries: Mapping[str, Sequence[str]]
    retired: ClaimKey

    def ground(self, db: Database | None = None) -> Ground:
        """What the probes stand on, here or in a copy."""
        return survey(db or self.db, canaries=self.canaries, retired=self.retired, throwaway=True)


def canaries_of(tenant_key: str) -> tuple[str, ...]:
    """What stands in a tenant's chunks and nowhere else: a word, and a number that looks like one."""
    digits = str(int(hashlib.sha256(tenant_key.encode()).hexdigest()[:12], 16))
    return WORDS[tenant_key], digits


def chunks_of(tenant_key: str) -> tuple[pl.DataFrame, NDArray[np.float32]]:
    """Chunks and unit vectors of a tenant, the same at every call."""
    count = _SIZES[tenant_key]
    word, digits = canaries_of(tenant_key)
    hashes = [hashlib.sha256(f"{tenant_key}/{n}".encode()).digest() for n in range(count)]
    frame = pl.DataFrame(
        {
            "chunk_id": [int.from_bytes(h[:8], "big") >> 1 for h in hashes],
            "chunk_hash": hashes,
            "document_id": [f"doc-{word}"] * count,
            "document_version": [f"v-{digits}"] * count,
            "ordinal": range(count),
            "char_start": [10 * n for n in range(count)],
            "char_end": [10 * n + 9 for n in range(count)],
            "page_first": [1] * count,
            "page_last": [2] * count,
            "pages_real": [True] * count,
            "section_path": [f"Section {word}"] * count,
            "token_count": [12] * count,
            "text": [f"The {word} clause number {n} names {digits}." for n in range(count)],
        },
        schema_overrides=dict.fromkeys(("ordinal", "char_start", "char_end", "page_first", "page_last"), pl.Int64),
    ).with_columns(pl.col("token_count").cast(pl.Int64))
    rng = np.random.default_rng(int(digits) % 2**32)
    # Tenants lie in corners of their own, so that a query can be aimed at one of them.
    centre = np.zeros(DIMENSION)
    centre[list(WORDS).index(tenant_key)] = 3.0
    vectors = (rng.standard_normal((count, DIMENSION)) + centre).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return frame, vectors


def seed(db: Database) -> Seeded:
    """Migrate and fill an empty database: three tenants, the shared table, principals, a key that was retired."""
    migrate(db)
    ensure_chunk_set(db, CHUNK_SET, DIMENSION)
    former = read_key(db.home, db.name)
    for key in WORDS:
        chunks, vectors = chunks_of(key)
        load_tenant(
            db,
            chunk_set=CHUNK_SET,
            tenant_key=key,
            chunks=chunks,
            vectors=vectors,
            fingerprint={"digest": "print-1", "model": "none"},
            chunker_version="1",
        )
    load_shared(db, CHUNK_SET, parameters=IndexParameters())
    with db.loader() as loader:
        loader.execute("select zeroth.index_shared_tenant(1, 2, 16, 64)")
    acl.grant(db, "revoked", ["sec-cedar"])
    acl.revoke(db, "revoked")
    rotate_claim_key(db, overlap=0)
    assert former is not None  # migrating makes one
    return Seeded(db, {key: canaries_of(key) for key in WORDS}, former)


@contextlib.contextmanager
def copy_of(seeded: Seeded, name: str) -> Iterator[Database]:
    """A copy of a seeded database under another name, which is dropped afterwards. Nobody may be connected to it."""
    copy = seeded.db.named(name)
    with seeded.db.admin(autocommit=True, dbname="postgres") as admin:
        admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
        admin.execute(
            sql.SQL("create database {} owner zeroth_owner template {}").format(
                sql.Identifier(name), sql.Identifier(seeded.db.name)
            )
        )
        # Privileges on the database itself are no part of what is copied.
        admin.execute(sql.SQL("revoke all on database {} from public").format(sql.Identifier(name)))
        admin.execute(sql.SQL("grant connect on database {} to zeroth_app, zeroth_loader").format(sql.Identifier(name)))
        admin.execute(sql.SQL("grant temporary on database {} to zeroth_loader").format(sql.Identifier(name)))
    key = read_key(copy.home, seeded.db.name)
    assert key is not None  # it was seeded
    with server.home_lock(copy.home):
        keep_key(copy.home, name, key)  # the copy knows it already
    try:
        yield copy
    finally:
        with seeded.db.admin(autocommit=True, dbname="postgres") as admin:
            admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


@contextlib.contextmanager
def throwaway_server() -> Iterator[Database]:
    """A server of its own in a temporary home, with an empty data database; gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="zeroth-security-"))
    if os.geteuid() == 0:  # the server's own user passes through
        home.chmod(0o711)
    try:
        db = embedded_database(home)
        with db.admin(autocommit=True, dbname="postgres") as admin:
            for name in ("fsync", "full_page_writes", "synchronous_commit"):
                admin.execute(sql.SQL("alter system set {} = off").format(sql.Identifier(name)))
            admin.execute("select pg_reload_conf()")
        db.ensure_databases()
        yield db
    finally:
        server.destroy(home)
        shutil.rmtree(home, ignore_errors=True)
