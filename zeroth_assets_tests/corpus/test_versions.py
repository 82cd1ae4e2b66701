from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from zeroth_assets.corpus.manifest import load_manifest, write_manifest
from zeroth_assets.corpus.raw import raw_path, read_raw
from zeroth_assets.corpus.versions import candidates, update_manifest
from zeroth_assets.errors import ManifestError
from zeroth_assets_tests.corpus import publisher as answers
from zeroth_assets_tests.corpus.fetching import Home, memo, row, text_of
from zeroth_assets_tests.corpus.publisher import Publisher

PATH = "/rfc/rfc1.txt"
OLD, NEW, NEWER = text_of(1), text_of(1) + b"Erratum: MUST is SHOULD.\n", text_of(1) + b"Erratum 2: it was MUST.\n"
RECORD, OTHER = memo(1, OLD), memo(2)


@pytest.fixture
def site() -> Iterator[Publisher]:
    with Publisher() as running:
        running.serve(PATH, answers.answer(200, OLD))
        running.serve("/rfc/rfc2.txt", answers.answer(200, text_of(2)))
        yield running


@pytest.fixture
def home(tmp_path: Path, site: Publisher) -> Home:
    return Home(tmp_path / "home", site.base)


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "manifest.json"
    write_manifest([RECORD, OTHER], path)
    return path


def test_changed_bytes_are_set_aside_and_reported_and_never_stored_as_the_manifests_version(
    home: Home, site: Publisher
) -> None:
    site.serve(PATH, answers.answer(200, NEW))
    report = home.acquire(RECORD, OTHER)
    failed = row(report, RECORD)
    assert (failed["status"], row(report, OTHER)["status"]) == ("failed", "fetched")
    assert "other bytes than the manifest's" in failed["cause"]
    assert "zeroth corpus update" in failed["next_step"]
    assert not raw_path(home.raw_dir, RECORD).exists()
    (candidate,) = candidates(home.raw_dir)
    assert (candidate.document_id, candidate.replaces, candidate.bytes) == ("rfc:1", RECORD.sha256, len(NEW))
    assert candidate.path.read_bytes() == NEW
    assert home.acquire(RECORD, OTHER).requests == 0


def test_update_adds_a_record_and_keeps_the_old_one_with_its_file(home: Home, site: Publisher, manifest: Path) -> None:
    home.acquire(RECORD, OTHER)
    site.serve(PATH, answers.answer(200, NEW))
    wanted = dataclasses.replace(memo(1, b"bytes that nobody serves any more\n" * 50), mirror_path="rfc/rfc1.txt")
    write_manifest(
        [*load_manifest(manifest).records[1:], RECORD, dataclasses.replace(wanted, supersedes=RECORD.sha256)], manifest
    )
    home.acquire(*load_manifest(manifest).records)
    update = update_manifest(manifest, raw_dir=home.raw_dir)
    (added,) = update.added
    assert added.supersedes == wanted.sha256
    assert added.retrieved_at is not None
    assert added.retrieved_at.startswith("2026-")
    records = load_manifest(manifest)
    assert [r.sha256 for r in records if r.document_id == "rfc:1"] == [RECORD.sha256, wanted.sha256, added.sha256]
    assert records.record("rfc:1") == added
    assert read_raw(home.raw_dir, added) == NEW
    assert read_raw(home.raw_dir, RECORD) == OLD
    assert candidates(home.raw_dir) == ()
    assert home.table.frame().is_empty()
    report = home.acquire(*records)
    assert report.requests == 0
    assert report.counts == {"intact": 3, "superseded": 1, "fetched": 0, "failed": 0, "pending": 0}
    assert report.complete


def test_update_says_first_what_it_would_do(home: Home, site: Publisher, manifest: Path) -> None:
    site.serve(PATH, answers.answer(200, NEW))
    home.acquire(RECORD, OTHER)
    before = manifest.read_bytes()
    update = update_manifest(manifest, raw_dir=home.raw_dir, dry_run=True)
    assert [r.document_id for r in update.added] == ["rfc:1"]
    assert manifest.read_bytes() == before
    assert len(candidates(home.raw_dir)) == 1


