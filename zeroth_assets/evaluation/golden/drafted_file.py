"""The data file of drafted queries: its rules, line by line.

What belongs here: reading and refusing. Resolving quotes in texts is `drafted`'s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from zeroth_assets.evaluation.golden.model import CATEGORIES, REASONS, GoldenError

PACKAGED = ("drafted.jsonl", "drafted_sample.jsonl")

_REQUIRED = {
    "id": str,
    "category": str,
    "text": str,
    "spans": list,
    "paraphrased": bool,
    "drafter": str,
    "drafted_on": str,
    "verified": str,
}
_OPTIONAL: Mapping[str, tuple[type, ...]] = {
    "asker": (str,),
    "note": (str,),
    "about": (list,),
    "lexical_overlap": (int, float),
    "unanswerable_reason": (str,),
    "elsewhere": (list,),
}
_PARTS = {"single_chunk": (1, 1), "multi_chunk": (2, 4), "cross_document": (1, 8), "unanswerable": (0, 0)}


@dataclass(frozen=True, slots=True)
class Quote:
    """A passage as the file names it: the `occurrence`-th place (from 0) of `text` in the document."""

    document_id: str
    text: str
    occurrence: int


Parts = tuple[tuple[Quote, ...], ...]


@dataclass(frozen=True, slots=True)
class Drafted:
    """A line of the file; `parts` are the needed passages, each a tuple of alternatives.

    `elsewhere` has the same form: where the truth lies that the asker is not meant to see.
    """

    line: int
    file: str
    id: str
    category: str
    text: str
    asker: str | None
    parts: Parts
    elsewhere: Parts
    reason: str | None
    about: tuple[str, ...]
    paraphrased: bool
    drafter: str
    drafted_on: str
    verified: str
    note: str | None

    @property
    def documents(self) -> frozenset[str]:
        """Every document that is quoted or named."""
        quoted = frozenset(q.document_id for part in (*self.parts, *self.elsewhere) for q in part)
        return quoted | frozenset(self.about)

    @property
    def where(self) -> str:
        """The line, for errors."""
        return f"{self.file} line {self.line} ({self.id})"


def read_packaged() -> list[Drafted]:
    """The drafted queries that travel with the package: those over public documents and those over the sample."""
    folder = resources.files("zeroth_assets.golden")
    files = [(name, folder.joinpath(name)) for name in PACKAGED]
    drafted = [item for name, file in files if file.is_file() for item in parse_drafted(file.read_text("utf-8"), name)]
    return _distinct(drafted)


def parse_drafted(content: str, file: str) -> list[Drafted]:
    """The queries of a JSON Lines file; blank lines are passed over.

    Raises:
        GoldenError: a line is no such object, a field is missing, unknown or of another type, a category is unknown or
            its number of parts is not what it says, an id comes twice. The line is named.
    """
    lines = enumerate(content.split("\n"), start=1)
    return _distinct([_parsed(line, number, file) for number, line in lines if line.strip()])


def _parsed(line: str, number: int, file: str) -> Drafted:
    where = f"{file} line {number}"
    try:
        item: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise GoldenError(f"{where} is not JSON", expected="one JSON object a line", found=str(error)) from error
    if not isinstance(item, dict):
        raise GoldenError(f"{where} is no JSON object", expected="one JSON object a line", found=type(item).__name__)
    wrong = [key for key, kind in _REQUIRED.items() if not isinstance(item.get(key), kind)]
    wrong += [key for key in ("id", "text") if isinstance(item.get(key), str) and not _holdable(item[key])]
    wrong += [key for key, kinds in _OPTIONAL.items() if not isinstance(item.get(key), (*kinds, type(None)))]
    unknown = sorted(set(item) - set(_REQUIRED) - set(_OPTIONAL))
    if wrong or unknown:
        raise GoldenError(
            f"{where} has missing, mistyped or unknown fields",
            expected=", ".join(_REQUIRED) + "; optional " + ", ".join(sorted(_OPTIONAL)),
            found=", ".join(wrong + unknown),
        )
    try:
        parts, elsewhere = _parts(item["spans"]), _parts(item.get("elsewhere") or [])
        about = tuple(str(document) for document in item.get("about") or ())
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise GoldenError(
            f"{where} ({item['id']}) has spans that cannot be read",
            expected="[[{document_id, quote, occurrence}, alternatives...], parts...]",
            found=f"{type(error).__name__}: {error}",
        ) from error
    drafted = Drafted(
        number,
        file,
        item["id"],
        item["category"],
        item["text"],
        item.get("asker"),
        parts,
        elsewhere,
        item.get("unanswerable_reason"),
        about,
        item["paraphrased"],
        item["drafter"],
        item["drafted_on"],
        item["verified"],
        item.get("note"),
    )
    _check_shape(drafted)
    return drafted


def _holdable(text: str) -> bool:
    """Whether there is anything in it, and UTF-8 can hold it."""
    return bool(text.strip()) and not re.search("[\ud800-\udfff]", text)


def _parts(listed: Any) -> Parts:
    return tuple(tuple(_quote(q) for q in part) for part in listed)


def _quote(item: Mapping[str, Any]) -> Quote:
    occurrence = item.get("occurrence", 0)
    if not isinstance(occurrence, int) or isinstance(occurrence, bool) or occurrence < 0:
        raise ValueError("occurrence is no whole number from 0")
    if not isinstance(item["quote"], str) or not item["quote"].strip() or not isinstance(item["document_id"], str):
        raise ValueError("quote and document_id must be texts that are not empty")
    return Quote(item["document_id"], item["quote"], occurrence)


def _check_shape(item: Drafted) -> None:
    if item.category not in CATEGORIES:
        raise GoldenError(f"{item.where} has no known category", expected=" | ".join(CATEGORIES), found=item.category)
    least, most = _PARTS.get(item.category, (0, 8))
    problem = ""
    if not least <= len(item.parts) <= most or not all(item.parts):
        problem = f"{len(item.parts)} parts, {sum(not part for part in item.parts)} of them empty"
    elif item.category == "cross_document" and len(item.documents) < 2:
        problem = "one document"
    elif (item.category == "tenant_scoped" or item.elsewhere) and item.asker is None:
        problem = "no asker"
    elif item.parts and (item.elsewhere or item.reason is not None):
        problem = "an answer, and a reason why there is none"
    elif item.reason is not None and item.reason not in REASONS:
        problem = f"the unknown reason {item.reason!r}"
    if problem:
        raise GoldenError(
            f"{item.where} is not what its category says",
            expected="single_chunk: 1 part; multi_chunk: 2 to 4; cross_document: 2 documents or more; "
            "tenant_scoped, or truth elsewhere: an asker; unanswerable: no part; reasons: " + ", ".join(REASONS),
            found=f"{item.category} with {problem}",
        )


def _distinct(drafted: Iterable[Drafted]) -> list[Drafted]:
    seen: dict[str, Drafted] = {}
    for item in drafted:
        other = seen.setdefault(item.id, item)
        if other is not item:
            raise GoldenError(f"{item.where} has the id of another query", found=other.where, expected="distinct ids")
    return list(seen.values())
