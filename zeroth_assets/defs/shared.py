"""The shared index: what belongs here is one index over all tenants per chunk set, kept to be measured against."""

from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.index import GROUP
from zeroth_assets.defs.partitions import all_of
from zeroth_assets.defs.progress import progress_of
from zeroth_assets.defs.resources import Project
from zeroth_assets.errors import DatabaseError
from zeroth_assets.settings import CHUNK_SETS
from zeroth_assets.store.registry import IndexParameters
from zeroth_assets.store.shared import load_shared
from zeroth_assets.store.shared_state import shared_state, verify_shared

PART_SCHEMA = pl.Schema(
    {
        "tenant": pl.String,
        "index_build_id": pl.Int64,
        "rows": pl.Int64,
        "rows_digest": pl.String,
        "share": pl.Float64,
    }
)


def shared_index_asset(chunk_set: str) -> dg.AssetsDefinition:
    """The asset `shared_index_<chunk_set>`."""
    name = f"shared_index_{chunk_set}"

    @dg.asset(
        name=name,
        deps=[all_of(f"tenant_index_{chunk_set}")],
        group_name=GROUP,
        kinds={"postgres", "pgvector"},
        owners=md.OWNERS,
        pool="index_build",
        description=(
            f"Every tenant's {chunk_set} rows in one table under one HNSW, with the policy after it: the usual design, "
            "kept to be measured against and for principals that see nearly everything."
        ),
        metadata={"dagster/column_schema": md.column_schema(PART_SCHEMA)},
        check_specs=[
            dg.AssetCheckSpec(
                "equals_the_tenants_rows",
                asset=name,
                blocking=True,
                description="Each tenant's rows are just those of its own partition: counted and hashed there.",
            )
        ],
    )
    def shared_index(context: dg.AssetExecutionContext, project: Project) -> Any:
        recipe = project.planner().recipe(name)
        settings, dimension = project.settings, project.model.dimension
        parameters = IndexParameters("hnsw", settings.hnsw_m, settings.hnsw_ef_construction)
        report = load_shared(
            project.database, chunk_set, dimension=dimension, parameters=parameters, progress=progress_of(context)
        )
        differences = verify_shared(project.database, chunk_set, dimension)
        check = dg.AssetCheckResult(
            check_name="equals_the_tenants_rows",
            passed=not differences,
            metadata={"rows": report.rows, "differences": "; ".join(differences) or "none"},
        )
        if differences:
            yield check
            raise DatabaseError(
                f"{name} does not hold the tenants' rows", found="; ".join(differences), remedy="run the command again"
            )
        parts = shared_state(project.database, chunk_set, dimension).parts
        rows = [(p.tenant_key, p.index_build_id, p.row_count, p.rows_digest, 0.0) for p in parts]
        frame = pl.DataFrame(rows, schema=PART_SCHEMA, orient="row").sort("tenant")
        frame = frame.with_columns(share=pl.col("rows") / pl.col("rows").sum())
        sidecar = project.store.write_frame(
            frame,
            name,
            **recipe.about(
                f"What the shared index over all {chunk_set} chunks holds of each tenant.",
                load_shared,
                shared_build_id=report.shared_build_id,
                parts_digest=report.parts_digest,
            ),
        )
        absent = sorted(set(project.planner().tenants) - set(frame["tenant"]))
        yield md.result(
            sidecar,
            {
                "rows": report.rows,
                "tenants": report.tenants,
                "tenants without an index": ", ".join(absent) or "none",
                "replaced tenants": report.replaced,
                "added": report.added,
                "deleted": report.deleted,
                "load": report.kind,
                "index rebuilt": report.index_rebuilt,
                "index bytes": report.index_bytes,
                "seconds for the rows": round(report.rows_seconds, 2),
                "seconds for the index": round(report.index_seconds, 2),
                "dead rows": report.dead_rows,
                "build": report.shared_build_id,
                "shares": md.markdown_table(frame.select("tenant", "rows", "share").sort("rows", descending=True)),
            },
            [check],
        )

    return shared_index


assets: list[dg.AssetsDefinition] = [shared_index_asset(chunk_set) for chunk_set in CHUNK_SETS]
