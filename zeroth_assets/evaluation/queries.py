"""Queries sampled from a tenant's own documents: one well-formed sentence each.

What belongs here: finding sentences and drawing from them. Such queries are good for comparing an index with exact
search, which needs vectors like those that people ask with, and nothing else: nobody asked them and nobody judged what
answers them. They are labelled `sampled_sentence` and never mixed with a golden set.
"""

from __future__ import annotations

import bisect
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from zeroth_assets.errors import MeasurementError

SAMPLER_VERSION = "1"
SAMPLED_SENTENCE = "sampled_sentence"
QUERY_SCHEMA = pl.Schema(
    {
        "query_id": pl.String,
        "text": pl.String,
        "document_id": pl.String,
        "char_start": pl.Int64,
        "char_end": pl.Int64,
        "kind": pl.String,
    }
)

_MIN_WORDS, _MAX_WORDS = 8, 50
_MIN_CHARACTERS, _MAX_CHARACTERS = 40, 320
_PARAGRAPH = re.compile(r"\S.*?(?=\n[^\S\n]*\n|\f|\Z)", re.DOTALL)
# A sentence ends where a stop, its closing quotes and white space are followed by what may open the next one.
_STOP = re.compile(r"[.!?][\"'”’)\]]*(?=\s+[\"'“‘(\[]?[A-Z0-9]|\s*\Z)")
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Za-z]|e\.g|i\.e|cf|vs|al|etc|Nos?|Sec|Secs|Art|Fig|Figs|Eq|Inc|Corp|Co|Ltd|Dr|Mr|Mrs|Ms|Jr|Sr|St|Ch|App"
    r"|pp?|vol|ed|eds|approx|U\.S|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)|(?:^|\s)\(?\d+(?:\.\d+)*)\.$"
)
_OPENS_WELL = re.compile(r"[\"“‘(]?[A-Z]")
_LAYOUT = re.compile(r"\S[^\S\n]{3,}\S|\.{4,}|_{3,}|[-=*]{4,}|\t|[|�]")
_OPENING_LABEL = re.compile(r"(?:\(?(?:\d+(?:\.\d+)*|[a-zA-Z]|[ivxIVX]+)[.)]|[-*o•])\s+")


class NoQueriesError(MeasurementError):
    """A tenant's documents hold no sentence fit to be a query: nothing failed, and nothing can be measured."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, `document.text[start:end]`; `text` is that slice on one line."""

    start: int
    end: int
    text: str


def sample_queries(documents: pl.DataFrame, *, n: int, seed: int, tenant: str) -> pl.DataFrame:
    """Draw `n` distinct sentences from a tenant's documents, in `QUERY_SCHEMA`, ordered by query id.

    `documents` has the columns document_id, text and blocks (see `corpus.model.DOCUMENT_SCHEMA`); sections, if there,
    keep headings out. `text` is the slice `[char_start:char_end]` of the document, its white space made single
    spaces. A sentence's turn is a hash of seed, tenant and its own words, so the draw does not depend on the order of
    rows, and a new document displaces only those queries whose turn its own sentences take. Fewer than `n` rows come
    back where there are no more.

    Raises:
        NoQueriesError: documents without a single usable sentence.
        MeasurementError: n < 1, or missing columns.
    """
    missing = [name for name in ("document_id", "text", "blocks") if name not in documents.columns]
    if missing or n < 1:
        raise MeasurementError(
            "Queries cannot be sampled",
            expected="n >= 1 and documents with the columns document_id, text and blocks",
            found=f"n={n}, columns {documents.columns}",
        )
    turns: dict[str, tuple[str, Sentence]] = {}
    columns = [name for name in ("document_id", "text", "blocks", "sections") if name in documents.columns]
    for row in documents.select(columns).sort("document_id").iter_rows(named=True):
        kept_out = [(b["start"], b["end"]) for b in row["blocks"] or ()]
        kept_out += [_heading_range(row["text"], s["start"]) for s in row.get("sections") or ()]
        for sentence in sentences(row["text"], kept_out):
            # By the words, not the place: a sentence that stands in several documents is one candidate.
            turn = hashlib.sha256(f"{seed}\0{tenant}\0{sentence.text.casefold()}".encode()).hexdigest()
            turns.setdefault(turn, (row["document_id"], sentence))
    if not turns:
        raise NoQueriesError(
            f"No sentence of tenant {tenant!r} is fit to be a query",
            expected=f"a sentence of {_MIN_WORDS} to {_MAX_WORDS} words outside tables, code and headings",
            found=f"none in {documents.height} documents",
            remedy="bring queries of your own for this tenant",
        )
    rows = [
        (f"{tenant}:{turn[:16]}", sentence.text, document_id, sentence.start, sentence.end, SAMPLED_SENTENCE)
        for turn, (document_id, sentence) in sorted(turns.items())[:n]
    ]
    return pl.DataFrame(rows, schema=QUERY_SCHEMA, orient="row")


def sentences(text: str, kept_out: list[tuple[int, int]]) -> Iterator[Sentence]:
    """The well-formed sentences of a text that touch none of the ranges `kept_out`, in order.

    Well-formed: begins with a capital, ends with a stop, 8 to 50 words and 40 to 320 characters, mostly letters and
    mostly lower case, closed brackets and quotes, no layout (columns, leaders, rules). A paragraph is read by
    itself, so a heading above a blank line is never part of a sentence.
    """
    merged = _merge(kept_out)
    starts = [start for start, _ in merged]
    for paragraph in _PARAGRAPH.finditer(text):
        body, begin = paragraph.group(), 0
        for stop in _STOP.finditer(body):
            if stop.end() < len(body.rstrip()) and _ABBREVIATION.search(body, begin, stop.start() + 1):
                continue
            start, end = begin, stop.end()
            start += len(body[start:end]) - len(body[start:end].lstrip())
            label = _OPENING_LABEL.match(body, start, end)
            start = label.end() if label else start
            begin = stop.end()
            place = (paragraph.start() + start, paragraph.start() + end)
            if not _touches(merged, starts, *place) and is_well_formed(body[start:end]):
                yield Sentence(*place, " ".join(body[start:end].split()))


def is_well_formed(raw: str) -> bool:
    """Whether a slice reads as a sentence; the rules are those of `sentences`."""
    line = " ".join(raw.split())
    words = line.split(" ")
    letters = [c for c in line if c.isalpha()]
    return (
        _MIN_CHARACTERS <= len(line) <= _MAX_CHARACTERS
        and _MIN_WORDS <= len(words) <= _MAX_WORDS
        and _OPENS_WELL.match(line) is not None
        and _LAYOUT.search(raw) is None
        and len(letters) >= 0.7 * len(line)
        and sum(c.islower() for c in letters) >= 0.75 * len(letters)
        and max(map(len, words)) <= 40
        and all(line.count(a) == line.count(b) for a, b in ("()", "[]", "“”"))
        and line.count('"') % 2 == 0
    )


def _heading_range(text: str, start: int) -> tuple[int, int]:
    """A section's first line."""
    end = text.find("\n", start)
    return start, len(text) if end < 0 else end


def _merge(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif end > start:
            merged.append((start, end))
    return merged


def _touches(merged: list[tuple[int, int]], starts: list[int], start: int, end: int) -> bool:
    position = bisect.bisect_left(starts, end) - 1
    return position >= 0 and merged[position][1] > start
