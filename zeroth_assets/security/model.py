"""What a probe is, and what it found.

What belongs here: the types that all probes share. No probe, no statement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from zeroth_assets.security.ground import Ground

Status = Literal["held", "breached", "skipped"]
_SHOWN = 12


@dataclass(slots=True)
class Record:
    """What a probe notes while it runs. No note holds a document's text."""

    tries: int = 0
    breaches: list[str] = field(default_factory=list)
    skipped: str = ""

    def tried(self, count: int = 1) -> None:
        """Count attempts, so that a probe which attempted nothing cannot pass for one that held."""
        self.tries += count

    def breach(self, what: str) -> None:
        """Note one way through: who, by what, and how much came; never what it said."""
        if what not in self.breaches:
            self.breaches.append(what)

    def skip(self, reason: str) -> None:
        """Note why nothing could be attempted."""
        self.skipped = reason


@dataclass(frozen=True, slots=True)
class Probe:
    """One named attack: what it attempts, and what would be a breach."""

    name: str
    attempts: str
    breach: str
    run: Callable[[Ground, Record], None]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """How a probe went. `breaches` are at most a dozen; `found` counts them all."""

    name: str
    attempts: str
    breach: str
    status: Status
    tries: int
    found: int
    breaches: tuple[str, ...]
    reason: str
    seconds: float


def conclude(probe: Probe, record: Record, seconds: float) -> ProbeResult:
    """The result of a probe that ran. One that attempted nothing, and does not say why, is a breach of itself."""
    status: Status = "held"
    if record.breaches:
        status = "breached"
    elif record.skipped:
        status = "skipped"
    elif not record.tries:
        status, record.breaches = "breached", ["the probe attempted nothing"]
    return ProbeResult(
        probe.name,
        probe.attempts,
        probe.breach,
        status,
        record.tries,
        len(record.breaches),
        tuple(record.breaches[:_SHOWN]),
        record.skipped,
        seconds,
    )
