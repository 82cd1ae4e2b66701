from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from zeroth_assets.corpus.model import Document, Page, Section
from zeroth_assets.corpus.quality import QUALITY_SCHEMA, covered, has_section_tree, lost_words, quality_frame, words
from zeroth_assets.corpus.rfc import parse_rfc
from zeroth_assets.corpus.sections import validate_document

DOCUMENT = Document(
    document_id="sec:1:10-k:2001",
    version="v",
    source="sec",
    title="T",
    text="0123456789",
    sections=(
        Section("", "Cover", 1, 0, 2, "front"),
        Section("1", "Business", 1, 2, 8, "item"),
        Section("1.1", "Products", 2, 4, 8, "section"),
    ),
    pages=(Page(1, 0, 5, True), Page(2, 5, 10, False)),
    dropped={"markup": 7},
    warnings=("w",),
)


def test_the_quality_table_has_a_row_per_source_with_shares_of_characters() -> None:
    bare = Document("rfc:1", "v", "rfc", "T", "words", pages=(Page(1, 0, 5, False),))
    table = quality_frame([DOCUMENT, bare])
    assert table.schema == QUALITY_SCHEMA
    assert table["source"].to_list() == ["rfc", "sec"]
    row = table.row(1, named=True)
    assert (row["share_in_section"], row["share_in_body_section"]) == (0.8, 0.6)
    assert (row["items_found"], row["pages_real"], row["pages_estimated"]) == (1, 1, 1)
    assert (row["characters_dropped"], row["dropped"]) == (7, [{"reason": "markup", "characters": 7}])
    assert (row["documents_with_section_tree"], row["warnings"]) == (1, 1)
    assert table.row(0, named=True)["documents_without_sections"] == 1


def test_no_documents_make_an_empty_table_with_the_same_columns() -> None:
    assert quality_frame([]).schema == QUALITY_SCHEMA


def test_nested_sections_are_not_counted_twice() -> None:
    assert covered(DOCUMENT) == 8
    assert covered(DOCUMENT, body=True) == 6
    assert has_section_tree(DOCUMENT)


def test_lost_words_are_counted_with_their_multiplicity() -> None:
    document = Document("rfc:1", "v", "rfc", "T", "to be or not")
    assert lost_words("to be or not to be", document) == Counter({"to": 1, "be": 1})
    assert lost_words("not or be to", document) == Counter()


# Independent of the parser: no pages and no learned running heads, only what these RFCs are known to print.
FOOTER = re.compile(
    r"^.*\[Page\s+[0-9ivxlc]+\s*\]?.*$|^ +August 13, 1982 +- \w+ - +RFC #822$", re.MULTILINE | re.IGNORECASE
)
HEADER = re.compile(r"\f\s*^(?:RFC \d+ .*|.* RFC \d+)$", re.MULTILINE)
EARLY_HEADS = {
    793: re.compile(r"(?<=\f)\s*September 1981\s+Transmission Control Protocol(?:\n +\S.*|\n\w.*)?$", re.MULTILINE),
    821: re.compile(r"^ *Simple Mail Transfer Protocol *$", re.MULTILINE),
    822: re.compile(r"^ *Standard for ARPA Internet Text Messages$", re.MULTILINE),
    951: re.compile(r"^ *Bootstrap Protocol *$", re.MULTILINE),
    958: re.compile(r"^ *Network Time Protocol *$", re.MULTILINE),
    974: re.compile(r"^ *Mail Routing and the Domain System *$", re.MULTILINE),
}


def plain(number: int, raw: bytes) -> str:
    text = raw.decode("latin-1" if number == 1305 else "utf-8-sig")
    text = HEADER.sub("\n", FOOTER.sub("", re.sub(".\x08", "", text)))
    return EARLY_HEADS[number].sub("", text) if number in EARLY_HEADS else text


@pytest.mark.mirror
def test_all_rfcs_have_a_section_tree_and_lose_no_word_of_their_body(mirror: Path) -> None:
    documents: list[Document] = []
    lost: dict[int, Counter[str]] = {}
    for path in sorted((mirror / "rfc").glob("rfc[0-9]*.txt")):
        raw = path.read_bytes()
        number = int(path.stem[3:])
        document = parse_rfc(f"rfc:{number}", "v", path.stem, raw)
        validate_document(document)
        documents.append(document)
        if missing := lost_words(plain(number, raw), document):
            lost[number] = missing
    assert len(documents) == 703
    assert {number: dict(missing) for number, missing in lost.items()} == {}
    row = quality_frame(documents).row(0, named=True)
    assert row["documents_with_section_tree"] >= 0.99 * 703
    assert row["share_in_section"] > 0.99
    assert row["documents_with_real_pages"] == 703 - 75


def test_words_are_runs_of_letters_and_digits() -> None:
    assert words("A-b, a_b 42!") == Counter(["A", "b", "a_b", "42"])
