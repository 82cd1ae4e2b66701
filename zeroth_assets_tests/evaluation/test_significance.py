"""Decisions about differences between arms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.bootstrap import paired_bootstrap
from zeroth_assets.evaluation.significance import (
    difference_verdict,
    holm,
    minimum_detectable_effect,
    randomisation_test,
)


def test_the_randomisation_test_is_exact_for_few_queries() -> None:
    assert randomisation_test([1.0] * 5, [0.0] * 5, seed=1) == 2 / 2**5
    assert randomisation_test([1.0, 0.0], [0.0, 1.0], seed=1) == 1.0


def test_the_randomisation_test_agrees_with_scipy() -> None:
    rng = np.random.default_rng(2)
    a = rng.random(60)
    b = a - rng.normal(0.03, 0.1, 60)
    peer = stats.permutation_test(
        (a, b),
        lambda x, y: np.mean(x - y),
        permutation_type="samples",
        n_resamples=20_000,
        rng=np.random.default_rng(1),
    )
    assert randomisation_test(a, b, permutations=20_000, seed=1) == pytest.approx(peer.pvalue, abs=0.01)


def test_arms_that_never_differ_have_p_1_and_p_is_never_0() -> None:
    assert randomisation_test([0.3] * 40, [0.3] * 40, seed=1) == 1.0
    assert randomisation_test([1.0] * 40, [0.0] * 40, permutations=999, seed=1) == 1 / 1000


def test_the_randomisation_test_rejects_as_often_as_it_says_when_nothing_differs() -> None:
    rng = np.random.default_rng(5)
    rejected = sum(
        randomisation_test(rng.random(40), rng.random(40), permutations=400, seed=number) <= 0.05
        for number in range(400)
    )
    assert 8 <= rejected <= 34


def test_holm_is_monotone_and_keeps_the_order_of_names() -> None:
    adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert adjusted == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})
    assert list(adjusted) == ["a", "b", "c", "d"]
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}
    with pytest.raises(MeasurementError, match="'x'"):
        holm({"x": math.nan})


def test_the_detectable_effect_is_found_with_the_stated_power() -> None:
    rng = np.random.default_rng(7)
    effect = minimum_detectable_effect(rng.normal(0, 0.2, 5_000), n=80)
    found = sum(stats.ttest_1samp(rng.normal(effect, 0.2, 80), 0).pvalue < 0.05 for _ in range(800))
    assert found / 800 == pytest.approx(0.8, abs=0.05)
    assert minimum_detectable_effect([0.0, 0.2, 0.4], n=400) == pytest.approx(
        minimum_detectable_effect([0.0, 0.2, 0.4], n=100) / 2
    )
    with pytest.raises(MeasurementError, match="spread"):
        minimum_detectable_effect([0.1])


def test_cannot_tell_is_a_result() -> None:
    rng = np.random.default_rng(3)
    a = rng.random(60)
    noisy = rng.permutation(a)
    assert difference_verdict(paired_bootstrap(a, noisy, seed=1)) == "cannot tell"
    better = np.clip(a * 0.5 + 0.4 + rng.normal(0, 0.02, 60), 0, 1)
    assert difference_verdict(paired_bootstrap(better, a * 0.5, seed=1)) == "higher"
    assert difference_verdict(paired_bootstrap(a * 0.5, better, seed=1)) == "lower"
    assert difference_verdict(paired_bootstrap(better, a * 0.5, seed=1), margin=0.5) == "cannot tell"
