"""Superseded text never outranks its successor, never stands unmarked, and names nothing that is hidden."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zeroth_assets.corpus.manifest import ManifestRecord, load_manifest
from zeroth_assets.search.supersession import Lineage, put_successors_first
from zeroth_assets.settings import package_file
from zeroth_assets_tests.search.test_rerank import passage


def record(document_id: str, **more: Any) -> ManifestRecord:
    fields: dict[str, Any] = {
        "document_id": document_id,
        "source": document_id.partition(":")[0],
        "identifier": document_id,
        "title": document_id,
        "sha256": "0" * 64,
        "bytes": 1,
        "media_type": "text/plain",
        "licence": "none",
        "tenant_attribute": "one",
    }
    return ManifestRecord(**{**fields, **more})


RFCS = [
    record("rfc:2616", date="1999-06", status="DRAFT STANDARD", obsoleted_by=("rfc:7230",)),
    record("rfc:7230", date="2014-06", status="PROPOSED STANDARD", obsoletes=("rfc:2616",)),
    record("rfc:9110", date="2022-06", status="INTERNET STANDARD", obsoletes=("rfc:7230",)),
    record("rfc:8615", date="2019-05", updates=("rfc:7230",)),
    record("rfc:1", date="1969-04"),
]
LINEAGE = Lineage.of(RFCS)


def ordered(*documents: str, lineage: Lineage = LINEAGE, within: int | None = None) -> list[str]:
    passages = [passage(n, "text", document) for n, document in enumerate(documents)]
    return [documents[place] for place in put_successors_first(passages, lineage, within=within).order]


def test_a_superseded_passage_comes_after_every_passage_of_its_successor() -> None:
    found = ordered("rfc:2616", "rfc:1", "rfc:9110", "rfc:2616", "rfc:9110")
    assert found == ["rfc:1", "rfc:9110", "rfc:9110", "rfc:2616", "rfc:2616"]


def test_a_chain_is_followed_although_its_middle_is_not_there() -> None:
    assert ordered("rfc:2616", "rfc:9110") == ["rfc:9110", "rfc:2616"]
    assert ordered("rfc:2616", "rfc:7230", "rfc:9110") == ["rfc:9110", "rfc:7230", "rfc:2616"]


def test_a_successor_far_behind_does_not_push_out_what_it_replaced_which_stays_marked() -> None:
    passages = [passage(n, "text", d) for n, d in enumerate(["rfc:2616", "rfc:1", "rfc:9110"])]
    found = put_successors_first(passages, LINEAGE, within=2)
    assert found.order == (0, 1, 2)
    assert found.standings[0].superseded_by == ("rfc:9110",)


def test_a_superseded_passage_alone_is_marked_and_its_successor_not_named() -> None:
    standing = put_successors_first([passage(1, "text", "rfc:2616")], LINEAGE).standings[0]
    assert standing.marked
    assert standing.superseded_by == ()
    assert standing.describe() == "superseded by a later document (DRAFT STANDARD, 1999-06)"


def test_that_a_hidden_tenants_document_claims_to_replace_one_is_not_told() -> None:
    hidden = record("sec:x", obsoletes=("rfc:1",), tenant_attribute="another")
    lineage = Lineage.of([record("rfc:1"), record("rfc:2"), hidden])
    alone = put_successors_first([passage(1, "text", "rfc:1")], lineage).standings[0]
    assert not alone.marked
    assert "superseded" not in alone.describe()
    beside = put_successors_first([passage(1, "text", "rfc:1"), passage(2, "text", "sec:x")], lineage)
    assert beside.standings[0].marked
    assert beside.standings[0].superseded_by == ("sec:x",)


def test_a_successor_of_the_same_tenant_marks_what_it_replaced_although_it_is_no_candidate() -> None:
    lineage = Lineage.of([record("rfc:1"), record("rfc:2", obsoletes=("rfc:1",))])
    standing = put_successors_first([passage(1, "text", "rfc:1")], lineage).standings[0]
    assert standing.marked
    assert standing.describe().startswith("superseded by a later document")


def test_where_neither_supersedes_the_other_both_stay_with_date_and_status() -> None:
    passages = [passage(1, "text", "rfc:7230"), passage(2, "text", "rfc:8615")]
    found = put_successors_first(passages, LINEAGE)
    assert found.order == (0, 1)
    assert [s.read_with for s in found.standings] == [("rfc:8615",), ("rfc:7230",)]
    assert found.standings[1].status.date == "2019-05"
    assert found.standings[1].describe() == "2019-05; read with rfc:7230"


def test_an_amended_filing_comes_after_its_amendment_of_the_same_period() -> None:
    filings = [
        record("sec:1:10-k:2022", form="10-K", period_end="2022-09-30", date="2022-12-02"),
        record("sec:1:10-k-a:2022", form="10-K/A", period_end="2022-09-30", date="2023-01-20"),
        record("sec:1:10-k-a:2022b", form="10-K/A", period_end="2022-09-30", date="2023-02-20"),
        record("sec:1:10-k:2021", form="10-K", period_end="2021-09-30", date="2021-12-02"),
        record("sec:2:10-k:2022", form="10-K", period_end="2022-09-30", tenant_attribute="two"),
    ]
    lineage = Lineage.of(filings)
    first, amended, again, former, other = (r.document_id for r in filings)
    assert ordered(first, amended, again, lineage=lineage) == [again, amended, first]
    assert ordered(former, other, amended, lineage=lineage) == [former, other, amended]


def test_the_samples_own_manifest_knows_its_successor_and_its_amendment() -> None:
    lineage = Lineage.of(load_manifest(package_file("sample/corpus_manifest.json")))
    assert lineage.supersedes("rfc:90104", "rfc:90101")
    assert lineage.supersedes("sec:9900417:10-k-a:2022-09-30", "sec:9900417:10-k:2022-09-30")


def test_documents_that_claim_to_supersede_each_other_keep_their_order() -> None:
    lineage = Lineage.of([record("a:1", obsoletes=("a:2",)), record("a:2", obsoletes=("a:1",))])
    assert ordered("a:1", "a:2", lineage=lineage) == ["a:1", "a:2"]


names = [f"a:{n}" for n in range(6)]
edges = st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=8)


@given(edges, st.lists(st.sampled_from(names), max_size=12), st.integers(0, 12))
def test_whatever_the_manifest_claims_nothing_is_lost_and_the_order_ends(
    claims: list[tuple[str, str]], documents: list[str], within: int
) -> None:
    lineage = Lineage.of([record(name, obsoletes=tuple(o for n, o in claims if n == name)) for name in names])
    passages = [passage(n, "text", document) for n, document in enumerate(documents)]
    found = put_successors_first(passages, lineage, within=within)
    assert sorted(found.order) == list(range(len(documents)))
    window = [documents[place] for place in found.order[:within]]
    for before, older in enumerate(window):
        assert not any(lineage.supersedes(newer, older) for newer in window[before + 1 :])


def test_an_empty_lineage_changes_nothing() -> None:
    assert ordered("rfc:2616", "rfc:9110", lineage=Lineage()) == ["rfc:2616", "rfc:9110"]
