"""What the judge is told to be, what it costs, what it leaves behind.

What belongs here: configuration, records and errors that the modules of this package hand to each other. Nothing here
talks to a server or a file.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal

import polars as pl
from pydantic import SecretStr

from zeroth_assets.errors import MeasurementError

GRADES = (0, 1, 2, 3)
UNKNOWN = "unknown"

PAIR_SCHEMA = pl.Schema({"query_id": pl.String, "document_id": pl.String})
JUDGED_SCHEMA = pl.Schema(
    {"query_id": pl.String, "document_id": pl.String, "grade": pl.Int64, "graded_by": pl.String, "prompt": pl.String}
)
REPEAT_SCHEMA = pl.Schema(
    {"query_id": pl.String, "document_id": pl.String, "grade": pl.Int64, "second_grade": pl.Int64}
)

FailureKind = Literal[
    "truncated",
    "stopped",
    "refused",
    "not json",
    "schema",
    "bounds",
    "duplicate",
    "incomplete",
    "unavailable",
    "wrong model",
]


class JudgeError(MeasurementError):
    """The judge cannot be used as configured, or may not be."""


class JudgeUnavailable(JudgeError):  # noqa: N818 - a state of the server, told as one
    """The server did not give an answer, after all the retries that it was allowed."""


class SnapshotError(JudgeError):
    """The model behind the name is not known, or is not the one that the run began with."""


class BudgetError(JudgeError):
    """The next call could cost more than the run may spend."""


class SheetError(JudgeError):
    """A sheet that came back from a person is not the sheet that was given out, graded whole."""


class AnswerError(JudgeError):
    """An answer came, and it is no judgment. `kind` says what is wrong with it."""

    def __init__(
        self,
        what: str,
        *,
        expected: str = "",
        found: str = "",
        remedy: str = "",
        kind: FailureKind = "schema",
    ) -> None:
        super().__init__(what, expected=expected, found=found, remedy=remedy)
        self.kind: FailureKind = kind

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_answer_error, (self.what, self.expected, self.found, self.remedy, self.kind))


def _rebuild_answer_error(what: str, expected: str, found: str, remedy: str, kind: FailureKind) -> AnswerError:
    return AnswerError(what, expected=expected, found=found, remedy=remedy, kind=kind)


@dataclass(frozen=True, slots=True)
class Prices:
    """What a million tokens cost. Reasoning tokens are output."""

    input_per_million: float
    output_per_million: float
    currency: str = "USD"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of calls. `output_tokens` holds the reasoning tokens too, whichever way the server counts them.

    `reported` is False where a server told no usage: the counts are then an upper bound, so that a budget holds.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    reported: bool = True

    @property
    def tokens(self) -> int:
        """Everything that counts against the budget."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.reported and other.reported,
        )

    def cost(self, prices: Prices | None) -> float | None:
        """Money spent, None where no prices are set: unknown is not free.

        >>> Usage(1, 1_000_000, 500_000).cost(Prices(2.0, 8.0))
        6.0
        """
        if prices is None:
            return None
        return (
            self.input_tokens * prices.input_per_million + self.output_tokens * prices.output_per_million
        ) / 1_000_000


