"""The golden set: what belongs here is its assets from the pool of chunks that are worth judging to the grades."""

from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.baselines import golden_mark
from zeroth_assets.defs.golden import GROUP, golden_frames, imported_golden, own_frames
from zeroth_assets.defs.partitions import all_of
from zeroth_assets.defs.progress import progress_of
from zeroth_assets.defs.resources import Project
from zeroth_assets.evaluation.golden.grades import chunk_qrels, part_grades
from zeroth_assets.evaluation.golden.imported import DOCUMENTS
from zeroth_assets.evaluation.golden.judgments import JUDGMENT_SCHEMA, answering_spans, judgments_from_spans
from zeroth_assets.evaluation.golden.pools import POOL_SCHEMA, SUMMARY_SCHEMA, build_pool, lexical_contributions
from zeroth_assets.evaluation.golden.splits import document_links
from zeroth_assets.evaluation.judging.sources import grade_pool
from zeroth_assets.evaluation.retrieval_arms import split_arm
from zeroth_assets.evaluation.retrieval_figures import run_of
from zeroth_assets.planning import measured_arms
from zeroth_assets.search.shelf import PostingsShelf
from zeroth_assets.settings import CHUNK_SETS

CHUNK_COLUMNS = ["chunk_id", "document_id", "document_version", "char_start", "char_end"]


def _by_chunk_set(schema: pl.Schema, **more: Any) -> pl.Schema:
    fields: dict[str, Any] = {"chunk_set": pl.String, **schema, **more}
    return pl.Schema(fields)


POOLED_SCHEMA = _by_chunk_set(POOL_SCHEMA)
GRADED_SCHEMA = _by_chunk_set(JUDGMENT_SCHEMA)
QRELS_SCHEMA = _by_chunk_set(JUDGMENT_SCHEMA, tenant=pl.String)
SUMMARIES_SCHEMA = _by_chunk_set(SUMMARY_SCHEMA)


def placed_chunks(
    store: ArtefactStore, chunk_set: str, tenants: tuple[str, ...], *, text: bool = False
) -> pl.DataFrame:
    """Where every chunk of these tenants lies, with its tenant."""
    columns = [*CHUNK_COLUMNS, *(["text"] if text else [])]
    name = f"chunks_{chunk_set}"
    return pl.concat(
        [store.read_frame(name, key, columns=columns).with_columns(pl.lit(key).alias("tenant")) for key in tenants]
    )


def span_qrels(queries: pl.DataFrame, spans: pl.DataFrame, chunks: pl.DataFrame) -> pl.DataFrame:
    """The grade of every chunk that overlaps an answer; documents that no tenant here holds are passed over."""
    return chunk_qrels(part_grades(answering_spans(queries, spans), chunks, allow_absent=True))


def _document_grades(project: Project) -> pl.DataFrame:
    """What an imported set says of documents, in GRADED_SCHEMA with `document` for the chunk set."""
    imported = imported_golden(project)
    if imported is None:
        return GRADED_SCHEMA.to_frame()
    known = golden_frames(project.store)[0]
    by = pl.lit(f"as published with {imported.about.name}").alias("judged_by")
    graded = imported.qrels.join(known, on="query_id", how="semi").with_columns(by)
    return _of_set(graded, DOCUMENTS, GRADED_SCHEMA)


