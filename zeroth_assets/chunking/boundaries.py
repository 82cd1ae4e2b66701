"""Where a text may be cut: words, sentences, paragraphs, characters.

What belongs here: finding places in one text, each an index of a character. Nothing here knows of tokens or windows.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from zeroth_assets.chunking.tokens import IntArray

_BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*")
_FULL_STOP = re.compile(r"""[.!?…]["”’')\]]*\s+(?=\S)|[。！？][」』”’）]*\s*(?=\S)""")
_BEFORE = r"(?:^|[\s(\[\"“])"
_ABBREVIATION = re.compile(
    _BEFORE + r"(?:e\.g|i\.e|cf|vs|viz|etc|inc|corp|co|ltd|mr|mrs|ms|dr|st|jr|sr|u\.s|u\.k|dept"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|[a-z])\.$",
    re.IGNORECASE,
)
_NUMBERED = re.compile(_BEFORE + r"(?:nos?|sec|secs|art|figs?|ex|approx|pp?)\.$", re.IGNORECASE)
_ZERO_WIDTH_JOINER = "\u200d"
_LONGEST_CLUSTER = 64


@dataclass(frozen=True, slots=True)
class Words:
    """Runs of non-space characters: `text[starts[i]:ends[i]]`."""

    starts: IntArray
    ends: IntArray

    @classmethod
    def of(cls, text: str) -> Words:
        """Find the words of `text`; space is what `str.isspace` says."""
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        solid = np.zeros(len(points) + 2, dtype=np.int8)
        solid[1:-1] = ~_is_space(points)
        edges = np.diff(solid)
        return cls(np.flatnonzero(edges == 1).astype(np.int64), np.flatnonzero(edges == -1).astype(np.int64))

    def next_start(self, at: int) -> int | None:
        """The first non-space character at or after `at`."""
        index = int(np.searchsorted(self.starts, at, side="right"))
        if index and at < self.ends[index - 1]:
            return at
        return int(self.starts[index]) if index < len(self.starts) else None

    def trim_end(self, end: int) -> int:
        """`end`, moved back over the space before it; 0 where only space precedes it."""
        index = int(np.searchsorted(self.starts, end, side="left"))
        return min(end, int(self.ends[index - 1])) if index else 0

    def splits(self, at: int) -> bool:
        """Whether a cut at `at` falls inside a word."""
        index = int(np.searchsorted(self.starts, at, side="left"))
        return bool(index) and at < int(self.ends[index - 1])


def paragraph_starts(text: str) -> IntArray:
    """First non-space character after each blank line."""
    return np.array([m.end() for m in _BLANK_LINE.finditer(text) if m.end() < len(text)], dtype=np.int64)


def sentence_starts(text: str) -> IntArray:
    """Starts of sentences after the first, and of paragraphs: after a full stop and space, unless lower case follows,
    or a known abbreviation, a single letter, or one of "No." and its kind before a number ends there. A heuristic for
    English prose.
    """
    starts = set(paragraph_starts(text).tolist())
    for match in _FULL_STOP.finditer(text):
        at = match.end()
        if text[at].islower():
            continue
        head = text[max(0, match.start() - 8) : match.start() + 1]
        if _ABBREVIATION.search(head) or (text[at].isdigit() and _NUMBERED.search(head)):
            continue
        starts.add(at)
    return np.array(sorted(starts), dtype=np.int64)


def cluster_start(text: str, at: int, low: int) -> int:
    """The last place in `(low, at]` where a cut splits no combining sequence; `at` itself where there is none near.

    Covers combining marks, joiners, emoji modifiers, flags and conjoining jamo, which is what real text holds of
    UAX #29; a cluster of more than 64 characters is cut where `at` says.
    """
    for place in range(at, max(low, at - _LONGEST_CLUSTER), -1):
        if place >= len(text) or not _joined(text, place):
            return place
    return at


def next_cluster_start(text: str, at: int, high: int) -> int:
    """The first place in `[at, high)` where a cut splits no combining sequence; `high` where there is none near."""
    for place in range(at, min(high, at + _LONGEST_CLUSTER)):
        if not _joined(text, place):
            return place
    return high


def _joined(text: str, at: int) -> bool:
    """Whether `text[at]` belongs to the character before it."""
    here, before = text[at], text[at - 1]
    if here.isascii():
        return here == "\n" and before == "\r"
    if here == _ZERO_WIDTH_JOINER or before == _ZERO_WIDTH_JOINER or unicodedata.category(here)[0] == "M":
        return True
    if "\U0001f3fb" <= here <= "\U0001f3ff" or "\u1160" <= here <= "\u11ff":
        return True
    if _is_flag_letter(here):
        letters = 0
        while letters < at and _is_flag_letter(text[at - 1 - letters]):
            letters += 1
            if letters > _LONGEST_CLUSTER:
                break
        return letters % 2 == 1
    return False


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


@cache
def _space_table() -> NDArray[np.bool_]:
    table = np.zeros(0x3001, dtype=np.bool_)
    for point in range(len(table)):
        table[point] = chr(point).isspace()
    return table


def _is_space(points: NDArray[np.uint32]) -> NDArray[np.bool_]:
    table = _space_table()
    return table[np.minimum(points, len(table) - 1)] & (points < len(table))
