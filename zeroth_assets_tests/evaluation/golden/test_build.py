from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from zeroth_assets.evaluation.golden.build import GoldenQueries, build_golden_queries
from zeroth_assets.evaluation.golden.composition import with_core
from zeroth_assets.evaluation.golden.cuad_label_files import IN_MIRROR
from zeroth_assets.evaluation.golden.drafted_file import parse_drafted
from zeroth_assets_tests.evaluation.golden.builders import queries, query, unanswerable
from zeroth_assets_tests.evaluation.golden.conftest import Contracts, Corpus, tenants_of


@pytest.fixture(scope="module")
def golden(sample: Corpus) -> GoldenQueries:
    return build_golden_queries(
        sample.documents, sample.manifest.records, sample.tenants, sample.pairs, labels=None, seed=0
    )


def test_the_sample_has_a_golden_set_of_its_own_without_any_mirror(golden: GoldenQueries) -> None:
    assert golden.queries.height == 60
    assert set(golden.queries["category"]) == {
        "single_chunk",
        "multi_chunk",
        "cross_document",
        "tenant_scoped",
        "unanswerable",
    }
    assert golden.composition["queries"].sum() == 60


def test_it_says_that_there_are_no_expert_labels_and_that_nobody_verified_it(golden: GoldenQueries) -> None:
    assert any("no expert labels" in note for note in golden.notes)
    assert any("not verified by a human" in note for note in golden.notes)


def test_queries_over_public_documents_are_left_out_of_the_sample_and_counted(golden: GoldenQueries) -> None:
    counts = dict(golden.left_out.select("reason", "count").iter_rows())
    assert counts["none of its documents is in the corpus"] >= 120


def test_an_answer_in_the_contract_that_a_filing_embeds_or_a_copy_repeats_is_found_there_too(
    golden: GoldenQueries,
) -> None:
    shared = golden.spans.filter(pl.col("origin") == "duplicate")
    assert "cuad:hollin-pardoe-clockspring-patent-license-agreement-reformatted-copy" in set(shared["document_id"])
    assert "sec:9900835:10-k:2019-12-31" in set(shared["document_id"])


def test_the_same_input_gives_the_same_digest(golden: GoldenQueries, sample: Corpus) -> None:
    again = build_golden_queries(
        sample.documents.reverse(), sample.manifest.records, sample.tenants, sample.pairs, labels=None, seed=0
    )
    assert again.digest == golden.digest
    other = build_golden_queries(
        sample.documents, sample.manifest.records, sample.tenants, sample.pairs, labels=None, seed=5
    )
    assert other.digest != golden.digest


def test_a_part_of_the_sample_keeps_the_queries_that_it_can_answer(sample: Corpus) -> None:
    few = ["rfc:90109", "rfc:90201", "sec:9900062:10-k:1995-12-31"]
    inside = pl.col("document_id").is_in(few)
    records = [r for r in sample.manifest.records if r.document_id in few]
    pairs = sample.pairs.filter(pl.col("contained_id").is_in(few) & pl.col("container_id").is_in(few))
    made = build_golden_queries(
        sample.documents.filter(inside), records, sample.tenants.filter(inside), pairs, labels=None
    )
    assert set(made.spans["document_id"]) <= set(few)
    assert {"q:sample:quincebank-orders", "q:sample:lantern-red", "q:sample:no-lantern-mast"} <= set(
        made.queries["query_id"]
    )
    assert made.left_out["count"].sum() + made.queries.height >= 60


def test_a_corpus_of_which_no_query_is_known_has_an_empty_golden_set(sample: Corpus) -> None:
    made = build_golden_queries(
        sample.documents, sample.manifest.records, sample.tenants, sample.pairs, labels=None, drafted=[]
    )
    assert made.queries.is_empty()
    assert made.composition.is_empty()


def test_the_core_holds_200_of_five_categories_with_30_that_have_no_answer() -> None:
    many = [query(f"s{i}") for i in range(300)] + [unanswerable(f"u{i}") for i in range(90)]
    many += [query(f"m{i}", category="multi_chunk") for i in range(80)]
    many += [query(f"c{i}", category="cross_document") for i in range(36)]
    many += [query(f"t{i}", category="tenant_scoped", asker=f"rfc-{i % 7}") for i in range(20)]
    many += [query(f"d{i}", scope="document", document_id="rfc:1") for i in range(40)]
    chosen = with_core(queries(*many), seed=0).filter(pl.col("set") == "core")
    assert chosen.height == 200
    assert dict(chosen.group_by("category").len().iter_rows()) == {
        "unanswerable": 30,
        "cross_document": 35,
        "tenant_scoped": 20,
        "multi_chunk": 40,
        "single_chunk": 75,
    }
    assert set(chosen["scope"]) == {"corpus"}


def test_experts_and_drafters_have_equal_shares_of_the_core_where_both_have_enough() -> None:
    many = [query(f"s{i}", source="expert" if i % 5 else "drafted") for i in range(400)]
    chosen = with_core(queries(*many), seed=0).filter(pl.col("set") == "core")
    counts = dict(chosen.group_by("source").len().iter_rows())
    assert counts["drafted"] == 80
    assert counts["expert"] == chosen.height - 80


@pytest.mark.mirror
def test_a_golden_set_of_real_contracts_passes_every_check(contracts: Contracts, mirror: Path) -> None:
    rows = [(document, version, text) for (document, version), text in contracts.texts.items()]
    documents = pl.DataFrame(rows, schema=["document_id", "version", "text"], orient="row")
    records = contracts.manifest.of_source("cuad")
    pairs = pl.DataFrame(
        schema={
            **dict.fromkeys(("contained_id", "contained_version", "container_id", "container_version"), pl.String),
            "containment": pl.Float64,
            "reverse_containment": pl.Float64,
        }
    )
    made = build_golden_queries(
        documents,
        records,
        tenants_of(contracts.manifest),
        pairs,
        labels=mirror / IN_MIRROR[0],
        drafted=parse_drafted("", "none"),
        answerable=120,
        unanswerable=60,
    )
    assert made.queries.height == 360
    assert set(made.queries["split"]) == {"calibration", "test"}
