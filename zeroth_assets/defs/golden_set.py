"""The golden set: what belongs here is its assets from the pool of chunks that are worth judging to the grades."""

from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.baselines import accepted_golden, golden_marks, truth_fingerprint
from zeroth_assets.defs.golden import GROUP, own_frames
from zeroth_assets.defs.partitions import all_of
from zeroth_assets.defs.progress import progress_of
from zeroth_assets.defs.resources import Project
from zeroth_assets.evaluation.golden.grades import chunk_qrels, part_grades
from zeroth_assets.evaluation.golden.imported import DOCUMENTS
from zeroth_assets.evaluation.golden.judgments import JUDGMENT_SCHEMA, answering_spans, judgments_from_spans
from zeroth_assets.evaluation.golden.pools import POOL_SCHEMA, SUMMARY_SCHEMA, build_pool, lexical_contributions
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


def of_set(frame: pl.DataFrame, chunk_set: str, schema: pl.Schema) -> pl.DataFrame:
    """A frame of one chunk set, with its name, in a schema of all."""
    return frame.with_columns(pl.lit(chunk_set).alias("chunk_set")).select(list(schema)).cast(schema)


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
        members.append(of_set(pool.members, chunk_set, POOLED_SCHEMA))
        summaries.append(of_set(pool.summary, chunk_set, SUMMARIES_SCHEMA))
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


@dg.asset(
    deps=["judgments", "golden_queries"],
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
            description="Queries, spans, splits and judge are those that were accepted: `zeroth baseline accept`.",
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
    judge = store.require("judgments").details.get("judge")
    marks, accepted = golden_marks(digest, judge), accepted_golden(project.settings)
    changed = accepted is not None and accepted != marks
    check = dg.AssetCheckResult(
        check_name="unchanged_unless_accepted",
        passed=accepted == marks,
        severity=dg.AssetCheckSeverity.ERROR if changed else dg.AssetCheckSeverity.WARN,
        metadata={
            **marks,
            "to do": "nothing" if accepted == marks else "zeroth baseline accept --figure golden_set --reason TEXT",
            "accepted": "none was ever accepted: `zeroth baseline accept`"
            if accepted is None
            else ", ".join(f"{name} {mark}" for name, mark in accepted.items()),
        },
    )
    sidecar = store.write_frame(
        frame,
        "golden_set",
        **recipe.about(
            "Graded relevance by chunk set, for every figure of retrieval.",
            judgments_from_spans,
            digest=digest,
            truth=truth_fingerprint(digest, judge),
            unaccepted=changed,
            **({} if judge is None else {"judge": judge}),
        ),
    )
    counts = frame.group_by("chunk_set").agg(
        pl.len().alias("grades"),
        pl.col("query_id").n_unique().alias("queries"),
        (pl.col("grade") >= 2).sum().alias("relevant"),
    )
    told = {} if judge is None else {"judge": judge["label"], "judge's worth": judge["worth"]}
    yield md.result(sidecar, {"digest": digest, "grades": md.markdown_table(counts.sort("chunk_set")), **told}, [check])


assets: list[dg.AssetsDefinition] = [judgment_pool, golden_set]
