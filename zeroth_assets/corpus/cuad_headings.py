"""Headings of a contract: articles, numbered clauses, exhibits, signature blocks.

What belongs here: which offsets of the text open a section. Numbers are believed when they count: each scope (the
agreement, then each exhibit) keeps its heaviest chain of articles and of clauses.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from zeroth_assets.corpus.model import SectionKind
from zeroth_assets.corpus.numbering import Candidate, Key, best_chain, roman_value
from zeroth_assets.corpus.text import iter_lines

PlacedHeading = tuple[int, str, str, int, SectionKind]

_GAP_PENALTY = 2.5
_WORDS = [
    "ONE",
    "TWO",
    "THREE",
    "FOUR",
    "FIVE",
    "SIX",
    "SEVEN",
    "EIGHT",
    "NINE",
    "TEN",
    "ELEVEN",
    "TWELVE",
    "THIRTEEN",
    "FOURTEEN",
    "FIFTEEN",
    "SIXTEEN",
]
_ARTICLE = re.compile(
    r"^\s*(?:ARTICLE|Article)\s+(?P<number>[IVXLC]+|\d{1,2}|[A-Z]{3,9})\b\s*[.:—–-]*\s*(?P<title>.*)$"
)
_CLAUSE = re.compile(
    r"^\s*(?P<word>(?:SECTION|Section|CLAUSE|Clause|§)\s*)?(?P<number>\d{1,2}(?:\.\d{1,3}){0,4})(?P<stop>[.:]?)(?:\s+|(?<=\.)(?=[A-Z]))"
    r"(?P<title>[\"“'‘(\[A-Za-z*_].*)$"
)
_ROMAN_CLAUSE = re.compile(r"^\s*(?P<number>[IVX]{1,6})\.\s+(?P<title>[A-Z].*)$")
_EXHIBIT = re.compile(
    r"^\s*(?P<word>EXHIBIT|SCHEDULE|ANNEX|APPENDIX|ATTACHMENT|ADDENDUM|Exhibit|Schedule|Annex|Appendix|Attachment)"
    r"\s+[\"“'‘]?(?P<number>[A-Z]{1,2}(?:-?\d{1,2})?|\d{1,2}(?:[.-]\d{1,2})?(?:[A-Z]|\([A-Za-z]\))?|[IVX]+)[\"”'’]?(?P<rest>(?:[\s.:,;—–(-].*)?)$"
)
_WITNESS = re.compile(
    r"(?:^|(?<=[.;:]\s)|(?<=[.;:]\s\s)|(?<=\n))[ \t]*(?P<title>IN\s+WITNESS\s+(?:WHEREOF|HEREOF|THEREOF))", re.MULTILINE
)
_SIGNATURE = re.compile(
    r"^[ \t]*(?P<title>(?:AGREED\s+(?:AND|&)\s+ACCEPTED|ACCEPTED\s+(?:AND|&)\s+AGREED|SIGNATURE\s+PAGE"
    r"|\[?SIGNATURES?(?: PAGE)? FOLLOWS?"
    r"|SIGNATURES|Signature Page)\b)",
    re.MULTILINE,
)
_CONTENTS = re.compile(r"\b(?:TABLE OF CONTENTS|Table of Contents)\b|^\s*(?:CONTENTS|INDEX)\s*$")
_PAGE_AT_END = re.compile(r"(?:\.{3,}|\s{2,}|\s)\d{1,3}\s*$")
_FIRST_SENTENCE = re.compile(r"^(.{2,110}?)(?:[.:](?:\s|$)|\s{3,}|\s+[–—-]\s+|$)")
_SMALL_WORDS = frozenset(
    [
        "and",
        "or",
        "of",
        "the",
        "for",
        "to",
        "in",
        "on",
        "a",
        "an",
        "with",
        "by",
        "from",
        "as",
        "at",
        "upon",
        "under",
        "no",
        "not",
        "its",
        "&",
        "/",
    ]
)


@dataclass(frozen=True, slots=True)
class _Found:
    start: int
    scheme: Literal["article", "clause", "roman"]
    number: str
    key: Key
    title: str
    weight: float


def find_headings(text: str) -> list[PlacedHeading]:
    """Openings of sections as (start, number, title, level, kind), in document order."""
    lines = list(iter_lines(text))
    found = [f for index in range(len(lines)) if (f := _numbered(lines, index)) is not None]
    found = _without_contents(lines, found)
    exhibits = _exhibits(lines)
    bounds = [0, *(start for start, _, _ in exhibits), len(text)]
    headings: list[PlacedHeading] = [(start, number, title, 1, "exhibit") for start, number, title in exhibits]
    for scope, (begin, end) in enumerate(itertools.pairwise(bounds)):
        inside = [f for f in found if begin <= f.start < end]
        headings.extend(_scope(inside, depth=min(scope, 1)))
        headings.extend(_signatures(text, begin, end, depth=min(scope, 1)))
    if not any(kind in ("clause", "article") for *_, kind in headings):
        headings.extend(_unnumbered(lines, {h[0] for h in headings}))
    return _in_order(headings)


def _in_order(headings: list[PlacedHeading]) -> list[PlacedHeading]:
    """By position, one heading to an offset."""
    unique = {heading[0]: heading for heading in sorted(headings, key=lambda h: -h[3])}
    return [unique[start] for start in sorted(unique)]


def _numbered(lines: Sequence[tuple[int, str]], index: int) -> _Found | None:
    start, line = lines[index]
    stripped = start + len(line) - len(line.lstrip())
    if (match := _ARTICLE.match(line)) is not None:
        number = match["number"]
        value = int(number) if number.isdigit() else roman_value(number)
        if value is None and number in _WORDS:
            value = _WORDS.index(number) + 1
        title = match["title"].strip()
        if value is None or title[:1].islower() or title[:1] in {",", ")", ";"}:
            return None
        return _Found(
            stripped,
            "article",
            match[0].split()[0] + " " + number,
            (value,),
            _title(title) or _below(lines, index),
            3.0,
        )
    if (match := _CLAUSE.match(line)) is not None:
        key = tuple(int(part) for part in match["number"].split("."))
        if len(key) == 1 and not (match["stop"] or match["word"]):
            return None
        if len(key) == 2 and key[1] == 0:
            key = key[:1]
        if match["word"] and match["title"][:1].islower():
            return None
        title = _title(match["title"])
        weight = 0.2 if match["title"][:1].islower() else 1.0 + 0.7 * bool(title) + 0.5 * bool(match["word"])
        if _PAGE_AT_END.search(line) and len(line) < 100:
            weight = 0.1
        return _Found(stripped, "clause", match["number"], key, title, weight)
    if (match := _ROMAN_CLAUSE.match(line)) is not None:
        value = roman_value(match["number"])
        title = _title(match["title"])
        if value is not None and title:
            return _Found(stripped, "roman", match["number"], (value,), title, 1.0 + title.isupper())
    return None


def _title(text: str) -> str:
    """The heading that opens a clause, or "" where running text begins at once."""
    match = _FIRST_SENTENCE.match(text.strip())
    if match is None:
        return ""
    title = match[1].strip().strip("_").strip()
    words = [word for word in re.split(r"[\s/]+", title.strip('[]"“”')) if word]
    if not words or len(words) > 14:
        return ""
    large = sum(word[0].isupper() or not word[0].isalpha() or word.lower() in _SMALL_WORDS for word in words)
    whole = len(title) >= len(text.strip().rstrip(".:")) and len(words) <= 10
    fits = (
        large >= 0.75 * len(words) or (whole and words[0][0].isupper()) or (len(words) <= 6 and words[0][0].isupper())
    )
    return title if fits and any(c.isalpha() for c in title) else ""


def _below(lines: Sequence[tuple[int, str]], index: int) -> str:
    """The title of an article that stands on the line after its number."""
    for _, line in lines[index + 1 : index + 4]:
        if line.strip():
            text = line.strip()
            return text if len(text) <= 80 and not _CLAUSE.match(line) and not text.endswith((".", ";", ",")) else ""
    return ""


def _without_contents(lines: Sequence[tuple[int, str]], found: list[_Found]) -> list[_Found]:
    """Drop what stands between "TABLE OF CONTENTS" and the place where its first entry comes again."""
    for start, line in lines:
        if not _CONTENTS.search(line):
            continue
        after = [f for f in found if f.start >= start]
        for first in after[:3]:
            again = [
                f.start for f in after if f.key == first.key and f.scheme == first.scheme and f.start > first.start
            ]
            if again and len([f for f in after if f.start < again[0]]) >= 3:
                return [f for f in found if not start <= f.start < again[0]]
    return found


def _exhibits(lines: Sequence[tuple[int, str]]) -> list[tuple[int, str, str]]:
    """Exhibits, schedules and annexes by their own headings: not the filing's label, a mention, or a list of them."""
    candidates: list[tuple[int, str, str, int]] = []
    for index, (start, line) in enumerate(lines):
        match = _EXHIBIT.match(line)
        if match is None or not _heads(match, line):
            continue
        indent = len(line) - len(line.lstrip())
        rest = match["rest"].strip(" .:—–-")
        label = f"{match['word']} {match['number']}"
        candidates.append((start + indent, label, _title(rest) or (_below(lines, index) if not rest else ""), index))
    kept: list[tuple[int, str, str]] = []
    seen: set[str] = set()
    for position, (start, label, title, index) in enumerate(candidates):
        if label.upper() in seen:
            continue
        following = candidates[position + 1] if position + 1 < len(candidates) else None
        listed = following is not None and following[0] - start < 200 and following[1].upper() != label.upper()
        opening = sum(bool(line.strip()) for _, line in lines[:index]) < 3
        if listed or opening:
            continue
        seen.add(label.upper())
        kept.append((start, label, title))
    return kept


