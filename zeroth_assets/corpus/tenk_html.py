"""From a filing's HTML to its lines.

What belongs here: the walk over the parsed tree, what is hidden, where lines, cells and pages begin. What a table
becomes is `tenk_tables`' concern.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser, LexborNode

from zeroth_assets.corpus.tenk_lines import Line, soft_breaks
from zeroth_assets.corpus.tenk_tables import Table, table_lines

_BLOCKS = frozenset(
    (
        "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "dir", "div", "dl", "dt",
        "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr",
        "html", "legend", "li", "main", "menu", "nav", "ol", "p", "page", "pre", "section", "table", "tbody", "td",
        "tfoot", "th", "thead", "tr", "ul", "document", "text",
    )
)  # fmt: skip
_UNSEEN = frozenset(("head", "script", "style", "title", "template", "noscript", "ix:header", "ix:hidden", "svg"))
_SELF_CLOSED = re.compile(r"<([A-Za-z][\w:.-]*)([^<>]*+)(?<=/)>")
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "wbr")
)
_HIDING = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_BREAK_BEFORE = re.compile(r"(?:page-)?break-before\s*:\s*(?:always|page|left|right)", re.IGNORECASE)
_BREAK_AFTER = re.compile(r"(?:page-)?break-after\s*:\s*(?:always|page|left|right)", re.IGNORECASE)
_SPACED = re.compile(r"(?:padding|margin)-left\s*:\s*[.\d]*[1-9]|display\s*:\s*inline-block", re.IGNORECASE)
_STYLED = (
    "[style*='display' i], [style*='visibility' i], [style*='break-' i], span[style*='padding-left' i],"
    " font[style*='padding-left' i], span[style*='margin-left' i], [hidden]"
)
_ZERO_WIDTH = re.compile("[\u200b\u2060\ufeff\u00ad]")
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Extracted:
    """The lines of one document of a submission; `real_pages` if its markup shows where pages end."""

    lines: list[Line]
    real_pages: bool
    dropped: dict[str, int]


class _Walk:
    """Gathers lines while the tree is walked; one instance per document."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.buffer: list[str] = []
        self.tables: list[Table] = []
        self.table_count = 0
        self.page = 0
        self.rules: list[int] = []
        self.links = 0
        self.linked = False
        self.dropped: Counter[str] = Counter()

    @property
    def sink(self) -> list[Line]:
        """Where a finished line goes: the open cell, or the document."""
        if self.tables and self.tables[-1].rows and self.tables[-1].rows[-1]:
            return self.tables[-1].rows[-1][-1]
        return self.lines

    def text(self, value: str) -> None:
        self.buffer.append(value)
        if self.links and not self.linked and not value.isspace():
            self.linked = True

    def flush(self) -> None:
        if not self.buffer:
            return
        text = "".join(self.buffer)
        self.buffer.clear()
        bare = _ZERO_WIDTH.sub("", text)
        if len(bare) != len(text):
            self.dropped["zero_width"] += len(text) - len(bare)
        text = " ".join(bare.split())
        if text:
            self.sink.append(Line(text, self.page, linked=self.linked))
        self.linked = False

    def preformatted(self, value: str) -> None:
        """Text of a `<pre>`: its lines are kept."""
        head, *rest = value.split("\n")
        self.text(head)
        for part in rest:
            self.flush()
            self.text(part)

    def open_table(self) -> None:
        self.flush()
        if self.tables:
            self.tables[-1].nested = True
        self.table_count += 1
        self.tables.append(Table(self.table_count))

    def open_row(self) -> None:
        self.flush()
        if self.tables:
            self.tables[-1].open_row()

    def open_cell(self, colspan: int, rowspan: int) -> None:
        self.flush()
        if self.tables:
            self.tables[-1].open_cell(colspan, rowspan)

    def close_table(self) -> None:
        self.flush()
        if self.tables:
            table = self.tables.pop()
            self.sink.extend(table_lines(table))

    def break_page(self) -> None:
        self.flush()
        self.page += 1


