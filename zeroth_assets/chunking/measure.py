"""What the chunks of a source are like.

What belongs here: counting over finished chunks, beside the documents that they were cut from. No cutting.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from zeroth_assets.chunking.boundaries import Words, sentence_starts
from zeroth_assets.chunking.chunkers import ChunkReport
from zeroth_assets.chunking.model import Chunk
from zeroth_assets.chunking.tokens import IntArray
from zeroth_assets.corpus.model import Document, innermost_spans
from zeroth_assets.errors import ChunkingError

TINY = 16

_CUT_KINDS = {
    "table_row": "cuts_in_table_row",
    "list_item": "cuts_in_list_item",
    "code": "cuts_in_code",
    "table": "cuts_in_table",
    "figure": "cuts_in_figure",
}

CHUNK_MEASURES = pl.Schema(
    {
        "source": pl.String,
        "documents": pl.Int64,
        "chunks": pl.Int64,
        "tokens_mean": pl.Float64,
        "tokens_p5": pl.Float64,
        "tokens_p50": pl.Float64,
        "tokens_p95": pl.Float64,
        "tokens_max": pl.Int64,
        "over_size": pl.Int64,
        "not_a_slice": pl.Int64,
        "characters_uncovered": pl.Int64,
        "crossing_section": pl.Int64,
        "starts_mid_sentence": pl.Int64,
        **dict.fromkeys(_CUT_KINDS.values(), pl.Int64),
        "tiny": pl.Int64,
        "tail_windows_dropped": pl.Int64,
        "shortened": pl.Int64,
        "words_split": pl.Int64,
        "empty_documents": pl.Int64,
    }
)


def measure_chunks(
    documents: Iterable[Document],
    chunks: Sequence[Chunk],
    report: ChunkReport | None = None,
    *,
    size: int = 512,
    special_tokens: int = 2,
) -> pl.DataFrame:
    """One row per source, in `CHUNK_MEASURES`.

    `crossing_section`: chunks with a section boundary inside. `starts_mid_sentence`: chunks that begin neither with
    the text, a section, a paragraph, a block nor a sentence. `cuts_in_<kind>`: starts and ends of chunks that fall
    inside a block of the kind, each place once. `tiny`: fewer than 16 tokens of content. `characters_uncovered`:
    characters other than space that are in no chunk. `not_a_slice`: chunks whose text is not that of their range.
    The last four columns are the report's, 0 without one.

    Raises:
        ChunkingError: a chunk's document is not among those given.
    """
    by_document: dict[tuple[str, str], list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        by_document[chunk.document_id, chunk.document_version].append(chunk)
    sums: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    tokens: dict[str, list[int]] = defaultdict(list)
    for document in documents:
        own = by_document.pop((document.document_id, document.version), [])
        row = sums[document.source]
        row["documents"] += 1
        row["chunks"] += len(own)
        tokens[document.source] += [chunk.token_count for chunk in own]
        for name, value in _measure(document, own).items():
            row[name] += value
    if by_document:
        missing = sorted(identifier for identifier, _ in by_document)
        raise ChunkingError(
            "Chunks cannot be measured without their documents",
            expected="every chunk's document, in the chunk's version",
            found=f"none for {', '.join(missing[:5])}" + (f" and {len(missing) - 5} more" if len(missing) > 5 else ""),
            remedy="give the documents that the chunks were cut from",
        )
    rows = []
    for source in sorted(sums):
        row = sums[source]
        counted = np.array(tokens[source] or [0], dtype=np.int64)
        p5, p50, p95 = (float(q) for q in np.percentile(counted, [5, 50, 95]))
        row |= {
            "tokens_max": int(counted.max()),
            "over_size": int((counted > size).sum()),
            "tiny": int((np.array(tokens[source], dtype=np.int64) - special_tokens < TINY).sum()),
        }
        for name in ("tail_windows_dropped", "shortened", "words_split", "empty_documents"):
            row[name] = report.get(source, name) if report is not None else 0
        floats = {"tokens_mean": float(counted.mean()), "tokens_p5": p5, "tokens_p50": p50, "tokens_p95": p95}
        known = {"source": source, **floats, **row}
        rows.append({name: known.get(name, 0) for name in CHUNK_MEASURES})
    return pl.DataFrame(rows, schema=CHUNK_MEASURES)


def _measure(document: Document, chunks: Sequence[Chunk]) -> dict[str, int]:
    text = document.text
    words = Words.of(text)
    starts = np.array([chunk.char_start for chunk in chunks], dtype=np.int64)
    ends = np.array([chunk.char_end for chunk in chunks], dtype=np.int64)
    spans = np.array([span.start for span in innermost_spans(document)] or [0], dtype=np.int64)
    found = {
        "crossing_section": int(
            (np.searchsorted(spans, starts, side="right") != np.searchsorted(spans, ends, side="left")).sum()
        ),
        "not_a_slice": sum(text[c.char_start : c.char_end] != c.text for c in chunks),
        "characters_uncovered": _uncovered(words, starts, ends, len(text)),
    }
    blocks = [
        (block.kind, start, end)
        for block in document.blocks
        if (start := words.next_start(block.start)) is not None and (end := words.trim_end(block.end)) > start
    ]
    begun = {int(at) for at in sentence_starts(text)} | {start for _, start, _ in blocks}
    begun |= {at for start in (0, *spans.tolist()) if (at := words.next_start(start)) is not None}
    found["starts_mid_sentence"] = sum(int(at) not in begun for at in starts)
    # The end of a chunk and the start of the next are one cut, where only space lies between them.
    cuts = np.unique(np.array([*starts.tolist(), *(words.next_start(int(e)) or len(text) for e in ends)], dtype=int))
    for kind, name in _CUT_KINDS.items():
        found[name] = sum(
            int(np.searchsorted(cuts, end) - np.searchsorted(cuts, start, side="right"))
            for own, start, end in blocks
            if own == kind
        )
    return found


def _uncovered(words: Words, starts: IntArray, ends: IntArray, length: int) -> int:
    """Characters other than space outside every chunk."""
    depth = np.zeros(length + 1, dtype=np.int64)
    np.add.at(depth, starts, 1)
    np.add.at(depth, ends, -1)
    solid = np.zeros(length + 1, dtype=np.int64)
    np.add.at(solid, words.starts, 1)
    np.add.at(solid, words.ends, -1)
    return int(((np.cumsum(solid) > 0) & (np.cumsum(depth) == 0)).sum())
