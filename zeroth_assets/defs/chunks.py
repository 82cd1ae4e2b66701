"""Chunks: what belongs here is one asset per chunk set, partitioned by tenant, with its blocking checks."""

from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.chunking import CHUNK_SCHEMA, ChunkReport, chunk_documents, chunks_to_frame, measure_chunks
from zeroth_assets.chunking.context import CONTEXT_CHUNK_SCHEMA, CONTEXT_SETS, chunk_with_context, context_frame
from zeroth_assets.corpus.model import Document, documents_from_frame
from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.partitions import all_of, tenants
from zeroth_assets.defs.progress import progress_of
from zeroth_assets.defs.resources import Project
from zeroth_assets.errors import ChunkingError
from zeroth_assets.planning import OVERLAP_SHARE
from zeroth_assets.settings import CHUNK_SETS

GROUP = "chunks"
DESCRIPTIONS = {
    "fixed_512": "Windows of 512 tokens, special tokens included, 15 % overlap, cut at word starts.",
    "section_aware": "Chunks of at most 512 tokens that never cross a section boundary.",
    "fixed_512_context": "Windows that with title and section path before them have at most 512 tokens.",
    "section_aware_context": "As section_aware, with title and section path before what is embedded and indexed.",
}
"""What each chunk set is, for the catalogue."""


def tenant_documents(project: Project, tenant: str) -> list[Document]:
    """The parsed documents of a tenant, in order of id and version."""
    mine = project.planner().assignments.filter(pl.col("tenant") == tenant)
    documents = []
    for source in mine["source"].unique().sort():
        parsed = project.store.read_frame("parsed_documents", source)
        documents += documents_from_frame(parsed.join(mine, on=["document_id", "version"], how="semi"))
    return sorted(documents, key=lambda d: (d.document_id, d.version))


def chunk_asset(chunk_set: str) -> dg.AssetsDefinition:
    """The asset `chunks_<chunk_set>`."""
    name = f"chunks_{chunk_set}"

    def check(check_name: str, description: str) -> dg.AssetCheckSpec:
        return dg.AssetCheckSpec(check_name, asset=name, blocking=True, partitions_def=tenants, description=description)

    specs = [
        check("offsets_are_exact", "`text[start:end]` of the document is the chunk's text, for every chunk."),
        check("fits_the_encoder", "No chunk is longer than the encoder reads; the cut text is tokenised again."),
    ]
    within_sections = CONTEXT_SETS.get(chunk_set, chunk_set) == "section_aware"
    prefixed = chunk_set in CONTEXT_SETS
    if within_sections:
        specs.append(check("no_section_crossed", "No chunk crosses a section boundary."))

    @dg.asset(
        name=name,
        partitions_def=tenants,
        deps=[all_of("parsed_documents"), "tenant_assignments"],
        group_name=GROUP,
        kinds={"parquet"},
        owners=md.OWNERS,
        description=DESCRIPTIONS[chunk_set],
        metadata={"dagster/column_schema": md.column_schema(CONTEXT_CHUNK_SCHEMA if prefixed else CHUNK_SCHEMA)},
        check_specs=specs,
    )
    def chunks(context: dg.AssetExecutionContext, project: Project) -> Any:
        tenant = context.partition_key
        recipe = project.planner().recipe(name, tenant)
        documents = tenant_documents(project, tenant)
        tokenizer, size, report = project.tokenizer, project.settings.max_tokens, ChunkReport()
        how: dict[str, Any] = {
            "size": size,
            "share": OVERLAP_SHARE,
            "report": report,
            "progress": progress_of(context),
        }
        if prefixed:
            with_context = chunk_with_context(documents, chunk_set, tokenizer, **how)
            made, frame = [one.chunk for one in with_context], context_frame(with_context)
        else:
            made = chunk_documents(documents, chunk_set, tokenizer, **how)
            frame = chunks_to_frame(made)
        measured = measure_chunks(documents, made, report, size=size, special_tokens=tokenizer.special_tokens)
        wrong = {
            "fits_the_encoder": int(measured["over_size"].sum()),
            "offsets_are_exact": int(measured["not_a_slice"].sum()),
        }
        if within_sections:
            wrong["no_section_crossed"] = int(measured["crossing_section"].sum())
        results = [
            dg.AssetCheckResult(check_name=c, passed=n == 0, metadata={"offending": n}) for c, n in wrong.items()
        ]
        if not all(r.passed for r in results):
            yield from results
            raise ChunkingError(
                f"The chunks of {tenant} break the contract and are not published",
                found="; ".join(f"{r.check_name} failed" for r in results if not r.passed),
                remedy="report the document; the former chunks stay in force",
            )
        sidecar = project.store.write_frame(
            frame,
            name,
            tenant,
            **recipe.about(
                f"The {chunk_set} chunks of tenant {tenant}.", chunk_with_context if prefixed else chunk_documents
            ),
        )
        yield md.result(sidecar, {"documents": len(documents), "measured": md.markdown_table(measured)}, results)

    return chunks


assets = [chunk_asset(chunk_set) for chunk_set in CHUNK_SETS]
