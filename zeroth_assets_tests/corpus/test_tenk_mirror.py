"""The 10-K parser against real filings: Items against a table made by reading, words against another parser."""

from __future__ import annotations

import functools
import json
import re
import resource
import time
from collections import Counter
from pathlib import Path
from typing import Any

import lxml.html  # type: ignore[import-untyped]
import pytest

from zeroth_assets.corpus import tenk_text
from zeroth_assets.corpus.model import Document, documents_from_frame, documents_to_frame
from zeroth_assets.corpus.tenk import parse_tenk, section_items
from zeroth_assets.corpus.tenk_lines import drop_furniture
from zeroth_assets.corpus.text import decode
from zeroth_assets_tests.corpus.test_tenk import check

pytestmark = pytest.mark.mirror

TABLE: dict[str, Any] = json.loads(Path(__file__).with_name("tenk_items_expected.json").read_text("utf-8"))
FILINGS = [(filing["file"], filing) for filing in TABLE["filings"]]
WORD = re.compile(r"\w+")
ZERO_WIDTH = re.compile("[\u200b\u2060\ufeff\u00ad]")
HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
SPACED = re.compile(r"padding-left|margin-left|inline-block", re.IGNORECASE)
PARSER = lxml.html.HTMLParser(remove_comments=True, huge_tree=True)
INLINE = frozenset(("a", "b", "big", "em", "font", "i", "s", "small", "span", "strong", "sub", "sup", "tt", "u"))


SECONDS: dict[str, float] = {}


@functools.cache
def parsed(path: Path) -> Document:
    media_type = "text/plain" if path.suffix == ".txt" else "text/html"
    raw = path.read_bytes()
    started = time.process_time()
    document = parse_tenk(f"sec:{path.stem.lower()}", "0" * 64, path.stem, raw, media_type)
    SECONDS[path.stem] = time.process_time() - started
    return document


def filings(mirror: Path) -> list[Path]:
    return sorted((mirror / "sec").glob("*/*"))


def other_text(markup: str) -> str:
    """A filing's visible text by lxml: an extraction that shares no code with the parser's."""
    start, end = re.search(r"<text>", markup, re.IGNORECASE), markup.lower().rfind("</text>")
    if start:
        markup = markup[start.end() : end if end > 0 else None]
    tree = lxml.html.document_fromstring(re.sub(r"^\s*<\?xml[^>]*\?>", "", markup).strip(), parser=PARSER)
    for element in tree.xpath("//head | //*[name()='ix:header'] | //*[contains(@style, 'i')] | //comment()"):
        style = element.get("style") or "" if isinstance(element.tag, str) else ""
        if (
            element.tag == "head"
            or not isinstance(element.tag, str)
            or "ix:header" in element.tag
            or HIDDEN.search(style)
        ):
            element.drop_tree()
        elif SPACED.search(style):
            element.text = " " + (element.text or "")
    for element in tree.iter():
        if element.tag not in INLINE and not element.tag.startswith("ix:"):
            element.text = " " + (element.text or "")
            element.tail = " " + (element.tail or "")
    text = ZERO_WIDTH.sub("", tree.text_content())
    return text.translate({code: bytes([code]).decode("cp1252", "replace") for code in range(0x80, 0xA0)})


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def test_the_table_covers_filings_of_every_style() -> None:
    assert len(FILINGS) >= 25
    years = {match[1] for file, _ in FILINGS if (match := re.search(r"_10-K_(\d{4})", file))}
    assert len(years) >= 12
    assert "not by the parser" in TABLE["how"]


@pytest.mark.parametrize("number", ["1", "1A", "7", "8"])
def test_items_that_filings_print_are_found_in_at_least_95_in_100(mirror: Path, number: str) -> None:
    printing = [file for file, filing in FILINGS if any(number in row["items"] for row in filing["headings"])]
    found = [file for file in printing if sum(number in section_items(s) for s in parsed(mirror / file).sections) == 1]
    assert len(printing) >= 20
    assert len(found) >= 0.95 * len(printing), sorted(set(printing) - set(found))


@pytest.mark.parametrize(("file", "filing"), FILINGS, ids=[file.split("/")[-1][:20] for file, _ in FILINGS])
def test_sections_are_the_headings_that_a_reader_saw_with_their_first_words(
    mirror: Path, file: str, filing: dict[str, Any]
) -> None:
    document = parsed(mirror / file)
    sections = {section_items(s): s for s in document.sections if s.kind == "item"}
    assert list(sections) == [tuple(row["items"]) for row in filing["headings"]]
    for row in filing["headings"]:
        section = sections[tuple(row["items"])]
        expected = WORD.findall(f"{row['heading']} {row['first_words']}")
        assert WORD.findall(document.text[section.start : section.end])[: len(expected)] == expected
        title = WORD.findall(section.title)
        assert WORD.findall(row["heading"])[-len(title) :] == title


