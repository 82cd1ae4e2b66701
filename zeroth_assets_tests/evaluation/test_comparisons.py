from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
import polars as pl
import pytest

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.comparison_report import comparisons_markdown
from zeroth_assets.evaluation.comparisons import Arm, Comparison, Family, compare_arms
from zeroth_assets.evaluation.significance import holm, randomisation_test

METRIC = "ndcg_exponential@10"
AB = Family("first", (Comparison("a", "b", METRIC),))


def arm(name: str, values: Any, **changes: Any) -> Arm:
    ids = [f"q{i:04}" for i in range(len(values))]
    frame = pl.DataFrame({"query_id": ids, METRIC: values}, schema_overrides={METRIC: pl.Float64})
    return dataclasses.replace(
        Arm(name, frame, "corpus-1", "golden-1", "fixed_512", "all", {METRIC: "nDCG@10, gain 2^g-1"}), **changes
    )


def noisy(n: int, gain: float, seed: int = 1) -> tuple[Arm, Arm]:
    generator = np.random.default_rng(seed)
    base = generator.uniform(0.2, 0.7, n)
    return arm("a", np.clip(base + gain + generator.normal(0, 0.1, n), 0, 1)), arm("b", base)


def test_a_clear_difference_is_called_higher_with_interval_p_and_detectable_effect() -> None:
    row = compare_arms(noisy(200, 0.1), AB, seed=3).row(0, named=True)
    assert row["verdict"] == "higher"
    assert row["ci_low"] < row["difference"] < row["ci_high"]
    assert row["difference"] == pytest.approx(row["mean_a"] - row["mean_b"])
    assert row["p_holm"] == row["p"] < 0.001
    assert 0.01 < row["mde"] < 0.04
    assert row["wording"].startswith("a is higher than b: +0.09")


def test_the_same_difference_the_other_way_round_is_called_lower() -> None:
    family = Family("first", (Comparison("b", "a", METRIC),))
    assert compare_arms(noisy(200, 0.1), family, seed=3)["verdict"].item() == "lower"


def test_no_difference_is_cannot_tell_and_says_what_could_have_been_seen() -> None:
    row = compare_arms(noisy(50, 0.0), AB, seed=3).row(0, named=True)
    assert row["verdict"] == "cannot tell"
    assert f"below {row['mde']:.3f} would often go unseen with 50 units" in row["wording"]


def test_every_row_carries_fingerprints_chunk_sets_arms_roles_n_and_definition() -> None:
    a, b = noisy(50, 0.0)
    b = dataclasses.replace(b, chunk_set="section_aware", role="rfc-quic")
    row = compare_arms([a, b], AB, seed=3, resamples=500).row(0, named=True)
    wanted = {
        "family": "first",
        "corpus_fingerprint": "corpus-1",
        "golden_fingerprint": "golden-1",
        "chunk_set_a": "fixed_512",
        "chunk_set_b": "section_aware",
        "role_a": "all",
        "role_b": "rfc-quic",
        "n": 50,
        "definition": "nDCG@10, gain 2^g-1",
        "seed": 3,
        "resamples": 500,
    }
    assert {name: row[name] for name in wanted} == wanted


def three_arms() -> list[Arm]:
    generator = np.random.default_rng(5)
    base = generator.uniform(0.3, 0.6, 60)
    return [
        arm("a", base + 0.025 + generator.normal(0, 0.09, 60)),
        arm("b", base),
        arm("c", base + 0.1 + generator.normal(0, 0.05, 60)),
    ]


def test_holm_spans_the_primary_comparisons_alone() -> None:
    pairs = [Comparison("a", "b", METRIC), Comparison("c", "b", METRIC), Comparison("c", "a", METRIC)]
    frame = compare_arms(three_arms(), Family("two", tuple(pairs[:2]), (pairs[2],)), seed=1)
    raw = dict(zip("xyz", frame["p"], strict=True))
    corrected = holm({"x": raw["x"], "y": raw["y"]})
    assert frame["p_holm"].to_list() == [corrected["x"], corrected["y"], None]
    assert frame["primary"].to_list() == [True, True, False]
    assert frame["wording"][2].startswith("exploratory, no claim: ")


