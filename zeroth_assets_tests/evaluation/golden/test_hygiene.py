from __future__ import annotations

from typing import Any

import pytest

from zeroth_assets.evaluation.golden.hygiene import Provenance, provenance_of
from zeroth_assets.evaluation.golden.ledger import SplitLedger
from zeroth_assets.planning.hygiene import arm_parameters, default_parameters
from zeroth_assets.settings import Settings
from zeroth_assets_tests.evaluation.golden.builders import queries, query

ASKED = queries(*(query(f"c{i}", split="calibration") for i in range(3)), *(query(f"t{i}") for i in range(4)))
DEFAULTS = {"depth": 50}
DEEPER = {"depth": 100}


def told(ledger: SplitLedger, parameters: dict[str, Any]) -> Provenance:
    return provenance_of(ledger.entries, ASKED, retriever="rrf", parameters=parameters, defaults=DEFAULTS)


def lent(split: str) -> SplitLedger:
    ledger = SplitLedger()
    ledger.lend(ASKED, retriever="rrf", at="2026-01-01", split=split)
    return ledger


def test_defaults_were_there_before_anything_was_read() -> None:
    assert told(SplitLedger(), DEFAULTS).state == "untuned"
    assert told(lent("test"), DEFAULTS).state == "untuned"


def test_a_choice_on_calibration_queries_says_how_many_were_read() -> None:
    ledger = lent("calibration")
    ledger.choose(retriever="rrf", parameters=DEEPER, at="2026-01-02")
    found = told(ledger, DEEPER)
    assert (found.state, found.read) == ("calibration", 3)


def test_a_choice_on_test_queries_is_refused_even_where_it_is_the_default() -> None:
    ledger = lent("test")
    for parameters in (DEEPER, DEFAULTS):
        ledger.choose(retriever="rrf", parameters=parameters, at="2026-01-02")
        assert told(ledger, parameters).state == "refused"


def test_other_parameters_after_test_queries_were_read_are_refused_though_nobody_recorded_the_choice() -> None:
    found = told(lent("test"), DEEPER)
    assert found.state == "refused"
    assert "4 test queries were read for rrf" in found.wording


def test_other_parameters_that_nobody_recorded_are_told_and_not_refused() -> None:
    assert told(SplitLedger(), DEEPER).state == "unrecorded"
    assert told(lent("calibration"), DEEPER).state == "unrecorded"
    ledger = SplitLedger()
    ledger.declare_untuned(retriever="rrf", parameters=DEEPER, at="2026-01-01")
    assert told(ledger, DEEPER).state == "untuned"


@pytest.mark.parametrize(
    ("change", "arms"),
    [
        ({"retrieval_depth": 100}, {"fixed_512.bm25", "fixed_512.rrf", "section_aware.dense_exact"}),
        ({"analyser": "exact"}, {"fixed_512.bm25", "fixed_512.rrf"}),
        ({"model": "another"}, {"fixed_512.rrf", "section_aware.dense_exact"}),
        ({"resamples": 200}, set()),
    ],
)
def test_what_can_be_chosen_of_an_arm_differs_from_its_defaults_where_it_was(
    change: dict[str, Any], arms: set[str]
) -> None:
    settings = Settings(**change)
    every = ("fixed_512.bm25", "fixed_512.rrf", "section_aware.dense_exact")
    assert {key for key in every if arm_parameters(settings, key) != default_parameters(settings, key)} == arms
