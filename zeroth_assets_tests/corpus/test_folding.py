"""Folding: the rule, ties and chains, a folding in force that stays, and the centroids behind it."""

from __future__ import annotations

import math
import random

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from zeroth_assets.corpus import centroids
from zeroth_assets.corpus.centroids import TenantVectors, tenant_vectors
from zeroth_assets.corpus.folding import (
    DIFF_SCHEMA,
    FLOOR_SCHEMA,
    FOLD_SCHEMA,
    RawTenant,
    difference,
    final_cosines,
    fit,
    fold,
    steps_frame,
    weigh_floors,
)


def tenants(**chunks: float) -> dict[str, RawTenant]:
    return {
        key.replace("_", "-"): RawTenant(key.replace("_", "-"), key.partition("_")[0], n) for key, n in chunks.items()
    }


def vectors(**rows: tuple[float, ...]) -> TenantVectors:
    keys = tuple(sorted(key.replace("_", "-") for key in rows))
    matrix = np.array([rows[key.replace("-", "_")] for key in keys], dtype=float)
    return TenantVectors(keys, matrix @ matrix.T)


SIZES = tenants(rfc_a=3, rfc_b=20, rfc_c=50, rfc_d=80)
NEAR = vectors(rfc_a=(1, 0.1, 0), rfc_b=(1, 0.6, 0), rfc_c=(0, 1, 0.2), rfc_d=(0, 0, 1))


def test_tenants_at_or_above_the_floor_stay() -> None:
    assert fold(SIZES, NEAR, 3).steps == ()
    assert fold(SIZES, NEAR, 0).final == {key: key for key in SIZES}


def test_a_small_tenant_joins_the_most_similar_one() -> None:
    folding = fold(SIZES, NEAR, 10)
    assert folding.final == {"rfc-a": "rfc-b", "rfc-b": "rfc-b", "rfc-c": "rfc-c", "rfc-d": "rfc-d"}
    [step] = folding.steps
    assert step.similarity == pytest.approx(1.06 / math.sqrt(1.01 * 1.36))
    assert (step.chunks, step.chunks_of_target, step.raw_tenants) == (3, 20, 1)


def test_what_joined_a_small_tenant_moves_on_with_it() -> None:
    folding = fold(SIZES, NEAR, 30)
    assert folding.final["rfc-a"] == folding.final["rfc-b"] == "rfc-c"
    assert [(s.tenant, s.into, s.raw_tenants) for s in folding.path("rfc-a")] == [
        ("rfc-a", "rfc-b", 1),
        ("rfc-b", "rfc-c", 2),
    ]


def test_what_a_tenant_took_in_counts_towards_its_floor() -> None:
    assert fold(SIZES, NEAR, 23).final["rfc-b"] == "rfc-b"


def test_the_smallest_moves_first_and_ties_go_by_key() -> None:
    equal = tenants(rfc_a=5, rfc_b=5, rfc_c=50, rfc_d=50)
    same = vectors(rfc_a=(1, 1), rfc_b=(1, 1), rfc_c=(1, 1), rfc_d=(1, 1))
    folding = fold(equal, same, 10)
    assert [(s.tenant, s.into) for s in folding.steps] == [("rfc-a", "rfc-b")]


def test_a_tenant_never_joins_one_of_another_source() -> None:
    mixed = tenants(rfc_a=3, cuad_a=500, cuad_b=500)
    alike = vectors(rfc_a=(1, 0), cuad_a=(1, 0), cuad_b=(0, 1))
    folding = fold(mixed, alike, 10)
    assert folding.final["rfc-a"] == "rfc-a"
    assert folding.stranded == {"rfc-a"}


def test_a_tenant_that_shares_no_word_with_another_stays() -> None:
    strange = vectors(rfc_a=(0, 0, 0, 1), rfc_b=(1, 0, 0, 0), rfc_c=(1, 1, 0, 0), rfc_d=(0, 0, 1, 0))
    folding = fold(SIZES, strange, 10)
    assert folding.final["rfc-a"] == "rfc-a"
    assert folding.stranded == {"rfc-a"}


def test_all_small_tenants_end_in_one() -> None:
    folding = fold(SIZES, NEAR, 1_000)
    assert set(folding.final.values()) == {"rfc-d"}
    assert folding.stranded == {"rfc-d"}


def test_a_settled_folding_stays_whatever_the_floor_says() -> None:
    settled = {"rfc-a": "rfc-d", "rfc-b": "rfc-b", "rfc-c": "rfc-c", "rfc-d": "rfc-d"}
    assert fold(SIZES, NEAR, 1_000, settled).final == settled
    assert fold(SIZES, NEAR, 0, settled).final == settled


def test_only_a_tenant_that_is_new_is_placed_among_those_there_are() -> None:
    more = SIZES | tenants(rfc_n=2, rfc_z=200)
    seen = vectors(
        rfc_a=(1, 0.1, 0), rfc_b=(1, 0.6, 0), rfc_c=(0, 1, 0.2), rfc_d=(0, 0, 1), rfc_n=(0.1, 0, 1), rfc_z=(1, 1, 1)
    )
    settled = {"rfc-a": "rfc-b", "rfc-b": "rfc-b", "rfc-c": "rfc-c", "rfc-d": "rfc-d"}
    folding = fold(more, seen, 60, settled)
    assert {raw: folding.final[raw] for raw in settled} == settled
    assert (folding.final["rfc-n"], folding.final["rfc-z"]) == ("rfc-d", "rfc-z")