def test_of_two_candidates_the_later_is_taken_and_the_other_named(home: Home, site: Publisher, manifest: Path) -> None:
    for payload in (NEW, NEWER):
        site.serve(PATH, answers.answer(200, payload))
        home.time.elapsed += 60
        home.table.release()
        home.acquire(RECORD)
    update = update_manifest(manifest, raw_dir=home.raw_dir)
    assert [r.bytes for r in update.added] == [len(NEWER)]
    assert [reason for _, reason in update.left] == ["a later candidate was taken"]
    assert candidates(home.raw_dir) == ()


def test_update_twice_adds_once(home: Home, site: Publisher, manifest: Path) -> None:
    site.serve(PATH, answers.answer(200, NEW))
    home.acquire(RECORD)
    assert len(update_manifest(manifest, raw_dir=home.raw_dir).added) == 1
    before = manifest.read_bytes()
    assert update_manifest(manifest, raw_dir=home.raw_dir).added == ()
    assert manifest.read_bytes() == before


def test_a_kill_between_manifest_and_cleaning_up_is_completed_by_the_same_call(
    home: Home, site: Publisher, manifest: Path
) -> None:
    site.serve(PATH, answers.answer(200, NEW))
    home.acquire(RECORD)
    kept = {p: p.read_bytes() for p in (home.raw_dir / "rfc/1/candidates").iterdir()}
    update_manifest(manifest, raw_dir=home.raw_dir)
    for path, payload in kept.items():
        path.write_bytes(payload)
    assert update_manifest(manifest, raw_dir=home.raw_dir).added == ()
    assert candidates(home.raw_dir) == ()


def test_update_of_named_documents_leaves_the_others(home: Home, site: Publisher, manifest: Path) -> None:
    site.serve(PATH, answers.answer(200, NEW))
    home.acquire(RECORD)
    assert update_manifest(manifest, raw_dir=home.raw_dir, document_ids=["rfc:2"]).added == ()
    assert len(candidates(home.raw_dir)) == 1


def test_a_candidate_of_an_unlisted_document_is_left_with_the_reason(
    home: Home, site: Publisher, manifest: Path
) -> None:
    site.serve(PATH, answers.answer(200, NEW))
    home.acquire(RECORD)
    write_manifest([OTHER], manifest)
    assert "does not list" in update_manifest(manifest, raw_dir=home.raw_dir).left[0][1]


def test_a_damaged_candidate_is_none(home: Home, site: Publisher, manifest: Path) -> None:
    site.serve(PATH, answers.answer(200, NEW))
    home.acquire(RECORD)
    candidates(home.raw_dir)[0].path.write_bytes(NEW[:100])
    assert candidates(home.raw_dir) == ()
    assert update_manifest(manifest, raw_dir=home.raw_dir).added == ()


def test_a_publisher_that_goes_back_to_an_earlier_version_makes_no_new_one(home: Home, site: Publisher) -> None:
    newer = dataclasses.replace(memo(1, NEW), supersedes=RECORD.sha256)
    report = home.acquire(RECORD, newer)
    assert "an earlier version again" in row(report, newer)["cause"]
    assert candidates(home.raw_dir) == ()


def test_a_manifest_that_cannot_be_written_is_told_with_the_remedy(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "no folder" / "manifest.json"
    with pytest.raises(ManifestError, match="ZEROTH_MANIFEST"):
        update_manifest(path, raw_dir=home.raw_dir)


def test_a_superseded_version_that_is_gone_is_not_asked_for(home: Home, site: Publisher) -> None:
    newer = dataclasses.replace(memo(1, NEW), supersedes=RECORD.sha256)
    site.serve(PATH, answers.answer(200, NEW))
    report = home.acquire(RECORD, newer)
    assert (row(report, RECORD)["status"], row(report, newer)["status"]) == ("superseded", "fetched")
    assert site.asked(PATH) == 1
    assert report.complete
