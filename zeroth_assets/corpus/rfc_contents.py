"""The contents table of an RFC: where it stands, and which headings it promises.

What belongs here: finding the table's lines, so that none of them is taken for a section, and reading its entries,
which are the best witness for the headings of the body.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from zeroth_assets.corpus.numbering import Key

CONTENTS_HEADING = re.compile(r"^\s*(?:\d+\.?\s+)?(?:table of contents|contents)\s*:?$", re.IGNORECASE)
NUMBER = re.compile(
    r"^(?P<indent>\s*)(?:(?P<word>appendix|annex|section|chapter)\s+)?"
    r"(?P<number>(?:\d{1,2}|[A-Z])(?:\.(?:\d{1,3}|[A-Z]))*)(?P<stop>[.:)]?)(?:\s*[-:]{1,2}(?=\s))?(?:\s+|(?<=\.)(?=[A-Z][A-Za-z]{2}))(?P<title>\S.*)$",
    re.IGNORECASE,
)
_PAGE = re.compile(r"(?:[\s.]*\.[\s.]+|\s{2,}|\t+)(?:\d{1,3}|[ivxl]+)$")
_LEADER = re.compile(r"(?:\s*\.){3,}\s*(?:\d{1,3}|[ivxl]+)?$")
LONG_LINE = 200
_LAST_NUMBER = re.compile(r"\s\d{1,3}$")
_PAGE_ALONE = re.compile(r"^\s*\d{1,3}$")
_NOT_WORD = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the contents: number as a key (empty if it prints none), letters first for an appendix."""

    key: Key
    number: str
    appendix: bool
    title: str


@dataclass(frozen=True, slots=True)
class Contents:
    """Line range `[start, end)` of the table, its heading included, and its entries in order."""

    start: int
    end: int
    entries: tuple[Entry, ...]


def plain(title: str) -> str:
    """A title as letters and digits alone, to compare what is printed in two places."""
    return _NOT_WORD.sub("", title.lower())


def number_key(number: str) -> tuple[Key, bool]:
    """Key of a printed number, and whether it is lettered.

    "4.1" is ((4, 1), False), "B.2" is ((2, 2), True); "2.0" counts as "2".
    """
    parts = [part for part in number.upper().split(".") if part]
    lettered = parts[0].isalpha()
    if len(parts) == 2 and parts[1] == "0":
        parts = parts[:1]
    return tuple(int(part) if part.isdigit() else ord(part) - 64 for part in parts), lettered


def find_contents(lines: Sequence[str]) -> list[Contents]:
    """Every contents table of the document. Most have one; some add lists of figures, which are none."""
    found: list[Contents] = []
    index = 0
    while index < len(lines):
        match = CONTENTS_HEADING.match(lines[index]) if len(lines[index]) < 80 else None
        if match and (index == 0 or not lines[index - 1] or "table" in match[0].lower()):
            table = _read(lines, index)
            if len(table.entries) >= 2:
                found.append(table)
                index = table.end
                continue
        index += 1
    return found


def _read(lines: Sequence[str], start: int) -> Contents:
    entries: list[Entry] = []
    indents: list[int] = []
    seen: set[str] = set()
    end = start + 1
    open_entry = False
    paged = 0
    for index in range(start + 1, len(lines)):
        line = lines[index]
        if len(line) > LONG_LINE:
            break
        if not line.strip():
            open_entry = False
            continue
        indent = len(line) - len(line.lstrip())
        if entries and _PAGE_ALONE.match(line):
            end = index + 1
            continue
        bare, has_page = _without_page(line, expect_page=paged > 0)
        match = NUMBER.match(bare)
        identity = plain(bare)
        repeats = identity in seen and not (has_page and paged)
        lowest = min(indents, default=0)
        if repeats or (indents and indent < lowest and not has_page):
            break
        if has_page or (match is not None and (not paged or not open_entry)):
            if paged > 3 and not has_page and not _page_follows(lines, index):
                break
            entries.append(_entry(match, bare))
            indents.append(indent)
            seen.add(identity)
            paged += has_page
            open_entry = not has_page
        elif open_entry and indent > lowest:
            previous = entries[-1]
            entries[-1] = Entry(previous.key, previous.number, previous.appendix, f"{previous.title} {bare.strip()}")
            open_entry = not has_page
        elif indents and not paged and indent >= lowest > 0 and len(line.strip()) < 60:
            entries.append(_entry(None, bare))
            seen.add(identity)
        elif paged and _page_follows(lines, index):
            entries.append(_entry(match, bare))
            open_entry = True
        elif not (paged and match is None and _opens_group(lines, index)):
            break
        end = index + 1
    return Contents(start, end, tuple(entries))


def _without_page(line: str, *, expect_page: bool) -> tuple[str, bool]:
    """An entry without its leader and page number, and whether it had them."""
    for pattern in (_LEADER, _PAGE):
        bare = pattern.sub("", line)
        if bare != line:
            return bare.rstrip(" ."), True
    if expect_page and NUMBER.match(line) and _LAST_NUMBER.search(line):
        return _LAST_NUMBER.sub("", line).rstrip(" ."), True
    return line.rstrip(" ."), False


def _page_follows(lines: Sequence[str], index: int) -> bool:
    """Whether the entry that opens here is wrapped and has its page number on one of the next lines."""
    wrapped = True
    for line in lines[index + 1 : index + 4]:
        if len(line) > LONG_LINE:
            return False
        if _PAGE_ALONE.match(line):
            return True
        wrapped = wrapped and bool(line.strip())
        if wrapped and (_PAGE.search(line) or _LEADER.search(line)):
            return True
    return False


def _opens_group(lines: Sequence[str], index: int) -> bool:
    """Whether a line without a page number heads more entries, as "APPENDIX" does over A, B and C."""
    rest = [line for line in lines[index + 1 : index + 4] if line.strip()]
    return len(lines[index].strip()) < 40 and bool(rest) and bool(NUMBER.match(rest[0]) and _PAGE.search(rest[0]))


def _entry(match: re.Match[str] | None, bare: str) -> Entry:
    if match is None:
        return Entry((), "", False, bare.strip())
    key, lettered = number_key(match["number"])
    word = (match["word"] or "").lower()
    title = match["title"]
    again = NUMBER.match(title)
    if again is not None and again["word"] and again["number"].upper() == match["number"].upper():
        title = again["title"]
    return Entry(key, match["number"], lettered or word in ("appendix", "annex"), title)
