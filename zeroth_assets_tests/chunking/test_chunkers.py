from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zeroth_assets.chunking import (
    Chunk,
    ChunkReport,
    Tokenizer,
    chunk_documents,
    chunk_fixed,
    chunk_section_aware,
    overlap_tokens,
)
from zeroth_assets.corpus.model import Block, Document, Page, Section, innermost_spans
from zeroth_assets.errors import ChunkingError
from zeroth_assets_tests.chunking.texts_for_tests import document, documents
from zeroth_assets_tests.chunking.tokenizers_for_tests import ByteTokenizer, CharacterTokenizer, packaged

Chunker = Callable[[Document, Tokenizer, int, int], list[Chunk]]
CHUNKERS = [pytest.param(chunk_fixed, id="fixed"), pytest.param(chunk_section_aware, id="section_aware")]


def check_contract(doc: Document, chunks: list[Chunk], tokenizer: Tokenizer, size: int) -> None:
    covered: set[int] = set()
    for ordinal, chunk in enumerate(chunks):
        assert chunk.ordinal == ordinal
        assert doc.text[chunk.char_start : chunk.char_end] == chunk.text
        assert not chunk.text[0].isspace()
        assert not chunk.text[-1].isspace()
        assert chunk.token_count == tokenizer.counts([chunk.text])[0] <= size
        covered.update(range(chunk.char_start, chunk.char_end))
    for before, after in itertools.pairwise(chunks):
        assert before.char_start < after.char_start
        assert before.char_end < after.char_end
    assert all(c.isspace() or at in covered for at, c in enumerate(doc.text))


def check_no_crossing(doc: Document, chunks: list[Chunk]) -> None:
    spans = innermost_spans(doc)
    for chunk in chunks:
        assert any(s.start <= chunk.char_start and chunk.char_end <= s.end for s in spans)


@pytest.mark.parametrize("tokenizer", [CharacterTokenizer(), CharacterTokenizer(2), ByteTokenizer()], ids=str)
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(doc=documents(), size=st.integers(7, 60), share=st.sampled_from([0.0, 0.15, 0.5, 0.9]))
def test_chunks_of_hostile_text_are_slices_that_fit_advance_and_cover(
    tokenizer: Tokenizer, doc: Document, size: int, share: float
) -> None:
    overlap = overlap_tokens(size, tokenizer.special_tokens, share)
    check_contract(doc, chunk_fixed(doc, tokenizer, size, overlap), tokenizer, size)
    chunks = chunk_section_aware(doc, tokenizer, size, overlap)
    check_contract(doc, chunks, tokenizer, size)
    check_no_crossing(doc, chunks)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(doc=documents(), size=st.sampled_from([8, 16, 64, 512]))
def test_the_contract_holds_with_the_packaged_tokenizer(doc: Document, size: int) -> None:
    tokenizer = packaged()
    overlap = overlap_tokens(size, tokenizer.special_tokens)
    check_contract(doc, chunk_fixed(doc, tokenizer, size, overlap), tokenizer, size)
    chunks = chunk_section_aware(doc, tokenizer, size, overlap)
    check_contract(doc, chunks, tokenizer, size)
    check_no_crossing(doc, chunks)


@pytest.mark.parametrize("chunker", CHUNKERS)
def test_offsets_are_carried_so_that_a_repeated_text_has_two_places(chunker: Chunker) -> None:
    chunks = chunker(document("chunk chunk"), CharacterTokenizer(), 5, 0)
    assert [c.char_start for c in chunks] == [0, 6]
    assert [c.text for c in chunks] == ["chunk", "chunk"]


def test_windows_of_512_hold_510_tokens_of_content_and_share_76() -> None:
    text = " ".join(["the"] * 1000)  # one token a word
    chunks = chunk_fixed(document(text), packaged(), 512, overlap_tokens(512, packaged().special_tokens))
    first, second, third = chunks
    assert (first.token_count, second.token_count) == (512, 512)
    assert (second.char_start, third.char_start) == (434 * 4, 868 * 4)
    assert third.token_count == 1000 - 868 + 2


