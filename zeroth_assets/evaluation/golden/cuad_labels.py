"""The expert labels of CUAD, read and checked against the canonical texts.

What belongs here: the label file and which of its labels can be evidence. A label that is a scrap ("us.", a blank for
a date) would make every place where those characters stand an answer; it is set aside, with the reason, not dropped in
silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.evaluation.golden.cuad_label_files import file_key, read_label_file
from zeroth_assets.evaluation.golden.model import GoldenError
from zeroth_assets.evaluation.golden.spans import occurrences

DATE_TOPICS = frozenset({"Agreement Date", "Effective Date"})

_LABEL_FIELDS: dict[str, pl.DataType | type[pl.DataType]] = {
    "document_id": pl.String,
    "document_version": pl.String,
    "topic": pl.String,
    "clause_index": pl.Int64,
    "text": pl.String,
    "char_start": pl.Int64,
    "occurrences": pl.List(pl.Int64),
    "set_aside": pl.String,
}
LABEL_SCHEMA = pl.Schema(_LABEL_FIELDS)

_SCRAP_CHARACTERS = 20
_BLANK = re.compile(r"[\[\]_●*]{1,}|^\W*$")
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class Labels:
    """All labels (`LABEL_SCHEMA`), what each contract answers per topic, its type, and the topics there are.

    `answers[document_id][topic]` is the experts' answer in words, for naming contracts. `set_aside` of a label says
    why it is no evidence; null where it is.
    """

    labels: pl.DataFrame
    answers: Mapping[str, Mapping[str, str]]
    types: Mapping[str, str]
    topics: tuple[str, ...]


def read_cuad_labels(
    path: Path, records: Iterable[ManifestRecord], texts: Mapping[tuple[str, str], str], topics: Sequence[str]
) -> Labels:
    """Read a label file for the contracts whose current version is among `texts`.

    `records` are those of the manifest, current versions; a contract is found by its file's name. Contracts of the file
    that the corpus does not hold are passed over.

    Raises:
        GoldenError: the file is no such file, or a label's slice is not its text (named by contract, topic and number).
    """
    listed = read_label_file(path, topics)
    known = {file_key(r.identifier): r for r in records if r.source == "cuad"}
    rows: list[tuple[object, ...]] = []
    answers: dict[str, dict[str, str]] = {}
    types: dict[str, str] = {}
    for contract in listed:
        record = known.get(file_key(contract["file"]))
        text = None if record is None else texts.get((record.document_id, record.sha256))
        if record is None or text is None:
            continue
        types[record.document_id] = record.tenant_attribute
        answers[record.document_id] = {q["category"]: q.get("answer") or "" for q in contract["qas"]}
        for question in contract["qas"]:
            rows += [_label_row(record, question["category"], label, text) for label in question["answers"]]
    return Labels(pl.DataFrame(rows, schema=LABEL_SCHEMA, orient="row"), answers, types, tuple(topics))


def _label_row(record: ManifestRecord, topic: str, label: Mapping[str, Any], text: str) -> tuple[object, ...]:
    quote = label["text"]
    start = label.get("answer_start", text.find(quote))
    if not quote or start < 0 or text[start : start + len(quote)] != quote:
        raise GoldenError(
            f"Label {label['clause_index']} of {record.document_id}, topic {topic}, is not the slice of its text",
            expected=f"its {len(quote)} characters at [{start}:{start + len(quote)}]",
            found=f"other text there, in a document of {len(text)} characters",
            remedy="take labels and contracts from the same release",
        )
    places = occurrences(text, quote)
    reason = _why_set_aside(topic, quote, len(places))
    return (record.document_id, record.sha256, topic, label["clause_index"], quote, start, places, reason)


def _why_set_aside(topic: str, quote: str, places: int) -> str | None:
    if topic in DATE_TOPICS and (_BLANK.search(quote) or not _DIGIT.search(quote)) and len(quote) < _SCRAP_CHARACTERS:
        return "a blank where a date would stand"
    if topic not in DATE_TOPICS and places > 1 and len(quote) < _SCRAP_CHARACTERS and topic not in _SHORT_TOPICS:
        return "a scrap that stands in several places"
    return None


_SHORT_TOPICS = frozenset({"Parties", "Document Name"})
