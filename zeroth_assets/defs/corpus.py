"""The corpus: what belongs here is the assets from the manifest to parsed text, partitioned by source."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.corpus import manifest as manifests
from zeroth_assets.corpus.acquisition import acquire, raw_path, read_raw
from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.corpus.model import DOCUMENT_SCHEMA, documents_to_frame
from zeroth_assets.corpus.parse import parse_source
from zeroth_assets.corpus.quality import quality_frame
from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.partitions import sources
from zeroth_assets.defs.progress import progress_of
from zeroth_assets.defs.resources import Project, fetch_options

GROUP = "corpus"
MANIFEST_SCHEMA = pl.Schema(
    {
        "document_id": pl.String,
        "version": pl.String,
        "source": pl.String,
        "title": pl.String,
        "origin": pl.String,
        "bytes": pl.Int64,
        "media_type": pl.String,
        "licence": pl.String,
        "date": pl.String,
        "tenant_attribute": pl.String,
        "current": pl.Boolean,
    }
)
RAW_SCHEMA = pl.Schema(
    {
        "document_id": pl.String,
        "version": pl.String,
        "path": pl.String,
        "bytes": pl.Int64,
        "present": pl.Boolean,
        "cause": pl.String,
    }
)


@dg.asset(
    group_name=GROUP,
    kinds={"json", "parquet"},
    owners=md.OWNERS,
    description="`corpus_manifest.json` as data: one row per document version, validated against the JSON Schema.",
    metadata={"dagster/column_schema": md.column_schema(MANIFEST_SCHEMA)},
)
def corpus_manifest(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult[Any]:
    """Validate the manifest and publish it as a frame."""
    manifest = project.manifest
    current = {(r.document_id, r.sha256) for r in manifest.current()}
    rows = [
        (
            r.document_id,
            r.sha256,
            r.source,
            r.title,
            r.origin,
            r.bytes,
            r.media_type,
            r.licence,
            r.date,
            r.tenant_attribute,
            (r.document_id, r.sha256) in current,
        )
        for r in manifest
    ]
    frame = pl.DataFrame(rows, schema=MANIFEST_SCHEMA, orient="row").sort("document_id", "version")
    about = (
        project.planner()
        .recipe("corpus_manifest")
        .about("One row per document version that the corpus manifest lists.", manifests.load_manifest)
    )
    sidecar = project.store.write_frame(frame, "corpus_manifest", **about)
    counts = frame.group_by("source").agg(pl.len().alias("documents"), pl.col("bytes").sum()).sort("source")
    return md.result(sidecar, {"documents by source": md.markdown_table(counts)})


@dg.asset(
    partitions_def=sources,
    deps=[corpus_manifest],
    group_name=GROUP,
    kinds={"file"},
    owners=md.OWNERS,
    description="The publishers' bytes, verified against the manifest's checksums, one file per document version.",
    metadata={"dagster/column_schema": md.column_schema(RAW_SCHEMA)},
    check_specs=[
        dg.AssetCheckSpec(
            "no_document_missing",
            asset="raw_documents",
            partitions_def=sources,
            description="Every document of the source that the manifest lists is on disk, with its checksum.",
        )
    ],
)
def raw_documents(context: dg.AssetExecutionContext, project: Project) -> Iterator[dg.MaterializeResult[Any]]:
    """Fetch what is missing; one document's failure never stops another."""
    source = context.partition_key
    settings = project.settings
    records = project.manifest.of_source(source)
    report = acquire(
        records,
        raw_dir=project.raw_dir,
        mirror=settings.mirror_location,
        options=fetch_options(settings),
        progress=progress_of(context),
    )
    outcomes = {(row["document_id"], row["version"]): row for row in report.documents.iter_rows(named=True)}
    frame = pl.DataFrame(
        [_raw_row(project, record, outcomes[record.document_id, record.sha256]) for record in records],
        schema=RAW_SCHEMA,
        orient="row",
    ).sort("document_id", "version")
    missing = frame.filter(pl.col("cause").is_not_null())
    about = (
        project.planner()
        .recipe("raw_documents", source)
        .about(
            f"Which bytes of source {source} are on disk, and why others are not.",
            acquire,
            missing=missing["version"].to_list(),
            absent=frame.filter(~pl.col("present"))["version"].to_list(),
        )
    )
    sidecar = project.store.write_frame(frame, "raw_documents", source, **about)
    check = dg.AssetCheckResult(
        check_name="no_document_missing",
        passed=missing.is_empty(),
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={
            "missing": missing.height,
            "documents": md.markdown_table(missing.select("document_id", "cause"), limit=50),
        },
    )
    yield md.result(
        sidecar,
        {
            **report.counts,
            "requests": report.requests,
            "paused hosts": "; ".join(f"{p.host}: {p.reason}" for p in report.pauses) or "none",
            "seconds": round(report.seconds, 2),
            "bytes fetched": int(report.documents["bytes"].sum()),
        },
        [check],
    )


