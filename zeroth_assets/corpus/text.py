"""From bytes to characters, for every source alike.

What belongs here: decoding, newlines, characters that cannot be stored, and pages for texts that print none.
Nothing here knows what an RFC, a contract or a filing looks like.
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from zeroth_assets.corpus.model import Page
from zeroth_assets.errors import ParseError

REPLACEMENT = "\ufffd"
ESTIMATED_PAGE_LINES = 58
ESTIMATED_PAGE_CHARACTERS = 3_000

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_NEWLINE = re.compile("\r\n?")
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text of a document before any structure is read.

    `dropped` counts the characters of the decoded bytes that are not in `text`, by reason.
    """

    text: str
    encoding: str
    dropped: dict[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def _read_as_windows_1252(error: UnicodeError) -> tuple[str, int]:
    """Read each byte that is not UTF-8 alone, so that one stray byte does not turn the rest into mojibake."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    stray = error.object[error.start : error.end]
    return "".join(bytes([byte]).decode("cp1252", errors="zeroth-latin-1") for byte in stray), error.end


def _read_as_latin_1(error: UnicodeError) -> tuple[str, int]:
    """The five bytes that Windows-1252 leaves open are control characters in Latin-1."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error("zeroth-latin-1", _read_as_latin_1)
codecs.register_error("zeroth-windows-1252", _read_as_windows_1252)


def replace_unstorable(text: str) -> tuple[str, int]:
    """Put U+FFFD for NUL and for lone surrogates, one for one; return the text and how many there were.

    PostgreSQL stores neither, and UTF-8 has no form for the second.
    """
    return _UNSTORABLE.subn(REPLACEMENT, text)


def normalise_newlines(text: str) -> tuple[str, int]:
    """Turn CRLF and a lone CR into LF; return the text and the number of characters that this removed."""
    if "\r" not in text:
        return text, 0
    normal = _NEWLINE.sub("\n", text)
    return normal, len(text) - len(normal)


def decode(raw: bytes, *, declared: str | None = None, newlines: bool = True) -> Decoded:
    """Decode a document's bytes: by its byte order mark, else as `declared`, else as UTF-8.

    Bytes that are not UTF-8 are read as Windows-1252 one by one, with a warning that counts them. With `newlines`
    False the characters stay as they are, one for one, for sources whose labels count characters.

    Raises:
        ParseError: `declared` names no known encoding.
    """
    dropped: dict[str, int] = {}
    warnings: list[str] = []
    text, encoding = _decode_bytes(raw, declared, dropped, warnings)
    if newlines:
        text, removed = normalise_newlines(text)
        if removed:
            dropped["carriage_return"] = removed
    text, replaced = replace_unstorable(text)
    if replaced:
        warnings.append(f"{replaced} NUL or lone surrogate characters replaced by U+FFFD")
    return Decoded(text, encoding, dropped, tuple(warnings))


def _decode_bytes(raw: bytes, declared: str | None, dropped: dict[str, int], warnings: list[str]) -> tuple[str, str]:
    encoding = declared or "utf-8"
    for mark, name in _BOMS:
        if raw.startswith(mark):
            raw, encoding = raw[len(mark) :], name
            dropped["byte_order_mark"] = 1
            break
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise ParseError(
            f"Unknown encoding {encoding!r}", expected="a name that Python's codecs know", remedy="Correct the record"
        ) from None
    try:
        return raw.decode(encoding), encoding
    except UnicodeDecodeError:
        pass
    try:
        # UTF-8 of lone surrogates, which some exporters write: kept as characters, replaced by the caller.
        return raw.decode(encoding, errors="surrogatepass"), encoding
    except (UnicodeDecodeError, UnicodeError):
        pass
    if encoding.startswith("utf-16"):
        warnings.append("Damaged UTF-16: unreadable units replaced by U+FFFD")
        return raw.decode(encoding, errors="replace"), encoding
    text = raw.decode("utf-8", errors="zeroth-windows-1252")
    stray = len(raw) - len(raw.decode("utf-8", errors="ignore").encode())
    warnings.append(f"{stray} bytes are not {encoding}; read as Windows-1252")
    return text, "windows-1252" if stray else encoding


def line_starts(text: str) -> list[int]:
    """Offset of the first character of every line; lines end at LF alone."""
    return [0, *(match.end() for match in re.finditer("\n", text))]


def iter_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each line with the offset at which it starts, without its LF."""
    start = 0
    for line in text.split("\n"):
        yield start, line
        start += len(line) + 1


def estimate_pages(
    text: str, *, lines: int = ESTIMATED_PAGE_LINES, characters: int = ESTIMATED_PAGE_CHARACTERS
) -> tuple[Page, ...]:
    """Cut a text that prints no pages into pages of about `lines` lines or `characters` characters.

    Cuts fall on line starts; a line longer than a page is cut at a space where it has one. All pages have
    `real=False`. An empty text has no page.
    """
    cuts = [0]
    count = 0
    for start, line in iter_lines(text):
        if start > cuts[-1] and (count >= lines or start + len(line) - cuts[-1] > characters):
            cuts.append(start)
            count = 0
        count += 1
        while start + len(line) - cuts[-1] > characters:
            limit = cuts[-1] + characters
            space = text.rfind(" ", cuts[-1] + characters // 2, limit)
            cuts.append(space + 1 if space >= 0 else limit)
            count = 1
    if cuts[-1] < len(text):
        cuts.append(len(text))
    return tuple(
        Page(number, start, end, real=False) for number, (start, end) in enumerate(itertools.pairwise(cuts), start=1)
    )
