"""Cutting a stretch of text into windows of tokens.

What belongs here: the one algorithm behind both chunkers. A chunker says which stretches, which places are better
cuts than others, and which must not be cut; what is said here is how windows advance, overlap and are made to fit.

Tokens are counted twice. The whole text is tokenised once, and a window's end is looked up in the token starts. Then
the text that was cut is tokenised by itself, since a slice may hold more tokens than its stretch of the whole did,
and a window that does not fit is shortened until it does.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from zeroth_assets.chunking.boundaries import Words, cluster_start, next_cluster_start
from zeroth_assets.chunking.tokens import IntArray, Tokenizer
from zeroth_assets.errors import ChunkingError

# A word that the vocabulary does not know is one token however long it is. This bounds a window in characters, so
# that a megabyte without a space does not become one chunk.
CHARACTERS_PER_TOKEN = 16

_NOWHERE: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Window:
    """`text[start:end]`, which the encoder reads as `tokens` tokens, special ones included."""

    start: int
    end: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Places:
    """Where a chunker would rather cut.

    `ends` are sets of places in order of preference, each with the share of a window that must be filled for it to be
    taken. `restarts` are places where the overlap may begin, in order of preference; `clean` are cuts that need no
    overlap if nothing of the first kind of restart lies within it.
    """

    ends: tuple[tuple[IntArray, float], ...] = ()
    restarts: tuple[IntArray, ...] = ()
    clean: IntArray = field(default_factory=lambda: _NOWHERE)


class Cutter:
    """Cuts stretches of one text. `counts` tells afterwards what was dropped, shortened and split."""

    def __init__(
        self, text: str, tokenizer: Tokenizer, size: int, overlap: int, words: Words, starts: IntArray
    ) -> None:
        self._content = size - tokenizer.special_tokens
        if self._content < 1 or not 0 <= overlap < self._content:
            raise ChunkingError(
                f"Windows of {size} tokens with an overlap of {overlap} cannot be cut",
                expected=f"room beside {tokenizer.special_tokens} special tokens, and an overlap below that room",
                found=f"room for {self._content}",
                remedy="choose a larger size or a smaller overlap",
            )
        self._text = text
        self._tokenizer = tokenizer
        self._size = size
        self._overlap = overlap
        self._words = words
        self._starts = starts
        self._cap = self._content * CHARACTERS_PER_TOKEN
        self.counts: Counter[str] = Counter()

    def fits(self, start: int, end: int) -> bool:
        """Whether `text[start:end]` fits into one window, by the tokens of the whole text."""
        return self._between(start, end) <= self._content and end - start <= self._cap

    def cut(self, stretches: list[tuple[int, int]], places: Places) -> list[list[Window]]:
        """Windows of each stretch, in order, none wholly inside the one before, every non-space character in one.

        Raises:
            ChunkingError: one single character is more tokens than a window holds.
        """
        planned = [self._plan(start, end, None, places, limit=None) for start, end in stretches]
        tokens = iter(self._tokenizer.counts([self._text[s:e] for plan in planned for s, e in plan]))
        result: list[list[Window]] = []
        for (_, end), plan in zip(stretches, planned, strict=True):
            windows = [Window(s, e, next(tokens)) for s, e in plan]
            if any(window.tokens > self._size for window in windows):
                windows = self._cut_carefully(windows, end, places)
            self._note(windows)
            result.append(windows)
        return result

    def _cut_carefully(self, planned: list[Window], end: int, places: Places) -> list[Window]:
        """Accept windows up to the first that is too long, shorten that, plan on from there; and so on."""
        accepted: list[Window] = []
        ahead = 8
        while planned:
            for window in planned:
                if window.tokens <= self._size:
                    accepted.append(window)
                    continue
                self.counts["shortened"] += 1
                ahead = 1
                former = accepted[-1].end if accepted else -1
                shorter = self._shorten(window, end, places)
                if shorter.end > former:
                    accepted.append(shorter)
                    plan = self._plan(shorter.start, end, shorter.end, places, ahead)
                else:
                    plan = self._plan(window.start, end, former, places, ahead)
                break
            else:
                ahead = min(2 * ahead, 64)
                last = accepted[-1]
                plan = self._plan(last.start, end, last.end, places, ahead)
            tokens = self._tokenizer.counts([self._text[s:e] for s, e in plan])
            planned = [Window(s, e, n) for (s, e), n in zip(plan, tokens, strict=True)]
        return accepted

    def _plan(
        self, start: int, end: int, former: int | None, places: Places, limit: int | None
    ) -> list[tuple[int, int]]:
        """Up to `limit` windows by the tokens of the whole text.

        With `former` None the first window begins at `start`. Otherwise windows go on after one that began at `start`
        and ended at `former`.
        """
        plan: list[tuple[int, int]] = []
        solid_end = self._words.trim_end(end)
        while limit is None or len(plan) < limit:
            at = self._words.next_start(start) if former is None else self._restart(start, former, solid_end, places)
            if at is None or at >= solid_end:
                break
            stop = self._words.trim_end(self._end(at, end, self._content, places))
            # An overlap that leaves no room for what comes next is given up, place by place.
            while former is not None and stop <= former:
                at = self._restart(at, former, solid_end, places)
                if at is None:
                    return plan
                stop = self._words.trim_end(self._end(at, end, self._content, places))
            plan.append((at, stop))
            start, former = at, stop
        return plan

    def _end(self, start: int, end: int, budget: int, places: Places) -> int:
        """Where a window from `start` ends if it may hold `budget` tokens."""
        first = int(np.searchsorted(self._starts, start))
        limit = int(self._starts[first + budget]) if first + budget < len(self._starts) else end
        limit = max(start + 1, min(limit, start + self._cap))
        if limit >= end:
            return end
        for candidates, fill in places.ends:
            place = _last(candidates, limit)
            if place is not None and place > start + fill * (limit - start):
                return place
        if not self._words.splits(limit):
            return limit
        word = int(np.searchsorted(self._words.starts, limit, side="right")) - 1
        place = int(self._words.starts[word])
        if place > start and self.fits(place, int(self._words.ends[word])):
            return place
        return cluster_start(self._text, limit, start)

    def _restart(self, start: int, former: int, end: int, places: Places) -> int | None:
        """Where the window after `[start, former)` begins: after `start`, at most `overlap` tokens before `former`."""
        if former >= end:
            return None
        following = self._words.next_start(former)
        if self._overlap == 0:
            return following
        last = int(np.searchsorted(self._starts, former))
        reach = former - self._overlap * CHARACTERS_PER_TOKEN
        low = max(start + 1, reach, int(self._starts[max(0, last - self._overlap)]) if last else 0)
        if low >= former:
            return following
        for rank, candidates in enumerate(places.restarts):
            index = int(np.searchsorted(candidates, low))
            if index < len(candidates) and candidates[index] < former:
                return int(candidates[index])
            if rank == 0 and following is not None and _holds(places.clean, following):
                return following
        if self._words.splits(former):
            return next_cluster_start(self._text, low, former)
        return following

    def _shorten(self, window: Window, end: int, places: Places) -> Window:
        """Lower the budget, then the length in characters, until the cut text fits by itself."""
        budget = min(self._content, self._between(window.start, window.end))
        step = 0
        while window.tokens > self._size:
            if budget > 1:
                step = max(2 * step, window.tokens - self._size)
                budget = max(1, budget - step)
                stop = self._end(window.start, end, budget, places)
            elif window.end - window.start > 1:
                half = window.start + (window.end - window.start) // 2
                stop = cluster_start(self._text, half, window.start)
            else:
                raise ChunkingError(
                    f"The character {self._text[window.start]!r} does not fit into a window",
                    expected=f"at most {self._size} tokens",
                    found=f"{window.tokens}",
                    remedy="choose a larger size",
                )
            stop = self._words.trim_end(stop)
            window = Window(window.start, stop, self._tokenizer.counts([self._text[window.start : stop]])[0])
        return window

    def _between(self, start: int, end: int) -> int:
        return int(np.searchsorted(self._starts, end) - np.searchsorted(self._starts, start))

    def _note(self, windows: list[Window]) -> None:
        """Count what a plain stepper would have added, and the words that were too long."""
        if not windows:
            return
        last = windows[-1]
        if last.tokens - self._tokenizer.special_tokens > self._content - self._overlap:
            self.counts["tail_windows_dropped"] += 1
        self.counts["words_split"] += sum(self._words.splits(window.end) for window in windows[:-1])


def _last(places: IntArray, limit: int) -> int | None:
    index = int(np.searchsorted(places, limit, side="right"))
    return int(places[index - 1]) if index else None


def _holds(places: IntArray, place: int) -> bool:
    index = int(np.searchsorted(places, place))
    return index < len(places) and int(places[index]) == place
