"""A sample for a person to grade: drawn over the judge's grades, given out blind, taken back with checks.

What belongs here: drawing, the files that are given out and the file that is kept, reading a graded sheet. The sheet's
HTML is in `sheet`.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from zeroth_assets.artefacts import private_folder, write_atomic
from zeroth_assets.evaluation.judging.agreement import Agreement, Withheld, agreement
from zeroth_assets.evaluation.judging.model import GRADES, JudgeError, JudgeQuery, SheetError
from zeroth_assets.evaluation.judging.prompt import RELEVANCE_STATEMENT
from zeroth_assets.evaluation.judging.sheet import CSV_COLUMNS, SheetItem, guarded, render_sheet, unguarded

SAMPLE_SCHEMA = pl.Schema(
    {
        "item_id": pl.String,
        "query_id": pl.String,
        "document_id": pl.String,
        "question": pl.String,
        "passage": pl.String,
        "model_grade": pl.Int64,
        "weight": pl.Float64,
    }
)
GRADED_SCHEMA = pl.Schema(
    {
        "item_id": pl.String,
        "query_id": pl.String,
        "document_id": pl.String,
        "reference": pl.Int64,
        "judge": pl.Int64,
        "weight": pl.Float64,
    }
)
_NAMED_ROWS = 10


@dataclass(frozen=True, slots=True)
class SheetFiles:
    """What was written. `html` and `csv` are for the person; `key` holds the judge's grades and stays here."""

    html: Path
    csv: Path
    key: Path


def draw_sample(
    judgments: pl.DataFrame,
    passages: pl.DataFrame,
    queries: Sequence[JudgeQuery],
    *,
    size: int = 60,
    seed: int,
) -> pl.DataFrame:
    """A sample (SAMPLE_SCHEMA) with as many pairs of each of the judge's grades as there are, up to equal shares.

    Equal shares make the sample discriminate: drawn evenly from a pool that is 91 % zeros it would hold next to
    nothing else. `weight` is what each pair stands for in the pool. The order is that of opaque ids, so neither place
    nor id tells a grade.

    Raises:
        JudgeError: no judgments, a size below 1, or a judged pair without question or passage.
    """
    if judgments.is_empty() or size < 1:
        raise JudgeError("There is nothing to draw a sample from", expected="judgments, and a size of at least 1")
    pairs = judgments.select("query_id", "document_id", "grade").sort("query_id", "document_id")
    questions = {query.query_id: query.question for query in queries}
    texts = dict(passages.select("document_id", "text").iter_rows())
    shares = equal_shares({grade: int((pairs["grade"] == grade).sum()) for grade in GRADES}, size)
    generator = np.random.default_rng(seed)
    rows = []
    for grade in GRADES:
        stratum = pairs.filter(pl.col("grade") == grade)
        for number in sorted(generator.permutation(stratum.height)[: shares[grade]].tolist()):
            query_id, document_id, _ = stratum.row(number)
            if query_id not in questions or document_id not in texts:
                raise JudgeError(
                    "A judged pair has no text", expected="a question and a passage", found=f"{(query_id, document_id)}"
                )
            name = hashlib.sha256(f"{seed}\x00{query_id}\x00{document_id}".encode()).hexdigest()[:12]
            weight = stratum.height / shares[grade]
            rows.append((name, query_id, document_id, questions[query_id], texts[document_id], grade, weight))
    return pl.DataFrame(rows, schema=SAMPLE_SCHEMA, orient="row").sort("item_id")


def export_sheet(
    sample: pl.DataFrame,
    folder: Path,
    *,
    statement: str = RELEVANCE_STATEMENT,
    key: Path | None = None,
    judge: str = "",
) -> SheetFiles:
    """Write the sheet as one HTML file and as CSV, and the key (default: beside them), which the person must not see.

    `judge` is the name that the key remembers. The files hold text of documents: their owner alone can read them.

    Raises:
        SheetError: the folder cannot be written.
    """
    files = SheetFiles(folder / "sheet.html", folder / "sheet.csv", key or folder / "key.json")
    items = [SheetItem(*row) for row in sample.select("item_id", "question", "passage").iter_rows()]
    entries = [
        {
            "item_id": row["item_id"],
            "query_id": row["query_id"],
            "document_id": row["document_id"],
            "model_grade": row["model_grade"],
            "weight": row["weight"],
            "text_sha256": _text_hash(row["question"], row["passage"]),
            "judge": judge,
        }
        for row in sample.iter_rows(named=True)
    ]
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\r\n")
    writer.writerow(CSV_COLUMNS)
    writer.writerows((item.item_id, "", guarded(item.question), guarded(item.passage)) for item in items)
    contents = (
        (files.html, render_sheet(items, statement)),
        (files.csv, "\ufeff" + table.getvalue()),
        (files.key, json.dumps(entries, indent=1)),
    )
    try:
        for path, content in contents:
            private_folder(path.parent)
            write_atomic(path, content.encode("utf-8"))
    except OSError as error:
        raise SheetError(
            "The sheet cannot be written", expected="a folder that you may write", found=str(error)
        ) from error
    return files


def judge_of(key: Path) -> str:
    """The judge whose grades a key holds.

    Raises:
        SheetError: it is no key.
    """
    entries = _read_key(key)
    return str(json.loads(key.read_text("utf-8"))[0].get("judge", "")) if entries else ""


