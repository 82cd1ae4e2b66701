from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zeroth_assets.corpus.manifest import (
    MAX_PROBLEMS,
    ManifestRecord,
    current_versions,
    dump_manifest,
    load_manifest,
    record_from_json,
    write_manifest,
)
from zeroth_assets.errors import ManifestError
from zeroth_assets.settings import project_file

A, B, C = "a" * 64, "b" * 64, "c" * 64


def record(**changes: Any) -> dict[str, Any]:
    given = {
        "document_id": "rfc:9110", "source": "rfc", "identifier": "9110", "title": "HTTP Semantics",
        "url": "https://www.rfc-editor.org/rfc/rfc9110.txt", "mirror_path": "rfc/rfc9110.txt", "sha256": A,
        "bytes": 10, "media_type": "text/plain", "licence": "BCP 78", "tenant_attribute": "HTTP",
    } | changes  # fmt: skip
    return {key: value for key, value in given.items() if value is not None}


def refusal(tmp_path: Path, *records: Any) -> str:
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"schema": 1, "records": list(records)}))
    with pytest.raises(ManifestError) as caught:
        load_manifest(path)
    return str(caught.value)


def test_the_published_manifest_lists_every_document_of_three_sources() -> None:
    manifest = load_manifest(project_file("corpus_manifest.json"))
    assert {s: len(manifest.of_source(s)) for s in ("rfc", "cuad", "sec")} == {"rfc": 703, "cuad": 510, "sec": 54}
    assert len(manifest.current()) == len(manifest) == 1267
    assert all(r.url or r.archive_url for r in manifest)


def test_version_links_of_the_published_manifest_are_document_ids() -> None:
    manifest = load_manifest(project_file("corpus_manifest.json"))
    assert manifest.record("rfc:4301").obsoletes == ("rfc:2401",)
    assert manifest.record("rfc:821").obsoleted_by == ("rfc:2821",)
    assert manifest.record("rfc:821").updated_by == ()


def test_the_two_byte_identical_contracts_stay_two_documents() -> None:
    manifest = load_manifest(project_file("corpus_manifest.json"))
    twins = [r for r in manifest if r.sha256.startswith("23255988c8f39e0b")]
    assert len({r.document_id for r in twins}) == 2


def test_writing_what_was_read_gives_the_same_bytes_whatever_the_order() -> None:
    path = project_file("corpus_manifest.json")
    manifest = load_manifest(path)
    assert dump_manifest(manifest) == path.read_bytes()
    assert dump_manifest(reversed(manifest.records)) == path.read_bytes()


def test_one_changed_field_changes_one_line() -> None:
    before = dump_manifest([record_from_json(record())]).decode().splitlines()
    after = dump_manifest([record_from_json(record(title="HTTP"))]).decode().splitlines()
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 1


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"sha256": "xyz"}, "sha256"),
        ({"bytes": 0}, "bytes"),
        ({"bytes": "10"}, "bytes"),
        ({"source": "arxiv"}, "source"),
        ({"source": "sec"}, "source"),
        ({"media_type": "application/pdf"}, "media_type"),
        ({"mirror_path": "../../etc/passwd"}, "mirror_path"),
        ({"mirror_path": "/etc/passwd"}, "mirror_path"),
        ({"mirror_path": "rfc//x"}, "mirror_path"),
        ({"mirror_path": "rfc\\x"}, "mirror_path"),
        ({"url": "ftp://example.org/x"}, "url"),
        ({"date": "2020-13"}, "date"),
        ({"date": "2021-02-29"}, "date"),
        ({"period_end": "2021-02-30"}, "period_end"),
        ({"licence": " "}, "licence"),
        ({"obsoletes": ["9110"]}, "obsoletes.0"),
        ({"supersedes": B}, "supersedes"),
        ({"supersedes": A}, "supersedes"),
    ],
)
def test_a_bad_field_is_named_with_its_record(tmp_path: Path, changes: dict[str, Any], field: str) -> None:
    assert f"record 0 (rfc:9110), field {field}: " in refusal(tmp_path, record(**changes))


