"""`zeroth metrics` and its subcommands on a materialised home, and what they say where there is nothing."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from zeroth_assets.errors import ArtefactError
from zeroth_assets.evaluation.golden.trec import read_qrels, read_run
from zeroth_assets.planning import measured_arms
from zeroth_assets.settings import read_settings
from zeroth_assets_tests.small_corpus import SETTINGS, SmallCorpus

ARMED = read_settings(manifest="sample", arms=SETTINGS["ZEROTH_ARMS"])
ARMS = {tuple(key.split(".")) for key in measured_arms(ARMED)}


def test_retrieval_is_printed_with_an_interval_for_every_arm(shared: SmallCorpus) -> None:
    done = shared.zeroth("metrics", "retrieval", "--role", "unrestricted")
    assert done.code == 0, done.err
    assert "single_tenant" not in done.out
    for _, name in ARMS:
        assert name in done.out
    rows = shared.zeroth("metrics", "retrieval", "--json").json
    assert {(row["chunk_set"], row["arm"]) for row in rows} == ARMS
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows if row["low"] is not None)
    assert all(row["definition"] and row["corpus_fingerprint"] and row["n"] for row in rows)
    assert not any("values" in row for row in rows)


def test_comparisons_abstention_and_latency_are_printed(shared: SmallCorpus) -> None:
    comparisons = shared.zeroth("metrics", "comparisons", "--json").json
    assert {row["primary"] for row in comparisons} == {True, False}
    assert all((row["p_holm"] is not None) == row["primary"] for row in comparisons)
    assert "p by Holm" in shared.zeroth("metrics", "comparisons").out
    latency = shared.zeroth("metrics", "latency", "--chunk-set", "fixed_512", "--json").json
    assert {row["chunk_set"] for row in latency} == {"fixed_512"}
    assert {row["callers"] for row in latency} == {1, 4}
    assert "p99_ms" in shared.zeroth("metrics", "latency").out
    abstention = shared.zeroth("metrics", "abstention")
    assert "withheld: fixed_512.rrf/unrestricted: There is nothing to calibrate on" in abstention.out


@pytest.mark.parametrize("form", ["csv", "trec"])
def test_figures_go_to_files(shared: SmallCorpus, tmp_path: Path, form: str) -> None:
    done = shared.zeroth("metrics", "export", str(tmp_path / form), "--format", form)
    assert done.code == 0, done.err
    written = sorted(path.name for path in (tmp_path / form).iterdir())
    assert len(done.out.split()) == len(written)
    if form == "csv":
        assert {"retrieval_metrics.csv", "retrieval_per_query.csv", "metric_comparisons.csv"} <= set(written)
        with (tmp_path / form / "retrieval_metrics.csv").open() as handle:
            assert {(row["chunk_set"], row["arm"]) for row in csv.DictReader(handle)} == ARMS
    else:
        queries = set(read_qrels(tmp_path / form / "fixed_512.qrels")["query_id"])
        run = read_run(tmp_path / form / "fixed_512.rrf.unrestricted.run")
        assert queries & set(run.run["query_id"])


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("retrieval", "--role", "nobody"), "unrestricted"),
        (("latency", "--chunk-set", "fixed_256"), "fixed_512"),
        (("export", "unused", "--format", "xlsx"), "parquet"),
        (("export", "unused", "--format", "trec", "--split", "train"), "calibration"),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(
    shared: SmallCorpus, arguments: tuple[str, ...], names: str
) -> None:
    done = shared.zeroth("metrics", *arguments)
    assert done.code == ArtefactError.exit_code
    assert names in done.err


@pytest.mark.parametrize("command", ["retrieval", "comparisons", "abstention", "latency", "export"])
def test_a_home_without_figures_names_the_command_that_makes_them(tmp_path: Path, command: str) -> None:
    nothing = SmallCorpus(tmp_path / "home", tmp_path)
    arguments = (command, str(tmp_path / "out")) if command == "export" else (command,)
    done = nothing.zeroth("metrics", *arguments)
    assert done.code == ArtefactError.exit_code
    assert "zeroth materialize" in done.err
