"""Sampled sentences: well formed, distinct, drawn the same way every time."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroth_assets.corpus.model import DOCUMENT_SCHEMA, Block, Document, Section, documents_to_frame
from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.queries import QUERY_SCHEMA, is_well_formed, sample_queries, sentences

SUBJECTS = ["The sender", "A receiver", "Each endpoint", "The licensee", "Every registrant", "The server"]
VERBS = ["must acknowledge", "shall deliver", "may refuse", "keeps", "reports", "has to retain"]
OBJECTS = ["the first packet of a connection", "all notices in writing", "its quarterly figures", "unknown frames"]
ENDINGS = ["within thirty days", "before the handshake completes", "unless agreed otherwise", "at its own cost"]


def _document(number: int) -> Document:
    lines = [
        f"   {subject} {VERBS[(i + number) % 6]} {OBJECTS[i % 4]}\n"
        f"   {ENDINGS[(i * number) % 4]} under clause {number * 50 + i}."
        for i, subject in enumerate(SUBJECTS * 3)
    ]
    return Document(
        f"rfc:{number}", f"{number:064x}", "rfc", "t", "1.  Introduction To The Whole Matter\n\n" + "\n\n".join(lines)
    )


def _frame(*numbers: int) -> pl.DataFrame:
    return documents_to_frame([_document(number) for number in numbers])


def test_every_query_is_the_slice_that_it_names_on_one_line() -> None:
    documents = _frame(1, 2, 3)
    texts = dict(documents.select("document_id", "text").iter_rows())
    queries = sample_queries(documents, n=20, seed=1, tenant="rfc-x")
    assert queries.schema == QUERY_SCHEMA
    assert queries.height == 20
    assert set(queries["kind"]) == {"sampled_sentence"}
    for row in queries.iter_rows(named=True):
        raw = texts[row["document_id"]][row["char_start"] : row["char_end"]]
        assert " ".join(raw.split()) == row["text"]
        assert "\n" in raw
        assert is_well_formed(raw)


def test_the_draw_depends_on_seed_and_tenant_and_not_on_the_order_of_documents() -> None:
    documents = _frame(1, 2, 3)
    first = sample_queries(documents, n=10, seed=1, tenant="a")
    assert first.equals(sample_queries(documents.reverse(), n=10, seed=1, tenant="a"))
    assert not first["text"].equals(sample_queries(documents, n=10, seed=2, tenant="a")["text"])
    assert not first["text"].equals(sample_queries(documents, n=10, seed=1, tenant="b")["text"])


def test_a_new_document_displaces_few_queries() -> None:
    before = set(sample_queries(_frame(1, 2, 3, 4), n=20, seed=1, tenant="a")["text"])
    after = set(sample_queries(_frame(1, 2, 3, 4, 5), n=20, seed=1, tenant="a")["text"])
    assert len(before & after) >= 12


def test_a_sentence_that_stands_in_two_documents_is_drawn_once() -> None:
    twin = _document(1)
    documents = documents_to_frame(
        [twin, Document("rfc:9", "f" * 64, "rfc", "t", twin.text.upper().lower().capitalize())]
    )
    queries = sample_queries(documents, n=1_000, seed=1, tenant="a")
    assert queries["text"].str.to_lowercase().is_unique().all()
    assert queries["query_id"].is_unique().all()


def test_fewer_rows_come_back_where_there_are_no_more_and_none_is_an_error() -> None:
    assert sample_queries(_frame(1), n=1_000, seed=1, tenant="a").height == 18
    with pytest.raises(MeasurementError, match="No sentence of tenant 'a'"):
        sample_queries(documents_to_frame([Document("rfc:1", "0" * 64, "rfc", "t", "Short.")]), n=5, seed=1, tenant="a")
    with pytest.raises(MeasurementError, match="cannot be sampled"):
        sample_queries(_frame(1), n=0, seed=1, tenant="a")
    with pytest.raises(MeasurementError, match="cannot be sampled"):
        sample_queries(_frame(1).drop("blocks"), n=5, seed=1, tenant="a")


def test_tables_code_and_headings_are_never_queries() -> None:
    table = "Net revenue of the company rose in every region over the whole year."
    heading = "The Duties Of The parties and of their agents under this agreement."
    body = "The supplier shall keep all records for five years after delivery."
    text = f"{heading}\n{body}\n\n{table}\n"
    at = text.index(table)
    document = Document(
        "cuad:x",
        "0" * 64,
        "cuad",
        "t",
        text,
        sections=(Section("", heading, 1, 0, len(text), "clause"),),
        blocks=(Block("table", at, at + len(table)),),
    )
    assert sample_queries(documents_to_frame([document]), n=9, seed=1, tenant="a")["text"].to_list() == [body]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "Notices go to Acme Inc. or to its agent in the U.S. in ten days. The next follows at once, in many words.",
            [
                "Notices go to Acme Inc. or to its agent in the U.S. in ten days.",
                "The next follows at once, in many words.",
            ],
        ),
        (
            "1.2. The endpoint closes the connection as set out in Sec. 14.2 of this document.",
            ["The endpoint closes the connection as set out in Sec. 14.2 of this document."],
        ),
        (
            "(a) The endpoint must close the connection when the timer of the peer expires (e.g. after a minute).",
            ["The endpoint must close the connection when the timer of the peer expires (e.g. after a minute)."],
        ),
        ("A heading that has no stop although it goes on for quite a few words", []),
        ("THE PARTIES AGREE THAT ALL OF THE FOLLOWING SHALL APPLY TO THEM AT ALL TIMES.", []),
        ("and this one begins in the middle of something that was cut off at a page.", []),
        ("Introduction of the whole matter at hand ............................ 14.", []),
        ("Revenue     12,345     13,456     of the company in each of the past years was high.", []),
        ("The bracket is opened here (and the sentence ends without ever closing it at all.", []),
    ],
)
def test_sentences_are_cut_where_a_reader_would(text: str, found: list[str]) -> None:
    assert [s.text for s in sentences(text, [])] == found


@given(
    st.text(alphabet=st.characters(codec="utf-8"), max_size=400),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400))),
)
def test_offsets_hold_over_any_text_and_touch_nothing_kept_out(text: str, ranges: list[tuple[int, int]]) -> None:
    kept_out = [(min(r), max(r)) for r in ranges]
    prose = text + "\n\nThe receiver must discard every frame that it does not know. " + text
    for sentence in sentences(prose, kept_out):
        assert " ".join(prose[sentence.start : sentence.end].split()) == sentence.text
        assert all(sentence.end <= a or sentence.start >= b for a, b in kept_out if b > a)


@pytest.mark.mirror
def test_real_documents_yield_enough_queries(mirror: Path) -> None:
    files = (
        sorted((mirror / "rfc").glob("rfc90*.txt"))[:4] + sorted((mirror / "cuad/full_contract_txt").glob("*.txt"))[:10]
    )
    counts = []
    for path in files:
        text = path.read_text(errors="replace")
        row = {"document_id": path.name, "text": text}
        documents = pl.DataFrame([row], schema={"document_id": pl.String, "text": pl.String}).with_columns(
            blocks=pl.lit([], dtype=DOCUMENT_SCHEMA["blocks"])
        )
        counts.append(sample_queries(documents, n=10_000, seed=1, tenant="t").height)
    assert min(counts) >= 1
    assert sorted(counts)[len(counts) // 2] >= 30
