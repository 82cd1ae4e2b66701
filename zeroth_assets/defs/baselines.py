"""Baselines: what belongs here is the check that a figure has not fallen behind the accepted one, and accepting."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.defs.tables import HEADLINE_EF_SEARCH
from zeroth_assets.errors import ArtefactError
from zeroth_assets.evaluation.access_baseline import BASELINE_CELLS
from zeroth_assets.evaluation.access_baseline import compare_with_baseline as compare_recall
from zeroth_assets.evaluation.access_model import Cell
from zeroth_assets.evaluation.baselines import (
    Baseline,
    Regression,
    Verdict,
    compare_with_baseline,
    read_baseline,
    write_baseline,
)
from zeroth_assets.evaluation.document_figures import DOCUMENT_HEADLINE
from zeroth_assets.evaluation.retrieval_figures import ALL, HEADLINE
from zeroth_assets.planning.judge import NO_JUDGE
from zeroth_assets.settings import CHUNK_SETS, Settings


def against_baseline(settings: Settings, figure: str, series: str, now: Mapping[str, float]) -> Regression:
    """Today's values per query of a series against the accepted ones."""
    baseline = read_baseline(settings.baselines_dir, figure)
    accepted = None if baseline is None else baseline.series.get(series)
    return compare_with_baseline(now, accepted, seed=settings.seed, resamples=settings.resamples)


def access_regression(settings: Settings, series: str, per_query: pl.DataFrame) -> Regression:
    """Today's recall of the tenant's partition, in `ACCESS_PER_QUERY_SCHEMA`, against the accepted one."""
    baseline = read_baseline(settings.baselines_dir, "access_recall")
    accepted = None if baseline is None else baseline.series.get(series)
    if accepted is None:
        return Regression("no baseline", "no baseline was accepted for it: `zeroth baseline accept`", 0)
    (cell,) = BASELINE_CELLS
    now = per_query.filter(_is_cell(cell))
    if now.is_empty():
        return Regression("cannot tell", f"{cell.design} at ef_search {cell.ef_search} was withheld", 0)
    values = {"query_id": list(accepted), "recall": [float(value) for value in accepted.values()]}
    then = pl.DataFrame(values, schema={"query_id": pl.String, "recall": pl.Float64}).with_columns(
        pl.lit(cell.design).alias("design"),
        pl.lit(cell.ef_search, pl.Int64).alias("ef_search"),
        pl.lit(cell.k, pl.Int64).alias("k"),
        pl.lit(cell.predicate).alias("predicate"),
    )
    found = compare_recall(now, then, seed=settings.seed, resamples=settings.resamples)
    words: dict[str, Verdict] = {"passed": "holds", "failed": "regressed", "cannot_tell": "cannot tell"}
    interval = found.differences[0][1] if found.differences else None
    return Regression(words[found.status], "; ".join(found.reasons), now.height, interval)


def _is_cell(cell: Cell) -> pl.Expr:
    return (
        (pl.col("design") == cell.design)
        & (pl.col("ef_search") == cell.ef_search)
        & (pl.col("k") == cell.k)
        & (pl.col("predicate") == cell.predicate)
    )


def golden_marks(digest: str, judge: Mapping[str, Any] | None) -> dict[str, str]:
    """What must not change of a golden set: queries, spans and splits (`digest`), and which judge graded the rest."""
    return {"digest": digest, "judge": NO_JUDGE if judge is None else f"{judge['label']} {judge['prompt'][:12]}"}


def accepted_golden(settings: Settings) -> dict[str, str] | None:
    """The marks of the accepted golden set, None where none was ever accepted; older ones knew no judge."""
    baseline = read_baseline(settings.baselines_dir, "golden_set")
    return None if baseline is None else {"judge": NO_JUDGE, **baseline.marks}


def truth_fingerprint(digest: str, judge: Mapping[str, Any] | None) -> str:
    """What figures must share to be compared: the digest itself, or one of it and the judge where a model graded."""
    if judge is None:
        return digest
    return hashlib.sha256("\x00".join([digest, judge["label"], judge["prompt"]]).encode()).hexdigest()