def _raw_row(project: Project, record: ManifestRecord, outcome: dict[str, Any]) -> tuple[object, ...]:
    path = raw_path(project.raw_dir, record).relative_to(project.raw_dir)
    present = outcome["status"] in ("fetched", "intact")
    missing = outcome["status"] in ("failed", "pending")
    cause = outcome["cause"] or f"{outcome['status']}, not tried" if missing else None
    return (record.document_id, record.sha256, str(path), record.bytes, present, cause)


@dg.asset(
    partitions_def=sources,
    deps=[raw_documents],
    group_name=GROUP,
    kinds={"parquet"},
    owners=md.OWNERS,
    description="Canonical text with sections, pages and blocks as half-open character ranges of it.",
    metadata={"dagster/column_schema": md.column_schema(DOCUMENT_SCHEMA)},
    check_specs=[
        dg.AssetCheckSpec(
            "every_document_parsed",
            asset="parsed_documents",
            partitions_def=sources,
            description="No document that is on disk failed to parse.",
        )
    ],
)
def parsed_documents(context: dg.AssetExecutionContext, project: Project) -> Iterator[dg.MaterializeResult[Any]]:
    """Parse the current version of every document that is on disk; unchanged documents are taken over."""
    source = context.partition_key
    recipe = project.planner().recipe("parsed_documents", source)
    raw = project.store.read_frame("raw_documents", source)
    present = set(raw.filter(pl.col("present")).select("document_id", "version").iter_rows())
    records = [
        r
        for r in manifests.current_versions(project.manifest.of_source(source))
        if (r.document_id, r.sha256) in present
    ]
    report = parse_source(
        records,
        lambda record: read_raw(project.raw_dir, record),
        previous=_previous(project, source),
        progress=progress_of(context),
        workers=2,
    )
    frame = documents_to_frame(list(report.documents))
    about = recipe.about(
        f"Canonical text and structure of the current documents of source {source}.",
        parse_source,
        failures=[{"document_id": f.document_id, "detail": f.detail} for f in report.failed],
    )
    sidecar = project.store.write_frame(frame, "parsed_documents", source, row_group_size=32, **about)
    failures = pl.DataFrame(
        [(failure.document_id, failure.reason, failure.detail) for failure in report.failed],
        schema={"document_id": pl.String, "reason": pl.String, "detail": pl.String},
        orient="row",
    )
    check = dg.AssetCheckResult(
        check_name="every_document_parsed",
        passed=failures.is_empty(),
        metadata={"failed": failures.height, "documents": md.markdown_table(failures, limit=50)},
    )
    quality = quality_frame(list(report.documents))
    yield md.result(
        sidecar,
        {"parsed": report.parsed, "taken over": report.reused, "quality": md.markdown_table(quality)},
        [check],
    )


def _previous(project: Project, source: str) -> pl.DataFrame | None:
    if not project.store.exists("parsed_documents", source):
        return None
    return project.store.read_frame("parsed_documents", source)


assets: list[dg.AssetsDefinition] = [corpus_manifest, raw_documents, parsed_documents]
