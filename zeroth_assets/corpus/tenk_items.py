"""Which lines of an annual report are the headings of its Parts and Items.

What belongs here: telling a heading in the body from an entry of the contents, a cross-reference in prose, a running
header and a cross-reference index. Every line that could be a heading is scored; the best chain of lines whose Items
ascend (1, 1A, 1B, ... 16) wins, and a line that scores nothing is in no chain. So nothing is ever guessed.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from zeroth_assets.corpus.tenk_lines import CELL_SEPARATOR, Line

ITEM_NUMBERS = (
    "1", "1A", "1B", "1C", "2", "3", "4", "4A", "5", "6", "7", "7A", "8", "9", "9A", "9B", "9C",
    "10", "11", "12", "13", "14", "15", "16",
)  # fmt: skip
_RANK = {number: rank for rank, number in enumerate(ITEM_NUMBERS)}
_PARTS = {"I": 1, "II": 2, "III": 3, "IV": 4}
_RESERVED = r"reserved|omitted|removed|not applicable|none\b"
_TITLES = {
    "1": "business|description of (?:the )?business|general", "1A": "risk factors|certain risk",
    "1B": "unresolved|staff comments", "1C": "cyber", "2": "propert|description of propert",
    "3": "legal|pending legal", "4": "submission|mine|safety|executive officers", "4A": "executive officers|submission",
    "5": "market", "6": "select|consolidated", "7": "management|md&a|discussion", "7A": "quantitative|market risk",
    "8": "financial|consolidated|supplementary", "9": "change|disagreement", "9A": "control|procedure",
    "9B": "other", "9C": "disclosure", "10": "director|executive officer", "11": "executive|compensation",
    "12": "security|beneficial|ownership", "13": "certain|relationship|related|transaction",
    "14": "exhibit|principal|control|account|fees", "15": "exhibit|principal|financial statement|account",
    "16": "form|summary|exhibit|principal",
}  # fmt: skip
_TITLE = {number: re.compile(rf"(?:{words}|{_RESERVED})", re.IGNORECASE) for number, words in _TITLES.items()}

_N = r"\d{1,2}(?!\d)(?:[A-C](?![A-Za-z])|\s?\([A-C]\)|\s[A-C](?=\s*[.:\-–—]|\s*$))?(?:\s?\((?:T|[ivx]{1,3})\))?"
_ITEM = re.compile(
    rf"^[^\w\s]{{0,3}}\s*(?:part\s+[ivx]+\b[\s,.:;\-–—]*)?items?\s*(?:no\.?\s*)?"
    rf"(?P<numbers>{_N}(?:\s*(?:,\s*and\b|,|and\b|&|through\b|to\b|-|–|/)\s*(?:items?\s*)?{_N})*)"
    r"(?P<mark>\s*[.:;\-–—―)|*]*\s*)(?P<title>.*)$",
    re.IGNORECASE | re.DOTALL,
)
_NUMBER = re.compile(r"(\d{1,2})\s?\(?([A-C]?)\)?(?:\s?\((?:T|[ivx]{1,3})\))?", re.IGNORECASE)
_RANGE_WORD = re.compile(r"through|\bto\b|-|–", re.IGNORECASE)
_PART = re.compile(r"^[^\w\s]{0,3}\s*part\s+(?P<part>I{1,3}|IV)\b(?P<rest>.*)$", re.IGNORECASE)
_PART_REST = re.compile(r"^[\s.,:;*\-–—]*(?:$|\(?continued\)?|(?:financial|other) information|item\b)", re.IGNORECASE)
_ENDS_WITH_PAGE = re.compile(r"(?:[\s.\t]|^)(?:\d{1,3}|[A-Z]-\d{1,3}|n/?a)\s*$", re.IGNORECASE)
_PAGE_CELL = re.compile(r"^(?:[\divxlA-F\-–,\s()*&]+|(?:not applicable|none|n/?a)\.?|\([a-z]\))$", re.IGNORECASE)
_CONTINUED = re.compile(r"\(?\bcont(?:inued|[’']?d|\.)", re.IGNORECASE)
_OPEN_END = re.compile(r"(?:\b(?:and|on|of|the|for|with|in|to|or|related|a|by|from|about)|[,;&\-–])$", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_RUN_IN = re.compile(r"^(.{3,160}?)(?:\.(?=\s|$)|:\s|\s?[—–]\s?|\s-{1,2}\s)", re.DOTALL)
_SIGNATURES = re.compile(r"^\W*signatures?\W*$", re.IGNORECASE)
_LONGEST_TITLE = 260
_LONGEST_KNOWN_TITLE = 500
_RUN_OF_EMPTY = 4


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading that stands: lines `[first, last]`; `numbers` are the Items (or the Part) that it opens."""

    kind: str
    numbers: tuple[str, ...]
    printed: str
    title: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Candidate:
    heading: Heading
    known_title: bool
    contents_like: int
    continued: bool

    @property
    def ranks(self) -> tuple[int, int]:
        ranks = [_RANK[number] for number in self.heading.numbers]
        return min(ranks), max(ranks)