def extract_html(markup: str) -> Extracted:
    """Read a document's HTML into lines, hidden parts left out and counted.

    Hidden are: head, scripts, inline XBRL's `ix:header` and `ix:hidden`, and whatever is styled `display: none` or
    `visibility: hidden`. Page breaks are those of the styles (`page-break-before`, `-after`), of `<page>` and of
    comments that say so; where there are none, rules under a page number serve.
    """
    if "<?xml" in markup[:400] or "http://www.w3.org/1999/xhtml" in markup[:20_000]:
        markup = _SELF_CLOSED.sub(_closed_apart, markup)
    tree = LexborHTMLParser(markup)
    hidden, before, after, spaced = _styles(tree)
    spans = {node.mem_id: _spans(node) for node in tree.css("td[colspan], th[colspan], td[rowspan], th[rowspan]")}
    walk = _Walk()
    stack: list[tuple[LexborNode, str]] = []
    preformatted = 0
    node: LexborNode | None = tree.root
    while node is not None:
        tag = node.tag or ""
        child: LexborNode | None = None
        if tag == "-text":
            value = node.text_content or ""
            if preformatted:
                walk.preformatted(value)
            else:
                walk.text(value)
        elif tag == "-comment":
            if "pagebreak" in (node.comment_content or "").lower().replace(" ", ""):
                walk.break_page()
        elif tag[0] not in "-!":
            key = node.mem_id
            if tag in _UNSEEN or key in hidden:
                reason = "inline_xbrl_hidden" if tag.startswith("ix:") else "head" if tag in _UNSEEN else "hidden"
                walk.dropped[reason] += len(_SPACES.sub(" ", node.text(deep=True) or "").strip())
            else:
                if tag in ("td", "th"):
                    walk.open_cell(*spans.get(key, (1, 1)))
                _open(walk, node, tag, before=key in before, spaced=key in spaced)
                preformatted += tag == "pre"
                child = node.first_child
                if child is not None:
                    stack.append((node, tag))
                    node = child
                    continue
                preformatted -= tag == "pre"
                _close(walk, tag, after=key in after)
        while node is not None:
            following = node.next
            if following is not None:
                node = following
                break
            if not stack:
                node = None
                break
            node, tag = stack.pop()
            preformatted -= tag == "pre"
            _close(walk, tag, after=node.mem_id in after)
    while walk.tables:
        walk.close_table()
    walk.flush()
    lines = walk.lines
    if not walk.page:
        lines = soft_breaks(lines, walk.rules)
    return Extracted(lines, bool(lines) and lines[-1].page > 0, {reason: n for reason, n in walk.dropped.items() if n})


def _closed_apart(match: re.Match[str]) -> str:
    """XHTML's `<div/>` as HTML understands it: there the slash means nothing and the element would stay open."""
    name = match[1]
    return match[0] if name.lower() in _VOID else f"<{name}{match[2][:-1]}></{name}>"


def _spans(cell: LexborNode) -> tuple[int, int]:
    """How many columns and rows a cell spans; 1 where the attribute is no sensible number."""
    attributes = cell.attributes
    columns, rows = ((attributes.get(name) or "").strip()[:5] for name in ("colspan", "rowspan"))
    return int(columns) if columns.isdecimal() else 1, int(rows) if rows.isdecimal() else 1


def _styles(tree: LexborHTMLParser) -> tuple[set[int], set[int], set[int], set[int]]:
    """The nodes that are hidden, that begin a page, that end one, and that stand apart from what precedes them."""
    hidden: set[int] = set()
    before: set[int] = set()
    after: set[int] = set()
    spaced: set[int] = set()
    for node in tree.css(_STYLED):
        attributes = node.attributes
        style = attributes.get("style") or ""
        if "hidden" in attributes or _HIDING.search(style):
            hidden.add(node.mem_id)
        if _BREAK_BEFORE.search(style):
            before.add(node.mem_id)
        if _BREAK_AFTER.search(style):
            after.add(node.mem_id)
        if _SPACED.search(style):
            spaced.add(node.mem_id)
    return hidden, before, after, spaced


def _open(walk: _Walk, node: LexborNode, tag: str, *, before: bool, spaced: bool) -> None:
    if before or tag == "page":
        walk.break_page()
    if tag == "table":
        walk.open_table()
    elif tag == "tr":
        walk.open_row()
    elif tag == "br":
        walk.flush()
    elif tag in _BLOCKS:
        walk.flush()
        if tag == "hr" and not walk.tables:
            walk.rules.append(len(walk.lines))
    elif spaced:
        walk.buffer.append(" ")
    elif tag == "a" and (node.attributes.get("href") or "").startswith("#"):
        walk.links += 1


def _close(walk: _Walk, tag: str, *, after: bool) -> None:
    if tag == "table":
        walk.close_table()
    elif tag in _BLOCKS:
        walk.flush()
    elif tag == "a" and walk.links:
        walk.links -= 1
    if after:
        walk.break_page()
