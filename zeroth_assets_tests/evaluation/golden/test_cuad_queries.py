from __future__ import annotations

import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from zeroth_assets.corpus.archives import archive_path
from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.evaluation.golden.cuad_label_files import IN_ARCHIVE, IN_MIRROR, find_label_file
from zeroth_assets.evaluation.golden.cuad_labels import Labels, read_cuad_labels
from zeroth_assets.evaluation.golden.cuad_names import Names, identity_of
from zeroth_assets.evaluation.golden.cuad_queries import CuadQueries, cuad_queries, phrasings
from zeroth_assets.evaluation.golden.model import GoldenError
from zeroth_assets_tests.evaluation.golden.builders import pairs
from zeroth_assets_tests.evaluation.golden.conftest import TOPICS, Contracts

LAW_TEXT = "The law of Ohio governs."
TEXT = f"Supply Agreement made by Alpha Works, Inc. and Beta Foods LLC. {LAW_TEXT} Nothing. {LAW_TEXT} us."
VERSION = "f" * 64
NO_PAIRS = pairs()


def record(name: str = "alpha") -> ManifestRecord:
    return ManifestRecord(
        document_id=f"cuad:{name}",
        source="cuad",
        identifier=name,
        title=name,
        sha256=VERSION,
        bytes=1,
        media_type="text/plain",
        licence="none",
        tenant_attribute="Supply",
    )


def label(text: str, start: int, index: int = 0) -> dict[str, object]:
    return {"text": text, "answer_start": start, "clause_index": index, "n_occurrences": TEXT.count(text)}


def labels_file(folder: Path, *qas: dict[str, object]) -> Path:
    content = {
        "categories": list(phrasings()["topics"]),
        "data": [{"file": "full_contract_txt/alpha.txt", "title": "alpha", "qas": list(qas)}],
    }
    path = folder / "labels.json"
    path.write_text(json.dumps(content))
    return path


PARTIES: dict[str, object] = {
    "category": "Parties",
    "answer": 'Alpha Works, Inc. ("Seller"); Beta Foods LLC ("Buyer")',
    "answers": [label("Alpha Works, Inc.", 25), label("Beta Foods LLC", 47, 1), label("us", TEXT.index("us."), 2)],
}
LAW: dict[str, object] = {
    "category": "Governing Law",
    "answer": "Ohio",
    "answers": [label("The law of Ohio governs.", 63)],
}
SCRAP: dict[str, object] = {"category": "Anti-Assignment", "answer": "Yes", "answers": [label(".", TEXT.index("."))]}


def made(folder: Path, *qas: dict[str, object]) -> CuadQueries:
    texts = {("cuad:alpha", VERSION): TEXT}
    labels = read_cuad_labels(labels_file(folder, *qas), [record()], texts, TOPICS)
    return cuad_queries(labels, texts, NO_PAIRS, answerable=100, unanswerable=100)


def test_a_label_whose_slice_is_not_its_text_is_refused_with_its_place(tmp_path: Path) -> None:
    wrong: dict[str, object] = {
        "category": "Governing Law",
        "answer": "Ohio",
        "answers": [label("The law of Ohio governs.", 64, 3)],
    }
    with pytest.raises(GoldenError, match="Label 3 of cuad:alpha, topic Governing Law"):
        made(tmp_path, PARTIES, wrong)


def test_a_file_that_is_no_label_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("[]")
    with pytest.raises(GoldenError, match="cannot be read"):
        read_cuad_labels(tmp_path / "bad.json", [], {}, TOPICS)


CSV = f"Filename,{','.join(f'{t},{t}-Answer' for t in TOPICS)}\r\n"


def published_table() -> str:
    row = {"Parties": "['Alpha Works, Inc.', 'Beta Foods LLC']", "Governing Law": f"['{LAW_TEXT} <omitted> Nothing.']"}
    answers = {"Parties": "Alpha Works, Inc. (Seller); Beta Foods LLC (Buyer)", "Governing Law": "Ohio"}
    cells = (f'"{row.get(t, "")}","{answers.get(t, "")}"' for t in TOPICS)
    return f"{CSV}Alpha .PDF,{','.join(cells)}\r\n"


