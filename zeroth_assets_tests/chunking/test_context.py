from __future__ import annotations

import json
import os
import subprocess
import sys

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zeroth_assets.chunking import CHUNK_SCHEMA, CHUNKER_VERSION, ChunkReport, chunk_documents, measure_chunks
from zeroth_assets.chunking.context import (
    CONTEXT_CHUNK_SCHEMA,
    CONTEXT_SETS,
    chunk_with_context,
    context_columns,
    context_frame,
    context_of,
    indexed_texts,
    version_of,
)
from zeroth_assets.corpus.model import Document, Section
from zeroth_assets.errors import ChunkingError
from zeroth_assets.settings import PLAIN_CHUNK_SETS, chunk_sets_of
from zeroth_assets.store.rows import CHUNK_COLUMNS
from zeroth_assets_tests.chunking.texts_for_tests import document, documents
from zeroth_assets_tests.chunking.tokenizers_for_tests import ByteTokenizer, CharacterTokenizer, packaged

SETS = sorted(CONTEXT_SETS)


def contract() -> Document:
    head, terms, price = "SALE\n\n", "2 Terms\n\nBoth sides agree. ", "2.1 Price\n\n" + "The price is three. " * 60
    text = head + terms + price
    sections = (
        Section("2", "Terms", 1, len(head), len(text), "section"),
        Section("2.1", "Price", 2, len(head) + len(terms), len(text), "section"),
    )
    return document(text, sections=sections)