def test_a_difference_that_only_the_uncorrected_p_shows_is_no_claim_within_a_family() -> None:
    noise = np.random.default_rng(4).normal(0, 1, (3, 60))
    noise = (noise - noise.mean(axis=1, keepdims=True)) / noise.std(axis=1, keepdims=True)
    # The first arm lies 2.2 standard errors above b, the others on it.
    arms = [arm(name, 0.5 + 0.08 * row) for name, row in zip("acd", noise, strict=True)]
    arms[0] = arm("a", 0.5 + 0.08 * (noise[0] + 2.2 / np.sqrt(60)))
    arms.append(arm("b", [0.5] * 60))
    alone = compare_arms(arms, AB, seed=1).row(0, named=True)
    assert 0.02 < alone["p"] < 0.05
    assert alone["verdict"] == "higher"
    family = Family("three", (AB.primary[0], Comparison("c", "b", METRIC), Comparison("d", "b", METRIC)))
    row = compare_arms(arms, family, seed=1).row(0, named=True)
    assert (row["p"], row["ci_low"]) == (alone["p"], alone["ci_low"])
    assert row["p_holm"] == pytest.approx(3 * alone["p"])
    assert row["verdict"] == "cannot tell"


def test_a_family_that_was_changed_afterwards_shows() -> None:
    moved = Family("first", AB.primary, (Comparison("a", "b", "recall@10"),))
    assert moved.digest != AB.digest
    assert Family("first", (Comparison("a", "b", METRIC),)).digest == AB.digest


@pytest.mark.parametrize(
    ("primary", "exploratory"),
    [
        ((), (Comparison("a", "b", METRIC),)),
        ((Comparison("a", "a", METRIC),), ()),
        ((Comparison("a", "b", METRIC), Comparison("b", "a", METRIC)), ()),
        ((Comparison("a", "b", METRIC),), (Comparison("a", "b", METRIC),)),
    ],
)
def test_a_family_without_a_question_or_with_one_twice_is_refused(primary: Any, exploratory: Any) -> None:
    with pytest.raises(MeasurementError, match="family"):
        Family("f", primary, exploratory)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda b: dataclasses.replace(b, corpus_fingerprint="corpus-2"), "different corpora"),
        (lambda b: dataclasses.replace(b, golden_fingerprint="golden-2"), "different golden sets"),
        (lambda b: dataclasses.replace(b, definitions={METRIC: "linear gain"}), "different definitions"),
        (lambda b: dataclasses.replace(b, per_query=b.per_query.head(49)), "different queries"),
        (
            lambda b: dataclasses.replace(
                b, per_query=b.per_query.with_columns(query_id=pl.col("query_id").str.replace("q0007", "r0007"))
            ),
            "different queries",
        ),
        (
            lambda b: dataclasses.replace(b, per_query=pl.concat([b.per_query, b.per_query.head(1)])),
            "query twice",
        ),
        (lambda b: dataclasses.replace(b, per_query=b.per_query.drop(METRIC)), "lacks a column"),
        (lambda b: arm("b", [None, *[0.5] * 49]), "one arm alone"),
        (lambda b: arm("b", [float("nan"), *[0.5] * 49]), "not a number"),
        (lambda b: dataclasses.replace(b, name="x"), "arm that is not there"),
        (lambda b: dataclasses.replace(b, name="a"), "same name"),
    ],
)
def test_what_cannot_be_compared_is_refused(change: Any, what: str) -> None:
    a, b = noisy(50, 0.1)
    with pytest.raises(MeasurementError, match=what):
        compare_arms([a, change(b)], AB, seed=1)