def test_the_published_table_is_read_too_from_a_file_or_the_archive(tmp_path: Path) -> None:
    texts = {("cuad:alpha", VERSION): TEXT}
    table, archive = tmp_path / "master_clauses.csv", tmp_path / "labels.zip"
    table.write_text(published_table(), newline="")
    with zipfile.ZipFile(archive, "w") as out:
        out.write(table, IN_ARCHIVE)
    read = [read_cuad_labels(path, [record()], texts, TOPICS) for path in (table, archive)]
    assert read[0].labels.equals(read[1].labels)
    assert read[0].labels.select("topic", "text", "char_start").rows() == [
        ("Parties", "Alpha Works, Inc.", 25),
        ("Parties", "Beta Foods LLC", 47),
        ("Governing Law", LAW_TEXT, 63),
        ("Governing Law", "Nothing.", 88),
    ]


@pytest.mark.parametrize("broken", ["Filename\r\nalpha.pdf\r\n", published_table().replace("['Alpha", "[Alpha")])
def test_a_table_without_its_columns_or_with_a_cell_that_is_no_list_is_refused(tmp_path: Path, broken: str) -> None:
    table = tmp_path / "master_clauses.csv"
    table.write_text(broken, newline="")
    with pytest.raises(GoldenError, match="cannot be read"):
        read_cuad_labels(table, [record()], {("cuad:alpha", VERSION): TEXT}, TOPICS)


def test_labels_are_looked_for_in_the_mirror_then_in_the_archive(tmp_path: Path) -> None:
    url = "https://example.org/CUAD_v1.zip"
    with_archive = [replace(record(), archive_url=url, archive_member="x")]
    assert find_label_file(tmp_path, tmp_path, with_archive) is None
    archive = archive_path(tmp_path, url)
    archive.parent.mkdir()
    archive.write_bytes(b"")
    assert find_label_file(None, tmp_path, with_archive) == find_label_file(tmp_path, tmp_path, with_archive) == archive
    (tmp_path / "cuad").mkdir()
    (tmp_path / IN_MIRROR[1]).write_text("")
    assert find_label_file(tmp_path, tmp_path, with_archive) == tmp_path / IN_MIRROR[1]


def test_every_place_of_an_ambiguous_label_is_accepted(tmp_path: Path) -> None:
    truth = made(tmp_path, PARTIES, LAW).spans.filter(pl.col("query_id") == "q:cuad:alpha/governing-law/corpus")
    assert truth.select("part", "char_start", "origin").rows() == [(0, 63, "quoted"), (0, 97, "occurrence")]


def test_a_question_is_asked_of_the_corpus_and_of_the_contract_in_the_same_words(tmp_path: Path) -> None:
    asked = made(tmp_path, PARTIES, LAW).queries.filter(pl.col("topic") == "Governing Law").sort("scope")
    assert asked["scope"].to_list() == ["corpus", "document"]
    assert asked["document_id"].to_list() == [None, "cuad:alpha"]
    assert asked["text"].n_unique() == asked["question_id"].n_unique() == 1


def test_roles_are_no_answer_to_who_the_parties_are_and_the_question_names_but_one(tmp_path: Path) -> None:
    queries = made(tmp_path, PARTIES)
    asked = queries.queries.filter(pl.col("topic") == "Parties")
    assert "Alpha Works" in asked["text"][0]
    assert "Beta" not in asked["text"][0]
    named = queries.spans.filter(pl.col("query_id") == "q:cuad:alpha/parties/corpus")
    assert set(named["quote"]) == {"Alpha Works, Inc.", "Beta Foods LLC"}


def test_a_scrap_that_stands_everywhere_is_no_evidence_and_is_counted(tmp_path: Path) -> None:
    queries = made(tmp_path, PARTIES, SCRAP)
    assert queries.queries.filter(pl.col("topic") == "Anti-Assignment").is_empty()
    reasons = dict(queries.left_out.select("reason", "count").iter_rows())
    assert reasons["a scrap that stands in several places"] == 1
    assert reasons["no label of the question is evidence"] == 1


def test_an_absent_topic_is_unanswerable_but_a_name_and_dates_are_not_called_absent(tmp_path: Path) -> None:
    absent = made(tmp_path, PARTIES).queries.filter(~pl.col("answerable"))
    assert set(absent["unanswerable_reason"]) == {"absent_from_document"}
    assert {"Insurance", "Governing Law"} <= set(absent["topic"])
    assert not {"Document Name", "Agreement Date", "Effective Date", "Expiration Date"} & set(absent["topic"])


def test_every_topic_is_asked_in_several_ways_that_hold_the_contract_once() -> None:
    for topic, rule in phrasings()["topics"].items():
        assert len(set(rule["phrasings"])) >= 3, topic
        for way in rule["phrasings"]:
            assert way.count("{contract}") == 1, way
            assert way.endswith("?"), way


