"""Vectors of tokens: what pooling would have pooled, for whichever engine the machine has."""

from __future__ import annotations

import numpy as np
import pytest

from zeroth_assets.embedding import TOLERANCE, Encoder
from zeroth_assets.embedding.encoder import make_batches, pad_id_of
from zeroth_assets.embedding.engines import TokenEngine, pool
from zeroth_assets.embedding.token_vectors import token_vectors
from zeroth_assets.errors import EmbeddingError

TEXTS = ["The idle timeout closes a connection.", "A royalty of five percent.", "Glass."]


def test_the_states_of_an_engine_pool_to_the_vectors_that_it_gives(encoder: Encoder) -> None:
    engine = encoder.loaded()
    assert isinstance(engine, TokenEngine)
    expected = encoder.encode(TEXTS)
    for batch, states in engine.states(
        make_batches(encoder.tokenizer.encode(TEXTS), 1, encoder.max_tokens, pad_id_of(encoder.tokenizer))
    ):
        pooled = pool(states, batch.mask, encoder.files.pooling)
        pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
        assert pooled == pytest.approx(expected[list(batch.rows)], abs=TOLERANCE[encoder.choice.precision])


def test_each_batch_keeps_its_own_vectors(encoder: Encoder) -> None:
    together, alone = token_vectors(encoder, TEXTS), token_vectors(encoder, TEXTS, batch=1)
    for one, other in zip(together.vectors, alone.vectors, strict=True):
        assert one == pytest.approx(other, abs=5 * TOLERANCE[encoder.choice.precision])
    assert [v.shape[1] for v in together.vectors] == [encoder.dimension] * 3


def test_an_engine_without_states_is_named() -> None:
    class Pooling:
        name, precision = "pooling", "fp32"

    class Bare:
        def loaded(self) -> Pooling:
            return Pooling()

    with pytest.raises(EmbeddingError, match="no vectors of tokens"):
        token_vectors(Bare(), TEXTS)  # type: ignore[arg-type]
