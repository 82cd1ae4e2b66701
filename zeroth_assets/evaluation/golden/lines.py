"""Reading text files line by line, with errors that name the line.

What belongs here: what TREC and BEIR readers share.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zeroth_assets.evaluation.golden.model import GoldenError
from zeroth_assets.evaluation.metrics import MAX_GRADE

_DIGITS = re.compile(r"[0-9]{1,9}")


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines that are not blank, from 1.

    Raises:
        GoldenError: the file cannot be read, or is not UTF-8.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as handle:
            for number, line in enumerate(handle, start=1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise GoldenError(f"{path.name} cannot be read", expected="a UTF-8 text file", found=str(error)) from error


def refusal(path: Path, number: int, *, expected: str, found: str) -> GoldenError:
    """An error that names a line."""
    return GoldenError(f"{path.name} line {number} is refused", expected=expected, found=found)


def grade_at(path: Path, number: int, raw: str) -> int:
    """A grade.

    Raises:
        GoldenError: not a whole number from 0 to 3.
    """
    # What int() takes besides, such as 0_1 or digits of another script, no other tool reads.
    grade = int(raw) if _DIGITS.fullmatch(raw) else -1
    if not 0 <= grade <= MAX_GRADE:
        raise refusal(path, number, expected=f"a grade, a whole number from 0 to {MAX_GRADE}", found=repr(raw))
    return grade


def score_at(path: Path, number: int, raw: str) -> float:
    """A score.

    Raises:
        GoldenError: not a finite number.
    """
    try:
        score = math.nan if "_" in raw else float(raw)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise refusal(path, number, expected="a score, a finite number", found=repr(raw))
    return score


def object_at(path: Path, number: int, line: str, fields: tuple[str, ...]) -> dict[str, Any]:
    """A JSON object whose `fields` are texts.

    Raises:
        GoldenError: it is none, or lacks one.
    """
    try:
        item = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise refusal(path, number, expected="a JSON object", found=str(error)) from error
    if not isinstance(item, dict) or any(not isinstance(item.get(field), str) for field in fields):
        raise refusal(path, number, expected=f"a JSON object with the texts {', '.join(fields)}", found="another value")
    return item
