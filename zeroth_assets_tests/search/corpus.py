"""Three small tenants with text that makes sense, in a database and as postings, for the tests of searching."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zeroth_assets.artefacts import ArtefactStore, Sidecar
from zeroth_assets.search.analyser import ANALYSERS
from zeroth_assets.search.postings_build import build_postings
from zeroth_assets.search.postings_file import postings_to_bytes
from zeroth_assets.search.shelf import artefact_name
from zeroth_assets.store.connect import Database
from zeroth_assets.store.load import load_tenant
from zeroth_assets.store.migrate import migrate
from zeroth_assets.store.registry import ensure_chunk_set, list_tenants
from zeroth_assets_tests.store.builders import make_chunks

CHUNK_SET = "fixed_512"
DIMENSION = 16
FINGERPRINT = {"digest": "print-1", "model": "hashed words"}

DOCUMENTS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "rfc-quic": {
        "rfc:1": (
            "An endpoint closes the connection when the idle timeout passes without a packet.",
            "The idle timeout is negotiated by transport parameters during the handshake.",
            "A server may send a stateless reset when it has lost the state of a connection.",
        ),
        "rfc:2": (
            "The idle timeout of a connection is advertised in milliseconds; zero disables it.",
            "Error ERR-4012 says that a stream was opened beyond its limit.",
            "Packet numbers are encoded in one to four bytes.",
        ),
    },
    "cuad-licence": {
        "cuad:a": (
            "The licensee shall pay a royalty of five percent within thirty days of each quarter.",
            "Either party may terminate this agreement for material breach on sixty days notice.",
            "The governing law is that of the State of Delaware; see Section 14.2.",
        ),
    },
    "sec-acme": {
        "sec:acme": (
            "Revenue grew by nine percent; the idle capacity of two plants was written down.",
            "The company depends on one supplier for glass, whose termination would harm it.",
        ),
    },
}


def chunks_of(tenant: str, documents: Mapping[str, Sequence[str]] | None = None) -> pl.DataFrame:
    """The tenant's chunks, the texts of each document one after another."""
    frames = []
    for document, texts in (DOCUMENTS[tenant] if documents is None else documents).items():
        ends = np.cumsum([len(text) + 1 for text in texts]).tolist()
        frames.append(
            make_chunks(range(len(texts)), document=document).with_columns(
                pl.Series("text", list(texts), dtype=pl.String),
                pl.Series("char_end", [end - 1 for end in ends], dtype=pl.Int64),
                pl.Series("char_start", [0, *ends[:-1]][: len(texts)], dtype=pl.Int64),
            )
        )
    return pl.concat(frames)


def hashed(texts: Sequence[str]) -> NDArray[np.float32]:
    """Unit vectors that are alike where texts share words: feature hashing, no model."""
    vectors = np.full((len(texts), DIMENSION), 1e-3, dtype=np.float32)
    for row, text in enumerate(texts):
        for word in text.lower().split():
            vectors[row, hashlib.sha256(word.encode(errors="replace")).digest()[0] % DIMENSION] += 1
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def put(db: Database, tenant: str, chunks: pl.DataFrame, **more: Any) -> None:
    """Load the tenant's rows."""
    arguments: dict[str, Any] = {
        "chunk_set": CHUNK_SET,
        "tenant_key": tenant,
        "chunks": chunks,
        "vectors": hashed(chunks["text"].to_list()),
        "fingerprint": FINGERPRINT,
        "chunker_version": "1",
    }
    load_tenant(db, **{**arguments, **more})


def post(store: ArtefactStore, tenant: str, chunks: pl.DataFrame, *, owner: str | None = None) -> Sidecar:
    """Publish the tenant's postings; with `owner`, those of another under its name."""
    postings = build_postings(
        chunks["chunk_id"].to_list(),
        chunks["text"].to_list(),
        tenant=owner or tenant,
        chunk_set=CHUNK_SET,
        analyser=ANALYSERS["compound"],
    )
    return store.write_bytes(
        postings_to_bytes(postings),
        ".bm25",
        artefact_name(CHUNK_SET),
        tenant,
        describes="postings",
        code_version="1",
        code="test",
        rows=postings.size,
    )


def filled(db: Database, folder: Path) -> ArtefactStore:
    """A migrated database with all three tenants, and their postings in the store that is returned."""
    migrate(db)
    ensure_chunk_set(db, CHUNK_SET, DIMENSION)
    store = ArtefactStore(folder)
    for tenant in DOCUMENTS:
        chunks = chunks_of(tenant)
        put(db, tenant, chunks)
        post(store, tenant, chunks)
    return store


def tenant_ids(db: Database) -> dict[str, int]:
    return {tenant.tenant_key: tenant.tenant_id for tenant in list_tenants(db)}


def text_of(chunk_id: int) -> str:
    """The text of a chunk of `DOCUMENTS`."""
    for tenant in DOCUMENTS:
        for row in chunks_of(tenant).iter_rows(named=True):
            if row["chunk_id"] == chunk_id:
                return str(row["text"])
    raise KeyError(chunk_id)