def _ranked(frame: pl.DataFrame, queries: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Runs of `queries` by role, as pools take them."""
    runs = {}
    for (role,), part in frame.join(queries, on="query_id", how="semi").group_by("role", maintain_order=True):
        runs[str(role)] = run_of(part)
    return runs


@dg.asset(
    deps=[
        "golden_queries",
        all_of("retrieval_runs"),
        *(all_of(f"{stage}_{chunk_set}") for stage in ("chunks", "bm25_index") for chunk_set in CHUNK_SETS),
    ],
    group_name=GROUP,
    kinds={"parquet"},
    owners=md.OWNERS,
    description=(
        "For each query and chunk set the chunks that are worth judging: BM25's first 50 over everything, the first 10 "
        "of every arm and role, and the chunks that hold the answer; with who proposed each."
    ),
    metadata={"dagster/column_schema": md.column_schema(POOLED_SCHEMA)},
)
def judgment_pool(context: dg.AssetExecutionContext, project: Project) -> Any:
    """Unite what the arms found with what is known to answer."""
    planner, store = project.planner(), project.store
    recipe = planner.recipe("judgment_pool")
    queries, spans = own_frames(store)
    published = set(store.partitions("retrieval_runs"))
    progress = progress_of(context)
    members, summaries = [POOLED_SCHEMA.to_frame()], [SUMMARIES_SCHEMA.to_frame()]
    stale = 0
    for chunk_set in CHUNK_SETS:
        tenants = planner.tenants_with(f"bm25_index_{chunk_set}")
        chunks = placed_chunks(store, chunk_set, tenants, text=True)
        shelved = PostingsShelf(store, chunk_set).index_for({key: number for number, key in enumerate(tenants)})
        runs = {
            f"{split_arm(arm)[1]}, {role}": run
            for arm in measured_arms(project.settings)
            if arm in published and split_arm(arm)[0] == chunk_set
            for role, run in _ranked(store.read_frame("retrieval_runs", arm), queries).items()
        }
        # A tenant whose index could not be renewed is still answered from its former chunks.
        there = chunks.select(pl.col("chunk_id").cast(pl.String).alias("document_id"))
        stale += sum(run.join(there, on="document_id", how="anti").height for run in runs.values())
        lexical = lexical_contributions(queries, shelved.index, chunks, progress=progress)
        pool = build_pool(
            queries,
            lexical=lexical.join(there, on="document_id", how="semi"),
            runs={name: run.join(there, on="document_id", how="semi") for name, run in runs.items()},
            qrels=span_qrels(queries, spans, chunks),
        )
        members.append(_of_set(pool.members, chunk_set, POOLED_SCHEMA))
        summaries.append(_of_set(pool.summary, chunk_set, SUMMARIES_SCHEMA))
    frame = pl.concat(members)
    sidecar = store.write_frame(
        frame, "judgment_pool", **recipe.about("The chunks of each query that are worth judging.", build_pool)
    )
    sizes = frame.group_by("chunk_set", "query_id").len().group_by("chunk_set")
    yield md.result(
        sidecar,
        {
            "answers that are no chunk any more": stale,
            "chunks per query": md.markdown_table(sizes.agg(pl.col("len").mean().alias("mean"), pl.col("len").max())),
            "who proposed": md.markdown_table(pl.concat(summaries)),
        },
    )


def _of_set(frame: pl.DataFrame, chunk_set: str, schema: pl.Schema) -> pl.DataFrame:
    return frame.with_columns(pl.lit(chunk_set).alias("chunk_set")).select(list(schema)).cast(schema)


@dg.asset(
    deps=[judgment_pool, "golden_queries"],
    group_name=GROUP,
    kinds={"parquet"},
    owners=md.OWNERS,
    description=(
        "Grades 0 to 3 of pooled chunks, and who gave each: experts' and drafters' spans, and what follows by "
        "construction. What nobody graded has no row: unjudged is not 0. No model grades anything unless one is "
        "configured."
    ),
    metadata={"dagster/column_schema": md.column_schema(GRADED_SCHEMA)},
)
def judgments(context: dg.AssetExecutionContext, project: Project) -> Any:
    """Grade what can be graded without a model."""
    planner, store = project.planner(), project.store
    recipe = planner.recipe("judgments")
    queries, spans = own_frames(store)
    pool = store.read_frame("judgment_pool")
    links = document_links(project.manifest.records, store.read_frame("dedup_report"))
    frames, statements = [GRADED_SCHEMA.to_frame()], {}
    for chunk_set in CHUNK_SETS:
        chunks = placed_chunks(store, chunk_set, planner.tenants_with(f"bm25_index_{chunk_set}"))
        mine = pool.filter(pl.col("chunk_set") == chunk_set).drop("chunk_set")
        graded = judgments_from_spans(queries, span_qrels(queries, spans, chunks), mine, chunks, links)
        statements[chunk_set] = grade_pool(mine, graded).statement
        frames.append(_of_set(graded, chunk_set, GRADED_SCHEMA))
    frame = pl.concat([*frames, _document_grades(project)])
    sidecar = store.write_frame(
        frame,
        "judgments",
        **recipe.about("Graded relevance of pooled chunks, with who graded.", judgments_from_spans, who=statements),
    )
    counts = frame.group_by("chunk_set", "judged_by", "grade").len().sort("chunk_set", "judged_by", "grade")
    yield md.result(
        sidecar, {"grades": md.markdown_table(counts), **{f"who, {name}": text for name, text in statements.items()}}
    )


@dg.asset(
    deps=[judgments, "golden_queries"],
    group_name=GROUP,
    kinds={"parquet"},
    owners=md.OWNERS,
    description="The grades that figures stand on, by chunk set, with each chunk's tenant. It changes by acceptance.",
    metadata={"dagster/column_schema": md.column_schema(QRELS_SCHEMA)},
    check_specs=[
        dg.AssetCheckSpec(
            "unchanged_unless_accepted",
            asset="golden_set",
            blocking=True,
            description="Queries, spans and splits are those that were accepted: `zeroth baseline accept`.",
        )
    ],
)
def golden_set(context: dg.AssetExecutionContext, project: Project) -> Any:
    """Publish the qrels, and say whether their truth is the accepted one."""
    planner, store = project.planner(), project.store
    recipe = planner.recipe("golden_set")
    graded = store.read_frame("judgments")
    owners = [
        placed_chunks(store, chunk_set, planner.tenants_with(f"bm25_index_{chunk_set}")).select(
            pl.lit(chunk_set).alias("chunk_set"), pl.col("chunk_id").cast(pl.String).alias("document_id"), "tenant"
        )
        for chunk_set in CHUNK_SETS
    ]
    owners.append(planner.assignments.select(pl.lit(DOCUMENTS).alias("chunk_set"), "document_id", "tenant"))
    frame = graded.join(pl.concat(owners), on=["chunk_set", "document_id"], how="left").select(list(QRELS_SCHEMA))
    digest = str(store.require("golden_queries").details["digest"])
    accepted = golden_mark(project.settings)
    changed = accepted is not None and accepted != digest
    check = dg.AssetCheckResult(
        check_name="unchanged_unless_accepted",
        passed=accepted == digest,
        severity=dg.AssetCheckSeverity.ERROR if changed else dg.AssetCheckSeverity.WARN,
        metadata={"digest": digest, "accepted": accepted or "none was ever accepted: `zeroth baseline accept`"},
    )
    sidecar = store.write_frame(
        frame,
        "golden_set",
        **recipe.about(
            "Graded relevance by chunk set, for every figure of retrieval.",
            judgments_from_spans,
            digest=digest,
            unaccepted=changed,
        ),
    )
    counts = frame.group_by("chunk_set").agg(
        pl.len().alias("grades"),
        pl.col("query_id").n_unique().alias("queries"),
        (pl.col("grade") >= 2).sum().alias("relevant"),
    )
    yield md.result(sidecar, {"digest": digest, "grades": md.markdown_table(counts.sort("chunk_set"))}, [check])


assets: list[dg.AssetsDefinition] = [judgment_pool, judgments, golden_set]
