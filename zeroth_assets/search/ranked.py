"""From passages in fused order to an answer: reranked, in the right order, cut to k, or withheld.

What belongs here: the stages that come after the text was read, and what becomes of the answer when one of them fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from zeroth_assets.search.abstention import Abstention, ScoreSource, Threshold
from zeroth_assets.search.diversify import diversify
from zeroth_assets.search.fusion import Fused
from zeroth_assets.search.model import Shortfall, counted
from zeroth_assets.search.passages import Key, Passage
from zeroth_assets.search.rerank import Reranker, RerankError, rerank_within
from zeroth_assets.search.retriever_model import RetrievalResult, Retrieved, RetrieverConfig
from zeroth_assets.search.supersession import Lineage, Standing, put_successors_first
from zeroth_assets.search.trace import RerankTrace, Trace


@dataclass(frozen=True, slots=True)
class Ranked:
    """What the arms found, fused and read. `passages` are in fused order; `tenants` maps tenant id to key; `gone` are
    candidates that could not be read any more."""

    query: str
    k: int
    tenants: Mapping[int, str]
    passages: list[Passage]
    fused: Mapping[Key, Fused[Key]]
    trace: Trace
    gone: frozenset[Key] = frozenset()


def finish(
    ranked: Ranked,
    config: RetrieverConfig,
    reranker: Reranker | None,
    threshold: Threshold | None,
    lineage: Lineage,
    lap: Callable[[str], None],
) -> RetrievalResult:
    """The answer. `lap` is told each stage as it ends.

    Raises:
        QueryError: the threshold was calibrated on other scores.
    """
    # Where the arms alone say that there is nothing, no model is asked.
    abstention = _too_few(ranked, config) or _judged(ranked, threshold, _best_dense(ranked), "dense")
    reranked = None
    passages = ranked.passages
    if reranker is not None and abstention is None:
        reranked, passages = _reranked(ranked, reranker, config)
        lap("rerank")
    failed = reranked is not None and reranked.failure is not None
    passages, deferred = _diverse(passages, config)
    passages, standings, moved = _standing(passages, lineage, ranked.k)
    lap("order")
    best = _best_dense(ranked)
    if reranked is not None and reranked.scores:
        best["reranker"] = max(reranked.scores.values())
    if failed and config.high_risk and reranked is not None:
        abstention = Abstention("reranker_unavailable", reranked.failure or "")
    elif not failed:
        abstention = abstention or _judged(ranked, threshold, best, "reranker")
    limit = (config.degraded_k or max(1, ranked.k // 2)) if failed else ranked.k
    kept = passages[: min(limit, ranked.k)]
    shortfall = _shortfall(ranked, len(passages))
    trace = replace(
        ranked.trace,
        rerank=reranked,
        deferred=deferred,
        moved=moved,
        order=tuple(passage.key for passage in kept),
        abstention=abstention,
        shortfall=shortfall,
        degradations=_degradations(ranked.trace, reranked, threshold),
    )
    answer = () if abstention is not None else _answer(ranked, kept, standings, reranked)
    return RetrievalResult(answer, abstention, shortfall, trace, best)


def _reranked(ranked: Ranked, reranker: Reranker, config: RetrieverConfig) -> tuple[RerankTrace, list[Passage]]:
    passages = ranked.passages
    shortlist = min(len(passages), reranker.shortlist)
    try:
        found = rerank_within(reranker, ranked.query, passages, config.rerank_seconds)
    except RerankError as error:
        failure = error.what if not error.found else f"{error.what}: {error.found}"
        return RerankTrace(reranker.identity, shortlist, failure=failure), passages
    scores = {passages[place].key: score for place, score in enumerate(found.scores)}
    trace = RerankTrace(reranker.identity, shortlist, scores, found.truncated)
    return trace, [*(passages[place] for place in found.order), *passages[len(found.order) :]]


def _diverse(passages: list[Passage], config: RetrieverConfig) -> tuple[list[Passage], tuple[Key, ...]]:
    if config.max_overlap is None:
        return passages, ()
    found = diversify(passages, max_overlap=config.max_overlap, per_document=config.per_document)
    return [passages[place] for place in found.order], tuple(passages[place].key for place in found.deferred)


def _standing(
    passages: list[Passage], lineage: Lineage, k: int
) -> tuple[list[Passage], dict[Key, Standing], tuple[Key, ...]]:
    found = put_successors_first(passages, lineage, within=k)
    standings = {passage.key: standing for passage, standing in zip(passages, found.standings, strict=True)}
    return (
        [passages[place] for place in found.order],
        standings,
        tuple(passages[place].key for place in found.moved),
    )


def _best_dense(ranked: Ranked) -> dict[str, float]:
    """The best score of the dense arm; nothing where it found nothing. What is gone is no evidence, so neither is its
    score."""
    return {
        stage.stage: candidate.score
        for stage in ranked.trace.stages
        if stage.stage == "dense"
        for candidate in [next((c for c in stage.candidates if (c.tenant_id, c.chunk_id) not in ranked.gone), None)]
        if candidate is not None
    }


def _too_few(ranked: Ranked, config: RetrieverConfig) -> Abstention | None:
    count = len(ranked.passages)
    if count >= config.min_passages:
        return None
    if any(s.shortfall is not None and s.shortfall.reason == "no_tenant" for s in ranked.trace.stages):
        return Abstention("no_tenant", "the principal's grants were revoked while the query ran")
    detail = f"{counted(count, 'passage')} where at least {config.min_passages} must be there to judge"
    return Abstention("insufficient_candidates", detail)


def _judged(
    ranked: Ranked, threshold: Threshold | None, best: Mapping[str, float], source: ScoreSource
) -> Abstention | None:
    """What the threshold says, if it stands on scores of this source."""
    if threshold is None or threshold.source != source:
        return None
    if source not in best:
        # That an arm came back empty is no judgment of the evidence.
        return Abstention("insufficient_candidates", f"no {source} score to judge by")
    return threshold.decide(best[source], ranked.trace.fingerprints)


def _shortfall(ranked: Ranked, found: int) -> Shortfall | None:
    if found >= ranked.k:
        return None
    short = [stage.shortfall for stage in ranked.trace.stages]
    missed = [one.reason for one in short if one is not None and not one.complete]
    if not missed and any(one is not None and one.reason == "no_tenant" for one in short):
        missed = ["no_tenant"]
    elif not missed and ranked.trace.dropped and None in short:
        # An arm that was full could have given others in place of what was dropped.
        missed = ["scan_bound_reached"]
    return Shortfall(ranked.k, found, missed[0] if missed else "fewer_rows_than_k")


def _degradations(trace: Trace, reranked: RerankTrace | None, threshold: Threshold | None) -> tuple[str, ...]:
    reasons = [f"{stage.stage}: {stage.degraded}" for stage in trace.stages if stage.degraded]
    reasons += [
        f"{stage.stage}: {stage.shortfall.returned} of {counted(stage.shortfall.asked, 'candidate')},"
        f" {stage.shortfall.reason}"
        for stage in trace.stages
        if stage.shortfall is not None and not stage.shortfall.complete
    ]
    if trace.dropped.get("gone_when_read"):
        reasons.append(f"{counted(trace.dropped['gone_when_read'], 'candidate')} gone when read")
    if reranked is not None and reranked.failure is not None:
        reasons.append(f"reranker: {reranked.failure}")
        if threshold is not None and threshold.source == "reranker":
            reasons.append("abstention: the threshold could not be applied")
    return tuple(reasons)


def _answer(
    ranked: Ranked, kept: list[Passage], standings: Mapping[Key, Standing], reranked: RerankTrace | None
) -> tuple[Retrieved, ...]:
    return tuple(
        Retrieved(
            rank=rank,
            passage=passage,
            tenant=ranked.tenants[passage.tenant_id],
            fused_score=ranked.fused[passage.key].score,
            rerank_score=None if reranked is None else reranked.scores.get(passage.key),
            ranks={part.ranking: part.rank for part in ranked.fused[passage.key].contributions},
            standing=standings[passage.key],
        )
        for rank, passage in enumerate(kept, 1)
    )
