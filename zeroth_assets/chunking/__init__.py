"""Chunking: tokenisation, fixed windows, section-aware packing."""
