"""Access recall over all principals: what belongs here is the summary per chunk set, with the pictures."""

import contextlib
import shutil
from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.access import (
    FIGURE_SCHEMA,
    SHOWN,
    asked_by,
    dishonest,
    honesty_checks,
    honesty_specs,
    with_each_query,
)
from zeroth_assets.defs.evaluation import GROUP
from zeroth_assets.defs.partitions import all_of
from zeroth_assets.defs.progress import progress_of
from zeroth_assets.defs.resources import Project
from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.access_grid import Unit, measure_grid
from zeroth_assets.evaluation.access_model import ACCESS_SCHEMA, LATENCY, TRUTH
from zeroth_assets.evaluation.access_plots import (
    plot_empty_answers,
    plot_latency,
    plot_recall_by_ef,
    plot_recall_by_share,
)
from zeroth_assets.evaluation.access_principals import Asked, granted_for_measurement, spread_queries, wide_principals
from zeroth_assets.evaluation.access_report import access_table, compare_designs, seed_finding, verdict
from zeroth_assets.evaluation.queries import NoQueriesError
from zeroth_assets.planning import Recipe, access_grid
from zeroth_assets.settings import CHUNK_SETS
from zeroth_assets.store.preflight import preflight


def published_access(store: ArtefactStore, chunk_set: str, keys: tuple[str, ...]) -> pl.DataFrame:
    """The figures of these tenants, each asked alone, in `ACCESS_SCHEMA`."""
    name = f"access_recall_{chunk_set}"
    frames = [store.read_frame(name, key, columns=list(ACCESS_SCHEMA)) for key in keys]
    return pl.concat([ACCESS_SCHEMA.to_frame(), *frames])


def access_summary_asset(chunk_set: str) -> dg.AssetsDefinition:
    """The asset `access_recall_summary_<chunk_set>`."""
    name = f"access_recall_summary_{chunk_set}"

    @dg.asset(
        name=name,
        deps=[all_of(f"access_recall_{chunk_set}"), f"shared_index_{chunk_set}"],
        group_name=GROUP,
        kinds={"postgres", "numpy"},
        owners=md.OWNERS,
        description=(
            "Recall by index design for every principal: each tenant alone, and those of several tenants up to the one "
            "that sees all, who are measured here. The curve against the share of rows that a principal may see."
        ),
        metadata={"dagster/column_schema": md.column_schema(FIGURE_SCHEMA)},
        check_specs=honesty_specs(name, None),
    )
    def access_summary(context: dg.AssetExecutionContext, project: Project) -> Any:
        settings, grid, planner = project.settings, access_grid(project.settings), project.planner()
        recipe = planner.recipe(name)
        preflight(project.database)
        measured = planner.tenants_with(f"access_recall_{chunk_set}")
        rows = dict(project.store.read_frame(f"shared_index_{chunk_set}").select("tenant", "rows").iter_rows())
        asked: dict[str, Asked] = {}
        for tenant in measured:
            with contextlib.suppress(NoQueriesError):
                asked[tenant] = asked_by(project, tenant)
        principals = wide_principals(rows, seed=settings.seed)
        units = [
            Unit(p.name, spread_queries(asked, p.tenant_keys, n=settings.ann_queries, seed=settings.seed))
            for p in principals
            if any(key in asked for key in p.tenant_keys) and sum(rows[key] for key in p.tenant_keys) >= min(grid.k)
        ]
        if not units:
            yield _withheld(project, recipe, f"nobody has a query and at least {min(grid.k)} rows")
            return
        folder = settings.state_dir / "grid" / name
        with granted_for_measurement(project.database, principals):
            report = measure_grid(
                project.database,
                units,
                chunk_set=chunk_set,
                seed=settings.seed,
                folder=folder,
                dimension=project.model.dimension,
                progress=progress_of(context),
                designs=grid.designs,
                ef_search=grid.ef_search,
                ks=grid.k,
                resamples=settings.resamples,
            )
        results = honesty_checks(report)
        if not verdict(report).ok:
            yield from results
            raise dishonest(name, report)
        alone = published_access(project.store, chunk_set, measured)
        figures = pl.concat([alone, report.figures])
        sidecar = project.store.write_frame(
            with_each_query(report),
            name,
            **recipe.about(
                f"Recall by index design over the {chunk_set} chunks, asked as principals of several tenants.",
                measure_grid,
                truth=TRUTH,
                latency=LATENCY,
                query_ids={unit.principal: list(unit.asked.query_ids) for unit in units},
                tenants=list(measured),
                left_out=list(report.left_out),
                withheld=list(report.withheld),
            ),
        )
        shutil.rmtree(folder, ignore_errors=True)  # it holds finished units for a run that is killed
        yield md.result(
            sidecar,
            {
                "tenants measured alone": f"{len(measured)} of {len(planner.tenants)}",
                **_told(figures, seed=settings.seed, resamples=settings.resamples),
                "wide principals": md.markdown_table(report.figures.select("principal", *SHOWN)),
                "left out": "; ".join(report.left_out) or "nothing",
                "truth": TRUTH,
                "latency": LATENCY,
            },
            results,
        )

    return access_summary


def _withheld(project: Project, recipe: Recipe, reason: str) -> dg.MaterializeResult[Any]:
    """No figures, with the reason: a corpus that is too small to be measured is no failure of the run."""
    about = recipe.about("No recall by index design: withheld, see details.", measure_grid, withheld=[reason])
    sidecar = project.store.write_frame(FIGURE_SCHEMA.to_frame(), recipe.artefact, **about)
    untold = [
        dg.AssetCheckResult(check_name=name, passed=True, metadata={"found": f"withheld: {reason}"})
        for name in ("no_cross_tenant_row", "figures_are_honest")
    ]
    return md.result(sidecar, {"withheld": reason}, untold)


def _told(figures: pl.DataFrame, *, seed: int, resamples: int) -> dict[str, Any]:
    """The finding in words, the designs side by side, and four pictures; what cannot be drawn is left out."""
    comparison = compare_designs(figures, seed=seed, resamples=resamples)
    told: dict[str, Any] = {"designs": dg.MetadataValue.md(access_table(comparison))}
    try:
        told["finding"] = seed_finding(comparison, figures).text
    except MeasurementError as error:
        told["finding"] = f"withheld: {error.what}"
    for name, draw, frame in (
        ("recall by share of rows", plot_recall_by_share, figures),
        ("recall by ef_search", plot_recall_by_ef, comparison),
        ("answers without a row", plot_empty_answers, comparison),
        ("latency", plot_latency, comparison),
    ):
        try:
            told[name] = md.png(draw(frame), name)
        except MeasurementError as error:
            told[name] = f"not drawn: {error.what}"
    return told


assets: list[dg.AssetsDefinition] = [access_summary_asset(chunk_set) for chunk_set in CHUNK_SETS]
