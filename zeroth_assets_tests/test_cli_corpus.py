from __future__ import annotations

from pathlib import Path

import pytest

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.errors import AcquisitionError, ArtefactError, ManifestError, SettingsError
from zeroth_assets_tests.small_corpus import CONTRACT, LANTERN, SmallCorpus

ADD = ("corpus", "add", "--source", "rfc", "--licence", "Apache-2.0")


def test_a_document_of_ones_own_is_added_materialised_and_measured(own: SmallCorpus, tmp_path: Path) -> None:
    text = own.path(LANTERN).read_text("utf-8-sig").replace("90201", "90777")
    mine = tmp_path / "rfc90777.txt"
    mine.write_text(text, "utf-8")
    added = own.zeroth(*ADD, "--tenant", "Lantern Signalling", str(mine), "--json")
    assert added.code == 0, added.err
    assert added.json["document_id"] == "rfc:90777"
    assert own.remake("--source", "rfc", "--plain").code == 0
    tenants = {row["tenant"]: row["documents"] for row in own.zeroth("corpus", "tenants", "--json").json}
    assert tenants["rfc-lantern-signalling"] == 2


def test_a_document_that_is_listed_already_is_not_added_twice(own: SmallCorpus) -> None:
    done = own.zeroth(*ADD, "--tenant", "Lantern Signalling", str(own.path(LANTERN)))
    assert done.code == ManifestError.exit_code
    assert LANTERN in done.err


def test_a_file_that_is_not_there_is_named(own: SmallCorpus) -> None:
    done = own.zeroth(*ADD, "--tenant", "Lantern Signalling", "rfc99999.txt")
    assert done.code == AcquisitionError.exit_code
    assert "rfc99999.txt" in done.err


def test_changed_bytes_at_the_publisher_become_a_new_version_and_the_old_one_stays(own: SmallCorpus) -> None:
    former = own.record(CONTRACT)["sha256"]
    path = own.path(CONTRACT)
    path.write_bytes(path.read_bytes() + b"\nSigned again.\n")
    raw = own.home / "raw"
    kept = next(p for p in raw.rglob(f"{former}.*"))
    kept.unlink()
    first = own.remake("--source", "cuad", "--plain")
    assert first.code == AcquisitionError.exit_code
    assert CONTRACT in first.out + first.err
    dead = own.zeroth("corpus", "dead", "--json").json
    assert [letter["document_id"] for letter in dead] == [CONTRACT]
    assert "zeroth corpus update" in dead[0]["next_step"]
    planned = own.zeroth("corpus", "update", "--dry-run", "--json").json
    assert planned["added"][0]["supersedes"] == former
    assert len(own.records()) == 5
    assert own.zeroth("corpus", "update").code == 0
    versions = [r["sha256"] for r in own.records() if r["document_id"] == CONTRACT]
    assert len(versions) == 2
    assert former in versions
    assert own.remake("--source", "cuad", "--plain").code == 0
    assert own.zeroth("corpus", "dead", "--json").json == []


def document_check_passed(corpus: SmallCorpus) -> bool:
    """The newest evaluation of `raw_documents`' check that no document is missing."""
    with corpus.active():
        from dagster import AssetCheckKey, AssetKey

        from zeroth_assets.defs.instance import open_instance
        from zeroth_assets.defs.resources import Project

        project = Project()
        instance = open_instance(project.settings, project.database)
        key = AssetCheckKey(AssetKey("raw_documents"), "no_document_missing")
        (newest,) = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
        evaluation = newest.event.asset_check_evaluation if newest.event else None
    assert evaluation is not None
    return evaluation.passed