@pytest.fixture(scope="module")
def real(contracts: Contracts) -> CuadQueries:
    return cuad_queries(contracts.labels, contracts.texts, NO_PAIRS, answerable=500, unanswerable=350, seed=0)


@pytest.mark.mirror
def test_all_13831_labels_slice_their_text_and_few_are_set_aside(contracts: Contracts) -> None:
    labels = contracts.labels.labels
    assert labels.height == 13_831
    assert labels.filter(pl.col("set_aside").is_not_null()).height < 60
    assert labels.filter(pl.col("occurrences").list.len() > 1).height >= 2_219


@pytest.mark.mirror
def test_the_published_table_holds_the_same_labels(contracts: Contracts, mirror: Path) -> None:
    published = read_cuad_labels(mirror / IN_MIRROR[1], contracts.manifest.current(), contracts.texts, TOPICS)
    ours, theirs = contracts.labels, published
    assert len(theirs.answers) >= 509
    assert {d: set(a) for d, a in theirs.answers.items()} == {d: set(ours.answers[d]) for d in theirs.answers}
    places = ["document_id", "topic", "text", "char_start"]
    same = ours.labels.filter(pl.col("document_id").is_in(list(theirs.answers)))
    assert theirs.labels.select(places).sort(places).equals(same.select(places).sort(places))


@pytest.mark.mirror
def test_the_sample_is_large_and_covers_every_contract_type_and_topic(real: CuadQueries) -> None:
    asked = real.queries.filter(pl.col("scope") == "corpus")
    present, absent = asked.filter("answerable"), asked.filter(~pl.col("answerable"))
    assert (present.height, absent.height) == (500, 350)
    assert present["stratum"].n_unique() == absent["stratum"].n_unique() == 25
    assert present["topic"].n_unique() == 41
    assert absent["topic"].n_unique() == 36
    counts = present.group_by("topic").len()["len"]
    assert counts.to_numpy().min() >= 5
    assert counts.to_numpy().max() <= 25


@pytest.mark.mirror
def test_no_question_names_a_file_or_an_id(real: CuadQueries, contracts: Contracts) -> None:
    stems = {r.identifier.casefold() for r in contracts.manifest.of_source("cuad")}
    for text in real.queries["text"].unique():
        assert not re.search(r"EX-\d|_\d{8}|\d{2}_\d{2}_\d{4}|cuad:|\.txt|\.pdf", text), text
        assert not any(stem in text.casefold() for stem in stems)


@pytest.mark.mirror
def test_every_name_is_answered_by_its_contract_alone(contracts: Contracts) -> None:
    """By another road than the one that made the names: whoever has all the words of the parties must be that contract,
    or differ in kind, or in date."""
    labels = contracts.labels
    identities = [
        identity_of(d, labels.types[d], labels.answers[d], dict.fromkeys(labels.types.values(), "agreement"))
        for d in sorted(labels.answers)
    ]
    names = Names(identities, {})
    texts = {d: set(re.findall(r"\w+", labels.answers[d].get("Parties", "").casefold())) for d in labels.answers}
    kinds = {i.document_id: set(i.kind.split()) for i in identities}
    dates = {i.document_id: i.signed for i in identities}
    named = 0
    for one in identities:
        name = names.name(one.document_id)
        if name is None:
            continue
        named += 1
        words = set(re.findall(r"\w+", " ".join(name.parties).casefold()))
        for other in identities:
            if other.document_id == one.document_id or not words <= texts[other.document_id]:
                continue
            mine, theirs = kinds[one.document_id], kinds[other.document_id]
            told_by_date = name.dated and dates[other.document_id] not in (None, one.signed)
            assert told_by_date or not mine <= theirs, name.phrase
    assert named >= 475


@pytest.mark.mirror
def test_the_same_seed_draws_the_same_questions_and_another_one_others(real: CuadQueries, contracts: Contracts) -> None:
    few = {"answerable": 40, "unanswerable": 20}
    again = [cuad_queries(contracts.labels, contracts.texts, NO_PAIRS, seed=s, **few).queries for s in (1, 1, 2)]
    assert again[0].equals(again[1])
    assert set(again[0]["question_id"]) != set(again[2]["question_id"])


@pytest.mark.mirror
def test_a_contract_that_the_corpus_does_not_hold_is_passed_over(contracts: Contracts) -> None:
    labels: Labels = replace(
        contracts.labels,
        answers=dict(list(contracts.labels.answers.items())[:5]),
    )
    asked = cuad_queries(labels, contracts.texts, NO_PAIRS).queries
    assert set(asked["about"].list.first()) <= set(labels.answers)
