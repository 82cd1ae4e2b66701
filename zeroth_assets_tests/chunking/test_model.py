from __future__ import annotations

import dataclasses

import pytest

from zeroth_assets.chunking import CHUNK_SCHEMA, check_ids, chunk_fixed, chunks_from_frame, chunks_to_frame
from zeroth_assets.chunking.model import id_of
from zeroth_assets.errors import ChunkingError
from zeroth_assets_tests.chunking.texts_for_tests import document
from zeroth_assets_tests.chunking.tokenizers_for_tests import CharacterTokenizer

CHUNKS = chunk_fixed(document("Some words that make a few chunks. \x00 漢字 " * 5), CharacterTokenizer(), 30, 4)


def test_a_frame_has_the_schema_and_gives_the_chunks_back_in_order() -> None:
    frame = chunks_to_frame(CHUNKS[::-1])
    assert frame.schema == CHUNK_SCHEMA
    assert chunks_from_frame(frame) == CHUNKS


def test_no_chunks_make_an_empty_frame_with_the_schema() -> None:
    assert chunks_to_frame([]).schema == CHUNK_SCHEMA
    assert chunks_from_frame(chunks_to_frame([])) == []


def test_ids_fit_a_positive_bigint() -> None:
    assert id_of(b"\xff" * 32) == 2**63 - 1
    assert id_of(b"\x00" * 32) == 0
    assert chunks_to_frame(CHUNKS)["chunk_id"].min() >= 0  # type: ignore[operator]


def test_one_chunk_twice_is_refused() -> None:
    with pytest.raises(ChunkingError, match="the same chunk twice"):
        chunks_to_frame([*CHUNKS, dataclasses.replace(CHUNKS[0])])


def test_two_hashes_with_one_id_are_refused() -> None:
    other = dataclasses.replace(CHUNKS[1], chunk_id=CHUNKS[0].chunk_id)
    with pytest.raises(ChunkingError, match="agree in their first 63 bits"):
        check_ids([CHUNKS[0], other])