def _heads(match: re.Match[str], line: str) -> bool:
    rest = match["rest"].strip()
    if not rest:
        return True
    if rest[0] in ",;)" or (rest[:1].islower() and not rest.startswith(("to ", "to\t"))):
        return False
    if match["word"].isupper():
        return True
    return len(line.strip()) <= 90 and not rest.endswith((".", ";", ","))


def _scope(found: Sequence[_Found], *, depth: int) -> list[PlacedHeading]:
    articles = _chain([f for f in found if f.scheme == "article"])
    clauses = [f for f in found if f.scheme == "clause"]
    if not articles:
        roman = _chain([f for f in found if f.scheme == "roman"])
        articles = roman if len(roman) >= 3 else []
    chosen = _chain(clauses)
    if articles:
        bounds = [*(a.start for a in articles), float("inf")]
        each = [
            f
            for begin, end in itertools.pairwise(bounds)
            for f in _chain([c for c in clauses if begin <= c.start < end])
        ]
        if sum(f.weight for f in each) > 1.2 * sum(f.weight for f in chosen):
            chosen = each
    below = depth + bool(articles)
    headings: list[PlacedHeading] = [(a.start, a.number, a.title, depth + 1, "article") for a in articles]
    headings.extend((c.start, c.number, c.title, below + len(c.key), "clause") for c in chosen)
    return headings


def _chain(found: Sequence[_Found]) -> list[_Found]:
    kept = best_chain([Candidate(f.key, f.weight) for f in found], gap_penalty=_GAP_PENALTY)
    return [found[i] for i in kept] if len(kept) > 1 else []


def _signatures(text: str, begin: int, end: int, *, depth: int) -> list[PlacedHeading]:
    """The last signature block of a scope: an agreement is signed once, and once more in each exhibit that is one."""
    for pattern in (_WITNESS, _SIGNATURE):
        matches = list(pattern.finditer(text, begin, end))
        if matches:
            match = matches[-1]
            return [(match.start("title"), "", " ".join(match["title"].split()), depth + 1, "signature")]
    return []


def _unnumbered(lines: Sequence[tuple[int, str]], taken: set[int]) -> list[PlacedHeading]:
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
            and _title(text)
            and _in_capitals(words)
        ):
            headings.append((start + indent, "", text.rstrip(":"), 1, "clause"))
    return headings if len(headings) >= 3 else []


def _in_capitals(words: Sequence[str]) -> bool:
    return all(word[0].isupper() or word.lower() in _SMALL_WORDS for word in words) and len(words[0]) > 2
