"""The golden set: what belongs here is its assets, from queries and spans to who graded what. None is partitioned."""

from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.partitions import all_of
from zeroth_assets.defs.resources import Project
from zeroth_assets.defs.tenants import parsed_texts
from zeroth_assets.evaluation.golden.build import build_golden_queries
from zeroth_assets.evaluation.golden.imported import ImportedGolden, read_imported
from zeroth_assets.evaluation.golden.model import IMPORTED, QUERY_SCHEMA, SPAN_SCHEMA, GoldenError
from zeroth_assets.evaluation.judging.worth import judge_in_words

GROUP = "golden"
_SPAN_FIELDS = [name for name in SPAN_SCHEMA if name != "query_id"]
GOLDEN_QUERY_SCHEMA = pl.Schema(
    {**QUERY_SCHEMA, "spans": pl.List(pl.Struct({name: SPAN_SCHEMA[name] for name in _SPAN_FIELDS}))}
)


def golden_frames(store: ArtefactStore) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Queries (`model.QUERY_SCHEMA`) and spans (`model.SPAN_SCHEMA`) in force."""
    frame = store.read_frame("golden_queries")
    spans = frame.select("query_id", "spans").explode("spans").drop_nulls("spans").unnest("spans")
    return frame.drop("spans"), spans.select(SPAN_SCHEMA.names())


def own_frames(store: ArtefactStore) -> tuple[pl.DataFrame, pl.DataFrame]:
    """As `golden_frames`, without imported queries: their truth is of whole documents, and no chunk has a grade."""
    queries, spans = golden_frames(store)
    return queries.filter(pl.col("category") != IMPORTED), spans


def truth_of(store: ArtefactStore) -> str:
    """The fingerprint of the published golden set: of its queries, spans and splits, and of the judge if there is one.

    One that an earlier version published knew no judge.
    """
    details = store.require("golden_set").details
    return str(details.get("truth", details["digest"]))


def graded_by(store: ArtefactStore) -> str:
    """Who graded what figures stand on, with a judge's worth where a model did."""
    judge = judge_in_words(store.require("golden_set").details.get("judge"))
    return "people's spans, and what follows by construction" if judge is None else f"people's spans, and {judge}"


def imported_golden(project: Project) -> ImportedGolden | None:
    """The golden set from elsewhere that goes with the manifest, if there is one."""
    folder = project.planner().imported_path
    return None if folder is None else read_imported(folder, project.manifest.records)


def _nested(queries: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    nested = spans.group_by("query_id", maintain_order=True).agg(pl.struct(_SPAN_FIELDS).alias("spans"))
    return queries.join(nested, on="query_id", how="left").sort("query_id").select(list(GOLDEN_QUERY_SCHEMA))


@dg.asset(
    deps=[all_of("parsed_documents"), "tenant_assignments", "dedup_report"],
    group_name=GROUP,
    kinds={"parquet"},
    owners=md.OWNERS,
    description=(
        "Questions and the spans of document versions that answer them: expert labels over contracts, and drafted "
        "questions with verbatim quotes. Truth is a span, so every chunk set is judged by the same."
    ),
    metadata={"dagster/column_schema": md.column_schema(GOLDEN_QUERY_SCHEMA)},
    check_specs=[
        dg.AssetCheckSpec(
            "quotes_resolve",
            asset="golden_queries",
            blocking=True,
            description="Every quote is the slice of the parsed document that its offsets name.",
        ),
        dg.AssetCheckSpec(
            "splits_are_clean",
            asset="golden_queries",
            blocking=True,
            description="No group of queries that share documents is in both splits.",
        ),
    ],
)
def golden_queries(context: dg.AssetExecutionContext, project: Project) -> Any:
    """Make the queries, their truth and their splits, all or nothing."""
    planner, store, settings = project.planner(), project.store, project.settings
    recipe = planner.recipe("golden_queries")
    texts = parsed_texts(project)
    try:
        golden = build_golden_queries(
            texts,
            project.manifest.records,
            planner.assignments,
            store.read_frame("dedup_report"),
            labels=planner.labels_path,
            answerable=settings.golden_answerable,
            unanswerable=settings.golden_unanswerable,
            seed=settings.seed,
            imported=imported_golden(project),
        )
    except GoldenError as error:
        yield dg.AssetCheckResult(check_name="quotes_resolve", passed=False, metadata={"found": error.what})
        yield dg.AssetCheckResult(check_name="splits_are_clean", passed=False, metadata={"found": "not reached"})
        raise
    unresolved = _unresolved(golden.spans, texts)
    torn = golden.queries.group_by("group").agg(pl.col("split").n_unique()).filter(pl.col("split") > 1).height
    results = [
        dg.AssetCheckResult(
            check_name="quotes_resolve",
            passed=not unresolved,
            metadata={"spans": golden.spans.height, "offending": unresolved, "found": "none" if not unresolved else ""},
        ),
        dg.AssetCheckResult(
            check_name="splits_are_clean", passed=not torn, metadata={"groups in both splits": torn, "found": "none"}
        ),
    ]
    if unresolved or torn:
        yield from results
        raise GoldenError(
            "The golden queries break a rule and are not published",
            found=f"{unresolved} quotes that are not their slice, {torn} groups in both splits",
            remedy="the former queries stay in force; report it",
        )
    sidecar = store.write_frame(
        _nested(golden.queries, golden.spans),
        "golden_queries",
        **recipe.about(
            "Questions, the spans that answer them, and their splits.",
            build_golden_queries,
            digest=golden.digest,
            notes=list(golden.notes),
        ),
    )
    yield md.result(
        sidecar,
        {
            "queries": golden.queries.height,
            "answerable": int(golden.queries["answerable"].sum()),
            "spans": golden.spans.height,
            "composition": md.markdown_table(golden.composition),
            "left out": md.markdown_table(golden.left_out),
            "notes": "; ".join(golden.notes) or "none",
            "digest": golden.digest,
        },
        results,
    )


def _unresolved(spans: pl.DataFrame, texts: pl.DataFrame) -> int:
    """Spans whose quote is not the slice of the text that their offsets name."""
    known = {(row[0], row[1]): row[2] for row in texts.select("document_id", "version", "text").iter_rows()}
    columns = ["document_id", "document_version", "char_start", "char_end", "quote"]
    return sum(
        known.get((document, version), "")[start:end] != quote
        for document, version, start, end, quote in spans.select(columns).iter_rows()
    )


assets: list[dg.AssetsDefinition] = [golden_queries]
