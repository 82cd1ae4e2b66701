from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from zeroth_assets.evaluation.judging.judge import judge_pool
from zeroth_assets.evaluation.judging.model import JudgeConfig, JudgedRun, JudgeQuery
from zeroth_assets_tests.evaluation.judging.chat_server import ChatServer, running


@dataclass
class Clock:
    """Time that passes only where somebody waits."""

    now: float = 1_000.0
    waits: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with running(ChatServer()) as started:
        yield started


@pytest.fixture
def clock() -> Clock:
    return Clock()


def words(count: int, salt: str) -> str:
    return " ".join([f"{salt}{number}" for number in range(count)])


def small_pool(queries: int = 3, passages: int = 5) -> tuple[pl.DataFrame, pl.DataFrame, list[JudgeQuery]]:
    """Queries q0.., each with passages of growing length: grades 0, 1, 2, 3, 3 by the server's lights."""
    pairs = [(f"q{q}", f"doc-{q}-{p}") for q in range(queries) for p in range(passages)]
    texts = {f"doc-{q}-{p}": words(4 * p + 2, f"w{q}x{p}y") for q in range(queries) for p in range(passages)}
    return (
        pl.DataFrame(pairs, schema=["query_id", "document_id"], orient="row"),
        pl.DataFrame(list(texts.items()), schema=["document_id", "text"], orient="row"),
        [JudgeQuery(f"q{q}", f"What does subject {q} say?", "somebody") for q in range(queries)],
    )


@dataclass
class Bench:
    """A pool, a server, a journal, a clock: what a test of the judge needs."""

    server: ChatServer
    clock: Clock
    journal: Path
    queries: int = 3

    def config(self, **changes: Any) -> JudgeConfig:
        return JudgeConfig(**{"url": self.server.url, "model": "judge-2025-04-14", **changes})

    def run(self, pool: tuple[pl.DataFrame, pl.DataFrame, list[JudgeQuery]] | None = None, **changes: Any) -> JudgedRun:
        pairs, passages, queries = pool or small_pool(self.queries)
        return judge_pool(
            pairs,
            passages,
            self.config(**changes),
            queries=queries,
            journal=self.journal,
            sleep=self.clock.sleep,
            clock=self.clock,
            monotonic=self.clock,
        )


@pytest.fixture
def bench(server: ChatServer, clock: Clock, tmp_path: Path) -> Bench:
    return Bench(server, clock, tmp_path / "judgments.jsonl")
