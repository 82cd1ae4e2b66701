"""Outcomes: what belongs here is what a materialisation says of itself, to a watcher and at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import dagster as dg

from zeroth_assets.errors import AcquisitionError, RunError, ZerothError


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """One Dagster run: what it made, for which partition, and how it ended."""

    run_id: str
    partition: str | None
    assets: tuple[str, ...]
    succeeded: bool
    seconds: float
    error: str | None = None
    error_type: str | None = None
    unmet: tuple[str, ...] = ()  # checks that did not pass, as `asset: check`


@dataclass(slots=True)
class Outcome:
    """What a materialisation did. `fresh` counts artefacts that were left alone."""

    runs: list[RunOutcome] = field(default_factory=list)
    fresh: int = 0
    closed_runs: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    missing: list[tuple[str, str]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "runs": [asdict(run) for run in self.runs],
            "fresh": self.fresh,
            "failed": len(self.failed),
            "missing": [{"document_id": document_id, "cause": cause} for document_id, cause in self.missing],
            "closed_runs": self.closed_runs,
            "retired": self.retired,
        }

    @property
    def exit_code(self) -> int:
        """0, or the code of the error that all failed runs share, or RunError's; missing documents are a failure."""
        if self.failed:
            codes = {error_class(run.error_type).exit_code for run in self.failed}
            return codes.pop() if len(codes) == 1 else RunError.exit_code
        return AcquisitionError.exit_code if self.missing else 0

    @property
    def unmet(self) -> dict[str, int]:
        """How often each check did not pass, blocking or not."""
        return dict(Counter(check for run in self.runs for check in run.unmet))

    @property
    def failed(self) -> list[RunOutcome]:
        """The runs that did not end in success."""
        return [run for run in self.runs if not run.succeeded]


@dataclass(frozen=True, slots=True)
class Watcher:
    """What the runner tells a person: messages, and the start and end of each run."""

    message: Callable[[str], None] = lambda text: None
    started: Callable[[str, tuple[str, ...], int, int], None] = lambda what, assets, number, of: None
    ended: Callable[[RunOutcome], None] = lambda outcome: None


def error_class(name: str | None) -> type[ZerothError]:
    """The error type of that name, RunError where it is none of ours."""
    return _typed().get(name or "", RunError)


def first_error(result: dg.ExecuteInProcessResult) -> tuple[str, str | None]:
    """Message and class of the first failed step's error: the one meant for a person, else the innermost."""
    for event in result.get_step_failure_events():
        error = event.step_failure_data.error
        while error is not None and error.cause is not None and not _is_typed(error.cls_name):
            error = error.cause
        if error is not None:
            return error.message.strip(), error.cls_name
        return event.message or "failed", None
    return "the run failed before any step", None


def _is_typed(name: str | None) -> bool:
    return name in _typed()


def _typed() -> dict[str, type[ZerothError]]:
    """Every error that is meant for a person, by name; packages derive their own from those of `errors`."""
    known: dict[str, type[ZerothError]] = {}
    waiting: list[type[ZerothError]] = [ZerothError]
    while waiting:
        kind = waiting.pop()
        known[kind.__name__] = kind
        waiting += kind.__subclasses__()
    return known
