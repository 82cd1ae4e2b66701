"""An encoder without a model: a text's vector follows from its hash."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zeroth_assets.embedding import Fingerprint
from zeroth_assets.embedding.engines import FloatArray
from zeroth_assets.embedding.memo import text_sha256


class StubEncoder:
    dimension = 8

    def __init__(self, model: str = "stub") -> None:
        self.fingerprint = Fingerprint(model, "0", "0" * 64, "mean", "fp32", 512, True, "torch")
        self.calls: list[int] = []

    def encode(self, texts: Sequence[str], *, batch: int) -> FloatArray:
        self.calls.append(len(texts))
        return np.stack([vector_of(text) for text in texts])


def vector_of(text: str) -> FloatArray:
    raw = np.frombuffer(text_sha256(text)[:8], dtype=np.uint8).astype(np.float32) + 1
    return np.asarray(raw / np.linalg.norm(raw), dtype=np.float32)
