from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from zeroth_assets import planning
from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.chunking import CHUNKER_VERSION
from zeroth_assets.corpus.parse import PARSER_VERSION
from zeroth_assets.defs.resources import Project
from zeroth_assets.errors import ArtefactError, DatabaseError
from zeroth_assets.planning import feeds, phase_assets, tenant_assets
from zeroth_assets.store.connect import principal_session
from zeroth_assets.store.registry import list_tenants
from zeroth_assets_tests.small_corpus import CONTRACT, LANTERN, ORCHARD_SMALL, SmallCorpus, remade

TENANTS = ("cuad-consulting", "rfc-lantern-signalling", "rfc-orchard-naming", "sec-brf")


def all_of(*tenants: str) -> set[str]:
    return {f"{asset}/{tenant}" for asset in tenant_assets() for tenant in tenants}


def alone(*tenants: str) -> set[str]:
    """What a tenant has that depends on no other tenant."""
    return {f"{asset}/{tenant}" for asset in phase_assets("tenants") for tenant in tenants}


def corpuswide(*phases: str) -> set[str]:
    return {asset for phase in phases for asset in phase_assets(phase)}


def chain(chunk_set: str, tenant: str, first: str) -> set[str]:
    start = f"{first}_{chunk_set}"
    return {f"{asset}/{tenant}" for asset in tenant_assets() if asset == start or feeds(start, asset)}


def rows_of(corpus: SmallCorpus, document_id: str) -> int:
    """Rows of a document that somebody who may see all of them can see, over both chunk sets."""
    with corpus.active(), Project().database.app() as conn, principal_session(conn, "all"):
        counts = [
            conn.execute(f"select count(*) from zeroth.chunk_{n} where document_id = %s".encode(), [document_id])
            for n in (1, 2)
        ]
        return sum(int(row[0]) for row in (c.fetchone() for c in counts) if row is not None)


def refuse_rows(corpus: SmallCorpus, document_id: str) -> None:
    """From now on the database takes no new row of this document."""
    with corpus.active(), Project().database.admin() as conn:
        conn.execute(
            "create function public.refuse() returns trigger language plpgsql as $$ begin"
            " raise exception 'no row of % is wanted here', new.document_id; end $$"
        )
        for n in (1, 2):
            conn.execute(
                f"create trigger refuse before insert on zeroth.chunk_{n} for each row"
                f" when (new.document_id = '{document_id}') execute function public.refuse()".encode()
            )


def accept_rows(corpus: SmallCorpus) -> None:
    with corpus.active(), Project().database.admin() as conn:
        conn.execute("drop function public.refuse() cascade")


def loaded_tenants(corpus: SmallCorpus) -> set[str]:
    with corpus.active():
        return {tenant.tenant_key for tenant in list_tenants(Project().database)}


@pytest.fixture
def project(shared: SmallCorpus) -> Iterator[Project]:
    with shared.active():
        yield Project()


def test_materialize_narrowed_by_the_environment_touches_only_that_tenant_and_its_source(empty: SmallCorpus) -> None:
    done = empty.zeroth("materialize", "--json", ZEROTH_TENANTS="rfc-orchard-naming")
    assert done.code == 0, done.err
    partitioned = {*tenant_assets(), *planning.SOURCE_ASSETS}
    tenants = {name for name in empty.data_versions() if name.partition("/")[0] in partitioned}
    assert tenants == all_of("rfc-orchard-naming") | {"raw_documents/rfc", "parsed_documents/rfc"}
    assert [p.name for p in (empty.home / "raw").iterdir() if p.name in ("rfc", "sec", "cuad")] == ["rfc"]

    before = empty.made_at()
    done = empty.zeroth("materialize", "--tenant", "rfc-lantern-signalling", "--json", ZEROTH_TENANTS="sec-brf")
    assert done.code == 0, done.err
    # What stands on all tenants is made of those that there are.
    made = remade(before, empty.made_at())
    assert {n for n in made if n.partition("/")[0] in partitioned} == all_of("rfc-lantern-signalling")
    assert corpuswide("shared", "summaries") <= made


def test_materialize_narrowed_by_source_leaves_the_tenants_of_others_alone(own: SmallCorpus) -> None:
    for tenant in ("rfc-orchard-naming", "sec-brf"):
        own.data_file("ann_recall_fixed_512", tenant).unlink()
    before = own.made_at()
    assert own.remake("--source", "sec").code == 0
    assert remade(before, own.made_at()) == {"ann_recall_fixed_512/sec-brf"}