@pytest.mark.parametrize("missing", ["sha256", "licence", "document_id", "tenant_attribute"])
def test_a_missing_field_is_named(tmp_path: Path, missing: str) -> None:
    message = refusal(tmp_path, record(**{missing: None}))
    assert "record 0 (" in message
    assert f"'{missing}' is a required property" in message


def test_an_unknown_field_is_named(tmp_path: Path) -> None:
    assert "'licenze' was unexpected" in refusal(tmp_path, record(licenze="BCP 78"))


def test_a_record_that_says_nothing_of_where_its_bytes_are_is_refused(tmp_path: Path) -> None:
    assert "nothing says where the bytes are" in refusal(tmp_path, record(url=None, mirror_path=None))


def test_an_archive_without_a_member_is_refused(tmp_path: Path) -> None:
    assert "archive_member" in refusal(tmp_path, record(archive_url="https://example.org/x.zip"))


def test_an_id_that_could_leave_its_folder_is_refused(tmp_path: Path) -> None:
    assert "field document_id" in refusal(tmp_path, record(document_id="rfc:../x"))


def test_all_problems_are_listed_not_only_the_first(tmp_path: Path) -> None:
    message = refusal(tmp_path, record(sha256="x", bytes=-1), record(document_id="rfc:1", source="arxiv"))
    assert "3 problems" in message
    assert all(part in message for part in ("field sha256", "field bytes", "record 1 (rfc:1), field source"))


def test_the_list_of_problems_is_bounded(tmp_path: Path) -> None:
    message = refusal(tmp_path, *(record(document_id=f"rfc:{n}", bytes=0) for n in range(MAX_PROBLEMS + 7)))
    assert message.count("field bytes") == MAX_PROBLEMS
    assert "and 7 more" in message


def test_the_same_version_twice_is_refused(tmp_path: Path) -> None:
    assert "stands in record 0 already" in refusal(tmp_path, record(), record())


def test_two_versions_of_a_document_need_a_link_that_says_which_is_current(tmp_path: Path) -> None:
    assert "one chain" in refusal(tmp_path, record(), record(sha256=B))
    assert "supersedes the same version" in refusal(
        tmp_path, record(), record(sha256=B, supersedes=A), record(sha256=C, supersedes=A)
    )


def test_versions_that_supersede_each_other_in_a_circle_are_refused(tmp_path: Path) -> None:
    assert "one chain" in refusal(tmp_path, record(supersedes=B), record(sha256=B, supersedes=A))


def test_the_current_version_is_the_one_that_nothing_supersedes() -> None:
    old, new = record_from_json(record()), record_from_json(record(sha256=B, supersedes=A))
    assert current_versions([new, old]) == (new,)


def test_two_filings_under_one_id_are_refused(tmp_path: Path) -> None:
    filing = {"document_id": "sec:1:10-k:2020-12-31", "source": "sec"}
    message = refusal(
        tmp_path,
        record(**filing, accession="0000000001-21-000001"),
        record(**filing, accession="0000000001-21-000002", sha256=B, supersedes=A),
    )
    assert "is another filing than 0000000001-21-000001" in message


@pytest.mark.parametrize("text", ["", "[", "[]", "{}", '{"schema": 2, "records": []}', '{"schema": 1, "records": [1]}'])
def test_what_is_not_a_manifest_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(text)
    with pytest.raises(ManifestError, match=str(path)):
        load_manifest(path)


def test_a_key_that_a_merge_left_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text('{"schema": 1, "records": [], "records": []}')
    with pytest.raises(ManifestError, match="records twice"):
        load_manifest(path)


def test_a_manifest_that_is_not_there_is_named_with_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"absent\.json.*ZEROTH_MANIFEST"):
        load_manifest(tmp_path / "absent.json")


def test_writing_an_invalid_manifest_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    good: ManifestRecord = record_from_json(record())
    write_manifest([good], path)
    before = path.read_bytes()
    with pytest.raises(ManifestError):
        write_manifest([good, good], path)
    assert path.read_bytes() == before


def test_a_manifest_is_for_everybody_to_read(tmp_path: Path) -> None:
    write_manifest([record_from_json(record())], tmp_path / "manifest.json")
    (tmp_path / "plain").touch()
    assert (tmp_path / "manifest.json").stat().st_mode & 0o444 == (tmp_path / "plain").stat().st_mode & 0o444