@pytest.mark.parametrize("chunker", CHUNKERS)
def test_a_last_window_inside_the_one_before_is_dropped_and_counted(chunker: Chunker) -> None:
    report = ChunkReport()
    text = "a b c d e f g h i j"
    chunks = chunker(document(text), CharacterTokenizer(), 20, 10, report)  # type: ignore[call-arg]
    assert [c.text for c in chunks] == [text]
    assert report.get("rfc", "tail_windows_dropped") == 1


@pytest.mark.parametrize("chunker", CHUNKERS)
@pytest.mark.parametrize("text", ["", " ", "\n\n\x0c\t\u00a0\u2003"])
def test_a_text_of_nothing_but_space_has_no_chunk(chunker: Chunker, text: str) -> None:
    assert chunker(document(text), packaged(), 512, 76) == []


@pytest.mark.parametrize("chunker", CHUNKERS)
@pytest.mark.parametrize(
    "word",
    ["x" * 10_000, "QUJD+/" * 2_000, "漢字" * 5_000, "é" * 10_000, "👩‍👩‍👧" * 2_000, "\ufffd" * 10_000],
    ids=["letters", "base64", "han", "accents", "joined", "replacement"],
)
def test_a_word_longer_than_a_window_is_cut(chunker: Chunker, word: str) -> None:
    doc = document(f"Before it. {word} After it.")
    chunks = chunker(doc, packaged(), 512, 76)
    check_contract(doc, chunks, packaged(), 512)
    assert 1 < len(chunks) < len(doc.text) / 100


def test_a_cut_inside_a_word_splits_no_combining_sequence() -> None:
    text = "e\u0301\u0302" * 40 + "👩‍👩‍👧‍👦" * 10 + "🇩🇪🇫🇷" * 10
    for chunk in chunk_fixed(document(text), CharacterTokenizer(), 11, 3):
        assert chunk.text[0] in "e👩🇩🇫"
        assert chunk.text[-1] in "\u0302👦🇪🇷"


def test_a_window_ends_where_a_word_begins_and_the_next_starts_at_a_word() -> None:
    text = "internationalization of hypersensitivity considerations " * 200
    for chunk in chunk_fixed(document(text), packaged(), 64, 9):
        assert chunk.char_start == 0 or text[chunk.char_start - 1].isspace()
        assert chunk.char_end == len(text.rstrip()) or text[chunk.char_end].isspace()


def test_a_slice_with_more_tokens_than_its_stretch_is_shortened_and_counted() -> None:
    report = ChunkReport()
    doc = document("ab cd ef gh " * 20)
    chunks = chunk_fixed(doc, ByteTokenizer(), 12, 4, report)  # room for 11 bytes by the whole text, for 10 as a slice
    check_contract(doc, chunks, ByteTokenizer(), 12)
    assert report.get("rfc", "shortened") > 0


def test_a_character_that_does_not_fit_is_an_error_with_advice() -> None:
    with pytest.raises(ChunkingError, match="larger size"):
        chunk_fixed(document("a 😀"), ByteTokenizer(), 4, 0)


@pytest.mark.parametrize(("size", "overlap"), [(2, 0), (10, 8), (10, -1)])
def test_a_size_without_room_or_an_overlap_that_fills_it_is_refused(size: int, overlap: int) -> None:
    with pytest.raises(ChunkingError, match="room"):
        chunk_fixed(document("some text"), CharacterTokenizer(2), size, overlap)


def test_a_long_section_is_cut_before_a_paragraph_and_overlaps_from_a_sentence() -> None:
    text = "Aa bb cc dd. Ee ff.\n\nGg hh ii jj kk. Ll mm nn oo."
    chunks = chunk_section_aware(document(text), CharacterTokenizer(), 30, 8)
    assert [c.text for c in chunks] == ["Aa bb cc dd. Ee ff.", "Ee ff.\n\nGg hh ii jj kk.", "Ll mm nn oo."]


def test_a_block_that_fits_is_not_cut() -> None:
    prose, code = "One two three. Four five six. Seven. ", "if (a) { b = c; d = e; }"
    doc = document(prose + code, blocks=(Block("code", len(prose), len(prose + code)),))
    texts = [c.text for c in chunk_section_aware(doc, CharacterTokenizer(), 48, 7)]
    assert texts == [prose.strip(), "Seven. " + code]
    assert any(code not in c.text for c in chunk_fixed(doc, CharacterTokenizer(), 48, 7))


