from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroth_assets.corpus.text import decode, estimate_pages, iter_lines, line_starts, replace_unstorable
from zeroth_assets.errors import ParseError

hostile = st.text(alphabet=st.characters(), max_size=400) | st.text(
    alphabet="a \n\r\f\t\x00\x85\u2028\ud800😀é", max_size=400
)


def test_a_byte_order_mark_leaves_the_text_and_is_counted() -> None:
    decoded = decode(b"\xef\xbb\xbfRFC 8651")
    assert decoded.text == "RFC 8651"
    assert decoded.dropped == {"byte_order_mark": 1}
    assert decoded.warnings == ()


@pytest.mark.parametrize(("mark", "name"), [(b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")])
def test_utf_16_is_known_by_its_mark(mark: bytes, name: str) -> None:
    decoded = decode(mark + "naïve".encode(name))
    assert (decoded.text, decoded.encoding) == ("naïve", name)


def test_crlf_and_a_lone_cr_become_lf_and_only_the_pair_loses_a_character() -> None:
    decoded = decode(b"a\r\nb\rc\n")
    assert decoded.text == "a\nb\nc\n"
    assert decoded.dropped == {"carriage_return": 1}


def test_newlines_stay_where_labels_count_characters() -> None:
    assert decode(b"a\r\nb", newlines=False).text == "a\r\nb"


def test_a_stray_byte_is_read_as_windows_1252_and_spoils_nothing_else() -> None:
    decoded = decode("naïve “quote” ".encode() + b"\xe6 \x93 \x81")
    assert decoded.text == "naïve “quote” æ “ \x81"
    assert "3 bytes are not utf-8" in decoded.warnings[0]


def test_a_declared_encoding_is_used_without_a_warning() -> None:
    decoded = decode(b"\xe6", declared="latin-1")
    assert (decoded.text, decoded.warnings) == ("æ", ())


def test_an_unknown_encoding_is_refused_by_name() -> None:
    with pytest.raises(ParseError, match="klingon"):
        decode(b"x", declared="klingon")


def test_nul_and_lone_surrogates_are_replaced_one_for_one() -> None:
    raw = b"a\x00b" + "\ud800".encode("utf-8", "surrogatepass") + b"c"
    decoded = decode(raw)
    assert decoded.text == "a\ufffdb\ufffdc"
    assert "2 NUL or lone surrogate" in decoded.warnings[0]
    assert replace_unstorable("x\udfff\x00") == ("x\ufffd\ufffd", 2)


@given(raw=st.binary(max_size=300))
def test_any_bytes_become_storable_text(raw: bytes) -> None:
    text = decode(raw).text
    assert "\x00" not in text
    assert "\r" not in text
    text.encode()


@given(text=hostile)
def test_lines_end_at_lf_alone_and_keep_their_offsets(text: str) -> None:
    lines = list(iter_lines(text))
    assert [start for start, _ in lines] == line_starts(text)
    assert "\n".join(line for _, line in lines) == text
    assert all(text[start : start + len(line)] == line for start, line in lines)


@given(text=hostile, lines=st.integers(1, 5), characters=st.integers(1, 60))
def test_estimated_pages_cover_the_text_in_order_and_are_marked(text: str, lines: int, characters: int) -> None:
    pages = estimate_pages(text, lines=lines, characters=characters)
    assert "".join(text[page.start : page.end] for page in pages) == text
    assert [page.number for page in pages] == list(range(1, len(pages) + 1))
    assert all(page.end > page.start and not page.real for page in pages)
    assert all(page.end - page.start <= characters + 1 for page in pages)


def test_a_long_line_is_cut_into_pages_at_a_space() -> None:
    pages = estimate_pages("word " * 1000, characters=100)
    assert len(pages) == 50
    assert all((page.end - page.start) % 5 == 0 for page in pages)
