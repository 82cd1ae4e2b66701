from __future__ import annotations

import dataclasses

import pytest

from zeroth_assets.corpus.model import Block, Document, Page, Section
from zeroth_assets.corpus.sections import build_sections, validate_document
from zeroth_assets.errors import ParseError

SOUND = Document(
    document_id="rfc:1",
    version="v",
    source="rfc",
    title="T",
    text="0123456789",
    sections=(
        Section("1", "A", 1, 0, 6, "section"),
        Section("1.1", "B", 2, 2, 6, "section"),
        Section("2", "C", 1, 6, 10, "section"),
    ),
    pages=(Page(1, 0, 4, True), Page(3, 4, 10, True)),
    blocks=(Block("code", 3, 5),),
)


def test_a_section_ends_where_the_next_of_its_level_or_above_starts() -> None:
    sections = build_sections(
        [(2, "1", "One", 1, "section"), (4, "1.1", "Deep", 2, "section"), (8, "2", "Two", 1, "section")],
        10,
        front_title="Front",
    )
    assert [(s.number, s.level, s.start, s.end) for s in sections] == [
        ("", 1, 0, 2),
        ("1", 1, 2, 8),
        ("1.1", 2, 4, 8),
        ("2", 1, 8, 10),
    ]


def test_a_level_that_was_skipped_is_closed_up() -> None:
    sections = build_sections([(0, "1", "", 1, "section"), (3, "1.1.1", "", 3, "section")], 9)
    assert [s.level for s in sections] == [1, 2]


def test_a_sound_document_passes() -> None:
    validate_document(SOUND)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"text": "01234\x006789"}, "its text"),
        ({"text": "01234\ud8006789"}, "its text"),
        ({"sections": (Section("1", "A", 1, 0, 11, "section"),)}, "section '1 A'"),
        ({"sections": (Section("1", "A", 1, 4, 4, "section"),)}, "section '1 A'"),
        ({"sections": (Section("2", "", 1, 5, 9, "section"), Section("1", "", 1, 0, 5, "section"))}, "section '1'"),
        ({"sections": (Section("1", "", 1, 0, 5, "section"), Section("2", "", 2, 4, 9, "section"))}, "section '2'"),
        ({"sections": (Section("1", "", 1, 0, 5, "section"), Section("2", "", 2, 5, 9, "section"))}, "section '2'"),
        ({"sections": (Section("", " ", 1, 0, 5, "section"),)}, "a section at 0"),
        ({"pages": (Page(1, 0, 4, True), Page(2, 5, 10, True))}, "page 2"),
        ({"pages": (Page(1, 0, 4, True), Page(1, 4, 10, True))}, "page 1"),
        ({"pages": (Page(1, 0, 4, True),)}, "its pages"),
        ({"pages": ()}, "its pages"),
        ({"blocks": (Block("table", 9, 11),)}, "a table"),
        ({"blocks": (Block("code", 3, 3),)}, "a code"),
    ],
)
def test_each_broken_contract_is_named(change: dict[str, object], named: str) -> None:
    with pytest.raises(ParseError) as caught:
        validate_document(dataclasses.replace(SOUND, **change))  # type: ignore[arg-type]
    assert f"rfc:1: {named} breaks" in caught.value.what
