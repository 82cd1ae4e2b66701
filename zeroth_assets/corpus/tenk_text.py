"""From a submission as EDGAR stores it to its documents, and from plain text of the 1990s to lines.

What belongs here: the SGML envelope (`<SEC-HEADER>`, `<DOCUMENT>`, `<TYPE>`, `<TEXT>`), and `<PAGE>`, `<TABLE>`,
`<CAPTION>`, `<S>`, `<C>` in text filings. Lines keep their spaces, since columns are made of them.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from html import unescape

from zeroth_assets.corpus.tenk_html import Extracted, extract_html
from zeroth_assets.corpus.tenk_lines import Line

_DOCUMENT = re.compile(r"<DOCUMENT>", re.IGNORECASE)
_DOCUMENT_END = re.compile(r"</DOCUMENT>", re.IGNORECASE)
_TEXT = re.compile(r"<TEXT>", re.IGNORECASE)
_HEADER_FIELD = re.compile(r"<(TYPE|DESCRIPTION|FILENAME)>[ \t]*([^\n<]*)", re.IGNORECASE)
_MAIN_TYPE = re.compile(r"^10-?K", re.IGNORECASE)
_NOT_TEXT_TYPE = re.compile(r"^(?:GRAPHIC|ZIP|EXCEL|XML|XBRL|PDF|JSON|EX-10[14]\b|EX-10[14]\.|COVER)", re.IGNORECASE)
_NOT_TEXT_BODY = re.compile(r"^\s*(?:<PDF>|<XBRL>|<XML>|begin [0-7]{3} )", re.IGNORECASE)
_HTML = re.compile(r"<(?:!doctype\s+html|html|body|div|font|span|td|p)(?=[\s>/])", re.IGNORECASE)
_TAG = re.compile(r"</?(?:PAGE|TABLE|CAPTION|S|C|FN|F\d{1,2}|R|I|B|U|TEXT|BR|PRE|HR)\s*/?>", re.IGNORECASE)
_PAGE = re.compile(r"<PAGE>|\f", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|nbsp|#\d{2,5});", re.IGNORECASE)
_PEM = "-----BEGIN PRIVACY-ENHANCED MESSAGE-----"
_PEM_ESCAPE = re.compile(r"^- (?=-)", re.MULTILINE)
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Submitted:
    """One document of a submission: its form or exhibit type ("10-K405", "EX-13"), description and markup or text."""

    type: str
    description: str
    body: str

    @property
    def is_main(self) -> bool:
        """Whether this is the annual report itself, an amendment included."""
        return bool(_MAIN_TYPE.match(self.type))

    @property
    def is_text(self) -> bool:
        """Whether there is text to read: no picture, archive, spreadsheet or XBRL instance."""
        return not (_NOT_TEXT_TYPE.match(self.type) or _NOT_TEXT_BODY.match(self.body))


def _visible(text: str) -> int:
    return len(_SPACES.sub(" ", text).strip())


def split_submission(text: str) -> tuple[list[Submitted], dict[str, int]]:
    """Take a submission apart; return its documents, in order, and the characters of the envelope by reason.

    A file without an envelope is one document with an empty type.
    """
    dropped: Counter[str] = Counter()
    if text.startswith(_PEM):
        text, escapes = _PEM_ESCAPE.subn("", text)
        dropped["pem_escape"] = 2 * escapes
    starts = [match.start() for match in _DOCUMENT.finditer(text)]
    if not starts:
        return [Submitted("", "", text)], {}
    dropped["sgml_envelope"] = _visible(text[: starts[0]])
    documents = []
    for start, limit in zip(starts, [*starts[1:], len(text)], strict=True):
        part = text[start:limit]
        closing = [match.start() for match in _DOCUMENT_END.finditer(part)]
        if closing:
            dropped["sgml_envelope"] += _visible(part[closing[-1] :])
            part = part[: closing[-1]]
        opening = _TEXT.search(part)
        header, body = (part[: opening.start()], part[opening.end() :]) if opening else ("", part[len("<DOCUMENT>") :])
        end = body.lower().rfind("</text>")
        if end >= 0:
            dropped["sgml_envelope"] += _visible(body[end:])
            body = body[:end]
        dropped["sgml_envelope"] += _visible(header)
        fields = {name.upper(): value.strip() for name, value in _HEADER_FIELD.findall(header)}
        documents.append(Submitted(fields.get("TYPE", ""), fields.get("DESCRIPTION", ""), body))
    return documents, {reason: count for reason, count in dropped.items() if count}


def extract_document(document: Submitted) -> Extracted:
    """The lines of one document, by the walk over its HTML or line by line."""
    if _HTML.search(document.body):
        return extract_html(document.body)
    return extract_text(document.body)


def extract_text(body: str) -> Extracted:
    """Read a text document into lines; runs of blank lines become one, and white space at line ends goes."""
    lines: list[Line] = []
    dropped: Counter[str] = Counter()
    page = 0
    table = 0
    tables = 0
    for raw in body.split("\n"):
        upper = raw.upper()
        page += len(_PAGE.findall(raw))
        if "<TABLE" in upper:
            tables += 1
            table = tables
        closes = "</TABLE" in upper
        text = _TAG.sub("", raw.replace("\f", ""))
        text = _ENTITY.sub(lambda match: unescape(match[0]), text).replace("\xa0", " ").rstrip()
        if len(text) != len(raw.rstrip()):
            dropped["markup"] += len(raw.rstrip()) - len(text)
        if text or (lines and lines[-1].text):
            lines.append(Line(text, page, table, row=bool(table and text)))
        if closes:
            table = 0
    return Extracted(lines, page > 0, dict(dropped))
