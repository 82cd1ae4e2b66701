"""Chunks that are embedded and indexed with the title of their document and the path of their section before them.

What belongs here: the prefix, its budget of tokens, and the chunk sets that have one. A chunk's offsets and text stay
those of the document, so truth, quotes and what a caller is shown do not change; only what the encoder and the lexical
index read does. Windows are smaller by the budget, so that prefix and text fit into what the encoder reads, and chunks
have ids of their own: the same stretch of text with a prefix is another chunk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from types import MappingProxyType

import polars as pl

from zeroth_assets.chunking.chunkers import PATH_SEPARATOR, ChunkReport, chunk_documents
from zeroth_assets.chunking.model import CHUNK_SCHEMA, CHUNKER_VERSION, Chunk, chunk_hash, chunks_to_frame, id_of
from zeroth_assets.chunking.tokens import Tokenizer, overlap_tokens
from zeroth_assets.corpus.model import Document
from zeroth_assets.errors import ChunkingError

CONTEXT_TOKENS = 64
CONTEXT_SETS: Mapping[str, str] = MappingProxyType({f"{name}_context": name for name in CHUNKER_VERSION})
"""Each chunk set with a prefix, and the one that cuts as it does."""
CONTEXT_VERSION = "1"
_FIELDS: dict[str, pl.DataType | type[pl.DataType]] = {**CHUNK_SCHEMA, "context": pl.String}
CONTEXT_CHUNK_SCHEMA = pl.Schema(_FIELDS)

_BETWEEN = "\n"


def version_of(chunk_set: str) -> str:
    """The code's version behind a chunk set, with a prefix or without."""
    base = CONTEXT_SETS.get(chunk_set)
    return CHUNKER_VERSION[chunk_set] if base is None else f"{CHUNKER_VERSION[base]}+{CONTEXT_VERSION}"


@dataclass(frozen=True, slots=True)
class ContextChunk:
    """A chunk and the prefix that it is embedded and indexed with.

    `chunk.text` is the document's alone; `chunk.token_count` is what the encoder reads, prefix and all.
    """

    chunk: Chunk
    context: str

    @property
    def indexed_text(self) -> str:
        """What is embedded and indexed."""
        return joined(self.context, self.chunk.text)


def joined(context: str, text: str) -> str:
    """The prefix on a line of its own before the text; the text alone where there is no prefix.

    >>> joined("A title", "Some text."), joined("", "Some text.")
    ('A title\\nSome text.', 'Some text.')
    """
    return f"{context}{_BETWEEN}{text}" if context else text


