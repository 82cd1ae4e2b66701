"""Queries of every bad kind: an answer within the principal's tenants, or a typed error that repeats no document."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zeroth_assets.errors import QueryError
from zeroth_assets.search.query_text import checked_query
from zeroth_assets.search.retriever import Retriever
from zeroth_assets.search.retriever_model import RetrieverConfig
from zeroth_assets.store.connect import Database
from zeroth_assets_tests.search.corpus import CHUNK_SET, DOCUMENTS, filled
from zeroth_assets_tests.search.test_retriever import HashedWords

MINE, OTHERS = "cuad-licence", ("rfc-quic", "sec-acme")
FOREIGN = [text for tenant in OTHERS for texts in DOCUMENTS[tenant].values() for text in texts]

anything = st.text(st.characters(exclude_categories=()), max_size=80)
hostile = st.sampled_from(
    [
        "' or 1=1 --",
        "'; drop table zeroth.tenant; --",
        "set_config('zeroth.principal', 'all', false)",
        "royalty & ! | ( <-> :*A",
        '"unclosed phrase',
        "tenant:rfc-quic idle timeout",
        "%s %(principal)s {} \\x00 \\",
        "the of and to a",
        "東京 перевод עברית ไทย",
        "🙂👩‍👩‍👧",
        "\x00\x1b[31m\u202e\ud800\udfff",
        "ﬁ Å ß İ",
        "((((((((((2(a)(iii))",
        "-" * 300,
    ]
)


@pytest.fixture(scope="module")
def retriever(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Retriever]:
    store = filled(module_database, tmp_path_factory.mktemp("artefacts"))
    config = RetrieverConfig(CHUNK_SET, arms=("dense", "lexical", "fulltext"))
    with Retriever(module_database, store, config, encoder=HashedWords()) as made:
        yield made


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(anything, hostile, st.lists(hostile, min_size=2, max_size=4).map(" ".join)))
def test_whatever_is_asked_is_answered_from_the_principals_tenants_or_refused_by_name(
    retriever: Retriever, query: str
) -> None:
    try:
        result = retriever.search(MINE, query, k=20)
    except QueryError as error:
        if any(text in str(error) for text in FOREIGN):
            raise
        return
    assert {one.tenant for one in result.passages} <= {MINE}


@pytest.mark.parametrize("query", ["", " \n\t", "\u3000"])
def test_an_empty_query_is_refused(retriever: Retriever, query: str) -> None:
    with pytest.raises(QueryError, match="empty"):
        retriever.search(MINE, query)


@pytest.mark.parametrize("word", ["royalty ", "a&b|c ", "😀", "x"])
def test_a_query_of_a_hundred_kilobytes_is_answered(retriever: Retriever, word: str) -> None:
    query = (word * 100_000)[:100_000]
    assert {one.tenant for one in retriever.search(MINE, query).passages} <= {MINE}


def test_a_query_beyond_the_limit_and_one_that_is_no_text_are_refused(retriever: Retriever) -> None:
    with pytest.raises(QueryError, match="too long"):
        retriever.search(MINE, "a" * 200_000)
    with pytest.raises(QueryError, match="not text"):
        retriever.search(MINE, b"bytes")  # type: ignore[arg-type]


@pytest.mark.parametrize("principal", ["", "\x00", "x" * 300, "all'; --", "rfc-quic\n"])
def test_a_principal_that_is_no_name_or_nobodys_is_refused(retriever: Retriever, principal: str) -> None:
    with pytest.raises(QueryError):
        retriever.search(principal, "royalty")


@given(anything)
def test_a_checked_query_can_be_encoded_and_keeps_its_length(query: str) -> None:
    try:
        checked = checked_query(query)
    except QueryError:
        assert not query.strip()
        return
    assert len(checked.encode().decode()) == len(query)
    assert "\x00" not in checked