def item_numbers(printed: str) -> tuple[str, ...]:
    """The Items that a printed number names, or () if one of them is no Item of Form 10-K.

    >>> item_numbers("1 and 2"), item_numbers("9A(T)"), item_numbers("10 through 13"), item_numbers("14(a)")
    (('1', '2'), ('9A',), ('10', '11', '12', '13'), ())
    """
    found: list[str] = []
    end = 0
    for match in _NUMBER.finditer(printed):
        number = f"{int(match[1])}{match[2].upper()}"
        if number not in _RANK:
            return ()
        if found and _RANGE_WORD.search(printed[end : match.start()]):
            low, high = _RANK[found[-1]] + 1, _RANK[number]
            found.extend(n for n in ITEM_NUMBERS[low:high] if n.isdigit())
        found.append(number)
        end = match.end()
    return tuple(dict.fromkeys(found))


def _next_line(lines: Sequence[Line], index: int) -> int | None:
    """The next line with text, if no more than one blank line lies between."""
    for at in range(index + 1, min(index + 3, len(lines))):
        if lines[at].text.strip():
            return at
    return None


def _candidate(lines: Sequence[Line], index: int) -> _Candidate | None:
    line = lines[index]
    match = _ITEM.match(line.plain)
    if match is None:
        return None
    numbers = item_numbers(match["numbers"])
    if not numbers:
        return None
    title, marked = match["title"].strip(), bool(match["mark"].strip())
    pattern = _TITLE[numbers[0]]
    last = index
    if not title:
        following = _next_line(lines, index)
        if following is not None and len(lines[following].plain) <= _LONGEST_KNOWN_TITLE:
            below = lines[following].plain
            if pattern.search(below[:80]) and not _ITEM.match(below):
                title, last = below, following
    known = bool(pattern.search(title[:80]))
    if title and not _may_be_title(title, known=known, marked=marked):
        return None
    if not line.row and _is_wrapped_prose(lines, index, title):
        return None
    title, last = _whole_title(lines, title, last)
    printed = " ".join(match["numbers"].split())
    heading = Heading("item", numbers, printed, title, index, last)
    return _Candidate(heading, known, _contents_like(line, match["title"]), bool(_CONTINUED.search(line.plain)))


def _may_be_title(title: str, *, known: bool, marked: bool) -> bool:
    first = title[0]
    if first in ",;\"“”'‘’" or (first.islower() and not (known and marked)):
        return False
    if not known and (len(title) > _LONGEST_TITLE or not marked):
        return False
    return first not in "([" or known


def _is_wrapped_prose(lines: Sequence[Line], index: int, title: str) -> bool:
    """In text filings a sentence may break so that a line begins with "Item 7": the line above runs on into it."""
    if index == 0 or not lines[index - 1].text or lines[index].plain[:4].isupper():
        return False
    above = lines[index - 1]
    if above.row or above.page != lines[index].page or above.list_item:
        return False
    return bool(re.search(r"(?:\b(?:see|in|under|and|or|of|to|the|with|by|also|this)|[,(“\"])$", above.plain.lower()))


def _whole_title(lines: Sequence[Line], title: str, last: int) -> tuple[str, int]:
    """A title that runs on over the next line, or stops short of the paragraph that it opens."""
    for _ in range(3):
        if last + 1 >= len(lines) or not title or len(title) > 150:
            break
        below = lines[last + 1]
        if not below.text or below.row or len(below.plain) > 120 or _ITEM.match(below.plain):
            break
        shouting = title.isupper() and below.plain.isupper()
        indented = shouting and below.text[:1].isspace()
        if not (indented or (_OPEN_END.search(title) and (shouting or not title.isupper()))):
            break
        title, last = f"{title} {below.plain}", last + 1
    if len(title) > 160:
        run_in = _RUN_IN.match(title)
        title = run_in[1] if run_in else title[:160].rsplit(" ", 1)[0]
    return title.strip().rstrip(".:*").strip(), last


def _contents_like(line: Line, title: str) -> int:
    """How much a line looks like an entry of a contents table, 0 to 2: it ends in a page number, it is a link."""
    if line.row and CELL_SEPARATOR in line.text:
        paged = bool(_PAGE_CELL.match(line.text.rsplit(CELL_SEPARATOR, 1)[-1]))
    else:
        paged = bool(_ENDS_WITH_PAGE.search(title))
    return int(paged) + int(line.linked)


def _substance(lines: Sequence[Line], start: int, end: int) -> int:
    """Words of prose in `lines[start:end]`: no links, no page numbers, no Part headings, no entries of contents."""
    words = 0
    for line in lines[start:end]:
        if line.linked or not line.text or _PART.match(line.plain) or _ENDS_WITH_PAGE.search(line.text):
            continue
        words += len(_WORD.findall(line.text))
        if words > 100_000:
            break
    return words


