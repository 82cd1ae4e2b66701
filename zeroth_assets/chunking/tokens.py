"""Tokens of a text with their places in it.

What belongs here: the interface that a chunker asks of a tokenizer, the wrapper that gives it over a fast tokenizer
of the `tokenizers` library, and the arithmetic of window size and overlap. No model, no cutting.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding
from tokenizers import Tokenizer as Backend

from zeroth_assets.errors import ChunkingError

IntArray = NDArray[np.int64]

_SURROGATE = re.compile("[\ud800-\udfff]")


@runtime_checkable
class Tokenizer(Protocol):
    """What a chunker needs to know of a tokenizer."""

    @property
    def identity(self) -> str:
        """A short name that changes when the tokenizer would tokenise differently."""

    @property
    def special_tokens(self) -> int:
        """How many tokens the encoder adds around a text (BERT: 2)."""

    def starts(self, text: str) -> IntArray:
        """Where each content token of `text` starts, in characters, never decreasing. No special tokens."""

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens that the encoder reads for each text, special tokens included."""


@dataclass(frozen=True, slots=True)
class FastTokenizer:
    """A fast tokenizer, with truncation and padding off: nothing that it is given goes missing."""

    backend: Backend
    identity: str
    special_tokens: int

    @classmethod
    def from_file(cls, path: Path) -> FastTokenizer:
        """Read a `tokenizer.json`.

        Raises:
            ChunkingError: the file is not there, or is no tokenizer.
        """
        try:
            payload = path.read_bytes()
            backend = Backend.from_buffer(payload)
        except Exception as error:  # the library raises bare Exception for a file that it cannot parse
            raise ChunkingError(
                f"The tokenizer {path} cannot be read",
                expected="a tokenizer.json of a fast tokenizer",
                found=str(error) or type(error).__name__,
                remedy="use a model folder that holds one; transformers' save_pretrained writes it",
            ) from error
        backend.no_truncation()
        backend.no_padding()
        return cls(
            backend=backend,
            identity=hashlib.sha256(payload).hexdigest()[:16],
            special_tokens=backend.num_special_tokens_to_add(is_pair=False),
        )

    def starts(self, text: str) -> IntArray:
        """Where each content token of `text` starts, in characters, never decreasing."""
        encoding = self.backend.encode(_encodable(text), add_special_tokens=False)
        flat = itertools.chain.from_iterable(encoding.offsets)
        offsets = np.fromiter(flat, dtype=np.int64, count=2 * len(encoding))
        return np.maximum.accumulate(offsets[0::2]) if len(offsets) else offsets

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens that the encoder reads for each text, special tokens included."""
        return [len(encoding) for encoding in self.encode(texts)]

    def count(self, text: str) -> int:
        """Tokens that the encoder reads for `text`, special tokens included."""
        return self.counts([text])[0]

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """The texts as the encoder reads them: ids with special tokens, neither truncated nor padded."""
        return list(self.backend.encode_batch_fast([_encodable(text) for text in texts], add_special_tokens=True))


def overlap_tokens(size: int, special: int, share: float = 0.15) -> int:
    """Overlap of neighbouring windows in content tokens: floor(share x (size - special)).

    >>> overlap_tokens(512, 2)
    76
    """
    return math.floor(share * (size - special))


def _encodable(text: str) -> str:
    """`text` with lone surrogates, which have no UTF-8 form, replaced one for one: places stay what they are."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)