def regression_check(found: Regression) -> dg.AssetCheckResult:
    """Red where the figure has regressed; a warning where that cannot be told."""
    severity = dg.AssetCheckSeverity.ERROR if found.verdict == "regressed" else dg.AssetCheckSeverity.WARN
    return dg.AssetCheckResult(
        check_name="no_regression",
        passed=found.verdict == "holds",
        severity=severity,
        metadata={"verdict": found.verdict, "found": found.wording, "queries in both": found.n},
    )


def accept(settings: Settings, figure: str, reason: str) -> tuple[Path, Baseline]:
    """Take the published values of a figure as its baseline. Returns the file and what it holds.

    Raises:
        ArtefactError: nothing of it was published.
        SettingsError: no reason, or the folder cannot be written.
    """
    store = ArtefactStore(settings.state_dir / "artefacts")
    series, marks = published_values(store, figure)
    if not series and not marks:
        raise ArtefactError(
            f"There is no {figure} to accept",
            expected="published figures",
            found="none in this home",
            remedy="run `zeroth materialize`",
        )
    at = datetime.now(UTC).isoformat(timespec="seconds")
    baseline = Baseline(figure, reason, at, series, marks)
    return write_baseline(settings.baselines_dir, baseline), baseline


def published_values(store: ArtefactStore, figure: str) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Values per query by series, and marks, as they are published now."""
    if figure == "ann_recall":
        return _ann_recall(store), {}
    if figure == "access_recall":
        return _access_recall(store), {}
    if figure == "golden_set" and (sidecar := store.sidecar("golden_set")) is not None:
        return {}, golden_marks(str(sidecar.details["digest"]), sidecar.details.get("judge"))
    if figure == "retrieval_metrics":
        return _retrieval_metrics(store), {}
    return {}, {}


def _ann_recall(store: ArtefactStore) -> dict[str, dict[str, float]]:
    series: dict[str, dict[str, float]] = {}
    for chunk_set in CHUNK_SETS:
        for tenant in store.partitions(f"ann_recall_{chunk_set}"):
            per_query = store.require(f"ann_recall_{chunk_set}", tenant).details.get("per_query")
            if per_query is not None:
                rows = pl.DataFrame(per_query).filter(pl.col("ef_search") == HEADLINE_EF_SEARCH)
                series[f"{chunk_set}/{tenant}"] = dict(rows.select("query", "recall").iter_rows())
    return series


def _retrieval_metrics(store: ArtefactStore) -> dict[str, dict[str, float]]:
    series: dict[str, dict[str, float]] = {}
    for arm in store.partitions("retrieval_metrics"):
        rows = store.read_frame("retrieval_metrics", arm)
        if rows.height:
            series |= headline_series(rows, arm)
    return series


def headline_series(rows: pl.DataFrame, arm: str) -> dict[str, dict[str, float]]:
    """The values per query of an arm's headline figure, by role; that over whole documents apart."""
    chosen = rows.filter(pl.col("metric").is_in([HEADLINE, DOCUMENT_HEADLINE]) & (pl.col("category") == ALL))
    return {
        f"{arm}/{row['role']}{'' if row['metric'] == HEADLINE else '/documents'}": dict(
            zip(row["query_ids"], row["values"], strict=True)
        )
        for row in chosen.iter_rows(named=True)
    }


def _access_recall(store: ArtefactStore) -> dict[str, dict[str, float]]:
    series: dict[str, dict[str, float]] = {}
    for chunk_set in CHUNK_SETS:
        name = f"access_recall_{chunk_set}"
        for tenant in store.partitions(name):
            ids = store.require(name, tenant).details.get("query_ids", [])
            for row in store.read_frame(name, tenant).filter(_is_cell(BASELINE_CELLS[0])).iter_rows(named=True):
                series[f"{chunk_set}/{tenant}"] = dict(zip(ids, row["recalls"], strict=False))
    return series