@pytest.mark.parametrize("chunk_set", SETS)
@pytest.mark.parametrize("tokenizer", [CharacterTokenizer(2), ByteTokenizer()], ids=["characters", "bytes"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(doc=documents(), size=st.integers(40, 120), budget=st.integers(1, 20))
def test_prefix_and_text_fit_the_encoder_and_the_text_stays_the_documents(
    chunk_set: str, tokenizer: CharacterTokenizer | ByteTokenizer, doc: Document, size: int, budget: int
) -> None:
    made = chunk_with_context([doc], chunk_set, tokenizer, size=size, budget=budget)
    for one in made:
        assert doc.text[one.chunk.char_start : one.chunk.char_end] == one.chunk.text
        assert one.indexed_text.endswith(one.chunk.text)
        assert one.chunk.token_count == tokenizer.counts([one.indexed_text])[0] <= size
    measured = measure_chunks([doc], [one.chunk for one in made], size=size, special_tokens=tokenizer.special_tokens)
    assert measured["characters_uncovered"].sum() == 0
    if chunk_set == "section_aware_context":
        assert measured["crossing_section"].sum() == 0


@pytest.mark.parametrize("chunk_set", SETS)
def test_the_packaged_tokenizer_reads_prefix_and_text_within_its_window(chunk_set: str) -> None:
    made = chunk_with_context([contract()], chunk_set, packaged(), size=96, budget=16)
    assert len(made) > 3
    assert all(one.context.startswith("A title") for one in made)
    assert made[-1].context == "A title\n2 Terms > 2.1 Price"
    counts = packaged().counts([one.indexed_text for one in made])
    assert counts == [one.chunk.token_count for one in made]
    assert max(counts) <= 96


@pytest.mark.parametrize("chunk_set", SETS)
def test_windows_are_those_of_the_plain_chunker_at_the_size_that_the_budget_leaves(chunk_set: str) -> None:
    plain = chunk_documents([contract()], CONTEXT_SETS[chunk_set], packaged(), size=80)
    made = chunk_with_context([contract()], chunk_set, packaged(), size=96, budget=16)
    assert [(c.char_start, c.char_end) for c in plain] == [(m.chunk.char_start, m.chunk.char_end) for m in made]
    assert not {c.chunk_id for c in plain} & {m.chunk.chunk_id for m in made}


def test_ids_change_with_the_budget_and_with_the_chunk_set() -> None:
    ids = [
        {
            one.chunk.chunk_id
            for one in chunk_with_context([contract()], chunk_set, packaged(), size=size, budget=budget)
        }
        for chunk_set, size, budget in (
            ("fixed_512_context", 96, 16),
            ("fixed_512_context", 97, 17),
            ("section_aware_context", 96, 16),
        )
    ]
    assert not ids[0] & ids[1]
    assert not ids[0] & ids[2]


def test_a_long_title_leaves_room_for_the_innermost_heading() -> None:
    context = context_of("word " * 50, "1 Outer " + "x " * 30 + "> 1.1 Inner", "Text.", packaged(), 16)
    assert context == "word " * 7 + "word\n1.1 Inner"


def test_a_long_title_without_headings_has_the_whole_budget() -> None:
    assert context_of("word " * 50, "", "Text.", packaged(), 16).split() == ["word"] * 16


def test_a_heading_that_does_not_fit_ends_with_a_word() -> None:
    context = context_of("Sale", "9 " + "payment " * 40, "Text.", packaged(), 10)
    assert context == "Sale\n9 " + "payment " * 7 + "payment"


def test_a_word_that_is_longer_than_the_budget_is_no_prefix() -> None:
    assert context_of("abcdefghij", "", "Text.", CharacterTokenizer(), 5) == ""


def test_what_the_text_begins_with_is_not_said_twice() -> None:
    assert context_of("Sale", "2 Terms > 2.1 Price", "2.1  Price\n\nThree.", packaged(), 20) == "Sale\n2 Terms"
    assert context_of("Sale", "Sale > 2 Terms", "Three.", packaged(), 20) == "Sale\n2 Terms"


def test_the_name_of_a_file_is_read_as_words() -> None:
    assert (
        context_of("ACME_2014-EX-10_SUPPLY  AGREEMENT", "", "x", packaged(), 40) == "ACME 2014-EX-10 SUPPLY AGREEMENT"
    )


def test_where_joining_costs_a_token_the_prefix_gives_way_and_not_the_text() -> None:
    report = ChunkReport()
    tokenizer = CharacterTokenizer(2)  # the line's end between prefix and text is a token of its own
    doc = document("x" * 500)
    made = chunk_with_context([doc], "fixed_512_context", tokenizer, size=60, budget=7, report=report)
    assert all(one.chunk.token_count <= 60 for one in made)
    assert {one.context for one in made[:-1]} == {"A"}
    assert report.get("rfc", "contexts_shortened") == len(made) - 1


def test_the_frame_holds_what_a_chunk_table_takes_and_gives_the_texts_to_index() -> None:
    made = chunk_with_context([contract()], "section_aware_context", packaged(), size=96, budget=16)
    frame = context_frame(made[::-1])
    assert frame.schema == CONTEXT_CHUNK_SCHEMA
    assert set(CHUNK_COLUMNS) <= set(frame.columns)
    assert indexed_texts(frame) == [one.indexed_text for one in made]
    assert indexed_texts(frame.select(list(CHUNK_SCHEMA))) == [one.chunk.text for one in made]
    assert frame.columns == [*CHUNK_SCHEMA, *context_columns("section_aware_context")]
    assert context_frame([]).equals(pl.DataFrame(schema=CONTEXT_CHUNK_SCHEMA))


def test_a_budget_that_leaves_no_room_and_a_set_without_prefix_are_refused() -> None:
    with pytest.raises(ChunkingError, match="leaves no room"):
        chunk_with_context([contract()], "fixed_512_context", packaged(), size=64, budget=62)
    with pytest.raises(ChunkingError, match="has no prefix"):
        chunk_with_context([contract()], "fixed_512", packaged())


def test_the_graph_has_the_sets_with_a_prefix_only_where_they_are_asked_for() -> None:
    assert chunk_sets_of(None) == chunk_sets_of("") == chunk_sets_of("0") == PLAIN_CHUNK_SETS
    assert chunk_sets_of("true") == (*PLAIN_CHUNK_SETS, *(f"{name}_context" for name in PLAIN_CHUNK_SETS))
    assert set(chunk_sets_of("1")) - set(PLAIN_CHUNK_SETS) == set(CONTEXT_SETS)


def test_the_version_of_a_set_with_a_prefix_changes_with_the_chunker_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = version_of("fixed_512_context")
    monkeypatch.setitem(CHUNKER_VERSION, "fixed_512", "next")
    assert version_of("fixed_512_context") != before
    assert version_of("fixed_512") == "next"


_DECLARED = """
import json
from zeroth_assets.chunking.context import CONTEXT_CHUNK_SCHEMA
from zeroth_assets.definitions import defs
from zeroth_assets.evaluation.retrieval_family import WHOLE
from zeroth_assets.planning import measured_arms
from zeroth_assets.settings import read_settings
specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
columns = specs["chunks_fixed_512_context"].metadata["dagster/column_schema"].columns
settings = read_settings()
print(json.dumps({
    "assets": sorted(specs),
    "unexplained": [c.name for c in columns if not c.description],
    "columns": [c.name for c in columns] == list(CONTEXT_CHUNK_SCHEMA),
    "arms": list(measured_arms(settings)),
    "asked": [str(c) for c in WHOLE.primary],
    "setting": settings.context_prefix,
}))
"""


def test_with_the_setting_the_graph_declares_chunks_indexes_and_arms_with_a_prefix() -> None:
    environment = {**os.environ, "ZEROTH_CONTEXT_PREFIX": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _DECLARED], env=environment, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    stages = ("chunks", "embeddings", "bm25_index", "tenant_index", "shared_index")
    assert {f"{stage}_{name}" for stage in stages for name in CONTEXT_SETS} <= set(found["assets"])
    assert found["unexplained"] == []
    assert found["columns"]
    assert found["setting"]
    assert "fixed_512_context.bm25" in found["arms"]
    assert any("fixed_512_context bm25" in asked and "against fixed_512 bm25" in asked for asked in found["asked"])
