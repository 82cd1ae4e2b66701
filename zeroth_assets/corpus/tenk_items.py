"""Which lines of an annual report are the headings of its Parts and Items.

What belongs here: telling a heading in the body from an entry of the contents, a cross-reference in prose, a running
header and a cross-reference index. Every line that could be a heading is scored; the best chain of lines whose Items
ascend (1, 1A, 1B, ... 16) wins, and a line that scores nothing is in no chain. So nothing is ever guessed.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from zeroth_assets.corpus.tenk_forms import ITEM_RANK, ITEM_TITLE, PARTS, item_numbers, may_stand_in
from zeroth_assets.corpus.tenk_lines import CELL_SEPARATOR, Line

_N = r"\d{1,2}(?!\d)(?:[A-C](?![A-Za-z])|\s?\([A-C]\)|\s[A-C](?=\s*[.:\-–—]|\s*$))?(?:\s?\((?:T|[ivx]{1,3})\))?"
_ITEM = re.compile(
    rf"^[^\w\s]{{0,3}}\s*(?:part\s+[ivx]+\b[\s,.:;\-–—]*)?items?\s*(?:no\.?\s*)?"
    rf"(?P<numbers>{_N}(?:\s*(?:,\s*and\b|,|and\b|&|through\b|to\b|-|–|/)\s*(?:items?\s*)?{_N})*)"
    r"(?P<mark>\s*[.:;\-–—―)|*]*\s*)(?P<title>.*)$",
    re.IGNORECASE | re.DOTALL,
)
_PART = re.compile(r"^[^\w\s]{0,3}\s*part\s+(?P<part>I{1,3}|IV)\b(?P<rest>.*)$", re.IGNORECASE)
_PART_REST = re.compile(r"^[\s.,:;*\-–—]*(?:$|\(?continued\)?|(?:financial|other) information|item\b)", re.IGNORECASE)
_ENDS_WITH_PAGE = re.compile(r"(?:[\s.\t]|^)(?:\d{1,3}|[A-Z]-\d{1,3}|n/?a)\s*$", re.IGNORECASE)
_PAGE_CELL = re.compile(r"^(?:[\divxlA-F\-–,\s()*&]+|(?:not applicable|none|n/?a)\.?|\([a-z]\))$", re.IGNORECASE)
_OPEN_END = re.compile(r"(?:\b(?:and|on|of|the|for|with|in|to|or|related|a|by|from|about)|[,;&\-–])$", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_RUN_IN = re.compile(r"^(.{3,160}?)(?:\.\s+(?=[A-Z“\"(])|:\s|\s?—\s?|\s-{1,2}\s)", re.DOTALL)
_SIGNATURES = re.compile(r"^\W*signatures?\W*$", re.IGNORECASE)
_LONGEST_TITLE = 260
_LONGEST_KNOWN_TITLE = 500
_LONGEST_PRINTED_TITLE = 300
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

    @property
    def ranks(self) -> tuple[int, int]:
        ranks = [ITEM_RANK[number] for number in self.heading.numbers]
        return min(ranks), max(ranks)


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
    pattern = ITEM_TITLE[numbers[0]]
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
    return _Candidate(heading, known, _contents_like(line, match["title"]))


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
        wrapped = shouting and any(not line.text for line in lines[max(0, last - 2) : last + 5])
        if not (wrapped or (_OPEN_END.search(title) and (shouting or not title.isupper()))):
            break
        title, last = f"{title} {below.plain}", last + 1
    run_in = _RUN_IN.match(title)
    if run_in and (len(title) > len(run_in[1]) + 40 or title[len(run_in[1]) :].startswith(". ")):
        title = run_in[1]
    if len(title) > _LONGEST_PRINTED_TITLE:
        title = title[:_LONGEST_PRINTED_TITLE].rsplit(" ", 1)[0]
    return title.strip().rstrip(".:*").strip(), last


def _contents_like(line: Line, title: str) -> int:
    """How much a line looks like an entry of a contents table, 0 to 2: it ends in a page number, it is a link."""
    if line.row and CELL_SEPARATOR in line.text:
        paged = bool(_PAGE_CELL.match(line.text.rsplit(CELL_SEPARATOR, 1)[-1]))
    else:
        paged = bool(_ENDS_WITH_PAGE.search(title))
    return int(paged) + int(line.linked)


def _prose_before(lines: Sequence[Line]) -> list[int]:
    """For each index, the words of prose above it: no links, page numbers, Part headings or entries of contents."""
    totals = [0]
    for line in lines:
        bare = line.linked or not line.text or _PART.match(line.plain) or _ENDS_WITH_PAGE.search(line.text)
        totals.append(totals[-1] + (0 if bare else len(_WORD.findall(line.text))))
    return totals


def _run_in_words(lines: Sequence[Line], heading: Heading) -> int:
    """Words that follow the title on the heading's own lines."""
    printed = sum(len(_WORD.findall(line.plain)) for line in lines[heading.first : heading.last + 1])
    return max(0, printed - len(_WORD.findall(heading.title)) - 8)