@dataclass(frozen=True, slots=True)
class JudgeConfig:
    """One judge. `url` ends where `/chat/completions` begins, for instance `http://127.0.0.1:8000/v1`.

    `max_output_tokens` bounds one answer, its reasoning included; `token_budget` and `money_budget` bound everything
    that the journal of a run has spent, calls that failed included. `publishing` refuses a model that is not pinned.
    """

    url: str
    model: str
    api_key: SecretStr | None = None
    publishing: bool = False
    temperature: float | None = 0.0
    seed: int = 20_240_501
    max_output_tokens: int = 2_048
    output_limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    passages_per_call: int = 10
    repeats_per_query: int = 1
    token_budget: int | None = None
    money_budget: float | None = None
    prices: Prices | None = None
    timeout_seconds: float = 120.0
    tries: int = 5
    answer_tries: int = 2
    concurrency: int = 1
    backoff_seconds: float = 1.0
    longest_wait_seconds: float = 120.0

    def __post_init__(self) -> None:
        problems = [
            text
            for broken, text in (
                (not self.model.strip(), "a model's name"),
                (self.max_output_tokens < 1, "max_output_tokens >= 1"),
                (self.passages_per_call < 1, "passages_per_call >= 1"),
                (self.repeats_per_query < 0, "repeats_per_query >= 0"),
                (self.tries < 1 or self.answer_tries < 1, "at least one try"),
                (self.concurrency < 1, "concurrency >= 1"),
                (self.timeout_seconds <= 0, "a timeout above 0"),
                (self.backoff_seconds < 0 or self.longest_wait_seconds < 0, "waits of 0 or more"),
                (self.money_budget is not None and self.prices is None, "prices, where money is bounded"),
            )
            if broken
        ]
        if problems:
            raise JudgeError("The judge's settings cannot be used", expected="; ".join(problems))


@dataclass(frozen=True, slots=True)
class JudgeQuery:
    """A question of the golden set. `drafter` names who wrote it, None where that was not recorded.

    Only `question` ever reaches the judge.
    """

    query_id: str
    question: str
    drafter: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The model that answers, as the server tells it.

    `name` is what was asked for, `snapshot` the dated or hashed name behind it, None where the server tells none;
    `request_name` is what requests carry, `answer_name` what each completion must say.
    """

    name: str
    snapshot: str | None
    request_name: str
    answer_name: str
    backend: str = UNKNOWN
    backend_version: str = UNKNOWN

    @property
    def label(self) -> str:
        """`name@snapshot`, as every record carries it."""
        return f"{self.name}@{self.snapshot or 'unresolved'}"


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call's outcome: a line of the journal.

    `grades` maps document ids to grades, `repeats` those of the passage that was shown twice to its second grade;
    both are empty where `failure` says what went wrong. `call_digest` is the sha256 of everything that was asked,
    so that a record serves exactly the call that it was made for; `pairs` has the `pair_digest` of each document, by
    which its grade serves other pools too.
    """

    query_id: str
    call_digest: str
    judge: str
    prompt_hash: str
    backend: str
    backend_version: str
    system_fingerprint: str
    seed: int
    temperature: float | None
    order_seed: int
    constrained_by: str
    usage: Usage
    grades: dict[str, int] = field(default_factory=dict)
    repeats: dict[str, int] = field(default_factory=dict)
    failure: FailureKind | None = None
    caveats: tuple[str, ...] = ()
    pairs: dict[str, str] = field(default_factory=dict)


def pair_digest(question: str, passage: str) -> str:
    """sha256 (hex) of a question and a passage: what a grade is of, whatever ids either has."""
    return hashlib.sha256(f"{question}\x00{passage}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """All that a run of the judge gave.

    `judgments` has JUDGED_SCHEMA, one row per passage of a finished query; `repeats` REPEAT_SCHEMA, the passages that
    were shown twice. `failed` names the queries without judgments, and why. `usage` and `cost` are of everything in
    the journal, failures and earlier sittings included, `sitting` of this run alone; `cost` is None where no prices
    are set.
    """

    snapshot: Snapshot
    prompt_hash: str
    judgments: pl.DataFrame
    repeats: pl.DataFrame
    failed: dict[str, FailureKind]
    usage: Usage
    cost: float | None
    currency: str | None
    caveats: tuple[str, ...]
    sitting: Usage = Usage()

    @property
    def complete(self) -> bool:
        """Whether every query of the pool is judged."""
        return not self.failed


def are_grades(column: pl.Series) -> bool:
    """Whether every value is a whole number from 0 to 3, none of them missing."""
    if column.is_empty():
        return True
    return column.dtype.is_integer() and column.is_between(GRADES[0], GRADES[-1]).fill_null(value=False).all()
