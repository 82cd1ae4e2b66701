"""Rerankers: they reorder and can add nothing, keep to their time, and send text nowhere that others can read."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroth_assets.embedding import Encoder, find_model, load_encoder
from zeroth_assets.embedding.token_vectors import token_vectors
from zeroth_assets.errors import EmbeddingError, QueryError, SettingsError
from zeroth_assets.search.passages import Passage
from zeroth_assets.search.rerank import Reranked, RerankError, RerankResult, rerank_within
from zeroth_assets.search.rerank_choice import checked_name, open_reranker
from zeroth_assets.search.rerank_cross import CrossEncoderReranker
from zeroth_assets.search.rerank_hosted import HostedReranker
from zeroth_assets.search.rerank_late import LateInteraction, max_sim

TEXTS = (
    "The committee met in spring to discuss the garden.",
    "The idle timeout closes a connection after thirty seconds without a packet.",
    "A royalty of five percent is due each quarter.",
)


def passage(chunk_id: int, text: str, document: str = "rfc:1", start: int = 0, tenant: int = 1) -> Passage:
    return Passage(tenant, chunk_id, document, "v1", 0, start, start + len(text), None, None, False, "", 1, text)


PASSAGES = tuple(passage(number, text) for number, text in enumerate(TEXTS))


@dataclass
class Scripted:
    """Answers as told."""

    answer: Callable[[Sequence[Passage]], Sequence[float]]
    shortlist: int = 20
    identity: str = "scripted"

    def rerank(self, query: str, passages: Sequence[Passage], budget_seconds: float) -> RerankResult:
        return RerankResult(tuple(self.answer(passages)))


def rerank(reranker: Any, passages: Sequence[Passage] = PASSAGES, budget: float = 600.0) -> Reranked:
    return rerank_within(reranker, "idle timeout of a connection", passages, budget)


scores = st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=12)


@given(st.integers(0, 10), st.integers(1, 8), scores)
def test_a_reranker_adds_nothing_and_only_reorders(count: int, shortlist: int, given_scores: list[float]) -> None:
    passages = [passage(n, "text") for n in range(count)]
    short = min(count, shortlist)
    try:
        reranked = rerank(Scripted(lambda _: given_scores, shortlist), passages)
    except RerankError:
        assert len(given_scores) != short or not np.isfinite(given_scores).all()
        return
    assert sorted(reranked.order) == list(range(short))
    ordered = [reranked.scores[place] for place in reranked.order]
    assert ordered == sorted(ordered, reverse=True)


def test_equal_scores_keep_the_order_given() -> None:
    assert rerank(Scripted(lambda p: [1.0, 2.0, 1.0])).order == (1, 0, 2)


def test_a_reranker_that_hangs_keeps_nobody_waiting_and_four_of_them_no_one_at_all() -> None:
    release = threading.Event()

    def hang(passages: Sequence[Passage]) -> list[float]:
        release.wait(60)
        return [0.0] * len(passages)

    try:
        for _ in range(4):
            with pytest.raises(RerankError, match="too slow"):
                rerank(Scripted(hang), budget=0.01)
        with pytest.raises(RerankError, match="busy"):
            rerank(Scripted(hang))
    finally:
        release.set()
        for thread in threading.enumerate():
            if thread.name == "reranker":
                thread.join(10)
    assert rerank(Scripted(lambda p: [0.0] * len(p))).order == (0, 1, 2)


def test_what_goes_wrong_inside_a_reranker_is_named_without_its_words() -> None:
    def fail(passages: Sequence[Passage]) -> list[float]:
        raise ValueError(passages[0].text)

    with pytest.raises(RerankError) as caught:
        rerank(Scripted(fail))
    assert "ValueError" in str(caught.value)
    assert "committee" not in str(caught.value)
    assert "committee" not in repr(PASSAGES[0])


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder(engine="torch", precision="fp32")


def test_late_interaction_prefers_the_passage_that_answers(encoder: Encoder) -> None:
    late = LateInteraction(encoder)
    late.load()
    reranked = rerank(late)
    assert reranked.order[0] == 1
    assert all(-1 <= score <= 1 for score in reranked.scores)
    assert rerank(LateInteraction(encoder, batch=1)).scores == pytest.approx(reranked.scores, abs=1e-5)


def test_late_interaction_gives_one_unit_vector_for_each_token_of_the_text_itself(encoder: Encoder) -> None:
    found = token_vectors(encoder, ["idle packet", "", "word " * 600])
    assert [len(v) for v in found.vectors] == [2, 0, encoder.max_tokens - 1]
    assert found.truncated == 1
    assert np.linalg.norm(found.vectors[0], axis=1) == pytest.approx([1, 1], abs=1e-6)


def test_texts_that_are_cut_are_counted(encoder: Encoder) -> None:
    assert rerank(LateInteraction(encoder), [PASSAGES[0], passage(9, "word " * 600)]).truncated == 1


def test_late_interaction_stops_between_batches_when_its_time_is_up(encoder: Encoder) -> None:
    with pytest.raises(RerankError, match="too slow"):
        LateInteraction(encoder).rerank("idle", PASSAGES, 0.0)


@pytest.mark.parametrize("shortlist", [0, 21])
def test_late_interaction_takes_no_long_shortlist(encoder: Encoder, shortlist: int) -> None:
    with pytest.raises(QueryError, match="shortlist"):
        LateInteraction(encoder, shortlist)


def test_max_sim_is_the_mean_of_the_best_matches() -> None:
    query = np.array([[1, 0], [0, 1]], dtype=np.float32)
    assert max_sim(query, query) == 1
    assert max_sim(query, query[:1]) == 0.5
    assert max_sim(query[:0], query) == 0


@pytest.fixture(scope="module")
def tiny_cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cross-encoder of untrained weights, with the packaged model's tokenizer."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    folder = tmp_path_factory.mktemp("cross") / "tiny"
    tokenizer = AutoTokenizer.from_pretrained(str(find_model("all-MiniLM-L6-v2").folder), local_files_only=True)
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        id2label={0: "relevance"},
        label2id={"relevance": 0},
    )
    BertForSequenceClassification(config).save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_cross_encoder_scores_each_pair_whatever_their_batch(tiny_cross_encoder: Path) -> None:
    one, many = (CrossEncoderReranker(str(tiny_cross_encoder), max_tokens=32, batch=b) for b in (1, 8))
    alone, together = rerank(one), rerank(many)
    assert alone.scores == pytest.approx(together.scores, abs=1e-6)
    assert len(set(alone.scores)) == 3
    assert "tiny@local" in one.identity
    assert alone.truncated == 0
    assert rerank(one, [*PASSAGES, passage(9, "word " * 100)]).truncated == 1


def test_a_cross_encoder_stops_between_batches_when_its_time_is_up(tiny_cross_encoder: Path) -> None:
    with pytest.raises(RerankError, match="too slow"):
        CrossEncoderReranker(str(tiny_cross_encoder), max_tokens=32).rerank("idle", PASSAGES, 0.0)


def test_a_cross_encoder_of_a_hub_is_pinned_and_has_weights_that_run_no_code(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    def fetch(model: str, revision: str) -> Path:
        asked.append((model, revision))
        return tmp_path

    with pytest.raises(EmbeddingError, match="not pinned"):
        CrossEncoderReranker("some/model", "main", fetch=fetch)
    with pytest.raises(EmbeddingError, match="no weights"):
        CrossEncoderReranker(fetch=fetch)
    assert asked == [("BAAI/bge-reranker-base", "2cfc18c9415c912f9d8155881c133215df768a70")]


@dataclass
class Service:
    url: str
    reply: Callable[[dict[str, Any]], tuple[int, Any]]
    seen: list[dict[str, Any]] = field(default_factory=list)


@pytest.fixture
def service() -> Iterator[Service]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            state.seen.append({**body, "authorization": self.headers.get("authorization")})
            status, answer = state.reply(body)
            payload = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(payload)))
            if status == 307:
                self.send_header("location", "/elsewhere")
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state = Service(f"http://127.0.0.1:{server.server_port}/rerank", backwards)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


def backwards(body: dict[str, Any]) -> tuple[int, Any]:
    results = [{"index": n, "relevance_score": float(n)} for n in range(len(body["documents"]))]
    return 200, {"results": results}


def test_a_hosted_reranker_gets_the_passages_and_their_scores_come_back(service: Service) -> None:
    reranked = rerank(HostedReranker(service.url, "m", api_key="k", max_characters=45))
    assert reranked.order == (2, 1, 0)
    assert reranked.truncated == 3
    assert service.seen[0]["documents"] == [text[:45] for text in TEXTS]
    assert service.seen[0]["authorization"] == "Bearer k"


@pytest.mark.parametrize(
    "reply",
    [
        (500, {}),
        (307, {}),
        (200, []),
        (200, {"results": [{"index": 0, "relevance_score": 1.0}]}),
        (200, {"results": [{"index": n, "relevance_score": "high"} for n in range(3)]}),
        (200, {"results": [{"index": n, "relevance_score": 1.0} for n in range(4)]}),
        (200, {"results": [], "padding": "x" * (1 << 20)}),
    ],
)
def test_an_answer_of_another_shape_is_none(service: Service, reply: tuple[int, Any]) -> None:
    service.reply = lambda _: reply
    with pytest.raises(RerankError, match="no usable answer") as caught:
        rerank(HostedReranker(service.url, "m"))
    assert "committee" not in str(caught.value)
    assert len(service.seen) == 1


def test_a_hosted_reranker_that_is_not_there_is_named_by_the_kind_of_failure(service: Service) -> None:
    with pytest.raises(RerankError, match="ConnectError"):
        rerank(HostedReranker("http://127.0.0.1:9/rerank", "m"))


@pytest.mark.parametrize("url", ["http://example.org/r", "ftp://localhost/", "http://127.0.0.1.example.org/", "", "x"])
def test_text_goes_nowhere_that_others_can_read(url: str) -> None:
    with pytest.raises(SettingsError, match="others can read"):
        HostedReranker(url, "m")


def test_the_certificate_of_a_hosted_reranker_is_always_verified() -> None:
    with pytest.raises(SettingsError, match="verified"):
        HostedReranker("https://example.org/r", "m", verify=False)
    assert HostedReranker("https://u:secret@example.org/r", "m").identity == "hosted example.org m"


def test_a_reranker_is_chosen_by_name_and_what_it_lacks_is_named(tiny_cross_encoder: Path, service: Service) -> None:
    assert open_reranker("none") is None
    cross = open_reranker("cross", model=str(tiny_cross_encoder))
    hosted = open_reranker("hosted", url=service.url, model="m", api_key="k")
    assert cross is not None
    assert hosted is not None
    assert cross.identity.startswith("cross-encoder")
    assert hosted.identity.startswith("hosted")
    with pytest.raises(SettingsError, match="no address"):
        open_reranker("hosted", model="m")
    with pytest.raises(SettingsError, match="no model"):
        open_reranker("hosted", url=service.url)
    with pytest.raises(QueryError, match="no encoder"):
        open_reranker("late")
    with pytest.raises(QueryError, match="no reranker 'best'"):
        checked_name("best")
