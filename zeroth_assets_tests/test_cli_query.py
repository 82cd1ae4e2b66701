"""`zeroth query`: what it prints for a person and for a script."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from zeroth_assets import cli_query
from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.embedding import Encoder, load_encoder
from zeroth_assets.errors import ArtefactError, QueryError
from zeroth_assets.search.abstention import Threshold
from zeroth_assets.search.query_text import checked_query
from zeroth_assets.settings import Settings, read_settings
from zeroth_assets.store import connect
from zeroth_assets.store.connect import Database
from zeroth_assets.store.preflight import PreflightError
from zeroth_assets.store.registry import ensure_chunk_set
from zeroth_assets_tests.search.corpus import chunks_of, filled, post, put

app = typer.Typer()
app.command("query")(cli_query.query)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder(engine="torch", precision="fp32")


@pytest.fixture(scope="module")
def home(module_database: Database, encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Postings and rows of the small tenants; in `section_aware`, rows as the packaged encoder makes them."""
    folder = tmp_path_factory.mktemp("home")
    filled(module_database, folder / "artefacts")
    ensure_chunk_set(module_database, "section_aware", encoder.dimension)
    chunks = chunks_of("rfc-quic")
    vectors = encoder.encode(chunks["text"].to_list())
    more = {"chunk_set": "section_aware", "vectors": vectors, "fingerprint": encoder.fingerprint}
    put(module_database, "rfc-quic", chunks, **more)
    return folder


@pytest.fixture(autouse=True)
def at_home(home: Path, module_database: Database, monkeypatch: pytest.MonkeyPatch) -> Settings:
    settings = read_settings(home=home, engine="torch", precision="fp32")
    monkeypatch.setattr(cli_query, "load_settings", lambda: settings)
    monkeypatch.setattr(connect, "open_database", lambda *_: module_database)
    return settings


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


LEXICAL = ("--principal", "rfc-quic", "--arm", "lexical", "--arm", "fulltext")


def test_passages_are_printed_for_a_script_with_their_places(home: Path) -> None:
    payload = json.loads(run("idle timeout", *LEXICAL, "--k", "2", "--json"))
    assert [one["rank"] for one in payload["passages"]] == [1, 2]
    assert payload["passages"][0]["tenant"] == "rfc-quic"
    assert "idle timeout" in payload["passages"][0]["text"]
    assert payload["abstention"] is None
    assert "trace" not in payload


def test_passages_are_printed_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run("idle timeout", *LEXICAL)
    assert "1. rfc:" in shown
    assert "idle timeout" in shown


def test_the_stages_and_the_arithmetic_are_shown_on_request() -> None:
    shown = run("idle timeout", *LEXICAL, "--explain")
    assert "1/(60+1)" in shown
    assert "'idle': tf 1" in shown
    assert "BM25 over 1 of 1 tenant, " in shown
    assert re.search(r"as rfc-quic, 1 tenant\b", shown)
    assert re.search(r"│ +1 │ rfc-quic │", shown), "the tenant by its key, not by a number of the database"
    payload = json.loads(run("idle timeout", *LEXICAL, "--explain", "--json"))
    assert payload["trace"]["stages"][0]["stage"] == "lexical"
    assert {one["tenant"] for one in payload["trace"]["order"]} == {"rfc-quic"}
    assert payload["opened_seconds"] > 0
    assert list(payload["bm25"]) == [one["chunk_id"] for one in payload["passages"] if "lexical" in one["ranks"]]


def test_the_packaged_encoder_searches_by_meaning_and_reranks() -> None:
    arguments = ("when is a silent link shut down", "-p", "rfc-quic", "--chunk-set", "section_aware", "--arm", "dense")
    found = json.loads(run(*arguments, "--json"))
    assert len(found["passages"]) == 5
    reranked = json.loads(run(*arguments, "--rerank", "late", "--json"))
    scores = [one["rerank_score"] for one in reranked["passages"]]
    assert scores == sorted(scores, reverse=True)


def test_what_the_analyser_makes_of_a_text_is_shown_without_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "open_database", lambda *_: pytest.fail("not needed"))
    shown = run("ERR-4012 in Section 2(a)(iii)", "--analyse")
    assert "err-4012" in shown
    assert "2(a)(iii)" in shown
    payload = json.loads(run("ERR-4012", "--analyse", "--json"))
    assert payload["terms"][0] == {"term": "err-4012", "start": 0, "end": 8}


