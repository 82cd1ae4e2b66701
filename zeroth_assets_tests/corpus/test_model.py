from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zeroth_assets.corpus.model import (
    Block,
    Document,
    Page,
    Section,
    documents_from_frame,
    documents_to_frame,
    innermost_spans,
)

TEXT = "title\n1 One\nbody\n1.1 Sub\ndeep\n2 Two\nend"
SECTIONS = (
    Section("1", "One", 1, 6, 30, "section"),
    Section("1.1", "Sub", 2, 17, 30, "section"),
    Section("2", "Two", 1, 30, len(TEXT), "section"),
)


def document(sections: tuple[Section, ...] = SECTIONS) -> Document:
    return Document(
        document_id="rfc:1",
        version="a" * 64,
        source="rfc",
        title="T",
        text=TEXT,
        sections=sections,
        pages=(Page(1, 0, len(TEXT), False),),
        blocks=(Block("code", 12, 17),),
        dropped={"page header": 3},
        warnings=("no form feeds",),
        parser_version="1",
    )


def test_spans_carry_the_path_of_the_innermost_section() -> None:
    spans = innermost_spans(document())
    assert [(TEXT[s.start : s.end], s.path) for s in spans] == [
        ("title\n", ()),
        ("1 One\nbody\n", ("1 One",)),
        ("1.1 Sub\ndeep\n", ("1 One", "1.1 Sub")),
        ("2 Two\nend", ("2 Two",)),
    ]


@given(st.lists(st.tuples(st.integers(0, 41), st.integers(0, 41)), max_size=6))
def test_spans_cover_the_text_in_order_whatever_the_sections(ranges: list[tuple[int, int]]) -> None:
    sections = tuple(Section(str(i), "", 1, min(r), max(r), "section") for i, r in enumerate(sorted(ranges)))
    spans = innermost_spans(document(sections))
    assert "".join(TEXT[s.start : s.end] for s in spans) == TEXT
    assert all(s.start < s.end for s in spans)


def test_a_document_survives_the_frame() -> None:
    assert documents_from_frame(documents_to_frame([document()])) == [document()]


def test_an_empty_frame_has_the_schema() -> None:
    assert documents_from_frame(documents_to_frame([])) == []
