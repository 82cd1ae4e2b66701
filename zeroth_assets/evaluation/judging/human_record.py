"""A person's sample over a home's judgments: given out, taken back, and kept with what it says of the judge.

What belongs here: from published artefacts to sheets, and the records of graded ones. Drawing and reading a sheet are
`human_sample`'s. No record holds text of a document; the sheet does, and so only its owner can read it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import polars as pl

from zeroth_assets.artefacts import ArtefactStore, private_folder, write_atomic
from zeroth_assets.errors import ArtefactError
from zeroth_assets.evaluation.golden.judgments import MODEL
from zeroth_assets.evaluation.judging.agreement import Agreement, Withheld
from zeroth_assets.evaluation.judging.human_sample import (
    SheetFiles,
    draw_sample,
    export_sheet,
    import_sheet,
    item_ids,
    judge_of,
    sample_agreement,
)
from zeroth_assets.evaluation.judging.model import JudgeError, JudgeQuery, SheetError
from zeroth_assets.evaluation.judging.worth import agreement_in_words, numbers_of
from zeroth_assets.settings import CHUNK_SETS

KEYS: Final = "keys"
GRADED: Final = "graded"


@dataclass(frozen=True, slots=True)
class PersonsAgreement:
    """What a graded sheet says of a judge: `found` may be withheld, with the reason."""

    judge: str
    found: Agreement | Withheld
    at: str
    record: Path

    @property
    def words(self) -> str:
        """In a sentence."""
        return str(self.found) if isinstance(self.found, Withheld) else agreement_in_words(self.found)


def give_out(store: ArtefactStore, folder: Path, private: Path, *, size: int, seed: int) -> SheetFiles:
    """Write a sheet of `size` of the model's grades, drawn evenly over the grades, as HTML and CSV into `folder`.

    The key with the model's grades stays in `private`, the judge's folder of the home.

    Raises:
        JudgeError: no model graded anything in this home.
        ArtefactError: judgments or chunks were never published.
    """
    judged = store.read_frame("judgments").filter(pl.col("judged_by").str.starts_with(MODEL))
    about = store.require("judgments").details.get("judge")
    if judged.is_empty() or about is None:
        raise JudgeError(
            "There is no grade of a model to compare a person's with",
            expected="judgments by a model",
            found="spans alone",
            remedy="set ZEROTH_JUDGE_URL and ZEROTH_JUDGE_MODEL, then `zeroth materialize`",
        )
    queries = store.read_frame("golden_queries", columns=["query_id", "text"])
    sample = draw_sample(
        judged.unique(["query_id", "document_id"], maintain_order=True),
        _texts(store, judged["document_id"].unique()),
        [JudgeQuery(*row) for row in queries.iter_rows()],
        size=size,
        seed=seed,
    )
    name = hashlib.sha256("\n".join(sample["item_id"]).encode()).hexdigest()[:16]
    private_folder(private)
    return export_sheet(sample, folder, key=private / KEYS / f"{name}.json", judge=about["label"])


def take_back(sheet: Path, private: Path, *, seed: int, resamples: int, at: str | None = None) -> PersonsAgreement:
    """Read a graded sheet, compare it with the model's grades, and keep the record.

    Raises:
        SheetError: the sheet was not given out from this home, or is not whole; see `human_sample.import_sheet`.
    """
    key = _key_of(sheet, private / KEYS)
    frame = import_sheet(sheet, key)
    found = sample_agreement(frame, seed=seed, resamples=resamples)
    at = at or datetime.now(UTC).isoformat(timespec="seconds")
    record = private / GRADED / key.name
    private_folder(record.parent)
    content = {
        "judge": judge_of(key),
        "at": at,
        "agreement": numbers_of(found),
        "words": PersonsAgreement("", found, at, record).words,
        "grades": frame.drop("item_id").to_dicts(),
    }
    write_atomic(record, json.dumps(content, indent=1).encode())
    return PersonsAgreement(judge_of(key), found, at, record)


def persons_words(private: Path, judge: str) -> str | None:
    """What the last graded sheet of this judge says of it, None where nobody graded one.

    Raises:
        ArtefactError: a record cannot be read.
    """
    found: list[tuple[str, str]] = []
    for path in sorted((private / GRADED).glob("*.json")):
        try:
            content: dict[str, Any] = json.loads(path.read_text("utf-8"))
            if content["judge"] == judge:
                found.append((str(content["at"]), str(content["words"])))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ArtefactError(
                f"The graded sheet {path.name} cannot be read",
                expected="the JSON that `zeroth judge import` writes",
                found=type(error).__name__,
                remedy=f"remove {path} and import the sheet again",
            ) from error
    return max(found)[1] if found else None


def _texts(store: ArtefactStore, wanted: pl.Series) -> pl.DataFrame:
    frames = [pl.DataFrame(schema={"document_id": pl.String, "text": pl.String})]
    for chunk_set in CHUNK_SETS:
        name = f"chunks_{chunk_set}"
        for key in store.partitions(name):
            chunks = store.read_frame(name, key, columns=["chunk_id", "text"])
            named = chunks.select(pl.col("chunk_id").cast(pl.String).alias("document_id"), "text")
            frames.append(named.filter(pl.col("document_id").is_in(wanted.implode())))
    return pl.concat(frames).unique("document_id")


def _key_of(sheet: Path, keys: Path) -> Path:
    """The key of the sheet that shares most items with this one."""
    mine = item_ids(sheet)
    shared = {path: len(mine & item_ids_of_key(path)) for path in sorted(keys.glob("*.json"))}
    best = max(shared, key=lambda path: shared[path], default=None)
    if best is None or not shared[best]:
        raise SheetError(
            "The graded sheet was not given out from this home",
            expected="items of a sheet that `zeroth judge sheet` wrote",
            found=f"{len(mine)} items, none of them of the {len(shared)} sheets given out",
            remedy="set ZEROTH_HOME to the home that the sheet is of",
        )
    return best


def item_ids_of_key(path: Path) -> set[str]:
    """The items of a key; none where it is damaged, which reading it in earnest will say."""
    try:
        return {str(entry["item_id"]) for entry in json.loads(path.read_text("utf-8"))}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
