"""From a Form 10-K, as filed, to a `Document`.

What belongs here: the order of the steps and the assembly of lines into canonical text with sections, pages and
blocks. HTML is read in `tenk_html`, the SGML envelope and text filings in `tenk_text`, headings in `tenk_items`,
the form itself stands in `tenk_forms`.

The canonical text has a line per paragraph, heading or table row; the cells of a row are kept apart by a
tab, an empty one of a column that other rows fill by its tab alone.
Sections: "front" (cover and contents), the Parts where they are printed, the Items within them, signatures, what
follows them as "appendix", and each other document of the submission as "exhibit". A heading that opens several
Items is one section whose number is as printed ("1 and 2"); `section_items` names them one by one.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from zeroth_assets.corpus.model import Block, Document, Page, Section
from zeroth_assets.corpus.tenk_forms import item_numbers
from zeroth_assets.corpus.tenk_items import Heading, belongs, find_headings
from zeroth_assets.corpus.tenk_lines import Line, drop_furniture
from zeroth_assets.corpus.tenk_text import Submitted, extract_document, split_submission
from zeroth_assets.corpus.text import Decoded, decode, estimate_pages
from zeroth_assets.errors import ParseError

TENK_PARSER_VERSION = "2"

_BINARY = (b"%PDF", b"PK\x03\x04", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"\x1f\x8b", b"BZh", b"\xd0\xcf\x11\xe0")
_CONTROLS = re.compile("[\x01-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f\ufffd]")
_SAMPLE = 200_000
_AFTER_SIGNATURES = re.compile(
    r"^\W*(?:index to (?:the )?(?:consolidated )?financial statements.{0,80}|exhibit index|index (?:to|of) exhibits"
    r"|powers? of attorney|reports? of independent .{0,80}|certifications?"
    r"|(?:financial statement )?schedule [ivx]+\b.{0,80})\W*$",
    re.IGNORECASE,
)
_RUNS_ON = re.compile(r"[\w,;–—-]$")


def section_items(section: Section) -> tuple[str, ...]:
    """The Items that a section of kind "item" holds: one, or several where the heading is combined."""
    return item_numbers(section.number) if section.kind == "item" else ()


@dataclass(slots=True)
class _Assembly:
    """Canonical text as it grows, and where each kept line of the document at hand begins and ends."""

    parts: list[str]
    length: int
    pages: list[int]
    sections: list[Section]
    blocks: list[Block]
    dropped: Counter[str]

    def append(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text)


def parse_tenk(document_id: str, version: str, title: str, raw: bytes, media_type: str) -> Document:
    """Parse a Form 10-K (10-K405, 10-K/A, ...) from HTML, inline XBRL or an SGML text submission.

    The bytes decide how they are read; `media_type` only has to be one of text.

    Raises:
        ParseError: the bytes are empty, binary, or hold no text that a reader would see.
    """
    text = _readable(document_id, raw, media_type)
    warnings = list(text.warnings)
    documents, envelope = split_submission(text.text)
    readable = [document for document in documents if document.is_text]
    main = next((document for document in readable if document.is_main), readable[0] if readable else None)
    dropped = Counter(text.dropped) + Counter(envelope)
    for document in documents:
        if not document.is_text:
            dropped["non_text_document"] += len(document.body)
    assembly = _Assembly([], 0, [], [], [], dropped)
    real_pages = False
    for document in readable:
        extracted = extract_document(document)
        assembly.dropped.update(extracted.dropped)
        real_pages |= extracted.real_pages and document is main
        lines = drop_furniture(extracted.lines)
        for line in lines:
            if line.dropped:
                assembly.dropped[line.dropped] += len(line.text)
        kept = [line for line in lines if not line.dropped]
        start = assembly.length
        headings: list[Heading] = []
        if document is main:
            headings, found = find_headings(kept)
            warnings.extend(found)
        offsets = _append_lines(assembly, kept)
        if document is main:
            assembly.sections.extend(_sections(kept, headings, offsets, start, assembly.length))
        elif assembly.length > start:
            assembly.sections.append(_exhibit(document, kept, start, assembly.length))
    canonical = "".join(assembly.parts)
    if not canonical.strip():
        raise ParseError(
            f"No visible text in {document_id}",
            expected="a Form 10-K in HTML or text",
            found=f"{len(raw)} bytes without a word that a reader would see",
            remedy="Fetch the filing again, or correct its manifest record",
        )
    pages = _pages(assembly.pages, len(canonical)) if real_pages else estimate_pages(canonical)
    return Document(
        document_id=document_id,
        version=version,
        source="sec",
        title=title,
        text=canonical,
        sections=tuple(assembly.sections),
        pages=pages,
        blocks=tuple(assembly.blocks),
        dropped={reason: count for reason, count in sorted(assembly.dropped.items()) if count},
        warnings=tuple(warnings),
        parser_version=TENK_PARSER_VERSION,
    )


def _readable(document_id: str, raw: bytes, media_type: str) -> Decoded:
    kind = media_type.split(";")[0].strip().lower()
    if kind and not (kind.startswith("text/") or "html" in kind or "xml" in kind or "sgml" in kind):
        raise ParseError(
            f"{document_id} is not a text document",
            expected="HTML or plain text",
            found=media_type,
            remedy="Correct the record's media type, or name the filing's main document",
        )
    if not raw.strip():
        raise ParseError(
            f"{document_id} is empty",
            expected="a Form 10-K in HTML or text",
            found=f"{len(raw)} bytes",
            remedy="Fetch the filing again",
        )
    decoded = decode(raw)
    sample = decoded.text[:_SAMPLE]
    if raw.startswith(_BINARY) or len(_CONTROLS.findall(sample)) > 8 + 0.02 * len(sample):
        raise ParseError(
            f"{document_id} is binary",
            expected="HTML or plain text",
            found=f"bytes that begin {raw[:8]!r}",
            remedy="Fetch the filing's main document, not a picture, an archive or a PDF of it",
        )
    return decoded


def _append_lines(assembly: _Assembly, lines: Sequence[Line]) -> list[tuple[int, int]]:
    """Append lines to the canonical text; return each line's range.

    A line ends with a newline, save where a page break cuts a sentence: there a space, so that it stays whole.
    """
    offsets: list[tuple[int, int]] = []
    page: int | None = None
    table_start, table_end, table = 0, 0, 0
    for index, line in enumerate(lines):
        start = assembly.length
        if line.page != page and line.text:
            if not assembly.pages or assembly.pages[-1] != start:
                assembly.pages.append(start)
            page = line.page
        runs_on = _runs_on(lines, index)
        if runs_on:
            assembly.append(line.text + " ")
        elif line.text or not _between_halves(lines, index):
            assembly.append(line.text + "\n")
        end = start + len(line.text)
        offsets.append((start, end))
        if table and line.table != table:
            assembly.blocks.append(Block("table", table_start, table_end))
            table = 0
        if line.row:
            if not table:
                table_start, table = start, line.table
            table_end = end
            assembly.blocks.append(Block("table_row", start, end))
        elif line.list_item:
            assembly.blocks.append(Block("list_item", start, end))
    if table:
        assembly.blocks.append(Block("table", table_start, table_end))
    return offsets


def _following_text(lines: Sequence[Line], index: int) -> Line | None:
    return next((line for line in lines[index + 1 : index + 4] if line.text), None)


def _runs_on(lines: Sequence[Line], index: int) -> bool:
    """Whether the sentence at the foot of a page goes on at the head of the next."""
    line = lines[index]
    following = _following_text(lines, index)
    if following is None or following.page == line.page or line.row or following.row or following.list_item:
        return False
    return len(line.text) > 40 and bool(_RUNS_ON.search(line.text)) and following.text.lstrip()[:1].islower()


def _between_halves(lines: Sequence[Line], index: int) -> bool:
    """Whether a blank line lies between the halves of a sentence that a page break cut."""
    above = next((at for at in range(index - 1, max(-1, index - 4), -1) if lines[at].text), None)
    return above is not None and _runs_on(lines, above)


def _sections(
    lines: Sequence[Line], headings: Sequence[Heading], offsets: Sequence[tuple[int, int]], start: int, end: int
) -> list[Section]:
    if not headings:
        return []
    starts = [offsets[heading.first][0] for heading in headings]
    sections: list[Section] = []
    if starts[0] > start:
        sections.append(Section("", "Cover and contents", 1, start, starts[0], "front"))
    in_part = 0
    for at, heading in enumerate(headings):
        begin = starts[at]
        following = starts[at + 1] if at + 1 < len(starts) else end
        if heading.kind == "part":
            until = at + 1
            while until < len(headings) and belongs(headings[until], heading):
                until += 1
            part_end = starts[until] if until < len(starts) else end
            sections.append(Section("", heading.printed, 1, begin, part_end, "part"))
            in_part = until
        elif heading.kind == "item":
            sections.append(Section(heading.printed, heading.title, 2 if at < in_part else 1, begin, following, "item"))
        else:
            sections.extend(_signatures(lines, heading, offsets, following))
    return sections


def _signatures(lines: Sequence[Line], heading: Heading, offsets: Sequence[tuple[int, int]], end: int) -> list[Section]:
    """The signatures, and one appendix for each index, report, schedule or certificate printed after them."""
    cuts = [heading.first]
    titles = [heading.title]
    for at in range(heading.last + 1, len(lines)):
        text = lines[at].plain
        if _AFTER_SIGNATURES.match(text) and not (lines[at].row or lines[at].linked or text[-1:].isdigit()):
            if text == titles[-1]:
                continue
            cuts.append(at)
            titles.append(text)
    bounds = [*(offsets[cut][0] for cut in cuts), end]
    return [
        Section("", title, 1, bounds[at], bounds[at + 1], "appendix" if at else "signature")
        for at, title in enumerate(titles)
    ]


def _exhibit(document: Submitted, lines: Sequence[Line], start: int, end: int) -> Section:
    first = next((line.plain for line in lines if line.text), "")
    return Section(document.type or "EX", document.description or first[:80], 1, start, end, "exhibit")


def _pages(starts: Sequence[int], end: int) -> tuple[Page, ...]:
    """Pages that cover the text, from where each one's first line begins."""
    cuts = sorted({0, *starts[1:], end}) if starts else [0, end]
    return tuple(
        Page(number, begin, until, real=True) for number, (begin, until) in enumerate(itertools.pairwise(cuts), start=1)
    )