@pytest.mark.parametrize("stage", ["chunks", "tenant_index"])
def test_an_artefact_deleted_by_hand_is_remade_with_what_stands_on_it_and_nothing_else(
    stage: str, own: SmallCorpus
) -> None:
    versions, before = own.data_versions(), own.made_at()
    own.data_file(f"{stage}_fixed_512", "rfc-lantern-signalling").unlink()
    assert own.remake().code == 0
    wanted = chain("fixed_512", "rfc-lantern-signalling", stage)
    assert remade(before, own.made_at()) == wanted & alone("rfc-lantern-signalling")
    kept = {name: sha for name, sha in versions.items() if not name.startswith(("ann_recall", "tenant_index"))}
    assert kept.items() <= own.data_versions().items()


def test_raw_bytes_deleted_by_hand_are_had_again_and_no_tenant_is_remade(own: SmallCorpus) -> None:
    [stored] = (own.home / "raw" / "rfc").glob("*90201*/*.txt")
    stored.unlink()
    before = own.made_at()
    assert own.remake().code == 0
    assert stored.exists()
    assert remade(before, own.made_at()) == {"raw_documents/rfc", "parsed_documents/rfc"}


def test_reading_an_artefact_that_was_deleted_names_it_and_the_command(own: SmallCorpus) -> None:
    own.data_file("ann_recall_fixed_512", "sec-brf").unlink()
    done = own.zeroth("metrics")
    assert done.code == 7
    assert "ann_recall_fixed_512/sec-brf is missing" in done.err
    assert "zeroth materialize --asset ann_recall_fixed_512 --partition sec-brf" in done.err
    assert own.zeroth("materialize", "--asset", "ann_recall_fixed_512", "--partition", "sec-brf").code == 0
    assert own.zeroth("metrics").code == 0


def test_an_artefact_that_was_changed_by_hand_is_refused_with_its_checksum(own: SmallCorpus) -> None:
    path = own.data_file("ann_recall_fixed_512", "sec-brf")
    payload = path.read_bytes()
    path.write_bytes(payload[:-1] + bytes([payload[-1] ^ 1]))
    done = own.zeroth("metrics")
    assert done.code == 7
    assert "is damaged" in done.err
    with pytest.raises(ArtefactError, match="damaged"):
        ArtefactStore(own.artefacts).read_frame("ann_recall_fixed_512", "sec-brf")


