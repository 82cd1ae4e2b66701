"""A vector for each token of a text, for late interaction.

What belongs here: what comes of a model before pooling, as unit vectors, with the special tokens left out. Unlike
vectors of chunks, these are never stored; a text that is too long is cut, and the cut is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from zeroth_assets.embedding.encoder import Encoder, make_batches, pad_id_of
from zeroth_assets.embedding.engines import FloatArray, TokenEngine
from zeroth_assets.errors import EmbeddingError


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """For each text, float32 (its tokens, dimension), unit rows; `truncated` texts lost their ends."""

    vectors: tuple[FloatArray, ...]
    truncated: int


def token_vectors(
    encoder: Encoder,
    texts: Sequence[str],
    *,
    batch: int = 4,
    before_batch: Callable[[], None] | None = None,
) -> TokenVectors:
    """Unit vectors of the tokens of each text. `before_batch` is called before each, and may raise to stop.

    Raises:
        EmbeddingError: the encoder's engine gives pooled vectors alone.
    """
    engine = encoder.loaded()
    if not isinstance(engine, TokenEngine):
        raise EmbeddingError(
            f"The engine {engine.name} gives no vectors of tokens",
            expected="an engine with `states`",
            found=type(engine).__name__,
            remedy="set ZEROTH_ENGINE to torch or openvino",
        )
    encodings = encoder.tokenizer.encode(texts)
    truncated = sum(len(encoding) > encoder.max_tokens for encoding in encodings)
    for encoding in encodings:
        # The separator at the end goes with the rest; models read a text without it well enough to rank it.
        encoding.truncate(encoder.max_tokens)
    batches = make_batches(encodings, batch, encoder.max_tokens, pad_id_of(encoder.tokenizer))
    vectors: list[FloatArray] = [np.zeros((0, encoder.dimension), dtype=np.float32)] * len(texts)
    for one in batches:
        if before_batch is not None:
            before_batch()
        for own, states in engine.states([one]):
            for line, row in enumerate(own.rows):
                content = np.flatnonzero(np.array(encodings[row].special_tokens_mask) == 0)
                vectors[row] = _unit(states[line, content])
    return TokenVectors(tuple(vectors), truncated)


def _unit(vectors: FloatArray) -> FloatArray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, 1e-12), dtype=np.float32)
