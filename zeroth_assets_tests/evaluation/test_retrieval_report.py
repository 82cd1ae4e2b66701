"""Published figures of retrieval: the table of arms, and files that others can read back."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.errors import ArtefactError
from zeroth_assets.evaluation.golden.trec import read_qrels, read_run
from zeroth_assets.evaluation.metric_tables import evaluate
from zeroth_assets.evaluation.retrieval_report import (
    export_tables,
    export_trec,
    per_query_values,
    published_figures,
    published_tables,
    table_of_arms,
)
from zeroth_assets_tests.evaluation.retrieval_tables import figures_of, runs_of

ABOUT = {"describes": "a test's", "code_version": "1", "code": "test"}


@pytest.fixture
def store(tmp_path: Path) -> ArtefactStore:
    store = ArtefactStore(tmp_path / "artefacts")
    for name, quality in (("bm25", 0.6), ("rrf", 0.7)):
        key = f"fixed_512.{name}"
        store.write_frame(figures_of({("fixed_512", name, "unrestricted"): quality}), "retrieval_metrics", key, **ABOUT)
        rows = [
            {"query_id": "q:1", "role": "unrestricted", "split": "test", "score": 0.5, "ranking": ["7", "8"]},
            {"query_id": "q:2", "role": "unrestricted", "split": "calibration", "score": 0.5, "ranking": ["8"]},
        ]
        store.write_frame(runs_of(rows), "retrieval_runs", key, **ABOUT)
    grades = pl.DataFrame(
        {
            "chunk_set": ["fixed_512"] * 2,
            "query_id": ["q:1", "q:2"],
            "document_id": ["8", "8"],
            "grade": [3, 2],
            "judged_by": ["expert span"] * 2,
            "tenant": ["t"] * 2,
        }
    )
    store.write_frame(grades, "golden_set", **ABOUT)
    store.write_frame(
        pl.DataFrame({"query_id": ["q:1", "q:2"], "split": ["test", "calibration"], "category": ["single_chunk"] * 2}),
        "golden_queries",
        **ABOUT,
    )
    return store


def test_the_table_of_arms_has_a_row_per_arm_and_an_interval_with_every_value(store: ArtefactStore) -> None:
    table = table_of_arms(published_figures(store))
    assert table["arm"].to_list() == ["bm25", "rrf"]
    for cell in table["ndcg_exponential@10"]:
        value, low, high = (float(part.strip("[],")) for part in cell.split())
        assert low < value < high
    assert published_figures(store, ["fixed_512.rrf"])["arm"].unique().to_list() == ["rrf"]


def test_every_query_of_a_mean_can_be_had(store: ArtefactStore) -> None:
    figures = published_figures(store)
    values = per_query_values(figures)
    for row in figures.filter(pl.col("category") == "all").iter_rows(named=True):
        mine = values.filter((pl.col("arm") == row["arm"]) & (pl.col("metric") == row["metric"]))
        assert mine["values"].mean() == pytest.approx(row["value"])


@pytest.mark.parametrize("form", ["csv", "parquet", "json"])
def test_every_published_table_goes_to_a_file_and_comes_back(store: ArtefactStore, tmp_path: Path, form: str) -> None:
    files = export_tables(store, tmp_path / "out", form)  # type: ignore[arg-type]
    assert {path.name for path in files} == {
        f"{name}.{form}" for name in ("retrieval_metrics", "retrieval_per_query", "golden_set")
    }
    path = tmp_path / "out" / f"retrieval_metrics.{form}"
    back = (
        pl.DataFrame(json.loads(path.read_text()))
        if form == "json"
        else (pl.read_csv(path) if form == "csv" else pl.read_parquet(path))
    )
    wanted = published_tables(store)["retrieval_metrics"]
    assert back.height == wanted.height
    assert back["value"].to_list() == pytest.approx(wanted["value"].to_list())


def test_runs_and_grades_of_one_split_go_to_trec_files_that_evaluate_alike(
    store: ArtefactStore, tmp_path: Path
) -> None:
    files = export_trec(store, tmp_path / "trec")
    assert [path.name for path in files] == [
        "fixed_512.qrels",
        "fixed_512.bm25.unrestricted.run",
        "fixed_512.rrf.unrestricted.run",
    ]
    qrels = read_qrels(tmp_path / "trec/fixed_512.qrels")
    assert qrels["query_id"].to_list() == ["q:1"]
    run = read_run(tmp_path / "trec/fixed_512.rrf.unrestricted.run")
    assert run.tag == "fixed_512.rrf.unrestricted"
    assert evaluate(run.run, qrels, cutoffs=(5,), measures=("reciprocal_rank",)).row(0)[1] == 0.5
    assert export_trec(store, tmp_path / "other", "calibration")[0].read_text() == "q:2 0 8 2\n"


def test_a_home_without_figures_says_how_to_make_them(tmp_path: Path) -> None:
    empty = ArtefactStore(tmp_path / "nothing")
    for call in (
        lambda: published_tables(empty),
        lambda: export_trec(empty, tmp_path / "out"),
        lambda: export_tables(empty, tmp_path / "out", "csv"),
    ):
        with pytest.raises(ArtefactError, match="zeroth materialize"):
            call()


def test_a_folder_that_is_a_file_and_an_unknown_format_are_refused(store: ArtefactStore, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(ArtefactError, match="cannot be made"):
        export_tables(store, tmp_path / "taken", "csv")
    with pytest.raises(ArtefactError, match="not written as"):
        export_tables(store, tmp_path / "out", "xlsx")  # type: ignore[arg-type]
