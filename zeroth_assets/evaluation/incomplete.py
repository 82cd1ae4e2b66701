"""Measures for judgments with holes: bpref, and rankings with the unjudged taken out.

What belongs here: what to report where many of the retrieved documents carry no grade. An unjudged document counts as
not relevant in every measure of `metrics`; these two do not count it at all, each in its own way, and neither is
comparable with the ordinary figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.metric_tables import QRELS_SCHEMA, grade_table
from zeroth_assets.evaluation.metrics import RELEVANT, Id, check_grade


def bpref(ranked: Sequence[Id], grades: Mapping[Id, int], *, relevant: int = RELEVANT) -> float:
    """How seldom documents judged not relevant stand above relevant ones (Buckley and Voorhees 2004, as in trec_eval).

    (1 / R) * sum over the relevant documents retrieved of 1 - min(n, R) / min(R, N): n is the number of documents
    judged not relevant above it, R and N the numbers judged relevant and not. Unjudged documents are passed over.

    >>> bpref(["n1", "r1", "unjudged", "r2"], {"r1": 2, "r2": 3, "n1": 0, "n2": 1})
    0.5

    Raises:
        MeasurementError: duplicate ids, or a grade that is no whole number from 0 to 3.
    """
    if len(set(ranked)) != len(ranked):
        raise MeasurementError("A ranking holds an id twice", expected="distinct ids")
    for i, grade in grades.items():
        check_grade(grade, i)
    wanted = sum(grade >= relevant for grade in grades.values())
    unwanted = len(grades) - wanted
    if not wanted:
        return math.nan
    above, total = 0, 0.0
    for i in ranked:
        if i not in grades:
            continue
        if grades[i] >= relevant:
            total += 1.0 - min(above, wanted) / min(wanted, unwanted) if above else 1.0
        else:
            above += 1
    return total / wanted


def bpref_table(run: pl.DataFrame, qrels: pl.DataFrame, *, depth: int = 1000, relevant: int = RELEVANT) -> pl.DataFrame:
    """`bpref` over the top `depth` for every query of `qrels`: query_id, bpref (null without a relevant document).

    Raises:
        MeasurementError: as `metric_tables.evaluate`.
    """
    table = grade_table(run, qrels, depth=depth, relevant=relevant)
    judged = qrels.group_by("query_id").agg(pl.len()).sort("query_id")["len"].to_numpy().astype(np.int64)
    wanted = table.relevant
    hit = table.grades >= relevant
    above = np.cumsum((table.grades >= 0) & ~hit, axis=1)
    cap = np.maximum(np.minimum(wanted, judged - wanted), 1)[:, None]
    worth = 1.0 - np.minimum(above, wanted[:, None]) / cap
    with np.errstate(invalid="ignore", divide="ignore"):
        values = np.where(wanted > 0, (worth * hit).sum(axis=1) / wanted, np.nan)
    return pl.DataFrame({"query_id": table.query_ids, "bpref": values}).with_columns(pl.col("bpref").fill_nan(None))


def condensed(run: pl.DataFrame, qrels: pl.DataFrame) -> pl.DataFrame:
    """The run without its unjudged documents (Sakai 2007); evaluated by any measure it gives the condensed-list form.

    A query all of whose results are unjudged is then missing from the run, and scores 0.
    """
    judged = qrels.select(QRELS_SCHEMA.names()[:2])
    return run.join(judged, on=["query_id", "document_id"], how="semi")
