"""One query from a verified principal to passages, or to the reason why there are none.

What belongs here: the order of the stages and what happens when one of them falls short. Each stage is another
module's: principal -> dense and lexical side by side -> fusion -> reading again under the policy -> reranking ->
diversification and supersession -> abstention.

Nothing of a principal is kept between queries, but postings by grants and builds (`shelf`). A permission that was
revoked is gone for the next query, since each asks the database who may see what.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.errors import QueryError
from zeroth_assets.search.abstention import Abstention, Threshold
from zeroth_assets.search.arms import Arms, Clock, DenseSearch
from zeroth_assets.search.dense import DenseRetriever
from zeroth_assets.search.fulltext import FullTextRetriever
from zeroth_assets.search.fusion import Fused, fuse
from zeroth_assets.search.lexical import LexicalRetriever
from zeroth_assets.search.model import StageResult
from zeroth_assets.search.passages import Key, Passage, read_passages
from zeroth_assets.search.path_model import PathCosts
from zeroth_assets.search.query_text import checked_k, checked_query
from zeroth_assets.search.ranked import Ranked, finish
from zeroth_assets.search.rerank import Reranker
from zeroth_assets.search.retriever_model import (
    Alert,
    FingerprintMismatchError,
    QueryEncoder,
    RetrievalResult,
    RetrieverConfig,
    log_alert,
)
from zeroth_assets.search.scoring import Scoring
from zeroth_assets.search.sessions import Sessions, permitted
from zeroth_assets.search.supersession import Lineage
from zeroth_assets.search.trace import Trace
from zeroth_assets.store.connect import Database

# Candidates that are read beyond the k asked for, since some will be gone, overlap or be superseded.
_SPARE = 2


class Retriever:
    """Searches one chunk set. Safe to call from several threads; close it, or use it as a context manager."""

    def __init__(
        self,
        db: Database,
        store: ArtefactStore,
        config: RetrieverConfig,
        *,
        encoder: QueryEncoder | None = None,
        dense: DenseSearch | None = None,
        costs: PathCosts | None = None,
        scoring: Scoring | None = None,
        reranker: Reranker | None = None,
        threshold: Threshold | None = None,
        lineage: Lineage | None = None,
        on_alert: Callable[[Alert], None] = log_alert,
    ) -> None:
        """Put the stages together. `dense` stands in for the one that is made of `db` and `costs`.

        Raises:
            QueryError: a stage lacks what it needs: the dense arm an encoder, a threshold its scores.
            DatabaseError: no such chunk set.
        """
        _check_stages(config, encoder, reranker, threshold)
        self.config = config
        self._encoder, self._reranker = encoder, reranker
        self._threshold, self._lineage, self._on_alert = threshold, lineage or Lineage(), on_alert
        self._sessions = Sessions(db)
        self._target = self._sessions.chunk_set(config.chunk_set, config.dimension)
        dimension = self._target.dimension
        if "dense" in config.arms and dense is None and encoder is not None:
            digest = encoder.fingerprint.digest
            dense = DenseRetriever(db, config.chunk_set, fingerprint_digest=digest, costs=costs, dimension=dimension)
        self._arms = Arms(
            config,
            encoder=encoder,
            dense=dense,
            lexical=LexicalRetriever(self._sessions, store, config.chunk_set, dimension=dimension, scoring=scoring),
            fulltext=FullTextRetriever(self._sessions, config.chunk_set, dimension=dimension),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._arms.close()
        self._sessions.close()

    def search(self, principal: str, query: str, k: int = 10) -> RetrievalResult:
        """The best passages that `principal` may see, at most `k`; none where the retriever abstains, with the reason.

        Raises:
            QueryError: principal, query or k is refused; query and index are of different fingerprints; the threshold
                was calibrated on other scores.
            ArtefactError: postings are damaged.
            DatabaseError: the database failed.
        """
        query, k = checked_query(query), checked_k(k)
        clock = Clock()
        tenants, fingerprints = self._admitted(principal)
        if self._threshold is not None and tenants:
            self._threshold.require(fingerprints)
        clock.lap("access")
        trace = Trace(
            principal=principal,
            query_sha256=hashlib.sha256(query.encode()).hexdigest(),
            query_characters=len(query),
            chunk_set=self.config.chunk_set,
            k=k,
            config_digest=self.config.digest,
            tenants=len(tenants),
            tenant_keys={tenant_id: key for key, tenant_id in tenants.items()},
            rrf_k=self.config.rrf_k,
            fingerprints=fingerprints,
        )
        if not tenants:
            nobody = Abstention("no_tenant", "the principal may read no tenant")
            return RetrievalResult((), nobody, None, replace(trace, abstention=nobody, seconds=clock.seconds()))
        found = self._arms.search(principal, query, max(self.config.depth, k), clock)
        if found.lexical is not None:
            trace = replace(trace, fingerprints={**fingerprints, "lexical": found.lexical.fingerprint})
        clock.start()
        stages = tuple(_of_tenants(stage, tenants.values()) for stage in found.stages)
        rankings = {stage.stage: [(c.tenant_id, c.chunk_id) for c in stage.candidates] for stage in stages}
        fused = fuse(rankings, k=self.config.rrf_k)
        clock.lap("fusion")
        passages, gone = self._read(principal, fused, k)
        clock.lap("re-read")
        dropped = {**found.dropped, "gone_when_read": len(gone)} if gone else found.dropped
        ranked = Ranked(
            query=query,
            k=k,
            tenants={tenant_id: key for key, tenant_id in tenants.items()},
            passages=passages,
            fused={one.id: one for one in fused},
            gone=gone,
            trace=replace(trace, stages=stages, fused=tuple(fused), dropped=dropped),
        )
        result = finish(ranked, self.config, self._reranker, self._threshold, self._lineage, clock.lap)
        return replace(result, trace=replace(result.trace, seconds=clock.seconds()))

    def explain(self, principal: str, query: str, chunk_ids: Sequence[int]) -> dict[int, list[str]]:
        """The arithmetic of BM25 for those of the chunks that `principal` may see and that are among the best 1,000.

        Raises:
            QueryError: principal or query is refused, or holds no term.
        """
        return self._arms.explain(principal, checked_query(query), chunk_ids)

    def _admitted(self, principal: str) -> tuple[dict[str, int], dict[str, str]]:
        """The principal's tenants by key, and what their rows were made with, if the query's encoder is of the same."""
        with self._sessions.session(principal, "asking what may be searched") as connection:
            tenants = permitted(connection)
            builds = connection.execute(
                "select tenant_id, index_build_id, fingerprint_digest, chunker_version from zeroth.index_build"
                " where chunk_set_id = %s and status = 'live' order by tenant_id",
                (self._target.chunk_set_id,),
            ).fetchall()
        live = sorted({str(build[2]) for build in builds})
        if self._encoder is not None and "dense" in self.config.arms:
            mine = self._encoder.fingerprint.digest
            if any(digest != mine for digest in live):
                found = ", ".join(live)
                self._on_alert(Alert("fingerprint_mismatch", self.config.chunk_set, expected=mine, found=found))
                raise FingerprintMismatchError(
                    f"Query and index of {self.config.chunk_set} were not embedded alike",
                    expected=f"fingerprint {mine} (the query)",
                    found=f"fingerprint {found} (the index)",
                    remedy="embed the query with the encoder of the index, or load the tenants anew",
                )
        stamps = "\n".join(f"{tenant_id} {build_id}" for tenant_id, build_id, _, _ in builds)
        return tenants, {
            "chunk_set": self.config.chunk_set,
            "encoder": ", ".join(live),
            "chunker": ", ".join(sorted({str(build[3]) for build in builds})),
            "builds": hashlib.sha256(stamps.encode()).hexdigest(),
            **({} if self._reranker is None else {"reranker": self._reranker.identity}),
        }

    def _read(self, principal: str, fused: Sequence[Fused[Key]], k: int) -> tuple[list[Passage], frozenset[Key]]:
        """The first of the fused candidates as they can be read now, in order, and those that were gone."""
        shortlist = self._reranker.shortlist if self._reranker is not None else 0
        wanted = max(_SPARE * k, shortlist, self.config.min_passages)
        passages: list[Passage] = []
        gone: set[Key] = set()
        at = 0
        while at < len(fused) and len(passages) < wanted:
            keys = [one.id for one in fused[at : at + wanted]]
            with self._sessions.session(principal, "reading what was found") as connection:
                there = read_passages(connection, self._target, keys)
            passages += [there[key] for key in keys if key in there]
            gone.update(key for key in keys if key not in there)
            at += wanted
        return passages, frozenset(gone)


def _of_tenants(stage: StageResult, admitted: Collection[int]) -> StageResult:
    """Without candidates of a tenant that was granted since the query began: it is none of this query's."""
    if all(candidate.tenant_id in admitted for candidate in stage.candidates):
        return stage
    kept = [candidate for candidate in stage.candidates if candidate.tenant_id in admitted]
    return replace(stage, candidates=tuple(replace(one, rank=rank) for rank, one in enumerate(kept, 1)))


def _check_stages(
    config: RetrieverConfig, encoder: QueryEncoder | None, reranker: Reranker | None, threshold: Threshold | None
) -> None:
    if "dense" in config.arms and encoder is None:
        raise QueryError("The dense arm has no encoder", expected="the encoder of the index", found="none")
    if threshold is None:
        return
    lacks = {"dense": "dense" not in config.arms, "reranker": reranker is None}[threshold.source]
    if lacks:
        raise QueryError(
            f"The threshold stands on scores of the {threshold.source}, which is not configured",
            expected=f"a retriever with a {threshold.source}",
            found=f"arms {', '.join(config.arms)}{'' if reranker is None else ' and a reranker'}",
        )
