"""One call of the benchmark: the home that is read, the queries that are lent, and what is kept of it."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
from filelock import FileLock

from benchmarks.tuning.ground import (
    Cut,
    Ground,
    Rankings,
    encoder_of,
    golden,
    ground,
    query_vectors,
    stored_cut,
    stored_vectors,
)
from benchmarks.tuning.outcome import SEED, difference, summary
from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.embedding.memo import Memo
from zeroth_assets.evaluation.golden.ledger import SplitLedger
from zeroth_assets.search.scoring import Scoring

HERE = Path(__file__).parent
SETS = ("fixed_512", "section_aware")
OBJECTIVE = "recall@10"


class Bench:
    """One call: the home, the queries that it was lent, and where its figures go."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.store = ArtefactStore(args.home / "artefacts")
        self.found = golden(self.store, args.mirror, args.home / "raw", HERE.parents[1] / "corpus_manifest.json", SEED)
        self.ledger = SplitLedger()
        self.at = args.at or datetime.now(UTC).isoformat(timespec="seconds")
        self.scratch: Path = args.scratch
        self.scratch.mkdir(parents=True, exist_ok=True)

    def tenants(self, *artefacts: str) -> list[str]:
        """Those that have all of the artefacts, and of those named with --tenants."""
        sets = [set(self.store.partitions(name)) for name in artefacts]
        both = set.intersection(*sets) & (set(self.args.tenants) if self.args.tenants else sets[0])
        return sorted(both)

    def complete(self) -> list[str]:
        return self.tenants(*(f"{stage}_{name}" for stage in ("chunks", "embeddings") for name in SETS))

    def lend(self, retriever: str, tenants: list[str]) -> Ground:
        """The calibration queries that these tenants can be asked, recorded as read."""
        everything = ground(self.store, self.found, self.found[0], tenants)
        asked = everything.queries.filter(pl.col("query_id").is_in(everything.asked["query_id"].implode()))
        lent = self.ledger.lend(asked, retriever=retriever, at=self.at)
        return ground(self.store, self.found, lent, tenants)

    def choose(self, retriever: str, parameters: dict[str, Any]) -> None:
        """Record the choice behind what was read; other calls may write the same file."""
        self.ledger.choose(retriever=retriever, parameters=parameters, at=self.at)
        with FileLock(self.scratch / "ledger.lock"):
            path = HERE / "ledger.jsonl"
            SplitLedger([*SplitLedger.load(path).entries, *self.ledger.entries]).save(path)
        self.ledger = SplitLedger()

    def write(self, name: str, results: dict[str, Any]) -> None:
        folder = HERE / "results"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps({"at": self.at, **results}, indent=1) + "\n")

    def vectors(self, g: Ground) -> tuple[Any, dict[str, Any]]:
        encoder = encoder_of(self.scratch)
        return encoder, query_vectors(g, encoder, Memo(self.scratch / "memo.sqlite"))


def say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


def picked(
    grid: list[tuple[dict[str, Any], pl.DataFrame]], default: dict[str, Any], g: Ground, objective: str = OBJECTIVE
) -> dict[str, Any]:
    """Every configuration's figures, the best by the objective, and whether it beats the default for all the looks.

    Where that cannot be shown, the default is chosen: a change needs evidence.
    """
    rows = [{"parameters": p, **summary(values, g.groups, objective)} for p, values in grid]
    best = max(range(len(grid)), key=lambda i: (rows[i][objective]["value"], grid[i][0] == default))
    usual = next(values for p, values in grid if p == default)
    gain = difference(grid[best][1], usual, g.groups, objective, looks=len(grid) - 1)
    chosen = grid[best][0] if gain["verdict"] == "higher" else default
    return {"objective": objective, "best": grid[best][0], "gain": gain, "chosen": chosen, "searched": rows}


def arms(bench: Bench, g: Ground, name: str, depth: int) -> tuple[Cut, Rankings, Rankings]:
    """Exact dense search and BM25 with its defaults."""
    _, queries = bench.vectors(g)
    cut = stored_cut(g, name)
    return cut, cut.dense(stored_vectors(g, name), queries, depth), cut.lexical(Scoring(), depth)