def test_a_dead_letter_is_taken_up_again_once_the_cause_is_mended(own: SmallCorpus) -> None:
    path, raw = own.path(CONTRACT), own.home / "raw"
    content = path.read_bytes()
    next(p for p in raw.rglob(f"{own.record(CONTRACT)['sha256']}.*")).unlink()
    path.unlink()
    assert own.remake("--source", "cuad", "--plain").code == AcquisitionError.exit_code
    assert not document_check_passed(own)
    assert own.zeroth("corpus", "retry").code == AcquisitionError.exit_code
    path.write_bytes(content)
    retried = own.zeroth("corpus", "retry", CONTRACT, "--json")
    assert retried.code == 0, retried.err
    assert retried.json["counts"]["fetched"] == 1
    assert own.zeroth("corpus", "verify").code == 0
    assert own.remake("--source", "cuad", "--plain").code == 0
    assert document_check_passed(own)


def test_a_folding_waits_until_it_is_accepted(own: SmallCorpus) -> None:
    """Above the floor at first, the small tenants would be folded under a higher one; nobody is renamed unasked."""
    floored = own.with_extra(ZEROTH_TENANT_FLOOR="10")
    done = floored.remake("--plain")
    assert done.code == 0, done.err
    assert "zeroth corpus tenants --accept" in done.out
    before = floored.zeroth("corpus", "tenants", "--json")
    assert "rfc-lantern-signalling" in {row["tenant"] for row in before.json}
    assert "waits for --accept" in before.err
    after = floored.zeroth("corpus", "tenants", "--accept", "--json")
    assert after.code == 0, after.err
    folded = {row["tenant"]: row["folded in"] for row in after.json}
    assert "rfc-lantern-signalling" not in folded
    assert folded["rfc-orchard-naming"] == "rfc-lantern-signalling"
    assert "waits for --accept" not in after.err


def test_provenance_goes_from_a_figure_to_the_publishers_bytes(shared: SmallCorpus) -> None:
    figure = "ann_recall_fixed_512/rfc-lantern-signalling"
    done = shared.zeroth("provenance", figure, "--verify", "--json")
    assert done.code == 0, done.err
    assert done.json["root"] == figure
    assert [d["document_id"] for d in done.json["documents"]] == [LANTERN]
    assert done.json["documents"][0]["sha256"] == shared.record(LANTERN)["sha256"]
    assert done.json["verified"]["documents"] == 1
    links = {link["key"] for link in done.json["links"]}
    assert {"chunks_fixed_512/rfc-lantern-signalling", "embeddings_fixed_512/rfc-lantern-signalling"} <= links


def test_provenance_fails_on_the_first_mismatch_and_names_it(own: SmallCorpus) -> None:
    figure = "ann_recall_fixed_512/rfc-lantern-signalling"
    raw = next(p for p in (own.home / "raw").rglob(f"{own.record(LANTERN)['sha256']}.*"))
    raw.write_bytes(raw.read_bytes()[:-1])
    done = own.zeroth("provenance", figure, "--verify")
    assert done.code == ArtefactError.exit_code
    assert LANTERN in done.err
    assert own.zeroth("provenance", figure).code == 0


@pytest.mark.parametrize("asset", ["corpus_manifest", "dedup_report", "tenant_assignments", "raw_documents/rfc"])
def test_every_sidecar_says_what_it_is_and_what_made_it(shared: SmallCorpus, asset: str) -> None:
    name, _, partition = asset.partition("/")
    sidecar = ArtefactStore(shared.artefacts).require(name, partition or None)
    assert sidecar.describes
    assert sidecar.generated_by["code"].startswith("zeroth_assets.")
    assert sidecar.generated_by["command"].startswith(f"zeroth materialize --asset {name}")
    assert sidecar.generated_by["commit"]
    assert all(len(version) == 64 for version in sidecar.inputs.values())


def test_asset_and_tenant_together_are_refused(shared: SmallCorpus) -> None:
    done = shared.zeroth("materialize", "--asset", "dedup_report", "--tenant", "rfc-lantern-signalling")
    assert done.code == SettingsError.exit_code
    assert "--partition" in done.err
