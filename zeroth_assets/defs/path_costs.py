"""Path costs: what belongs here is what each way to the nearest chunks costs, measured on the indexes that stand."""

import contextlib
import json
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.access import asked_by
from zeroth_assets.defs.index import GROUP
from zeroth_assets.defs.partitions import all_of
from zeroth_assets.defs.progress import progress_of
from zeroth_assets.defs.resources import Project
from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.access_principals import Asked, spread_queries
from zeroth_assets.evaluation.queries import NoQueriesError
from zeroth_assets.search.path_costs import measure_path_costs
from zeroth_assets.search.path_model import PathCosts
from zeroth_assets.settings import CHUNK_SETS
from zeroth_assets.store.preflight import preflight

COST_SCHEMA = pl.Schema(
    {
        "tenants": pl.Int64,
        "rows": pl.Int64,
        "exact_ms": pl.Float64,
        "hnsw_ms": pl.Float64,
        "partitions_ms": pl.Float64,
        "shared_ms": pl.Float64,
        "ef_search": pl.Int64,
        "recall": pl.Float64,
    }
)
_REPETITIONS = 2


def path_costs_asset(chunk_set: str) -> dg.AssetsDefinition:
    """The asset `path_costs_<chunk_set>`."""
    name = f"path_costs_{chunk_set}"

    @dg.asset(
        name=name,
        deps=[f"shared_index_{chunk_set}", all_of("parsed_documents")],
        group_name=GROUP,
        kinds={"postgres", "pgvector"},
        owners=md.OWNERS,
        description=(
            "What an exact scan, each tenant's HNSW and the shared index cost here, and the thresholds that follow: by "
            "them the dense retriever chooses its path for a principal. An index counts where it reached its recall."
        ),
        metadata={"dagster/column_schema": md.column_schema(COST_SCHEMA)},
    )
    def path_costs(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult[Any]:
        settings, recipe = project.settings, project.planner().recipe(name)
        preflight(project.database)
        asked: dict[str, Asked] = {}
        for tenant in project.planner().tenants_with(f"tenant_index_{chunk_set}"):
            with contextlib.suppress(NoQueriesError):
                asked[tenant] = asked_by(project, tenant)
        try:
            if not asked:
                raise MeasurementError("Path costs cannot be measured", found="no tenant has a query")
            queries = spread_queries(asked, tuple(asked), n=settings.ann_queries, seed=settings.seed)
            costs = measure_path_costs(
                project.database,
                chunk_set,
                queries=queries.vectors,
                measured_at=datetime.now(UTC),
                dimension=project.model.dimension,
                repetitions=_REPETITIONS,
                seed=settings.seed,
                progress=progress_of(context),
            )
        except MeasurementError as error:
            about = recipe.about("No path costs: withheld, see details.", measure_path_costs, withheld=error.found)
            sidecar = project.store.write_frame(COST_SCHEMA.to_frame(), name, **about)
            return md.result(sidecar, {"withheld": str(error), "so": "the dense retriever keeps to partitions"})
        frame = _table(costs)
        about = recipe.about(
            f"What the ways to the nearest {chunk_set} chunks cost, in milliseconds at k = {costs.k}.",
            measure_path_costs,
            costs=json.loads(costs.to_json()),
        )
        extrapolated = " (no measured tenant was large enough for its index to win)"
        sidecar = project.store.write_frame(frame, name, **about)
        return md.result(
            sidecar,
            {
                "exact scan up to rows": f"{costs.exact_rows}{extrapolated if costs.exact_rows_extrapolated else ''}",
                "shared index from tenants": "never" if costs.shared_tenants is None else costs.shared_tenants,
                "recall that an index had to reach": costs.target_recall,
                "queries": costs.queries,
                "costs": md.markdown_table(frame),
            },
        )

    return path_costs


def _table(costs: PathCosts) -> pl.DataFrame:
    sizes = [
        {"tenants": 1, "rows": p.rows, "exact_ms": p.exact_ms, "hnsw_ms": p.hnsw_ms}
        | {"ef_search": p.ef_search, "recall": p.recall}
        for p in costs.sizes
    ]
    widths = [
        {"tenants": p.tenants, "rows": p.rows, "partitions_ms": p.partitions_ms, "shared_ms": p.shared_ms}
        | {"ef_search": p.shared_ef_search, "recall": p.shared_recall}
        for p in costs.widths
    ]
    return pl.DataFrame([*sizes, *widths], schema=COST_SCHEMA)


assets: list[dg.AssetsDefinition] = [path_costs_asset(chunk_set) for chunk_set in CHUNK_SETS]
