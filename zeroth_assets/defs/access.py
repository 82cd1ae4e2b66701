"""Access recall: what belongs here is each tenant's recall by index design, partitioned by tenant."""

from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.baselines import access_regression, regression_check
from zeroth_assets.defs.evaluation import GROUP, sampled_queries
from zeroth_assets.defs.partitions import tenants
from zeroth_assets.defs.progress import progress_of
from zeroth_assets.defs.resources import Project
from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.access_model import (
    ACCESS_SCHEMA,
    CELL_COLUMNS,
    LATENCY,
    TRUTH,
    AccessReport,
)
from zeroth_assets.evaluation.access_principals import Asked
from zeroth_assets.evaluation.access_recall import measure_access
from zeroth_assets.evaluation.access_report import HEADLINE_EF_SEARCH, verdict
from zeroth_assets.evaluation.baselines import Regression
from zeroth_assets.evaluation.queries import NoQueriesError
from zeroth_assets.planning import Recipe, access_grid
from zeroth_assets.settings import CHUNK_SETS
from zeroth_assets.store.preflight import preflight

TARGET = 0.99
# Values per query, in the order of the sidecar's `query_ids`, beside each figure.
FIGURE_SCHEMA = pl.Schema({**ACCESS_SCHEMA, "recalls": pl.List(pl.Float64), "rows_each": pl.List(pl.Int64)})
SHOWN = ["design", "ef_search", "k", "predicate", "recall", "recall_low", "recall_high", "rows_mean"]
SHOWN += ["short_queries", "empty_queries", "latency_p50_ms", "latency_p95_ms", "plan_node"]


def asked_by(project: Project, tenant: str) -> Asked:
    """The sampled queries of a tenant, embedded; the memo has them already.

    Raises:
        NoQueriesError: the tenant has no sentence that is fit to be a query.
    """
    queries, vectors = sampled_queries(project, tenant)
    return Asked(tuple(queries["query_id"].to_list()), vectors)


def with_each_query(report: AccessReport) -> pl.DataFrame:
    """The figures with their values per query, in `FIGURE_SCHEMA`."""
    keys = ["principal", *CELL_COLUMNS]
    each = report.per_query.group_by(keys, maintain_order=True).agg(
        pl.col("recall").alias("recalls"), pl.col("rows").alias("rows_each")
    )
    return report.figures.join(each, on=keys, how="left", nulls_equal=True).select(list(FIGURE_SCHEMA))


def headline(figures: pl.DataFrame, design: str) -> dict[str, Any] | None:
    """The figure of a design that is cited: k = 10, with the predicate, ef_search 40 where there is one."""
    rows = figures.filter(
        (pl.col("design") == design)
        & (pl.col("k") == 10)
        & pl.col("predicate")
        & (pl.col("ef_search").is_null() | (pl.col("ef_search") == HEADLINE_EF_SEARCH))
    )
    return rows.row(0, named=True) if rows.height else None


def honesty_checks(report: AccessReport) -> list[dg.AssetCheckResult]:
    """Whether nothing leaked, and whether the figures are what they claim; a withheld cell is a warning."""
    found = verdict(report)
    return [
        dg.AssetCheckResult(
            check_name="no_cross_tenant_row",
            passed=report.cross_tenant_rows == 0,
            metadata={"rows of other tenants": report.cross_tenant_rows, "cells": report.figures.height},
        ),
        dg.AssetCheckResult(
            check_name="figures_are_honest",
            passed=found.ok and not found.warnings,
            severity=dg.AssetCheckSeverity.WARN if found.ok else dg.AssetCheckSeverity.ERROR,
            metadata={
                "problems": "; ".join(found.problems) or "none",
                "withheld": "; ".join(found.warnings[:10]) or "none",
                "count": len(found.problems) + len(found.warnings),
            },
        ),
    ]


def honesty_specs(name: str, partitions_def: dg.PartitionsDefinition[str] | None) -> list[dg.AssetCheckSpec]:
    """The specs of `honesty_checks`."""
    texts = {
        "no_cross_tenant_row": "No run returned a row of a tenant that its principal was not granted.",
        "figures_are_honest": "Asked as zeroth_app, with an interval and the plan of its design, each figure.",
    }
    return [
        dg.AssetCheckSpec(check, asset=name, blocking=True, partitions_def=partitions_def, description=text)
        for check, text in texts.items()
    ]


def dishonest(name: str, report: AccessReport) -> MeasurementError:
    """Why nothing is published."""
    return MeasurementError(
        f"The figures of {name} are withheld",
        found="; ".join(verdict(report).problems),
        remedy="run `zeroth db lint`; if rows of other tenants came back, let nobody query until it is mended",
    )


