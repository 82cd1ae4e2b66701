"""The full-text arm: under the policy from end to end, and deaf to syntax."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.errors import DatabaseError
from zeroth_assets.search.fulltext import FullTextRetriever
from zeroth_assets.search.sessions import Sessions
from zeroth_assets.store.acl import UnknownPrincipalError
from zeroth_assets.store.connect import Database
from zeroth_assets_tests.search.corpus import CHUNK_SET, filled, tenant_ids, text_of


@pytest.fixture(scope="module", autouse=True)
def store(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> ArtefactStore:
    return filled(module_database, tmp_path_factory.mktemp("artefacts"))


@pytest.fixture
def sessions(module_database: Database) -> Iterator[Sessions]:
    with Sessions(module_database) as sessions:
        yield sessions


def test_words_are_found_by_their_stem_within_the_permitted_tenants(sessions: Sessions) -> None:
    fulltext = FullTextRetriever(sessions, CHUNK_SET)
    found = fulltext.search("cuad-licence", "terminating agreements")
    assert text_of(found.candidates[0].chunk_id).startswith("Either party may terminate")
    everywhere = fulltext.search("all", "terminating agreements")
    assert {c.tenant_id for c in everywhere.candidates} > {c.tenant_id for c in found.candidates}
    with pytest.raises(UnknownPrincipalError):
        fulltext.search("nobody", "agreement")


def test_any_word_may_match_or_all_must(sessions: Sessions) -> None:
    question = "idle plants and royalties"
    assert FullTextRetriever(sessions, CHUNK_SET).search("all", question).candidates
    assert not FullTextRetriever(sessions, CHUNK_SET, mode="web").search("all", question).candidates


def test_a_search_engines_syntax_is_understood_where_it_is_asked_for(sessions: Sessions) -> None:
    web = FullTextRetriever(sessions, CHUNK_SET, mode="web")
    assert len(web.search("rfc-quic", '"idle timeout" -handshake').candidates) == 2


def test_the_plan_is_a_scan_of_the_permitted_partitions_and_never_the_word_index(
    sessions: Sessions, module_database: Database
) -> None:
    fulltext = FullTextRetriever(sessions, CHUNK_SET, explain=True)
    assert fulltext.search("rfc-quic", "idle timeout").plan == "Seq Scan x 1"
    assert fulltext.search("all", "idle timeout").plan == f"Seq Scan x {len(tenant_ids(module_database))}"


def test_nothing_that_full_text_uses_was_marked_leakproof(module_database: Database, sessions: Sessions) -> None:
    with module_database.admin() as connection:
        row = connection.execute(
            "select bool_or(p.proleakproof) from pg_operator o join pg_proc p on p.oid = o.oprcode"
            " where o.oprname in ('@@', '@@@')"
        ).fetchone()
    assert row == (False,)


@pytest.mark.parametrize(
    "query",
    [
        "a & b | !c",
        "((",
        "'; drop table zeroth.tenant; --",
        "foo:*A",
        "\\",
        '"unclosed',
        "<->",
        "\x00",
        "\ud800",
        "and",
    ],
)
@pytest.mark.parametrize("mode", ["any", "web"])
def test_syntax_of_any_kind_is_an_answer(sessions: Sessions, query: str, mode: str) -> None:
    result = FullTextRetriever(sessions, CHUNK_SET, mode=mode).search("rfc-quic", query)  # type: ignore[arg-type]
    assert {c.tenant_id for c in result.candidates} <= {tenant_ids(sessions._connections._db)["rfc-quic"]}


def test_words_without_end_and_words_without_number_are_answered(sessions: Sessions) -> None:
    assert FullTextRetriever(sessions, CHUNK_SET).search("rfc-quic", "x" * 5_000).candidates == ()
    many = "timeout " + " ".join(f"word{n}" for n in range(10_000))
    found = FullTextRetriever(sessions, CHUNK_SET).search("rfc-quic", many)
    assert len(found.candidates) == 3
    assert found.degraded == "only the first 256 of 10,001 words were searched for"


def test_a_search_that_takes_too_long_is_ended(sessions: Sessions) -> None:
    words = " ".join(f"idle timeout word{n}" for n in range(5_000))
    with pytest.raises(DatabaseError, match="full text"):
        FullTextRetriever(sessions, CHUNK_SET, timeout_seconds=0.001).search("all", words)
    assert FullTextRetriever(sessions, CHUNK_SET).search("rfc-quic", "idle").candidates
