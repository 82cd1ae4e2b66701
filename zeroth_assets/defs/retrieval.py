"""Retrieval runs: what belongs here is one asset, partitioned by chunk set and retriever, of ranked runs."""

from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.evaluation import GROUP
from zeroth_assets.defs.golden import golden_frames, imported_golden
from zeroth_assets.defs.partitions import all_of, arms, store_key
from zeroth_assets.defs.progress import progress_of
from zeroth_assets.defs.resources import Project
from zeroth_assets.defs.retrieval_arms import asked_queries, embedded_queries, open_arm, reranker_of
from zeroth_assets.evaluation.retrieval_arms import NAMED_DOCUMENT, RETRIEVERS, split_arm
from zeroth_assets.planning.retrieval_stages import arm_depth, run_depth
from zeroth_assets.search.retriever import Retriever
from zeroth_assets.search.runs import PER_QUERY_SCHEMA, latencies, run_queries
from zeroth_assets.settings import CHUNK_SETS
from zeroth_assets.store.preflight import preflight

DEEPEST = 1_000
"""Passages asked for where one document's are wanted of all that its tenant has: the most that a retriever gives."""
_FIELDS: dict[str, Any] = {
    **PER_QUERY_SCHEMA,
    "role": pl.String,
    "split": pl.String,
    "category": pl.String,
    "ranking": pl.List(pl.String),
}
RUNS_SCHEMA = pl.Schema(_FIELDS)


def _answers(
    retriever: Retriever,
    principal: str,
    part: pl.DataFrame,
    *,
    role: str,
    limits: pl.DataFrame | None,
    kept: int,
    never: pl.DataFrame | None,
) -> pl.DataFrame:
    """What one principal's queries are answered, in `RUNS_SCHEMA`.

    `limits` (query_id, only, and the chunks document_id of that document) keeps of a ranking what lies in it;
    `never` (query_id, document_id) is taken out. `kept` passages are left.
    """
    k = kept if limits is None else DEEPEST
    runs = run_queries(retriever, principal, list(part.select("query_id", "text").iter_rows()), k=k)
    found, told = runs.run, runs.per_query
    if limits is not None:
        found = found.join(limits, on=["query_id", "document_id"], how="semi")
    if never is not None:
        found = found.join(never, on=["query_id", "document_id"], how="anti")
    ranked = found.sort("query_id", "score", descending=[False, True])
    lists = ranked.group_by("query_id", maintain_order=True).agg(pl.col("document_id").head(kept).alias("ranking"))
    told = told.join(lists, on="query_id", how="left").with_columns(pl.col("ranking").fill_null([]))
    if limits is not None:
        # Counts, shortfalls and scores were the tenant's.
        inside = pl.col("ranking").list.len().cast(pl.Int64)
        gone = [pl.lit(None).alias(name) for name in ("shortfall", "shortfall_complete", "best_dense", "best_reranker")]
        told = told.with_columns(inside.alias("returned"), inside.alias("candidates"), *gone)
    return (
        told.join(part.select("query_id", "split", "category"), on="query_id", how="left")
        .with_columns(pl.lit(role).alias("role"))
        .select(list(RUNS_SCHEMA))
        .cast(RUNS_SCHEMA)
    )


def _limits(project: Project, chunk_set: str, tenant: str, query_ids: pl.Series) -> pl.DataFrame:
    """query_id and document_id (a chunk) of all that a query which is limited to a document may find."""
    chunks = project.store.read_frame(f"chunks_{chunk_set}", tenant, columns=["chunk_id", "document_id"])
    queries = golden_frames(project.store)[0].filter(pl.col("query_id").is_in(query_ids.implode()))
    return (
        queries.select("query_id", pl.col("document_id").alias("only"))
        .join(chunks, left_on="only", right_on="document_id")
        .select("query_id", pl.col("chunk_id").cast(pl.String).alias("document_id"))
    )


def _never(project: Project, chunk_set: str) -> pl.DataFrame | None:
    """query_id and document_id (a chunk) of what the golden set takes out of rankings, None where that is nothing."""
    imported = imported_golden(project)
    if imported is None or imported.never.is_empty():
        return None
    tenants = project.planner().tenants_with(f"chunks_{chunk_set}")
    columns = ["chunk_id", "document_id"]
    chunks = pl.concat([project.store.read_frame(f"chunks_{chunk_set}", key, columns=columns) for key in tenants])
    return imported.never.join(chunks, on="document_id").select(
        "query_id", pl.col("chunk_id").cast(pl.String).alias("document_id")
    )


