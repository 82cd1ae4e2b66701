"""From a text to the terms that lexical search counts, and to where each of them stands.

What belongs here: named, versioned analysers and nothing that counts. An analyser is a pure function of one
whitespace-delimited word at a time, which is what lets an index analyse each distinct word once.

Rules, in order: words are what `str.split` gives; each is brought to NFKC and case-folded; hyphens that Unicode has
several of become `-`, apostrophes `'`, invisible format characters vanish. Then a term is, first match first,

- a number with thousands (`1,000,000.50`), a letter with `++` or `#`, two enumerators or more (`(a)(iii)`);
- letters, digits and marks, joined by single `- . / : @ & +` or underscores, with enumerators where a digit goes
  before them: `14.2`, `ERR-4012`, `10-K`, `TLS_AES_128_GCM_SHA256`, `2(a)(iii)`, `application/problem+json`;
- one ideograph or kana, or one symbol (`§`, `¶`, `€`, an emoji).

A closing `'s` is dropped. A compound analyser adds, after the whole, what people also call it by: the words between
the joins, the outer enumerators (`2(a)`, `2`), and letters and number of `RFC9110`, so that `RFC 9110` finds it. A
number has no parts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from zeroth_assets.errors import QueryError

# Longer terms are cut, in texts and queries alike: room for any identifier and for a hash in hex.
MAX_TERM = 256
# Beyond this, places inside a word whose length changes by normalisation are not worked out (it is quadratic).
_PLACED = 64

_LEANING = "()[].,;:!?\"'"
_MARK, _SYMBOL, _IDEOGRAPH = "\u0300", "§", "一"
_IDEOGRAPHS = ((0x3040, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3134F))

_ATOM = rf"[a-z0-9][a-z0-9{_MARK}]*(?:'[a-z0-9{_MARK}]+)*"
_ENUMERATOR = r"\([a-z0-9]{1,5}\)"
_TERM = re.compile(
    rf"(?P<number>(?<![a-z0-9])[0-9]{{1,3}}(?:,[0-9]{{3}})+(?:\.[0-9]+)?(?![a-z0-9]))"
    rf"|(?P<letter>(?<![a-z0-9])[a-z](?:\+\+|\#)(?![a-z0-9]))"
    rf"|(?P<enumerators>(?:{_ENUMERATOR}){{2,}})"
    rf"|(?P<word>{_ATOM}(?:(?:_+|[-./:@&+]){_ATOM})*)(?P<of>(?:(?<=[0-9])|(?<=[0-9][a-z]))(?:{_ENUMERATOR})+)?"
    rf"|(?P<one>[{_SYMBOL}{_IDEOGRAPH}])"
)
_WORD = re.compile(r"\S+")
_PART = re.compile(_ATOM)
_NUMERIC = re.compile(r"[0-9.:/-]+")
_LABELLED = re.compile(r"([a-z]{2,8})([0-9]{2,})")
_ENUMERATOR_END = re.compile(r"\)")

Span = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Token:
    """A term and the half-open range of the text that it comes from. Parts lie inside their whole."""

    term: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Analyser:
    """`parts`: compounds give their parts too. `stemmer`: None or `s`, for words of letters alone."""

    name: str
    version: str
    parts: bool
    stemmer: str | None = None

    @property
    def identity(self) -> str:
        """What an index records, and what a query must be analysed with."""
        return f"{self.name}/{self.version}"

    def analyse(self, text: str) -> list[Token]:
        """Terms of `text` in order of their start, a whole before its parts.

        >>> [t.term for t in ANALYSERS["compound"].analyse("See Section 2(a)(iii), RFC 9110 and § 14.2 of the 10-K")]
        ['see', 'section', '2(a)(iii)', '2(a)', '2', 'rfc', '9110', 'and', '§', '14.2', 'of', 'the', '10-k', '10']
        """
        return [token for word in _WORD.finditer(text) for token in self._tokens(word.group(), word.start())]

    def terms(self, word: str) -> list[str]:
        """Terms of one whitespace-delimited word, as `analyse` gives them."""
        if word.isascii():
            lower = word.lower()
            # Most words, with what punctuation leans on them, are letters alone and need no pattern.
            bare = lower.strip(_LEANING)
            if bare.isalpha():
                return [self._stemmed(bare[:MAX_TERM])]
            return [term for term, _, _ in self._spans(lower, lower)]
        normal = _normal(word)
        return [term for term, _, _ in self._spans(normal, normal.translate(_SHAPES))]

    def _tokens(self, word: str, at: int) -> Iterator[Token]:
        normal = word.lower() if word.isascii() else _normal(word)
        places = _places(word, normal)
        for term, start, end in self._spans(normal, normal.translate(_SHAPES)):
            yield Token(term, at + places[start][0], at + places[end][1])

    def _spans(self, normal: str, shape: str) -> Iterator[Span]:
        """Terms of a normalised word with their places in it; `shape` has one ASCII-like character for each."""
        for match in _TERM.finditer(shape):
            start, end = match.span()
            if match["word"] is None:
                yield normal[start:end][:MAX_TERM], start, end
                continue
            word_end = match.end("word")
            if match["of"] is None:
                end = word_end = _without_possessive(shape, start, end)
            whole = normal[start:end]
            yield self._stemmed(whole[:MAX_TERM]), start, end
            if self.parts and not (match["of"] is None and (whole.isalpha() or _NUMERIC.fullmatch(whole))):
                yield from self._parts(normal, shape, start, word_end, end)

    def _parts(self, normal: str, shape: str, start: int, word_end: int, end: int) -> Iterator[Span]:
        closings = [m.end() for m in _ENUMERATOR_END.finditer(shape, word_end, end)]
        outer = [*reversed(closings[:-1]), word_end] if closings else []
        for stop in outer:
            yield normal[start:stop][:MAX_TERM], start, stop
        atoms = [m.span() for m in _PART.finditer(shape, start, word_end)]
        if len(atoms) == 1:
            labelled = _LABELLED.fullmatch(normal, start, word_end)
            atoms = [labelled.span(1), labelled.span(2)] if labelled else []
        for first, stop in atoms:
            last = _without_possessive(shape, first, stop)
            if last - first > 1 or shape[first].isdigit():
                yield self._stemmed(normal[first:last][:MAX_TERM]), first, last

    def _stemmed(self, term: str) -> str:
        return _without_plural(term) if self.stemmer == "s" and term.isalpha() else term


# Raise a version when the analyser would give other terms for some text: indexes built before are then refused.
ANALYSERS: dict[str, Analyser] = {
    analyser.name: analyser
    for analyser in (
        Analyser("compound", "1", parts=True),
        Analyser("compound-s", "1", parts=True, stemmer="s"),
        Analyser("exact", "1", parts=False),
    )
}
DEFAULT_ANALYSER = "compound"


def analyser_named(name: str) -> Analyser:
    """The analyser of that name, or of that identity (`name/version`).

    Raises:
        QueryError: there is none, or it has another version.
    """
    analyser = ANALYSERS.get(name.partition("/")[0])
    if analyser is None or name not in (analyser.name, analyser.identity):
        raise QueryError(
            f"There is no analyser {name!r}",
            expected=", ".join(sorted(a.identity for a in ANALYSERS.values())),
            found=name,
            remedy="name one of these; an index of another version must be built again",
        )
    return analyser


class _Shapes(dict[int, str | None]):
    """For `str.translate`: each character by its kind. Filled as characters turn up."""

    def __missing__(self, code: int) -> str | None:
        kind = self[code] = _kind(chr(code))
        return kind


class _Folds(dict[int, int | str | None]):
    """For `str.translate`: hyphens and apostrophes to ASCII, invisible characters away, the rest as it is."""

    def __missing__(self, code: int) -> int | str | None:
        character = chr(code)
        fold: int | str | None = code
        if character in "\u2010\u2011\u2043\u2212":
            fold = "-"
        elif character in "\u2018\u2019\u02bc":
            fold = "'"
        elif character == "\u200b":
            fold = " "
        elif unicodedata.category(character) == "Cf" or 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF:
            fold = None
        self[code] = fold
        return fold


def _kind(character: str) -> str:
    code, category = ord(character), unicodedata.category(character)
    if code < 128:
        return character
    if any(first <= code <= last for first, last in _IDEOGRAPHS):
        return _IDEOGRAPH
    if character in "§¶" or category[0] == "S":
        return _SYMBOL
    return {"L": "x", "N": "0", "M": _MARK}.get(category[0], " ")


_SHAPES, _FOLDS = _Shapes(), _Folds()


def _normal(word: str) -> str:
    # Folding case and dropping characters can undo the normal form, and the other way round, so until all is settled.
    while True:
        normal = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold()).translate(_FOLDS)
        if normal == word:
            return normal
        word = normal


def _places(word: str, normal: str) -> list[tuple[int, int]]:
    """For each boundary in `normal`: where a term that starts there starts in `word`, and where one that ends, ends."""
    if len(word) == len(normal):
        return [(i, i) for i in range(len(word) + 1)]
    if len(word) > _PLACED:
        return [(0, len(word))] * (len(normal) + 1)
    reached = [min(len(_normal(word[:i])), len(normal)) for i in range(len(word))] + [len(normal)]
    starts = [max(i for i, r in enumerate(reached) if r <= at) for at in range(len(normal) + 1)]
    ends = [min(i for i, r in enumerate(reached) if r >= at) for at in range(len(normal) + 1)]
    return list(zip(starts, ends, strict=True))


def _without_possessive(shape: str, start: int, end: int) -> int:
    while end - start > 2 and shape.endswith("'s", start, end):
        end -= 2
    return end


def _without_plural(term: str) -> str:
    """The S stemmer (Harman 1991): plural endings of English and nothing else.

    >>> [_without_plural(t) for t in ("parties", "indices", "shoes", "class", "status", "keys")]
    ['party', 'indice', 'shoe', 'class', 'status', 'key']
    """
    if term.endswith("ies") and len(term) > 3 and not term.endswith(("eies", "aies")):
        return f"{term[:-3]}y"
    if term.endswith("es") and len(term) > 3 and not term.endswith(("aes", "ees", "oes")):
        return term[:-1]
    if term.endswith("s") and len(term) > 3 and not term.endswith(("us", "ss")):
        return term[:-1]
    return term
