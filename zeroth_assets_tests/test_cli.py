from __future__ import annotations

from typing import Any

import pytest
import typer

from zeroth_assets import cli
from zeroth_assets.planning import all_assets, partitioned_by, phase_assets, tenant_assets
from zeroth_assets.store import server
from zeroth_assets.store.claims import ClaimSigner
from zeroth_assets_tests.database_fixtures import make_home, remove_home
from zeroth_assets_tests.small_corpus import DOCUMENTS, Materialised, SmallCorpus

TENANTS = ("cuad-consulting", "rfc-lantern-signalling", "rfc-orchard-naming", "sec-brf")


def commands(group: Any = None, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    group = group or typer.main.get_command(cli.app)
    found = [path]
    for name, command in getattr(group, "commands", {}).items():
        found += commands(command, (*path, name))
    return found


def test_the_first_materialize_makes_every_artefact(materialised: Materialised) -> None:
    done = materialised.first
    assert done.code == 0, done.err
    wanted = {f"{asset}/{tenant}" for asset in tenant_assets() for tenant in TENANTS}
    wanted |= {f"{asset}/{s}" for asset in ("raw_documents", "parsed_documents") for s in ("sec", "cuad", "rfc")}
    wanted |= {asset for asset in all_assets() if partitioned_by(asset) is None}
    assert wanted <= set(materialised.corpus.data_versions())
    for tenant in TENANTS:
        assert f"ok {tenant} {len(phase_assets('tenants'))} assets" in done.err


def test_json_tells_each_run_and_nothing_else_is_on_standard_output(materialised: Materialised) -> None:
    report = materialised.first.json
    first = [run["partition"] for run in report["runs"] if run["assets"] == list(phase_assets("tenants"))]
    assert first == list(TENANTS)
    assert all(run["succeeded"] and run["run_id"] for run in report["runs"])
    assert (report["failed"], report["missing"], report["retired"]) == (0, [], [])


def test_a_second_materialize_starts_no_run_and_says_so(shared: SmallCorpus) -> None:
    before = shared.made_at()
    done = shared.zeroth("materialize")
    assert done.code == 0
    assert f"nothing is stale: {len(before)} artefacts are fresh, no run was started" in done.out
    assert shared.made_at() == before


def test_a_second_materialize_as_json_lists_no_run(shared: SmallCorpus) -> None:
    assert shared.zeroth("materialize", "--json").json["runs"] == []


def test_metrics_prints_a_row_for_each_tenant_and_chunk_set(shared: SmallCorpus) -> None:
    done = shared.zeroth("metrics")
    assert done.code == 0
    for tenant in TENANTS:
        assert done.out.count(tenant) == 2
    assert "fixed_512" in done.out
    assert "95 % CI" in done.out


def test_metrics_as_json_carries_the_figures(shared: SmallCorpus) -> None:
    rows = shared.zeroth("metrics", "--json", "--chunk-set", "section_aware", "--tenant", "sec-brf", "--all-ef").json
    assert {row["tenant"] for row in rows} == {"sec-brf"}
    assert [row["ef_search"] for row in rows] == [5, 10, 40, 100, 200, 800]
    assert all(row["recall_low"] <= row["recall"] <= row["recall_high"] for row in rows)


def test_corpus_tenants_lists_documents_and_chunks(shared: SmallCorpus) -> None:
    rows = {row["tenant"]: row for row in shared.zeroth("corpus", "tenants", "--json").json}
    assert set(rows) == set(TENANTS)
    assert rows["rfc-orchard-naming"]["documents"] == 2
    assert "rfc-orchard-naming" in shared.zeroth("corpus", "tenants").out


def test_corpus_verify_counts_intact_documents(shared: SmallCorpus) -> None:
    assert shared.zeroth("corpus", "verify", "--json").json["counts"]["intact"] == len(DOCUMENTS)


def test_corpus_dead_is_empty_where_all_arrived(shared: SmallCorpus) -> None:
    assert "0 dead letters" in shared.zeroth("corpus", "dead").out


def test_corpus_verify_names_the_document_that_was_changed_and_exits_as_acquisition_does(own: SmallCorpus) -> None:
    [stored] = (own.home / "raw" / "rfc").glob("*90201*/*.txt")
    stored.chmod(0o644)
    stored.write_bytes(stored.read_bytes()[:-1])
    done = own.zeroth("corpus", "verify")
    assert done.code == 4
    assert "rfc:90201" in done.out
    assert own.remake().code == 0
    assert own.zeroth("corpus", "verify").code == 0


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_every_command_has_help(path: tuple[str, ...], shared: SmallCorpus) -> None:
    done = shared.zeroth(*path, "--help")
    assert done.code == 0
    assert "Usage:" in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("materialize", "--tenant", "rfc-nobody"), 6, "rfc-nobody"),
        (("materialize", "--tenant", "nobody"), 6, "nobody"),
        (("materialize", "--tenant", "../x"), 6, "../x"),
        (("materialize", "--source", "patents"), 2, "patents"),
        (("materialize", "--asset", "chunks_fixed"), 7, "chunks_fixed"),
        (("materialize", "--asset", "chunks_fixed_512", "--partition", "../x"), 7, "'../x'"),
        (("materialize", "--asset", "chunks_fixed_512", "--partition", "/abs"), 7, "'/abs'"),
        (("materialize", "--asset", "chunks_fixed_512", "--partition", "rfc-nobody"), 6, "rfc-nobody"),
        (("materialize", "--asset", "chunks_fixed_512"), 6, "chunks_fixed_512"),
        (("materialize", "--partition", "rfc"), 2, "--asset"),
        (("metrics", "--chunk-set", "fixed_256"), 7, "fixed_256"),
        (("metrics", "--tenant", "rfc-nobody"), 6, "rfc-nobody"),
        (("db", "psql", "--role", "root"), 10, "root"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_does_not_exist_is_named_with_its_exit_code_and_a_remedy(
    arguments: tuple[str, ...], code: int, named: str, shared: SmallCorpus
) -> None:
    before = shared.made_at()
    done = shared.zeroth(*arguments)
    assert done.code == code, done.err
    assert named in done.err
    assert "To do:" in done.err
    assert "Traceback" not in done.err
    assert shared.made_at() == before


def test_a_setting_out_of_range_is_named(shared: SmallCorpus) -> None:
    done = shared.zeroth("materialize", ZEROTH_ANN_QUERIES="three")
    assert done.code == 2
    assert "ZEROTH_ANN_QUERIES" in done.err


def test_a_home_that_cannot_be_made_is_named(shared: SmallCorpus) -> None:
    done = shared.zeroth("materialize", ZEROTH_HOME=str(shared.manifest / "home"))
    assert done.code in (2, 10)
    assert str(shared.manifest) in done.err
    assert "ZEROTH_HOME" in done.err


def test_tables_before_anything_was_made_name_the_command_that_makes_them(empty: SmallCorpus) -> None:
    for arguments in (("metrics",), ("corpus", "tenants")):
        done = empty.zeroth(*arguments)
        assert done.code == 7
        assert "zeroth materialize" in done.err


def test_db_commands_start_tell_and_stop_the_server_of_the_home(own: SmallCorpus) -> None:
    assert own.zeroth("db", "status").code == 3
    started = own.zeroth("db", "start", "--json")
    assert (started.code, started.json["state"]) == (0, "running")
    assert own.zeroth("db", "status", "--json").json["port"] == started.json["port"]
    migrated = own.zeroth("db", "migrate", "--json").json
    assert migrated["applied"] == []
    assert migrated["already"]
    assert own.zeroth("db", "stop").out == "stopped\n"
    assert own.zeroth("db", "stop").out == "not running\n"
    assert own.zeroth("db", "status").code == 3
    assert server.status(own.home).state == "stopped"


def test_psql_opens_as_the_app_role_and_sees_no_chunk_without_a_principal(shared: SmallCorpus) -> None:
    done = shared.process(
        "db", "psql", "--", "-Atc", "select current_user", "-c", "select count(*) from zeroth.chunk_1"
    )
    assert done.code == 0, done.err
    assert done.out.split() == ["zeroth_app", "0"]


def test_psql_sees_one_tenants_chunks_under_its_principal(shared: SmallCorpus) -> None:
    signed = ClaimSigner(shared.home, "zeroth").sign("rfc-orchard-naming").text
    claim = f"begin; set local zeroth.claim = '{signed}'"
    done = shared.process("db", "psql", "--", "-Atqc", claim + "; select count(*) > 0 from zeroth.chunk_1")
    assert done.out.split() == ["t"]


def test_psqls_own_exit_code_comes_through(shared: SmallCorpus) -> None:
    assert shared.process("db", "psql", "--", "-c", "select from where").code == 1


def test_env_prints_variables_that_open_the_same_instance(shared: SmallCorpus) -> None:
    done = shared.zeroth("env")
    assert f"export DAGSTER_HOME='{shared.home / 'dagster'}'" in done.out
    assert "export ZEROTH_HOME=" in done.out


@pytest.mark.parametrize("principal", ["rfc-orchard-naming", "all"])
def test_what_figures_are_measured_as_is_not_granted_or_revoked_by_hand(principal: str, shared: SmallCorpus) -> None:
    before = shared.zeroth("acl", "list", "--json").json
    for command in ("grant", "revoke"):
        done = shared.zeroth("acl", command, principal, "sec-brf")
        assert done.code == 12, done.err
        assert f"What '{principal}' may see is not changed by hand" in done.err
    assert shared.zeroth("acl", "list", "--json").json == before


def test_a_query_where_nothing_is_indexed_says_what_to_run(shared: SmallCorpus) -> None:
    home = make_home("asked-first")
    try:
        done = shared.zeroth("query", "lamps", "--principal", "all", ZEROTH_HOME=str(home))
    finally:
        remove_home(home)
    assert done.code == 7, done.err
    assert "run `zeroth materialize`" in done.err


def test_a_chunk_set_that_is_not_indexed_is_answered_with_those_that_are(shared: SmallCorpus) -> None:
    done = shared.zeroth("query", "lamps", "--principal", "all", "--chunk-set", "nosuch")
    assert done.code == 7
    assert "fixed_512, section_aware" in done.err


def test_the_last_lines_of_a_run_name_the_checks_that_did_not_pass(materialised: Materialised) -> None:
    unmet = {check for run in materialised.first.json["runs"] for check in run["unmet"]}
    assert "golden_set: unchanged_unless_accepted" in unmet
    assert "checks that warn or failed" in materialised.first.err
    assert "golden_set: unchanged_unless_accepted" in materialised.first.err
