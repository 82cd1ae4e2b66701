from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from zeroth_assets.corpus.manifest import load_manifest
from zeroth_assets.corpus.manifest_build import build_records, iso_date, main, sec_document_id, slug_of
from zeroth_assets.errors import ManifestError
from zeroth_assets.settings import project_file


@pytest.mark.mirror
def test_the_committed_manifest_is_what_the_mirror_gives_byte_for_byte(mirror: Path, tmp_path: Path) -> None:
    assert main([str(mirror), str(tmp_path / "made.json")]) == 0
    assert (tmp_path / "made.json").read_bytes() == project_file("corpus_manifest.json").read_bytes()


@pytest.mark.mirror
def test_every_record_names_a_file_of_the_mirror_with_its_bytes(mirror: Path) -> None:
    for record in load_manifest(project_file("corpus_manifest.json")):
        payload = (mirror / str(record.mirror_path)).read_bytes()
        assert (len(payload), hashlib.sha256(payload).hexdigest()) == (record.bytes, record.sha256)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("June 2020", "2020-06"),
        ("6/21/99", "1999-06-21"),
        ("10/1/19", "2019-10-01"),
        ("2002-03-14", "2002-03-14"),
        ("03/[]/2018", "2018-03"),
        ("[]/[]/2004", "2004"),
        ("[]/15/2004", None),
        ("[]/[]/20[]", None),
        ("[]/[]/[][]", None),
        ("13/1/2004", None),
        ("2/30/2010", None),
        ("1/1/35", None),
        ("01/01/2006; 11/[]/2006", None),
        ("Juin 2020", None),
        (None, None),
    ],
)
def test_a_date_is_kept_as_precisely_as_it_is_certain(printed: str | None, expected: str | None) -> None:
    assert iso_date(printed) == expected


def test_a_10ka_and_its_10k_get_two_ids() -> None:
    plain, amended = (sec_document_id("0000012927", "BA", form, "2003-12-31") for form in ("10-K", "10-K/A"))
    assert (plain, amended) == ("sec:12927:10-k:2003-12-31", "sec:12927:10-k-a:2003-12-31")


def test_a_filer_without_a_cik_is_known_by_its_slug() -> None:
    assert sec_document_id(None, "CIGF5", "10-K", "2015-12-31") == "sec:cigf5:10-k:2015-12-31"


def test_long_names_that_differ_at_the_end_get_different_slugs_of_bounded_length() -> None:
    one, two = slug_of("Content License Agreement " * 8 + "1"), slug_of("Content License Agreement " * 8 + "2")
    assert one != two
    assert max(len(one), len(two)) <= 80


def test_a_duplicate_contract_with_a_number_in_its_name_keeps_its_own_id() -> None:
    assert slug_of("ADUROBIOTECH-CONSULTING AGREEMENT(1)") != slug_of("ADUROBIOTECH-CONSULTING AGREEMENT")


def _item(contract: str) -> dict[str, Any]:
    return {
        "path": f"cuad/{contract}.txt", "source": "cuad", "role": "document", "identifier": {"contract": contract},
        "title": contract, "tenant": {"contract_type": "License"}, "date": None, "bytes": 1, "sha256": "0" * 64,
        "licence": "CC BY 4.0", "altered": None,
    }  # fmt: skip


def test_two_documents_that_would_share_an_id_are_refused_with_both_named() -> None:
    with pytest.raises(ManifestError, match=r"cuad/A B\.txt and cuad/A-B\.txt"):
        build_records([_item("A B"), _item("A-B")])


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(ManifestError, match="unknown source"):
        build_records([_item("A") | {"source": "arxiv"}])
