"""BM25: the formula's worked numbers, exact ranking, tenants that do not move each other, bm25s, and bad input."""

from __future__ import annotations

import doctest
import math
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroth_assets.corpus.manifest import load_manifest
from zeroth_assets.corpus.parse import parse_document
from zeroth_assets.errors import ArtefactError, ChunkingError, QueryError
from zeroth_assets.search import analyser, bm25, ranking, scoring
from zeroth_assets.search.analyser import ANALYSERS
from zeroth_assets.search.bm25 import MAX_QUERY, BM25Index, Hit
from zeroth_assets.search.postings import Postings
from zeroth_assets.search.postings_build import build_postings
from zeroth_assets.search.scoring import SCORINGS, Scoring, scoring_named
from zeroth_assets.settings import project_file

COMPOUND = ANALYSERS["compound"]
CHUNKS = {
    1: "An idle timeout closes the connection.",
    2: "The connection is closed after an idle timeout; an idle timeout is negotiated, see RFC 9000 and ERR-4012.",
    3: "Packet numbers are never reused under TLS_AES_128_GCM_SHA256 or Section 2(a)(iii).",
    4: "Nothing of the kind.",
    5: "",
}


def postings(chunks: dict[int, str], tenant: str = "one") -> Postings:
    return build_postings(list(chunks), list(chunks.values()), tenant=tenant, chunk_set="c", analyser=COMPOUND)


def by_hand(chunks: dict[int, str], terms: list[str], rule: Scoring) -> dict[int, float]:
    """Every score above 0, straight from the formula."""
    counts = {i: Counter(t.term for t in COMPOUND.analyse(text)) for i, text in chunks.items()}
    average = sum(c.total() for c in counts.values()) / max(1, len(counts))
    scores: dict[int, float] = {}
    for term in terms:
        df = sum(term in c for c in counts.values())
        n = len(counts)
        for i, c in counts.items():
            if not (tf := c[term]):
                continue
            odds = (n - df + 0.5) / (df + 0.5)
            idf = {"lucene": math.log(1 + odds), "robertson": max(0, math.log(odds)), "book": math.log(n / df)}[
                rule.idf
            ]
            factor = 1 - rule.b + rule.b * c.total() / average
            scores[i] = scores.get(i, 0.0) + idf * tf * (rule.k1 + 1) / (tf + rule.k1 * factor)
    return {i: score for i, score in scores.items() if score > 0}


def test_the_book_s_worked_numbers_hold() -> None:
    book = scoring_named("book-1.2")
    assert [round(book.idf_of(1000, df), 3) for df in (40, 300)] == [3.219, 1.204]
    assert [round(book.saturation(tf, 1.0), 3) for tf in (1, 2, 5, 10, 50)] == [1, 1.375, 1.774, 1.964, 2.148]
    assert book.length_factor(400, 200) == 1.75


def test_the_worked_corpus_of_a_thousand_chunks_scores_as_on_paper() -> None:
    chunks = {i: " ".join(["fox"] * (5 if i == 0 else 1) * (i < 40) + ["dog"] * (i < 300)).strip() for i in range(1000)}
    chunks = {i: f"{text} " + "pad " * (200 - len(text.split())) for i, text in chunks.items()}
    index = BM25Index.build(chunks, scoring="book-1.2")
    assert index.average_length == 200
    explained = index.explain("fox dog", 0)
    assert [(t.tf, t.df, round(t.idf, 3), round(t.saturation, 3)) for t in explained.terms] == [
        (5, 40, 3.219, 1.774),
        (1, 300, 1.204, 1.0),
    ]
    assert explained.score == pytest.approx(math.log(25) * 11 / 6.2 + math.log(10 / 3), abs=1e-12)
    (best,) = index.search("fox dog", 1)
    assert best == Hit(0, best.score, 1, "one")
    assert best.score == pytest.approx(explained.score, abs=1e-12)


def test_named_scorings_differ_in_idf_and_k1_alone() -> None:
    assert {name: (s.idf, s.k1, s.b) for name, s in SCORINGS.items()} == {
        "lucene": ("lucene", 1.5, 0.75),
        "robertson": ("robertson", 1.5, 0.75),
        "book": ("book", 1.5, 0.75),
        "lucene-1.2": ("lucene", 1.2, 0.75),
        "robertson-1.2": ("robertson", 1.2, 0.75),
        "book-1.2": ("book", 1.2, 0.75),
    }


@pytest.mark.parametrize("arguments", [{"name": "okapi"}, {"name": "lucene", "k1": -1}, {"name": "lucene", "b": 1.5}])
def test_an_impossible_scoring_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(QueryError):
        scoring_named(**arguments)


