"""What a retriever is told, what it answers, and the alerts that it raises.

What belongs here: configuration, result and alert, as frozen values.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from zeroth_assets.errors import QueryError
from zeroth_assets.search.abstention import Abstention
from zeroth_assets.search.model import Shortfall
from zeroth_assets.search.passages import Passage
from zeroth_assets.search.supersession import Standing
from zeroth_assets.search.trace import Trace

Arm = Literal["dense", "lexical", "fulltext"]
ARMS: tuple[Arm, ...] = ("dense", "lexical", "fulltext")
_LOG = logging.getLogger("zeroth_assets.search.alerts")


class Digested(Protocol):
    """An encoder's fingerprint, as far as a retriever has to know it."""

    @property
    def digest(self) -> str:
        """What an index must have recorded."""


class QueryEncoder(Protocol):
    """What a retriever asks of an encoder; `embedding.Encoder` is one."""

    @property
    def fingerprint(self) -> Digested:
        """What its vectors may be compared with."""

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors (len(texts), dimension)."""


class FingerprintMismatchError(QueryError):
    """Query and index were not embedded alike; distances between them would mean nothing."""


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that an operator must see, beside the error that the caller gets."""

    kind: Literal["fingerprint_mismatch"]
    chunk_set: str
    expected: str
    found: str


def log_alert(alert: Alert) -> None:
    """The default for alerts: an error in the log, without anything of the query or of a document."""
    _LOG.error("%s in %s: expected %s, found %s", alert.kind, alert.chunk_set, alert.expected, alert.found)


@dataclass(frozen=True, slots=True)
class RetrieverConfig:
    """Which stages run, and their parameters.

    `depth` candidates are taken of each arm; `rrf_k` is the constant of the fusion. `min_passages` is the least number
    of passages without which there is no evidence to judge. With `require_both`, a chunk that only one of the dense
    and the lexical index has is dropped. `max_overlap` turns diversification on. When the reranker fails, at most
    `degraded_k` passages come back (None: half of k); with `high_risk`, none.
    """

    chunk_set: str
    arms: tuple[Arm, ...] = ("dense", "lexical")
    depth: int = 50
    rrf_k: float = 60.0
    rerank_seconds: float = 2.0
    min_passages: int = 1
    require_both: bool = True
    max_overlap: float | None = None
    per_document: int | None = None
    high_risk: bool = False
    degraded_k: int | None = None
    dimension: int | None = None

    def __post_init__(self) -> None:
        problems = {
            "arms: one or more of dense, lexical and fulltext, each once": not self.arms
            or len(set(self.arms)) != len(self.arms)
            or not set(self.arms) <= set(ARMS),
            "depth from 1 to 1,000": not 1 <= self.depth <= 1_000,
            "rerank_seconds above 0": not self.rerank_seconds > 0,
            "min_passages of at least 1": self.min_passages < 1,
            "degraded_k of at least 1": self.degraded_k is not None and self.degraded_k < 1,
        }
        wrong = [rule for rule, broken in problems.items() if broken]
        if wrong:
            raise QueryError("The retriever cannot be configured so", expected="; ".join(wrong), found=repr(self))

    @property
    def both_indexes(self) -> bool:
        """Whether chunks have to be in the dense and in the lexical index."""
        return self.require_both and {"dense", "lexical"} <= set(self.arms)

    @property
    def digest(self) -> str:
        """What identifies the configuration."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Retrieved:
    """One passage of an answer. `ranks` are those that the arms gave it."""

    rank: int
    passage: Passage
    tenant: str
    fused_score: float
    rerank_score: float | None
    ranks: Mapping[str, int]
    standing: Standing | None = None

    def to_json(self) -> dict[str, Any]:
        """With the passage's text: for the caller, who may read it. Ids are text, since JSON's numbers end at 2^53."""
        passage = self.passage
        return {
            "rank": self.rank,
            "tenant": self.tenant,
            "document_id": passage.document_id,
            "document_version": passage.document_version,
            "chunk_id": str(passage.chunk_id),
            "char_start": passage.char_start,
            "char_end": passage.char_end,
            "pages": [passage.page_first, passage.page_last],
            "pages_real": passage.pages_real,
            "section": passage.section_path,
            "fused_score": self.fused_score,
            "rerank_score": self.rerank_score,
            "ranks": dict(self.ranks),
            "standing": self.standing.describe() if self.standing is not None and self.standing.marked else None,
            "text": passage.text,
        }


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """Passages, or the reason why there are none; `shortfall` where they are fewer than asked for."""

    passages: tuple[Retrieved, ...]
    abstention: Abstention | None
    shortfall: Shortfall | None
    trace: Trace
    best_scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def degraded(self) -> bool:
        """Whether a stage gave less than it should."""
        return bool(self.trace.degradations)