def context_of(title: str, section_path: str, text: str, tokenizer: Tokenizer, budget: int) -> str:
    """Title and section path in at most `budget` tokens, special ones not counted, ended where words end.

    Where there is not room for all, the title has at most half of it and the innermost headings come first, since the
    outer ones are shared by the most chunks. Headings that repeat the title, or that the text begins with, are left
    out. Underscores become spaces: a title may be the name of a file.

    >>> class Words:
    ...     identity, special_tokens = "words", 0
    ...     def starts(self, text): return np.flatnonzero([a.isspace() for a in " " + text[:-1]])
    ...     def counts(self, texts): return [len(t.split()) for t in texts]
    >>> context_of("The contract of sale", "2 Terms > 2.1 Price", "It is 3.", Words(), 8)
    'The contract of sale\\n2.1 Price'
    """
    title = _readable(title)
    begins = _readable(text[: 4 * len(section_path) + 1]).casefold()
    headings = [
        heading
        for heading in map(_readable, section_path.split(PATH_SEPARATOR))
        if heading and heading.casefold() != title.casefold() and not begins.startswith(heading.casefold())
    ]
    whole = _BETWEEN.join(part for part in (title, PATH_SEPARATOR.join(headings)) if part)
    if _content(tokenizer, whole) <= budget:
        return whole
    title = _clipped(title, tokenizer, budget if not headings else budget // 2)
    kept: list[str] = []
    for heading in reversed(headings):
        candidate = _BETWEEN.join(part for part in (title, PATH_SEPARATOR.join([heading, *kept])) if part)
        if _content(tokenizer, candidate) > budget:
            break
        kept.insert(0, heading)
    if headings and not kept:
        last = _clipped(headings[-1], tokenizer, budget - _content(tokenizer, title))
        kept = [last] if last else []
    context = _BETWEEN.join(part for part in (title, PATH_SEPARATOR.join(kept)) if part)
    return _clipped(context, tokenizer, budget)


def chunk_with_context(
    documents: Iterable[Document],
    chunk_set: str,
    tokenizer: Tokenizer,
    *,
    size: int = 512,
    share: float = 0.15,
    budget: int = CONTEXT_TOKENS,
    report: ChunkReport | None = None,
    progress: Callable[[int, int], None] | None = None,
    threads: int = 2,
) -> list[ContextChunk]:
    """As `chunk_documents`, for a chunk set of `CONTEXT_SETS`; prefix and text together have at most `size` tokens.

    Raises:
        ChunkingError: the chunk set has no prefix, the budget leaves no room for text, or a document cannot be cut.
    """
    base = CONTEXT_SETS.get(chunk_set)
    if base is None:
        raise ChunkingError(
            f"The chunk set {chunk_set!r} has no prefix", expected=", ".join(CONTEXT_SETS), found=repr(chunk_set)
        )
    if not 1 <= budget < size - tokenizer.special_tokens:
        raise ChunkingError(
            f"A prefix of {budget} tokens leaves no room in windows of {size}",
            expected=f"1 to {size - tokenizer.special_tokens - 1}",
            found=str(budget),
            remedy="choose a smaller budget or a larger size",
        )
    listed = list(documents)
    chunks = chunk_documents(
        listed, base, tokenizer, size=size - budget, share=share, report=report, progress=progress, threads=threads
    )
    titles = {(d.document_id, d.version): (d.title, d.source) for d in listed}
    overlap = overlap_tokens(size - budget, tokenizer.special_tokens, share)
    identity = {
        "size": size,
        "overlap": overlap,
        "tokenizer": tokenizer.identity,
        "context": [CONTEXT_VERSION, budget],
    }
    made: list[ContextChunk] = []
    for key, own in groupby(chunks, key=lambda chunk: (chunk.document_id, chunk.document_version)):
        title, source = titles[key]
        placed = [_renamed(chunk, chunk_set, identity) for chunk in own]
        contexts = [context_of(title, chunk.section_path, chunk.text, tokenizer, budget) for chunk in placed]
        fitted, shortened = _fitted(placed, contexts, tokenizer, size)
        made += fitted
        if report is not None:
            report.add(source, Counter(contexts_shortened=shortened))
    return made


def context_frame(chunks: Sequence[ContextChunk]) -> pl.DataFrame:
    """One row per chunk in `CONTEXT_CHUNK_SCHEMA`, ordered as `chunks_to_frame` does.

    Raises:
        ChunkingError: two chunks share an id.
    """
    frame = chunks_to_frame([one.chunk for one in chunks])
    contexts = pl.DataFrame(
        {"chunk_id": [one.chunk.chunk_id for one in chunks], "context": [one.context for one in chunks]},
        schema={"chunk_id": pl.Int64, "context": pl.String},
    )
    return frame.join(contexts, on="chunk_id", how="left", maintain_order="left").select(list(CONTEXT_CHUNK_SCHEMA))


def context_columns(chunk_set: str) -> list[str]:
    """The columns that a chunk set's frame has beyond `CHUNK_SCHEMA`."""
    return ["context"] if chunk_set in CONTEXT_SETS else []


def indexed_texts(chunks: pl.DataFrame) -> list[str]:
    """What is embedded and indexed for each row: its text, after its `context` where the frame has that column."""
    texts: list[str] = chunks["text"].to_list()
    if "context" not in chunks.columns:
        return texts
    return [joined(context, text) for context, text in zip(chunks["context"], texts, strict=True)]


def _renamed(chunk: Chunk, chunk_set: str, identity: Mapping[str, object]) -> Chunk:
    version, ordinal = version_of(chunk_set), chunk.ordinal
    digest = chunk_hash(chunk.document_id, chunk.document_version, chunk_set, version, identity, ordinal)
    return replace(chunk, chunk_hash=digest, chunk_id=id_of(digest))


def _fitted(
    chunks: Sequence[Chunk], contexts: list[str], tokenizer: Tokenizer, size: int
) -> tuple[list[ContextChunk], int]:
    """The chunks with their contexts, and how many of these had to give way.

    A tokenizer may make more tokens of two texts in a row than of both by themselves.
    """
    counts = tokenizer.counts([joined(context, chunk.text) for chunk, context in zip(chunks, contexts, strict=True)])
    made: list[ContextChunk] = []
    shortened = 0
    for chunk, full, first in zip(chunks, contexts, counts, strict=True):
        context, tokens = full, first
        while tokens > size and context:
            context = context[: max(context.rfind(" "), context.rfind(_BETWEEN), 0)].rstrip()
            tokens = tokenizer.counts([joined(context, chunk.text)])[0]
        shortened += context != full
        made.append(ContextChunk(replace(chunk, token_count=tokens), context))
    return made, shortened


def _readable(text: str) -> str:
    return " ".join(text.replace("_", " ").split())


def _content(tokenizer: Tokenizer, text: str) -> int:
    return tokenizer.counts([text])[0] - tokenizer.special_tokens if text else 0


def _clipped(text: str, tokenizer: Tokenizer, budget: int) -> str:
    """The first words of `text` that fit into `budget` tokens; none where not even the first does."""
    while text and _content(tokenizer, text) > budget:
        starts = tokenizer.starts(text)
        limit = min(int(starts[budget]), len(text) - 1) if 0 <= budget < len(starts) else len(text) - 1
        words = text[: limit + 1].rpartition(" ")[0] if not text[limit].isspace() else text[:limit]
        text = words.rstrip()
    return text
