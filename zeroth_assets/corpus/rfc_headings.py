"""Headings of an RFC: numbered, lettered and unnumbered, from 1981 to now.

What belongs here: which lines are headings and at which level. Ranges are made elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from zeroth_assets.corpus.model import SectionKind
from zeroth_assets.corpus.numbering import Candidate, Key, best_chain
from zeroth_assets.corpus.rfc_contents import LONG_LINE, NUMBER, Contents, Entry, find_contents, number_key, plain

_GAP_PENALTY = 4.0
_PROMISED = 10.0
_WELL_KNOWN = re.compile(
    r"^(?:abstract|status of th(?:is|e) (?:memo|document)|(?:full )?copyright (?:notice|statement|and license notice)"
    r"|copyright|table of contents|contents|foreword|preface|introduction|overview|summary|motivation|dedication"
    r"|acknowledge?ments?|contributors?|contact information|keywords|notes?|appendix|appendices|bibliography|glossary"
    r"|(?:(?:principal|main|primary|working group) )?(?:authors?|editors?|chairs?|author/editor)'?s?'?"
    r"(?: and (?:authors?|editors?|chairs?)'?s?'?)? (?:address(?:es)?|information|contact(?: information)?)"
    r"|(?:normative |informative |non-normative )?references|index|security considerations?|iana considerations?"
    r"|intellectual property(?: \w+)*|disclaimer(?: of validity)?|iesg note|iab note|rfc editor note|notices?"
    r"|expiration date|list of (?:figures|tables)|change ?log|revision history|trademarks?(?: notice)?"
    r"|conventions used in this document|working group information|requirements language|discussion venue)\s*[:.]?$",
    re.IGNORECASE,
)
_BACK = re.compile(
    r"author|editor'|address|references$|bibliography|copyright|intellectual|acknowledg|index|contributors|glossary",
    re.IGNORECASE,
)
_FRONT = re.compile(r"abstract|status of|copyright|table of|contents", re.IGNORECASE)
_TITLE = re.compile(r"^[\"'(<\[{A-Za-z_*/:+.-][^\t]{0,110}$")
_APPENDIX_ALONE = re.compile(r"^\s{0,8}(?:appendix|annex)\s+(?P<number>[A-Z])[.:]?$", re.IGNORECASE)
_WIDE_GAP = re.compile(r"\s{4,}")
_TITLE_WORDS = re.compile(
    r"^(?:[A-Z0-9\"'(][\w\"'()/&,.-]*|and|or|of|the|for|to|in|on|a|an|with|by|from|vs\.?|as|at|via|&|-)$"
)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading on lines `[line, end_line)`."""

    line: int
    end_line: int
    number: str
    title: str
    level: int
    kind: SectionKind


@dataclass(frozen=True, slots=True)
class _Numbered:
    line: int
    number: str
    key: Key
    lettered: bool
    title: str
    weight: float


def find_headings(lines: Sequence[str]) -> tuple[list[Heading], list[Contents]]:
    """All headings in document order, and the contents tables, which hold none."""
    tables = find_contents(lines)
    entries = [entry for table in tables for entry in table.entries]
    inside = {index for table in tables for index in range(table.start, table.end)}
    numbered = _numbered(lines, entries, inside)
    promised = [entry for entry in entries if entry.key]
    if len(promised) >= 5 and len(numbered) < 0.3 * len(promised):
        numbered = _promised_without_numbers(lines, promised, inside)
    taken = {h.line for h in numbered} | inside
    starts = {table.start for table in tables}
    unnumbered = _unnumbered(lines, entries, taken - starts, starts, sparse=len(numbered) < 2, flush=_flush_left(lines))
    return _with_levels(numbered, unnumbered), tables


def _flush_left(lines: Sequence[str]) -> bool:
    """Whether running text stands at the left edge, so that standing there says nothing about a line."""
    filled = [line for line in lines if len(line) > 50]
    return sum(not line[0].isspace() for line in filled) > 0.25 * max(1, len(filled))


