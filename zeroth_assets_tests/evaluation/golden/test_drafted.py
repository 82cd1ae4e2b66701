from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from zeroth_assets.evaluation.golden.drafted import DraftedQueries, drafted_queries
from zeroth_assets.evaluation.golden.drafted_file import parse_drafted, read_packaged
from zeroth_assets.evaluation.golden.model import GoldenError, texts_of
from zeroth_assets.golden.overlap import PARAPHRASED_AT_MOST, lexical_overlap
from zeroth_assets_tests.evaluation.golden.builders import VERSION, documents
from zeroth_assets_tests.evaluation.golden.conftest import Corpus

TEXTS = {
    "rfc:1": "The timer is 90 seconds. The timer is 90 seconds.",
    "rfc:2": "The timer is 30 seconds.",
    "rfc:3": "Nothing.",
}
TENANTS = pl.DataFrame(
    [("rfc:1", "rfc-a", "rfc-a"), ("rfc:2", "rfc-other", "rfc-b"), ("rfc:3", "rfc-other", "rfc-c")],
    schema=["document_id", "tenant", "raw_tenant"],
    orient="row",
)


def line(name: str = "one", **fields: Any) -> str:
    item = {
        "id": name,
        "category": "single_chunk",
        "text": "How long?",
        "asker": None,
        "spans": [[quote("rfc:1", "90 seconds")]],
        "paraphrased": True,
        "drafter": "somebody",
        "drafted_on": "2026-01-01",
        "verified": "not verified by a human",
    }
    return json.dumps(item | fields) + "\n"


def quote(document: str, text: str, occurrence: int = 0) -> dict[str, Any]:
    return {"document_id": document, "quote": text, "occurrence": occurrence}


def resolved(*lines: str, texts: dict[str, str] | None = None) -> DraftedQueries:
    held = TEXTS if texts is None else texts
    versions = dict.fromkeys(held, VERSION)
    return drafted_queries(parse_drafted("".join(lines), "f.jsonl"), versions, texts_of(documents(held)), TENANTS)


def test_a_quote_becomes_the_exact_slice_of_the_occurrence_that_is_asked_for() -> None:
    spans = resolved(line(spans=[[quote("rfc:1", "90 seconds", 1)]])).spans
    assert spans.select("char_start", "char_end", "quote").rows() == [(38, 48, "90 seconds")]


def test_a_quote_that_does_not_resolve_is_refused_with_line_and_document_and_not_repeated() -> None:
    bad = line("two", spans=[[quote("rfc:1", "91 seconds")]])
    with pytest.raises(GoldenError, match=r"f\.jsonl line 2 \(two\).*rfc:1") as caught:
        resolved(line(), bad)
    assert "91 seconds" not in str(caught.value)
    with pytest.raises(GoldenError, match="does not resolve"):
        resolved(line(spans=[[quote("rfc:1", "90 seconds", 2)]]))


def test_white_space_of_a_quote_must_be_that_of_the_text() -> None:
    with pytest.raises(GoldenError, match="does not resolve"):
        resolved(line(spans=[[quote("rfc:1", "90  seconds")]]))


def test_queries_whose_documents_are_absent_are_left_out_and_counted() -> None:
    cross = line("two", category="cross_document", spans=[[quote("rfc:1", "90")], [quote("rfc:9", "x")]])
    made = resolved(line(), cross, line("three", spans=[[quote("rfc:9", "x")]]))
    assert made.queries["query_id"].to_list() == ["q:one"]
    assert dict(made.left_out.select("reason", "count").iter_rows()) == {
        "none of its documents is in the corpus": 1,
        "some of its documents are not in the corpus": 1,
    }


def test_an_alternative_that_is_absent_does_not_cost_the_query() -> None:
    made = resolved(line(spans=[[quote("rfc:9", "x"), quote("rfc:2", "30 seconds")]]))
    assert made.spans["document_id"].to_list() == ["rfc:2"]


def test_unanswerable_queries_of_a_file_about_other_documents_are_left_out_with_it() -> None:
    nothing = line("none", category="unanswerable", spans=[], unanswerable_reason="absent_from_corpus")
    assert resolved(line(), nothing).queries.height == 2
    assert resolved(line(), nothing, texts={"rfc:3": "Nothing."}).queries.is_empty()


