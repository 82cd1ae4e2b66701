"""Chunking: tokenisation, fixed windows, section-aware packing."""

from __future__ import annotations

from zeroth_assets.chunking.chunkers import ChunkReport, chunk_documents, chunk_fixed, chunk_section_aware
from zeroth_assets.chunking.measure import CHUNK_MEASURES, measure_chunks
from zeroth_assets.chunking.model import (
    CHUNK_SCHEMA,
    CHUNKER_VERSION,
    Chunk,
    check_ids,
    chunks_from_frame,
    chunks_to_frame,
)
from zeroth_assets.chunking.tokens import FastTokenizer, Tokenizer, overlap_tokens

__all__ = [
    "CHUNKER_VERSION",
    "CHUNK_MEASURES",
    "CHUNK_SCHEMA",
    "Chunk",
    "ChunkReport",
    "FastTokenizer",
    "Tokenizer",
    "check_ids",
    "chunk_documents",
    "chunk_fixed",
    "chunk_section_aware",
    "chunks_from_frame",
    "chunks_to_frame",
    "measure_chunks",
    "overlap_tokens",
]