@pytest.mark.parametrize(
    ("versions", "key", "stale_tenants", "stale_chain"),
    [
        (CHUNKER_VERSION, "fixed_512", TENANTS, "fixed_512"),
        (CHUNKER_VERSION, "section_aware", TENANTS, "section_aware"),
        (PARSER_VERSION, "rfc", ("rfc-lantern-signalling", "rfc-orchard-naming"), None),
    ],
    ids=["chunker fixed_512", "chunker section_aware", "parser rfc"],
)
def test_a_new_code_version_makes_its_tenants_stale_and_recomputes_nothing_by_itself(
    versions: dict[str, str],
    key: str,
    stale_tenants: tuple[str, ...],
    stale_chain: str | None,
    project: Project,
    shared: SmallCorpus,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = shared.made_at()
    assert not any(project.planner().stale(tenant_assets(), tenant) for tenant in TENANTS)
    monkeypatch.setitem(versions, key, versions[key] + "+1")
    planner = project.planner()
    found = {tenant: set(planner.stale(phase_assets("tenants"), tenant)) for tenant in TENANTS}
    wanted = {asset for asset in phase_assets("tenants") if stale_chain is None or asset.endswith(stale_chain)}
    assert found == {tenant: wanted if tenant in stale_tenants else set() for tenant in TENANTS}
    assert ("parsed_documents" in planner.stale(planning.SOURCE_ASSETS, "rfc")) == (stale_chain is None)
    assert shared.made_at() == before


def test_a_changed_document_remakes_its_tenant_alone(own: SmallCorpus) -> None:
    own.rewrite(LANTERN, lambda content: content.replace(b"lamp", b"lantern"))
    before, versions = own.made_at(), own.data_versions()
    done = own.zeroth("materialize")
    assert done.code == 0, done.out
    changed = {n for n in remade(before, own.made_at()) if n.partition("/")[0] in tenant_assets()}
    # Every tenant competes for the slots of the shared index, so its recall is another for all of them.
    compared = {name for name in all_of(*TENANTS) if name.startswith("access_recall")}
    assert changed == all_of("rfc-lantern-signalling") | compared
    others = {n: v for n, v in versions.items() if n.endswith(("cuad-consulting", "orchard-naming", "sec-brf"))}
    others = {n: v for n, v in others.items() if n not in compared}
    assert others.items() <= own.data_versions().items()


def test_a_document_taken_from_the_manifest_leaves_the_index(own: SmallCorpus) -> None:
    assert rows_of(own, ORCHARD_SMALL) > 0
    own.drop(ORCHARD_SMALL)
    before = own.made_at()
    assert own.remake().code == 0
    assert rows_of(own, ORCHARD_SMALL) == 0
    assert alone("rfc-orchard-naming") <= remade(before, own.made_at())
    assert not alone("rfc-lantern-signalling", "sec-brf") & remade(before, own.made_at())
    assert "rfc-orchard-naming" in loaded_tenants(own)


@pytest.mark.parametrize(("document", "tenant"), [(LANTERN, "rfc-lantern-signalling"), (CONTRACT, "cuad-consulting")])
def test_a_tenant_without_documents_is_retired_from_database_artefacts_and_partitions(
    document: str, tenant: str, own: SmallCorpus
) -> None:
    own.drop(document)
    before = own.made_at()
    done = own.remake("--json")
    assert done.code == 0, done.err
    assert done.json["retired"] == [tenant]
    assert f"{tenant} holds no document any more" in done.err
    assert tenant not in loaded_tenants(own)
    assert rows_of(own, document) == 0
    assert not all_of(tenant) & set(own.data_versions())
    assert not alone(*set(TENANTS) - {tenant}) & remade(before, own.made_at())
    assert own.remake("--tenant", tenant).code == 6
    assert own.remake("--json").json["runs"] == []


def test_a_tenant_that_fails_leaves_the_others_standing_and_shows_its_error(own: SmallCorpus) -> None:
    whole = own.path(LANTERN).read_bytes()
    own.rewrite(LANTERN, lambda content: content.replace(b"lamp", b"lantern"))
    refuse_rows(own, LANTERN)
    own.data_file("ann_recall_fixed_512", "sec-brf").unlink()
    former = own.data_versions()["ann_recall_fixed_512/rfc-lantern-signalling"]
    before = own.made_at()
    done = own.remake()
    assert done.code == DatabaseError.exit_code, done.out
    assert "failed rfc-lantern-signalling" in done.out
    assert "no row of rfc:90201 is wanted here" in done.out
    assert "ok sec-brf ann_recall_fixed_512" in done.out
    assert "ann_recall_fixed_512/sec-brf" in remade(before, own.made_at())
    assert own.data_versions()["ann_recall_fixed_512/rfc-lantern-signalling"] == former

    again = own.remake("--json")
    assert again.code == DatabaseError.exit_code
    assert {run["partition"] for run in again.json["runs"]} == {"rfc-lantern-signalling"}

    accept_rows(own)
    own.rewrite(LANTERN, lambda _: whole)
    assert own.remake().code == 0
    assert own.remake("--json").json["runs"] == []


def test_a_full_disk_is_named_and_the_former_artefacts_stay_in_force(
    own: SmallCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = own.data_versions()
    own.rewrite(LANTERN, lambda content: content.replace(b"lamp", b"lantern"))
    real_fsync = os.fsync

    def full(descriptor: int) -> None:
        if "artefacts" in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(28, "No space left on device")
        real_fsync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        done = own.remake()
    assert done.code == 7, done.out + done.err
    assert "No space left on device" in done.out + done.err
    assert "free disk space" in done.out + done.err
    assert own.data_versions() == versions
    assert not list(own.artefacts.glob("**/*.part"))
    assert own.remake().code == 0
    assert rows_of(own, LANTERN) > 0


def test_the_instance_holds_runs_partitions_metadata_and_checks(shared: SmallCorpus) -> None:
    import dagster as dg

    from zeroth_assets.defs.instance import open_instance

    with shared.active():
        project = Project()
        with open_instance(project.settings, project.database) as instance:
            runs = instance.get_runs()
            assert len(runs) >= 9
            assert {run.status for run in runs} == {dg.DagsterRunStatus.SUCCESS}
            assert set(instance.get_dynamic_partitions("tenant")) == set(TENANTS)
            key = dg.AssetKey("ann_recall_fixed_512")
            assert set(instance.get_materialized_partitions(key)) == set(TENANTS)
            event = instance.get_latest_materialization_event(key)
            assert event is not None
            assert event.asset_materialization is not None
            metadata: dict[str, Any] = dict(event.asset_materialization.metadata)
            assert "data:image/png;base64," in metadata["recall by ef_search"].value
            tenant = event.asset_materialization.partition
            assert metadata["sha256"].value == shared.data_versions()[f"ann_recall_fixed_512/{tenant}"]
            checks = [
                dg.AssetCheckKey(dg.AssetKey("chunks_section_aware"), "no_section_crossed"),
                dg.AssetCheckKey(dg.AssetKey("embeddings_fixed_512"), "unit_norm"),
                dg.AssetCheckKey(dg.AssetKey("tenant_index_fixed_512"), "holds_these_chunks"),
                dg.AssetCheckKey(key, "figures_are_honest"),
            ]
            for check in checks:
                history = instance.event_log_storage.get_asset_check_execution_history(check, limit=10)
                assert len(history) == len(TENANTS)
                assert {record.status.value for record in history} == {"SUCCEEDED"}
