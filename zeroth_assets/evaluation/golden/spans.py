"""Finding quotes: every place where a quote stands in a text, and where it stands in a duplicate of the document.

What belongs here: offsets. Exact occurrences are found character by character. In a duplicate, whose layout and case
may differ, a quote is found by its words; what is kept is again an exact slice, of the duplicate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import polars as pl

from zeroth_assets.evaluation.golden.model import SPAN_SCHEMA

_WORD = re.compile(r"[^\W_]+")


def occurrences(text: str, quote: str) -> list[int]:
    """Where `quote` begins in `text`, overlapping places included.

    >>> occurrences("chunk chunk", "chunk"), occurrences("aaa", "aa")
    ([0, 6], [0, 1])
    """
    places: list[int] = []
    start = text.find(quote) if quote else -1
    while start >= 0:
        places.append(start)
        start = text.find(quote, start + 1)
    return places


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The range without white space at its ends; chunks have none there, so a span must not ask for it.

    >>> trimmed("  a b ", 0, 6)
    (2, 5)
    """
    slice_ = text[start:end]
    stripped = slice_.strip()
    start += len(slice_) - len(slice_.lstrip())
    return start, start + len(stripped)


def word_occurrences(text: str, quote: str) -> list[tuple[int, int]]:
    """Ranges of `text` that hold the words of `quote` in order, whatever stands between and however they are cased.

    >>> word_occurrences("The  BUYER'S order.", "the buyer's Order")
    [(0, 18)]
    """
    words = _WORD.findall(quote)
    if not words:
        return []
    pattern = r"(?<![^\W_])" + r"[\W_]+".join(map(re.escape, words)) + r"(?![^\W_])"
    return [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)]


def span_row(
    query_id: str, part: int, document: tuple[str, str], place: tuple[int, int], text: str, *, grade: int, origin: str
) -> tuple[object, ...]:
    """A row of `SPAN_SCHEMA`; `document` is id and version, `place` the range in its text."""
    return (query_id, part, *document, *place, text[place[0] : place[1]], grade, origin)


def share_with_duplicates(
    spans: pl.DataFrame,
    scoped: Iterable[str],
    texts: Mapping[tuple[str, str], str],
    pairs: pl.DataFrame,
) -> pl.DataFrame:
    """`spans` and, for each, the places that hold the same words in a document that is or holds its duplicate.

    `pairs` is a dedup report's (`corpus.dedup.PAIR_SCHEMA`); those with containment 1.0 count, in both directions.
    `scoped` are the queries that are limited to one document: nothing is added to them. The added spans are
    alternatives of the same part, with origin `duplicate`.
    """
    partners: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for row in pairs.filter(pl.col("containment") >= 1.0).iter_rows(named=True):
        one, two = ((row[f"{side}_id"], row[f"{side}_version"]) for side in ("contained", "container"))
        partners.setdefault(one, set()).add(two)
        partners.setdefault(two, set()).add(one)
    limited = set(scoped)
    present = {(r[0], r[1], r[2], r[3], r[4], r[5]) for r in spans.select(SPAN_SCHEMA.names()).iter_rows()}
    added: list[tuple[object, ...]] = []
    found: dict[tuple[tuple[str, str], str], list[tuple[int, int]]] = {}
    for span in spans.iter_rows(named=True):
        if span["query_id"] in limited:
            continue
        for document in sorted(partners.get((span["document_id"], span["document_version"]), ())):
            text = texts.get(document)
            if text is None:
                continue
            key = (document, span["quote"])
            if key not in found:
                found[key] = word_occurrences(text, span["quote"])
            for place in found[key]:
                identity = (span["query_id"], span["part"], *document, *place)
                if identity not in present:
                    present.add(identity)
                    added.append(
                        span_row(
                            span["query_id"],
                            span["part"],
                            document,
                            place,
                            text,
                            grade=span["grade"],
                            origin="duplicate",
                        )
                    )
    more = pl.DataFrame(added, schema=SPAN_SCHEMA, orient="row")
    return pl.concat([spans.select(SPAN_SCHEMA.names()), more])