def test_a_block_is_kept_whole_though_a_paragraph_begins_inside_it_and_the_window_before_stays_small() -> None:
    prose, code = "One two.\n", "a = one_two;\n\nb = three;\n\nc = four;"
    block = Block("code", len(prose), len(prose + code))
    chunks = chunk_section_aware(document(prose + code + "\n\nThe end.", blocks=(block,)), CharacterTokenizer(), 40, 0)
    assert [c.text for c in chunks] == [prose.strip(), code, "The end."]


def test_a_table_that_does_not_fit_is_cut_between_its_rows() -> None:
    row = "cell one; cell two; cell three\n"
    rows = tuple(Block("table_row", i * len(row), (i + 1) * len(row)) for i in range(10))
    doc = document(row * 10, blocks=(Block("table", 0, 10 * len(row)), *rows))
    chunks = chunk_section_aware(doc, CharacterTokenizer(), 80, 12)
    assert all(c.char_start % len(row) == 0 and c.text.count("\n") == 1 for c in chunks)


def test_chunks_name_their_section_and_pages() -> None:
    text = "1. One\n\nBody of one. 1.1 Sub\n\nBody of sub."
    at = text.index("1.1")
    doc = document(
        text,
        sections=(Section("1.", "One", 1, 0, len(text), "section"), Section("1.1", "Sub", 2, at, len(text), "section")),
        pages=(Page(7, 0, 10, True), Page(8, 10, len(text), False)),
    )
    first, second = chunk_section_aware(doc, CharacterTokenizer(), 100, 15)
    assert (first.section_path, first.page_first, first.page_last, first.pages_real) == ("1. One", 7, 8, False)
    assert (second.section_path, second.page_first, second.page_last) == ("1. One > 1.1 Sub", 8, 8)
    (whole,) = chunk_fixed(doc, CharacterTokenizer(), 100, 15)
    assert whole.section_path == "1. One"
    (pageless,) = chunk_fixed(document("text"), CharacterTokenizer(), 100, 15)
    assert (pageless.page_first, pageless.page_last, pageless.pages_real) == (None, None, False)


def test_ids_change_with_whatever_changes_the_cut_and_with_nothing_else() -> None:
    doc = document("Some text that is here.")

    def hashes(d: Document = doc, size: int = 50, overlap: int = 5, tokenizer: Tokenizer | None = None) -> bytes:
        return chunk_fixed(d, tokenizer or CharacterTokenizer(), size, overlap)[0].chunk_hash

    same = hashes(dataclasses.replace(doc, title="Another", source="cuad"))
    assert same == hashes()
    others = {
        hashes(dataclasses.replace(doc, document_id="rfc:2")),
        hashes(dataclasses.replace(doc, version="1" * 64)),
        hashes(size=51),
        hashes(overlap=6),
        hashes(tokenizer=packaged()),
        chunk_section_aware(doc, CharacterTokenizer(), 50, 5)[0].chunk_hash,
    }
    assert len(others | {same}) == 7
    chunk = chunk_fixed(doc, CharacterTokenizer(), 50, 5)[0]
    assert chunk.chunk_id == int.from_bytes(chunk.chunk_hash[:8], "big") >> 1 >= 0


@pytest.mark.parametrize("threads", [1, 3])
def test_many_documents_come_back_in_order_with_progress(threads: int) -> None:
    docs = [dataclasses.replace(document(f"Text number {n}. " * 30), document_id=f"rfc:{n}") for n in range(9)]
    seen: list[tuple[int, int]] = []
    report = ChunkReport()
    chunks = chunk_documents(
        docs, "fixed_512", packaged(), size=64, report=report, threads=threads, progress=lambda *p: seen.append(p)
    )
    assert chunks == [c for d in docs for c in chunk_fixed(d, packaged(), 64, overlap_tokens(64, 2))]
    assert seen == [(n, 9) for n in range(1, 10)]
    assert report.get("rfc", "tail_windows_dropped") == sum(
        1 for d in docs for c in chunk_fixed(d, packaged(), 64, 9)[-1:] if c.token_count - 2 > 62 - 9
    )


def test_an_unknown_chunk_set_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ChunkingError, match="fixed_512, section_aware"):
        chunk_documents([], "fixed_256", packaged())
