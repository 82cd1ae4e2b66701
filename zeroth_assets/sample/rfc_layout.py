"""RFC text: paragraphs, headings and figures set in 72 columns, with pages or without.

What belongs here: the look of an RFC. The old style has form feeds, running headers and footers and page numbers in
the contents; the new style (2019 and later) has a byte order mark and none of those.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import Literal

PAGE_LINES = 56
FIRST_PAGE_BLANKS = 6
Kind = Literal["heading", "text", "item", "verbatim"]


@dataclass(frozen=True, slots=True)
class Node:
    """One piece of a document. A heading has a level and a number; an item a hanging label."""

    kind: Kind
    text: str
    level: int = 0
    number: str = ""


@dataclass(frozen=True, slots=True)
class RfcSheet:
    """What stands around the body: the first page's two columns, running titles, contents or not."""

    number: int
    title: str
    short: str
    date: str
    category: str
    authors: tuple[tuple[str, str], ...]
    new_style: bool
    front: tuple[Node, ...]
    body: tuple[Node, ...]
    obsoletes: str = ""
    group: str = "Network Working Group"
    contents: bool = True


def render(sheet: RfcSheet) -> str:
    """The document as text with `\\n` line ends. Page numbers in the contents are those of the pages."""
    pages: dict[str, int] = {}
    for _ in range(4):
        text, found = _render_once(sheet, pages)
        if found == pages:
            break
        pages = found
    return text


def _render_once(sheet: RfcSheet, pages: dict[str, int]) -> tuple[str, dict[str, int]]:
    blocks = [*_opening(sheet), *((_set(node), node) for node in sheet.front)]
    if sheet.contents:
        blocks.append((["Table of Contents"], Node("heading", "Table of Contents", 1)))
        blocks.append((_contents(sheet, pages), None))
    blocks.extend((_set(node), node) for node in sheet.body)
    blocks.append((_addresses(sheet), Node("heading", "Authors' Addresses", 1)))
    if sheet.new_style:
        return _flow(blocks), {}
    return _paginate(sheet, blocks)


def _opening(sheet: RfcSheet) -> list[tuple[list[str], Node | None]]:
    left = [sheet.group, f"Request for Comments: {sheet.number}"]
    if sheet.obsoletes:
        left.append(f"Obsoletes: {sheet.obsoletes}")
    left.append(f"Category: {sheet.category}")
    if sheet.new_style:
        left.append("ISSN: 0000-0000")
    right: list[str] = []
    for name, place in sheet.authors:
        initial, _, family = name.partition(" ")
        right += [f"{initial[0]}. {family}", place]
    right.append(sheet.date)
    height = max(len(left), len(right))
    left += [""] * (height - len(left))
    right += [""] * (height - len(right))
    rows = [f"{a}{b.rjust(72 - len(a))}".rstrip() for a, b in zip(left, right, strict=True)]
    titles = [line.center(72).rstrip() for line in textwrap.wrap(sheet.title, 60)]
    return [(rows, None), (["", *titles], None)]


def _set(node: Node) -> list[str]:
    if node.kind == "heading":
        return [f"{node.number}  {node.text}" if node.number else node.text]
    if node.kind == "verbatim":
        return ["   " + line if line else "" for line in node.text.split("\n")]
    text = re.sub(r"([.?!:]) (?=[A-Z\"(])", r"\1  ", node.text)
    if node.kind == "item":
        return _wrapped(text, "      ")
    return _wrapped(text, "   ")


def _wrapped(text: str, hanging: str) -> list[str]:
    return textwrap.wrap(
        text, 72, initial_indent="   ", subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
    )


def _headings(sheet: RfcSheet) -> list[Node]:
    return [node for node in sheet.body if node.kind == "heading" and node.level <= 2]


def _contents(sheet: RfcSheet, pages: dict[str, int]) -> list[str]:
    rows = []
    for node in [*_headings(sheet), Node("heading", "Authors' Addresses", 1)]:
        entry = f"{'   ' * node.level}{node.number + ' ' if node.number else ''}{node.text}"
        if sheet.new_style:
            rows.append(f"{'  ' * (node.level - 1)}   {node.number + '  ' if node.number else ''}{node.text}"[:72])
            continue
        page = str(pages.get(_key(node), 0))
        room = 69 - len(entry) - len(page)
        dots = "." * (room - 1) if room > 2 else ""
        rows.append(f"{entry[:64]} {dots}{page}")
    return rows


def _key(node: Node) -> str:
    return f"{node.number} {node.text}"


def _addresses(sheet: RfcSheet) -> list[str]:
    rows = ["Authors' Addresses"]
    for name, place in sheet.authors:
        mail = re.sub(r"[^a-z]+", ".", name.lower()).strip(".")
        host = "-".join(re.findall(r"[a-z]{4,}", place.lower())[:2])
        rows += ["", f"   {name}", f"   {place}", f"   Email: {mail}@{host}.example"]
    return rows


def _flow(blocks: list[tuple[list[str], Node | None]]) -> str:
    lines = ["", "", ""]
    for block, _ in blocks:
        lines += ["", *block]
    return "\n".join(lines) + "\n"


def _paginate(sheet: RfcSheet, blocks: list[tuple[list[str], Node | None]]) -> tuple[str, dict[str, int]]:
    surnames = [name.split()[-1] for name, _ in sheet.authors]
    who = {1: surnames[0], 2: " & ".join(surnames[:2])}.get(len(surnames), f"{surnames[0]}, et al.")
    header = _three(f"RFC {sheet.number}", sheet.short, sheet.date)
    done: list[list[str]] = []
    current: list[str] = [""] * FIRST_PAGE_BLANKS
    found: dict[str, int] = {}
    limit = PAGE_LINES - 6

    def turn() -> None:
        nonlocal current
        while len(current) < PAGE_LINES - 2:
            current.append("")
        current.append(_three(who, sheet.category, f"[Page {len(done) + 1}]"))
        done.append(current)
        current = [header, "", ""]

    for index, (block, node) in enumerate(blocks):
        following = blocks[index + 1][0] if index + 1 < len(blocks) else []
        keep = len(block) + (1 + min(3, len(following)) if node is not None and node.kind == "heading" else 0)
        whole = node is not None and node.kind in ("verbatim", "heading")
        if (whole and len(current) + 1 + keep > limit and keep < limit - 3) or len(current) + 2 > limit:
            turn()
        if len(current) > 3:
            current.append("")
        if node is not None and node.kind == "heading":
            found[_key(node)] = len(done) + 1
        for line in block:
            if len(current) >= limit:
                turn()
            current.append(line)
    turn()
    return "\n\f\n".join("\n".join(page) for page in done) + "\n", found


def _three(left: str, middle: str, right: str) -> str:
    gap = max(len(left) + 1, (72 - len(middle)) // 2)
    row = left.ljust(gap) + middle
    return row + right.rjust(72 - len(row))
