from __future__ import annotations

import dataclasses

import pytest

from zeroth_assets.chunking import CHUNK_MEASURES, Chunk, ChunkReport, chunk_fixed, chunk_section_aware, measure_chunks
from zeroth_assets.corpus.model import Block, Document, Section
from zeroth_assets.errors import ChunkingError
from zeroth_assets_tests.chunking.texts_for_tests import document
from zeroth_assets_tests.chunking.tokenizers_for_tests import CharacterTokenizer

TEXT = "1. One\n\nAlpha beta. Gamma delta.\n\n2. Two\n\nrow one x\nrow two y\n"
AT = TEXT.index("2. Two")
ROW = TEXT.index("row one")
DOC = document(
    TEXT,
    sections=(Section("1.", "One", 1, 0, AT, "section"), Section("2.", "Two", 1, AT, len(TEXT), "section")),
    blocks=(Block("table_row", ROW, ROW + 10), Block("table_row", ROW + 10, ROW + 20)),
)
TOKENIZER = CharacterTokenizer()


def chunk(doc: Document, start: int, end: int, ordinal: int = 0) -> Chunk:
    whole = chunk_fixed(doc, TOKENIZER, 1000, 0)[0]
    return dataclasses.replace(
        whole,
        chunk_id=ordinal,
        ordinal=ordinal,
        char_start=start,
        char_end=end,
        text=doc.text[start:end],
        token_count=end - start,
    )


def measure(chunks: list[Chunk], **options: int) -> dict[str, float]:
    (row,) = measure_chunks([DOC], chunks, size=options.pop("size", 1000), special_tokens=0).to_dicts()
    return row


def test_a_chunk_that_reaches_into_the_next_section_crosses_a_boundary() -> None:
    assert measure([chunk(DOC, 0, len(TEXT.rstrip()))])["crossing_section"] == 1
    assert measure([chunk(DOC, 0, AT), chunk(DOC, AT, len(TEXT) - 1, 1)])["crossing_section"] == 0


def test_a_start_inside_a_sentence_is_told_from_one_at_its_head() -> None:
    for word, inside in [("Alpha", 0), ("beta", 1), ("Gamma", 0), ("delta", 1), ("2. Two", 0), ("row two", 0)]:
        at = TEXT.index(word)
        assert measure([chunk(DOC, at, at + 3)])["starts_mid_sentence"] == inside, word


def test_a_cut_through_a_row_is_counted_once_though_two_chunks_meet_there() -> None:
    inside = ROW + 4
    assert measure([chunk(DOC, 0, inside - 1), chunk(DOC, inside, len(TEXT) - 1, 1)])["cuts_in_table_row"] == 1
    between = ROW + 10
    assert measure([chunk(DOC, 0, between - 1), chunk(DOC, between, len(TEXT) - 1, 1)])["cuts_in_table_row"] == 0


def test_what_no_chunk_covers_and_what_is_no_slice_are_counted() -> None:
    start = TEXT.index("beta")
    found = measure([chunk(DOC, 0, start), chunk(DOC, start + 4, len(TEXT), 1)])
    assert (found["characters_uncovered"], found["not_a_slice"]) == (4, 0)
    assert measure([dataclasses.replace(chunk(DOC, 0, 5), text="other")])["not_a_slice"] == 1


def test_sizes_are_summed_up() -> None:
    found = measure([chunk(DOC, 0, 10), chunk(DOC, 10, 40, 1)], size=29)
    assert (found["chunks"], found["tokens_mean"], found["tokens_p50"], found["tokens_max"]) == (2, 20, 20, 30)
    assert (found["over_size"], found["tiny"]) == (1, 1)


def test_each_source_has_a_row_with_what_its_report_says() -> None:
    other = dataclasses.replace(DOC, document_id="cuad:a", source="cuad")
    empty = dataclasses.replace(DOC, document_id="cuad:b", source="cuad", text=" ", sections=(), blocks=())
    report = ChunkReport()
    chunks = [c for d in (DOC, other, empty) for c in chunk_section_aware(d, TOKENIZER, 30, 4, report)]
    frame = measure_chunks([DOC, other, empty], chunks, report, size=30, special_tokens=0)
    assert frame.schema == CHUNK_MEASURES
    assert frame["source"].to_list() == ["cuad", "rfc"]
    assert frame["documents"].to_list() == [2, 1]
    assert frame["empty_documents"].to_list() == [1, 0]
    assert frame["tail_windows_dropped"].to_list() == [report.get(s, "tail_windows_dropped") for s in ("cuad", "rfc")]
    assert frame["chunks"].sum() == len(chunks)
    assert frame["crossing_section"].sum() == frame["over_size"].sum() == frame["characters_uncovered"].sum() == 0


def test_a_source_without_chunks_has_a_row_of_zeros() -> None:
    assert measure([])["chunks"] == measure([])["tokens_max"] == 0


def test_a_chunk_whose_document_is_missing_is_an_error_that_names_it() -> None:
    stray = dataclasses.replace(chunk(DOC, 0, 5), document_version="f" * 64)
    with pytest.raises(ChunkingError, match="rfc:1"):
        measure_chunks([DOC], [stray])
