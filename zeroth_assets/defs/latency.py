"""Latency: what belongs here is `latency_metrics`, one asset over the arms, by stage, role and number of callers."""

import hashlib
from collections.abc import Sequence
from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.evaluation import GROUP
from zeroth_assets.defs.partitions import all_of
from zeroth_assets.defs.progress import progress_of
from zeroth_assets.defs.resources import Project
from zeroth_assets.defs.retrieval_arms import asked_queries, open_arm
from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.retrieval_arms import RETRIEVERS, split_arm
from zeroth_assets.planning import measured_arms
from zeroth_assets.search.runs import LATENCY_SCHEMA, latencies, run_queries
from zeroth_assets.settings import CHUNK_SETS

CALLERS = (1, 4)
K = 10
FEW = 100
"""Queries below which the 99th percentile is one of the slowest few, and says little."""
_FIELDS: dict[str, Any] = {
    "chunk_set": pl.String,
    "arm": pl.String,
    "role": pl.String,
    "callers": pl.Int64,
    **LATENCY_SCHEMA,
    "corpus_fingerprint": pl.String,
}
FIGURE_SCHEMA = pl.Schema(_FIELDS)
HOW = (
    f"Wall clock in one process, {K} passages, the query's embedding included and nothing taken from the memo; each "
    "principal's first query is asked once beforehand. Stages run side by side, so that they do not add up to the "
    "total. Several callers share one retriever."
)


def drawn_queries(asked: pl.DataFrame, number: int) -> pl.DataFrame:
    """At most `number` of the queries that each role asks, the same ones each time: those of least hash.

    Principals are kept few, so that each asks often enough to be measured: those with most queries come first.
    """
    frames = [asked.clear()]
    for (_role,), part in asked.group_by("role", maintain_order=True):
        busy = part.group_by("principal").len().sort("len", "principal", descending=[True, False])["principal"]
        order = {principal: place for place, principal in enumerate(busy)}
        keys = [
            (order[principal], hashlib.sha256(query.encode()).hexdigest())
            for query, principal in part.select("query_id", "principal").iter_rows()
        ]
        places = sorted(range(part.height), key=keys.__getitem__)[:number]
        frames.append(part[places])
    return pl.concat(frames)


@dg.asset(
    deps=[
        "golden_queries",
        "tenant_assignments",
        *(all_of(f"{stage}_{chunk_set}") for stage in ("tenant_index", "bm25_index") for chunk_set in CHUNK_SETS),
        *(f"shared_index_{chunk_set}" for chunk_set in CHUNK_SETS),
    ],
    group_name=GROUP,
    kinds={"postgres"},
    owners=md.OWNERS,
    description=(
        "p50, p95 and p99 of each stage of each arm, asked by a principal that sees everything and by single tenants, "
        "with one and with four callers. " + HOW
    ),
    metadata={"dagster/column_schema": md.column_schema(FIGURE_SCHEMA)},
    check_specs=[
        dg.AssetCheckSpec(
            "every_arm_was_timed",
            asset="latency_metrics",
            blocking=True,
            description="Each arm has a total for every role that asks and every number of callers.",
        )
    ],
)
def latency_metrics(context: dg.AssetExecutionContext, project: Project) -> Any:
    """Ask a few queries of every arm, and time them."""
    store, settings = project.store, project.settings
    recipe = project.planner().recipe("latency_metrics")
    drawn = drawn_queries(asked_queries(project, within=False), settings.latency_queries)
    arms = measured_arms(settings)
    progress = progress_of(context)
    rows = [FIGURE_SCHEMA.to_frame()]
    for done, key in enumerate(arms, 1):
        rows.append(_timed(project, key, drawn))
        progress(done, len(arms))
    frame = pl.concat(rows)
    totals = frame.filter(pl.col("stage") == "total")
    expected = len(arms) * drawn["role"].n_unique() * len(CALLERS)
    check = dg.AssetCheckResult(
        check_name="every_arm_was_timed",
        passed=totals.height == expected,
        metadata={"expected": expected, "found": totals.height},
    )
    if not check.passed:
        yield check
        raise MeasurementError("An arm was not timed", expected=f"{expected} totals", found=f"{totals.height}")
    sidecar = store.write_frame(
        frame,
        "latency_metrics",
        **recipe.about("Latency by stage of every arm, role and number of callers.", run_queries, how=HOW, k=K),
    )
    numbers = ["p50_ms", "p95_ms", "p99_ms"]
    shown = frame.drop("corpus_fingerprint").with_columns(pl.col(numbers).round(1))
    few = int(totals["n"].min() or 0) if totals.height else 0  # type: ignore[arg-type]
    yield md.result(
        sidecar,
        {
            "totals": md.markdown_table(shown.filter(pl.col("stage") == "total").drop("stage")),
            "by stage, one caller": md.markdown_table(
                shown.filter((pl.col("callers") == 1) & (pl.col("stage") != "total")).drop("callers")
            ),
            "how": HOW,
            "n": f"{few} queries at least" + (f"; of fewer than {FEW}, p99 says little" if few < FEW else ""),
        },
        [check],
    )


def _timed(project: Project, key: str, drawn: pl.DataFrame) -> pl.DataFrame:
    chunk_set, name = split_arm(key)
    arm = RETRIEVERS[name]
    fingerprint = project.store.require("tenant_assignments").sha256
    frames = [FIGURE_SCHEMA.to_frame()]
    with open_arm(project, chunk_set, arm, project.encoder if arm.dense else None) as retriever:
        for (role,), part in drawn.group_by("role", maintain_order=True):
            by_principal: list[tuple[str, Sequence[tuple[str, str]]]] = [
                (str(principal), list(mine.select("query_id", "text").iter_rows()))
                for (principal,), mine in part.group_by("principal", maintain_order=True)
            ]
            for callers in CALLERS:
                runs = [
                    run_queries(retriever, principal, queries, k=K, callers=callers).per_query
                    for principal, queries in by_principal
                ]
                about = {"chunk_set": chunk_set, "arm": name, "role": role, "callers": callers}
                columns = [pl.lit(value).alias(column) for column, value in about.items()]
                frames.append(
                    latencies(pl.concat(runs))
                    .with_columns(*columns, pl.lit(fingerprint).alias("corpus_fingerprint"))
                    .select(list(FIGURE_SCHEMA))
                    .cast(FIGURE_SCHEMA)
                )
    return pl.concat(frames)


assets: list[dg.AssetsDefinition] = [latency_metrics]
