"""Effectiveness measures of one ranking: what each means, who defined it, what it is undefined for.

What belongs here: one small function per measure, over ranked ids and a `{id: grade}` mapping. Tables of many queries
are in `metric_tables`, which a property test holds equal to these.

Common to all:

- grades are whole numbers from 0 (not relevant) to 3 (holds the whole answer); an id without a grade is unjudged and
  counts as 0;
- "relevant" means grade >= `relevant`, 2 unless told otherwise;
- `ranked` is best first, without duplicates; an empty ranking is a query that is missing from the run, and scores 0;
- a query without any relevant document leaves recall, success, reciprocal rank, average precision and nDCG undefined:
  NaN. Such queries belong to the abstention figures; tables leave them out of the mean and report n.
- the tie rule: a ranking has no ties. `ranking_from_scores` makes it from scores, highest first, equal scores by id,
  ascending.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from zeroth_assets.errors import MeasurementError

Id = TypeVar("Id", bound=Hashable)
Gain = Literal["exponential", "linear"]
MAX_GRADE = 3
RELEVANT = 2


def recall_at_k(ranked: Sequence[Id], grades: Mapping[Id, int], k: int, *, relevant: int = RELEVANT) -> float:
    """TREC's Recall@k: the share of all relevant documents that stand in the top k.

    Not what practitioners of retrieval-augmented generation call Recall@k: that is `success_at_k`. Not capped: with 20
    relevant documents, k = 10 reaches 0.5 at most (Manning, Raghavan and Schuetze 2008, section 8.4).

    >>> recall_at_k(list(range(10)), {i: 3 for i in range(20)}, 10)
    0.5

    Raises:
        MeasurementError: k < 1, duplicate ids, a grade that is no whole number from 0 to 3.
    """
    top = _top(ranked, grades, k)
    total = sum(grade >= relevant for grade in grades.values())
    return _hits(top, grades, relevant) / total if total else math.nan


def success_at_k(ranked: Sequence[Id], grades: Mapping[Id, int], k: int, *, relevant: int = RELEVANT) -> float:
    """Success@k: 1 if any relevant document stands in the top k, else 0.

    Its mean, the share of queries with a hit, is the "Recall@k" of this project's headline figures and of much writing
    about retrieval for generation; TREC calls it Success@k.

    >>> success_at_k(["d4", "d2"], {"d1": 3, "d2": 2}, 2), success_at_k(["d4", "d2"], {"d1": 3, "d2": 2}, 1)
    (1.0, 0.0)

    Raises:
        MeasurementError: as `recall_at_k`.
    """
    top = _top(ranked, grades, k)
    if not _answerable(grades, relevant):
        return math.nan
    return 1.0 if _hits(top, grades, relevant) else 0.0


def reciprocal_rank_at_k(ranked: Sequence[Id], grades: Mapping[Id, int], k: int, *, relevant: int = RELEVANT) -> float:
    """1 / rank of the first relevant document, 0 if none stands in the top k (Kantor and Voorhees 2000).

    The mean over queries is MRR@k; misses stay in its denominator.

    >>> reciprocal_rank_at_k(["d4", "d2"], {"d2": 2}, 10)
    0.5

    Raises:
        MeasurementError: as `recall_at_k`.
    """
    top = _top(ranked, grades, k)
    if not _answerable(grades, relevant):
        return math.nan
    return next((1.0 / rank for rank, i in enumerate(top, 1) if grades.get(i, 0) >= relevant), 0.0)


def average_precision(
    ranked: Sequence[Id], grades: Mapping[Id, int], k: int | None = None, *, relevant: int = RELEVANT
) -> float:
    """Mean of precision at the rank of each relevant document, the ones not found counting 0 (Harman 1992).

    With `k` the ranking is cut there; the denominator stays all relevant documents.

    >>> round(average_precision(["a", "x", "b"], {"a": 2, "b": 3, "c": 2}), 4)
    0.5556

    Raises:
        MeasurementError: as `recall_at_k`.
    """
    top = _top(ranked, grades, max(1, len(ranked)) if k is None else k)
    total = sum(grade >= relevant for grade in grades.values())
    if not total:
        return math.nan
    found, precisions = 0, 0.0
    for rank, i in enumerate(top, 1):
        if grades.get(i, 0) >= relevant:
            found += 1
            precisions += found / rank
    return precisions / total


def ndcg_at_k(ranked: Sequence[Id], grades: Mapping[Id, int], k: int, *, gain: Gain = "exponential") -> float:
    """Normalised discounted cumulated gain (Jarvelin and Kekalainen 2002), discount 1 / log2(rank + 1).

    Gain "exponential" is 2^grade - 1 (Burges et al. 2005), "linear" is the grade itself (trec_eval): two measures, so
    a table names which. The ideal ranking is that of all judged documents, cut at k. Undefined if all grades are 0.

    >>> ranked, grades = ["C", "B", "A", "D"], {"A": 3, "B": 2, "C": 1, "D": 0}
    >>> round(ndcg_at_k(ranked, grades, 4, gain="linear"), 4), round(ndcg_at_k(ranked, grades, 4), 4)
    (0.79, 0.6806)

    Raises:
        MeasurementError: as `recall_at_k`, or an unknown gain.
    """
    top = _top(ranked, grades, k)
    if gain not in ("exponential", "linear"):
        raise MeasurementError("An unknown gain", expected="'exponential' or 'linear'", found=repr(gain))
    ideal = _dcg(sorted(grades.values(), reverse=True)[:k], gain)
    return _dcg([grades.get(i, 0) for i in top], gain) / ideal if ideal else math.nan


def context_precision_at_k(
    ranked: Sequence[Id], grades: Mapping[Id, int], k: int, *, relevant: int = RELEVANT
) -> float:
    """Share of the k places in a prompt that hold a relevant passage; TREC's P@k. An empty place counts as a miss.

    Defined for every query, 0 where nothing is relevant. The measure of the same name in RAGAS weighs ranks: that is
    `ranked_context_precision_at_k`.

    >>> context_precision_at_k(["a", "x", "b"], {"a": 2, "b": 3}, 5)
    0.4

    Raises:
        MeasurementError: as `recall_at_k`.
    """
    return _hits(_top(ranked, grades, k), grades, relevant) / k


def ranked_context_precision_at_k(
    ranked: Sequence[Id], grades: Mapping[Id, int], k: int, *, relevant: int = RELEVANT
) -> float:
    """Mean precision at the ranks of the relevant passages that were retrieved (RAGAS, "context precision").

    Unlike `average_precision` it does not know of relevant documents that were missed; 0 where none was retrieved.

    >>> round(ranked_context_precision_at_k(["a", "x", "b"], {"a": 2, "b": 3, "c": 2}, 5), 4)
    0.8333

    Raises:
        MeasurementError: as `recall_at_k`.
    """
    top = _top(ranked, grades, k)
    found = _hits(top, grades, relevant)
    if not found:
        return 0.0
    total = sum(grade >= relevant for grade in grades.values())
    return average_precision(top, grades, relevant=relevant) * total / found


def judged_at_k(ranked: Sequence[Id], grades: Mapping[Id, int], k: int) -> float:
    """Share of the documents in the top k that carry any grade: how far the other figures can be trusted.

    Over those returned, if fewer than k were. Of an empty ranking there is no share: NaN, as of an unanswerable query
    elsewhere; a mean leaves it out. (ir_measures calls it 0, which reads as "all of it unjudged".)

    >>> judged_at_k(["a", "x"], {"a": 0}, 10)
    0.5

    Raises:
        MeasurementError: as `recall_at_k`.
    """
    top = _top(ranked, grades, k)
    return sum(i in grades for i in top) / len(top) if top else math.nan


def ann_recall_at_k(ranked: Sequence[Id], neighbours: Mapping[Id, int], k: int) -> float:
    """Share of the k exact nearest neighbours that an index returned in its top k.

    `neighbours` maps every row that is no farther than the k-th exact neighbour to 1, ties at that distance included
    (see `exact_neighbours`); other rows may be absent or 0. So a tie counts whichever of the equal rows came back, and
    the denominator is min(k, rows that exist).

    >>> ann_recall_at_k(["a", "c"], exact_neighbours({"a": 0.1, "b": 0.2, "c": 0.2, "d": 0.9}, 2), 2)
    1.0

    Raises:
        MeasurementError: as `recall_at_k`, or no neighbours at all.
    """
    top = _top(ranked, neighbours, k)
    total = sum(grade > 0 for grade in neighbours.values())
    if not total:
        raise MeasurementError("There is no exact neighbour to recall", expected="at least one row")
    return min(_hits(top, neighbours, 1), k) / min(k, total)


def exact_neighbours(distances: Mapping[Id, float], k: int, *, tolerance: float = 0.0) -> dict[Id, int]:
    """The rows whose distance is at most the k-th smallest one (plus `tolerance`), each mapped to 1.

    >>> exact_neighbours({"a": 0.1, "b": 0.2, "c": 0.2, "d": 0.9}, 2)
    {'a': 1, 'b': 1, 'c': 1}

    Raises:
        MeasurementError: k < 1, or a distance that is NaN.
    """
    _check_cutoff(k)
    for row, distance in distances.items():
        if math.isnan(distance):
            raise MeasurementError(f"The distance of row {row!r} is not a number", expected="finite distances")
    if not distances:
        return {}
    reach = sorted(distances.values())[min(k, len(distances)) - 1] + tolerance
    return {row: 1 for row, distance in distances.items() if distance <= reach}


def ranking_from_scores(scores: Mapping[Id, float]) -> list[Id]:
    """Ids by score, highest first; equal scores by id, ascending. Scores that differ at all are two ranks.

    >>> ranking_from_scores({"b": 0.8, "a": 0.8, "c": 0.80000001})
    ['c', 'a', 'b']

    Raises:
        MeasurementError: a score that is NaN.
    """
    for i, score in scores.items():
        if math.isnan(score):
            raise MeasurementError(f"The score of {i!r} is not a number", expected="a number for every result")
    order: Any = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [i for i, _ in order]


def rank_scores(ranked: Sequence[Id]) -> dict[Id, float]:
    """Scores n, n - 1, ..., 1 for a ranking: what a TREC run file gets.

    Tools that read run files sort by score and break ties by their own rule, some after rounding; these have no ties.

    >>> rank_scores(["c", "a"])
    {'c': 2.0, 'a': 1.0}

    Raises:
        MeasurementError: duplicate ids.
    """
    _check_distinct(ranked)
    return {i: float(len(ranked) - position) for position, i in enumerate(ranked)}


def check_grade(grade: object, of: object) -> None:
    """Refuse what is no grade.

    Raises:
        MeasurementError: not a whole number from 0 to `MAX_GRADE`.
    """
    try:
        fits = not isinstance(grade, (bool, str)) and 0 <= grade <= MAX_GRADE and grade == int(grade)  # type: ignore[operator, call-overload]
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise MeasurementError(
            f"The grade of {of!r} is out of range", expected=f"a whole number from 0 to {MAX_GRADE}", found=repr(grade)
        )


def _dcg(grades: Sequence[int], gain: Gain) -> float:
    return sum(
        (2.0**grade - 1.0 if gain == "exponential" else float(grade)) / math.log2(rank + 1)
        for rank, grade in enumerate(grades, 1)
    )


def _hits(top: Sequence[Id], grades: Mapping[Id, int], relevant: int) -> int:
    return sum(grades.get(i, 0) >= relevant for i in top)


def _answerable(grades: Mapping[Id, int], relevant: int) -> bool:
    return any(grade >= relevant for grade in grades.values())


def _top(ranked: Sequence[Id], grades: Mapping[Id, int], k: int) -> Sequence[Id]:
    _check_cutoff(k)
    _check_distinct(ranked)
    for i, grade in grades.items():
        check_grade(grade, i)
    return ranked[:k]


def _check_cutoff(k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise MeasurementError("A cut-off is impossible", expected="a whole number of at least 1", found=repr(k))


def _check_distinct(ranked: Sequence[Id]) -> None:
    if len(set(ranked)) != len(ranked):
        seen: set[Id] = set()
        twice = next(i for i in ranked if i in seen or seen.add(i))  # type: ignore[func-returns-value]
        raise MeasurementError("A ranking holds an id twice", expected="distinct ids", found=repr(twice))
