"""What a fetch did, document by document.

What belongs here: the outcome of one document, and the report of a run with its frame. No fetching.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import polars as pl

Status = Literal["fetched", "intact", "failed", "pending", "superseded"]
STATUSES: tuple[Status, ...] = ("fetched", "intact", "failed", "pending", "superseded")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one version of one document fared.

    `fetched`: now on disk. `intact`: was on disk, not requested. `failed`: dead-lettered, with cause and next step.
    `pending`: not tried, or not to be tried again before its source resumes. `superseded`: a replaced version that is
    not on disk; publishers serve the newer one, so it is not asked for.
    """

    document_id: str
    version: str
    source: str
    status: Status
    attempts: int = 0
    cause: str | None = None
    last_answer: str | None = None
    next_step: str | None = None
    bytes: int = 0
    seconds: float = 0.0
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """A host that must be left alone until `until` (seconds since the epoch), and why."""

    host: str
    reason: str
    until: float


FETCH_SCHEMA = pl.Schema(
    {
        "document_id": pl.String,
        "version": pl.String,
        "source": pl.String,
        "status": pl.String,
        "attempts": pl.Int64,
        "cause": pl.String,
        "last_answer": pl.String,
        "next_step": pl.String,
        "bytes": pl.Int64,
        "seconds": pl.Float64,
        "origin": pl.String,
    }
)


@dataclass(frozen=True, slots=True)
class FetchReport:
    """What a run of `acquire` did. `documents` has `FETCH_SCHEMA`, in the order of the records given."""

    documents: pl.DataFrame
    pauses: tuple[Pause, ...] = ()
    requests: int = 0
    seconds: float = 0.0

    def count(self, status: Status) -> int:
        """How many documents have this status."""
        return int((self.documents["status"] == status).sum())

    @property
    def counts(self) -> dict[str, int]:
        """Documents by status, every status named."""
        return {status: self.count(status) for status in STATUSES}

    @property
    def complete(self) -> bool:
        """Whether every document is on disk, replaced versions apart."""
        return self.count("failed") == 0 and self.count("pending") == 0


def report_of(
    outcomes: Iterable[Outcome], *, pauses: Iterable[Pause] = (), requests: int = 0, seconds: float = 0.0
) -> FetchReport:
    """A report over outcomes."""
    columns = list(FETCH_SCHEMA)
    rows = [tuple(getattr(outcome, column) for column in columns) for outcome in outcomes]
    return FetchReport(pl.DataFrame(rows, schema=FETCH_SCHEMA, orient="row"), tuple(pauses), requests, seconds)
