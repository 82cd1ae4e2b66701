"""The encoder: texts in, unit vectors out, nothing truncated.

What belongs here: putting model, engine and tokenizer together, batching, and the refusal of what does not fit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from tokenizers import Encoding

from zeroth_assets.chunking.tokens import FastTokenizer
from zeroth_assets.embedding.choice import Choice, EngineName, PrecisionName, choose, make_engine
from zeroth_assets.embedding.engines import DEFAULT_BATCH, Batch, Engine, FloatArray
from zeroth_assets.embedding.fingerprint import Fingerprint
from zeroth_assets.embedding.hub import from_hub
from zeroth_assets.embedding.models import Fetch, ModelFiles, Pooling, find_model
from zeroth_assets.errors import EmbeddingError

Progress = Callable[[int, int], None]

# Largest absolute difference of a component of a unit vector between two batchings of the same texts, as measured
# (README of benchmarks/embedding) with a margin; tests hold the encoder to it.
TOLERANCE: dict[str, float] = {"fp32": 1e-5, "bf16": 4e-3}

_PAD_TO = 16
_LARGEST_BATCH = 64


class Encoder:
    """A model on an engine. The engine is loaded when the first text comes."""

    def __init__(self, files: ModelFiles, choice: Choice, max_tokens: int, load: Callable[[], Engine]) -> None:
        self.files = files
        self.choice = choice
        self.max_tokens = max_tokens
        self.tokenizer: FastTokenizer = files.tokenizer()
        self.dimension = files.dimension
        self.query_prefix = files.query_prefix
        self.fingerprint = Fingerprint(
            model=files.name,
            revision=files.revision,
            weights_sha256=files.weights_sha256,
            pooling=files.pooling,
            precision=choice.precision,
            max_tokens=max_tokens,
            normalised=True,
            engine=choice.engine,
        )
        self._load = load
        self._engine: Engine | None = None
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str], progress: Progress | None = None, batch: int = DEFAULT_BATCH) -> FloatArray:
        """Unit vectors, float32 (len(texts), dimension), in the order of the texts.

        `batch` is the number of texts of full length that go through the model at once; shorter ones go in larger
        batches of as many tokens.

        Raises:
            EmbeddingError: a text has more tokens than `max_tokens`; nothing is ever cut off.
        """
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        encodings = self.tokenizer.encode(texts)
        self._refuse_too_long(encodings)
        return run_engine(
            self.loaded(), encodings, self.dimension, batch, self.max_tokens, progress, pad_id_of(self.tokenizer)
        )

    def encode_queries(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        """As `encode`, for queries: with the prefix that the model was trained to see before them.

        Raises:
            EmbeddingError: a query with its prefix has more tokens than `max_tokens`.
        """
        return self.encode([self.query_prefix + text for text in texts], progress)

    def loaded(self) -> Engine:
        """The engine, loaded now if no text has come yet."""
        with self._lock:
            if self._engine is None:
                self._engine = self._load()
            return self._engine

    def _refuse_too_long(self, encodings: Sequence[Encoding]) -> None:
        too_long = [(index, len(e)) for index, e in enumerate(encodings) if len(e) > self.max_tokens]
        if too_long:
            index, tokens = too_long[0]
            raise EmbeddingError(
                f"{len(too_long)} of {len(encodings)} texts are too long for the encoder",
                expected=f"at most {self.max_tokens} tokens, special tokens included",
                found=f"{tokens} tokens in text {index}",
                remedy="cut the text into smaller pieces; nothing is truncated",
            )


def load_encoder(
    model: str = "all-MiniLM-L6-v2",
    revision: str | None = None,
    pooling: Pooling | None = None,
    max_tokens: int = 512,
    engine: EngineName = "auto",
    precision: PrecisionName = "auto",
    threads: int | None = None,
    cache_dir: Path | None = None,
    fetch: Fetch = from_hub,
) -> Encoder:
    """Find the model, choose the engine, and give an encoder that is cheap until it is used.

    `cache_dir` keeps the choice of engine and the converted model: with it, only the first load on a machine takes
    seconds. Without it, `auto` compares engines in each process.

    Raises:
        EmbeddingError: see `find_model` and `choose`; or the model has fewer positions than `max_tokens`.
    """
    files = find_model(model, revision, pooling, fetch=fetch)
    tokenizer = files.tokenizer()
    if not tokenizer.special_tokens < max_tokens <= files.max_positions:
        raise EmbeddingError(
            f"The model {files.name} cannot read {max_tokens} tokens",
            expected=f"more than {tokenizer.special_tokens} and at most {files.max_positions}",
            found=str(max_tokens),
            remedy="set ZEROTH_MAX_TOKENS within these bounds, or choose another model",
        )

    def run(candidate: Engine, texts: Sequence[str]) -> FloatArray:
        kept = [e for e in tokenizer.encode(texts) if len(e) <= max_tokens]
        return run_engine(candidate, kept, files.dimension, DEFAULT_BATCH, max_tokens, None, pad_id_of(tokenizer))

    choice = choose(files, engine, precision, threads, cache_dir, run)
    return Encoder(files, choice, max_tokens, lambda: make_engine(files, choice, threads, cache_dir))


def run_engine(
    engine: Engine,
    encodings: Sequence[Encoding],
    dimension: int,
    batch: int,
    max_tokens: int,
    progress: Progress | None,
    pad_id: int,
) -> FloatArray:
    """Sort by length, batch, run, normalise, put back in order."""
    vectors = np.zeros((len(encodings), dimension), dtype=np.float32)
    done = 0
    for own, pooled in engine.run(make_batches(encodings, batch, max_tokens, pad_id)):
        norms = np.linalg.norm(pooled.astype(np.float64), axis=1, keepdims=True)
        if not np.all(np.isfinite(norms)) or not np.all(norms > 0):
            raise EmbeddingError(
                f"The engine {engine.name} {engine.precision} gave a vector that cannot be normalised",
                expected="finite vectors other than zero",
                found="NaN, infinity or a zero vector",
                remedy="set ZEROTH_PRECISION to fp32, or ZEROTH_ENGINE to torch",
            )
        vectors[list(own.rows)] = pooled / norms
        done += len(own.rows)
        if progress is not None:
            progress(done, len(encodings))
    return vectors


def make_batches(encodings: Sequence[Encoding], batch: int, max_tokens: int, pad_id: int) -> list[Batch]:
    """Batches of at most `batch * max_tokens` tokens with padding, and at most `max(64, batch)` texts, longest first.

    Lengths are padded to multiples of 16, which keeps the number of shapes small that an engine prepares for.
    """
    order = sorted(range(len(encodings)), key=lambda index: -len(encodings[index]))
    batches: list[Batch] = []
    at = 0
    while at < len(order):
        length = min(max_tokens, -(-len(encodings[order[at]]) // _PAD_TO) * _PAD_TO)
        room = 1 if batch == 1 else max(1, min(batch * max_tokens // length, max(_LARGEST_BATCH, batch)))
        rows = tuple(order[at : at + room])
        ids = np.full((len(rows), length), pad_id, dtype=np.int64)
        mask = np.zeros_like(ids)
        for line, index in enumerate(rows):
            own = encodings[index].ids
            ids[line, : len(own)] = own
            mask[line, : len(own)] = 1
        batches.append(Batch(rows, ids, mask))
        at += room
    return batches


def pad_id_of(tokenizer: FastTokenizer) -> int:
    """The id that stands for padding; masked, so that any would do where a tokenizer names none."""
    for token in ("[PAD]", "<pad>"):
        found = tokenizer.backend.token_to_id(token)
        if found is not None:
            return found
    return 0