def test_queries_for_which_the_metric_is_undefined_are_left_out_and_n_says_so() -> None:
    a, b = arm("a", [None, *[0.5, 0.7] * 20]), arm("b", [None, *[0.4, 0.5] * 20])
    assert compare_arms([a, b], AB, seed=1)["n"].item() == 40
    with pytest.raises(MeasurementError, match="no query"):
        compare_arms([arm("a", [None]), arm("b", [None])], AB, seed=1)


def test_the_order_of_rows_does_not_matter() -> None:
    a, b = noisy(60, 0.02)
    shuffled = dataclasses.replace(b, per_query=b.per_query.reverse())
    assert compare_arms([a, b], AB, seed=1).equals(compare_arms([a, shuffled], AB, seed=1))


def test_arms_that_never_differ_cannot_be_told_apart_and_show_no_false_certainty() -> None:
    b = arm("b", [0.5] * 40)
    row = compare_arms([dataclasses.replace(b, name="a"), b], AB, seed=1).row(0, named=True)
    assert (row["verdict"], row["p"], row["mde"]) == ("cannot tell", 1.0, None)
    assert row["ci_low"] < 0 < row["ci_high"]


def test_a_single_query_tells_nothing() -> None:
    row = compare_arms([arm("a", [1.0]), arm("b", [0.0])], AB, seed=1).row(0, named=True)
    assert row["verdict"] == "cannot tell"


def test_clusters_are_resampled_and_swapped_whole() -> None:
    generator = np.random.default_rng(8)
    shift = np.repeat(generator.normal(0.03, 0.1, 12), 10)
    a, b = arm("a", 0.5 + shift), arm("b", np.full(120, 0.5))
    clusters = {f"q{i:04}": f"doc{i // 10}" for i in range(120)}
    loose = compare_arms([a, b], AB, seed=1).row(0, named=True)
    tight = compare_arms([a, b], AB, seed=1, clusters=clusters).row(0, named=True)
    assert (loose["units"], tight["units"]) == (120, 12)
    assert loose["difference"] == pytest.approx(tight["difference"])
    assert tight["ci_high"] - tight["ci_low"] > 2 * (loose["ci_high"] - loose["ci_low"])
    assert tight["mde"] > 2 * loose["mde"]
    sums = shift.reshape(12, 10).sum(axis=1)
    assert tight["p"] == randomisation_test(sums, np.zeros(12), seed=1)
    assert tight["p"] > loose["p"]
    with pytest.raises(MeasurementError, match="no cluster"):
        compare_arms([a, b], AB, seed=1, clusters={"q0000": "doc0"})


def test_the_interval_of_a_difference_of_hits_covers_what_it_promises() -> None:
    generator = np.random.default_rng(21)
    covered, trials = 0, 300
    for trial in range(trials):
        both = generator.random(150)
        a, b = (both < 0.80).astype(float), (generator.random(150) < np.where(both < 0.75, 0.95, 0.2)).astype(float)
        row = compare_arms([arm("a", a), arm("b", b)], AB, seed=trial, resamples=300, permutations=100)
        truth = 0.80 - (0.75 * 0.95 + 0.25 * 0.2)
        covered += row["ci_low"].item() <= truth <= row["ci_high"].item()
    assert 0.91 <= covered / trials <= 0.985


def test_the_table_in_markdown_words_the_verdicts() -> None:
    pairs = [Comparison("a", "b", METRIC), Comparison("c", "b", METRIC)]
    text = comparisons_markdown(compare_arms(three_arms(), Family("two", (pairs[1],), (pairs[0],)), seed=1))
    lines = text.splitlines()
    assert len(lines) == 4
    assert len({line.count("|") for line in lines}) == 1
    assert "c is higher than b" in lines[2]
    assert "(exploratory)" in lines[3]


def test_a_comparison_over_a_thousand_queries_with_ten_thousand_resamples_is_quick() -> None:
    arms = noisy(1_000, 0.01)
    started = time.process_time()
    compare_arms(arms, AB, seed=1, resamples=10_000)
    assert time.process_time() - started < 4.0
