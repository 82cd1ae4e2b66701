"""The retriever: one pipeline, and its behaviour where something is short, stale, down, weak or revoked."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from psycopg import sql
from rich.console import Console

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.errors import EmbeddingError, QueryError
from zeroth_assets.search.abstention import Threshold
from zeroth_assets.search.lexical import NoTermsError
from zeroth_assets.search.model import Candidate, Shortfall, StageResult
from zeroth_assets.search.passages import Passage
from zeroth_assets.search.rerank import RerankError, RerankResult
from zeroth_assets.search.retriever import Retriever
from zeroth_assets.search.retriever_model import Alert, FingerprintMismatchError, RetrievalResult, RetrieverConfig
from zeroth_assets.search.supersession import Lineage
from zeroth_assets.search.trace_view import render_trace
from zeroth_assets.store.acl import UnknownPrincipalError, grant, revoke
from zeroth_assets.store.connect import Database
from zeroth_assets_tests.search.corpus import CHUNK_SET, chunks_of, filled, hashed, post, put, tenant_ids
from zeroth_assets_tests.search.test_supersession import record

IDLE = "idle timeout of a connection"


@dataclass(frozen=True)
class Print:
    digest: str = "print-1"


@dataclass
class HashedWords:
    """An encoder without a model."""

    fingerprint: Print = Print()
    limit: int = 200_000

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if len(texts[0]) > self.limit:
            raise EmbeddingError("too long", expected="less", found="more")
        return hashed(texts)


@dataclass
class Scorer:
    """A reranker that does what it is told."""

    answer: Callable[[Sequence[Passage]], Sequence[float]]
    shortlist: int = 20
    identity: str = "scorer/1"
    asked: int = 0

    def rerank(self, query: str, passages: Sequence[Passage], budget_seconds: float) -> RerankResult:
        self.asked += 1
        return RerankResult(tuple(self.answer(passages)))


def backwards() -> Scorer:
    return Scorer(lambda passages: [float(place) for place in range(len(passages))])


def broken() -> Scorer:
    def fail(passages: Sequence[Passage]) -> Sequence[float]:
        raise RerankError("The reranker is down")

    return Scorer(fail)


@pytest.fixture(scope="module")
def store(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> ArtefactStore:
    return filled(module_database, tmp_path_factory.mktemp("artefacts"))


Make = Callable[..., Retriever]


@pytest.fixture
def make(module_database: Database, store: ArtefactStore) -> Iterator[Make]:
    made: list[Retriever] = []

    def build(**more: Any) -> Retriever:
        parts = {name: more.pop(name) for name in [*more] if name in PARTS}
        config = RetrieverConfig(CHUNK_SET, **more)
        made.append(Retriever(module_database, store, config, **{"encoder": HashedWords(), **parts}))
        return made[-1]

    yield build
    for retriever in made:
        retriever.close()


PARTS = ("encoder", "dense", "reranker", "threshold", "lineage", "on_alert")


def texts(result: RetrievalResult) -> list[str]:
    return [one.passage.text for one in result.passages]


def test_both_arms_are_fused_and_every_passage_is_one_that_the_principal_may_see(make: Make) -> None:
    result = make().search("rfc-quic", IDLE, k=3)
    assert "idle timeout" in texts(result)[0]
    assert {one.tenant for one in result.passages} == {"rfc-quic"}
    assert [one.rank for one in result.passages] == [1, 2, 3]
    first = result.passages[0]
    assert first.fused_score == pytest.approx(sum(1 / (60 + rank) for rank in first.ranks.values()))
    everything = make().search("all", "idle timeout, termination and glass", k=11)
    scores = [one.fused_score for one in everything.passages]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 11
    assert result.shortfall is None
    assert not result.degraded
    assert {"access", "embedding", "dense", "lexical", "fusion", "re-read", "total"} <= set(result.trace.seconds)


@pytest.mark.parametrize(
    "arms", [("dense",), ("lexical",), ("fulltext",), ("lexical", "fulltext"), ("dense", "fulltext")]
)
def test_each_stage_is_optional(make: Make, arms: tuple[str, ...]) -> None:
    result = make(arms=arms).search("rfc-quic", IDLE, k=2)
    assert tuple(stage.stage for stage in result.trace.stages) == arms
    assert "idle timeout" in texts(result)[0]


def test_a_principal_never_gets_anothers_passage_whatever_it_asks(make: Make) -> None:
    retriever = make()
    for question in ("royalty five percent", "supplier of glass", IDLE):
        for principal in ("cuad-licence", "sec-acme", "rfc-quic"):
            assert {one.tenant for one in retriever.search(principal, question).passages} <= {principal}


# 1. Query and index were not embedded alike ---------------------------------------------------------------------------


def test_a_query_of_another_model_is_refused_and_an_alert_is_raised(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    alerts: list[Alert] = []
    other = HashedWords(Print("print-2"))
    with pytest.raises(FingerprintMismatchError, match="not embedded alike"):
        make(encoder=other, on_alert=alerts.append).search("rfc-quic", IDLE)
    assert alerts == [Alert("fingerprint_mismatch", CHUNK_SET, "print-2", "print-1")]
    with caplog.at_level(logging.ERROR), pytest.raises(FingerprintMismatchError):
        make(encoder=other).search("rfc-quic", IDLE)
    assert "fingerprint_mismatch" in caplog.text
    assert "idle" not in caplog.text
    assert make(encoder=other, arms=("lexical",)).search("rfc-quic", IDLE).passages


# 2. Fewer rows than asked for -----------------------------------------------------------------------------------------


def test_a_shortfall_is_reported_and_never_filled_with_what_the_caller_may_not_see(make: Make) -> None:
    result = make().search("sec-acme", "idle timeout capacity", k=10)
    assert len(result.passages) == 2
    assert result.shortfall == Shortfall(10, 2, "fewer_rows_than_k")
    assert {one.tenant for one in result.passages} == {"sec-acme"}


def test_too_few_passages_are_no_evidence_and_no_model_is_asked(make: Make) -> None:
    scorer = backwards()
    result = make(min_passages=3, reranker=scorer).search("sec-acme", IDLE)
    assert result.passages == ()
    assert result.abstention is not None
    assert result.abstention.reason == "insufficient_candidates"
    assert result.shortfall is not None
    assert scorer.asked == 0


@dataclass
class Short:
    """A dense arm whose index came back short."""

    candidates: tuple[Candidate, ...] = ()

    def search(self, principal: str, vector: NDArray[np.float32], k: int) -> StageResult:
        return StageResult("dense", self.candidates, Shortfall(k, len(self.candidates), "index_exhausted"))

    def close(self) -> None:
        pass


def test_an_index_that_stops_early_degrades_the_answer_and_is_no_weak_evidence(make: Make) -> None:
    result = make(dense=Short()).search("rfc-quic", IDLE, k=9)
    assert result.passages
    assert result.shortfall is not None
    assert result.shortfall.reason == "index_exhausted"
    assert not result.shortfall.complete
    assert any("index_exhausted" in reason for reason in result.trace.degradations)
    judged = make(dense=Short(), threshold=threshold("dense", 0.5)).search("rfc-quic", IDLE)
    assert judged.abstention is not None
    assert judged.abstention.reason == "insufficient_candidates"


# 3. Two indexes that disagree -----------------------------------------------------------------------------------------


def test_a_chunk_that_only_one_index_has_counts_as_not_indexed(
    make: Make, module_database: Database, store: ArtefactStore
) -> None:
    chunks = chunks_of("rfc-quic", {"rfc:30": ["alpha beta one", "alpha beta two", "alpha beta three"]})
    put(module_database, "rfc-torn", chunks.head(2))
    post(store, "rfc-torn", chunks.tail(2))
    result = make().search("rfc-torn", "alpha beta")
    assert texts(result) == ["alpha beta two"]
    assert result.trace.dropped == {"not_in_postings": 1}
    assert any("not in the database" in reason for reason in result.trace.degradations)
    assert any("not in the postings" in reason for reason in result.trace.degradations)
    assert len(make(require_both=False).search("rfc-torn", "alpha beta").passages) == 2
    post(store, "rfc-torn", chunks)
    put(module_database, "rfc-torn", chunks)
    assert len(make().search("rfc-torn", "alpha beta").passages) == 3


# 4. The reranker is down ----------------------------------------------------------------------------------------------


def test_a_reranker_reorders_and_its_scores_are_in_the_answer(make: Make) -> None:
    fused = make().search("rfc-quic", IDLE, k=6)
    reranked = make(reranker=backwards()).search("rfc-quic", IDLE, k=6)
    assert texts(reranked) == texts(fused)[::-1]
    assert [one.rerank_score for one in reranked.passages] == sorted(
        (one.rerank_score or 0.0 for one in reranked.passages), reverse=True
    )
    behind = make(reranker=Scorer(lambda p: [0.0, 1.0], shortlist=2)).search("rfc-quic", IDLE, k=6)
    assert texts(behind) == [texts(fused)[1], texts(fused)[0], *texts(fused)[2:]]


def slow() -> Scorer:
    def late(passages: Sequence[Passage]) -> Sequence[float]:
        time.sleep(0.05)
        return [0.0] * len(passages)

    return Scorer(late)


@pytest.mark.parametrize(("reranker", "named"), [(broken, "down"), (slow, "too slow")])
def test_without_its_reranker_the_fused_order_is_answered_shorter_and_marked(
    make: Make, reranker: Callable[[], Scorer], named: str
) -> None:
    fused = make().search("rfc-quic", IDLE, k=4)
    result = make(reranker=reranker(), rerank_seconds=0.01).search("rfc-quic", IDLE, k=4)
    assert texts(result) == texts(fused)[:2]
    assert any(named in reason for reason in result.trace.degradations)
    assert result.trace.rerank is not None
    assert result.trace.rerank.failure is not None
    assert len(make(reranker=broken(), degraded_k=1).search("rfc-quic", IDLE, k=4).passages) == 1


def test_a_high_risk_profile_abstains_without_its_reranker(make: Make) -> None:
    result = make(reranker=broken(), high_risk=True).search("rfc-quic", IDLE)
    assert result.passages == ()
    assert result.abstention is not None
    assert result.abstention.reason == "reranker_unavailable"


def test_a_threshold_on_the_rerankers_score_is_not_applied_without_it_and_the_trace_says_so(make: Make) -> None:
    result = make(reranker=broken(), threshold=threshold("reranker", 0.99)).search("rfc-quic", IDLE)
    assert result.passages
    assert any("threshold could not be applied" in reason for reason in result.trace.degradations)


# 5. Superseded sources ------------------------------------------------------------------------------------------------


def test_superseded_text_stands_behind_its_successor_and_is_marked(make: Make) -> None:
    plain = make().search("rfc-quic", IDLE, k=6)
    first = plain.passages[0].passage.document_id
    other = next(one.passage.document_id for one in plain.passages if one.passage.document_id != first)
    lineage = Lineage.of([record(first, date="2001", obsoleted_by=(other,)), record(other, date="2011")])
    result = make(lineage=lineage).search("rfc-quic", IDLE, k=6)
    documents = [one.passage.document_id for one in result.passages]
    assert documents == sorted(documents, key=lambda document: document == first)
    last = result.passages[-1].standing
    assert last is not None
    assert last.superseded_by == (other,)
    assert result.passages[-1].to_json()["standing"] == f"superseded by {other} (2001)"
    assert result.trace.moved


def test_related_documents_of_which_neither_supersedes_the_other_both_come_back_with_their_dates(make: Make) -> None:
    lineage = Lineage.of(
        [record("rfc:1", date="2001", status="STANDARD"), record("rfc:2", date="2011", updates=("rfc:1",))]
    )
    result = make(lineage=lineage).search("rfc-quic", IDLE, k=6)
    standings = {one.passage.document_id: one.to_json()["standing"] for one in result.passages}
    assert standings == {"rfc:1": "STANDARD, 2001; read with rfc:2", "rfc:2": "2011; read with rfc:1"}


# 6. Weak evidence -----------------------------------------------------------------------------------------------------


def threshold(source: Any, value: float, **more: str) -> Threshold:
    prints = {
        "chunk_set": CHUNK_SET,
        "encoder": "print-1",
        **({"reranker": "scorer/1"} if source == "reranker" else {}),
    }
    return Threshold(source, value, 0.05, 0.04, 0.01, 0.09, 0.95, 100, 100, 0.9, "calibration", {**prints, **more})


def test_weak_evidence_is_withheld_before_any_model_is_asked(make: Make) -> None:
    scorer = backwards()
    weak = make(threshold=threshold("dense", 1.01), reranker=scorer).search("rfc-quic", IDLE)
    assert weak.passages == ()
    assert weak.abstention is not None
    assert (weak.abstention.reason, weak.abstention.threshold) == ("weak_evidence", 1.01)
    assert scorer.asked == 0
    assert make(threshold=threshold("dense", 0.1), reranker=scorer).search("rfc-quic", IDLE).passages
    assert scorer.asked == 1
    by_reranker = make(threshold=threshold("reranker", 99.0), reranker=backwards()).search("rfc-quic", IDLE)
    assert by_reranker.abstention is not None
    assert by_reranker.best_scores["reranker"] == by_reranker.abstention.score


def test_a_threshold_of_other_models_is_refused_before_anything_is_searched(make: Make) -> None:
    with pytest.raises(QueryError, match="other scores"):
        make(threshold=threshold("dense", 0.5, encoder="print-9")).search("rfc-quic", IDLE)
    with pytest.raises(QueryError, match="not configured"):
        make(threshold=threshold("reranker", 0.5))
    with pytest.raises(QueryError, match="not configured"):
        make(threshold=threshold("dense", 0.5), arms=("lexical",))


# 7. Revoked permission ------------------------------------------------------------------------------------------------


def test_a_revoked_permission_is_gone_for_the_next_query(make: Make, module_database: Database) -> None:
    retriever = make()
    grant(module_database, "reader", ["rfc-quic", "cuad-licence"])
    question = "idle timeout, royalty and termination of the agreement"
    assert {one.tenant for one in retriever.search("reader", question).passages} == {"rfc-quic", "cuad-licence"}
    revoke(module_database, "reader", ["rfc-quic"])
    assert {one.tenant for one in retriever.search("reader", question).passages} == {"cuad-licence"}
    revoke(module_database, "reader")
    nothing = retriever.search("reader", question)
    assert nothing.passages == ()
    assert nothing.abstention is not None
    assert nothing.abstention.reason == "no_tenant"
    with pytest.raises(UnknownPrincipalError):
        retriever.search("stranger", question)


def test_what_is_revoked_while_the_query_runs_does_not_leave_it(make: Make, module_database: Database) -> None:
    grant(module_database, "passing", ["rfc-quic", "cuad-licence"])
    ids = tenant_ids(module_database)
    with module_database.admin() as connection:
        found = connection.execute(
            sql.SQL("select chunk_id from zeroth.chunk_1 where tenant_id = {}").format(sql.Literal(ids["rfc-quic"]))
        ).fetchall()

    class Revoking(Short):
        def search(self, principal: str, vector: NDArray[np.float32], k: int) -> StageResult:
            revoke(module_database, "passing", ["rfc-quic"])
            return super().search(principal, vector, k)

    stale = tuple(Candidate(row[0], ids["rfc-quic"], rank, 0.9) for rank, row in enumerate(found, 1))
    result = make(dense=Revoking(stale), arms=("dense",)).search("passing", IDLE)
    assert result.passages == ()
    assert result.trace.dropped == {"gone_when_read": len(stale)}


def meanwhile(retriever: Retriever, act: Callable[[], object], *, before: bool) -> None:
    """Let something happen before the arms search, or after."""
    search = retriever._arms.search

    def interrupted(*arguments: Any) -> Any:
        if before:
            act()
        found = search(*arguments)
        if not before:
            act()
        return found

    retriever._arms.search = interrupted  # type: ignore[method-assign,assignment]


def test_a_score_of_what_was_revoked_meanwhile_decides_nothing(make: Make, module_database: Database) -> None:
    grant(module_database, "leaving", ["rfc-quic", "cuad-licence"])
    whole = make().search("leaving", IDLE)
    retriever = make()
    meanwhile(retriever, lambda: revoke(module_database, "leaving", ["rfc-quic"]), before=False)
    left = retriever.search("leaving", IDLE)
    assert {one.tenant for one in left.passages} == {"cuad-licence"}
    assert left.best_scores == make().search("leaving", IDLE).best_scores
    assert left.best_scores["dense"] < whole.best_scores["dense"]


def test_a_tenant_that_is_granted_meanwhile_is_none_of_the_query(make: Make, module_database: Database) -> None:
    grant(module_database, "coming", ["cuad-licence"])
    before = make().search("coming", IDLE)
    retriever = make()
    meanwhile(retriever, lambda: grant(module_database, "coming", ["rfc-quic"]), before=True)
    result = retriever.search("coming", IDLE)
    mine = tenant_ids(module_database)["cuad-licence"]
    assert {c.tenant_id for stage in result.trace.stages for c in stage.candidates} == {mine}
    assert [c.rank for c in result.trace.stages[0].candidates] == [1, 2, 3]
    assert result.best_scores == before.best_scores


@pytest.mark.parametrize("before", [True, False])
def test_grants_that_all_end_meanwhile_are_no_lack_of_evidence(
    make: Make, module_database: Database, before: bool
) -> None:
    grant(module_database, "ending", ["rfc-quic", "cuad-licence"])
    retriever = make()
    meanwhile(retriever, lambda: revoke(module_database, "ending"), before=before)
    result = retriever.search("ending", IDLE)
    assert (result.passages, result.best_scores) == ((), {})
    assert result.abstention is not None
    assert result.abstention.reason == ("no_tenant" if before else "insufficient_candidates")
    assert result.shortfall is not None
    assert result.shortfall.reason == ("no_tenant" if before else "fewer_rows_than_k")


def test_a_shortfall_is_not_complete_where_candidates_were_dropped_and_an_arm_was_full(
    make: Make, module_database: Database, store: ArtefactStore
) -> None:
    chunks = chunks_of("rfc-quic", {"rfc:7": [f"idle timeout number {n}" for n in range(6)]})
    put(module_database, "rfc-behind", chunks)
    post(store, "rfc-behind", chunks.head(1))
    result = make(depth=3).search("rfc-behind", "idle timeout number", k=3)
    assert result.shortfall is not None
    assert not result.shortfall.complete


# The trace ------------------------------------------------------------------------------------------------------------


def test_the_trace_is_plain_json_and_readable_and_holds_no_text(make: Make) -> None:
    result = make(reranker=backwards(), max_overlap=0.1).search("rfc-quic", IDLE, k=4)
    payload = json.loads(json.dumps(result.trace.to_json(), allow_nan=False))
    console = Console(record=True, width=200, file=io.StringIO())
    console.print(render_trace(result.trace))
    shown = console.export_text()
    for words in ("transport parameters", "milliseconds", IDLE):
        assert words not in json.dumps(payload)
        assert words not in shown
    assert payload["fused"][0]["contributions"][0]["rank"] == 1
    assert payload["stages"][1]["plan"].startswith("BM25 over 1 of 1 tenant, ")
    assert payload["order"][0]["chunk_id"] == str(result.passages[0].passage.chunk_id)
    assert payload["fingerprints"]["encoder"] == "print-1"
    assert "1/(60+1)" in shown
    assert "exact" in shown


def test_the_view_shows_abstentions_shortfalls_and_degradations(make: Make) -> None:
    result = make(reranker=broken(), high_risk=True, min_passages=1).search("sec-acme", "glass [bold]supplier")
    console = Console(record=True, width=200, file=io.StringIO())
    console.print(render_trace(result.trace))
    shown = console.export_text()
    assert "abstained, reranker_unavailable" in shown
    assert "2 of 10: fewer rows than k (complete)" in shown
    assert "degraded: reranker: The reranker is down" in shown


def test_neighbours_that_overlap_do_not_fill_the_top_where_that_is_asked(
    make: Make, module_database: Database, store: ArtefactStore
) -> None:
    chunks = chunks_of(
        "rfc-quic", {"rfc:40": ["needle in a haystack", "needle in the hay", "needle"], "rfc:41": ["a needle"]}
    )
    overlapping = chunks.with_columns(char_start=chunks["char_start"] // 4)
    put(module_database, "rfc-dense", overlapping)
    post(store, "rfc-dense", overlapping)
    spread = make(max_overlap=0.1).search("rfc-dense", "needle", k=2)
    assert {one.passage.document_id for one in spread.passages} == {"rfc:40", "rfc:41"}
    assert len(spread.trace.deferred) == 2


# Bad input and configuration ------------------------------------------------------------------------------------------


def test_a_query_without_a_word_is_answered_by_meaning_or_refused(make: Make) -> None:
    result = make().search("rfc-quic", "?!")
    assert result.passages
    assert any("no word" in reason for reason in result.trace.degradations)
    with pytest.raises(NoTermsError):
        make(arms=("lexical",)).search("rfc-quic", "?!")


def test_a_query_that_the_encoder_cannot_read_is_a_typed_error(make: Make) -> None:
    with pytest.raises(QueryError, match="cannot be embedded"):
        make(encoder=HashedWords(limit=10)).search("rfc-quic", IDLE)
    assert make(arms=("lexical",), encoder=None).search("rfc-quic", f"{IDLE} " * 3_000).passages


@pytest.mark.parametrize(
    "config",
    [{"arms": ()}, {"arms": ("dense", "dense")}, {"arms": ("sparse",)}, {"depth": 0}, {"min_passages": 0},
     {"rerank_seconds": 0.0}, {"degraded_k": 0}],
)  # fmt: skip
def test_an_impossible_configuration_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match="cannot be configured"):
        RetrieverConfig(CHUNK_SET, **config)


def test_the_dense_arm_needs_an_encoder(make: Make) -> None:
    with pytest.raises(QueryError, match="no encoder"):
        make(encoder=None)


def test_several_callers_at_once_get_what_one_gets(make: Make) -> None:
    retriever = make()
    principals = ["rfc-quic", "cuad-licence", "sec-acme", "all"] * 4
    alone = {principal: texts(retriever.search(principal, IDLE)) for principal in set(principals)}
    with ThreadPoolExecutor(4) as callers:
        together = list(callers.map(lambda principal: texts(retriever.search(principal, IDLE)), principals))
    assert together == [alone[principal] for principal in principals]
    assert replace(retriever.config, depth=9).digest != retriever.config.digest
