"""Headings of a contract: articles, numbered clauses, exhibits, signature blocks.

What belongs here: which offsets of the text open a section. Numbers are believed when they count: each scope (the
agreement, then each exhibit) keeps its heaviest chain of articles and of clauses.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from zeroth_assets.corpus.cuad_numbers import SMALL_WORDS, Found, Line, clause_title, inline, numbered
from zeroth_assets.corpus.cuad_parts import exhibits, signatures
from zeroth_assets.corpus.numbering import Candidate, best_chain
from zeroth_assets.corpus.sections import PlacedHeading
from zeroth_assets.corpus.text import iter_lines

_GAP_PENALTY = 2.5
_TABLE_CHARACTERS_PER_ENTRY = 250
_SHORT_LINE = 80
_LONG_CLAUSE = 6_000
_CONTENTS = re.compile(r"\b(?:TABLE OF CONTENTS|Table of Contents)\b|^\s*(?:CONTENTS|INDEX)\s*$")
_LETTERED = re.compile(r"^\s*\((?P<letter>[a-z]|[a-z]{2})\)\s+(?P<title>\S.*)$")


def find_headings(text: str) -> list[PlacedHeading]:
    """Openings of sections as (start, number, title, level, kind), in document order."""
    lines = list(iter_lines(text))
    found = [f for index in range(len(lines)) if (f := numbered(lines, index)) is not None]
    found.extend(f for start, line in lines if len(line) > _SHORT_LINE for f in inline(start, line))
    found.sort(key=lambda f: f.start)
    found = _without_contents(lines, found)
    parts = exhibits(lines)
    bounds = [0, *(start for start, _, _ in parts), len(text)]
    headings: list[PlacedHeading] = [(start, number, title, 1, "exhibit") for start, number, title in parts]
    for scope, (begin, end) in enumerate(itertools.pairwise(bounds)):
        inside = [f for f in found if begin <= f.start < end]
        headings.extend(_scope(inside, depth=min(scope, 1)))
        headings.extend(signatures(text, begin, end, depth=min(scope, 1)))
    if not any(kind in ("clause", "article") for *_, kind in headings):
        headings.extend(_unnumbered(lines, {h[0] for h in headings}))
    headings = _in_order(headings)
    return _in_order([*headings, *_lettered(lines, headings, len(text))])


def _in_order(headings: list[PlacedHeading]) -> list[PlacedHeading]:
    """By position, one heading to an offset."""
    unique = {heading[0]: heading for heading in sorted(headings, key=lambda h: -h[3])}
    return [unique[start] for start in sorted(unique)]


def _without_contents(lines: Sequence[Line], found: list[Found]) -> list[Found]:
    """Drop what stands between "TABLE OF CONTENTS" and the place where its first entry comes again.

    Only if entries stand as close together there as in a table: a table may hold no entry that is read as one.
    """
    for start, line in lines:
        if not _CONTENTS.search(line):
            continue
        after = [f for f in found if f.start >= start]
        for first in after[:3]:
            again = [
                f.start for f in after if f.key == first.key and f.scheme == first.scheme and f.start > first.start
            ]
            listed = [f for f in after if f.start < again[0]] if again else []
            if len(listed) >= 3 and again[0] - start < _TABLE_CHARACTERS_PER_ENTRY * (len(listed) + 2):
                return [f for f in found if not start <= f.start < again[0]]
    return found


def _scope(found: Sequence[Found], *, depth: int) -> list[PlacedHeading]:
    articles = _chain([f for f in found if f.scheme == "article"])
    clauses = [f for f in found if f.scheme == "clause"]
    if not articles:
        roman = _chain([f for f in found if f.scheme == "roman"])
        articles = roman if len(roman) >= 3 else []
    readings = [_chain(clauses)]
    if articles:
        bounds = [*(article.start for article in articles), float("inf")]
        spans = list(itertools.pairwise(bounds))
        # Numbers may start again in each article, or count through it: 2.1 comes after "ARTICLE II", which is its 2.
        readings.append([f for begin, end in spans for f in _chain([c for c in clauses if begin <= c.start < end])])
        both = sorted([*articles, *(c for c in clauses if len(c.key) > 1)], key=lambda f: f.start)
        readings.append([f for f in _chain(both) if f.scheme == "clause"])
    chosen = max(readings, key=lambda reading: sum(f.weight for f in reading))
    below = depth + bool(articles)
    headings: list[PlacedHeading] = [(a.start, a.number, a.title, depth + 1, "article") for a in articles]
    headings.extend((c.start, c.number, c.title, below + len(c.key), "clause") for c in chosen)
    return headings


def _lettered(lines: Sequence[Line], headings: Sequence[PlacedHeading], length: int) -> list[PlacedHeading]:
    """(a), (b), (c)... as sections of their own where a clause is so long that it would be one chunk after another."""
    found: list[PlacedHeading] = []
    bounds = [*(h[0] for h in headings), length]
    marks = [(start, match) for start, line in lines if (match := _LETTERED.match(line)) is not None]
    for heading, (begin, end) in zip(headings, itertools.pairwise(bounds), strict=True):
        if end - begin < _LONG_CLAUSE or heading[4] == "signature":
            continue
        inside = [
            Found(
                start + match.start("letter") - 1,
                "clause",
                f"({match['letter']})",
                (_letter(match["letter"]),),
                "",
                1.0,
            )
            for start, match in marks
            if begin < start < end
        ]
        titles = {start + match.start("letter") - 1: clause_title(match["title"]) for start, match in marks}
        chosen = _chain(inside)
        if len(chosen) >= 3:
            found.extend((f.start, f.number, titles[f.start], heading[3] + 1, "clause") for f in chosen)
    return found


def _letter(letters: str) -> int:
    """Place of a letter in (a) to (z), then (aa) to (zz); other pairs, such as (ii), count as no letter."""
    place = ord(letters[0]) - 96
    if len(letters) == 1:
        return place
    return 26 + place if letters[0] == letters[1] and letters not in ("ii", "vv", "xx") else 99


def _chain(found: Sequence[Found]) -> list[Found]:
    kept = best_chain([Candidate(f.key, f.weight) for f in found], gap_penalty=_GAP_PENALTY)
    return [found[i] for i in kept] if len(kept) > 1 else []


def _unnumbered(lines: Sequence[Line], taken: set[int]) -> list[PlacedHeading]:
    """Headings of a contract that numbers nothing: short lines in capitals or title case, set off by blank lines."""
    headings: list[PlacedHeading] = []
    for index, (start, line) in enumerate(lines):
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        set_off = (index == 0 or not lines[index - 1][1].strip()) and (
            index + 1 == len(lines) or not lines[index + 1][1].strip()
        )
        if not 4 <= len(text) <= 70 or not set_off or start + indent in taken or index < 3:
            continue
        words = text.rstrip(":").split()
        if (
            re.fullmatch(r"[A-Za-z][A-Za-z ,'’&/()-]+:?", text)
            and len(words) <= 9
            and clause_title(text)
            and _in_capitals(words)
        ):
            headings.append((start + indent, "", text.rstrip(":"), 1, "clause"))
    return headings if len(headings) >= 3 else []


def _in_capitals(words: Sequence[str]) -> bool:
    return (
        words[0][0].isupper()
        and all(word[0].isupper() or word.lower() in SMALL_WORDS for word in words)
        and len(words[0]) > 2
    )
