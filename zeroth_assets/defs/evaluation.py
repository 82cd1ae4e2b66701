"""Evaluation: what belongs here is recall of each tenant's index, one asset per chunk set, partitioned by tenant."""

from typing import Any

import dagster as dg
import numpy as np
import polars as pl
from numpy.typing import NDArray

from zeroth_assets.corpus.model import documents_to_frame
from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.baselines import against_baseline, regression_check
from zeroth_assets.defs.chunks import tenant_documents
from zeroth_assets.defs.partitions import all_of, tenants
from zeroth_assets.defs.progress import progress_of
from zeroth_assets.defs.resources import Project
from zeroth_assets.embedding import embed_with_memo
from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.ann_recall import measure_ann_recall
from zeroth_assets.evaluation.ann_report import (
    FIGURE_SCHEMA,
    HEADLINE_EF_SEARCH,
    LATENCY,
    TRUTH,
    recall_verdict,
    verdict,
)
from zeroth_assets.evaluation.baselines import Regression
from zeroth_assets.evaluation.plots import plot_ann_recall
from zeroth_assets.evaluation.queries import NoQueriesError, sample_queries
from zeroth_assets.planning import EF_SEARCH, Recipe
from zeroth_assets.settings import CHUNK_SETS
from zeroth_assets.store.preflight import preflight

GROUP = "evaluation"
SHOWN = ["ef_search", "recall", "recall_low", "recall_high", "rows_min", "short_queries"]
SHOWN += ["latency_p50_ms", "latency_p95_ms", "plan_node", "trivial"]


SAMPLES_KEPT = 256
_sampled: dict[tuple[str, tuple[object, ...]], tuple[pl.DataFrame, NDArray[np.float32]]] = {}


def sampled_queries(project: Project, tenant: str) -> tuple[pl.DataFrame, NDArray[np.float32]]:
    """Sentences of the tenant's own documents as queries, and their vectors.

    Raises:
        NoQueriesError: none of them is fit to be a query.
    """
    settings, encoder = project.settings, project.encoder
    stands_on = (
        settings.state_dir,
        project.planner().documents_digest(tenant),
        settings.ann_queries,
        settings.seed,
        encoder.fingerprint.digest,
    )
    # The same sentences are asked of every chunk set and design, and by the summary once more.
    found = _sampled.get((tenant, stands_on))
    if found is None:
        documents = documents_to_frame(tenant_documents(project, tenant))
        queries = sample_queries(documents, n=settings.ann_queries, seed=settings.seed, tenant=tenant)
        asked = [encoder.query_prefix + text for text in queries["text"]]
        found = queries, embed_with_memo(asked, encoder, project.memo).vectors
        if len(_sampled) >= SAMPLES_KEPT:
            _sampled.pop(next(iter(_sampled)))
        _sampled[tenant, stands_on] = found
    return found