def _margin(lines: Sequence[str]) -> int:
    """The indent that the whole document has, which RFC 822 does: all but a few lines are at least that deep."""
    indents = sorted(len(line) - len(line.lstrip()) for line in lines if line)
    return indents[len(indents) // 50] if indents else 0


def _blank(lines: Sequence[str], index: int) -> bool:
    return not 0 <= index < len(lines) or not lines[index].strip()


def _numbered(lines: Sequence[str], entries: Sequence[Entry], inside: set[int]) -> list[Heading]:
    promised: dict[tuple[Key, bool], list[str]] = {}
    for entry in entries:
        if entry.key:
            promised.setdefault((entry.key, entry.appendix), []).append(plain(entry.title))
    found: list[_Numbered] = []
    margin = _margin(lines)
    for index, line in enumerate(lines):
        if index in inside or not line or len(line) > LONG_LINE:
            continue
        match = NUMBER.match(line)
        if match is None:
            if (alone := _APPENDIX_ALONE.match(line)) is not None and _blank(lines, index - 1):
                key, _ = number_key(alone["number"])
                found.append(_Numbered(index, alone["number"], key, True, "", 4.0))
            continue
        candidate = _weigh(lines, index, match, promised, margin)
        set_off = _blank(lines, index - 1) or (bool(found) and found[-1].line == index - 1)
        if candidate is not None and (set_off or candidate.weight >= _PROMISED):
            found.append(candidate)
    headings: list[Heading] = []
    for lettered in (False, True):
        group = [c for c in found if c.lettered is lettered]
        chain = best_chain([Candidate(c.key, c.weight) for c in group], gap_penalty=_GAP_PENALTY)
        kind: SectionKind = "appendix" if lettered else "section"
        headings.extend(_heading(lines, group[i], kind) for i in chain)
    return sorted(headings, key=lambda h: h.line)


def _weigh(
    lines: Sequence[str],
    index: int,
    match: re.Match[str],
    promised: dict[tuple[Key, bool], list[str]],
    margin: int,
) -> _Numbered | None:
    word = (match["word"] or "").lower()
    number = match["number"]
    if not word and number[0].islower():
        return None
    key, lettered = number_key(number)
    lettered = lettered or word in ("appendix", "annex")
    title = match["title"].strip()
    again = NUMBER.match(title)
    if again is not None and again["word"] and again["number"].upper() == number.upper():
        title, word = again["title"], again["word"].lower()
    title = _WIDE_GAP.split(title)[0]
    indent = max(0, len(match["indent"]) - margin)
    alone = _blank(lines, index + 1)
    weight = _promise(plain(title), promised.get((key, lettered), ()))
    if weight == 0.0 and (key, lettered) in promised and alone and len(key) > 1 and _TITLE.match(title):
        weight = 3.0
    if weight == 0.0:
        sentence = title.endswith((",", ";")) or (title.endswith(".") and len(title.split()) > 6)
        if not _TITLE.match(title) or match["stop"] == ")" or (again is None and title != match["title"].strip()):
            return None
        if (lettered and not word and promised and len(key) == 1) or any(
            part.isalpha() for part in number.split(".")[1:]
        ):
            return None
        dotted = bool(match["stop"]) or len(key) > 1 or bool(word)
        if sentence or (indent > 0 and (indent < 15 or not title.isupper())) or (not dotted and not alone):
            return None
        if lettered and not word and len(key) == 1 and not alone:
            return None
        weight = 1.0 + alone + 0.5 * _title_case(title) + 2.0 * (lettered and bool(word))
        if not alone and not (len(title) < 60 and _title_case(title)):
            weight = 0.3
        if lettered and not word and len(key) == 1:
            weight = 0.4
    return _Numbered(index, number, key, lettered, title, weight)


def _promise(title: str, promised: Sequence[str]) -> float:
    """How well the contents vouch for a heading: in full, by a title that one of the two cuts short, or not."""
    best = 0.0
    for other in promised:
        if title == other:
            return _PROMISED
        shorter = min(len(title), len(other))
        if shorter >= 4 and title[:shorter] == other[:shorter]:
            best = max(best, _PROMISED - 1)
        elif shorter >= 8 and title[:8] == other[:8]:
            best = max(best, _PROMISED / 2)
    return best


def _title_case(title: str) -> bool:
    words = title.split()
    return title.isupper() or (bool(words) and sum(bool(_TITLE_WORDS.match(w)) for w in words) >= 0.8 * len(words))


def _heading(lines: Sequence[str], found: _Numbered, kind: SectionKind) -> Heading:
    line = lines[found.line]
    if not found.title:
        return _appendix_alone(lines, found, kind)
    column = len(line) - len(found.title) if line.endswith(found.title) else -1
    title, end = found.title, found.line + 1
    # A long title goes on below its own first word.
    while column > 0 and not _blank(lines, end) and _blank(lines, end + 1) is (end == found.line + 1):
        text = lines[end]
        if len(text) - len(text.lstrip()) not in (column, column - 1) or len(line) + len(text.split()[0]) < 66:
            break
        title, end = f"{title} {text.strip()}", end + 1
    return Heading(found.line, end, found.number, title, len(found.key), kind)


def _appendix_alone(lines: Sequence[str], found: _Numbered, kind: SectionKind) -> Heading:
    """ "APPENDIX A" on a line of its own has its title on the next line that is not blank, if that stands alone."""
    below = next((i for i in range(found.line + 1, min(found.line + 4, len(lines))) if not _blank(lines, i)), None)
    if below is None or not _blank(lines, below + 1) or len(lines[below].strip()) > 60:
        return Heading(found.line, found.line + 1, found.number, "Appendix", len(found.key), kind)
    return Heading(found.line, below + 1, found.number, lines[below].strip(), len(found.key), kind)


def _promised_without_numbers(lines: Sequence[str], promised: Sequence[Entry], inside: set[int]) -> list[Heading]:
    """Headings of a body that prints the titles of its contents but not their numbers (RFC 1305)."""
    places: dict[str, list[int]] = {}
    promised = sorted(promised, key=lambda entry: (entry.appendix, entry.key))
    for position, entry in enumerate(promised):
        places.setdefault(plain(entry.title), []).append(position)
        places.setdefault(plain(f"Appendix {entry.number} {entry.title}"), []).append(position)
    found = [
        (index, position)
        for index, line in enumerate(lines)
        if index not in inside and line and len(line) < 80
        for position in reversed(places.get(plain(line), []))
    ]
    chain = best_chain([Candidate((position,), 1.0) for _, position in found], gap_penalty=0.0)
    headings = []
    for index, position in (found[i] for i in chain):
        entry = promised[position]
        kind: SectionKind = "appendix" if entry.appendix else "section"
        headings.append(Heading(index, index + 1, entry.number, entry.title, len(entry.key), kind))
    return headings


def _unnumbered(
    lines: Sequence[str], entries: Sequence[Entry], taken: set[int], tables: set[int], *, sparse: bool, flush: bool
) -> list[tuple[int, str]]:
    promised = {plain(entry.title) for entry in entries if not entry.key}
    found: list[tuple[int, str]] = []
    for index, line in enumerate(lines):
        title = line.strip()
        if not title or index in taken or len(title) > 72:
            continue
        if not _blank(lines, index - 1) and index not in tables:
            continue
        indent = len(line) - len(line.lstrip())
        alone = _blank(lines, index + 1)
        in_contents = plain(title) in promised and len(plain(title)) > 2 and (indent <= 5 or indent >= 15)
        well_known = _WELL_KNOWN.match(title) and (indent == 0 or (indent >= 15 and alone))
        by_its_looks = sparse and not flush and indent == 0 and alone and _plain_title(title) and index > 8
        if in_contents or well_known or by_its_looks:
            found.append((index, title))
    return found


def _plain_title(title: str) -> bool:
    """Words in title case and nothing else: what a heading without a number looks like, and code does not."""
    return bool(re.match(r"^[A-Z][A-Za-z0-9 ,'&/()-]{2,60}:?$", title)) and _title_case(title.rstrip(":"))


def _with_levels(numbered: list[Heading], unnumbered: list[tuple[int, str]]) -> list[Heading]:
    """Merge both sorts. An unnumbered heading between two numbered ones of one chapter belongs inside it."""
    body = [h for h in numbered if h.kind == "section"]
    first = numbered[0].line if numbered else -1
    merged = list(numbered)
    for index, title in unnumbered:
        before = [h for h in body if h.line < index]
        after = [h for h in body if h.line > index]
        level = 1
        kind: SectionKind = "section"
        if index < first or (not numbered and _FRONT.match(title)):
            kind = "front"
        elif before and after and after[0].level > 1 and not _BACK.search(title):
            level = max(2, min(after[0].level, before[-1].level + 1))
        merged.append(Heading(index, index + 1, "", title.rstrip(":"), level, kind))
    return sorted(merged, key=lambda h: h.line)