def test_a_final_tenant_keeps_its_name_when_the_one_that_gave_it_is_gone_or_comes_back() -> None:
    settled = {"rfc-a": "rfc-x", "rfc-b": "rfc-b"}
    assert fold(SIZES, NEAR, 10, settled).final["rfc-a"] == "rfc-x"
    back = SIZES | tenants(rfc_x=1)
    seen = vectors(rfc_a=(1, 0.1, 0), rfc_b=(1, 0.6, 0), rfc_c=(0, 1, 0.2), rfc_d=(0, 0, 1), rfc_x=(1, 0, 0))
    assert fold(back, seen, 10, settled).final["rfc-x"] == "rfc-x"


@given(st.permutations(sorted(SIZES)), st.sampled_from([0, 10, 30, 60, 1_000]))
@settings(max_examples=30)
def test_the_order_of_the_tenants_decides_nothing(order: list[str], floor: int) -> None:
    assert fold({key: SIZES[key] for key in order}, NEAR, floor) == fold(SIZES, NEAR, floor)


def test_a_difference_names_what_moves_is_new_or_is_gone() -> None:
    accepted = {"rfc-a": "rfc-a", "rfc-b": "rfc-b", "rfc-old": "rfc-b"}
    in_force = {"rfc-a": "rfc-a", "rfc-b": "rfc-b", "rfc-c": "rfc-b"}
    proposed = {"rfc-a": "rfc-b", "rfc-b": "rfc-b", "rfc-c": "rfc-c"}
    diff = difference(SIZES, accepted, in_force, proposed)
    assert diff.schema == DIFF_SCHEMA
    assert diff.rows() == [
        ("rfc-a", "moves", "rfc-a", "rfc-a", "rfc-b", 3.0),
        ("rfc-c", "new", None, "rfc-b", "rfc-c", 50.0),
        ("rfc-old", "gone", "rfc-b", None, None, None),
    ]
    assert difference(SIZES, None, proposed, proposed).is_empty()


def test_a_raw_tenants_fit_is_with_the_rest_of_its_final_tenant() -> None:
    final = {"rfc-a": "rfc-c", "rfc-b": "rfc-c", "rfc-c": "rfc-c", "rfc-d": "rfc-d"}
    rest = np.array([1, 1.6, 0.2])
    own = np.array([1, 0.1, 0])
    assert fit("rfc-a", final, NEAR) == pytest.approx(own @ rest / np.linalg.norm(own) / np.linalg.norm(rest))
    assert fit("rfc-d", final, NEAR) is None


def test_cosines_of_final_tenants_are_those_of_their_merged_vectors() -> None:
    keys, cosines = final_cosines(fold(SIZES, NEAR, 10).final, NEAR)
    assert keys == ("rfc-b", "rfc-c", "rfc-d")
    merged, other = np.array([2, 0.7, 0]), np.array([0, 1, 0.2])
    assert cosines[0, 1] == pytest.approx(merged @ other / np.linalg.norm(merged) / np.linalg.norm(other))
    assert np.allclose(np.diag(cosines), 1)


def test_weighing_floors_shows_what_each_would_move() -> None:
    table = weigh_floors(SIZES, NEAR, (0, 10, 30))
    assert table.schema == FLOOR_SCHEMA
    assert table["tenants"].to_list() == [4, 3, 2]
    assert table["raw_tenants_moved"].to_list() == [0, 1, 2]
    assert table["share_of_chunks_moved"].to_list() == pytest.approx([0, 3 / 153, 23 / 153])
    assert table["most_raw_tenants_in_one"].to_list() == [1, 2, 3]
    assert table["mean_similarity"][0] is None


def test_steps_are_a_frame_in_the_order_taken() -> None:
    frame = steps_frame(fold(SIZES, NEAR, 30).steps)
    assert frame.schema == FOLD_SCHEMA
    assert frame.select("step", "tenant", "into").rows() == [(1, "rfc-a", "rfc-b"), (2, "rfc-b", "rfc-c")]


def documents(*rows: tuple[str, str, str]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["source", "tenant", "text"], orient="row")


WORDS = [f"{a}{b}" for a in "bcdfg" for b in ("an", "er", "ip", "on", "ut")]


def some_documents(seed: int, count: int, source: str = "rfc") -> list[tuple[str, str, str]]:
    rng = random.Random(seed)
    return [
        (source, f"{source}-{rng.choice('xyz')}", " ".join(rng.choices(WORDS, k=rng.randint(1, 40))))
        for _ in range(count)
    ]


def test_centroids_are_those_of_an_independent_tf_idf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(centroids, "_BATCH_CHARACTERS", 300)
    rows = some_documents(1, 30)
    made = tenant_vectors(documents(*rows))
    oracle = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(text for *_, text in rows).toarray()
    means = np.array([oracle[[t == tenant for _, t, _ in rows]].mean(axis=0) for tenant in made.tenants])
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    assert np.allclose(made.cosines(), unit @ unit.T, atol=1e-9)


def test_another_sources_documents_leave_a_sources_cosines_alone() -> None:
    alone = tenant_vectors(documents(*some_documents(1, 30)))
    mixed = tenant_vectors(documents(*some_documents(2, 40, "cuad"), *some_documents(1, 30)))
    places = [mixed.tenants.index(tenant) for tenant in alone.tenants]
    assert np.allclose(mixed.cosines()[np.ix_(places, places)], alone.cosines())


def test_the_order_of_the_documents_decides_nothing() -> None:
    rows = some_documents(3, 30)
    assert np.array_equal(tenant_vectors(documents(*rows)).cosines(), tenant_vectors(documents(*rows[::-1])).cosines())


def test_texts_without_words_have_no_direction() -> None:
    made = tenant_vectors(documents(("rfc", "rfc-a", "1 2 3"), ("rfc", "rfc-b", ""), ("rfc", "rfc-c", "x . 77")))
    assert not made.cosines().any()