def test_a_filing_with_only_an_index_says_so(mirror: Path) -> None:
    [file] = [file for file, filing in FILINGS if not filing["headings"]]
    assert "No Item heading found" in " ".join(parsed(mirror / file).warnings)


POINTERS = {
    ("sec/TXT/TXT_10-K_2001-12-29_0000950135-02-001340.txt", "7"): (
        "ITEM 7. MANAGEMENT'S DISCUSSION AND ANALYSIS OF FINANCIAL CONDITION AND RESULTS OF OPERATIONS "
        '"Management\'s Discussion and Analysis," appearing on pages 19 through 32 of our 2001 Annual Report to '
        "Shareholders is incorporated by reference into this Annual Report on Form 10-K."
    ),
    ("sec/WFC/WFC_10-K_2008-12-31_0000950134-09-003967.htm", "8"): (
        "ITEM 8. FINANCIAL STATEMENTS AND SUPPLEMENTARY DATA Information in response to this Item 8 can be found in "
        "the 2008 Annual Report to Stockholders under “Financial Statements” on pages 86-164 and under “Quarterly "
        "Financial Data” on page 165. That information is incorporated into this report by reference."
    ),
}


@pytest.mark.parametrize(("file", "number"), list(POINTERS))
def test_an_item_that_points_to_an_exhibit_holds_only_its_pointer(mirror: Path, file: str, number: str) -> None:
    document = parsed(mirror / file)
    [section] = [s for s in document.sections if section_items(s) == (number,)]
    assert " ".join(document.text[section.start : section.end].split()) == POINTERS[file, number]


def test_no_character_of_body_text_is_lost(mirror: Path) -> None:
    for path in filings(mirror):
        decoded = decode(path.read_bytes()).text
        documents, _ = tenk_text.split_submission(decoded)
        lines = [
            line
            for document in documents
            if document.is_text
            for line in drop_furniture(tenk_text.extract_document(document).lines)
        ]
        if path.suffix == ".htm":
            other = other_text(decoded)
            assert squeezed("".join(line.text for line in lines)) == squeezed(other), path.name
            words = Counter(word for line in lines for word in WORD.findall(line.text))
            assert words == Counter(WORD.findall(other)), path.name
        kept = squeezed("".join(line.text for line in lines if not line.dropped))
        assert squeezed(parsed(path).text) == kept, path.name
        dropped = sum(len(line.text) for line in lines if line.dropped)
        counted = parsed(path).dropped
        furniture = ("page_number", "contents_link", "running_header", "running_footer")
        assert sum(counted.get(reason, 0) for reason in furniture) == dropped
        assert dropped < 0.03 * len(parsed(path).text), path.name


def test_no_word_of_a_text_filing_is_lost_but_page_furniture(mirror: Path) -> None:
    tags = re.compile(r"</?[A-Z]{1,9}\d?>")
    for path in [path for path in filings(mirror) if path.suffix == ".txt"]:
        documents, _ = tenk_text.split_submission(decode(path.read_bytes()).text)
        raw = Counter(word for d in documents if d.is_text for word in WORD.findall(tags.sub(" ", d.body)))
        read = Counter(WORD.findall(tags.sub(" ", parsed(path).text)))
        assert not read - raw, path.name
        furniture = Counter(
            word
            for document in documents
            for line in drop_furniture(tenk_text.extract_document(document).lines)
            if line.dropped
            for word in WORD.findall(line.text)
        )
        assert raw - read == furniture, path.name


def test_every_document_keeps_its_promises_and_its_frame(mirror: Path) -> None:
    documents = [parsed(path) for path in filings(mirror)]
    for document in documents:
        check(document)
    restored = documents_from_frame(documents_to_frame(documents))
    assert {d.document_id: d for d in restored} == {d.document_id: d for d in documents}


def test_pages_are_real_in_every_filing_of_the_mirror(mirror: Path) -> None:
    for path in filings(mirror):
        document = parsed(path)
        assert all(page.real for page in document.pages), path.name
        assert len(document.text) / len(document.pages) < 8_000, path.name


def test_parsing_is_fast_and_small(mirror: Path) -> None:
    paths = filings(mirror)
    assert all(parsed(path).text for path in paths)
    assert len(SECONDS) == len(paths)
    assert sum(SECONDS.values()) < 45
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1_500_000
