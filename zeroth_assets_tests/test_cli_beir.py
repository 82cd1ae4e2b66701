"""A BEIR folder through the whole graph, and its figures against ir_measures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import ir_measures
import polars as pl
import pytest

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.errors import MeasurementError
from zeroth_assets_tests.evaluation.golden.beir_folder import TEST, write_folder
from zeroth_assets_tests.small_corpus import Done, SmallCorpus, quick_server, small_corpus

MEASURES = {
    "document_ndcg@10": ir_measures.nDCG @ 10,
    "document_recall@100": ir_measures.R @ 100,
    "document_average_precision@100": ir_measures.AP @ 100,
    "document_reciprocal_rank@10": ir_measures.RR @ 10,
}
ARMS = ("fixed_512.bm25", "section_aware.dense_exact", "fixed_512.rrf")


@dataclass(frozen=True, slots=True)
class Imported:
    """A home in which the set was materialised, and how that went."""

    corpus: SmallCorpus
    done: Done

    @property
    def store(self) -> ArtefactStore:
        return ArtefactStore(self.corpus.artefacts)


@pytest.fixture(scope="module")
def imported(tiny_model: Path) -> Iterator[Imported]:
    with small_corpus(
        "beir", None, (), ZEROTH_MODEL=str(tiny_model), ZEROTH_LATENCY_QUERIES="5", ZEROTH_ARMS="bm25,dense_exact,rrf"
    ) as empty:
        out = empty.folder / "out"
        source = write_folder(empty.folder / "Tiny")
        made = empty.zeroth(
            "beir", "import", str(source), "--out", str(out), "--licence", "CC0", "--calibration", "dev", "--json"
        )
        assert made.code == 0, made.err
        corpus = empty.with_extra(ZEROTH_MANIFEST=made.json["manifest"], ZEROTH_MIRROR=str(out))
        quick_server(corpus.home)
        yield Imported(corpus, corpus.zeroth("materialize", "--json"))


def test_the_whole_graph_takes_it_and_finds_nothing_stale_afterwards(imported: Imported) -> None:
    assert imported.done.code == 0, imported.done.err
    assert (imported.done.json["failed"], imported.done.json["missing"]) == (0, [])
    assert list(imported.store.partitions("tenant_index_fixed_512")) == ["text-tiny"]
    assert imported.corpus.zeroth("materialize", "--json").json["runs"] == []


def test_figures_over_documents_are_those_of_ir_measures_on_the_exported_runs(
    imported: Imported, tmp_path: Path
) -> None:
    assert imported.corpus.zeroth("metrics", "export", str(tmp_path), "--format", "trec").code == 0
    qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "document.qrels")))  # type: ignore[no-untyped-call]
    assert len(qrels) == sum(map(len, TEST.values()))
    values = set()
    for arm in ARMS:
        run = list(ir_measures.read_trec_run(str(tmp_path / f"{arm}.documents.run")))  # type: ignore[no-untyped-call]
        theirs = ir_measures.calc_aggregate(list(MEASURES.values()), qrels, run)
        table = imported.store.read_frame("retrieval_metrics", arm).filter(category="all")
        ours = dict(table.select("metric", "value").iter_rows())
        assert set(table["n"]) == {len(TEST)}
        for name, measure in MEASURES.items():
            assert ours[name] == pytest.approx(theirs[measure], abs=1e-9), (arm, name)
        assert 0 < ours["document_ndcg@10"] < 1
        values.add(ours["document_ndcg@10"])
    assert len(values) > 1


def test_a_document_of_several_chunks_stands_once_in_a_run(imported: Imported, tmp_path: Path) -> None:
    chunks = imported.store.read_frame("chunks_fixed_512", "text-tiny")
    assert chunks.filter(document_id="text:tiny:10").height > 1
    imported.corpus.zeroth("metrics", "export", str(tmp_path), "--format", "trec")
    lines = [x.split() for x in (tmp_path / "fixed_512.dense_exact.documents.run").read_text("utf-8").splitlines()]
    assert len({(line[0], line[2]) for line in lines}) == len(lines)
    assert {line[0] for line in lines} == {f"q:tiny/{query}" for query in TEST}
    assert all(line[2].startswith("text:tiny:") for line in lines)


def test_comparisons_and_tables_speak_of_documents_where_no_chunk_is_graded(imported: Imported) -> None:
    compared = imported.store.read_frame("metric_comparisons")
    assert compared.filter("primary").height > 0
    assert all(name.startswith("document_") for name in compared["metric"])
    shown = imported.corpus.zeroth("metrics", "retrieval")
    assert "document_ndcg@10" in shown.out
    grades = imported.store.read_frame("golden_set")
    assert set(grades["chunk_set"]) == {"document"}
    assert set(grades["judged_by"]) == {"as published with tiny"}
    assert set(grades.filter(pl.col("document_id") != "tiny:empty")["tenant"]) == {"text-tiny"}


def test_a_changed_judgment_makes_grades_anew_and_neither_indexes_nor_runs(imported: Imported) -> None:
    from zeroth_assets.defs.resources import Project

    qrels = imported.corpus.folder / "out" / "beir" / "qrels" / "test.tsv"
    before = qrels.read_text("utf-8")
    qrels.write_text(before.replace("5\t14\t2", "5\t14\t1"), "utf-8")
    with imported.corpus.active():
        planner = Project().planner()
        assert not planner.is_fresh("golden_queries")
        assert not planner.is_fresh("judgments")
        assert planner.is_fresh("tenant_index_fixed_512", "text-tiny")
        assert planner.is_fresh("retrieval_runs", "fixed_512.bm25")
    qrels.write_text(before, "utf-8")
    with imported.corpus.active():
        assert Project().planner().is_fresh("judgments")


def test_a_bad_folder_is_told_with_file_and_line(imported: Imported, tmp_path: Path) -> None:
    source = write_folder(tmp_path / "tiny")
    (source / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\t0\tlots\n", "utf-8")
    done = imported.corpus.zeroth("beir", "import", str(source), "--out", str(tmp_path / "out"), "--licence", "CC0")
    assert done.code == MeasurementError.exit_code
    assert "test.tsv line 2 is refused" in done.err
    assert not (tmp_path / "out").exists()