def access_recall_asset(chunk_set: str) -> dg.AssetsDefinition:
    """The asset `access_recall_<chunk_set>`."""
    name = f"access_recall_{chunk_set}"

    @dg.asset(
        name=name,
        partitions_def=tenants,
        deps=[f"ann_recall_{chunk_set}", f"tenant_index_{chunk_set}", f"shared_index_{chunk_set}"],
        group_name=GROUP,
        kinds={"postgres", "numpy"},
        owners=md.OWNERS,
        description=(
            "Recall of each index design asked as this tenant alone: one shared HNSW with the policy after it, with "
            "iterative scans, and the tenant's own partition by HNSW and exactly. Which designs, ef_search and k are "
            "measured is ZEROTH_ACCESS_GRID."
        ),
        metadata={"dagster/column_schema": md.column_schema(FIGURE_SCHEMA)},
        check_specs=[
            *honesty_specs(name, tenants),
            dg.AssetCheckSpec(
                "the_partition_recovers_all",
                asset=name,
                partitions_def=tenants,
                description="An exact scan of the tenant's partition reaches 0.99 and leaves no query empty.",
            ),
            dg.AssetCheckSpec(
                "no_regression",
                asset=name,
                partitions_def=tenants,
                blocking=True,
                description="Recall per query has not fallen below the accepted baseline; see `zeroth baseline`.",
            ),
        ],
    )
    def access_recall(context: dg.AssetExecutionContext, project: Project) -> Any:
        tenant, settings, grid = context.partition_key, project.settings, access_grid(project.settings)
        recipe = project.planner().recipe(name, tenant)
        preflight(project.database)
        rows = project.store.require(f"tenant_index_{chunk_set}", tenant).details["table_rows"]
        try:
            asked = asked_by(project, tenant)
        except NoQueriesError as error:
            yield _withheld(project, recipe, f"{error.what}: {error.found}")
            return
        if rows < min(grid.k):
            yield _withheld(project, recipe, f"{rows} rows, and the least k is {min(grid.k)}")
            return
        report = measure_access(
            project.database,
            chunk_set=chunk_set,
            principal=tenant,
            queries=asked.vectors,
            query_ids=asked.query_ids,
            seed=settings.seed,
            dimension=project.model.dimension,
            designs=grid.designs,
            ef_search=grid.ef_search,
            ks=grid.k,
            resamples=settings.resamples,
            progress=progress_of(context),
        )
        exact = headline(report.figures, "partition_exact")
        regression = access_regression(settings, f"{chunk_set}/{tenant}", report.per_query)
        results = [*honesty_checks(report), _recovers(exact), regression_check(regression)]
        if not verdict(report).ok:
            yield from results
            raise dishonest(f"{name} {tenant}", report)
        sidecar = project.store.write_frame(
            with_each_query(report),
            name,
            tenant,
            **recipe.about(
                f"Recall by index design over the {chunk_set} chunks, asked as tenant {tenant}.",
                measure_access,
                truth=TRUTH,
                latency=LATENCY,
                query_ids=list(asked.query_ids),
                left_out=list(report.left_out),
                withheld=list(report.withheld),
                regressed=regression.verdict == "regressed",
            ),
        )
        yield md.result(
            sidecar,
            {
                **_numbers(report.figures),
                "figures": md.markdown_table(report.figures.select(SHOWN)),
                "left out": "; ".join(report.left_out) or "nothing",
                "truth": TRUTH,
                "latency": LATENCY,
            },
            results,
        )

    return access_recall


def _numbers(figures: pl.DataFrame) -> dict[str, Any]:
    """Numbers of their own, whose course the UI draws."""
    numbers: dict[str, Any] = {}
    for design in figures["design"].unique(maintain_order=True):
        row = headline(figures, design)
        if row is not None:
            numbers[f"recall {design}"] = row["recall"]
            numbers[f"empty {design}"] = row["empty_queries"]
    return numbers


def _recovers(exact: dict[str, Any] | None) -> dg.AssetCheckResult:
    reached = exact is not None and exact["recall"] >= TARGET and exact["empty_queries"] == 0
    return dg.AssetCheckResult(
        check_name="the_partition_recovers_all",
        passed=reached,
        severity=dg.AssetCheckSeverity.ERROR if exact is not None else dg.AssetCheckSeverity.WARN,
        metadata={
            "recall": "withheld" if exact is None else exact["recall"],
            "recall low": "withheld" if exact is None else exact["recall_low"],
            "empty queries": "withheld" if exact is None else exact["empty_queries"],
            "target": TARGET,
        },
    )


def _withheld(project: Project, recipe: Recipe, reason: str) -> dg.MaterializeResult[Any]:
    """No figures, with the reason: a tenant that cannot be measured is no failure of the run."""
    sidecar = project.store.write_frame(
        FIGURE_SCHEMA.to_frame(),
        recipe.artefact,
        recipe.partition,
        **recipe.about(
            f"No recall by index design of tenant {recipe.partition}: withheld, see details.",
            measure_access,
            withheld=[reason],
        ),
    )
    untold = [
        dg.AssetCheckResult(check_name=name, passed=True, metadata={"found": f"withheld: {reason}"})
        for name in ("no_cross_tenant_row", "figures_are_honest")
    ]
    cannot = regression_check(Regression("cannot tell", f"withheld: {reason}", 0))
    return md.result(sidecar, {"withheld": reason}, [*untold, _recovers(None), cannot])


assets: list[dg.AssetsDefinition] = [access_recall_asset(chunk_set) for chunk_set in CHUNK_SETS]
