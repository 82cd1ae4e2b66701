"""The index: what belongs here is the schema and one tenant index per chunk set, partitioned by tenant."""

from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.partitions import tenants
from zeroth_assets.defs.progress import progress_of
from zeroth_assets.defs.resources import Project
from zeroth_assets.errors import DatabaseError
from zeroth_assets.settings import CHUNK_SETS
from zeroth_assets.store.catalogue import lint_catalogue
from zeroth_assets.store.connect import Database
from zeroth_assets.store.failures import database_errors
from zeroth_assets.store.load import load_tenant
from zeroth_assets.store.migrate import migrate, read_migrations
from zeroth_assets.store.preflight import PreflightError, preflight
from zeroth_assets.store.read import verify_build
from zeroth_assets.store.registry import IndexParameters, ensure_chunk_set

GROUP = "index"
MIGRATION_SCHEMA = pl.Schema({"revision": pl.String, "sha256": pl.String})
RECEIPT_SCHEMA = pl.Schema(
    {
        "chunk_set": pl.String,
        "tenant": pl.String,
        "index_build_id": pl.Int64,
        "rows": pl.Int64,
        "rows_digest": pl.String,
        "fingerprint_digest": pl.String,
        "m": pl.Int64,
        "ef_construction": pl.Int64,
    }
)


@dg.asset(
    group_name=GROUP,
    kinds={"postgres", "sql"},
    owners=md.OWNERS,
    description="Migrations, roles, policies and chunk tables as applied.",
    metadata={"dagster/column_schema": md.column_schema(MIGRATION_SCHEMA)},
    check_specs=[
        dg.AssetCheckSpec(
            "preflight",
            asset="database_schema",
            blocking=True,
            description="The role that asks is bound by forced row-level security; versions reach the floors.",
        ),
        dg.AssetCheckSpec(
            "catalogue_lint",
            asset="database_schema",
            blocking=True,
            description="Every table, grant, policy, function and view of the database is as the boundary needs it.",
        ),
    ],
)
def database_schema(context: dg.AssetExecutionContext, project: Project) -> Any:
    """Bring the database to the newest schema and make a table per chunk set for the encoder's dimension."""
    versions = project.database.ensure_databases()
    report = migrate(project.database, corpus=project.settings.corpus)
    for chunk_set in CHUNK_SETS:
        ensure_chunk_set(project.database, chunk_set, project.model.dimension)
    checks = boundary_checks(project.database)
    if not all(check.passed for check in checks):
        yield from checks
        raise DatabaseError(
            "The database's boundary does not hold, and nothing is loaded into it",
            found="; ".join(str(check.metadata["found"].value) for check in checks if not check.passed),
            remedy="mend what is named; `zeroth db lint` lists all of it",
        )
    frame = pl.DataFrame([(f.revision, f.sha256) for f in read_migrations()], schema=MIGRATION_SCHEMA, orient="row")
    recipe = project.planner().recipe("database_schema")
    sidecar = project.store.write_frame(
        frame,
        "database_schema",
        **recipe.about(
            "The migrations that the database has applied.",
            migrate,
            dimensions=dict.fromkeys(CHUNK_SETS, project.model.dimension),
        ),
    )
    yield md.result(
        sidecar,
        {"applied now": len(report.applied), "PostgreSQL": versions.postgres, "pgvector": versions.pgvector},
        checks,
    )


def boundary_checks(database: Database) -> list[dg.AssetCheckResult]:
    """The preflight, and the lint over the whole catalogue."""
    try:
        looked = preflight(database)
        before = dg.AssetCheckResult(
            check_name="preflight",
            passed=True,
            metadata={"role": looked.role, "tables": looked.tables, "partitions": looked.partitions, "found": "none"},
        )
    except PreflightError as error:
        before = dg.AssetCheckResult(check_name="preflight", passed=False, metadata={"found": error.found})
    with database_errors("reading the catalogue"), database.owner() as connection:
        findings = lint_catalogue(connection)
    lint = dg.AssetCheckResult(
        check_name="catalogue_lint",
        passed=not findings,
        metadata={"findings": len(findings), "found": "; ".join(map(str, findings)) or "none"},
    )
    return [before, lint]


