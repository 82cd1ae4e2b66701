"""The chunk sets with title and section path before the text, through the graph: `ZEROTH_CONTEXT_PREFIX`."""

from __future__ import annotations

import polars as pl

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.chunking.context import CONTEXT_TOKENS, indexed_texts
from zeroth_assets.embedding import find_model
from zeroth_assets_tests.small_corpus import SmallCorpus

TENANT = "rfc-orchard-naming"
SETS = ("fixed_512_context", "section_aware_context")


def test_a_tenant_is_made_and_searched_in_the_chunk_sets_with_a_prefix(own: SmallCorpus) -> None:
    """Which chunk sets there are is fixed when a process starts, so each command is one."""
    prefixed = own.with_extra(ZEROTH_CONTEXT_PREFIX="1")
    done = prefixed.process("materialize", "--plain", "--no-fan-ins", "--tenant", TENANT)
    assert done.code == 0, done.out + done.err

    store = ArtefactStore(own.artefacts)
    tokenizer = find_model("all-MiniLM-L6-v2").tokenizer()
    documents = store.read_frame("parsed_documents", "rfc", columns=["document_id", "title", "text"])
    for chunk_set in SETS:
        chunks = store.read_frame(f"chunks_{chunk_set}", TENANT).join(
            documents, on="document_id", suffix="_of_document", maintain_order="left"
        )
        assert chunks.height > 0
        assert store.require(f"embeddings_{chunk_set}", TENANT).rows == chunks.height
        assert store.require(f"tenant_index_{chunk_set}", TENANT).details["table_rows"] == chunks.height
        for row in chunks.iter_rows(named=True):
            assert row["text_of_document"][row["char_start"] : row["char_end"]] == row["text"]
            known = f"{row['title']} {row['section_path']}".replace("_", " ").split()
            assert set(row["context"].split()) <= set(known), "a prefix says what its own document says"
        assert any(chunks["context"]), "a prefix for none of them would be no prefix"
        assert max(tokenizer.counts(indexed_texts(chunks.select(pl.all())))) <= 512
        assert max(tokenizer.counts(chunks["context"].to_list())) - tokenizer.special_tokens <= CONTEXT_TOKENS

    arguments = ("orchard", "--principal", TENANT, "--arm", "lexical", "--chunk-set", SETS[0], "--json")
    found = prefixed.process("query", *arguments)
    assert found.code == 0, found.err
    assert '"document_id": "rfc:90109"' in found.out
    # Without the setting the sets are not there, and what was made of the others is still fresh.
    assert own.remake("--tenant", TENANT, "--json").json["runs"] == []
