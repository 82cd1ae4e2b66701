"""When to say "I do not know": a threshold on a score, and what it holds for.

What belongs here: the threshold as data, the fingerprints that bind it, and the decision. Calibrating and reporting
are in `evaluation.abstention`.

The score is the best one of a reranker, or of the dense arm. It is never that of the fusion: a sum of 1 / (60 + rank)
is as high for the best of irrelevant passages as for the best of relevant ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from zeroth_assets.errors import ArtefactError, QueryError

ScoreSource = Literal["dense", "reranker"]
SOURCES: tuple[ScoreSource, ...] = ("dense", "reranker")
AbstentionReason = Literal["insufficient_candidates", "weak_evidence", "reranker_unavailable", "no_tenant"]


@dataclass(frozen=True, slots=True)
class Abstention:
    """Why a query is not answered. `score` and `threshold` stand where the score decided."""

    reason: AbstentionReason
    detail: str
    score: float | None = None
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Threshold:
    """Answer where the best score is at least `value`.

    Calibrated on `unanswerable` and `answerable` queries of `split` for at most `target` of the unanswerable ones
    answered; `answered`, with its exact interval `low` to `high`, is what came of it there. `fingerprints` name all
    that the scores depend on; for any other the threshold means nothing.
    """

    source: ScoreSource
    value: float
    target: float
    answered: float
    low: float
    high: float
    confidence: float
    unanswerable: int
    answerable: int
    coverage: float
    split: str
    fingerprints: Mapping[str, str]

    def __post_init__(self) -> None:
        check_source(self.source)
        if math.isnan(self.value):
            raise QueryError("A threshold is not a number", expected="a score, or infinity to answer nothing")

    def decide(self, score: float, fingerprints: Mapping[str, str]) -> Abstention | None:
        """None where the evidence is strong enough.

        Raises:
            QueryError: the score was made by something else than what the threshold was calibrated on.
        """
        self.require(fingerprints)
        if score >= self.value:
            return None
        return Abstention(
            "weak_evidence", f"the best {self.source} score is below the threshold", score=score, threshold=self.value
        )

    def require(self, fingerprints: Mapping[str, str]) -> None:
        """Make sure that the threshold holds for scores of these fingerprints; more than it names may be there.

        Raises:
            QueryError: one that it names differs or is missing.
        """
        differing = [
            f"{name}: {fingerprints.get(name, 'none')}"
            for name, value in sorted(self.fingerprints.items())
            if fingerprints.get(name) != value
        ]
        if differing:
            raise QueryError(
                "The abstention threshold holds for other scores",
                expected="; ".join(f"{name}: {value}" for name, value in sorted(self.fingerprints.items())),
                found="; ".join(differing),
                remedy="calibrate it again for this index and these models, or ask without it",
            )

    def to_json(self) -> str:
        """As JSON, for an artefact."""
        values = {**asdict(self), "value": _spelled(self.value), "coverage": _spelled(self.coverage)}
        return json.dumps(values, sort_keys=True, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, payload: str | bytes) -> Threshold:
        """The inverse of `to_json`.

        Raises:
            ArtefactError: it is no such JSON.
        """
        try:
            values: dict[str, Any] = json.loads(payload)
            numbers = {name: float(values[name]) for name in ("value", "coverage")}
            return cls(**{**values, **numbers, "fingerprints": dict(values["fingerprints"])})
        except (ValueError, TypeError, KeyError, QueryError) as error:
            raise ArtefactError(
                "The abstention threshold cannot be read",
                expected="what `Threshold.to_json` writes",
                found=type(error).__name__,
                remedy="materialise abstention_metrics again",
            ) from error


def check_source(source: str) -> None:
    """Make sure that a threshold may stand on such scores.

    Raises:
        QueryError: it may not, the fusion's above all.
    """
    if source not in SOURCES:
        raise QueryError(
            f"A threshold cannot stand on scores of {source!r}",
            expected="dense or reranker: scores that say how well a passage fits",
            found=f"{source!r}; a fused score says only how high a passage ranks",
        )


def _spelled(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
