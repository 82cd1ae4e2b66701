"""The analysers: what is kept whole, what parts it gets, where each term stands, and that nothing breaks them."""

from __future__ import annotations

import doctest
import hashlib
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroth_assets.errors import QueryError
from zeroth_assets.search import analyser as module
from zeroth_assets.search.analyser import ANALYSERS, MAX_TERM, Analyser, analyser_named

COMPOUND, EXACT, STEMMED = (ANALYSERS[name] for name in ("compound", "exact", "compound-s"))


def terms(text: str, analyser: Analyser = COMPOUND) -> list[str]:
    return [token.term for token in analyser.analyse(text)]


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("14.2", ["14.2"]),
        ("ERR-4012", ["err-4012"]),
        ("10-K", ["10-k"]),
        ("RFC 9110", ["rfc", "9110"]),
        ("Section 2(a)(iii)", ["section", "2(a)(iii)"]),
        ("TLS_AES_128_GCM_SHA256", ["tls_aes_128_gcm_sha256"]),
        ("§ 14.2", ["§", "14.2"]),
        ("§14.2", ["§", "14.2"]),
        ("(a)(iii)", ["(a)(iii)"]),
        ("401(k), 78m(a) and 13a-15(e).", ["401(k)", "78m(a)", "and", "13a-15(e)"]),
        ("$1,000,000.50 or 1,00", ["1,000,000.50", "or", "1", "00"]),
        ("C++ and C#", ["c++", "and", "c#"]),
        ("AT&T, application/problem+json", ["at&t", "application/problem+json"]),
        ("192.168.0.1:443", ["192.168.0.1:443"]),
        ("urn:ietf:params", ["urn:ietf:params"]),
        ("well-known", ["well-known"]),
        ("Straße NAÏVE Ⅲ ﬁnal", ["strasse", "naïve", "iii", "final"]),
        ("हिन्दी", ["हिन्दी"]),
        ("東京", ["東", "京"]),
        ("ok 👍🏽 ❤️ ±", ["ok", "👍", "🏽", "❤", "±"]),
    ],
)
def test_what_people_search_for_stays_whole(text: str, whole: list[str]) -> None:
    assert terms(text, EXACT) == whole


@pytest.mark.parametrize("hyphen", ["-", "\u2010", "\u2011", "\u2212", "\ufe63", "\uff0d"])
def test_every_hyphen_is_one_hyphen(hyphen: str) -> None:
    assert terms(f"10{hyphen}K", EXACT) == ["10-k"]


@pytest.mark.parametrize("dash", ["\u2013", "\u2014", "--"])
def test_a_dash_separates(dash: str) -> None:
    assert terms(f"first{dash}second", EXACT) == ["first", "second"]


def test_invisible_characters_vanish_and_a_zero_width_space_separates() -> None:
    assert terms("agree\u00adment zero\u200bwidth \ufeffbom", EXACT) == ["agreement", "zero", "width", "bom"]


def test_the_possessive_goes_and_other_apostrophes_stay() -> None:
    assert terms("the company's, the Company’s; don't O'Reilly's", EXACT) == [
        *("the", "company", "the", "company"),
        *("don't", "o'reilly"),
    ]


@pytest.mark.parametrize(
    ("text", "all_terms"),
    [
        ("ERR-4012", ["err-4012", "err", "4012"]),
        ("RFC9110", ["rfc9110", "rfc", "9110"]),
        ("2(a)(iii)", ["2(a)(iii)", "2(a)", "2"]),
        ("13a-15(e)", ["13a-15(e)", "13a-15", "13a", "15"]),
        ("10-K", ["10-k", "10"]),
        ("TLS_AES_128", ["tls_aes_128", "tls", "aes", "128"]),
        ("14.2", ["14.2"]),
        ("2024-05-01", ["2024-05-01"]),
        ("word", ["word"]),
        ("and/or", ["and/or", "and", "or"]),
    ],
)
def test_a_compound_has_its_parts_after_it_and_a_number_has_none(text: str, all_terms: list[str]) -> None:
    assert terms(text) == all_terms


def test_the_stemmer_is_named_and_leaves_identifiers_alone() -> None:
    assert terms("Parties' obligations under RFCs, keys-2", STEMMED) == [
        *("party", "obligation", "under", "rfc", "keys-2", "key", "2")
    ]
    assert terms("parties") == ["parties"]


def test_each_term_says_where_it_comes_from() -> None:
    text = "Under Section 2(a)(iii), the ﬁnal 10‑K of Straße"
    cut = {token.term: text[token.start : token.end] for token in COMPOUND.analyse(text)}
    assert cut["2(a)(iii)"] == "2(a)(iii)"
    assert cut["2(a)"] == "2(a)"
    assert cut["final"] == "ﬁnal"
    assert cut["10-k"] == "10‑K"
    assert cut["strasse"] == "Straße"


def test_an_analyser_is_found_by_name_or_identity_and_another_version_is_refused() -> None:
    assert analyser_named("compound") is analyser_named("compound/1") is COMPOUND
    for name in ("compound/0", "porter", ""):
        with pytest.raises(QueryError, match="no analyser"):
            analyser_named(name)


def test_an_identifier_longer_than_any_is_cut_alike_everywhere() -> None:
    assert terms("a" * 5000) == ["a" * MAX_TERM]
    assert terms("é" * 100_000) == ["é" * MAX_TERM]


PINNED = """See Section 2(a)(iii), [RFC9110] and ERR-4012; TLS_AES_128_GCM_SHA256 (10‑K) the company’s 1,000,000.50 C++
http://www.rfc-editor.org/info/rfc9110. ﬁnal ½ ① Ⅲ naïve Straße İstanbul 東京 ❤️ §2.1 78m(a) (a)(iii) x\x00y हिन्दी"""


@pytest.mark.parametrize(
    ("name", "digest"),
    [("compound", "144ee781dda9516f"), ("compound-s", "99e7f4cc4d00e330"), ("exact", "a56847859b2c7028")],
)
def test_an_analyser_that_gives_other_terms_needs_another_version(name: str, digest: str) -> None:
    payload = "\n".join([ANALYSERS[name].identity, *terms(PINNED, ANALYSERS[name])])
    assert hashlib.sha256(payload.encode()).hexdigest()[:16] == digest


texts = st.text(max_size=60) | st.text(
    alphabet="abZ09 _-./:@&+()',#’§\u2011\u00ad\u0301\u200b\x00½ﬁ東👍\ud800", max_size=60
)


@given(texts, st.sampled_from(list(ANALYSERS.values())))
def test_the_two_ways_to_analyse_agree_on_any_text(text: str, analyser: Analyser) -> None:
    tokens = analyser.analyse(text)
    assert [t.term for t in tokens] == [term for word in text.split() for term in analyser.terms(word)]
    assert all(t.term and len(t.term) <= MAX_TERM and not any(c.isspace() for c in t.term) for t in tokens)
    assert all(0 <= t.start < t.end <= len(text) for t in tokens)


@given(texts)
def test_a_term_searched_for_by_itself_is_found(text: str) -> None:
    for term in terms(text, EXACT):
        assert term in terms(term, EXACT)


@given(texts)
def test_case_and_normal_form_do_not_matter(text: str) -> None:
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    assert terms(folded) == terms(text)


def test_the_worked_cases_of_the_docstrings_hold() -> None:
    assert doctest.testmod(module).failed == 0
