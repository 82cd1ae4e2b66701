from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from zeroth_assets.corpus.manifest import load_manifest
from zeroth_assets.corpus.parse import parse_document
from zeroth_assets.evaluation.golden.beir_import import document_ids, import_beir
from zeroth_assets.evaluation.golden.imported import find_imported, imported_digest, read_imported
from zeroth_assets.evaluation.golden.model import GoldenError, check_queries
from zeroth_assets_tests.evaluation.golden.beir_folder import DEV, TEST, write_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "tiny")


def test_a_folder_becomes_a_manifest_whose_texts_are_title_and_text(folder: Path, tmp_path: Path) -> None:
    report = import_beir(folder, tmp_path / "out", name="tiny", licence="CC0", calibration=("dev",))
    assert (report.documents, report.empty, report.queries, report.calibration_queries) == (20, 1, len(TEST), len(DEV))
    manifest = load_manifest(report.manifest)
    assert report.manifest.name == "tiny.json"
    assert {record.source for record in manifest} == {"text"}
    record = manifest.record("text:tiny:med-8")
    assert (record.identifier, record.title, record.licence) == ("MED-8", "On glaciers, 8", "CC0")
    raw = (tmp_path / "out" / str(record.mirror_path)).read_bytes()
    document = parse_document(record, raw)
    line = next(json.loads(x) for x in (folder / "corpus.jsonl").read_text("utf-8").splitlines() if "MED-8" in x)
    assert document.text == f"{line['title']}\n\n{line['text']}"


def test_truth_comes_back_under_the_corpus_ids_with_the_splits_as_published(folder: Path, tmp_path: Path) -> None:
    report = import_beir(folder, tmp_path / "out", name="tiny", licence="CC0", calibration=("dev",))
    found = find_imported(report.manifest)
    assert found is not None
    golden = read_imported(found, load_manifest(report.manifest))
    assert check_queries(golden.queries).height == len(TEST) + len(DEV)
    splits = dict(golden.queries.select("query_id", "split").iter_rows())
    assert splits["q:tiny/7"] == "calibration"
    assert set(splits.values()) == {"test", "calibration"}
    graded = {
        (query, document): grade
        for query, document, grade in golden.qrels.filter(pl.col("query_id") == "q:tiny/4").iter_rows()
    }
    # A document without text is in no manifest, and its judgment still counts against every ranking.
    assert graded == {
        ("q:tiny/4", "text:tiny:3"): 1,
        ("q:tiny/4", "text:tiny:0"): 1,
        ("q:tiny/4", "text:tiny:med-8"): 2,
        ("q:tiny/4", "tiny:empty"): 1,
    }
    assert golden.never.is_empty()
    assert not set(golden.queries["query_id"]) & set(golden.qrels["document_id"])


def test_documents_with_the_id_of_their_query_are_named_where_that_was_asked_for(folder: Path, tmp_path: Path) -> None:
    report = import_beir(folder, tmp_path / "out", name="tiny", licence="CC0", drop_identical_ids=True)
    golden = read_imported(tmp_path / "out" / "beir", load_manifest(report.manifest))
    assert ("q:tiny/1", "text:tiny:1") in set(golden.never.iter_rows())
    assert "q:tiny/PLAIN-6" not in set(golden.never["query_id"])


def test_an_import_is_repeated_without_a_change_and_a_changed_judgment_shows(folder: Path, tmp_path: Path) -> None:
    first = import_beir(folder, tmp_path / "out", name="tiny", licence="CC0")
    before, digest = first.manifest.read_bytes(), imported_digest(tmp_path / "out" / "beir")
    import_beir(folder, tmp_path / "out", name="tiny", licence="CC0")
    assert first.manifest.read_bytes() == before
    assert imported_digest(tmp_path / "out" / "beir") == digest
    with (folder / "qrels" / "test.tsv").open("a", encoding="utf-8") as handle:
        handle.write("5\t19\t1\n")
    import_beir(folder, tmp_path / "out", name="tiny", licence="CC0")
    assert imported_digest(tmp_path / "out" / "beir") != digest


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("corpus.jsonl", '{"_id": "0", "text": "again"}', r"corpus\.jsonl line 22 .*as in line 1"),
        ("corpus.jsonl", '{"_id": "x", "title": 7, "text": "t"}', r"corpus\.jsonl line 22 .*title"),
        ("corpus.jsonl", '{"_id": "\\ud800", "text": "t"}', r"corpus\.jsonl line 22 .*UTF-8"),
        ("queries.jsonl", "nonsense", r"queries\.jsonl line 8 .*JSON"),
        ("qrels/test.tsv", "1\tnobody\t1", r"test\.tsv line \d+ .*document of corpus"),
        ("qrels/test.tsv", "7\t1\t1", r"q:tiny/7 is judged in two of the splits test, dev"),
        ("qrels/dev.tsv", "7\t2\tmuch", r"dev\.tsv line 4 .*grade"),
    ],
)
def test_a_bad_folder_is_refused_with_its_line_before_anything_is_written(
    folder: Path, tmp_path: Path, file: str, line: str, complaint: str
) -> None:
    with (folder / file).open("a", encoding="utf-8") as handle:
        handle.write(line + "\n")
    with pytest.raises(GoldenError, match=complaint):
        import_beir(folder, tmp_path / "out", name="tiny", licence="CC0", calibration=("dev",))
    assert not (tmp_path / "out").exists()


def test_what_is_no_folder_no_split_or_no_set_is_refused(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(GoldenError, match=r"train\.tsv cannot be read"):
        import_beir(folder, out, name="tiny", licence="CC0", split="train")
    with pytest.raises(GoldenError, match="No qrels are called"):
        import_beir(folder, out, name="tiny", licence="CC0", calibration=("../dev",))
    import_beir(folder, out, name="tiny", licence="CC0")
    (out / "beir" / "set.json").write_text('{"schema": 2}', "utf-8")
    with pytest.raises(GoldenError, match="is not what `zeroth beir import` writes"):
        imported_digest(out / "beir")


def test_ids_keep_their_form_where_they_can_and_stay_apart_where_they_cannot() -> None:
    ids = document_ids(["4983", "MED-10", "a_b", "a b", "A-B", "\u00fc", "x" * 100, "<dbpedia:Foo_(x)>"])
    assert (ids["4983"], ids["MED-10"], ids["<dbpedia:Foo_(x)>"]) == ("4983", "med-10", "dbpedia-foo-x")
    assert len(set(ids.values())) == len(ids)
    assert all(len(value) <= 70 and value == value.lower() for value in ids.values())