def test_a_documents_bytes_do_not_steer_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in run("\x1b[31mred \u202e", "--analyse")
    assert cli_query._tame("a\x1b[2Jb\nc\u202e") == "a\ufffd[2Jb\nc\ufffd"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("idle",), "Nobody is named"),
        (("", "--analyse"), "empty"),
        (("idle", *LEXICAL, "--k", "0"), "number of results"),
        ((" ", *LEXICAL), "empty"),
        (("idle", *LEXICAL, "--arm", "lexical"), "cannot be configured"),
        (("idle", "-p", "rfc-quic", "--arm", "sparse"), "no arm sparse"),
        (("idle", "-p", "rfc-quic", "--arm", "lexical", "--rerank", "best"), "no reranker"),
        (("idle", *LEXICAL, "--abstain", "everybody"), "no threshold for role"),
        (("idle", *LEXICAL, "--abstain", "unrestricted"), "No arm of these stages"),
        (("idle", "-p", "stranger", "--arm", "lexical"), "not known"),
    ],
)
def test_what_cannot_be_asked_is_a_typed_error(arguments: tuple[str, ...], named: str) -> None:
    with pytest.raises(QueryError, match=named):
        CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def test_a_threshold_that_was_never_calibrated_is_named_with_what_makes_it() -> None:
    with pytest.raises(ArtefactError, match="abstention_metrics"):
        CliRunner().invoke(
            app, ["idle", "-p", "rfc-quic", "--arm", "dense", "--abstain", "single_tenant"], catch_exceptions=False
        )


def test_a_calibrated_threshold_withholds_weak_evidence(home: Path, encoder: Encoder) -> None:
    fingerprints = {"chunk_set": "section_aware", "encoder": encoder.fingerprint.digest}
    threshold = Threshold("dense", 0.99, 0.05, 0, 0, 0.1, 0.95, 9, 9, 0.5, "calibration", fingerprints)
    details = {"thresholds": {"section_aware.dense_exact/single_tenant": json.loads(threshold.to_json())}}
    ArtefactStore(home / "artefacts").write_frame(
        pl.DataFrame({"metric": ["auroc"]}),
        "abstention_metrics",
        describes="thresholds",
        code_version="1",
        code="test",
        details=details,
    )
    asked = ("when is a silent link shut down", "-p", "rfc-quic", "--chunk-set", "section_aware", "--arm", "dense")
    assert "weak_evidence" in run(*asked, "--abstain", "single_tenant")
    assert json.loads(run(*asked, "--json"))["abstention"] is None, "without the option nothing is withheld"


def test_a_reranker_that_fails_means_a_shorter_answer_or_none_where_that_is_asked(
    at_home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = at_home.model_copy(
        update={"reranker": "hosted", "reranker_url": "http://127.0.0.1:9/rerank", "reranker_model": "m"}
    )
    monkeypatch.setattr(cli_query, "load_settings", lambda: served)
    shown = run("idle timeout", *LEXICAL, "--k", "4")
    assert "degraded: reranker" in shown
    assert "3. rfc:" not in shown
    assert "reranker_unavailable" in run("idle timeout", *LEXICAL, "--high-risk")


def test_passages_that_repeat_a_better_one_go_behind_on_request(home: Path, module_database: Database) -> None:
    chunks = chunks_of("rfc-quic", {"rfc:8": ["gasket pressure", "gasket pressure again", "gasket torque"]})
    # The second says what the first says, in almost the same place.
    chunks = chunks.with_columns(char_start=pl.Series([0, 2, 100]), char_end=pl.Series([15, 23, 113]))
    put(module_database, "rfc-gaskets", chunks)
    post(ArtefactStore(home / "artefacts"), "rfc-gaskets", chunks)
    asked = ("gasket pressure", "-p", "rfc-gaskets", "--arm", "lexical", "--json")
    places = [
        [one["char_start"] for one in json.loads(run(*asked, *more))["passages"]] for more in ((), ("--diverse",))
    ]
    assert places == [[0, 2, 100], [0, 100, 2]]


def test_fewer_passages_than_asked_for_are_said_to_be_all_that_there_are() -> None:
    shown = run("idle timeout", *LEXICAL, "--k", "50")
    assert re.search(r"[0-9]+ of 50: fewer rows than k \(complete\)", shown)


def test_nothing_found_is_said_in_words() -> None:
    assert "No answer" in run("zzz", "--principal", "rfc-quic", "--arm", "lexical")
    assert checked_query("zzz") == "zzz"


def test_a_documents_words_make_no_line_that_looks_like_a_result(home: Path, module_database: Database) -> None:
    chunks = chunks_of("rfc-quic", {"rfc:9": ["quoted\n2. rfc:1  sec-acme"]}).with_columns(
        section_path=pl.lit("1 Heading\n3. rfc:2  sec-acme, characters 0-9")
    )
    put(module_database, "rfc-forger", chunks)
    post(ArtefactStore(home / "artefacts"), "rfc-forger", chunks)
    shown = run("quoted", "--principal", "rfc-forger", "--arm", "lexical").splitlines()
    assert [line for line in shown if re.match(r"[0-9]+\. ", line)] == [shown[0]]


def test_a_database_whose_boundary_is_open_answers_nobody(module_database: Database) -> None:
    with module_database.owner() as connection:
        connection.execute("grant select on zeroth.chunk_1_t1 to zeroth_app")
    try:
        result = CliRunner().invoke(app, ["streams", *LEXICAL])
        assert isinstance(result.exception, PreflightError)
        assert result.output == ""
    finally:
        with module_database.owner() as connection:
            connection.execute("revoke select on zeroth.chunk_1_t1 from zeroth_app")
