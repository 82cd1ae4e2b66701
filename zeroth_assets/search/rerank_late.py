"""Late interaction with the packaged encoder: a reranker for where no cross-encoder can be had.

What belongs here: MaxSim (Khattab and Zaharia 2020) over token vectors that are computed for the shortlist and stored
nowhere. The encoder was trained to give one vector for a text, not to have its tokens compared, so what this gains has
to be measured on the corpus at hand; it is no ColBERT.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zeroth_assets.embedding.encoder import Encoder
from zeroth_assets.embedding.engines import FloatArray
from zeroth_assets.embedding.token_vectors import token_vectors
from zeroth_assets.errors import QueryError
from zeroth_assets.search.passages import Passage
from zeroth_assets.search.rerank import Deadline, RerankResult

MAX_SHORTLIST = 20


def max_sim(query: FloatArray, passage: FloatArray) -> float:
    """Mean over the query's tokens of the largest cosine to a token of the passage; unit rows, -1 to 1.

    The mean instead of ColBERT's sum, so that scores of short and long queries can share a threshold.

    >>> round(max_sim(np.eye(2, dtype=np.float32), np.array([[1, 0]], dtype=np.float32)), 3)
    0.5
    """
    if not len(query) or not len(passage):
        return 0.0
    return float(np.mean(np.max(query @ passage.T, axis=1), dtype=np.float64))


class LateInteraction:
    """Scores by `max_sim`."""

    def __init__(self, encoder: Encoder, shortlist: int = MAX_SHORTLIST, batch: int = 4) -> None:
        if not 1 <= shortlist <= MAX_SHORTLIST:
            raise QueryError(
                "The shortlist of the late interaction is impossible",
                expected=f"1 to {MAX_SHORTLIST} passages, since their token vectors are computed for each query",
                found=str(shortlist),
            )
        self._encoder = encoder
        self._shortlist = shortlist
        self._batch = batch

    @property
    def identity(self) -> str:
        """The encoder's fingerprint, and what is done with it."""
        return f"maxsim-mean/1 {self._encoder.fingerprint.digest}"

    @property
    def shortlist(self) -> int:
        """Passages at most."""
        return self._shortlist

    def load(self) -> None:
        """Load the engine now, so that the first query's budget does not pay for it."""
        self._encoder.loaded()

    def rerank(self, query: str, passages: Sequence[Passage], budget_seconds: float) -> RerankResult:
        """Raises: RerankError: the time was up between two batches."""
        deadline = Deadline(budget_seconds)
        asked = token_vectors(self._encoder, [self._encoder.query_prefix + query], batch=1, before_batch=deadline.check)
        found = token_vectors(self._encoder, [p.text for p in passages], batch=self._batch, before_batch=deadline.check)
        scores = tuple(max_sim(asked.vectors[0], vectors) for vectors in found.vectors)
        return RerankResult(scores, asked.truncated + found.truncated)
