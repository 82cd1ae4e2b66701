"""Abstention of each arm: a threshold from the calibration split, and what it does on the test split.

What belongs here: going through roles and splits of an arm's runs, and reading the threshold that came of it.
Calibrating and reporting are `abstention`'s, the join of runs and grades is `abstention_outcomes`'.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.errors import ArtefactError, MeasurementError
from zeroth_assets.evaluation.abstention import ALL as ABSTENTION_ALL
from zeroth_assets.evaluation.abstention import METRIC_SCHEMA, AbstentionReport, calibrate, report_abstention
from zeroth_assets.evaluation.abstention_outcomes import outcomes_of
from zeroth_assets.evaluation.metric_tables import QRELS_SCHEMA
from zeroth_assets.evaluation.retrieval_arms import NAMED_DOCUMENT, RetrieverArm
from zeroth_assets.evaluation.retrieval_figures import run_of
from zeroth_assets.search.abstention import ScoreSource, Threshold

CALIBRATION, TEST = "calibration", "test"
ANSWER_DEPTH = 5
"""An answer counts as right where one of its first so many chunks has a grade of at least 2."""
MINIMUM = ANSWER_DEPTH
"""Candidates below which there is nothing to judge: such queries are counted apart."""
_FIELDS: dict[str, Any] = {
    "chunk_set": pl.String,
    "arm": pl.String,
    "role": pl.String,
    "split": pl.String,
    "source": pl.String,
    "threshold": pl.Float64,
    "target": pl.Float64,
    **METRIC_SCHEMA,
    "corpus_fingerprint": pl.String,
    "golden_fingerprint": pl.String,
    "seed": pl.Int64,
    "resamples": pl.Int64,
}
ABSTENTION_SCHEMA = pl.Schema(_FIELDS)


@dataclass(frozen=True, slots=True)
class Ground:
    """What the figures of abstention stand on."""

    corpus_fingerprint: str
    golden_fingerprint: str
    target: float
    seed: int
    resamples: int


@dataclass(frozen=True, slots=True)
class Calibrated:
    """One arm and role: the report, or `withheld` with the reason why there is none."""

    chunk_set: str
    arm: str
    role: str
    report: AbstentionReport | None
    withheld: str | None = None

    @property
    def name(self) -> str:
        """`fixed_512.rrf/unrestricted`."""
        return f"{self.chunk_set}.{self.arm}/{self.role}"


def score_source(arm: RetrieverArm) -> ScoreSource | None:
    """Whose score a threshold of this arm may stand on: the reranker's, else the dense arm's, else nobody's."""
    if arm.rerank:
        return "reranker"
    return "dense" if arm.dense else None


def abstention_of(
    runs: pl.DataFrame,
    queries: pl.DataFrame,
    qrels: pl.DataFrame,
    *,
    chunk_set: str,
    arm: RetrieverArm,
    fingerprints: Mapping[str, str],
    ground: Ground,
) -> list[Calibrated]:
    """Each role of an arm, calibrated on one split and reported on the other.

    `runs` has search.runs' columns per query with role, split and ranking; `queries` query_id, category and
    answerable; `qrels` query_id, document_id (a chunk) and grade. A role without unanswerable queries in the
    calibration split, or without queries in the test split, is withheld with the reason.

    Raises:
        MeasurementError: the arm has no score that a threshold may stand on, or its runs are no runs.
    """
    source = score_source(arm)
    if source is None:
        raise MeasurementError(
            f"{arm.name} has no score for a threshold", expected="an arm with vectors or a reranker", found=arm.name
        )
    grades = qrels.select(QRELS_SCHEMA.names())
    results = []
    # Within a document the best score is still the tenant's, which says nothing of the document.
    for (role,), part in runs.filter(pl.col("role") != NAMED_DOCUMENT).group_by("role", maintain_order=True):
        about = queries.join(part.select("query_id", "split"), on="query_id")
        outcomes = {
            split: outcomes_of(
                about.filter(pl.col("split") == split).select("query_id", "category", "answerable"),
                part,
                run_of(part),
                grades,
                source=source,
                k=ANSWER_DEPTH,
            )
            for split in (CALIBRATION, TEST)
        }
        report, withheld = None, None
        try:
            threshold = calibrate(
                outcomes[CALIBRATION],
                source=source,
                fingerprints=fingerprints,
                split=CALIBRATION,
                target=ground.target,
                minimum=MINIMUM,
            )
            report = report_abstention(
                outcomes[TEST],
                threshold,
                fingerprints=fingerprints,
                seed=ground.seed,
                minimum=MINIMUM,
                resamples=ground.resamples,
            )
        except MeasurementError as error:
            withheld = f"{error.what}: {error.found}"
        results.append(Calibrated(chunk_set, arm.name, str(role), report, withheld))
    return results


def abstention_table(results: list[Calibrated], ground: Ground) -> pl.DataFrame:
    """The figures of every report, in `ABSTENTION_SCHEMA`; of the test split alone."""
    frames = [ABSTENTION_SCHEMA.to_frame()]
    for one in results:
        if one.report is None:
            continue
        threshold = one.report.threshold
        told: dict[str, Any] = {
            "chunk_set": one.chunk_set,
            "arm": one.arm,
            "role": one.role,
            "split": TEST,
            "source": threshold.source,
            "threshold": threshold.value,
            "target": threshold.target,
            "corpus_fingerprint": ground.corpus_fingerprint,
            "golden_fingerprint": ground.golden_fingerprint,
            "seed": ground.seed,
            "resamples": ground.resamples,
        }
        columns = [pl.lit(value).alias(name) for name, value in told.items()]
        frames.append(one.report.metrics.with_columns(columns).select(list(ABSTENTION_SCHEMA)).cast(ABSTENTION_SCHEMA))
    return pl.concat(frames)


def naive_inflation(table: pl.DataFrame) -> pl.DataFrame:
    """What a lack of candidates alone would be taken for: of each arm and role the unanswerable queries that came back
    short, without any threshold, and their share of all unanswerable ones. `table` is in `ABSTENTION_SCHEMA`."""
    whole = table.filter(pl.col("category") == ABSTENTION_ALL)
    keys = ["chunk_set", "arm", "role"]
    honest = whole.filter(pl.col("metric") == "correct_abstention").select(*keys, pl.col("n").alias("judged"))
    naive = whole.filter(pl.col("metric") == "correct_abstention_naive").select(
        *keys, pl.col("n").alias("unanswerable")
    )
    short = (pl.col("unanswerable") - pl.col("judged")).alias("short")
    return (
        naive.join(honest, on=keys)
        .select(*keys, short, "unanswerable")
        .with_columns((pl.col("short") / pl.col("unanswerable")).alias("taken for wisdom"))
        .filter(pl.col("short") > 0)
        .sort("taken for wisdom", "chunk_set", "arm", "role", descending=[True, False, False, False])
    )


def published_threshold(store: ArtefactStore, chunk_set: str, arm: str, role: str) -> Threshold:
    """The threshold in force for a retriever of this arm.

    Raises:
        ArtefactError: none was calibrated for it.
    """
    thresholds = store.require("abstention_metrics").details.get("thresholds", {})
    name = f"{chunk_set}.{arm}/{role}"
    if name not in thresholds:
        raise ArtefactError(
            f"There is no abstention threshold for {name}",
            expected=", ".join(sorted(thresholds)) or "a calibrated arm",
            found="none",
            remedy="add unanswerable queries to the calibration split, or ask without a threshold",
        )
    return Threshold.from_json(json.dumps(thresholds[name]))
