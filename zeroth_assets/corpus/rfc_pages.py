"""Pages of an RFC: where they break, what is printed around them, and how the text goes on across the break.

What belongs here: form feeds, headers, footers, and the decision whether a paragraph continues on the next page.
Sections and blocks are read from the result, elsewhere.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass

_FOOTER = re.compile(
    r"^(?=.{12})\S?.*\[Page\s+(?:\d+|[ivxlc]+)\s*\]?$|^\[Page\s+(?:\d+|[ivxlc]+)\]\s*\S*$", re.IGNORECASE
)
_HEADER = re.compile(r"^(?:RFC|Request for Comments|Internet[- ]Draft)\b.*\s(?:19|20)\d\d$", re.IGNORECASE)
_MONTH_FIRST_HEADER = re.compile(r"^[A-Z][a-z]+ (?:\d\d?, )?(?:19|20)\d\d\s{3,}RFC\s*\d+$")
_COUNTER = re.compile(r"\d+|\b[ivxlc]+\b")
_MARKER = re.compile(r"^(?:[-*+o•]|\(?(?:\d{1,3}|[A-Za-z]|[ivxlc]{1,5})[.)])\s+(?=\S)")
_HEADING = re.compile(r"^(?:\d{1,2}(?:\.\d{1,3})*\.?|(?:Appendix|APPENDIX)\s+[A-Z][.:]?|[A-Z]\.(?:\d+\.?)*)\s+[^\Wa-z]")
_ART = re.compile(r"[|+][-=+|]|[-=]{4,}|^\s*\|.*\|\s*$|<-|->|\S\s{3,}\S.*\s{3,}\S|[{};]$|::=|^\s*[0-9a-f]{4,}[: ]")
_SENTENCE_END = re.compile(r"[.?!:][\"')\]>]*$")
_REFERENCE = re.compile(r"^\[[\w.:/ -]{1,30}\]\s")
_OPEN_END = re.compile(
    r"(?:[a-z],|\b(?:the|an?|of|in|to|and|or|is|are|was|for|by|with|that|from|as|on|see|at|be|which|not|this|its|sections?|figure|table))$",
    re.IGNORECASE,
)
_LISTED = re.compile(r"\.\s?\.\s?\..*\d$")
_COLUMN = re.compile(r"(?<=\S)\s{2,}|^\s*\S+\s+")
_FULL_LINE = 72
_LONG_LINE = 300


@dataclass(frozen=True, slots=True)
class Pagination:
    """Lines of the canonical text, the lines that open pages, and what was left out.

    `page_lines` holds (page number, index of its first line); page numbers count the physical pages, a blank page
    included, so they rise strictly but may skip. Empty where the text has no pages of its own.
    """

    lines: list[str]
    page_lines: list[tuple[int, int]]
    dropped: dict[str, int]


def paginate(text: str) -> Pagination:
    """Take page furniture out of an RFC (LF newlines) and join what it cut."""
    dropped: Counter[str] = Counter()
    pages = _split_pages(text, dropped)
    stripped = [_rstrip_lines(page, dropped) for page in pages]
    bodies = _without_furniture(stripped, dropped) if len(stripped) > 1 else stripped
    lines: list[str] = []
    page_lines: list[tuple[int, int]] = []
    for number, body in enumerate(bodies, start=1):
        content = _trim(body)
        dropped["blank_line"] += len(body) - len(content)
        if not content:
            continue
        if lines and not _continues(lines, content):
            lines.append("")
            dropped["blank_line"] -= 1
        page_lines.append((number, len(lines)))
        lines.extend(content)
    lines, page_lines = _collapse_blank_runs(lines, page_lines, dropped)
    return Pagination(lines, page_lines if len(pages) > 1 else [], {k: n for k, n in dropped.items() if n > 0})


def _split_pages(text: str, dropped: Counter[str]) -> list[list[str]]:
    """Pages as lists of lines. Where form feeds were lost on the way, footers that are printed mark the breaks."""
    if "\f" in text:
        dropped["form_feed"] += text.count("\f")
        return [page.split("\n") for page in text.split("\f")]
    lines = text.split("\n")
    footers = [i for i, line in enumerate(lines) if _FOOTER.match(line.rstrip())]
    if len(footers) < 2:
        return [lines]
    cuts = [0, *(i + 1 for i in footers), len(lines)]
    return [lines[a:b] for a, b in itertools.pairwise(cuts) if a < b]


def _rstrip_lines(page: list[str], dropped: Counter[str]) -> list[str]:
    result = [line.rstrip(" \t") for line in page]
    dropped["trailing_space"] += sum(map(len, page)) - sum(map(len, result))
    return result


def _trim(lines: list[str]) -> list[str]:
    """Without the blank lines at both ends."""
    first, last = 0, len(lines)
    while first < last and not lines[first]:
        first += 1
    while last > first and not lines[last - 1]:
        last -= 1
    return lines[first:last]


def _shape(line: str) -> str:
    """A line with its spacing and its numbers made equal, so that running heads of all pages look alike."""
    return _COUNTER.sub("#", " ".join(line.split()))


def _without_furniture(pages: list[list[str]], dropped: Counter[str]) -> list[list[str]]:
    trimmed = [_trim(page) for page in pages]
    filled = [page for page in trimmed if page]
    enough = max(3, int(0.3 * len(filled)))
    first = Counter(_shape(page[0]) for page in filled[1:])
    second = Counter(_shape(page[1]) for page in filled[1:] if len(page) > 1 and page[1])
    last = Counter(_shape(page[-1]) for page in filled)
    running_heads = {shape for shape, n in first.items() if n >= enough and re.search("[a-z]", shape, re.IGNORECASE)}
    second_heads = {shape for shape, n in second.items() if n >= enough and re.search("[a-z]", shape, re.IGNORECASE)}
    running_feet = {shape for shape, n in last.items() if n >= enough and re.search("[a-z]", shape, re.IGNORECASE)}
    result = []
    for number, page in enumerate(trimmed):
        dropped["blank_line"] += len(pages[number]) - len(page)
        body = page
        if body and (_FOOTER.match(body[-1]) or _shape(body[-1]) in running_feet):
            dropped["page_footer"] += len(body[-1]) + 1
            body = body[:-1]
        if number and body:
            taken = _header_lines(body, running_heads, second_heads)
            dropped["page_header"] += sum(len(line) + 1 for line in body[:taken])
            body = body[taken:]
        result.append(body)
    return result


def _header_lines(page: list[str], running_heads: set[str], second_heads: set[str]) -> int:
    """How many lines at the top of a page are a running head.

    Early RFCs print three: date, document, and the title of the section that the page is in. The third changes
    with the section; it is known by the blank lines that set the head off.
    """
    if not (_HEADER.match(page[0]) or _MONTH_FIRST_HEADER.match(page[0]) or _shape(page[0]) in running_heads):
        return 0
    taken = 1
    if len(page) > 1 and page[1] and _shape(page[1]) in second_heads:
        taken = 2
        if len(page) > 4 and page[2] and not page[3] and not page[4]:
            taken = 3
    return taken


def _continues(before: list[str], after: list[str]) -> bool:
    """Whether the last paragraph of `before` goes on in the first line of `after`, with no blank line between."""
    last, following = before[-1], after[0]
    return continues(last, following, before[-2] if len(before) > 1 else "", after[1] if len(after) > 1 else "")


def continues(last: str, following: str, before_last: str = "", after_following: str = "") -> bool:
    """Whether `following` is the next line of the paragraph or figure that `last` belongs to.

    Judged as a reader does: a marker or a heading opens something new; a line that had room for the next word was
    its paragraph's last; a full line without a sentence's end goes on.
    """
    # An RFC's line has 72 characters; what hostile input puts on one line is judged by its beginning.
    last, following, before_last, after_following = (
        line[:_LONG_LINE] for line in (last, following, before_last, after_following)
    )
    words = following.split()
    if not last or not words:
        return False
    indent, next_indent = _indent(last), _indent(following)
    if _HEADING.match(following.lstrip()) and (next_indent == 0 or not after_following):
        return False
    if indent == 0 < next_indent and (_HEADING.match(last) or not before_last) and not _ART.search(last):
        return False
    if _LISTED.search(last) and _LISTED.search(following):
        return True
    if next_indent > indent and next_indent in {gap.end() for gap in _COLUMN.finditer(last)}:
        return not _SENTENCE_END.search(last) or words[0].islower()
    if abs(next_indent - indent) > 10 and not (_ART.search(last) or _ART.search(following)):
        return False
    if _OPEN_END.search(last) or (len(last) > 40 and words[0].islower() and not _SENTENCE_END.search(last)):
        return True
    if _MARKER.match(following.lstrip()) or _REFERENCE.match(following.lstrip()):
        return bool(before_last) and _room(before_last, last) and not _SENTENCE_END.search(last)
    if _ART.search(last) and _ART.search(following):
        return True
    line_by_line = bool(before_last) and _room(before_last, last)
    ended = bool(_SENTENCE_END.search(last))
    if _room(last, following):
        return line_by_line and not (ended and words[0][:1].isupper())
    if not ended:
        return True
    return next_indent == indent and (not words[0][:1].isupper() or _indent(after_following) == next_indent)


def _room(line: str, following: str) -> bool:
    """Whether the first word of `following` would have fitted on `line`: a filled paragraph would have put it there."""
    word = following.split(maxsplit=1)[0] if following.strip() else ""
    return len(line) + 1 + len(word) <= _FULL_LINE - 2


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _collapse_blank_runs(
    lines: list[str], page_lines: list[tuple[int, int]], dropped: Counter[str]
) -> tuple[list[str], list[tuple[int, int]]]:
    """Keep at most two blank lines in a row, and none at either end."""
    kept: list[str] = []
    moved: dict[int, int] = {}
    blanks = 2
    for index, line in enumerate(lines):
        moved[index] = len(kept)
        blanks = 0 if line else blanks + 1
        if blanks > 2:
            dropped["blank_line"] += 1
            continue
        kept.append(line)
    while kept and not kept[-1]:
        kept.pop()
        dropped["blank_line"] += 1
    return kept, [(number, moved[index]) for number, index in page_lines]
