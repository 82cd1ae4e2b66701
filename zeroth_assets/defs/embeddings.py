"""Embeddings: what belongs here is one asset per chunk set, partitioned by tenant, with its blocking checks."""

from typing import Any

import dagster as dg

from zeroth_assets.chunking.context import context_columns, indexed_texts
from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.partitions import tenants
from zeroth_assets.defs.progress import progress_of
from zeroth_assets.defs.resources import Project
from zeroth_assets.embedding import embed_with_memo, vector_checks
from zeroth_assets.errors import EmbeddingError
from zeroth_assets.settings import CHUNK_SETS

GROUP = "embeddings"
CHECKS = {
    "unit_norm": "Every vector has length 1 within 1e-3.",
    "finite": "No vector holds NaN or infinity.",
    "no_zero_row": "No vector is zero: a cosine HNSW index would silently leave it out.",
    "nothing_truncated": "No text is longer than the encoder reads.",
    "one_vector_a_chunk": "There are as many vectors as chunks.",
}


def embedding_asset(chunk_set: str) -> dg.AssetsDefinition:
    """The asset `embeddings_<chunk_set>`."""
    name = f"embeddings_{chunk_set}"

    @dg.asset(
        name=name,
        partitions_def=tenants,
        deps=[f"chunks_{chunk_set}"],
        group_name=GROUP,
        kinds={"numpy"},
        owners=md.OWNERS,
        pool="encoder",
        description=f"One float32 unit vector per {chunk_set} chunk, in the chunks' order, with its fingerprint.",
        metadata={"dagster/column_schema": md.column_schema({"vector": "Array(Float32)"})},
        check_specs=[
            dg.AssetCheckSpec(c, asset=name, blocking=True, partitions_def=tenants, description=d)
            for c, d in CHECKS.items()
        ],
    )
    def embeddings(context: dg.AssetExecutionContext, project: Project) -> Any:
        tenant = context.partition_key
        recipe = project.planner().recipe(name, tenant)
        columns = ["text", "token_count", *context_columns(chunk_set)]
        chunks = project.store.read_frame(f"chunks_{chunk_set}", tenant, columns=columns)
        encoder = project.encoder
        report = embed_with_memo(indexed_texts(chunks), encoder, project.memo, progress=progress_of(context))
        found = vector_checks(report.vectors, chunks["token_count"], encoder.fingerprint.max_tokens)
        counts = {
            "unit_norm": found.not_unit,
            "finite": found.not_finite,
            "no_zero_row": found.zero,
            "nothing_truncated": found.truncated,
            "one_vector_a_chunk": abs(report.vectors.shape[0] - chunks.height),
        }
        results = [
            dg.AssetCheckResult(check_name=c, passed=n == 0, metadata={"offending": n}) for c, n in counts.items()
        ]
        if any(counts.values()):
            yield from results
            raise EmbeddingError(
                f"The vectors of {tenant} are not usable and are not published",
                found="; ".join(f"{c}: {n}" for c, n in counts.items() if n),
                remedy="check the model, engine and precision; the former vectors stay in force",
            )
        fingerprint = encoder.fingerprint
        sidecar = project.store.write_matrix(
            report.vectors,
            name,
            tenant,
            **recipe.about(
                f"Unit vectors of the {chunk_set} chunks of tenant {tenant}, row by row.",
                embed_with_memo,
                fingerprint=fingerprint.to_dict(),
                fingerprint_digest=fingerprint.digest,
                dimension=encoder.dimension,
            ),
        )
        yield md.result(
            sidecar,
            {
                "fingerprint": dg.MetadataValue.json(fingerprint.to_dict()),
                "embedded": report.misses,
                "from memo": report.hits,
                "chunks per second": round(report.chunks_per_second, 1),
                "seconds": round(report.seconds, 2),
            },
            results,
        )

    return embeddings


assets = [embedding_asset(chunk_set) for chunk_set in CHUNK_SETS]
