"""The arms of a retriever, asked side by side.

What belongs here: embedding the query and searching by vector in one thread, by words in another, and dropping what
only one of the two indexes has. Fusing and all that follows are the retriever's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from zeroth_assets.errors import EmbeddingError, QueryError
from zeroth_assets.search.fulltext import FullTextRetriever
from zeroth_assets.search.lexical import LexicalResult, LexicalRetriever, NoTermsError
from zeroth_assets.search.model import StageResult, counted
from zeroth_assets.search.retriever_model import QueryEncoder, RetrieverConfig

_CALLERS = 8


class DenseSearch(Protocol):
    """The dense arm; `dense.DenseRetriever` is it."""

    def search(self, principal: str, vector: NDArray[np.float32], k: int) -> StageResult:
        """The k nearest chunks that the principal may see."""

    def close(self) -> None:
        """Close what is kept open."""


class Clock:
    """Seconds per stage of one query, and in all."""

    def __init__(self) -> None:
        self._began = self._last = time.perf_counter()
        self._seconds: dict[str, float] = {}

    def start(self) -> None:
        """The next lap begins now."""
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        """The time since the last lap was the stage's."""
        now = time.perf_counter()
        self.note(stage, now - self._last)
        self._last = now

    def note(self, stage: str, seconds: float) -> None:
        """A stage took so long, whoever measured it."""
        self._seconds[stage] = self._seconds.get(stage, 0.0) + seconds

    def seconds(self) -> dict[str, float]:
        """By stage, and `total`."""
        return {**self._seconds, "total": time.perf_counter() - self._began}


@dataclass(frozen=True, slots=True)
class Found:
    """The arms' candidates in the order of the configuration. `dropped` counts those that left, by reason."""

    stages: tuple[StageResult, ...]
    lexical: LexicalResult | None
    dropped: Mapping[str, int]


class Arms:
    """Safe to use from several threads."""

    def __init__(
        self,
        config: RetrieverConfig,
        *,
        encoder: QueryEncoder | None,
        dense: DenseSearch | None,
        lexical: LexicalRetriever,
        fulltext: FullTextRetriever,
    ) -> None:
        self._config, self._encoder = config, encoder
        self._dense, self._lexical, self._fulltext = dense, lexical, fulltext
        self._beside = ThreadPoolExecutor(_CALLERS, thread_name_prefix="dense-arm")

    def close(self) -> None:
        """End the threads, and close what the dense arm keeps open."""
        self._beside.shutdown()
        if self._dense is not None:
            self._dense.close()

    def search(self, principal: str, query: str, depth: int, clock: Clock) -> Found:
        """Ask every arm for `depth` candidates; the dense one in a thread beside the others.

        Raises:
            QueryError, ArtefactError, DatabaseError: as the arms; or the query cannot be embedded.
        """
        dense = "dense" in self._config.arms
        beside = self._beside.submit(self._by_vector, principal, query, depth) if dense else None
        found: dict[str, StageResult] = {}
        detail: LexicalResult | None = None
        try:
            if "lexical" in self._config.arms:
                clock.start()
                found["lexical"], detail = self._by_words(principal, query, depth)
                clock.lap("lexical")
            if "fulltext" in self._config.arms:
                clock.start()
                found["fulltext"] = self._fulltext.search(principal, query, depth)
                clock.lap("fulltext")
        finally:
            if beside is not None:
                beside.exception()  # waits: what is still running must not outlive the query
        if beside is not None:
            found["dense"], embedding, searching = beside.result()
            clock.note("embedding", embedding)
            clock.note("dense", searching)
        stages = tuple(found[arm] for arm in self._config.arms)
        return _in_both(stages, detail) if self._config.both_indexes else Found(stages, detail, {})

    def explain(self, principal: str, query: str, chunk_ids: Sequence[int]) -> dict[int, list[str]]:
        """The lexical arm's arithmetic for those of the chunks that the principal may see and that hold a term."""
        if not chunk_ids:
            return {}
        detail = self._lexical.search_in_detail(principal, query, 1_000)
        found = {candidate.chunk_id for candidate in detail.stage.candidates}
        return {one: detail.explain(query, one).lines() for one in chunk_ids if one in found}

    def _by_words(self, principal: str, query: str, depth: int) -> tuple[StageResult, LexicalResult | None]:
        try:
            detail = self._lexical.search_in_detail(principal, query, depth)
        except NoTermsError:
            if self._config.arms == ("lexical",):
                raise
            return StageResult("lexical", (), degraded="the query holds no word to search for"), None
        return detail.stage, detail

    def _by_vector(self, principal: str, query: str, depth: int) -> tuple[StageResult, float, float]:
        assert self._encoder is not None  # the retriever has seen to both
        assert self._dense is not None
        began = time.perf_counter()
        try:
            vector = self._encoder.encode_queries([query])[0]
        except EmbeddingError as error:
            raise QueryError(
                "The query cannot be embedded",
                expected=error.expected,
                found=error.found,
                remedy="ask for less at once, or search by words alone",
            ) from error
        embedded = time.perf_counter()
        stage = self._dense.search(principal, vector, depth)
        return stage, embedded - began, time.perf_counter() - embedded


def _in_both(stages: tuple[StageResult, ...], lexical: LexicalResult | None) -> Found:
    """Without dense candidates that the postings lack; the lexical arm dropped what the database lacks already."""
    if lexical is None:
        return Found(stages, None, {})
    kept = []
    missing = 0
    for stage in stages:
        lacking = lexical.lacking([(c.tenant_id, c.chunk_id) for c in stage.candidates])
        lost = len(lacking)
        if stage.stage != "dense" or not lost:
            kept.append(stage)
            continue
        both = [c for c in stage.candidates if (c.tenant_id, c.chunk_id) not in lacking]
        missing += lost
        reasons = (stage.degraded, f"{counted(lost, 'candidate')} not in the postings")
        ranked = tuple(replace(candidate, rank=rank) for rank, candidate in enumerate(both, 1))
        kept.append(replace(stage, candidates=ranked, degraded="; ".join(filter(None, reasons))))
    return Found(tuple(kept), lexical, {"not_in_postings": missing} if missing else {})
