from __future__ import annotations

from pathlib import Path
from typing import Any

import ir_measures
import polars as pl
import pytest

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.golden.model import GoldenError
from zeroth_assets.evaluation.golden.trec import read_qrels, read_run, write_qrels, write_run
from zeroth_assets.evaluation.metric_tables import QRELS_SCHEMA, RUN_SCHEMA, evaluate

RUN = pl.DataFrame(
    [("q:1", "b", 0.8), ("q:1", "a", 0.8), ("q:1", "c", 0.80000001), ("q:2", "a", -1.0)],
    schema=RUN_SCHEMA,
    orient="row",
)
QRELS = pl.DataFrame([("q:1", "a", 3), ("q:1", "c", 0), ("q:2", "a", 1)], schema=QRELS_SCHEMA, orient="row")


def write(folder: Path, content: str) -> Path:
    path = folder / "file.txt"
    path.write_text(content, encoding="utf-8")
    return path


def test_a_run_is_written_with_rank_derived_scores_best_first(tmp_path: Path) -> None:
    write_run(RUN, tmp_path / "run.txt", tag="dense")
    assert (tmp_path / "run.txt").read_text().splitlines() == [
        "q:1 Q0 c 1 3 dense",
        "q:1 Q0 a 2 2 dense",
        "q:1 Q0 b 3 1 dense",
        "q:2 Q0 a 1 1 dense",
    ]


def test_what_is_written_is_read_with_the_same_ranking_and_no_tie(tmp_path: Path) -> None:
    write_run(RUN, tmp_path / "run.txt", tag="dense")
    read = read_run(tmp_path / "run.txt")
    assert (read.tag, read.tied) == ("dense", 0)
    write_qrels(QRELS, tmp_path / "qrels.txt")
    assert read_qrels(tmp_path / "qrels.txt").equals(QRELS)
    assert evaluate(read.run, QRELS).equals(evaluate(RUN, QRELS))


def test_another_tool_reads_the_same_figures_from_the_files(tmp_path: Path) -> None:
    write_run(RUN, tmp_path / "run.txt", tag="dense")
    write_qrels(QRELS, tmp_path / "qrels.txt")
    oracle: Any = ir_measures
    qrels = list(oracle.read_trec_qrels(str(tmp_path / "qrels.txt")))
    run = list(oracle.read_trec_run(str(tmp_path / "run.txt")))
    theirs = {m.query_id: m.value for m in oracle.iter_calc([oracle.RR(rel=1)], qrels, run)}
    ours = evaluate(RUN, QRELS, cutoffs=(50,), measures=("reciprocal_rank",), relevant=1)
    assert dict(ours.iter_rows()) == pytest.approx(theirs)


def test_scores_decide_not_the_column_of_ranks_and_ties_are_counted(tmp_path: Path) -> None:
    read = read_run(write(tmp_path, "1 Q0 a 1 0.5 t\n1 Q0 b 2 0.9 t\n\n1 Q0 c 3 0.5 t\n"))
    assert read.run.sort("score", descending=True)["document_id"][0] == "b"
    assert read.tied == 2


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("1 Q0 a 1 0.5", "6 columns"),
        ("1 Q0 a 1 nan t", "finite number"),
        ("1 Q0 a 1 inf t", "finite number"),
        ("1 Q0 a 1 high t", "finite number"),
        ("1 Q0 a 1 1_0 t", "finite number"),
        ("1 Q0 first 1 0.1 t", "again for"),
        ("1 Q0 a 1 0.1 other", "one run"),
        ("9 Q0 a 1 0.1 t", "a query that is known"),
        ("1 Q0 zzz 1 0.1 t", "a document that is known"),
    ],
)
def test_a_line_of_a_run_that_cannot_stand_is_refused_by_its_number(tmp_path: Path, line: str, complaint: str) -> None:
    path = write(tmp_path, f"1 Q0 first 1 0.9 t\n{line}\n")
    with pytest.raises(GoldenError, match=rf"file\.txt line 2 .*{complaint}"):
        read_run(path, queries={"1"}, documents={"first", "a"})


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("1 0 a", "4 columns"),
        ("1 0 a 4", "from 0 to 3"),
        ("1 0 a -1", "from 0 to 3"),
        ("1 0 a 1.5", "from 0 to 3"),
        ("1 0 a 0_1", "from 0 to 3"),
        ("1 0 a \u0662", "from 0 to 3"),
        ("1 0 first 2", "again for"),
        ("9 0 a 1", "a query that is known"),
        ("1 0 zzz 1", "a document that is known"),
    ],
)
def test_a_line_of_qrels_that_cannot_stand_is_refused_by_its_number(tmp_path: Path, line: str, complaint: str) -> None:
    path = write(tmp_path, f"1 0 first 3\n{line}\n")
    with pytest.raises(GoldenError, match=rf"file\.txt line 2 .*{complaint}"):
        read_qrels(path, queries={"1"}, documents={"first", "a"})


def test_empty_and_missing_and_unreadable_files_are_refused(tmp_path: Path) -> None:
    empty = write(tmp_path, "\n")
    with pytest.raises(GoldenError, match="no judgment"):
        read_qrels(empty)
    with pytest.raises(GoldenError, match="no result"):
        read_run(empty)
    with pytest.raises(GoldenError, match="cannot be read"):
        read_run(tmp_path / "gone")
    (tmp_path / "latin").write_bytes(b"1 0 caf\xe9 1\n")
    with pytest.raises(GoldenError, match="cannot be read"):
        read_qrels(tmp_path / "latin")


def test_ids_and_tags_with_white_space_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(GoldenError, match="tag"):
        write_run(RUN, tmp_path / "x", tag="two words")
    spaced = RUN.with_columns(pl.lit("a b").alias("document_id")).unique("query_id")
    with pytest.raises(GoldenError, match="white space"):
        write_run(spaced, tmp_path / "x", tag="t")


def test_a_run_with_a_document_twice_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="twice"):
        write_run(pl.concat([RUN, RUN]), tmp_path / "x", tag="t")
