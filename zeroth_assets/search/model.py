"""What stages of a search hand to each other: candidates, shortfalls and stage results.

What belongs here: frozen values without behaviour that reads or writes, and how numbers of them are worded. A shortfall
is a value of its own, so that no caller can take "the filtered search came back short" for "there is no evidence".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


def counted(number: int, thing: str) -> str:
    """So many of a thing, in words for a person.

    >>> counted(1, "tenant"), counted(1_200, "tenant")
    ('1 tenant', '1,200 tenants')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


ShortfallReason = Literal["fewer_rows_than_k", "index_exhausted", "scan_bound_reached", "no_tenant"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One ranked chunk of one stage: `rank` from 1, `score` higher is better within the stage."""

    chunk_id: int
    tenant_id: int
    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Fewer candidates came back than were asked for.

    `fewer_rows_than_k` says that the principal may see only `returned` rows: complete, not a fault. `index_exhausted`
    and `scan_bound_reached` say that the index stopped early and rows may exist that were not returned. `no_tenant`:
    the principal is granted nothing.
    """

    asked: int
    returned: int
    reason: ShortfallReason

    @property
    def complete(self) -> bool:
        """True if nothing that the principal may see was missed."""
        return self.reason in ("fewer_rows_than_k", "no_tenant")


@dataclass(frozen=True, slots=True)
class StageResult:
    """What one stage found, best first.

    `seconds` has one entry per part of the stage (planning apart from execution where it is known); `plan` names the
    plan node or path that answered; `degraded` says why a stage gave less than it should, or is None. `counts` holds
    what the stage counted on its way (rows dropped, tenants opened), by name.
    """

    stage: str
    candidates: tuple[Candidate, ...]
    shortfall: Shortfall | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    plan: str | None = None
    degraded: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