def test_an_asker_gets_the_answer_of_its_own_tenant_alone() -> None:
    both = [[quote("rfc:1", "90 seconds"), quote("rfc:2", "30 seconds")]]
    made = resolved(
        line("a", category="tenant_scoped", asker="rfc-a", spans=both),
        line("b", category="tenant_scoped", asker="rfc-b", spans=both),
    )
    assert made.queries.select("asker", "answerable").rows() == [("rfc-a", True), ("rfc-other", True)]
    assert made.spans.select("query_id", "document_id").rows() == [("q:a", "rfc:1"), ("q:b", "rfc:2")]


def test_what_lies_in_another_tenant_is_unanswerable_for_the_asker_and_its_place_is_kept() -> None:
    made = resolved(
        line(), line("b", category="tenant_scoped", asker="rfc-b", spans=[], elsewhere=[[quote("rfc:1", "90 seconds")]])
    )
    hidden = made.queries.filter(pl.col("query_id") == "q:b").row(0, named=True)
    assert (hidden["answerable"], hidden["unanswerable_reason"]) == (False, "other_tenant")
    assert made.spans.filter(pl.col("query_id") == "q:b")["document_id"].to_list() == ["rfc:1"]


def test_tenants_folded_into_one_see_each_others_answers() -> None:
    made = resolved(
        line("b", category="unanswerable", asker="rfc-c", spans=[], elsewhere=[[quote("rfc:2", "30 seconds")]])
    )
    row = made.queries.row(0, named=True)
    assert (row["answerable"], row["category"], row["unanswerable_reason"]) == (True, "tenant_scoped", None)


def test_a_query_of_an_asker_that_is_no_tenant_is_left_out_and_counted() -> None:
    made = resolved(line(category="tenant_scoped", asker="rfc-zzz"))
    assert made.queries.is_empty()
    assert made.left_out.select("reason", "count").rows() == [("its asker is no tenant of the corpus", 1)]


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        ("{\n", "is not JSON"),
        ("[]\n", "no JSON object"),
        (line(extra=1), "unknown fields"),
        (line(text=7), "mistyped"),
        (line(text=" "), "mistyped"),
        (line(text="\ud800"), "mistyped"),
        (line(asker=5), "mistyped"),
        (line(about="rfc:1"), "mistyped"),
        (line(note=["a"]), "mistyped"),
        ("[" * 100_000 + "\n", "is not JSON"),
        (line(category="easy"), "no known category"),
        (line(category="multi_chunk"), "not what its category says"),
        (line(category="cross_document"), "not what its category says"),
        (line(category="tenant_scoped"), "not what its category says"),
        (line(category="unanswerable"), "not what its category says"),
        (line(spans=[[]]), "not what its category says"),
        (line(unanswerable_reason="false_premise"), "not what its category says"),
        (line(category="unanswerable", spans=[], unanswerable_reason="whim"), "not what its category says"),
        (line(spans=[[{"document_id": "rfc:1", "quote": ""}]]), "spans that cannot be read"),
        (line(spans=[[{"document_id": "rfc:1"}]]), "spans that cannot be read"),
        (line(spans=[[quote("rfc:1", "90", -1)]]), "spans that cannot be read"),
        (line(spans="no"), "mistyped"),
        (line(), "id of another query"),
    ],
)
def test_a_line_that_breaks_a_rule_is_refused_by_its_number(bad: str, complaint: str) -> None:
    with pytest.raises(GoldenError, match=rf"f\.jsonl line 2.*{complaint}"):
        parse_drafted(line() + bad, "f.jsonl")


def test_the_packaged_sample_queries_resolve_in_the_sample(sample: Corpus) -> None:
    drafted = [item for item in read_packaged() if item.file == "drafted_sample.jsonl"]
    versions = {r.document_id: r.sha256 for r in sample.manifest.current()}
    made = drafted_queries(drafted, versions, texts_of(sample.documents), sample.tenants)
    assert made.left_out.is_empty()
    counts = dict(made.queries.group_by("category").len().iter_rows())
    assert counts == {
        "single_chunk": 34,
        "multi_chunk": 4,
        "cross_document": 7,
        "tenant_scoped": 7,
        "unanswerable": 8,
    }
    assert set(made.queries["verified"]) == {"not verified by a human"}


def test_half_of_the_packaged_sample_queries_use_other_words_than_their_answers() -> None:
    drafted = [i for i in read_packaged() if i.file == "drafted_sample.jsonl" and i.parts]
    for item in drafted:
        overlap = lexical_overlap(item.text, [q.text for part in item.parts for q in part])
        assert item.paraphrased == (overlap <= PARAPHRASED_AT_MOST), item.id
    assert sum(item.paraphrased for item in drafted) >= len(drafted) / 2
