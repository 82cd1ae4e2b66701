"""Retrieval metrics: what belongs here is one asset, partitioned by chunk set and retriever, of figures."""

from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.baselines import against_baseline, headline_series, regression_check
from zeroth_assets.defs.evaluation import GROUP
from zeroth_assets.defs.golden import golden_frames, truth_of
from zeroth_assets.defs.golden_set import placed_chunks
from zeroth_assets.defs.partitions import arms, store_key
from zeroth_assets.defs.resources import Project
from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.baselines import Regression, Verdict
from zeroth_assets.evaluation.document_figures import document_figures, headline_of
from zeroth_assets.evaluation.golden.hygiene import provenance_of
from zeroth_assets.evaluation.golden.imported import DOCUMENTS
from zeroth_assets.evaluation.golden.judgments import answering_spans
from zeroth_assets.evaluation.golden.model import IMPORTED
from zeroth_assets.evaluation.judging.worth import judge_in_words
from zeroth_assets.evaluation.retrieval_arms import RETRIEVERS, split_arm
from zeroth_assets.evaluation.retrieval_figures import (
    ALL,
    FIGURE_SCHEMA,
    HEADLINE,
    About,
    figures,
    per_query,
    without_interval,
)
from zeroth_assets.evaluation.retrieval_plots import plot_by_category, plot_forest
from zeroth_assets.evaluation.retrieval_report import graders_in_words
from zeroth_assets.evaluation.retrieval_spans import Truth
from zeroth_assets.planning.hygiene import arm_parameters, default_parameters, entries_for
from zeroth_assets.planning.retrieval_stages import run_depth

SPLIT = "test"
SHOWN = ["role", "category", "metric", "value", "low", "high", "n", "units", "unreachable", "warning"]


