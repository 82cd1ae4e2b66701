"""What one query did, stage by stage.

What belongs here: the trace as data, and as JSON. It holds ids, ranks, scores, times and plans of what the principal
could see, and neither the query's words nor any text of a document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from zeroth_assets.search.abstention import Abstention
from zeroth_assets.search.fusion import Fused
from zeroth_assets.search.model import Shortfall, StageResult
from zeroth_assets.search.passages import Key


@dataclass(frozen=True, slots=True)
class RerankTrace:
    """What the reranker said of the shortlist; `failure` says why it said nothing."""

    identity: str
    shortlist: int
    scores: Mapping[Key, float] = field(default_factory=dict)
    truncated: int = 0
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """One query. `seconds` is wall-clock per stage; arms run side by side, so that they do not add up to `total`.

    `deferred` passages overlap one before them; `moved` ones were superseded by one behind them. `order` are the
    passages that stood at the end, best first, before an abstention withheld them. `dropped` counts candidates that
    left on the way, by reason. `tenant_keys` names the tenants that the principal may read, by id.
    """

    principal: str
    query_sha256: str
    query_characters: int
    chunk_set: str
    k: int
    config_digest: str
    tenants: int
    tenant_keys: Mapping[int, str] = field(default_factory=dict)
    stages: tuple[StageResult, ...] = ()
    fused: tuple[Fused[Key], ...] = ()
    rrf_k: float = 60.0
    rerank: RerankTrace | None = None
    deferred: tuple[Key, ...] = ()
    moved: tuple[Key, ...] = ()
    order: tuple[Key, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    degradations: tuple[str, ...] = ()
    abstention: Abstention | None = None
    shortfall: Shortfall | None = None
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values. Chunk ids are text, since JSON's numbers are exact only up to 2^53."""
        return {
            "principal": self.principal,
            "query_sha256": self.query_sha256,
            "query_characters": self.query_characters,
            "chunk_set": self.chunk_set,
            "k": self.k,
            "config": self.config_digest,
            "tenants": self.tenants,
            "stages": [self._stage(stage) for stage in self.stages],
            "fused": [
                {
                    **self._key(fused.id),
                    "rank": fused.rank,
                    "score": fused.score,
                    "contributions": [asdict(part) for part in fused.contributions],
                }
                for fused in self.fused
            ],
            "rerank": None if self.rerank is None else self._rerank(self.rerank),
            "deferred": [self._key(key) for key in self.deferred],
            "moved": [self._key(key) for key in self.moved],
            "order": [self._key(key) for key in self.order],
            "dropped": dict(self.dropped),
            "degraded": list(self.degradations),
            "abstention": None if self.abstention is None else asdict(self.abstention),
            "shortfall": _shortfall(self.shortfall),
            "fingerprints": dict(self.fingerprints),
            "seconds": dict(self.seconds),
        }

    def _stage(self, stage: StageResult) -> dict[str, Any]:
        return {
            "stage": stage.stage,
            "plan": stage.plan,
            "degraded": stage.degraded,
            "shortfall": _shortfall(stage.shortfall),
            "counts": dict(stage.counts),
            "seconds": dict(stage.seconds),
            "candidates": [
                {**self._key((c.tenant_id, c.chunk_id)), "rank": c.rank, "score": c.score} for c in stage.candidates
            ],
        }

    def _rerank(self, rerank: RerankTrace) -> dict[str, Any]:
        return {
            "identity": rerank.identity,
            "shortlist": rerank.shortlist,
            "truncated": rerank.truncated,
            "failure": rerank.failure,
            "scores": [{**self._key(key), "score": score} for key, score in rerank.scores.items()],
        }

    def _key(self, key: Key) -> dict[str, Any]:
        return {"tenant": self.tenant_keys.get(key[0]), "tenant_id": key[0], "chunk_id": str(key[1])}


def _shortfall(shortfall: Shortfall | None) -> dict[str, Any] | None:
    return None if shortfall is None else {**asdict(shortfall), "complete": shortfall.complete}
