"""The lexical arm: only permitted tenants' words count, and every hit was read again."""

from __future__ import annotations

import stat
from collections.abc import Iterator

import pytest

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.errors import ArtefactError, QueryError
from zeroth_assets.search.lexical import LexicalRetriever
from zeroth_assets.search.reconcile import reconcile
from zeroth_assets.search.sessions import Sessions
from zeroth_assets.search.shelf import artefact_name
from zeroth_assets.store.acl import NoTenantError, UnknownPrincipalError, grant, revoke
from zeroth_assets.store.connect import Database
from zeroth_assets_tests.search.corpus import (
    CHUNK_SET,
    chunks_of,
    filled,
    post,
    put,
    tenant_ids,
    text_of,
)


@pytest.fixture(scope="module")
def store(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> ArtefactStore:
    return filled(module_database, tmp_path_factory.mktemp("artefacts"))


@pytest.fixture
def lexical(module_database: Database, store: ArtefactStore) -> Iterator[LexicalRetriever]:
    with Sessions(module_database) as sessions:
        yield LexicalRetriever(sessions, store, CHUNK_SET)


def test_a_principal_finds_words_of_its_own_tenant_and_of_no_other(lexical: LexicalRetriever) -> None:
    mine, everything = lexical.search("sec-acme", "idle timeout"), lexical.search("all", "idle timeout")
    assert [text_of(c.chunk_id)[:12] for c in mine.candidates] == ["Revenue grew"]
    assert len(everything.candidates) == 4
    assert mine.shortfall is not None
    assert mine.shortfall.complete


def test_another_tenants_words_never_move_my_scores(
    module_database: Database, store: ArtefactStore, lexical: LexicalRetriever
) -> None:
    before = lexical.search("cuad-licence", "royalty agreement notice").candidates
    loud = {"rfc:9": ["royalty royalty agreement notice " * 40, "royalty agreement"]}
    put(module_database, "rfc-loud", chunks_of("rfc-quic", loud))
    post(store, "rfc-loud", chunks_of("rfc-quic", loud))
    assert lexical.search("cuad-licence", "royalty agreement notice").candidates == before
    assert before
    assert lexical.search("all", "royalty agreement notice").candidates[0].tenant_id != before[0].tenant_id


def test_an_unknown_principal_is_an_error_and_no_lack_of_evidence(lexical: LexicalRetriever) -> None:
    with pytest.raises(UnknownPrincipalError, match="nobody"):
        lexical.search("nobody", "idle timeout")


def test_a_revoked_grant_is_gone_for_the_next_query_caches_included(
    module_database: Database, lexical: LexicalRetriever
) -> None:
    grant(module_database, "reader", ["rfc-quic", "sec-acme"])
    assert len(lexical.search("reader", "idle timeout").candidates) == 4
    revoke(module_database, "reader", ["rfc-quic"])
    assert len(lexical.search("reader", "idle timeout").candidates) == 1
    revoke(module_database, "reader")
    nothing = lexical.search("reader", "idle timeout")
    assert nothing.candidates == ()
    assert nothing.shortfall is not None
    assert nothing.shortfall.reason == "no_tenant"


def test_a_hit_whose_chunk_is_not_there_any_more_is_dropped_and_counted(
    module_database: Database, store: ArtefactStore, lexical: LexicalRetriever
) -> None:
    chunks = chunks_of("rfc-quic", {"rfc:5": [f"gone away number {n}" for n in range(4)]})
    put(module_database, "rfc-gone", chunks.head(1))
    post(store, "rfc-gone", chunks)
    found = lexical.search("rfc-gone", "gone away", k=1)
    assert [c.chunk_id for c in found.candidates] == chunks["chunk_id"].head(1).to_list()
    assert found.candidates[0].rank == 1
    assert found.counts["dropped_not_there"] == 3
    assert found.degraded is not None
    difference = reconcile(module_database, store, CHUNK_SET, "rfc-gone")
    assert sorted(difference.only_postings) == sorted(chunks["chunk_id"].tail(3).to_list())
    assert (difference.indexed, difference.only_database, difference.agrees) == (1, (), False)
    put(module_database, "rfc-gone", chunks)
    assert reconcile(module_database, store, CHUNK_SET, "rfc-gone").agrees


def test_a_chunk_that_only_the_database_has_is_named_by_the_reconciliation(
    module_database: Database, store: ArtefactStore
) -> None:
    chunks = chunks_of("rfc-quic", {"rfc:6": ["first", "second"]})
    put(module_database, "rfc-half", chunks)
    assert reconcile(module_database, store, CHUNK_SET, "rfc-half").postings_built is False
    post(store, "rfc-half", chunks.head(1))
    difference = reconcile(module_database, store, CHUNK_SET, "rfc-half")
    assert difference.only_database == tuple(chunks["chunk_id"].tail(1).to_list())
    assert difference.remedy is not None
    assert "bm25_index_fixed_512" in difference.remedy


def test_the_reconciliation_tells_nobody_of_a_tenant_that_it_may_not_read(
    module_database: Database, store: ArtefactStore
) -> None:
    grant(module_database, "curious", ["rfc-quic"])
    with pytest.raises(NoTenantError, match="may not read sec-acme"):
        reconcile(module_database, store, CHUNK_SET, "sec-acme", principal="curious")
    with pytest.raises(UnknownPrincipalError):
        reconcile(module_database, store, CHUNK_SET, "sec-acme", principal="stranger")
    assert reconcile(module_database, store, CHUNK_SET, "rfc-quic", principal="curious").agrees


def test_a_tenant_without_postings_is_counted_and_the_stage_is_degraded(
    module_database: Database, lexical: LexicalRetriever
) -> None:
    put(module_database, "rfc-unposted", chunks_of("rfc-quic", {"rfc:7": ["a lonely text"]}))
    found = lexical.search("rfc-unposted", "lonely")
    assert found.counts["tenants_without_postings"] == 1
    assert found.degraded is not None


def test_new_postings_are_found_by_the_next_query(
    module_database: Database, store: ArtefactStore, lexical: LexicalRetriever
) -> None:
    chunks = chunks_of("rfc-quic", {"rfc:8": ["before", "afterwards"]})
    put(module_database, "rfc-new", chunks)
    post(store, "rfc-new", chunks.head(1))
    assert lexical.search("rfc-new", "afterwards").candidates == ()
    post(store, "rfc-new", chunks)
    assert len(lexical.search("rfc-new", "afterwards").candidates) == 1


@pytest.mark.parametrize("fault", ["another tenant's", "damaged"])
def test_postings_that_are_not_what_the_sidecar_says_are_refused(
    module_database: Database, store: ArtefactStore, lexical: LexicalRetriever, fault: str
) -> None:
    tenant = f"rfc-{fault[:3]}"
    chunks = chunks_of("rfc-quic", {f"rfc:{fault[:3]}": ["words"]})
    put(module_database, tenant, chunks)
    post(store, tenant, chunks, owner="rfc-quic" if fault == "another tenant's" else None)
    if fault == "damaged":
        path = store.local_path(artefact_name(CHUNK_SET), tenant)
        assert path is not None
        path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    with pytest.raises(ArtefactError, match="cannot be used"):
        lexical.search(tenant, "words")
    store.remove(artefact_name(CHUNK_SET), tenant)


def test_postings_lie_in_files_that_their_owner_alone_can_read(store: ArtefactStore) -> None:
    path = store.local_path(artefact_name(CHUNK_SET), "rfc-quic")
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_store_that_is_not_on_this_machine_is_read_whole(module_database: Database, store: ArtefactStore) -> None:
    remote = ArtefactStore("memory://search-test")
    post(remote, "rfc-quic", chunks_of("rfc-quic"))
    assert remote.local_path(artefact_name(CHUNK_SET), "rfc-quic") is None
    with Sessions(module_database) as sessions:
        here, there = (LexicalRetriever(sessions, s, CHUNK_SET).search("rfc-quic", "idle") for s in (store, remote))
    assert here.candidates == there.candidates


def test_many_tenants_searched_together_score_as_one_index(lexical: LexicalRetriever) -> None:
    detail = lexical.search_in_detail("all", "idle timeout")
    assert len(detail.shelved.opened) >= 3
    for candidate in detail.stage.candidates:
        assert detail.explain("idle timeout", candidate.chunk_id).score == pytest.approx(candidate.score, abs=1e-9)


def test_the_index_that_is_kept_belongs_to_its_grants(lexical: LexicalRetriever, module_database: Database) -> None:
    first, again = (lexical.search_in_detail("rfc-quic", "idle").shelved.index for _ in range(2))
    other = lexical.search_in_detail("cuad-licence", "idle").shelved.index
    assert first is again
    assert other is not first
    assert tenant_ids(module_database)["rfc-quic"] == lexical.search("rfc-quic", "idle").candidates[0].tenant_id


@pytest.mark.parametrize("k", [0, -1, 1_001, True])
def test_an_impossible_k_is_refused(lexical: LexicalRetriever, k: int) -> None:
    with pytest.raises(QueryError, match="number of results"):
        lexical.search("all", "idle", k)


def test_sessions_give_back_a_connection_that_knows_no_principal(
    module_database: Database, store: ArtefactStore
) -> None:
    with Sessions(module_database) as sessions:
        with sessions.session("rfc-quic", "a test") as connection:
            first = connection
        with sessions.session("cuad-licence", "a test") as connection:
            assert connection is first
            keys = connection.execute("select tenant_key from zeroth.tenant").fetchall()
        assert keys == [("cuad-licence",)]
        with sessions._connections.borrow() as connection:
            assert connection.execute("select count(*) from zeroth.tenant").fetchone() == (0,)
            connection.rollback()