def item_ids(graded: Path) -> set[str]:
    """The items of a sheet, whatever else it holds.

    Raises:
        SheetError: it is no sheet.
    """
    return {row["item_id"].strip() for _, row in _read_rows(graded)}


def import_sheet(graded: Path, key: Path) -> pl.DataFrame:
    """Read a graded sheet (CSV, saved by the HTML sheet or by a spreadsheet) as GRADED_SCHEMA.

    Raises:
        SheetError: not CSV in UTF-8, columns missing, an unknown or repeated item, items missing, a text that is not
            the one given out, a grade missing or other than 0 to 3. Rows are named as a spreadsheet counts them.
    """
    known = {entry["item_id"]: entry for entry in _read_key(key)}
    rows = _read_rows(graded)
    problems: dict[str, list[int]] = {}
    seen: set[str] = set()
    out: list[tuple[Any, ...]] = []
    for number, row in rows:
        item, grade = row["item_id"].strip(), row["grade"].strip()
        entry = known.get(item)
        if entry is None:
            problems.setdefault("an item that was not given out", []).append(number)
        elif item in seen:
            problems.setdefault("an item that is there already", []).append(number)
        elif _text_hash(unguarded(row["question"]), unguarded(row["passage"])) != entry["text_sha256"]:
            problems.setdefault("another text than was given out", []).append(number)
        elif not grade:
            problems.setdefault("no grade", []).append(number)
        elif grade not in {str(g) for g in GRADES}:
            problems.setdefault("a grade other than 0, 1, 2, 3", []).append(number)
        else:
            out.append(
                (item, entry["query_id"], entry["document_id"], int(grade), entry["model_grade"], entry["weight"])
            )
        seen.add(item)
    missing = len(known.keys() - seen)
    if problems or missing:
        found = [f"{what} in {_named(numbers)}" for what, numbers in problems.items()]
        found += [f"{missing} of {len(known)} items missing"] if missing else []
        raise SheetError(
            "The graded sheet cannot be taken back",
            expected="every item as it was given out, each with a grade",
            found="; ".join(found),
            remedy="finish or correct these rows; texts and ids are not to be edited",
        )
    return pl.DataFrame(out, schema=GRADED_SCHEMA, orient="row").sort("item_id")


def sample_agreement(graded: pl.DataFrame, *, seed: int, resamples: int = 1_000) -> Agreement | Withheld:
    """The judge's agreement with the person, or why the sample cannot tell it. `graded` as `import_sheet` gives it."""
    return agreement(graded, seed=seed, resamples=resamples, reference_name="the person")


def equal_shares(available: dict[int, int], size: int) -> dict[int, int]:
    """How many of each grade make a sample of `size`: equal shares, as far as each stratum reaches.

    What one lacks goes to the others, larger grades first.
    """
    shares = dict.fromkeys(available, 0)
    for _ in range(min(size, sum(available.values()))):
        open_ones = [grade for grade in available if shares[grade] < available[grade]]
        shares[min(open_ones, key=lambda grade: (shares[grade], -grade))] += 1
    return shares


def _text_hash(question: str, passage: str) -> str:
    """Of the texts with one kind of line end: browsers and spreadsheets change those."""
    joined = "\x00".join(part.replace("\r\n", "\n").replace("\r", "\n") for part in (question, passage))
    return hashlib.sha256(joined.encode("utf-8")).hexdigest()


def _read_key(path: Path) -> list[dict[str, Any]]:
    try:
        entries = json.loads(path.read_text("utf-8"))
        return [_key_entry(entry) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SheetError(
            "The key of the sheet cannot be read",
            expected="the key.json that was written with the sheet",
            found=type(error).__name__,
        ) from None


def _key_entry(entry: Any) -> dict[str, Any]:
    texts = {name: entry[name] for name in ("item_id", "query_id", "document_id", "text_sha256")}
    weight, grade = float(entry["weight"]), entry["model_grade"]
    if not all(isinstance(text, str) and text for text in texts.values()) or grade not in GRADES or not weight > 0:
        raise ValueError("an entry that was not written so")
    return {**texts, "model_grade": int(grade), "weight": weight}


def _read_rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
        # Spreadsheets of half the world separate by semicolons.
        head = text.split("\n", 1)[0]
        delimiter = max(",;\t", key=head.count)
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, restval="", strict=True)
        missing = [name for name in CSV_COLUMNS if name not in (reader.fieldnames or [])]
        rows = [(number, row) for number, row in enumerate(reader, 2)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SheetError(
            "The graded sheet cannot be read",
            expected="CSV in UTF-8, as the sheet saves it",
            found=type(error).__name__,
            remedy="save it anew as CSV (UTF-8)",
        ) from None
    if missing:
        raise SheetError(
            "The graded sheet lacks columns", expected=", ".join(CSV_COLUMNS), found="without " + ", ".join(missing)
        )
    return [(number, {name: row[name] or "" for name in CSV_COLUMNS}) for number, row in rows]


def _named(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:_NAMED_ROWS]))
    more = len(numbers) - _NAMED_ROWS
    return f"row {shown}" if len(numbers) == 1 else f"rows {shown}" + (f" and {more} more" if more > 0 else "")