def _substance(lines: Sequence[Line], candidates: Sequence[_Candidate]) -> list[int]:
    """Words of prose between each candidate and the next one that names another Item."""
    totals = _prose_before(lines)
    words = [0] * len(candidates)
    end = len(lines)
    for at in range(len(candidates) - 1, -1, -1):
        heading = candidates[at].heading
        if at + 1 < len(candidates) and candidates[at + 1].heading.numbers != heading.numbers:
            end = candidates[at + 1].heading.first
        words[at] = max(0, totals[end] - totals[min(end, heading.last + 1)]) + _run_in_words(lines, heading)
    return words


def _scores(lines: Sequence[Line], candidates: Sequence[_Candidate]) -> list[float]:
    tables = Counter(lines[c.heading.first].table for c in candidates if lines[c.heading.first].row)
    words = _substance(lines, candidates)
    empty_runs = [(flag, len(list(group))) for flag, group in itertools.groupby(count == 0 for count in words)]
    in_contents = [flag and length >= _RUN_OF_EMPTY for flag, length in empty_runs for _ in range(length)]
    scores = []
    for at, candidate in enumerate(candidates):
        line = lines[candidate.heading.first]
        score = 3.0 if candidate.known_title else 0.0
        score += min(3.0, math.log10(1 + words[at]))
        score -= 2.5 * candidate.contents_like
        score -= 4.0 if line.row and tables[line.table] >= 4 else 0.0
        score -= 4.0 if in_contents[at] else 0.0
        scores.append(score)
    return scores


def _best_chain(candidates: Sequence[_Candidate], scores: Sequence[float]) -> list[int]:
    """The chain of ascending Items with the highest total; candidates at or below zero are in none."""
    back: list[int | None] = [None] * len(candidates)
    # Per rank of a chain's last Item: the best total so far and the candidate that reached it.
    best: list[tuple[float, int | None]] = [(0.0, None)] * len(ITEM_RANK)
    for at, candidate in enumerate(candidates):
        if scores[at] <= 0:
            continue
        low, high = candidate.ranks
        total, back[at] = max(best[:low], key=lambda entry: entry[0], default=(0.0, None))
        if total + scores[at] > best[high][0]:
            best[high] = (total + scores[at], at)
    link = max(best, key=lambda entry: entry[0])[1]
    chain = []
    while link is not None:
        chain.append(link)
        link = back[link]
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


def belongs(item: Heading, part: Heading) -> bool:
    """Whether an Item's heading stands in a Part's, by the form."""
    return item.kind == "item" and may_stand_in(item.numbers[0], part.numbers[0])


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
            if PARTS[part.numbers[0]] > opened and belongs(item, part):
                headings.append(part)
                opened = PARTS[part.numbers[0]]
            break
        headings.append(item)
        floor = item.last + 1
    return headings
