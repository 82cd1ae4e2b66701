from __future__ import annotations

import pytest

from zeroth_assets.evaluation.golden.cuad_names import Identity, Names, date_of, identity_of, party_names, spoken_kind

KINDS = {"Supply": "supply agreement"}


def contract(name: str, parties: str, kind: str, date: str = "") -> Identity:
    answers = {"Parties": parties, "Document Name": kind, "Agreement Date": date}
    return identity_of(f"cuad:{name}", "Supply", answers, KINDS)


def phrase(*contracts: Identity, hide: frozenset[str] = frozenset()) -> str | None:
    name = Names(contracts, {}).name(contracts[0].document_id, hide=hide)
    return None if name is None else name.phrase


ONE = contract("one", 'ALPHA WORKS, INC. ("Seller"); Beta Foods LLC ("Buyer")', "SUPPLY AGREEMENT", "5/8/14")


def test_two_parties_and_a_kind_are_enough_where_nothing_else_answers_to_them() -> None:
    assert phrase(ONE) == "the supply agreement between Alpha Works and Beta Foods"


def test_another_kind_of_contract_of_the_same_parties_is_told_apart_by_its_kind() -> None:
    other = contract("two", "Alpha Works Inc.; Beta Foods LLC", "Hosting Agreement")
    assert phrase(ONE, other) == "the supply agreement between Alpha Works and Beta Foods"


def test_a_looser_name_of_the_same_kind_needs_the_date() -> None:
    other = contract("two", "Alpha Works Inc.; Beta Foods LLC", "Exclusive Supply Agreement", "6/1/15")
    assert phrase(ONE, other) == "the supply agreement between Alpha Works and Beta Foods dated May 8, 2014"


def test_a_contract_that_nothing_tells_apart_gets_no_name() -> None:
    undated = contract("two", "Alpha Works Inc.; Beta Foods LLC", "Supply Agreement")
    same_day = contract("two", "Alpha Works Inc.; Beta Foods LLC", "Supply Agreement", "5/8/14")
    assert phrase(ONE, undated) is None
    assert phrase(ONE, same_day) is None


def test_a_third_party_tells_apart_what_two_cannot() -> None:
    three = contract("three", "Alpha Works Inc.; Beta Foods LLC; Gamma Rail Ltd.", "Supply Agreement")
    assert phrase(three, ONE) == "the supply agreement between Alpha Works, Beta Foods and Gamma Rail"


def test_a_contract_with_the_same_text_need_not_be_told_apart() -> None:
    twin = contract("twin", "Alpha Works Inc.; Beta Foods LLC", "Supply Agreement", "5/8/14")
    alike = {"cuad:one": frozenset({"cuad:twin"})}
    assert Names([ONE, twin], alike).name("cuad:one") is not None


@pytest.mark.parametrize(
    ("hide", "expected"),
    [
        ("parties", "the supply agreement of Alpha Works"),
        ("kind", "the agreement between Alpha Works and Beta Foods"),
    ],
)
def test_a_name_does_not_give_away_what_is_asked_for(hide: str, expected: str) -> None:
    assert phrase(ONE, hide=frozenset({hide})) == expected


def test_a_date_is_left_out_where_it_is_asked_for() -> None:
    other = contract("two", "Alpha Works Inc.; Beta Foods LLC", "Supply Agreement", "6/1/15")
    assert phrase(ONE, other, hide=frozenset({"date"})) is None


def test_roles_blanks_and_collective_names_are_no_parties() -> None:
    answer = 'You ("Affiliate"); ____ ("Agent"); Chase Bank USA, N.A., ("Chase"); A and B (collectively "Parties"); [●]'
    assert party_names(answer) == ["Chase Bank USA", "A and B"]
    assert (
        party_names('Acme Inc.; Acme, Inc. and Zed (individually a "Party" or collectively the "Parties")')[0] == "Acme"
    )


def test_a_documents_name_that_cannot_be_spoken_gives_way_to_the_kind_of_contract() -> None:
    assert spoken_kind("EXHIBIT ‘B’", []) is None
    assert spoken_kind("Acme Enters Into Outsourcing Agreement", ["Acme"]) is None
    assert contract("x", "Alpha Inc.; Beta LLC", "EXHIBIT 'B'").kind == "supply agreement"


def test_a_date_with_a_blank_is_none() -> None:
    assert date_of("[]/[]/2015") is None
    assert date_of("2/30/15") is None
