from __future__ import annotations

import re

OLD = [f"rfc:{n}" for n in (*range(90001, 90009), 90012, 90101, 90104)]
NEW = ["rfc:90009", "rfc:90010", "rfc:90011", "rfc:90105", "rfc:90201"]


def test_old_rfcs_have_pages_with_headers_and_footers_in_order(raw: dict[str, bytes]) -> None:
    for name in OLD:
        pages = raw[name].decode("ascii").split("\f\n")
        assert len(pages) > 15, name
        for number, page in enumerate(pages, 1):
            lines = page.rstrip("\n").split("\n")
            assert lines[-1].endswith(f"[Page {number}]"), (name, number)
            assert number == 1 or re.match(rf"RFC {name[4:]} +\S.* \w+ \d{{4}}$", lines[0]), (name, number)


def test_new_rfcs_have_a_byte_order_mark_and_no_pages(raw: dict[str, bytes]) -> None:
    for name in NEW:
        assert raw[name].startswith(b"\xef\xbb\xbf"), name
        assert b"\f" not in raw[name], name
        assert b"[Page" not in raw[name], name


def test_no_line_is_wider_than_seventy_two_columns(raw: dict[str, bytes]) -> None:
    for name in (*OLD, *NEW):
        wide = [line for line in raw[name].decode("utf-8-sig").splitlines() if len(line) > 72]
        assert wide == [], name


def test_the_contents_name_the_page_on_which_each_heading_stands(raw: dict[str, bytes]) -> None:
    checked = 0
    for name in OLD:
        pages = raw[name].decode("ascii").split("\f\n")
        for match in re.finditer(r"(?m)^ {3,6}((?:\d+\.)+) (.+?) \.{2,}(\d+)$", "\n".join(pages[:3])):
            number, title, page = match[1], match[2], int(match[3])
            assert re.search(rf"(?m)^{re.escape(number)}  {re.escape(title)}", pages[page - 1]), (name, match[0])
            checked += 1
    assert checked > 400
