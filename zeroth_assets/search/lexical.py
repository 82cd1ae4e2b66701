"""The lexical arm: BM25 over the postings of the tenants that the principal may see.

What belongs here: asking the database which tenants those are, searching their postings alone, and reading every hit
again as `zeroth_app`. Row-level security does not reach a file, so neither step can be left out.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.errors import QueryError
from zeroth_assets.search.bm25 import Hit
from zeroth_assets.search.explanation import Explanation
from zeroth_assets.search.model import Candidate, Shortfall, StageResult, counted
from zeroth_assets.search.passages import Key, present
from zeroth_assets.search.query_text import checked_k, checked_query
from zeroth_assets.search.scoring import Scoring
from zeroth_assets.search.sessions import Sessions, permitted
from zeroth_assets.search.shelf import PostingsShelf, Shelved, artefact_name
from zeroth_assets.store.registry import ChunkSet

STAGE = "lexical"


class NoTermsError(QueryError):
    """The query holds nothing that the analyser takes for a term."""


@dataclass(frozen=True, slots=True)
class LexicalResult:
    """What the stage found, and the index that it asked, for explanations and for what else is in it."""

    stage: StageResult
    shelved: Shelved
    permitted: dict[str, int]

    @property
    def fingerprint(self) -> str:
        """What the scores stand on: analyser, scoring and the builds of the postings."""
        index = self.shelved.index
        scoring = index.scoring
        return (
            f"{index.analyser.identity} {scoring.idf} k1={scoring.k1:g} b={scoring.b:g} {self.shelved.fingerprint[:16]}"
        )

    def lacking(self, keys: Collection[Key]) -> set[Key]:
        """Those of the chunks that the postings do not hold."""
        postings = {self.permitted[tenant]: opened.postings for tenant, opened in self.shelved.opened.items()}
        return {
            (tenant_id, chunk_id)
            for tenant_id, chunk_id in keys
            if tenant_id not in postings or postings[tenant_id].place(chunk_id) is None
        }

    def explain(self, query: str, chunk_id: int) -> Explanation:
        """The arithmetic of a score, over the permitted tenants.

        Raises:
            QueryError: there is no such chunk among them.
        """
        return self.shelved.index.explain(checked_query(query), chunk_id)


class LexicalRetriever:
    """BM25 for one chunk set. Holds no principal's data between queries but what `PostingsShelf` says."""

    def __init__(
        self,
        sessions: Sessions,
        store: ArtefactStore,
        chunk_set: str,
        *,
        dimension: int | None = None,
        scoring: Scoring | None = None,
        shelf: PostingsShelf | None = None,
    ) -> None:
        self.sessions = sessions
        self.chunk_set = chunk_set
        self._dimension = dimension
        self._target: ChunkSet | None = None
        self._shelf = shelf or PostingsShelf(store, chunk_set, scoring)

    def search(self, principal: str, query: str, k: int = 10) -> StageResult:
        """At most `k` chunks that hold a term of `query`, that `principal` may see and that are there now.

        Raises:
            QueryError: principal, query or k is refused; or the query holds nothing that can be searched for.
            ArtefactError: postings are damaged.
            DatabaseError: the database failed.
        """
        return self.search_in_detail(principal, query, k).stage

    def search_in_detail(self, principal: str, query: str, k: int = 10) -> LexicalResult:
        """As `search`, with the index that was asked."""
        query, k = checked_query(query), checked_k(k)
        target = self._table()
        began = time.perf_counter()
        with self.sessions.session(principal, f"searching {self.chunk_set} by words") as connection:
            tenants = permitted(connection)
            asked = time.perf_counter()
            shelved = self._shelf.index_for(tenants)
            opened = time.perf_counter()
            terms = _terms(shelved, query)
            kept: list[tuple[Hit, Key]] = []
            ranked_seconds, read_seconds, depth, dropped = 0.0, 0.0, k, 0
            while True:
                started = time.perf_counter()
                hits = shelved.index.search_terms(terms, depth)
                ranked = time.perf_counter()
                keys = [(tenants[hit.tenant], hit.chunk_id) for hit in hits]
                there = present(connection, target, keys)
                kept = [(hit, key) for hit, key in zip(hits, keys, strict=True) if key in there]
                ranked_seconds += ranked - started
                read_seconds += time.perf_counter() - ranked
                dropped = len(hits) - len(kept)
                # Stale postings must not cost live hits their place.
                if len(kept) >= k or len(hits) < depth or depth >= 64 * k:
                    break
                depth *= 4
        kept = kept[:k]
        candidates = tuple(
            Candidate(chunk_id=hit.chunk_id, tenant_id=key[0], rank=rank, score=hit.score)
            for rank, (hit, key) in enumerate(kept, 1)
        )
        stage = StageResult(
            stage=STAGE,
            candidates=candidates,
            shortfall=_shortfall(k, len(candidates), tenants, depth, dropped),
            seconds={
                "permitted": asked - began,
                "open": opened - asked,
                "search": ranked_seconds,
                "re-read": read_seconds,
            },
            plan=(
                f"BM25 over {len(shelved.opened)} of {counted(len(tenants), 'tenant')},"
                f" {counted(shelved.index.chunks, 'chunk')}"
            ),
            degraded=_degraded(shelved, dropped, artefact_name(self.chunk_set)),
            counts={
                "tenants": len(tenants),
                "tenants_without_postings": len(shelved.missing),
                "dropped_not_there": dropped,
            },
        )
        return LexicalResult(stage, shelved, tenants)

    def _table(self) -> ChunkSet:
        if self._target is None:
            self._target = self.sessions.chunk_set(self.chunk_set, self._dimension)
        return self._target


def _terms(shelved: Shelved, query: str) -> list[str]:
    try:
        return shelved.index.query_terms(query)
    except QueryError as error:
        raise NoTermsError(error.what, expected=error.expected, found=error.found, remedy=error.remedy) from error


def _shortfall(k: int, returned: int, tenants: dict[str, int], depth: int, dropped: int) -> Shortfall | None:
    if not tenants:
        return Shortfall(k, 0, "no_tenant")
    if returned >= k:
        return None
    # Fewer chunks than k hold a word of the query: all that there is, unless stale postings stood before the rest.
    return Shortfall(k, returned, "fewer_rows_than_k" if dropped + returned < depth else "scan_bound_reached")


def _degraded(shelved: Shelved, dropped: int, artefact: str) -> str | None:
    reasons = []
    if shelved.missing:
        reasons.append(
            f"no postings of {counted(len(shelved.missing), 'permitted tenant')}:"
            f" run `zeroth materialize --asset {artefact}`"
        )
    if dropped:
        reasons.append(f"{counted(dropped, 'hit')} of the postings not in the database any more")
    return "; ".join(reasons) or None
