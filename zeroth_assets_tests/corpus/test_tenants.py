"""Tenants: keys, assignment, and the plan that folds small ones and renames none without being told to."""

from __future__ import annotations

import random

import polars as pl
import pytest

from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.corpus.tenants import (
    ASSIGNMENT_SCHEMA,
    MAX_SLUG,
    acronyms,
    assign_tenants,
    default_floor,
    plan_tenants,
    tenant_key,
    tenant_keys,
)
from zeroth_assets.errors import TenantError

TOPICS = {
    "Naming": "zone resolver name label record authority delegation cache",
    "Naming Extensions": "zone resolver name label signature record cache key",
    "Transport": "segment window congestion timer retransmission acknowledgement sequence",
    "Mail": "mailbox message header envelope recipient relay bounce",
}


def record(document_id: str, attribute: str, version: int = 1) -> ManifestRecord:
    source, _, identifier = document_id.partition(":")
    return ManifestRecord(
        document_id=document_id,
        source=source,
        identifier=identifier,
        title=document_id,
        sha256=f"{version:064x}",
        bytes=1,
        media_type="text/plain",
        licence="none",
        tenant_attribute=attribute,
    )


def corpus(*counts: tuple[str, int, int]) -> tuple[pl.DataFrame, list[ManifestRecord]]:
    """(attribute, documents, tokens of each) to documents and records; texts are about the attribute."""
    rows, records = [], []
    for attribute, count, tokens in counts:
        for number in range(count):
            document_id = f"rfc:{attribute.lower().replace(' ', '')}{number}"
            rng = random.Random(document_id)
            text = " ".join(rng.choices(TOPICS[attribute].split(), k=60)) + " the protocol of this document"
            rows.append((document_id, f"{1:064x}", "rfc", tokens, text))
            records.append(record(document_id, attribute))
    return pl.DataFrame(rows, schema=["document_id", "version", "source", "tokens", "text"], orient="row"), records


BASE = (("Naming", 3, 4_000), ("Naming Extensions", 1, 400), ("Transport", 3, 4_000), ("Mail", 2, 1_500))


def finals(assignments: pl.DataFrame) -> dict[str, str]:
    return dict(assignments.select("raw_tenant", "tenant").unique().sort("raw_tenant").iter_rows())


def test_a_key_is_the_sources_name_and_a_slug() -> None:
    assert tenant_key("rfc", "  Some — Working Gröup!") == "rfc-some-working-group"
    assert len(tenant_key("rfc", "word " * 40)) <= len("rfc-") + MAX_SLUG


def test_a_well_known_group_has_its_acronym() -> None:
    attribute, short = next(iter(acronyms("rfc").items()))
    assert tenant_key("rfc", attribute) == f"rfc-{short}"


@pytest.mark.parametrize("attribute", ["", "中文", "--"])
def test_an_attribute_that_gives_no_key_is_refused(attribute: str) -> None:
    with pytest.raises(TenantError):
        tenant_key("rfc", attribute)


def test_an_unknown_source_has_no_tenants() -> None:
    with pytest.raises(TenantError):
        tenant_key("elsewhere", "Group")


def test_two_attributes_with_one_key_are_an_error_that_names_both() -> None:
    with pytest.raises(TenantError, match=r"Mail!.*Mail\?|Mail\?.*Mail!"):
        tenant_keys([record("rfc:1", "Mail!"), record("rfc:2", "Mail?")])


def test_a_document_that_the_manifest_does_not_list_is_an_error() -> None:
    documents, records = corpus(*BASE)
    with pytest.raises(TenantError, match="not in the manifest"):
        assign_tenants(documents, records[1:], stride=400)


def test_chunks_are_estimated_from_tokens_and_are_at_least_one() -> None:
    documents, records = corpus(("Mail", 1, 1_000))
    assert assign_tenants(documents, records, stride=400)["estimated_chunks"].to_list() == [2.5]
    assert assign_tenants(documents, records, stride=9_000)["estimated_chunks"].to_list() == [1.0]


def test_a_floor_of_zero_folds_nothing() -> None:
    documents, records = corpus(*BASE)
    plan = plan_tenants(documents, records, stride=400)
    assert plan.assignments.equals(assign_tenants(documents, records, stride=400))
    assert plan.proposal.is_empty()


def test_a_small_tenant_joins_the_one_that_is_about_the_same() -> None:
    documents, records = corpus(*BASE)
    plan = plan_tenants(documents, records, stride=400, floor=5)
    assert plan.assignments.schema == ASSIGNMENT_SCHEMA
    assert plan.assignments.height == documents.height
    [row] = plan.assignments.filter(pl.col("raw_tenant") == "rfc-naming-extensions").iter_rows(named=True)
    assert row["tenant"] == "rfc-naming"
    assert row["attribute"] == "Naming Extensions"
    assert 0.3 < row["similarity"] < 1
    assert row["reason"].startswith("1 chunks, floor 5: folded into rfc-naming (0.")
    others = plan.assignments.filter(pl.col("raw_tenant") != "rfc-naming-extensions")
    assert (others["tenant"] == others["raw_tenant"]).all()
    assert others["similarity"].null_count() == others.height
    assert plan.tenants == ("rfc-mail", "rfc-naming", "rfc-transport")
    assert plan.cosines.shape == (3, 3)


