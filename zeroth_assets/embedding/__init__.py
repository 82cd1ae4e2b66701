"""Embedding: encoder engines, fingerprint, memo, verification."""
