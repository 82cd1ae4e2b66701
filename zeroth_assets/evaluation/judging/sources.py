"""Where a pool's grades come from: experts' spans, a judge, both; and the sentence that says so.

What belongs here: putting grades of several origins into one table without losing which is which.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from zeroth_assets.evaluation.judging.model import PAIR_SCHEMA, JudgedRun, JudgeError, are_grades

GRADED_SCHEMA = pl.Schema({"query_id": pl.String, "document_id": pl.String, "grade": pl.Int64, "graded_by": pl.String})
BY_SPAN = "span"


@dataclass(frozen=True, slots=True)
class GradedPool:
    """A pool's grades (GRADED_SCHEMA), how many pairs have none, and in words who graded."""

    frame: pl.DataFrame
    unjudged: int
    statement: str


def grade_pool(pool: pl.DataFrame, span_grades: pl.DataFrame, judged: JudgedRun | None = None) -> GradedPool:
    """Grade every pair of `pool` by its span where there is one, else by the judge, else not at all.

    `span_grades` has query_id, document_id, grade. A span is human truth, so it goes before the judge. A pair that
    nobody graded stays out of the table: unjudged is not 0. Without a judge the statement says that there was none.

    >>> pairs = {"query_id": ["q", "q"], "document_id": ["a", "b"]}
    >>> spans = pl.DataFrame({"query_id": ["q"], "document_id": ["a"], "grade": [3]})
    >>> grade_pool(pl.DataFrame(pairs), spans).statement
    'No judge is configured: all grades come from spans alone. 1 of 2 pairs graded, 1 unjudged.'

    Raises:
        JudgeError: columns missing, or a span's grade out of range or given twice.
    """
    keys = list(PAIR_SCHEMA)
    for frame, what, wanted in ((pool, "judgment pool", keys), (span_grades, "spans' grades", [*keys, "grade"])):
        if any(name not in frame.columns for name in wanted):
            raise JudgeError(f"The {what} lacks columns", expected=", ".join(wanted), found=", ".join(frame.columns))
    if not are_grades(span_grades["grade"]):
        raise JudgeError("A span's grade is out of range", expected="whole numbers from 0 to 3")
    twice = span_grades.filter(span_grades.select(keys).is_duplicated())
    if twice.height:
        raise JudgeError(
            "A pair has two grades by span", expected="one for each", found=repr(twice.select(keys).row(0))
        )
    pairs = pool.select(keys).unique()
    spans = span_grades.select(*keys, pl.col("grade").cast(pl.Int64), pl.lit(BY_SPAN).alias("graded_by"))
    parts = [pairs.join(spans, on=keys, how="inner")]
    if judged is not None:
        rest = pairs.join(spans, on=keys, how="anti")
        parts.append(rest.join(judged.judgments.select(list(GRADED_SCHEMA)), on=keys, how="inner"))
    frame = pl.concat([part.select(list(GRADED_SCHEMA)) for part in parts]).sort(keys)
    by_judge = frame.height - parts[0].height
    unjudged = pairs.height - frame.height
    if judged is None:
        who = "No judge is configured: all grades come from spans alone."
    else:
        who = f"{parts[0].height} grades come from spans, {by_judge} from the judge {judged.snapshot.label}."
    counted = f"{frame.height} of {pairs.height} pairs graded, {unjudged} unjudged."
    return GradedPool(frame, unjudged, f"{who} {counted}")
