"""The two chunkers, and a loop over documents for both.

What belongs here: which stretches of a document are cut, at which places, and what each chunk says of itself.

fixed_512 cuts the whole text into windows that end where words begin; it ignores sections.

section_aware cuts each stretch between two section boundaries by itself, so that no chunk crosses one. A section
that is too long is cut before a paragraph, else before a sentence, else before a word, and not inside a table, a row,
a list item or code that would fit into a window. An overlap exists only inside such a section; it begins with a
sentence where one begins within reach. A section whose own text is its heading alone is a chunk of its own: its
title is in the path of its children too, but leaving the text out would leave characters that no chunk covers.
`measure_chunks` counts these as `tiny`.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from zeroth_assets.chunking.boundaries import Words, paragraph_starts, sentence_starts
from zeroth_assets.chunking.model import CHUNKER_VERSION, Chunk, chunk_hash, id_of
from zeroth_assets.chunking.tokens import IntArray, Tokenizer, overlap_tokens
from zeroth_assets.chunking.windows import Cutter, Places, Window
from zeroth_assets.corpus.model import Document, Span, innermost_spans
from zeroth_assets.errors import ChunkingError

PATH_SEPARATOR = " > "


@dataclass(slots=True)
class ChunkReport:
    """What cutting did beside making chunks, per source.

    `tail_windows_dropped`: windows that a plain stepper would have added, wholly inside the one before.
    `shortened`: windows whose cut text had more tokens than its stretch of the whole text.
    `words_split`: cuts inside a word that is longer than a window. `empty_documents`: nothing but space.
    """

    counts: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, source: str, counts: Counter[str]) -> None:
        """Add the counts of one document."""
        self.counts.setdefault(source, Counter()).update(counts)

    def get(self, source: str, name: str) -> int:
        """One count of one source."""
        return self.counts.get(source, Counter())[name]


def chunk_fixed(
    document: Document, tokenizer: Tokenizer, size: int, overlap: int, report: ChunkReport | None = None
) -> list[Chunk]:
    """Windows of at most `size` tokens (special tokens included) over the whole text, at most `overlap` shared.

    Raises:
        ChunkingError: size and overlap leave no room, or a single character does not fit.
    """
    words = Words.of(document.text)
    cutter = Cutter(document.text, tokenizer, size, overlap, words, tokenizer.starts(document.text))
    places = Places(restarts=(words.starts,))
    windows = [w for row in cutter.cut([(0, len(document.text))], places) for w in row]
    chunks = _describe(document, windows, innermost_spans(document), "fixed_512", tokenizer, size, overlap)
    return _reported(document, chunks, cutter, report)


def chunk_section_aware(
    document: Document, tokenizer: Tokenizer, size: int, overlap: int, report: ChunkReport | None = None
) -> list[Chunk]:
    """Chunks of at most `size` tokens (special tokens included) that cross no section boundary.

    Raises:
        ChunkingError: as for `chunk_fixed`.
    """
    words = Words.of(document.text)
    cutter = Cutter(document.text, tokenizer, size, overlap, words, tokenizer.starts(document.text))
    spans = innermost_spans(document)
    stretches = [(span.start, span.end) for span in spans]
    windows = [w for row in cutter.cut(stretches, _section_places(document, cutter, words)) for w in row]
    chunks = _describe(document, windows, spans, "section_aware", tokenizer, size, overlap)
    return _reported(document, chunks, cutter, report)


_CHUNKERS = {"fixed_512": chunk_fixed, "section_aware": chunk_section_aware}


def chunk_documents(
    documents: Iterable[Document],
    chunk_set: str,
    tokenizer: Tokenizer,
    *,
    size: int = 512,
    share: float = 0.15,
    report: ChunkReport | None = None,
    progress: Callable[[int, int], None] | None = None,
    threads: int = 2,
) -> list[Chunk]:
    """The chunks of many documents in the order given; `chunk_set` is `fixed_512` or `section_aware`.

    Raises:
        ChunkingError: the chunk set is unknown, or a document cannot be cut.
    """
    chunker = _CHUNKERS.get(chunk_set)
    if chunker is None:
        raise ChunkingError(
            f"There is no chunk set {chunk_set!r}",
            expected=", ".join(_CHUNKERS),
            found=repr(chunk_set),
            remedy="name one of these",
        )
    overlap = overlap_tokens(size, tokenizer.special_tokens, share)
    listed = list(documents)

    def cut(document: Document) -> tuple[str, list[Chunk], ChunkReport]:
        own = ChunkReport()
        return document.source, chunker(document, tokenizer, size, overlap, own), own

    chunks: list[Chunk] = []
    for done, (source, found, own) in enumerate(_mapped(cut, listed, threads), 1):
        chunks += found
        if report is not None:
            report.add(source, own.counts.get(source, Counter()))
        if progress is not None:
            progress(done, len(listed))
    return chunks


def _mapped(
    cut: Callable[[Document], tuple[str, list[Chunk], ChunkReport]], documents: list[Document], threads: int
) -> Iterator[tuple[str, list[Chunk], ChunkReport]]:
    if threads < 2 or len(documents) < 2:
        yield from map(cut, documents)
        return
    with ThreadPoolExecutor(threads) as pool:
        try:
            yield from pool.map(cut, documents)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _section_places(document: Document, cutter: Cutter, words: Words) -> Places:
    whole = np.zeros(len(document.text) + 1, dtype=np.bool_)
    block_starts: list[int] = []
    for block in document.blocks:
        start, end = words.next_start(block.start), words.trim_end(block.end)
        if start is None or start >= end:
            continue
        block_starts.append(start)
        if cutter.fits(start, end):
            whole[start + 1 : end] = True

    def outside(places: IntArray) -> IntArray:
        return places[~whole[places]]

    paragraphs = outside(np.union1d(paragraph_starts(document.text), np.array(block_starts, dtype=np.int64)))
    sentences = outside(np.union1d(sentence_starts(document.text), paragraphs))
    begun = outside(words.starts)
    return Places(
        ends=((paragraphs, 0.6), (sentences, 0.5), (begun, 0.5), (begun, 0.0)),
        restarts=(sentences, begun),
        clean=sentences,
    )


def _describe(
    document: Document,
    windows: list[Window],
    spans: tuple[Span, ...],
    chunker: str,
    tokenizer: Tokenizer,
    size: int,
    overlap: int,
) -> list[Chunk]:
    span_starts = [span.start for span in spans]
    page_starts = [page.start for page in document.pages]
    version = CHUNKER_VERSION[chunker]
    parameters = {"size": size, "overlap": overlap, "tokenizer": tokenizer.identity}
    chunks: list[Chunk] = []
    for ordinal, window in enumerate(windows):
        digest = chunk_hash(document.document_id, document.version, chunker, version, parameters, ordinal)
        span = spans[bisect.bisect_right(span_starts, window.start) - 1]
        first, last = (max(0, bisect.bisect_right(page_starts, at) - 1) for at in (window.start, window.end - 1))
        pages = document.pages[first : last + 1]
        chunks.append(
            Chunk(
                chunk_id=id_of(digest),
                chunk_hash=digest,
                document_id=document.document_id,
                document_version=document.version,
                ordinal=ordinal,
                char_start=window.start,
                char_end=window.end,
                page_first=pages[0].number if pages else None,
                page_last=pages[-1].number if pages else None,
                pages_real=bool(pages) and all(page.real for page in pages),
                section_path=PATH_SEPARATOR.join(span.path),
                token_count=window.tokens,
                text=document.text[window.start : window.end],
            )
        )
    return chunks


def _reported(document: Document, chunks: list[Chunk], cutter: Cutter, report: ChunkReport | None) -> list[Chunk]:
    if report is not None:
        counts = Counter(cutter.counts)
        counts["empty_documents"] += not chunks
        report.add(document.source, counts)
    return chunks
