"""Parts of a contract file that stand beside the agreement: exhibits, schedules, annexes, and signature blocks.

What belongs here: finding them by their own headings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zeroth_assets.corpus.cuad_numbers import Line, clause_title, title_below
from zeroth_assets.corpus.sections import PlacedHeading

_OPENING_SHARE = 0.15
_EXHIBIT = re.compile(
    r"^\s*(?P<word>EXHIBIT|SCHEDULE|ANNEX|APPENDIX|ATTACHMENT|ADDENDUM|Exhibit|Schedule|Annex|Appendix|Attachment)"
    r"\s+[\"“'‘]?(?P<number>[A-Z]{1,2}(?:-?\d{1,2})?|\d{1,2}(?:[.-]\d{1,2})?(?:[A-Z]|\([A-Za-z]\))?|[IVX]+)[\"”'’]?(?P<rest>(?:[\s.:,;—–(-].*)?)$"
)
_LISTED_PAGE = re.compile(r"[a-z)\].]\s+(?:\d{1,3}|[ivx]{1,5})\s*$")
_WITNESS = re.compile(
    r"(?:^|(?<=[.;:]\s)|(?<=[.;:]\s\s)|(?<=\n))[ \t]*(?P<title>IN\s+WITNESS\s+(?:WHEREOF|HEREOF|THEREOF))", re.MULTILINE
)
_SIGNATURE = re.compile(
    r"^[ \t]*(?P<title>(?:AGREED\s+(?:AND|&)\s+ACCEPTED|ACCEPTED\s+(?:AND|&)\s+AGREED|SIGNATURE\s+PAGE"
    r"|\[?SIGNATURES?(?: PAGE)? FOLLOWS?"
    r"|SIGNATURES|Signature Page)\b)",
    re.MULTILINE,
)


def exhibits(lines: Sequence[Line]) -> list[tuple[int, str, str]]:
    """Exhibits, schedules and annexes by their own headings: not the filing's label, a mention, or a list of them."""
    candidates: list[tuple[int, str, str, int]] = []
    for index, (start, line) in enumerate(lines):
        match = _EXHIBIT.match(line)
        if match is None or not _heads(match, line) or _LISTED_PAGE.search(line[-60:]):
            continue
        indent = len(line) - len(line.lstrip())
        rest = match["rest"].strip(" .:—–-")
        label = f"{match['word']} {match['number']}"
        candidates.append(
            (start + indent, label, clause_title(rest) or (title_below(lines, index) if not rest else ""), index)
        )
    kept: list[tuple[int, str, str]] = []
    seen: set[str] = set()
    opening_end = int(_OPENING_SHARE * (lines[-1][0] + len(lines[-1][1])))
    later = {label.upper() for start, label, _, _ in candidates if start >= opening_end}
    for position, (start, label, title, index) in enumerate(candidates):
        if label.upper() in seen or (start < opening_end and label.upper() in later):
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


def signatures(text: str, begin: int, end: int, *, depth: int) -> list[PlacedHeading]:
    """The last signature block of a scope: an agreement is signed once, and once more in each exhibit that is one."""
    for pattern in (_WITNESS, _SIGNATURE):
        matches = list(pattern.finditer(text, begin, end))
        if matches:
            match = matches[-1]
            return [(match.start("title"), "", " ".join(match["title"].split()), depth + 1, "signature")]
    return []
