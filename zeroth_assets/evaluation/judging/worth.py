"""What a judge is worth: passages that people graded and it grades as well, and how far the two agree.

What belongs here: which pairs are drawn for that, and the record that goes with every figure that rests on the
judge's grades: as numbers for files, and in words for people.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import polars as pl

from zeroth_assets.evaluation.golden.judgments import DRAFTED_SPAN, EXPERT_SPAN, READ_WHOLE
from zeroth_assets.evaluation.golden.stratify import turn
from zeroth_assets.evaluation.intervals import Interval
from zeroth_assets.evaluation.judging.agreement import Agreement, Withheld, agreement, self_agreement
from zeroth_assets.evaluation.judging.human_sample import equal_shares
from zeroth_assets.evaluation.judging.model import JudgedRun
from zeroth_assets.evaluation.metrics import RELEVANT

EXPERTS: Final = "experts"
DRAFTERS: Final = "drafters"
_WHO: Final[Mapping[str, str]] = {EXPERT_SPAN: EXPERTS, READ_WHOLE: EXPERTS, DRAFTED_SPAN: DRAFTERS}
REFERENCE_SCHEMA = pl.Schema(
    {
        "query_id": pl.String,
        "document_id": pl.String,
        "reference": pl.Int64,
        "weight": pl.Float64,
        "people": pl.String,
    }
)


@dataclass(frozen=True, slots=True)
class Worth:
    """Agreement with experts and with drafters, and of the judge with itself; each may be withheld with the reason."""

    experts: Agreement | Withheld
    drafters: Agreement | Withheld
    itself: Interval | Withheld


def reference_pairs(
    graded: pl.DataFrame, queries: pl.DataFrame, *, limit: int, per_query: int, seed: int
) -> pl.DataFrame:
    """Pairs that people graded, for the judge to grade unknowing, in `REFERENCE_SCHEMA`.

    `graded` is in `golden.judgments.JUDGMENT_SCHEMA`, `queries` has query_id, question_id and scope. Up to `limit`
    questions of experts and as many of drafters, each with a relevant passage; of each up to `per_query` passages,
    with equal shares of the grades as far as they reach. A question that is there in two scopes is taken once, within
    its document, where the passages that do not answer are hard ones. What follows by construction alone is nobody's
    judgment and stays out. `weight` is what each pair stands for among all of those questions.
    """
    people = graded.with_columns(pl.col("judged_by").replace_strict(_WHO, default=None).alias("people"))
    once = queries.sort("question_id", "scope", descending=[False, True]).unique("question_id", keep="first")
    mine = people.drop_nulls("people").join(once.select("query_id"), on="query_id", how="semi")
    rows: list[tuple[str, str, int, float, str]] = []
    for who in (EXPERTS, DRAFTERS):
        part = mine.filter(pl.col("people") == who)
        able = sorted(
            part.filter(pl.col("grade") >= RELEVANT)["query_id"].unique(),
            key=lambda query_id: turn(seed, "agreement", query_id),
        )
        drawn = able[:limit]
        for query_id in drawn:
            of_query = part.filter(pl.col("query_id") == query_id).select("document_id", "grade")
            by_grade = {grade: of_query.filter(pl.col("grade") == grade)["document_id"] for grade in range(4)}
            shares = equal_shares({grade: len(documents) for grade, documents in by_grade.items()}, per_query)
            for grade, documents in by_grade.items():
                order = sorted(documents, key=lambda document: turn(seed, "agreement", query_id, document))
                weight = len(documents) / max(1, shares[grade]) * len(able) / len(drawn)
                rows += [(query_id, document, grade, weight, who) for document in order[: shares[grade]]]
    return pl.DataFrame(rows, schema=REFERENCE_SCHEMA, orient="row").sort("query_id", "document_id")


def worth_of(run: JudgedRun, references: pl.DataFrame, *, seed: int, resamples: int) -> Worth:
    """How far the judge agrees with people (`references` as `reference_pairs`) and with itself."""
    judged = run.judgments.select("query_id", "document_id", pl.col("grade").alias("judge"))
    pairs = references.join(judged, on=["query_id", "document_id"], how="inner")

    def with_people(who: str) -> Agreement | Withheld:
        return agreement(
            pairs.filter(pl.col("people") == who),
            seed=seed,
            resamples=resamples,
            reference_name=f"the {who}",
            one_value="warn",
        )

    return Worth(
        with_people(EXPERTS),
        with_people(DRAFTERS),
        self_agreement(run.repeats, seed=seed, resamples=resamples),
    )


def told_of_judge(run: JudgedRun, worth: Worth) -> dict[str, Any]:
    """All that a sidecar keeps of a judged run: who, how, at what cost, and its worth; JSON alone, no text."""
    snapshot = run.snapshot
    return {
        "label": snapshot.label,
        "pinned": snapshot.snapshot is not None,
        "prompt": run.prompt_hash,
        "backend": f"{snapshot.backend} {snapshot.backend_version}",
        "usage": asdict(run.usage),
        "this_run": asdict(run.sitting),
        "cost": run.cost,
        "currency": run.currency,
        "failed": dict(run.failed),
        "caveats": list(run.caveats),
        "worth": worth_in_words(worth),
        "agreement": {
            "experts": numbers_of(worth.experts),
            "drafters": numbers_of(worth.drafters),
            "itself": _interval(worth.itself) if isinstance(worth.itself, Interval) else numbers_of(worth.itself),
        },
    }


def judge_in_words(told: Mapping[str, Any] | None) -> str | None:
    """The judge of `told_of_judge` and its worth, as figures carry them; None where no model graded."""
    if told is None:
        return None
    pinned = "" if told["pinned"] else " (not pinned: not to be published)"
    return f"{told['label']}{pinned}, {told['worth']}"


def worth_in_words(worth: Worth) -> str:
    """What stands beside every figure that rests on the judge."""
    if isinstance(worth.experts, Withheld):
        text = f"agreement with experts' spans {worth.experts}"
    else:
        text = f"against experts' spans: {agreement_in_words(worth.experts)}"
    if isinstance(worth.drafters, Agreement) and worth.drafters.relevant_recall is not None:
        # Drafters marked what answers and nothing else: there is no grade 0 of theirs to agree with.
        text += f"; finds {worth.drafters.relevant_recall} of what drafters marked as relevant"
    return text


def agreement_in_words(found: Agreement) -> str:
    """Kappa with its interval, and the share of the relevant that the judge finds."""
    text = str(found)
    if found.pool_kappa is not None:
        text += f" ({found.pool_kappa} weighed back to all that was graded)"
    if found.relevant_recall is not None:
        text += f", recall of relevant {found.relevant_recall}"
    return f"{text}; {found.warning}" if found.warning else text


def confusion_table(found: Agreement) -> pl.DataFrame:
    """The confusion matrix as people read it: a row per grade of theirs, a column per grade of the judge's."""
    wide = found.confusion.pivot(on="judge", index="reference", values="n")
    names = {str(grade): f"judge {grade}" for grade in range(4)}
    return wide.rename({"reference": "people", **{old: new for old, new in names.items() if old in wide.columns}})


def numbers_of(found: Agreement | Withheld) -> dict[str, Any]:
    """An agreement as JSON takes it, or why there is none."""
    if isinstance(found, Withheld):
        return {"withheld": found.reason, "detail": found.detail, "n": found.n}
    return {
        "kappa": _interval(found.kappa),
        "pool_kappa": None if found.pool_kappa is None else _interval(found.pool_kappa),
        "exact": _interval(found.exact),
        "relevant_recall": None if found.relevant_recall is None else _interval(found.relevant_recall),
        "confusion": found.confusion.rows(),
        "n": found.n,
        "queries": found.queries,
        "warning": found.warning,
    }


def _interval(interval: Interval) -> dict[str, Any]:
    """JSON has no NaN."""
    return {name: None if isinstance(v, float) and math.isnan(v) else v for name, v in asdict(interval).items()}
