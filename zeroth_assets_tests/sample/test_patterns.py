from __future__ import annotations

import pytest

from zeroth_assets.sample.chooser import Chooser
from zeroth_assets.sample.contracts import reformat
from zeroth_assets.sample.patterns import fill


def test_choices_are_the_same_on_every_machine_and_python() -> None:
    chooser = Chooser("fixed")
    assert [chooser.below(1000) for _ in range(5)] == [914, 525, 968, 755, 802]
    assert Chooser("fixed").shuffled("abcdef") == list("abedcf")


def test_a_deck_deals_every_card_before_it_repeats_one() -> None:
    chooser = Chooser("deck")
    dealt = [chooser.deal("cards", "abcde") for _ in range(10)]
    assert sorted(dealt[:5]) == sorted(dealt[5:]) == list("abcde")


def test_slots_choices_and_citations_are_told_apart() -> None:
    pattern = "{Name} sends [one|one] of {n:3-3} to {name} [RFC90000] for ${m:1500-1500}."
    text = fill(pattern, Chooser("x"), {"name": "gauge"})
    assert text == "Gauge sends one of 3 to gauge [RFC90000] for $1,500."


def test_an_unknown_slot_is_named() -> None:
    with pytest.raises(KeyError, match="nobody"):
        fill("{nobody} comes", Chooser("x"), {})


def test_reformatting_keeps_the_words() -> None:
    text = "Article 1. Terms; and, if any,\n\nconditions: all of them. The end."
    again = reformat(text)
    words = again.lower().replace(".", " ").replace(",", " ").replace(";", " ").replace(":", " ").split()
    assert words == "article 1 terms and if any conditions all of them the end".split()  # noqa: SIM905
    assert again != text