def test_an_idf_that_would_be_negative_counts_as_nothing() -> None:
    index = BM25Index.build(CHUNKS | {4: "connection"}, scoring="robertson")
    assert index.search("connection") == []
    assert index.explain("connection", 4).score == 0


@pytest.mark.parametrize(
    ("query", "first"),
    [("ERR-4012", 2), ("rfc9000", 2), ("section 2(A)(iii)", 3), ("TLS_AES_128_GCM_SHA256", 3), ("sha256", 3)],
)
def test_identifiers_are_found(query: str, first: int) -> None:
    assert BM25Index.build(CHUNKS).search(query)[0].chunk_id == first


def test_equal_scores_are_ordered_by_chunk_id_across_tenants() -> None:
    index = BM25Index([postings({9: "a b", 2: "a b"}, "one"), postings({5: "a b", 1: "c c"}, "two")])
    for either in (index, index.joined()):
        assert [(hit.chunk_id, hit.rank, hit.tenant) for hit in either.search("a", 3)] == [
            (2, 1, "one"),
            (5, 2, "two"),
            (9, 3, "one"),
        ]


def test_fewer_than_k_are_returned_as_they_are() -> None:
    assert len(BM25Index.build(CHUNKS).search("idle", 100)) == 2


@pytest.mark.parametrize("k", [0, -1, True, 2.5, None])
def test_a_k_that_is_no_number_of_results_is_refused(k: Any) -> None:
    with pytest.raises(QueryError, match="number of results"):
        BM25Index.build(CHUNKS).search("idle", k)


def test_nothing_permitted_finds_nothing() -> None:
    index = BM25Index([])
    assert index.search("idle") == []
    assert index.joined().search("idle") == []
    assert BM25Index([postings({})]).search("idle") == []
    assert BM25Index([postings({1: "", 2: "!!"})]).search("idle") == []
    with pytest.raises(QueryError, match="no chunk"):
        index.explain("idle", 1)


def test_a_tenant_twice_or_a_chunk_twice_is_refused() -> None:
    with pytest.raises(ArtefactError, match="twice"):
        BM25Index([postings({1: "a"}), postings({2: "a"})])
    with pytest.raises(ChunkingError):
        BM25Index.build([(1, "a"), (1, "b")])


# Few words and equal lengths make for ties; many repeats for saturation.
words = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "x-1", "§"]), max_size=9).map(" ".join)
corpora = st.dictionaries(st.integers(0, 10**6), words, min_size=1, max_size=30)
queries = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "x-1", "§", "unknown"]), min_size=1, max_size=7)
scorings = st.sampled_from(list(SCORINGS.values())) | st.builds(Scoring, k1=st.floats(0, 5), b=st.floats(0, 1))


def ranked(scores: dict[int, float], k: int) -> list[int]:
    return sorted(scores, key=lambda i: (-round(scores[i], 9), i))[:k]


@given(corpora, queries, scorings, st.integers(1, 40))
def test_search_is_the_formula_ranked(chunks: dict[int, str], query: list[str], rule: Scoring, k: int) -> None:
    index = BM25Index([postings(chunks)], rule)
    terms = index.query_terms(" ".join(query))
    expected = by_hand(chunks, terms, rule)
    hits = index.search_terms(terms, k)
    assert len(hits) == min(k, len(expected))
    for hit, best in zip(hits, sorted(expected.values(), reverse=True), strict=False):
        assert hit.score == pytest.approx(best, rel=1e-9)
        assert hit.score == pytest.approx(expected[hit.chunk_id], rel=1e-9)
    assert [(hit.score, -hit.chunk_id) for hit in hits] == sorted(((h.score, -h.chunk_id) for h in hits), reverse=True)


@given(corpora, queries, scorings)
def test_an_explanation_sums_to_the_score(chunks: dict[int, str], query: list[str], rule: Scoring) -> None:
    index = BM25Index([postings(chunks)], rule)
    scores = {hit.chunk_id: hit.score for hit in index.search(" ".join(query), 100)}
    for chunk_id in chunks:
        explained = index.explain(" ".join(query), chunk_id)
        assert explained.score == pytest.approx(scores.get(chunk_id, 0.0), abs=1e-9)
        assert math.fsum(term.score for term in explained.terms) == pytest.approx(explained.score, abs=1e-9)
        for term in explained.terms:
            product = term.query_count * term.idf * term.saturation
            assert term.score == pytest.approx(product, abs=1e-9)
        if explained.score:
            assert sum(explained.shares()) == pytest.approx(1, abs=1e-9)
        assert len(explained.lines()) == 1 + len(set(index.query_terms(" ".join(query))))