def tenant_index_asset(chunk_set: str) -> dg.AssetsDefinition:
    """The asset `tenant_index_<chunk_set>`."""
    name = f"tenant_index_{chunk_set}"

    @dg.asset(
        name=name,
        partitions_def=tenants,
        deps=[f"chunks_{chunk_set}", f"embeddings_{chunk_set}", database_schema],
        group_name=GROUP,
        kinds={"postgres", "pgvector"},
        owners=md.OWNERS,
        pool="index_build",
        description=f"The tenant's {chunk_set} rows in its own PostgreSQL partition, with its HNSW index.",
        metadata={"dagster/column_schema": md.column_schema(RECEIPT_SCHEMA)},
        check_specs=[
            dg.AssetCheckSpec(
                "holds_these_chunks",
                asset=name,
                blocking=True,
                partitions_def=tenants,
                description="The partition holds just the chunks of the artefact: counted and hashed in the database.",
            )
        ],
    )
    def tenant_index(context: dg.AssetExecutionContext, project: Project) -> Any:
        tenant = context.partition_key
        recipe = project.planner().recipe(name, tenant)
        chunks = project.store.read_frame(f"chunks_{chunk_set}", tenant)
        about = project.store.require(f"embeddings_{chunk_set}", tenant)
        fingerprint = {**about.details["fingerprint"], "digest": about.details["fingerprint_digest"]}
        parameters = IndexParameters("hnsw", project.settings.hnsw_m, project.settings.hnsw_ef_construction)
        report = load_tenant(
            project.database,
            chunk_set=chunk_set,
            tenant_key=tenant,
            chunks=chunks,
            vectors=project.store.read_matrix(f"embeddings_{chunk_set}", tenant),
            fingerprint=fingerprint,
            chunker_version=project.store.require(f"chunks_{chunk_set}", tenant).code_version,
            parameters=parameters,
            inputs=recipe.inputs,
            progress=progress_of(context),
        )
        verified = verify_build(
            project.database,
            chunk_set,
            tenant,
            chunks["chunk_id"].to_numpy(),
            fingerprint_digest=fingerprint["digest"],
            dimension=about.details["dimension"],
        )
        check = dg.AssetCheckResult(
            check_name="holds_these_chunks",
            passed=verified.holds,
            metadata={"rows": verified.rows, "differences": "; ".join(verified.differences) or "none"},
        )
        if not verified.holds:
            yield check
            raise DatabaseError(
                f"{name} {tenant} does not hold the chunks that were loaded",
                found="; ".join(verified.differences),
                remedy="run the same command again",
            )
        receipt = (
            chunk_set,
            tenant,
            report.index_build_id,
            report.rows,
            verified.digest,
            fingerprint["digest"],
            parameters.m,
            parameters.ef_construction,
        )
        sidecar = project.store.write_frame(
            pl.DataFrame([receipt], schema=RECEIPT_SCHEMA, orient="row"),
            name,
            tenant,
            **recipe.about(
                f"What the database holds of the {chunk_set} chunks of tenant {tenant}.",
                load_tenant,
                index_build_id=report.index_build_id,
                table_rows=report.rows,
            ),
        )
        yield md.result(
            sidecar,
            {
                "rows": report.rows,
                "added": report.added,
                "deleted": report.deleted,
                "updated": report.updated,
                "unchanged": report.unchanged,
                "load": report.kind,
                "rows per second": round(report.rows_per_second),
                "index bytes": report.index_bytes,
                "index build": report.index_build_id,
                "vacuumed": report.vacuumed,
                "dead rows": "unknown" if report.dead_rows is None else report.dead_rows,
            },
            [check],
        )

    return tenant_index


assets: list[dg.AssetsDefinition] = [database_schema, *(tenant_index_asset(chunk_set) for chunk_set in CHUNK_SETS)]
