from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from zeroth_assets.corpus.model import DOCUMENT_SCHEMA
from zeroth_assets.evaluation.golden.beir import BEIR_RELEVANT, BeirSet, document_run, read_beir, write_beir
from zeroth_assets.evaluation.golden.model import GoldenError, check_queries, check_spans, texts_of
from zeroth_assets.evaluation.metric_tables import evaluate
from zeroth_assets_tests.evaluation.golden.builders import chunks, run, spans

CORPUS = [
    {"_id": "10", "title": "Cells", "text": "Cells divide.", "metadata": {}},
    {"_id": "MED-2", "title": "", "text": "Zinc is a metal. Ünïcode\r\n\ttoo."},
    {"_id": "11", "title": "Rocks", "text": "Rocks do not."},
]
QUERIES = [{"_id": "10", "text": "What divides?"}, {"_id": "2", "text": "A metal?"}, {"_id": "3", "text": "Unjudged?"}]
HEADER = "query-id\tcorpus-id\tscore\n"
QRELS = f"{HEADER}10\t10\t1\n2\tMED-2\t2\n2\t11\t0\n"


def folder(tmp_path: Path, *, corpus: str = "", queries: str = "", qrels: str = QRELS) -> Path:
    (tmp_path / "qrels").mkdir(exist_ok=True)
    (tmp_path / "corpus.jsonl").write_text(corpus or "".join(json.dumps(c) + "\n" for c in CORPUS), encoding="utf-8")
    (tmp_path / "queries.jsonl").write_text(queries or "".join(json.dumps(q) + "\n" for q in QUERIES), encoding="utf-8")
    (tmp_path / "qrels" / "test.tsv").write_text(qrels, encoding="utf-8", newline="")
    return tmp_path


def test_a_folder_becomes_documents_queries_and_qrels_that_pass_every_check(tmp_path: Path) -> None:
    made = read_beir(folder(tmp_path), name="tiny")
    assert made.documents.schema == DOCUMENT_SCHEMA
    assert made.documents["document_id"].to_list() == ["tiny:10", "tiny:11", "tiny:MED-2"]
    assert made.documents["text"][0] == "Cells\n\nCells divide."
    asked = check_queries(made.queries)
    check_spans(spans(), asked, texts_of(made.documents))
    assert asked["query_id"].to_list() == ["q:tiny/10", "q:tiny/2"]
    assert made.unjudged_queries == 1
    assert made.qrels.rows() == [("q:tiny/10", "tiny:10", 1), ("q:tiny/2", "tiny:11", 0), ("q:tiny/2", "tiny:MED-2", 2)]


def test_queries_and_documents_of_one_name_do_not_meet(tmp_path: Path) -> None:
    made = read_beir(folder(tmp_path), name="tiny")
    assert not set(made.queries["query_id"]) & set(made.documents["document_id"])


def test_what_is_written_is_the_folder_that_was_read(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    made = read_beir(folder(tmp_path / "a"), name="tiny")
    write_beir(tmp_path / "b", made.documents, made.queries, {"test": made.qrels})
    again = read_beir(tmp_path / "b", name="tiny")
    assert again.qrels.equals(made.qrels)
    assert again.queries.drop("note").equals(made.queries.drop("note"))
    assert again.documents.drop("version").equals(made.documents.drop("version"))
    first = json.loads((tmp_path / "b" / "corpus.jsonl").read_text().splitlines()[0])
    assert first == {"_id": "10", "title": "Cells", "text": "Cells divide.", "metadata": {}}


def test_a_document_stands_where_its_best_chunk_does(tmp_path: Path) -> None:
    made = read_beir(folder(tmp_path), name="tiny")
    cut = chunks([(1, "tiny:10", 0, 5), (2, "tiny:10", 5, 9), (3, "tiny:11", 0, 5), (4, "tiny:MED-2", 0, 5)])
    ranked = document_run(run({"tiny/10": [3, 2, 1], "tiny/2": [1, 4, 2]}), cut)
    assert ranked.rows() == [
        ("q:tiny/10", "tiny:11", 2.0),
        ("q:tiny/10", "tiny:10", 1.0),
        ("q:tiny/2", "tiny:10", 2.0),
        ("q:tiny/2", "tiny:MED-2", 1.0),
    ]
    table = evaluate(ranked, made.qrels, cutoffs=(10,), measures=("reciprocal_rank",), relevant=BEIR_RELEVANT)
    assert table["reciprocal_rank@10"].to_list() == [0.5, 0.5]


def test_a_chunk_of_no_document_is_refused() -> None:
    with pytest.raises(GoldenError, match="chunk set does not"):
        document_run(run({"a": [7]}), chunks([(1, "tiny:10", 0, 5)]))


def line(**fields: object) -> str:
    return json.dumps({"_id": "10", "title": "t", "text": "x"} | fields) + "\n"


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"corpus": line() + "{\n"}, r"corpus\.jsonl line 2 .*JSON"),
        ({"corpus": line() + line()}, r"corpus\.jsonl line 2 .*distinct ids"),
        ({"corpus": line(_id="a b")}, r"corpus\.jsonl line 1 .*without white space"),
        ({"corpus": line(text=None)}, r"corpus\.jsonl line 1 .*texts _id, text"),
        ({"corpus": line(_id=10)}, r"corpus\.jsonl line 1 .*texts _id, text"),
        ({"queries": line() + line()}, r"queries\.jsonl line 2 .*distinct ids"),
        ({"qrels": HEADER + "10\t10\n"}, r"test\.tsv line 2 .*3 columns"),
        ({"qrels": HEADER + "10 10 1\n"}, r"test\.tsv line 2 .*3 columns"),
        ({"qrels": HEADER + "99\t10\t1\n"}, r"test\.tsv line 2 .*query of queries"),
        ({"qrels": HEADER + "10\t99\t1\n"}, r"test\.tsv line 2 .*document of corpus"),
        ({"qrels": HEADER + "10\t10\t7\n"}, r"test\.tsv line 2 .*from 0 to 3"),
        ({"qrels": HEADER + "10\t10\tnan\n"}, r"test\.tsv line 2 .*from 0 to 3"),
        ({"qrels": QRELS + "10\t10\t1\n"}, r"test\.tsv line 5 .*each document once"),
        ({"qrels": HEADER}, r"test\.tsv holds no judgment"),
    ],
)
def test_a_line_that_breaks_the_format_is_refused(tmp_path: Path, files: dict[str, str], complaint: str) -> None:
    with pytest.raises(GoldenError, match=complaint):
        read_beir(folder(tmp_path, **files), name="tiny")


def test_a_missing_file_and_an_impossible_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GoldenError, match=r"corpus\.jsonl cannot be read"):
        read_beir(tmp_path, name="tiny")
    for name in ("q", "Sci Fact", ""):
        with pytest.raises(GoldenError, match="cannot be called"):
            read_beir(folder(tmp_path), name=name)


def test_a_query_whose_judged_documents_are_all_irrelevant_is_unanswerable(tmp_path: Path) -> None:
    made: BeirSet = read_beir(folder(tmp_path, qrels=f"{HEADER}10\t10\t0\n"), name="tiny")
    assert made.queries.select("answerable", "unanswerable_reason").rows() == [(False, "absent_from_corpus")]
    assert isinstance(made.documents, pl.DataFrame)