@dg.asset(
    partitions_def=arms,
    deps=[
        "golden_queries",
        "tenant_assignments",
        *(all_of(f"{stage}_{chunk_set}") for stage in ("tenant_index", "bm25_index") for chunk_set in CHUNK_SETS),
        *(f"shared_index_{chunk_set}" for chunk_set in CHUNK_SETS),
    ],
    group_name=GROUP,
    kinds={"postgres", "bm25"},
    owners=md.OWNERS,
    description=(
        "What one retriever over one chunk set answers to the golden queries: asked by a principal that sees "
        "everything, by the single tenant that holds the answer, and by that tenant within the one document that is "
        "asked about. Both splits; figures are of the test split alone."
    ),
    metadata={"dagster/column_schema": md.column_schema(RUNS_SCHEMA)},
    check_specs=[
        dg.AssetCheckSpec(
            "every_query_was_run",
            asset="retrieval_runs",
            partitions_def=arms,
            blocking=True,
            description="Each query of the golden set that somebody may ask has a row, an empty answer included.",
        ),
        dg.AssetCheckSpec(
            "nothing_degraded",
            asset="retrieval_runs",
            partitions_def=arms,
            description="No stage gave less than it should have.",
        ),
    ],
)
def retrieval_runs(context: dg.AssetExecutionContext, project: Project) -> Any:
    """Ask every golden query of one arm."""
    key = store_key(context.partition_key)
    chunk_set, name = split_arm(key)
    arm = RETRIEVERS[name]
    planner = project.planner()
    recipe = planner.recipe("retrieval_runs", key)
    never = _never(project, chunk_set)
    preflight(project.database)
    asked = asked_queries(project, within=arm.within)
    encoder = embedded_queries(project, asked["text"].unique().sort().to_list()) if arm.dense else None
    progress = progress_of(context)
    frames: list[pl.DataFrame] = [RUNS_SCHEMA.to_frame()]
    done = 0
    with (
        open_arm(project, chunk_set, arm, encoder, depth=arm_depth(planner)) as retriever,
        open_arm(project, chunk_set, arm, encoder, depth=DEEPEST) as deep,
    ):
        for (role, tenant), part in asked.group_by("role", "principal", maintain_order=True):
            name_of, inside = str(tenant), role == NAMED_DOCUMENT
            limits = _limits(project, chunk_set, name_of, part["query_id"]) if inside else None
            asking = deep if inside else retriever
            frames.append(
                _answers(asking, name_of, part, role=str(role), limits=limits, kept=run_depth(planner), never=never)
            )
            done += part.height
            progress(done, asked.height)
        config = retriever.config
    identity = None if (reranker := reranker_of(project) if arm.rerank else None) is None else reranker.identity
    frame = pl.concat(frames).sort("role", "query_id")
    degraded = frame.filter(pl.col("degraded").is_not_null())
    results = [
        dg.AssetCheckResult(
            check_name="every_query_was_run",
            passed=frame.height == asked.height,
            metadata={"asked": asked.height, "run": frame.height},
        ),
        dg.AssetCheckResult(
            check_name="nothing_degraded",
            passed=degraded.is_empty(),
            severity=dg.AssetCheckSeverity.WARN,
            metadata={
                "queries": degraded.height,
                "why": "; ".join(sorted(set(degraded["degraded"].drop_nulls()))[:5]) or "nothing",
            },
        ),
    ]
    sidecar = project.store.write_frame(
        frame,
        "retrieval_runs",
        key,
        **recipe.about(
            f"What {name} ({arm.describes}) over the {chunk_set} chunks answers to the golden queries.",
            run_queries,
            config=config.digest,
            reranker=identity,
            embedding="from the memo: the stage embedding is not the encoder's time",
        ),
    )
    golden = project.store.require("golden_queries").rows
    counts = frame.group_by("role").agg(
        pl.len().alias("queries"),
        (pl.col("returned") == 0).sum().alias("without an answer"),
        pl.col("shortfall").is_not_null().sum().alias("short"),
        pl.col("returned").mean().alias("passages"),
    )
    yield md.result(
        sidecar,
        {
            "arm": arm.describes,
            "answers": md.markdown_table(counts.sort("role")),
            "not asked": f"{golden - frame['query_id'].n_unique()} of {golden} golden queries: "
            "about documents of tenants that have no index yet, or, within a document, not asked of this arm",
            "milliseconds by stage": md.markdown_table(latencies(frame)),
        },
        results,
    )


assets: list[dg.AssetsDefinition] = [retrieval_runs]