@dg.asset(
    partitions_def=arms,
    deps=["retrieval_runs", "golden_set", "golden_queries"],
    group_name=GROUP,
    kinds={"parquet"},
    owners=md.OWNERS,
    description=(
        "Figures of one arm on the test split, with 95 % intervals over queries: by role, for all queries and by "
        "category. What a principal may not see is no loss of the retriever's."
    ),
    metadata={"dagster/column_schema": md.column_schema(FIGURE_SCHEMA)},
    check_specs=[
        dg.AssetCheckSpec(
            "no_figure_without_interval",
            asset="retrieval_metrics",
            partitions_def=arms,
            blocking=True,
            description="Every figure has an interval, or says why it has none.",
        ),
        dg.AssetCheckSpec(
            "test_split_alone",
            asset="retrieval_metrics",
            partitions_def=arms,
            blocking=True,
            description="No query of the calibration split is in a figure.",
        ),
        dg.AssetCheckSpec(
            "parameters_chosen_apart",
            asset="retrieval_metrics",
            partitions_def=arms,
            blocking=True,
            description="No test query was read to choose the retriever's parameters, by the record: `zeroth ledger`.",
        ),
        dg.AssetCheckSpec(
            "no_regression",
            asset="retrieval_metrics",
            partitions_def=arms,
            blocking=True,
            description="nDCG@10 per query has not fallen below the accepted baseline; see `zeroth baseline`.",
        ),
    ],
)
def retrieval_metrics(context: dg.AssetExecutionContext, project: Project) -> Any:
    """Measure the arm's runs against the golden set."""
    key = store_key(context.partition_key)
    chunk_set, name = split_arm(key)
    store, settings = project.store, project.settings
    recipe = project.planner().recipe("retrieval_metrics", key)
    queries, spans = golden_frames(store)
    runs = store.read_frame("retrieval_runs", key).filter(pl.col("split") == SPLIT)
    qrels = store.read_frame("golden_set").filter(pl.col("chunk_set") == chunk_set)
    golden = store.require("golden_set")
    about = About(
        chunk_set=chunk_set,
        arm=name,
        corpus_fingerprint=store.require("tenant_assignments").sha256,
        golden_fingerprint=truth_of(store),
        seed=settings.seed,
        resamples=settings.resamples,
        judge=judge_in_words(golden.details.get("judge")),
    )
    chunks = placed_chunks(store, chunk_set, project.planner().tenants_with(f"bm25_index_{chunk_set}"))
    own = queries.filter(pl.col("category") != IMPORTED)
    tables, withheld = [FIGURE_SCHEMA.to_frame()], None
    if own.height or own.height == queries.height:
        try:
            truth = Truth.of(answering_spans(own, spans), chunks)
            tables.append(figures(per_query(runs, own, qrels, truth), about))
        except MeasurementError as error:
            withheld = f"{error.what}: {error.found}"
    if own.height < queries.height:
        published = store.read_frame("golden_set").filter(pl.col("chunk_set") == DOCUMENTS)
        tested = queries.filter(pl.col("split") == SPLIT)
        tables.append(document_figures(runs, tested, published, chunks, about, kept=run_depth(project.planner())))
    table = pl.concat(tables)
    bare = without_interval(table)
    measured = set(table["query_ids"].explode().drop_nulls())
    foreign = len(measured & set(queries.filter(pl.col("split") != SPLIT)["query_id"]))
    chosen = provenance_of(
        entries_for(settings, name),
        queries,
        retriever=name,
        parameters=arm_parameters(settings, key),
        defaults=default_parameters(settings, key),
    )
    regression = _worst(
        [
            against_baseline(settings, "retrieval_metrics", series, now)
            for series, now in headline_series(table, key).items()
        ],
        withheld,
    )
    results = [
        dg.AssetCheckResult(
            check_name="no_figure_without_interval",
            passed=bare.is_empty(),
            metadata={"figures": table.height, "without": bare.height},
        ),
        dg.AssetCheckResult(
            check_name="test_split_alone", passed=foreign == 0, metadata={"queries of another split": foreign}
        ),
        dg.AssetCheckResult(
            check_name="parameters_chosen_apart",
            passed=chosen.state in ("untuned", "calibration"),
            severity=dg.AssetCheckSeverity.ERROR if chosen.state == "refused" else dg.AssetCheckSeverity.WARN,
            metadata={"parameters": chosen.state, "found": chosen.wording, "queries read": chosen.read},
        ),
        regression_check(regression),
    ]
    if chosen.state == "refused":
        yield from results
        raise MeasurementError(
            f"The figures of {key} are withheld: its parameters were chosen with test queries",
            expected="a choice on calibration queries alone",
            found=chosen.wording,
            remedy="choose them anew on what `zeroth ledger lend` gives, or use the defaults",
        )
    if bare.height or foreign:
        yield from results
        raise MeasurementError(
            f"The figures of {key} are withheld",
            found=f"{bare.height} without an interval, {foreign} queries of another split",
            remedy="report it; the former figures stay in force",
        )
    sidecar = store.write_frame(
        table,
        "retrieval_metrics",
        key,
        **recipe.about(
            f"Figures of {name} over the {chunk_set} chunks on the test split of the golden set.",
            figures,
            withheld=withheld,
            regressed=regression.verdict == "regressed",
        ),
    )
    yield md.result(sidecar, _told(table, key, withheld), results)


def _told(table: pl.DataFrame, key: str, withheld: str | None) -> dict[str, Any]:
    told: dict[str, Any] = {"arm": RETRIEVERS[split_arm(key)[1]].describes}
    if withheld is not None:
        return {**told, "withheld": withheld}
    headline = headline_of(table)
    head = table.filter((pl.col("metric") == headline) & (pl.col("category") == ALL))
    for row in head.iter_rows(named=True):
        told[f"{headline} {row['role']}"] = row["value"]
    told["figures"] = md.markdown_table(table.select(SHOWN))
    told["graded by"] = "; ".join(graders_in_words(table)) or "people's spans alone"
    told["definitions"] = md.markdown_table(table.select("metric", "definition").unique(maintain_order=True))
    role = table["role"][0]
    told["forest"] = md.png(plot_forest(table, metric=headline), f"{headline} of {key}")
    try:
        drawn = plot_by_category(table, chunk_set=split_arm(key)[0], role=role)
        told["by category"] = md.png(drawn, f"{HEADLINE} of {key} by category, {role}")
    except MeasurementError as error:
        told["by category"] = f"not drawn: {error.what}"
    return told


def _worst(found: list[Regression], withheld: str | None) -> Regression:
    """The role that stands worst decides."""
    if withheld is not None or not found:
        return Regression("cannot tell", f"withheld: {withheld or 'no figure'}", 0)
    order: tuple[Verdict, ...] = ("regressed", "cannot tell", "other queries", "no baseline", "holds")
    return min(found, key=lambda one: order.index(one.verdict))


assets: list[dg.AssetsDefinition] = [retrieval_metrics]
