"""What is compared: arms with their values per query, and a family of comparisons named before anybody looks.

What belongs here: frozen values and their rules. The table that comes of them is `comparisons`'.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from zeroth_assets.errors import MeasurementError


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm's values per query, and what they stand on.

    `per_query` has query_id and a column per metric, null where the metric is undefined for a query.
    `definitions` says what each metric is.
    """

    name: str
    per_query: pl.DataFrame
    corpus_fingerprint: str
    golden_fingerprint: str
    chunk_set: str
    role: str
    definitions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Arm `a` against arm `b` in one metric, positive where `a` is better."""

    a: str
    b: str
    metric: str

    def __str__(self) -> str:
        return f"{self.a} against {self.b} in {self.metric}"


@dataclass(frozen=True, slots=True)
class Family:
    """The comparisons that were asked for before the figures were seen.

    Holm's correction spans `primary`; `exploratory` ones are shown without a claim. `digest` changes with either, so
    a family that was changed afterwards shows.
    """

    name: str
    primary: tuple[Comparison, ...]
    exploratory: tuple[Comparison, ...] = ()

    def __post_init__(self) -> None:
        every = [*self.primary, *self.exploratory]
        keys = [(frozenset((c.a, c.b)), c.metric) for c in every]
        if not self.primary or len(set(keys)) != len(keys) or any(c.a == c.b for c in every):
            raise MeasurementError(
                f"The family {self.name!r} of comparisons cannot be tested",
                expected="at least one primary comparison, each pair of different arms once per metric",
                found="; ".join(map(str, every)) or "none",
            )

    @property
    def digest(self) -> str:
        """First 16 hex digits of the sha256 of what is compared."""
        parts = [self.name, *([[c.a, c.b, c.metric] for c in group] for group in (self.primary, self.exploratory))]
        return hashlib.sha256(json.dumps(parts).encode("utf-8")).hexdigest()[:16]