def zipfian(rng: random.Random, chunks: int, vocabulary: int = 300, length: int = 60) -> dict[int, str]:
    weights = [1 / rank for rank in range(1, vocabulary + 1)]
    names = [f"w{rank}" for rank in range(vocabulary)]
    return {
        rng.randrange(2**62): " ".join(rng.choices(names, weights, k=rng.randrange(1, 2 * length)))
        for _ in range(chunks)
    }


@pytest.mark.parametrize("scoring_name", ["lucene", "book-1.2"])
def test_leaving_out_chunks_that_cannot_reach_the_top_changes_no_top(
    scoring_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(5)
    index = BM25Index([postings(zipfian(rng, 3000))], SCORINGS[scoring_name])
    finished: list[int] = []
    original = ranking._finished

    def counting(*arguments: Any) -> Any:
        finished.append(1)
        return original(*arguments)

    monkeypatch.setattr(ranking, "_BEGIN", 10)
    monkeypatch.setattr(ranking, "_finished", counting)
    asked = [[f"w{int(300 ** rng.random()) - 1}" for _ in range(rng.randrange(2, 12))] for _ in range(60)]
    pruned = [index.search_terms(terms, k) for terms in asked for k in (1, 10)]
    assert len(finished) > 60
    monkeypatch.setattr(ranking, "_within_reach", lambda *_: None)
    assert [index.search_terms(terms, k) for terms in asked for k in (1, 10)] == pruned


@given(corpora, corpora, corpora, queries)
def test_another_tenant_s_words_never_move_a_score(
    mine: dict[int, str], also_mine: dict[int, str], theirs: dict[int, str], query: list[str]
) -> None:
    one, two, other = (
        postings({3 * i + n: text for i, text in chunks.items()}, f"t{n}")
        for n, chunks in enumerate((mine, also_mine, theirs))
    )
    permitted = BM25Index([one, two])
    before = permitted.search(" ".join(query), 100)
    everyone = BM25Index([one, two, other]).joined()
    everyone.search(" ".join(query), 100)
    assert permitted.search(" ".join(query), 100) == before
    assert BM25Index([two, one]).joined().search(" ".join(query), 100) == before
    # As though the other tenant had never been: the same chunks as one tenant of a world of their own.
    alone = {3 * i: t for i, t in mine.items()} | {3 * i + 1: t for i, t in also_mine.items()}
    assert [(h.chunk_id, h.score) for h in BM25Index([postings(alone)]).search(" ".join(query), 100)] == [
        (h.chunk_id, h.score) for h in before
    ]
    with pytest.raises(QueryError, match="no chunk"):
        permitted.explain(" ".join(query), next(3 * i + 2 for i in theirs))


def test_what_does_not_exist_and_what_is_another_s_are_refused_alike() -> None:
    index = BM25Index([postings({1: "a"}, "mine")])
    postings({2: "a"}, "theirs")
    messages = []
    for chunk_id in (2, 3, 2**64):
        with pytest.raises(QueryError) as refused:
            index.explain("a", chunk_id)
        messages.append(str(refused.value).replace(str(chunk_id), "?"))
    assert len(set(messages)) == 1


class Peer:
    """bm25s's scores in float64, with the factor that it leaves out."""

    def __init__(self, chunks: dict[int, str], rule: Scoring) -> None:
        method = {"lucene": "lucene", "robertson": "robertson", "book": "atire"}[rule.idf]
        self.factor = 1 if method == "atire" else rule.k1 + 1
        self.ids = list(chunks)
        self.index = bm25s.BM25(method=method, k1=rule.k1, b=rule.b, dtype="float64")
        tokens = [[term for word in text.split() for term in COMPOUND.terms(word)] for text in chunks.values()]
        self.index.index(tokens, show_progress=False)

    def scores(self, terms: list[str]) -> dict[int, float]:
        """Every score above 0."""
        known = [term for term in terms if term in self.index.vocab_dict]
        scores = self.index.get_scores(known) if known else np.zeros(len(self.ids))
        return {i: s for i, s in zip(self.ids, (scores * self.factor).tolist(), strict=True) if s > 0}


def check_against(peer: Peer, index: BM25Index, terms: list[str], k: int) -> None:
    expected = peer.scores(terms)
    hits = index.search_terms(terms, k)
    assert [hit.score for hit in hits] == pytest.approx([expected[hit.chunk_id] for hit in hits], abs=1e-5)
    found = {hit.chunk_id: hit.score for hit in hits}
    assert ranked(found, k) == ranked(expected, k)


@given(corpora.filter(lambda c: any(c.values())), queries, st.sampled_from(list(SCORINGS.values())))
def test_scores_and_ranking_equal_bm25s(chunks: dict[int, str], query: list[str], rule: Scoring) -> None:
    terms = [term for word in query for term in COMPOUND.terms(word)]
    check_against(Peer(chunks, rule), BM25Index([postings(chunks)], rule), terms, len(chunks))


@pytest.mark.parametrize("name", list(SCORINGS))
def test_scores_and_ranking_equal_bm25s_on_a_larger_random_corpus(name: str) -> None:
    rng = random.Random(11)
    chunks = zipfian(rng, 800)
    peer, index = Peer(chunks, SCORINGS[name]), BM25Index([postings(chunks)], SCORINGS[name])
    for k in (1, 10, 100, 800):
        check_against(peer, index, [f"w{int(300 ** rng.random()) - 1}" for _ in range(8)], k)


@pytest.mark.mirror
def test_scores_and_ranking_equal_bm25s_on_real_chunks(mirror: Path) -> None:
    manifest = load_manifest(project_file("corpus_manifest.json"))
    records = [r for source in ("rfc", "cuad", "sec") for r in manifest.of_source(source)[:2]]
    texts = [parse_document(r, (mirror / str(r.mirror_path)).read_bytes()).text for r in records]
    words = [text.split()[:24_000] for text in texts]
    chunks = dict(enumerate(" ".join(w[first : first + 350]) for w in words for first in range(0, len(w), 300)))
    assert len(chunks) > 200
    sentences = [sentence for text in texts for sentence in re.findall(r"[A-Z][^.]{30,150}\.", text)]
    peer, index = Peer(chunks, Scoring()), BM25Index([postings(chunks)])
    for sentence in random.Random(3).sample(sentences, 40):
        check_against(peer, index, index.query_terms(sentence), 10)


@pytest.mark.parametrize("query", ["", "   \n", "...", "\x00\x01\x02", "?!", "\ud800"])
def test_a_query_without_a_term_is_refused(query: str) -> None:
    with pytest.raises(QueryError, match="nothing that can be searched for"):
        BM25Index.build(CHUNKS).search(query)


@pytest.mark.parametrize("query", ["zebra", "👍", "東京", "'; DROP TABLE chunk; --", "!(a & b) | c:*", "ключ"])
def test_unknown_terms_find_nothing(query: str) -> None:
    assert BM25Index.build({1: "idle"}).search(query) == []


@pytest.mark.parametrize(
    "piece",
    ["a", "a-", "(a)", "1,", "1,000", "a'", "'s", "§", "é", "e\u0301", "ab ", "a-b_c.d ", "2(a)(iii)", "\x00", "👍"],
)
def test_a_query_of_100_kb_is_answered_or_refused_in_time(piece: str) -> None:
    index = BM25Index.build(CHUNKS)
    query = piece * (100_000 // len(piece))
    try:
        assert len(index.search(query)) <= len(CHUNKS)
    except QueryError:
        assert not any(c.isalnum() for c in piece)


def test_a_query_of_10_000_different_words_is_answered() -> None:
    hits = BM25Index.build(CHUNKS).search(" ".join(f"w{i}" for i in range(10_000)) + " idle")
    assert [hit.chunk_id for hit in hits] == [1, 2]


def test_a_longer_query_is_refused() -> None:
    with pytest.raises(QueryError, match="too long"):
        BM25Index.build(CHUNKS).search("a" * (MAX_QUERY + 1))


FUZZED = BM25Index.build(CHUNKS)


@given(
    st.text(max_size=200) | st.text(alphabet="aidle -_./:@&+()',#§\x00\ud800\u0301👍12", max_size=60), st.integers(1, 9)
)
def test_any_query_is_answered_or_refused(query: str, k: int) -> None:
    try:
        hits = FUZZED.search(query, k)
    except QueryError:
        return
    assert len(hits) <= k
    assert all(hit.score > 0 and hit.chunk_id in CHUNKS for hit in hits)
    for hit in hits:
        assert FUZZED.explain(query, hit.chunk_id).score == pytest.approx(hit.score, abs=1e-9)


@pytest.mark.parametrize("module", [analyser, bm25, scoring])
def test_the_worked_numbers_of_the_docstrings_hold(module: Any) -> None:
    assert doctest.testmod(module).failed == 0
