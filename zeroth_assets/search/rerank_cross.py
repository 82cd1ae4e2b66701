"""A cross-encoder, which reads query and passage together.

What belongs here: loading one by sentence-transformers at a pinned revision, counting what its input length cuts off,
and scoring in batches that a deadline can end. torch is imported when the model is, since that takes seconds.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from zeroth_assets.embedding.hub import from_hub
from zeroth_assets.errors import EmbeddingError
from zeroth_assets.search.passages import Passage
from zeroth_assets.search.rerank import Deadline, RerankResult

DEFAULT_MODEL = "BAAI/bge-reranker-base"
DEFAULT_REVISION = "2cfc18c9415c912f9d8155881c133215df768a70"
_COMMIT = re.compile(r"[0-9a-f]{40}")


class CrossEncoderReranker:
    """Scores by a model of transformers' sequence classification kind with one output, read from local safetensors."""

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        revision: str | None = None,
        *,
        shortlist: int = 50,
        max_tokens: int = 512,
        batch: int = 8,
        precision: Literal["fp32", "bf16"] = "fp32",
        device: str | None = None,
        fetch: Callable[[str, str], Path] = from_hub,
    ) -> None:
        """Find the model; it is loaded when the first query comes.

        Raises:
            EmbeddingError: a hub id without a commit, a model that cannot be fetched, or a folder without weights.
        """
        folder = Path(model).expanduser()
        if folder.is_dir():
            self._folder, self._model = folder.resolve(), folder.name
            self._revision = revision or "local"
        else:
            self._revision = _pinned(model, revision or (DEFAULT_REVISION if model == DEFAULT_MODEL else None))
            self._folder, self._model = fetch(model, self._revision), model
        self._weights = _weights_sha256(self._folder, model)
        self._shortlist, self._max_tokens, self._batch = shortlist, max_tokens, batch
        self._precision, self._device = precision, device
        self._loaded: Any = None
        self._lock = threading.Lock()

    @property
    def identity(self) -> str:
        """Model, revision, weights, input length and precision."""
        return f"cross-encoder {self._model}@{self._revision} {self._weights} {self._max_tokens} {self._precision}"

    @property
    def shortlist(self) -> int:
        """Passages at most."""
        return self._shortlist

    def rerank(self, query: str, passages: Sequence[Passage], budget_seconds: float) -> RerankResult:
        """Scores as the model gives them: for one output, its sigmoid.

        Raises:
            RerankError: the time was up between two batches.
            EmbeddingError: the model cannot be loaded.
        """
        deadline = Deadline(budget_seconds)
        model = self._model_loaded()
        pairs = [(query, passage.text) for passage in passages]
        lengths = [len(ids) for ids in model.tokenizer(pairs, truncation=False, verbose=False)["input_ids"]]
        # Pairs of about one length together: less padding, the same scores.
        by_length = sorted(range(len(pairs)), key=lambda place: -lengths[place])
        scores = [0.0] * len(pairs)
        for first in range(0, len(by_length), self._batch):
            deadline.check()
            places = by_length[first : first + self._batch]
            with self._lock:
                given = model.predict(
                    [pairs[place] for place in places], batch_size=self._batch, show_progress_bar=False
                )
            for place, score in zip(places, given, strict=True):
                scores[place] = float(score)
        return RerankResult(tuple(scores), sum(length > self._max_tokens for length in lengths))

    def load(self) -> None:
        """Load the model now, so that the first query does not pay for it."""
        self._model_loaded()

    def _model_loaded(self) -> Any:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> Any:
        import torch
        from sentence_transformers import CrossEncoder

        try:
            model = CrossEncoder(
                str(self._folder),
                max_length=self._max_tokens,
                device=self._device,
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={
                    "use_safetensors": True,
                    "dtype": torch.bfloat16 if self._precision == "bf16" else torch.float32,
                },
            )
        except Exception as error:  # transformers raises OSError, ValueError, KeyError and more for unfit folders
            raise EmbeddingError(
                f"The cross-encoder {self._model} cannot be loaded",
                expected="a sequence classification model that transformers knows, without code of its own",
                found=type(error).__name__,
                remedy="choose another model or revision",
            ) from error
        if model.config.num_labels != 1:
            raise EmbeddingError(
                f"The model {self._model} is no reranker",
                expected="one output",
                found=f"{model.config.num_labels} outputs",
                remedy="choose a cross-encoder that was trained to rank",
            )
        return model


def _pinned(model: str, revision: str | None) -> str:
    if revision is None or not _COMMIT.fullmatch(revision):
        raise EmbeddingError(
            f"The reranker {model} is not pinned",
            expected="a revision of 40 hexadecimal digits; a branch can change under a threshold",
            found=repr(revision),
            remedy="name the commit of the model's repository",
        )
    return revision


def _weights_sha256(folder: Path, model: str) -> str:
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise EmbeddingError(
            f"The reranker {model} has no weights that can be used",
            expected="model.safetensors (pickled weights can run code when they are loaded, and are not read)",
            found="none",
            remedy="use a revision with safetensors, or convert the weights",
        )
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as handle:
            digest.update(hashlib.file_digest(handle, "sha256").digest())
    return digest.hexdigest()
