"""Documents and hostile text."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st

from zeroth_assets.corpus.model import Block, Document, Page, Section

HOSTILE = [
    "e\u0301\u0302\u0323",
    "👩‍👩‍👧‍👦",
    "🇩🇪🇫🇷",
    "👍🏽",
    "\r\n",
    "\x0c",
    "\t",
    "\x00",
    "\ud800",
    "\udfff",
    "\ufffd",
    "\u200b",
    "\u2028",
    "\u00a0",
    "漢字仮名交じり文。",
    "한국어",
    "\u1112\u1161\u11ab",
    "ﬁ",
    "İstanbul",
    "ß",
    "\u202e",
    "A" * 130,
    "QmFzZTY0+/" * 30,
    "word",
    "Word.",
    "e.g.",
    " ",
    "\n\n",
    "      ",
    "....................",
]

texts = st.one_of(
    st.lists(st.sampled_from(HOSTILE), max_size=60).map("".join),
    st.text(max_size=200),
    st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=12)), max_size=40).map(" ".join),
)


def document(text: str, **fields: object) -> Document:
    return Document("rfc:1", "0" * 64, "rfc", "A title", text, **fields)  # type: ignore[arg-type]


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """A hostile text with nested sections, pages and blocks at arbitrary places."""
    text = draw(texts)
    cut = st.integers(0, len(text))
    outer = sorted({0, len(text), *draw(st.lists(cut, max_size=5))})
    sections: list[Section] = []
    for start, end in itertools.pairwise(outer):
        if draw(st.booleans()):
            sections.append(Section(str(start), "Outer", 1, start, end, "section"))
            inner = draw(st.integers(start, end))
            if inner < end:
                sections.append(Section(f"{start}.1", "Inner", 2, inner, end, "section"))
    pages = sorted({0, len(text), *draw(st.lists(cut, max_size=3))})
    blocks = [sorted(draw(st.tuples(cut, cut))) for _ in range(draw(st.integers(0, 4)))]
    return document(
        text,
        sections=tuple(sections),
        pages=tuple(Page(n, s, e, True) for n, (s, e) in enumerate(itertools.pairwise(pages), 1)),
        blocks=tuple(Block(draw(st.sampled_from(["code", "table_row", "list_item"])), s, e) for s, e in blocks),
    )