def _scores(lines: Sequence[Line], candidates: Sequence[_Candidate]) -> list[float]:
    tables = Counter(lines[c.heading.first].table for c in candidates if lines[c.heading.first].row)
    words = []
    for at, candidate in enumerate(candidates):
        end = len(lines)
        for later in candidates[at + 1 :]:
            if later.heading.numbers != candidate.heading.numbers:
                end = later.heading.first
                break
        run_in = max(0, len(_WORD.findall(lines[candidate.heading.first].plain)) - 45)
        words.append(_substance(lines, candidate.heading.last + 1, end) + run_in)
    empty = [count == 0 for count in words]
    scores = []
    for at, candidate in enumerate(candidates):
        line = lines[candidate.heading.first]
        score = 3.0 if candidate.known_title else 0.0
        score += min(3.0, math.log10(1 + words[at]))
        score -= 2.5 * candidate.contents_like
        score -= 4.0 if line.row and tables[line.table] >= 4 else 0.0
        score -= 3.0 if candidate.continued else 0.0
        if empty[at] and _run_length(empty, at) >= _RUN_OF_EMPTY:
            score -= 4.0
        scores.append(score)
    return scores


def _run_length(flags: Sequence[bool], at: int) -> int:
    low = high = at
    while low > 0 and flags[low - 1]:
        low -= 1
    while high + 1 < len(flags) and flags[high + 1]:
        high += 1
    return high - low + 1


def _best_chain(candidates: Sequence[_Candidate], scores: Sequence[float]) -> list[int]:
    """The chain of ascending Items with the highest total; candidates at or below zero are in none."""
    best: list[float] = []
    back: list[int | None] = []
    for at, candidate in enumerate(candidates):
        total, previous = 0.0, None
        if scores[at] > 0:
            for earlier in range(at):
                if scores[earlier] > 0 and candidates[earlier].ranks[1] < candidate.ranks[0] and best[earlier] > total:
                    total, previous = best[earlier], earlier
        best.append(total + scores[at] if scores[at] > 0 else float("-inf"))
        back.append(previous)
    if not best or max(best) <= 0:
        return []
    chain = [best.index(max(best))]
    while (earlier_link := back[chain[-1]]) is not None:
        chain.append(earlier_link)
    return chain[::-1]


def find_headings(lines: Sequence[Line]) -> tuple[list[Heading], list[str]]:
    """The headings of Parts, Items and signatures in a report's own lines, in order, and warnings.

    One heading may open several Items ("Items 1 and 2. Business and Properties"): it stays one heading, its numbers
    as printed. A Part is taken only where it is printed between the Items around it.
    """
    candidates = [c for index in range(len(lines)) if (c := _candidate(lines, index)) is not None]
    scores = _scores(lines, candidates)
    items = [candidates[at].heading for at in _best_chain(candidates, scores)]
    if not items:
        seen = f"; {len(candidates)} lines name one, all in a contents table or index" if candidates else ""
        return [], [f"No Item heading found in the body{seen}: the report has no Item sections"]
    found = {number for item in items for number in item.numbers}
    missing = [number for number in ("1", "7", "8") if number not in found]
    warnings = [f"No heading found for Item {', '.join(missing)}"] if missing else []
    headings = _with_parts(lines, items)
    signature = next(
        (at for at in range(len(lines) - 1, items[-1].last, -1) if _SIGNATURES.match(lines[at].plain)), None
    )
    if signature is not None and not lines[signature].linked:
        headings.append(Heading("signature", (), "", lines[signature].plain, signature, signature))
    return headings, warnings


def _part_of(number: str) -> int:
    rank = _RANK[number]
    return 1 if rank < _RANK["5"] else 2 if rank < _RANK["10"] else 3 if rank < _RANK["14"] else 4


def belongs(item: Heading, part: Heading) -> bool:
    """Whether an Item stands in a Part by the form; before 2003 Item 14 was the first of Part IV."""
    if item.kind != "item":
        return False
    number = _part_of(item.numbers[0])
    return number == _PARTS[part.numbers[0]] or (item.numbers[0] == "14" and part.numbers[0] == "IV")


def _with_parts(lines: Sequence[Line], items: Sequence[Heading]) -> list[Heading]:
    headings: list[Heading] = []
    opened = 0
    floor = 0
    for item in items:
        for at in range(item.first, floor - 1, -1):
            match = _PART.match(lines[at].plain)
            if match is None or not _PART_REST.match(match["rest"]) or _contents_like(lines[at], match["rest"]):
                continue
            printed = " ".join(lines[at].plain.split()[:2]).rstrip(".,:;*-–—")
            part = Heading("part", (match["part"].upper(),), printed, "", at, at)
            if _PARTS[part.numbers[0]] > opened and belongs(item, part):
                headings.append(part)
                opened = _PARTS[part.numbers[0]]
                break
        headings.append(item)
        floor = item.last + 1
    return headings
