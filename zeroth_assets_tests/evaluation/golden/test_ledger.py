from __future__ import annotations

from pathlib import Path

import pytest

from zeroth_assets.evaluation.golden.ledger import SplitLedger
from zeroth_assets.evaluation.golden.model import GoldenError
from zeroth_assets_tests.evaluation.golden.builders import queries, query

ASKED = queries(*(query(f"c{i}", split="calibration") for i in range(3)), *(query(f"t{i}") for i in range(4)))
TUNED = {"k1": 1.2, "weights": [1, 2]}


def tuned(split: str) -> SplitLedger:
    ledger = SplitLedger()
    ledger.lend(ASKED, retriever="hybrid", at="2026-01-01", split=split)
    ledger.choose(retriever="hybrid", parameters=TUNED, at="2026-01-02")
    return ledger


def test_parameters_chosen_on_calibration_queries_pass_and_say_how_many_were_read() -> None:
    hygiene = tuned("calibration").check(ASKED, retriever="hybrid", parameters={"weights": [1, 2], "k1": 1.2})
    assert (hygiene.read, hygiene.untuned) == (3, False)


def test_parameters_chosen_with_test_queries_are_refused() -> None:
    with pytest.raises(GoldenError, match="chosen with test queries") as caught:
        tuned("test").check(ASKED, retriever="hybrid", parameters=TUNED)
    assert "4 test queries" in caught.value.found


def test_a_calibration_query_whose_group_went_to_test_spoils_the_choice_too() -> None:
    regrouped = queries(query("c0", split="calibration", group="g:t0"), query("t0", group="g:t0"))
    with pytest.raises(GoldenError, match="groups of the test split"):
        tuned("calibration").check(regrouped, retriever="hybrid", parameters=TUNED)


def test_other_parameters_than_those_recorded_are_refused() -> None:
    with pytest.raises(GoldenError, match="Nothing is recorded"):
        tuned("calibration").check(ASKED, retriever="hybrid", parameters={**TUNED, "k1": 1.3})
    with pytest.raises(GoldenError, match="Nothing is recorded"):
        SplitLedger().check(ASKED, retriever="hybrid", parameters=TUNED)


def test_choosing_again_after_reading_test_queries_is_refused_though_the_first_choice_was_clean() -> None:
    ledger = tuned("calibration")
    ledger.lend(ASKED, retriever="hybrid", at="2026-01-03", split="test")
    ledger.choose(retriever="hybrid", parameters=TUNED, at="2026-01-04")
    with pytest.raises(GoldenError, match="chosen with test queries"):
        ledger.check(ASKED, retriever="hybrid", parameters=TUNED)


def test_what_another_retriever_read_does_not_count() -> None:
    ledger = SplitLedger()
    ledger.lend(ASKED, retriever="bm25", at="2026-01-01", split="test")
    ledger.declare_untuned(retriever="dense", parameters={}, at="2026-01-02")
    assert ledger.check(ASKED, retriever="dense", parameters={}).untuned


def test_nothing_can_be_called_untuned_after_queries_were_read() -> None:
    with pytest.raises(GoldenError, match="cannot be called untuned"):
        tuned("calibration").declare_untuned(retriever="hybrid", parameters={}, at="2026-01-05")


def test_lending_hands_out_the_queries_of_the_split() -> None:
    lent = SplitLedger().lend(ASKED, retriever="hybrid", at="2026-01-01")
    assert set(lent["split"]) == {"calibration"}
    assert lent.height == 3


def test_a_ledger_survives_its_file_and_a_spoilt_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    assert SplitLedger.load(path).entries == ()
    ledger = tuned("calibration")
    ledger.save(path)
    assert SplitLedger.load(path).entries == ledger.entries
    path.write_text(path.read_text() + "{}\n")
    with pytest.raises(GoldenError, match=r"ledger\.jsonl line 3"):
        SplitLedger.load(path)
