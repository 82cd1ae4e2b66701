"""The family of comparisons: named beforehand, narrowed by what was measured and by nothing else."""

from __future__ import annotations

import polars as pl
import pytest

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.comparisons import compare_arms
from zeroth_assets.evaluation.retrieval_arms import RETRIEVERS, ROLES
from zeroth_assets.evaluation.retrieval_family import WHOLE, arm_name, arms_of, family_of
from zeroth_assets.evaluation.retrieval_figures import FIGURES, HEADLINE
from zeroth_assets.settings import CHUNK_SETS
from zeroth_assets_tests.evaluation.retrieval_tables import figures_of

BOTH = {
    ("fixed_512", "dense_exact", "unrestricted"): 0.5,
    ("fixed_512", "bm25", "unrestricted"): 0.9,
    ("fixed_512", "rrf", "unrestricted"): 0.95,
}


def test_every_comparison_names_a_retriever_a_chunk_set_and_a_measure_that_there_are() -> None:
    known = {arm_name(chunk_set, name, role) for chunk_set in CHUNK_SETS for name in RETRIEVERS for role in ROLES}
    for comparison in (*WHOLE.primary, *WHOLE.exploratory):
        assert {comparison.a, comparison.b} <= known, comparison
        assert comparison.metric in FIGURES
    assert {comparison.metric for comparison in WHOLE.primary} == {HEADLINE}


def test_what_the_product_is_about_is_a_primary_comparison() -> None:
    primary = {(c.a, c.b) for c in WHOLE.primary}
    assert ("fixed_512 dense_postfilter, single_tenant", "fixed_512 dense_exact, single_tenant") in primary
    assert ("fixed_512 rrf_rerank, unrestricted", "fixed_512 rrf, unrestricted") in primary
    assert ("section_aware bm25, unrestricted", "fixed_512 bm25, unrestricted") in primary


def test_fusion_is_asked_against_both_of_its_arms_since_the_better_one_is_not_known_beforehand() -> None:
    against = {c.b for c in WHOLE.primary if c.a == "fixed_512 rrf, unrestricted"}
    assert against == {"fixed_512 dense_exact, unrestricted", "fixed_512 bm25, unrestricted"}


def test_a_family_is_narrowed_to_the_arms_that_were_measured_and_tells_what_fell_away() -> None:
    arms = {arm_name(*key) for key in BOTH}
    family, gone = family_of(arms)
    assert family is not None
    assert {name for c in family.primary for name in (c.a, c.b)} == arms
    assert len(family.primary) == 3
    assert len(family.primary) + len(family.exploratory) + len(gone) == len(WHOLE.primary) + len(WHOLE.exploratory)
    assert any("rrf_rerank" in c.a for c in gone)


def test_without_a_primary_comparison_there_is_no_family() -> None:
    assert family_of({"fixed_512 bm25, unrestricted"})[0] is None


def test_values_are_lifted_out_of_the_figures_and_compared_query_by_query() -> None:
    arms = arms_of(figures_of(BOTH))
    family, _ = family_of({arm.name for arm in arms})
    assert family is not None
    table = compare_arms(arms, family, seed=1, resamples=200, permutations=500)
    row = table.row(
        by_predicate=(pl.col("arm_a") == "fixed_512 rrf, unrestricted")
        & (pl.col("metric") == HEADLINE)
        & (pl.col("arm_b") == "fixed_512 dense_exact, unrestricted"),
        named=True,
    )
    assert row["n"] == 40
    assert row["verdict"] == "higher"
    assert row["difference"] == pytest.approx(row["mean_a"] - row["mean_b"])
    assert row["corpus_fingerprint"] == "corpus-1"
    assert row["definition"] == FIGURES[HEADLINE]


def test_arms_of_different_corpora_are_not_compared() -> None:
    figures = pl.concat(
        [
            figures_of({("fixed_512", "dense_exact", "unrestricted"): 0.5}),
            figures_of({("fixed_512", "bm25", "unrestricted"): 0.9}, corpus_fingerprint="corpus-2"),
        ]
    )
    arms = arms_of(figures)
    family, _ = family_of({arm.name for arm in arms})
    assert family is not None
    with pytest.raises(MeasurementError, match="corpora"):
        compare_arms(arms, family, seed=1, resamples=200, permutations=500)
