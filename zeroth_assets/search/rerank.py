"""Reranking: what a reranker is asked and may answer, and the time that it may take.

What belongs here: the interface, and `rerank_within`, which keeps every reranker to it. A reranker gets passages that
were read under the caller's policy a moment ago, and answers with one score for each: it reorders and can add nothing,
by the shape of its answer. Rerankers have modules of their own: `rerank_late`, `rerank_cross`, `rerank_hosted`.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Protocol

from zeroth_assets.errors import QueryError, ZerothError
from zeroth_assets.search.passages import Passage


class RerankError(QueryError):
    """A reranker could not answer, or not in time. The retriever answers without it, and says so."""


@dataclass(frozen=True, slots=True)
class RerankResult:
    """One score for each passage given, in their order, higher is better. `truncated` inputs lost their ends."""

    scores: tuple[float, ...]
    truncated: int = 0


class Reranker(Protocol):
    """Scores passages for a query. Safe to call from several threads."""

    @property
    def identity(self) -> str:
        """Model, revision and all else that scores depend on; thresholds are bound to it."""

    @property
    def shortlist(self) -> int:
        """How many passages it takes at most."""

    def rerank(self, query: str, passages: Sequence[Passage], budget_seconds: float) -> RerankResult:
        """Score `passages`, within the budget as far as it can tell.

        Raises:
            RerankError: it cannot, or not in time.
        """


class Deadline:
    """A moment by which work must be done; `check` between its pieces ends what is late."""

    def __init__(self, budget_seconds: float) -> None:
        self._budget = budget_seconds
        self._end = time.monotonic() + budget_seconds

    @property
    def left(self) -> float:
        """Seconds left, not below 0."""
        return max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Raises: RerankError: the time is up."""
        if not self.left:
            raise too_late(self._budget)


@dataclass(frozen=True, slots=True)
class Reranked:
    """Places of the passages given, best first, each once; and their scores, in the order given.

    `order` covers the shortlist alone. What was behind it stays behind it, in its order.
    """

    order: tuple[int, ...]
    scores: tuple[float, ...]
    truncated: int
    seconds: float


_RUNNING = threading.BoundedSemaphore(4)


def rerank_within(reranker: Reranker, query: str, passages: Sequence[Passage], budget_seconds: float) -> Reranked:
    """Rerank the first `reranker.shortlist` passages; equal scores keep the order given.

    Returns or raises within the budget whatever the reranker does. One that hangs keeps its thread; once four do, the
    next query is not kept waiting at all.

    Raises:
        RerankError: it failed, was late, or answered with something other than one finite score for each passage.
    """
    given = tuple(passages[: reranker.shortlist])
    began = time.perf_counter()
    if not given:
        return Reranked((), (), 0, 0.0)
    result = _answer(reranker, query, given, budget_seconds)
    if len(result.scores) != len(given) or not all(math.isfinite(score) for score in result.scores):
        raise RerankError(
            "The reranker's answer cannot be used",
            expected=f"{len(given)} finite scores",
            found=f"{len(result.scores)} scores, {sum(math.isfinite(s) for s in result.scores)} of them finite",
        )
    order = sorted(range(len(given)), key=lambda place: (-result.scores[place], place))
    return Reranked(tuple(order), tuple(result.scores), result.truncated, time.perf_counter() - began)


def _answer(reranker: Reranker, query: str, passages: tuple[Passage, ...], budget_seconds: float) -> RerankResult:
    if not _RUNNING.acquire(blocking=False):
        raise RerankError("The reranker is busy", expected="a free place of 4", found="none")
    future: Future[RerankResult] = Future()

    def work() -> None:
        try:
            future.set_result(reranker.rerank(query, passages, budget_seconds))
        except BaseException as error:  # handed to the caller, whatever it is
            future.set_exception(error)
        finally:
            _RUNNING.release()

    threading.Thread(target=work, name="reranker", daemon=True).start()
    try:
        return future.result(budget_seconds)
    except FutureTimeoutError as error:
        raise too_late(budget_seconds) from error
    except RerankError:
        raise
    except Exception as error:
        # A foreign exception's text could quote its input; its type cannot.
        found = error.what if isinstance(error, ZerothError) else type(error).__name__
        raise RerankError("The reranker failed", expected="one score for each passage", found=found) from None


def too_late(budget_seconds: float) -> RerankError:
    """The error for an answer that was not there in time."""
    return RerankError("The reranker was too slow", expected=f"an answer within {budget_seconds:g} s", found="none")
