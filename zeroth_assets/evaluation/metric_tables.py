"""The measures of `metrics` for many queries at once: frames in, one row per query out.

What belongs here: the vectorised form, in NumPy over one matrix of grades. A property test holds it equal to the
functions of `metrics` and to ir_measures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.metrics import MAX_GRADE, RELEVANT

RUN_SCHEMA = pl.Schema({"query_id": pl.String, "document_id": pl.String, "score": pl.Float64})
QRELS_SCHEMA = pl.Schema({"query_id": pl.String, "document_id": pl.String, "grade": pl.Int64})
CUTOFFS = (5, 10, 20, 50)
MEASURES = (
    "recall",
    "success",
    "reciprocal_rank",
    "ndcg_exponential",
    "ndcg_linear",
    "context_precision",
    "average_precision",
    "judged",
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GradeTable:
    """The grades of every query's ranking.

    `grades` is int8 (queries, depth): the grade at each rank, -1 where the document is unjudged, -2 past the end of
    the ranking. `relevant` counts each query's relevant documents; `ideal` is int8 (queries, depth): its grades in
    descending order, 0 beyond them.
    """

    query_ids: list[str]
    grades: NDArray[np.int8]
    relevant: NDArray[np.int64]
    ideal: NDArray[np.int8]
    boundary: int


def evaluate(
    run: pl.DataFrame,
    qrels: pl.DataFrame,
    *,
    cutoffs: Sequence[int] = CUTOFFS,
    measures: Sequence[str] = MEASURES,
    relevant: int = RELEVANT,
) -> pl.DataFrame:
    """Every measure at every cut-off, one row per query of `qrels`, ordered by query id.

    `run` has the columns query_id, document_id, score; `qrels` query_id, document_id, grade. Scores rank within a
    query, highest first, equal scores by document id, ascending. Columns are named `<measure>@<k>`; null where the
    measure is undefined (no relevant document; for judged@k: nothing came back). A query of `qrels` that is missing
    from the run scores 0 in every other.

    Raises:
        MeasurementError: empty qrels, a query of the run that the qrels do not know, the same document twice in a
            query, a score that is null or NaN, a grade out of range, a cut-off below 1, an unknown measure.
    """
    if not cutoffs or any(k < 1 for k in cutoffs):
        raise MeasurementError("A cut-off is impossible", expected="whole numbers of at least 1", found=str(cutoffs))
    unknown = sorted(set(measures) - set(MEASURES))
    if unknown:
        raise MeasurementError("Unknown measures", expected=", ".join(MEASURES), found=", ".join(unknown))
    table = grade_table(run, qrels, depth=max(cutoffs), relevant=relevant)
    columns: dict[str, object] = {"query_id": table.query_ids}
    for measure in measures:
        per_rank = _PER_RANK[measure](table)
        for k in cutoffs:
            columns[f"{measure}@{k}"] = per_rank[:, k - 1]
    frame = pl.DataFrame(columns, schema_overrides={"query_id": pl.String})
    return frame.with_columns(pl.selectors.float().fill_nan(None))


def grade_table(run: pl.DataFrame, qrels: pl.DataFrame, *, depth: int, relevant: int = RELEVANT) -> GradeTable:
    """Line the run up with the qrels. Arguments and errors as `evaluate`."""
    run, qrels = _checked(run, RUN_SCHEMA, "run"), _checked(qrels, QRELS_SCHEMA, "qrels")
    if qrels.is_empty():
        raise MeasurementError("The qrels are empty", expected="at least one judged document")
    off = qrels.filter(~pl.col("grade").is_between(0, MAX_GRADE))
    if off.height:
        raise MeasurementError(
            "A grade is out of range", expected=f"whole numbers from 0 to {MAX_GRADE}", found=str(off.row(0))
        )
    if not run["score"].is_finite().all():
        bad = run.filter(~pl.col("score").is_finite()).row(0)
        raise MeasurementError("A score is not a finite number", expected="finite scores", found=str(bad))

    query_ids = qrels["query_id"].unique().sort()
    # Ids become numbers in their own order, so that ties by number are ties by id.
    documents = pl.concat([qrels["document_id"], run["document_id"]]).unique().sort()
    run_query = _codes(run["query_id"], query_ids)
    if (run_query < 0).any():
        stranger = run["query_id"][int(np.flatnonzero(run_query < 0)[0])]
        raise MeasurementError(
            "The run answers a query that the qrels do not know", expected="queries of the qrels", found=repr(stranger)
        )
    run_document = _codes(run["document_id"], documents)
    width = len(documents)
    run_key = run_query * width + run_document
    qrel_key = _codes(qrels["query_id"], query_ids) * width + _codes(qrels["document_id"], documents)
    by_key = np.argsort(qrel_key, kind="stable")
    _refuse_duplicates(np.sort(run_key), "run", query_ids, documents)
    _refuse_duplicates(qrel_key[by_key], "qrels", query_ids, documents)

    found = np.searchsorted(qrel_key, run_key, sorter=by_key)
    candidate = by_key[np.minimum(found, by_key.size - 1)]
    grade = qrels["grade"].to_numpy().astype(np.int8)
    run_grade = np.where(qrel_key[candidate] == run_key, grade[candidate], -1).astype(np.int8)

    order = np.lexsort((run_document, -run["score"].to_numpy(), run_query))
    qrel_query = qrel_key // width
    ideal_order = np.lexsort((-grade, qrel_query))
    return GradeTable(
        query_ids=query_ids.to_list(),
        grades=_matrix(run_query[order], run_grade[order], len(query_ids), depth, -2),
        relevant=np.bincount(qrel_query[grade >= relevant], minlength=len(query_ids)),
        ideal=_matrix(qrel_query[ideal_order], grade[ideal_order], len(query_ids), depth, 0),
        boundary=relevant,
    )


def _matrix(rows: NDArray[np.int64], values: NDArray[np.int8], height: int, depth: int, fill: int) -> NDArray[np.int8]:
    """Values, grouped by ascending row number, as the left-aligned rows of a matrix cut at `depth`."""
    starts = np.searchsorted(rows, np.arange(height))
    position = np.arange(rows.size) - starts[rows]
    keep = position < depth
    out = np.full((height, depth), fill, dtype=np.int8)
    out[rows[keep], position[keep]] = values[keep]
    return out


def _is_relevant(table: GradeTable) -> NDArray[np.bool_]:
    return np.asarray(table.grades >= table.boundary)


def _ranks(table: GradeTable) -> Floats:
    return np.arange(1, table.grades.shape[1] + 1, dtype=np.float64)


def _where_answerable(table: GradeTable, values: Floats) -> Floats:
    return np.where(table.relevant[:, None] > 0, values, np.nan)


def _recall(table: GradeTable) -> Floats:
    hits = np.cumsum(_is_relevant(table), axis=1)
    return _where_answerable(table, hits / np.maximum(table.relevant, 1)[:, None])


def _success(table: GradeTable) -> Floats:
    return _where_answerable(table, np.logical_or.accumulate(_is_relevant(table), axis=1).astype(np.float64))


def _reciprocal_rank(table: GradeTable) -> Floats:
    return _where_answerable(table, np.maximum.accumulate(_is_relevant(table) / _ranks(table), axis=1))


def _context_precision(table: GradeTable) -> Floats:
    return np.asarray(np.cumsum(_is_relevant(table), axis=1) / _ranks(table))


def _average_precision(table: GradeTable) -> Floats:
    relevant = _is_relevant(table)
    precision = np.cumsum(relevant, axis=1) / _ranks(table)
    return _where_answerable(table, np.cumsum(precision * relevant, axis=1) / np.maximum(table.relevant, 1)[:, None])


def _judged(table: GradeTable) -> Floats:
    returned = np.cumsum(table.grades > -2, axis=1)
    judged = np.cumsum(table.grades >= 0, axis=1)
    return np.where(returned > 0, judged / np.maximum(returned, 1), np.nan)


def _ndcg(gains: Floats) -> Callable[[GradeTable], Floats]:
    def measure(table: GradeTable) -> Floats:
        discount = 1.0 / np.log2(_ranks(table) + 1.0)
        achieved = np.cumsum(gains[np.maximum(table.grades, 0)] * discount, axis=1)
        ideal = np.cumsum(gains[table.ideal] * discount, axis=1)
        with np.errstate(invalid="ignore"):
            return np.where(ideal > 0, achieved / ideal, np.nan)

    return measure


_PER_RANK: dict[str, Callable[[GradeTable], Floats]] = {
    "recall": _recall,
    "success": _success,
    "reciprocal_rank": _reciprocal_rank,
    "ndcg_exponential": _ndcg(np.exp2(np.arange(MAX_GRADE + 1, dtype=np.float64)) - 1.0),
    "ndcg_linear": _ndcg(np.arange(MAX_GRADE + 1, dtype=np.float64)),
    "context_precision": _context_precision,
    "average_precision": _average_precision,
    "judged": _judged,
}


def _codes(ids: pl.Series, known: pl.Series) -> NDArray[np.int64]:
    """Position of each id in `known` (sorted, distinct), -1 where it is absent."""
    categories = pl.Enum(known)
    return ids.cast(categories, strict=False).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()


def _refuse_duplicates(ordered: NDArray[np.int64], what: str, queries: pl.Series, documents: pl.Series) -> None:
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if twice.size:
        query, document = divmod(int(ordered[twice[0]]), len(documents))
        raise MeasurementError(
            f"The {what} holds a document twice for one query",
            expected="each document once per query",
            found=f"query {queries[query]!r}, document {documents[document]!r}",
        )


def _checked(frame: pl.DataFrame, schema: pl.Schema, what: str) -> pl.DataFrame:
    missing = [name for name in schema if name not in frame.columns]
    if missing:
        raise MeasurementError(
            f"The {what} lacks columns", expected=", ".join(schema), found=f"without {', '.join(missing)}"
        )
    narrowed = frame.select(list(schema))
    if sum(narrowed.null_count().row(0)):
        raise MeasurementError(f"The {what} has empty cells", expected="no nulls in " + ", ".join(schema))
    try:
        typed = narrowed.cast(schema)
    except pl.exceptions.PolarsError as error:
        raise MeasurementError(
            f"The {what} has columns of other types", expected=str(dict(schema)), found=str(error)
        ) from error
    if "grade" in schema and narrowed["grade"].dtype.is_float():
        broken = narrowed.filter(pl.col("grade") != typed["grade"])
        if broken.height:
            raise MeasurementError(
                "A grade is out of range", expected=f"whole numbers from 0 to {MAX_GRADE}", found=str(broken.row(0))
            )
    return typed