def ann_recall_asset(chunk_set: str) -> dg.AssetsDefinition:
    """The asset `ann_recall_<chunk_set>`."""
    name = f"ann_recall_{chunk_set}"

    @dg.asset(
        name=name,
        partitions_def=tenants,
        deps=[f"tenant_index_{chunk_set}", all_of("parsed_documents"), "tenant_assignments"],
        group_name=GROUP,
        kinds={"postgres", "numpy"},
        owners=md.OWNERS,
        description=(
            "Recall@10 of the tenant's HNSW against exact search, as zeroth_app under its policy, over hnsw.ef_search. "
            "Queries are sentences sampled from the tenant's own documents, not a golden set."
        ),
        metadata={"dagster/column_schema": md.column_schema(FIGURE_SCHEMA)},
        check_specs=[
            dg.AssetCheckSpec(
                "figures_are_honest",
                asset=name,
                blocking=True,
                partitions_def=tenants,
                description="No truth query used an index, and none of the measured avoided it.",
            ),
            dg.AssetCheckSpec(
                "recall_reaches_floor",
                asset=name,
                partitions_def=tenants,
                description="The interval of recall@10 at ef_search 40 does not lie below ZEROTH_RECALL_FLOOR.",
            ),
            dg.AssetCheckSpec(
                "no_regression",
                asset=name,
                blocking=True,
                partitions_def=tenants,
                description="Recall per query has not fallen below the accepted baseline; see `zeroth baseline`.",
            ),
        ],
    )
    def ann_recall(context: dg.AssetExecutionContext, project: Project) -> Any:
        tenant, settings = context.partition_key, project.settings
        recipe = project.planner().recipe(name, tenant)
        preflight(project.database)
        try:
            queries, vectors = sampled_queries(project, tenant)
        except NoQueriesError as error:
            yield _withheld(project, chunk_set, tenant, recipe, error)
            return
        encoder = project.encoder
        report = measure_ann_recall(
            project.database,
            chunk_set=chunk_set,
            tenant_key=tenant,
            queries=vectors,
            seed=settings.seed,
            dimension=encoder.dimension,
            fingerprint_digest=encoder.fingerprint.digest,
            expected_build=project.store.require(f"tenant_index_{chunk_set}", tenant).details["index_build_id"],
            ef_search=EF_SEARCH,
            resamples=settings.resamples,
            progress=progress_of(context),
        )
        headline = report.at(HEADLINE_EF_SEARCH)
        honest, reached = verdict(report), recall_verdict(report, floor=settings.recall_floor)
        results = [
            dg.AssetCheckResult(
                check_name="figures_are_honest",
                passed=honest.ok,
                metadata={"problems": "; ".join(honest.problems) or "none", "count": len(honest.problems)},
            ),
            dg.AssetCheckResult(
                check_name="recall_reaches_floor",
                passed=reached.ok and not reached.warnings,
                severity=dg.AssetCheckSeverity.WARN if reached.ok else dg.AssetCheckSeverity.ERROR,
                metadata={
                    "found": "; ".join((*reached.problems, *reached.warnings)) or "reached",
                    "recall": headline["recall"],
                    "recall low": headline["recall_low"],
                    "recall high": headline["recall_high"],
                    "floor": settings.recall_floor,
                },
            ),
        ]
        if not honest.ok:
            yield from results
            raise MeasurementError(f"The figures of {name} {tenant} are withheld", found="; ".join(honest.problems))
        per_query = report.per_query.with_columns(queries["query_id"].gather(report.per_query["query"]).alias("query"))
        at_headline = per_query.filter(pl.col("ef_search") == HEADLINE_EF_SEARCH)
        regression = against_baseline(
            settings, "ann_recall", f"{chunk_set}/{tenant}", dict(at_headline.select("query", "recall").iter_rows())
        )
        results.append(regression_check(regression))
        sidecar = project.store.write_frame(
            report.figures,
            name,
            tenant,
            **recipe.about(
                f"Recall of the HNSW index over the {chunk_set} chunks of tenant {tenant}, by ef_search.",
                measure_ann_recall,
                truth=TRUTH,
                latency=LATENCY,
                fingerprint_digest=encoder.fingerprint.digest,
                regressed=regression.verdict == "regressed",
                per_query=per_query.select("ef_search", "query", "recall", "rows").to_dict(as_series=False),
            ),
        )
        yield md.result(
            sidecar,
            {
                # Numbers of their own: the UI draws their course over materialisations.
                "recall": headline["recall"],
                "recall low": headline["recall_low"],
                "recall high": headline["recall_high"],
                "recall by ef_search": md.png(plot_ann_recall(report.figures), f"recall by ef_search of {tenant}"),
                "figures": md.markdown_table(report.figures.select(SHOWN)),
                "truth": TRUTH,
                "latency": LATENCY,
                "queries": f"{queries.height} sentences sampled with seed {settings.seed}",
                "index build": report.build.index_build_id,
                "dead rows": headline["dead_rows"],
            },
            results,
        )

    return ann_recall


def _withheld(
    project: Project, chunk_set: str, tenant: str, recipe: Recipe, error: NoQueriesError
) -> dg.MaterializeResult[Any]:
    """No figures, with the reason: a tenant that cannot be asked anything is no failure of the run."""
    reason = f"{error.what}: {error.found}"
    sidecar = project.store.write_frame(
        FIGURE_SCHEMA.to_frame(),
        recipe.artefact,
        tenant,
        **recipe.about(
            f"No recall of the HNSW index over the {chunk_set} chunks of tenant {tenant}: withheld, see details.",
            measure_ann_recall,
            withheld=reason,
        ),
    )
    return md.result(
        sidecar,
        {"withheld": reason, "remedy": error.remedy},
        [
            dg.AssetCheckResult(
                check_name="figures_are_honest", passed=True, metadata={"problems": "none", "count": 0}
            ),
            dg.AssetCheckResult(
                check_name="recall_reaches_floor",
                passed=False,
                severity=dg.AssetCheckSeverity.WARN,
                metadata={"found": f"withheld: {reason}", "floor": project.settings.recall_floor},
            ),
            regression_check(Regression("cannot tell", f"withheld: {reason}", 0)),
        ],
    )


assets: list[dg.AssetsDefinition] = [ann_recall_asset(chunk_set) for chunk_set in CHUNK_SETS]
