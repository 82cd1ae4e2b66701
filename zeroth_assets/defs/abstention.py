"""Abstention: what belongs here is `abstention_metrics`, one asset over all arms and roles, and its thresholds."""

import json
from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.evaluation import GROUP
from zeroth_assets.defs.golden import graded_by, own_frames, truth_of
from zeroth_assets.defs.partitions import all_of
from zeroth_assets.defs.resources import Project
from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.abstention import ALL
from zeroth_assets.evaluation.abstention_plots import plot_risk_coverage, plot_score_distributions
from zeroth_assets.evaluation.retrieval_abstention import (
    ABSTENTION_SCHEMA,
    CALIBRATION,
    MINIMUM,
    Calibrated,
    Ground,
    abstention_of,
    abstention_table,
    naive_inflation,
    score_source,
)
from zeroth_assets.evaluation.retrieval_arms import RETRIEVERS, split_arm
from zeroth_assets.planning import measured_arms
from zeroth_assets.search.abstention import Threshold
from zeroth_assets.store.connect import Database
from zeroth_assets.store.failures import database_errors

HEADLINES = (
    "correct_abstention",
    "correct_abstention_naive",
    "insufficient_candidates",
    "answer_coverage",
    "selective_accuracy",
    "auroc",
    "area_under_risk_coverage",
)
DRAWN = ("fixed_512.rrf_rerank/unrestricted", "fixed_512.rrf/unrestricted", "fixed_512.dense_postfilter/single_tenant")


def index_fingerprints(db: Database, chunk_set: str, reranker: str | None) -> dict[str, str]:
    """What scores over a chunk set depend on, as a retriever names it; builds are left out, since each principal
    sees others."""
    with database_errors("reading what the index was made with"), db.loader() as connection:
        rows = connection.execute(
            "select distinct b.fingerprint_digest, b.chunker_version from zeroth.index_build b"
            " join zeroth.chunk_set s using (chunk_set_id) where s.name = %s and b.status = 'live'",
            (chunk_set,),
        ).fetchall()
    return {
        "chunk_set": chunk_set,
        "encoder": ", ".join(sorted({str(row[0]) for row in rows})),
        "chunker": ", ".join(sorted({str(row[1]) for row in rows})),
        **({} if reranker is None else {"reranker": reranker}),
    }


@dg.asset(
    deps=[all_of("retrieval_runs"), "golden_set", "golden_queries"],
    group_name=GROUP,
    kinds={"parquet"},
    owners=md.OWNERS,
    description=(
        "When to say `I do not know`: for each arm and role a threshold on its best score, calibrated on the "
        "calibration split, and what it does on the test split. An empty or short list of candidates is counted apart "
        "and never as a correct abstention; the naive count, which takes it for one, stands beside."
    ),
    metadata={"dagster/column_schema": md.column_schema(ABSTENTION_SCHEMA)},
    check_specs=[
        dg.AssetCheckSpec(
            "calibrated_apart",
            asset="abstention_metrics",
            blocking=True,
            description="Every threshold was calibrated on the calibration split and is reported on the test split.",
        ),
        dg.AssetCheckSpec(
            "target_is_kept",
            asset="abstention_metrics",
            description="On the test split no more unanswerable queries are answered than the target, as far as the "
            "interval can tell.",
        ),
    ],
)
def abstention_metrics(context: dg.AssetExecutionContext, project: Project) -> Any:
    """Calibrate on one split, report on the other."""
    store, settings = project.store, project.settings
    recipe = project.planner().recipe("abstention_metrics")
    queries = own_frames(store)[0].select("query_id", "category", "answerable")
    qrels = store.read_frame("golden_set")
    ground = Ground(
        corpus_fingerprint=store.require("tenant_assignments").sha256,
        golden_fingerprint=truth_of(store),
        target=settings.abstention_target,
        seed=settings.seed,
        resamples=settings.resamples,
    )
    published = set(store.partitions("retrieval_runs"))
    results: list[Calibrated] = []
    for key in measured_arms(settings):
        chunk_set, name = split_arm(key)
        if key not in published or score_source(RETRIEVERS[name]) is None:
            continue
        results += abstention_of(
            store.read_frame("retrieval_runs", key),
            queries,
            qrels.filter(pl.col("chunk_set") == chunk_set),
            chunk_set=chunk_set,
            arm=RETRIEVERS[name],
            fingerprints=index_fingerprints(project.database, chunk_set, _reranker(store, key)),
            ground=ground,
        )
    table = abstention_table(results, ground)
    thresholds = {one.name: one.report.threshold for one in results if one.report is not None}
    checks = [_apart(thresholds, table), _kept(table, settings.abstention_target)]
    if not checks[0].passed:
        yield from checks
        raise MeasurementError("A threshold was calibrated on queries that judge it", remedy="report it")
    sidecar = store.write_frame(
        table,
        "abstention_metrics",
        **recipe.about(
            "Abstention by a threshold from the calibration split, measured on the test split.",
            abstention_of,
            minimum=MINIMUM,
            thresholds={name: json.loads(one.to_json()) for name, one in thresholds.items()},
            withheld={one.name: one.withheld for one in results if one.withheld is not None},
        ),
    )
    yield md.result(sidecar, {"graded by": graded_by(store), **_told(results, table)}, checks)


