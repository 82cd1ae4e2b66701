"""The lexical index: what belongs here is one asset of BM25 postings per chunk set, partitioned by tenant."""

from typing import Any

import dagster as dg
import numpy as np

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.chunking.context import context_columns, indexed_texts
from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.index import GROUP
from zeroth_assets.defs.partitions import tenants
from zeroth_assets.defs.progress import progress_of
from zeroth_assets.defs.resources import Project
from zeroth_assets.errors import ArtefactError
from zeroth_assets.search.analyser import analyser_named
from zeroth_assets.search.postings_build import build_postings
from zeroth_assets.search.postings_file import postings_from_bytes, postings_to_bytes
from zeroth_assets.search.reconcile import reconcile
from zeroth_assets.settings import CHUNK_SETS
from zeroth_assets.store.acl import NoTenantError, UnknownPrincipalError
from zeroth_assets.store.connect import Database

ARRAYS = {
    "chunk_ids": "Array(Int64)",
    "lengths": "Array(UInt32)",
    "hashes": "Array(UInt64)",
    "spellings": "Array(UInt8)",
    "spelling_ends": "Array(Int64)",
    "starts": "Array(Int64)",
    "chunks": "Array(UInt8, UInt16 or UInt32)",
    "counts": "Array(UInt8, UInt16 or UInt32)",
}
"""The arrays of a file of postings."""


def agreement(
    db: Database, store: ArtefactStore, chunk_set: str, tenant: str, dimension: int | None
) -> dg.AssetCheckResult:
    """Whether postings and rows are of the same chunks. Where the tenant's own principal lost its grant, nobody can
    tell: that is no reason to withhold the postings from the others who may see it."""
    name = "agrees_with_the_database"
    try:
        agreed = reconcile(db, store, chunk_set, tenant, dimension=dimension)
    except (NoTenantError, UnknownPrincipalError) as error:
        return dg.AssetCheckResult(
            check_name=name, passed=False, metadata={"not compared": error.what, "remedy": error.remedy or ""}
        )
    return dg.AssetCheckResult(
        check_name=name,
        passed=agreed.agrees,
        metadata={
            "in both": agreed.indexed,
            "only in the database": len(agreed.only_database),
            "only in the postings": len(agreed.only_postings),
            "remedy": agreed.remedy or "none is needed",
        },
    )


def bm25_index_asset(chunk_set: str) -> dg.AssetsDefinition:
    """The asset `bm25_index_<chunk_set>`."""
    name = f"bm25_index_{chunk_set}"

    @dg.asset(
        name=name,
        partitions_def=tenants,
        # Not made of the tenant's index, but compared with it: a chunk counts as indexed only when both have it.
        deps=[f"chunks_{chunk_set}", f"tenant_index_{chunk_set}"],
        group_name=GROUP,
        kinds={"bm25"},
        owners=md.OWNERS,
        description=f"Which of the tenant's {chunk_set} chunks hold a term and how often: typed arrays in one file.",
        metadata={"dagster/column_schema": md.column_schema(ARRAYS)},
        check_specs=[
            dg.AssetCheckSpec(
                "holds_these_chunks",
                asset=name,
                blocking=True,
                partitions_def=tenants,
                description="The file, read again from its bytes, holds just the chunk ids of the artefact.",
            ),
            dg.AssetCheckSpec(
                "agrees_with_the_database",
                asset=name,
                partitions_def=tenants,
                description="The tenant's partition, read as zeroth_app, holds the same chunks as the postings.",
            ),
        ],
    )
    def bm25_index(context: dg.AssetExecutionContext, project: Project) -> Any:
        tenant = context.partition_key
        recipe = project.planner().recipe(name, tenant)
        columns = ["chunk_id", "text", *context_columns(chunk_set)]
        chunks = project.store.read_frame(f"chunks_{chunk_set}", tenant, columns=columns)
        payload = postings_to_bytes(
            build_postings(
                chunks["chunk_id"].to_numpy(),
                indexed_texts(chunks),
                tenant=tenant,
                chunk_set=chunk_set,
                analyser=analyser_named(project.settings.analyser),
                progress=progress_of(context),
            )
        )
        postings = postings_from_bytes(payload, f"{name}/{tenant}")
        wanted = np.sort(chunks["chunk_id"].to_numpy())
        differing = len(np.setxor1d(wanted, postings.chunk_ids))
        holds = dg.AssetCheckResult(
            check_name="holds_these_chunks",
            passed=differing == 0,
            metadata={"chunks": postings.size, "differing": differing},
        )
        if differing:
            yield holds
            raise ArtefactError(
                f"{name} {tenant} does not hold the chunks that it was built of, and is not published",
                expected=f"{len(wanted)} chunk ids",
                found=f"{differing} that differ",
                remedy="run the same command again; the former postings stay in force",
            )
        sidecar = project.store.write_bytes(
            payload,
            ".bm25",
            name,
            tenant,
            rows=postings.size,
            **recipe.about(
                f"BM25 postings of the {chunk_set} chunks of tenant {tenant}.",
                build_postings,
                analyser=postings.analyser,
                terms=len(postings.hashes),
            ),
        )
        agrees = agreement(project.database, project.store, chunk_set, tenant, project.model.dimension)
        yield md.result(
            sidecar,
            {
                "chunks": postings.size,
                "terms": len(postings.hashes),
                "entries": len(postings.chunks),
                "terms per chunk": round(float(postings.lengths.mean()), 1) if postings.size else 0.0,
                "analyser": postings.analyser,
            },
            [holds, agrees],
        )

    return bm25_index


assets: list[dg.AssetsDefinition] = [bm25_index_asset(chunk_set) for chunk_set in CHUNK_SETS]
