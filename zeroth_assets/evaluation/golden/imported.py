"""A golden set from elsewhere, beside the manifest whose documents it judges.

What belongs here: where it lies, reading it, and its truth under the corpus's document ids. It is a folder `beir` with
`set.json`, and the queries and qrels as they were published, byte for byte. `beir_import` writes it.

Truth is of whole documents: it has no spans, and chunks carry no grade of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.evaluation.golden.beir import beir_qrels, beir_queries, check_name, query_frame
from zeroth_assets.evaluation.golden.model import QUERY_SCHEMA, GoldenError
from zeroth_assets.evaluation.metric_tables import QRELS_SCHEMA

FOLDER = "beir"
SET_FILE = "set.json"
SOURCE = "text"  # the source whose documents are judged
_SPLIT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
DOCUMENTS = "document"  # stands where a chunk set does, in tables of grades


@dataclass(frozen=True, slots=True)
class ImportedSet:
    """What `set.json` says: the set's name, the qrels that figures are of, those to calibrate on, documents that are
    empty and so not in the manifest, and whether a document with the id of its query is no answer to it.
    """

    name: str
    reported: str
    calibration: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    drop_identical_ids: bool = False

    def to_json(self) -> dict[str, Any]:
        """The object of `set.json`."""
        return {
            "schema": 1,
            "name": self.name,
            "reported": self.reported,
            "calibration": list(self.calibration),
            "empty": list(self.empty),
            "drop_identical_ids": self.drop_identical_ids,
        }


@dataclass(frozen=True, slots=True)
class ImportedGolden:
    """`queries` in `model.QUERY_SCHEMA`, `qrels` in `metric_tables.QRELS_SCHEMA` over the corpus's document ids.

    `never` (query_id, document_id) are pairs that are taken out of a ranking before it is judged.
    """

    about: ImportedSet
    queries: pl.DataFrame
    qrels: pl.DataFrame
    never: pl.DataFrame
    digest: str


def find_imported(manifest: Path) -> Path | None:
    """The folder of the golden set that goes with a manifest file, None where there is none."""
    folder = manifest.parent / FOLDER
    return folder if (folder / SET_FILE).is_file() else None


def imported_digest(folder: Path) -> str:
    """sha256 (hex) over the files that make up the set.

    Raises:
        GoldenError: one cannot be read.
    """
    return _digest(folder, read_about(folder))


def _digest(folder: Path, about: ImportedSet) -> str:
    digest = hashlib.sha256(json.dumps(about.to_json(), sort_keys=True).encode())
    for path in (folder / "queries.jsonl", *(qrels_path(folder, split) for split in _splits(about))):
        try:
            payload = path.read_bytes()
        except OSError as error:
            raise GoldenError(f"{path.name} cannot be read", found=error.strerror or str(error)) from error
        digest.update(hashlib.sha256(payload).digest())
    return digest.hexdigest()


def read_imported(folder: Path, records: Iterable[ManifestRecord], about: ImportedSet | None = None) -> ImportedGolden:
    """The golden set of `folder`, whose documents are among `records`; `about` is its `set.json` unless given.

    Raises:
        GoldenError: as `beir.read_beir`, with file and line; or a query lies in two of the splits.
    """
    about = read_about(folder) if about is None else about
    prefix = f"{SOURCE}:{about.name}:"
    ids = {f"{about.name}:{r.identifier}": r.document_id for r in records if r.document_id.startswith(prefix)}
    ids |= {f"{about.name}:{identifier}": f"{about.name}:{identifier}" for identifier in about.empty}
    texts = beir_queries(folder / "queries.jsonl", about.name)
    queries, qrels = [QUERY_SCHEMA.to_frame()], [QRELS_SCHEMA.to_frame()]
    for split in _splits(about):
        judged = beir_qrels(qrels_path(folder, split), about.name, texts, ids)
        qrels.append(judged)
        place = "test" if split == about.reported else "calibration"
        queries.append(query_frame(about.name, texts, judged, split=place))
    asked = pl.concat(queries)
    twice = asked.filter(pl.col("query_id").is_duplicated())
    if twice.height:
        raise GoldenError(
            f"Query {twice['query_id'][0]} is judged in two of the splits {', '.join(_splits(about))}",
            expected="each query in one, so that nothing is calibrated on what it is measured with",
            remedy="import fewer splits",
        )
    judgments = pl.concat(qrels).with_columns(pl.col("document_id").replace_strict(ids, return_dtype=pl.String))
    never = [
        (query, ids[key])
        for query in asked["query_id"]
        if about.drop_identical_ids and (key := f"{about.name}:{query.split('/', 1)[1]}") in ids
    ]
    return ImportedGolden(
        about,
        asked.sort("query_id"),
        judgments.sort("query_id", "document_id"),
        pl.DataFrame(never, schema={"query_id": pl.String, "document_id": pl.String}, orient="row"),
        _digest(folder, about),
    )


def read_about(folder: Path) -> ImportedSet:
    """What `set.json` says.

    Raises:
        GoldenError: it cannot be read, or says something else.
    """
    try:
        said = json.loads((folder / SET_FILE).read_text("utf-8"))
        if said["schema"] != 1:
            raise ValueError("another schema")
        about = ImportedSet(
            name=str(said["name"]),
            reported=str(said["reported"]),
            calibration=tuple(map(str, said["calibration"])),
            empty=tuple(map(str, said["empty"])),
            drop_identical_ids=bool(said["drop_identical_ids"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise GoldenError(
            f"{FOLDER}/{SET_FILE} is not what `zeroth beir import` writes",
            found=f"{type(error).__name__}: {error}",
            remedy="import the set again",
        ) from error
    check_name(about.name)
    return about


def qrels_path(folder: Path, split: str) -> Path:
    """The file of a split's qrels."""
    return folder / "qrels" / f"{split}.tsv"


def _splits(about: ImportedSet) -> tuple[str, ...]:
    splits = (about.reported, *about.calibration)
    odd = [split for split in splits if not _SPLIT.fullmatch(split)]
    if odd:
        raise GoldenError(f"No qrels are called {odd[0]!r}", expected="the name of a file in qrels/, without .tsv")
    return splits