def _reranker(store: ArtefactStore, key: str) -> str | None:
    return store.require("retrieval_runs", key).details.get("reranker")


def _apart(thresholds: dict[str, Threshold], table: pl.DataFrame) -> dg.AssetCheckResult:
    wrong = [name for name, one in thresholds.items() if one.split != CALIBRATION]
    return dg.AssetCheckResult(
        check_name="calibrated_apart",
        passed=not wrong and CALIBRATION not in set(table["split"]),
        metadata={"thresholds": len(thresholds), "of another split": "; ".join(wrong) or "none"},
    )


def _kept(table: pl.DataFrame, target: float) -> dg.AssetCheckResult:
    answered = table.filter((pl.col("metric") == "unanswerable_answered") & (pl.col("category") == ALL))
    broken = answered.filter(pl.col("low") > target)
    names = [f"{row['chunk_set']}.{row['arm']}/{row['role']}" for row in broken.iter_rows(named=True)]
    return dg.AssetCheckResult(
        check_name="target_is_kept",
        passed=broken.is_empty() and answered.height > 0,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"target": target, "above it": "; ".join(names) or "none", "thresholds": answered.height},
    )


def _told(results: list[Calibrated], table: pl.DataFrame) -> dict[str, Any]:
    value, low, high = (pl.col(name).fill_nan(None).round(3) for name in ("value", "low", "high"))
    shown = pl.coalesce(
        pl.format("{} [{}, {}] of {}", value, low, high, pl.col("n")),
        pl.format("{} of {}", value, pl.col("n")),
        pl.format("none of {}", pl.col("n")),
    )
    heads = table.filter((pl.col("category") == ALL) & pl.col("metric").is_in(HEADLINES))
    told: dict[str, Any] = {
        "withheld": "; ".join(f"{one.name}: {one.withheld}" for one in results if one.withheld) or "nothing",
        "naive": "correct_abstention_naive counts a lack of candidates as wisdom: it is shown and not to be cited",
        "taken for wisdom without any threshold": md.markdown_table(naive_inflation(table)),
    }
    if heads.height:
        wide = heads.with_columns(shown.alias("shown")).pivot(
            on="metric", index=["role", "chunk_set", "arm", "source", "threshold"], values="shown"
        )
        told["figures"] = md.markdown_table(wide)
    by_name = {one.name: one.report for one in results if one.report is not None}
    for name in [name for name in DRAWN if name in by_name] or list(by_name)[:1]:
        for what, draw in (("risk and coverage", plot_risk_coverage), ("scores", plot_score_distributions)):
            shown_as = f"{what}: {name.replace('.', ' ').replace('/', ', ')}"  # a long word overflows its cell
            try:
                told[shown_as] = md.png(draw(by_name[name], title=name), shown_as)
            except MeasurementError as error:
                told[shown_as] = f"not drawn: {error.what}"
    return told


assets: list[dg.AssetsDefinition] = [abstention_metrics]
