"""Numbered lines of a contract: what number a line opens with, what its title is, and how far to believe it.

What belongs here: reading one line. Which of the lines found are headings is decided in `cuad_headings`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from zeroth_assets.corpus.numbering import Key, roman_value

Line = tuple[int, str]

_WORDS = [
    *("ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE", "TEN", "ELEVEN", "TWELVE", "THIRTEEN"),
    *("FOURTEEN", "FIFTEEN", "SIXTEEN"),
]
_ARTICLE = re.compile(
    r"^\s*(?:ARTICLE|Article)\s+(?P<number>[IVXLC]+|\d{1,2}|[A-Z]{3,9})\b\s*[.:—–-]*\s*(?P<title>.*)$"
)
CLAUSE = re.compile(
    r"^\s*(?P<word>(?:SECTION|Section|CLAUSE|Clause|§)\s*)?(?P<number>\d{1,2}(?:\.\d{1,3}){0,4})(?P<stop>[.:]?)(?:\s+|(?<=\.)(?=[A-Z]))"
    r"(?P<title>[\"“'‘(\[A-Za-z*_].*)$"
)
# Many contracts of the collection lost their line breaks: the next clause opens after the full stop of the last.
_INLINE = re.compile(
    r"(?P<before>[.;:)\]”\"'_][ \t]+|(?<![ \t])[ \t]{2,}|(?<![A-Z.,\d])[A-Z][A-Z.,\d]*[ \t]+)"
    r"(?P<head>(?P<word>(?:SECTION|Section)[ \t]+)?"
    r"(?P<number>\d{1,2}(?:\.\d{1,2}){0,3})(?P<stop>\.?)[ \t]+(?P<title>[A-Z\"“\[(][^\n]{0,130}))"
)
_INLINE_ARTICLE = re.compile(
    r"[.;:)\]”\"_\d][ \t]+(?P<head>ARTICLE[ \t]+(?P<number>[IVXLC]+|\d{1,2})\b"
    r"[ \t]*[.:—–-]*[ \t]*(?P<title>[A-Z][^\n]{0,100}))"
)
_REFERENCE_BEFORE = re.compile(
    r"(?:Sections?|SECTIONS?|Articles?|ARTICLES?|Clauses?|Paragraphs?|and|or|to|No\.|Rule|Form)[ \t]*$"
)
_ROMAN_CLAUSE = re.compile(r"^\s*(?P<number>[IVX]{1,6})\.\s+(?P<title>[A-Z].*)$")
_PAGE_AT_END = re.compile(r"(?:\.{3,}|\s{2,}|\s)\d{1,3}\s*$")
_LEADER = re.compile(r"\.{5,}\s*\d{0,3}\s*$|(?:\s\.){5,}")
_FIRST_SENTENCE = re.compile(r"^(.{2,110}?)(?:[.:](?:\s|$)|\s{3,}|\s+[–—-]\s+|$)")
_NEXT_CLAUSE = re.compile(r"\s\d{1,2}\.\d|\s\(\w{1,2}\)\s")
SMALL_WORDS = frozenset(
    {
        *("and", "or", "of", "the", "for", "to", "in", "on", "a", "an", "with", "by", "from", "as", "at", "upon"),
        *("under", "no", "not", "its", "&", "/"),
    }
)


@dataclass(frozen=True, slots=True)
class Found:
    """A numbered line, or a number inside one, at offset `start`. `weight` is how much it looks like a heading."""

    start: int
    scheme: Literal["article", "clause", "roman"]
    number: str
    key: Key
    title: str
    weight: float


def numbered(lines: Sequence[Line], index: int) -> Found | None:
    """The number that a line opens with, or None."""
    start, line = lines[index]
    if _LEADER.search(line[-200:]):
        return None
    if _LEADER.search(line):
        return None
    stripped = start + len(line) - len(line.lstrip())
    if (match := _ARTICLE.match(line)) is not None:
        number = match["number"]
        value = int(number) if number.isdigit() else roman_value(number)
        if value is None and number in _WORDS:
            value = _WORDS.index(number) + 1
        title = match["title"].strip()
        if value is None or title[:1].islower() or title[:1] in {",", ")", ";"}:
            return None
        return Found(
            stripped,
            "article",
            match[0].split()[0] + " " + number,
            (value,),
            clause_title(title) or title_below(lines, index),
            0.3 if _PAGE_AT_END.search(line[-100:]) else 3.0,
        )
    if (match := CLAUSE.match(line)) is not None:
        key = tuple(int(part) for part in match["number"].split("."))
        if len(key) == 1 and not (match["stop"] or match["word"]):
            return None
        if len(key) == 2 and key[1] == 0:
            key = key[:1]
        if match["word"] and match["title"][:1].islower():
            return None
        title = clause_title(match["title"])
        weight = 0.2 if match["title"][:1].islower() else 1.0 + 0.7 * bool(title) + 0.5 * bool(match["word"])
        if len(line) < 100 and _PAGE_AT_END.search(line):
            weight = 0.1
        return Found(stripped, "clause", match["number"], key, title, weight)
    if (match := _ROMAN_CLAUSE.match(line)) is not None:
        value = roman_value(match["number"])
        title = clause_title(match["title"])
        if value is not None and title:
            return Found(stripped, "roman", match["number"], (value,), title, 1.0 + title.isupper())
    return None


def inline(start: int, line: str) -> list[Found]:
    """Clauses that open inside a line, believed less than those that open one."""
    found: list[Found] = []
    position = 0
    while (match := _INLINE.search(line, position)) is not None:
        position = match.end("before") + 1
        before = line[: match.start("before") + (match["before"][0] in ".;:)")]
        key = tuple(int(part) for part in match["number"].split("."))
        plain_word = match["before"][0].isupper()
        if (len(key) == 1 and not (match["stop"] or match["word"])) or _REFERENCE_BEFORE.search(before):
            continue
        if plain_word and (not match["before"].strip().isupper() or len(match["before"].strip()) < 3):
            continue
        title = clause_title(match["title"])
        weight = 0.3 if plain_word else 0.5 + 0.4 * bool(title)
        if len(key) == 1 and not title:
            weight = 0.1
        key = key[:1] if len(key) == 2 and key[1] == 0 else key
        found.append(Found(start + match.start("head"), "clause", match["number"], key, title, weight))
    for match in _INLINE_ARTICLE.finditer(line):
        value = int(match["number"]) if match["number"].isdigit() else roman_value(match["number"])
        if value is not None:
            number = f"ARTICLE {match['number']}"
            found.append(
                Found(start + match.start("head"), "article", number, (value,), clause_title(match["title"]), 1.0)
            )
    return found


def clause_title(text: str) -> str:
    """The heading that opens a clause, or "" where running text begins at once."""
    text = _NEXT_CLAUSE.split(text)[0]
    match = _FIRST_SENTENCE.match(text.strip())
    if match is None:
        return ""
    title = match[1].strip().strip("_").strip()
    words = [word for word in re.split(r"[\s/]+", title.strip('[]"“”')) if word]
    if not words or len(words) > 14:
        return ""
    large = sum(word[0].isupper() or not word[0].isalpha() or word.lower() in SMALL_WORDS for word in words)
    whole = len(title) >= len(text.strip().rstrip(".:")) and len(words) <= 10
    fits = (
        large >= 0.75 * len(words) or (whole and words[0][0].isupper()) or (len(words) <= 6 and words[0][0].isupper())
    )
    return title if fits and any(c.isalpha() for c in title) else ""


def title_below(lines: Sequence[Line], index: int) -> str:
    """The title of an article that stands on the line after its number."""
    for _, line in lines[index + 1 : index + 4]:
        if line.strip():
            text = line.strip()
            return text if len(text) <= 80 and not CLAUSE.match(line) and not text.endswith((".", ";", ",")) else ""
    return ""
