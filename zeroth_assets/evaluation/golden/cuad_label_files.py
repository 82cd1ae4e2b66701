"""The files that CUAD's labels come in: as published (`master_clauses.csv`, in the archive too), or with offsets.

What belongs here: finding and reading those files; checking labels against texts is `cuad_labels`'s. The published
table has no offsets: a label then begins at its first occurrence, and every occurrence counts anyway.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from zeroth_assets.corpus.archives import Archive, BadMember, archive_path
from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.evaluation.golden.model import GoldenError

IN_MIRROR = ("cuad/derived/cuad_spans_recomputed.json", "cuad/master_clauses.csv")
IN_ARCHIVE = "CUAD_v1/master_clauses.csv"

_OMITTED = re.compile(r"<omitted>")
_EXTENSION = re.compile(r"\.(?:pdf|txt)'?$", re.IGNORECASE)


def find_label_file(mirror: Path | None, raw_dir: Path, records: Sequence[ManifestRecord]) -> Path | None:
    """A file of labels in a mirror folder, or the archive that the contracts were taken from; None without either."""
    if mirror is not None:
        for name in IN_MIRROR:
            if (mirror / name).is_file():
                return mirror / name
    urls = sorted({r.archive_url for r in records if r.source == "cuad" and r.archive_url is not None})
    return next((path for path in (archive_path(raw_dir, url) for url in urls) if path.is_file()), None)


def file_key(name: str) -> str:
    """A contract's file name as letters and digits: the published table spells some otherwise than the files.

    >>> file_key("Part_1/MACY'S,INC-AGREEMENT.PDF") == file_key("MACYS,INC-AGREEMENT.txt")
    True
    """
    stem = _EXTENSION.sub("", name.rsplit("/", 1)[-1])
    plain = unicodedata.normalize("NFKD", stem)
    return "".join(c for c in plain if c.isalnum()).casefold()


def read_label_file(path: Path, topics: Sequence[str]) -> list[dict[str, Any]]:
    """One dict a contract: file, and qas with category, answer and answers (text, clause_index, perhaps answer_start).

    Raises:
        GoldenError: the file is none of those that the corpus's README describes.
    """
    try:
        if path.suffix == ".json":
            listed: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["data"]
            return listed
        if path.suffix == ".zip":
            archive = Archive(path)
            try:
                payload = archive.read(IN_ARCHIVE)
            finally:
                archive.close()
            return list(_contracts(payload, topics))
        return list(_contracts(path.read_bytes(), topics))
    except (OSError, ValueError, KeyError, TypeError, SyntaxError, BadMember) as error:
        raise GoldenError(
            f"The expert labels in {path.name} cannot be read",
            expected=f"{' or '.join(IN_MIRROR)}, or an archive with {IN_ARCHIVE}",
            found=type(error).__name__,
            remedy="set ZEROTH_MIRROR to a folder that holds one, or build without expert labels",
        ) from error


def _contracts(payload: bytes, topics: Sequence[str]) -> Iterator[dict[str, Any]]:
    table = csv.DictReader(io.StringIO(payload.decode("utf-8-sig")))
    columns = {_letters(name): name for name in table.fieldnames or ()}
    for row in table:
        qas = []
        for topic in topics:
            listed = row[columns[_letters(topic)]].strip()
            pieces = [
                p.strip() for label in (ast.literal_eval(listed) if listed else ()) for p in _OMITTED.split(label)
            ]
            labels = [{"text": text, "clause_index": i} for i, text in enumerate(p for p in pieces if p)]
            if labels:
                answer = row[columns[f"{_letters(topic)}answer"]]
                qas.append({"category": topic, "answer": answer, "answers": labels})
        yield {"file": row["Filename"], "qas": qas}


def _letters(name: str) -> str:
    return "".join(c for c in name.casefold() if c.isalpha())
