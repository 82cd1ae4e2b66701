"""Which queries were read for choosing a retriever's parameters, and the refusal of those chosen with test queries.

What belongs here: the record and its check. Reading is lending: whoever tunes takes the queries from here, so that the
record is made by the act. A configuration that nobody recorded is refused as well, unless it is declared untuned.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl

from zeroth_assets.artefacts import write_atomic
from zeroth_assets.evaluation.golden.model import GoldenError

Act = Literal["read", "chosen", "untuned"]


@dataclass(frozen=True, slots=True)
class Entry:
    """`read`: queries were read to tune `retriever`. `chosen`: after that, these parameters. `untuned`: without any."""

    act: Act
    retriever: str
    at: str
    query_ids: tuple[str, ...] = ()
    parameters: str | None = None


@dataclass(frozen=True, slots=True)
class Hygiene:
    """How a configuration came about: how many queries were read for it before it was chosen."""

    retriever: str
    parameters: str
    read: int
    untuned: bool


class SplitLedger:
    """An append-only record, in order."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries = list(entries)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries, oldest first."""
        return tuple(self._entries)

    def lend(self, queries: pl.DataFrame, *, retriever: str, at: str, split: str = "calibration") -> pl.DataFrame:
        """The queries of a split, recorded as read for tuning `retriever`. `at` is the time, as given.

        Lending `test` is not prevented: it is recorded, and every configuration chosen afterwards is refused.
        """
        lent = queries.filter(pl.col("split") == split)
        self._entries.append(Entry("read", retriever, at, tuple(sorted(lent["query_id"]))))
        return lent

    def choose(self, *, retriever: str, parameters: Mapping[str, Any], at: str) -> None:
        """Record that `parameters` were chosen with what was read for `retriever` so far."""
        self._entries.append(Entry("chosen", retriever, at, parameters=parameters_digest(parameters)))

    def declare_untuned(self, *, retriever: str, parameters: Mapping[str, Any], at: str) -> None:
        """Record that `parameters` are defaults from elsewhere, chosen before any query was read.

        Raises:
            GoldenError: queries were read for this retriever already.
        """
        if self._read_before(retriever, len(self._entries)):
            raise GoldenError(
                f"Parameters of {retriever} cannot be called untuned",
                expected="no query read for it",
                found="queries were lent for tuning it",
                remedy="record them as chosen",
            )
        self._entries.append(Entry("untuned", retriever, at, parameters=parameters_digest(parameters)))

    def check(self, queries: pl.DataFrame, *, retriever: str, parameters: Mapping[str, Any]) -> Hygiene:
        """How the configuration was chosen, if that was done without the test split of `queries`.

        Raises:
            GoldenError: it was chosen after test queries, or others of their groups, were read; or nothing is recorded.
        """
        wanted = parameters_digest(parameters)
        for position, entry in reversed(list(enumerate(self._entries))):
            if entry.retriever == retriever and entry.parameters == wanted:
                read = self._read_before(retriever, position)
                self._refuse_test(queries, read, retriever)
                return Hygiene(retriever, wanted, len(read), entry.act == "untuned")
        raise GoldenError(
            f"Nothing is recorded on how the parameters of {retriever} were chosen",
            expected="an entry of the split ledger for these very parameters",
            found=f"{len(self._entries)} entries, none for {wanted[:12]}",
            remedy="tune with queries lent by the ledger, or declare the parameters untuned before any are",
        )

    def _read_before(self, retriever: str, position: int) -> set[str]:
        entries = self._entries[:position]
        return {q for e in entries if e.act == "read" and e.retriever == retriever for q in e.query_ids}

    @staticmethod
    def _refuse_test(queries: pl.DataFrame, read: set[str], retriever: str) -> None:
        tests = queries.filter(pl.col("split") == "test")
        direct = set(tests["query_id"]) & read
        groups = set(queries.filter(pl.col("query_id").is_in(sorted(read)))["group"]) & set(tests["group"])
        if direct or groups:
            raise GoldenError(
                f"The parameters of {retriever} were chosen with test queries",
                expected="only calibration queries read before the choice",
                found=f"{len(direct)} test queries and {len(groups)} groups of the test split were read",
                remedy="choose them anew on calibration queries, or measure on queries that were never read",
            )

    def save(self, path: Path) -> None:
        """Write the record, one JSON object a line."""
        lines = [json.dumps(asdict(entry), sort_keys=True) for entry in self._entries]
        write_atomic(path, "".join(f"{line}\n" for line in lines).encode())

    @classmethod
    def load(cls, path: Path) -> SplitLedger:
        """Read a record; a file that is not there is an empty one.

        Raises:
            GoldenError: a line is no entry.
        """
        entries = []
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for number, line in enumerate(lines, start=1):
            try:
                fields = json.loads(line)
                entries.append(Entry(**{**fields, "query_ids": tuple(fields["query_ids"])}))
            except (ValueError, TypeError, KeyError) as error:
                raise GoldenError(
                    f"{path.name} line {number} is no entry of a split ledger", expected="as this version writes them"
                ) from error
        return cls(entries)


def parameters_digest(parameters: Mapping[str, Any]) -> str:
    """sha256 (hex) of a retriever's parameters, independent of their order."""
    return hashlib.sha256(json.dumps(dict(parameters), sort_keys=True, default=str).encode()).hexdigest()
