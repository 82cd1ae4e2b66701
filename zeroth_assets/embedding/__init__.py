"""Embedding: encoder engines, fingerprint, memo, verification."""

from __future__ import annotations

from zeroth_assets.embedding.encoder import TOLERANCE, Encoder, load_encoder
from zeroth_assets.embedding.engines import DEFAULT_BATCH
from zeroth_assets.embedding.fingerprint import Fingerprint
from zeroth_assets.embedding.memo import EmbedReport, Memo, embed_with_memo
from zeroth_assets.embedding.models import ModelFiles, find_model
from zeroth_assets.embedding.verify import VectorChecks, vector_checks, verify_vectors

__all__ = [
    "DEFAULT_BATCH",
    "TOLERANCE",
    "EmbedReport",
    "Encoder",
    "Fingerprint",
    "Memo",
    "ModelFiles",
    "VectorChecks",
    "embed_with_memo",
    "find_model",
    "load_encoder",
    "vector_checks",
    "verify_vectors",
]