def test_the_table_counts_what_each_tenant_holds() -> None:
    documents, records = corpus(*BASE)
    table = plan_tenants(documents, records, stride=400, floor=5).table()
    naming = table.filter(pl.col("tenant") == "rfc-naming").row(0, named=True)
    assert (naming["raw_tenants"], naming["documents"], naming["estimated_chunks"]) == (2, 4, 31.0)
    assert table["tenant"].to_list() == ["rfc-naming", "rfc-transport", "rfc-mail"]


def test_the_order_of_documents_and_records_changes_nothing() -> None:
    documents, records = corpus(*BASE)
    one = plan_tenants(documents, records, stride=400, floor=9)
    two = plan_tenants(documents.reverse(), records[::-1], stride=400, floor=9)
    assert one.assignments.equals(two.assignments)
    assert one.proposal.equals(two.proposal)


def test_a_tenant_that_grew_past_the_floor_stays_folded_until_that_is_accepted() -> None:
    accepted = plan_tenants(*corpus(*BASE), stride=400, floor=5).assignments
    grown = corpus(("Naming", 3, 4_000), ("Naming Extensions", 3, 4_000), ("Transport", 3, 4_000), ("Mail", 2, 1_500))
    plan = plan_tenants(*grown, stride=400, floor=5, accepted=accepted)
    assert finals(plan.assignments)["rfc-naming-extensions"] == "rfc-naming"
    assert plan.pending.select("raw_tenant", "change", "accepted", "proposed").rows() == [
        ("rfc-naming-extensions", "moves", "rfc-naming", "rfc-naming-extensions")
    ]
    assert set(plan.assignments.filter(pl.col("raw_tenant") == "rfc-naming-extensions")["reason"]) == {
        "folded into rfc-naming, as accepted"
    }
    taken = plan_tenants(*grown, stride=400, floor=5, accepted=accepted, accept=True)
    assert finals(taken.assignments)["rfc-naming-extensions"] == "rfc-naming-extensions"
    assert taken.pending.is_empty()
    assert taken.diff.height == 1


def test_a_document_taken_away_folds_nobody_silently() -> None:
    accepted = plan_tenants(*corpus(*BASE), stride=400, floor=5).assignments
    plan = plan_tenants(*corpus(*BASE[:3], ("Mail", 1, 400)), stride=400, floor=5, accepted=accepted)
    assert finals(plan.assignments)["rfc-mail"] == "rfc-mail"
    assert plan.pending["raw_tenant"].to_list() == ["rfc-mail"]


def test_raising_the_floor_changes_nothing_until_accepted() -> None:
    documents, records = corpus(*BASE)
    accepted = plan_tenants(documents, records, stride=400).assignments
    plan = plan_tenants(documents, records, stride=400, floor=9, accepted=accepted)
    assert finals(plan.assignments) == finals(accepted)
    assert plan.pending.height >= 1


def test_a_new_group_is_placed_by_the_rule_and_moves_no_other() -> None:
    accepted = plan_tenants(*corpus(BASE[0], *BASE[2:]), stride=400, floor=5).assignments
    plan = plan_tenants(*corpus(*BASE), stride=400, floor=5, accepted=accepted)
    assert finals(plan.assignments)["rfc-naming-extensions"] == "rfc-naming"
    assert plan.diff.select("raw_tenant", "change").rows() == [("rfc-naming-extensions", "new")]
    assert plan.pending.is_empty()


def test_planning_again_from_what_is_in_force_is_still() -> None:
    documents, records = corpus(*BASE)
    first = plan_tenants(documents, records, stride=400, floor=9)
    again = plan_tenants(documents, records, stride=400, floor=9, accepted=first.assignments)
    assert finals(again.assignments) == finals(first.assignments)
    assert again.diff.is_empty()
    assert again.assignments["similarity"].equals(first.assignments["similarity"])


def test_assignments_that_contradict_themselves_are_refused() -> None:
    documents, records = corpus(*BASE)
    frame = plan_tenants(documents, records, stride=400).assignments
    torn = frame.with_columns(tenant=pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("rfc-x")).otherwise("tenant"))
    with pytest.raises(TenantError, match="two tenants"):
        plan_tenants(documents, records, stride=400, accepted=torn)


def test_the_sample_has_a_floor_that_shows_folding_and_other_corpora_a_modest_one() -> None:
    assert default_floor("sample") == 10
    assert default_floor("published") == default_floor("my-own") == 25
