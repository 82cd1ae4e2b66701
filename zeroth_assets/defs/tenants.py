"""Tenants and duplicates: what belongs here is the two assets that look at all parsed documents together."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.chunking import overlap_tokens
from zeroth_assets.corpus.dedup import (
    PAIR_SCHEMA,
    controls_verdict,
    dedup_report,
    exact_duplicates,
)
from zeroth_assets.corpus.plots import plot_cosines, plot_tenant_chunks
from zeroth_assets.corpus.tenants import ASSIGNMENT_SCHEMA, plan_tenants
from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.corpus import GROUP, corpus_manifest
from zeroth_assets.defs.partitions import all_of, register_tenants
from zeroth_assets.defs.progress import progress_of
from zeroth_assets.defs.resources import Project
from zeroth_assets.errors import MeasurementError
from zeroth_assets.planning import OVERLAP_SHARE

TEXT_COLUMNS = ["document_id", "version", "source", "text"]
PAIRS_SHOWN = 50
TOKENISED_AT_ONCE = 16


class Folding(dg.Config):
    """Whether a folding other than the one in force may be taken: known tenants may then change their final tenant."""

    accept: bool = False


def parsed_texts(project: Project) -> pl.DataFrame:
    """Id, version, source and text of every parsed document."""
    partitions = project.store.partitions("parsed_documents")
    frames = [project.store.read_frame("parsed_documents", source, columns=TEXT_COLUMNS) for source in partitions]
    return pl.concat(frames)


@dg.asset(
    deps=[all_of("parsed_documents"), corpus_manifest],
    group_name=GROUP,
    kinds={"parquet"},
    owners=md.OWNERS,
    description=(
        "Which tenant each document belongs to, and why; registers the `tenant` partitions. A tenant under the floor "
        "is folded into the most similar one of its source; a change of folding waits for acceptance."
    ),
    metadata={"dagster/column_schema": md.column_schema(ASSIGNMENT_SCHEMA)},
    check_specs=[
        dg.AssetCheckSpec(
            "folding_is_accepted",
            asset="tenant_assignments",
            description="The folding in force is the one that the rule would choose today.",
        )
    ],
)
def tenant_assignments(
    context: dg.AssetExecutionContext, config: Folding, project: Project
) -> Iterator[dg.MaterializeResult[Any]]:
    """Assign every parsed document to its tenant and register the tenants as partitions."""
    planner = project.planner()
    recipe = planner.recipe("tenant_assignments")
    texts = parsed_texts(project)
    tokenizer, size = project.tokenizer, project.settings.max_tokens
    counts: list[int] = []
    for start in range(0, texts.height, TOKENISED_AT_ONCE):
        batch = texts["text"][start : start + TOKENISED_AT_ONCE].to_list()
        counts += [count - tokenizer.special_tokens for count in tokenizer.counts(batch)]
    in_force = project.store.exists("tenant_assignments")
    plan = plan_tenants(
        texts.with_columns(pl.Series("tokens", counts, dtype=pl.Int64)),
        project.manifest.records,
        stride=size - tokenizer.special_tokens - overlap_tokens(size, tokenizer.special_tokens, OVERLAP_SHARE),
        floor=planner.tenant_floor,
        accepted=project.store.read_frame("tenant_assignments") if in_force else None,
        accept=config.accept,
        progress=progress_of(context),
    )
    sidecar = project.store.write_frame(
        plan.assignments,
        "tenant_assignments",
        **recipe.about(
            "Document to tenant: final tenant, unmerged tenant, similarity and reason.",
            plan_tenants,
            floor=plan.floor,
            pending=plan.pending.to_dicts(),
        ),
    )
    added, removed = register_tenants(context.instance, plan.tenants)
    check = dg.AssetCheckResult(
        check_name="folding_is_accepted",
        passed=plan.pending.is_empty(),
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"pending": plan.pending.height, "changes": md.markdown_table(plan.pending)},
    )
    yield md.result(
        sidecar,
        {
            "tenants": len(plan.tenants),
            "floor in estimated chunks": plan.floor,
            "partitions added": len(added),
            "partitions removed": len(removed),
            "table": md.markdown_table(plan.table()),
            "chunks per tenant": md.png(plot_tenant_chunks(plan.table(), plan.floor), "estimated chunks per tenant"),
            "cosines between tenants": md.png(plot_cosines(plan.tenants, plan.cosines), "cosines between tenants"),
            "other floors": md.markdown_table(plan.floors),
            "folds": md.markdown_table(plan.proposal),
        },
        [check],
    )


@dg.asset(
    name="dedup_report",
    deps=[all_of("parsed_documents")],
    group_name=GROUP,
    kinds={"parquet"},
    owners=md.OWNERS,
    description=(
        "Pairs of documents of which one holds at least 0.80 of the other's shingles, exact over all pairs, with "
        "direction. Duplicates are reported and linked, not deleted."
    ),
    metadata={"dagster/column_schema": md.column_schema(PAIR_SCHEMA)},
    check_specs=[
        dg.AssetCheckSpec(
            "controls_are_answered",
            asset="dedup_report",
            blocking=True,
            description="A copy, embedded or reformatted, is found (1.0); an unrelated document is not (under 0.05).",
        )
    ],
)
def duplicates(context: dg.AssetExecutionContext, project: Project) -> Any:
    """Look for duplicates, with controls in every run; a detector that fails them publishes nothing."""
    recipe = project.planner().recipe("dedup_report")
    report = dedup_report(parsed_texts(project), seed=project.settings.seed, progress=progress_of(context))
    verdict = controls_verdict(report)
    check = dg.AssetCheckResult(
        check_name="controls_are_answered",
        passed=verdict.passed,
        metadata={"failures": "; ".join(verdict.failures) or "none", "controls": md.markdown_table(report.controls)},
    )
    if not verdict.passed:
        yield check
        raise MeasurementError(
            "The dedup report is withheld: its controls were answered wrongly",
            found="; ".join(verdict.failures),
            remedy="report it; the former report stays in force",
        )
    groups = exact_duplicates(report)
    sidecar = project.store.write_frame(
        report.pairs,
        "dedup_report",
        **recipe.about(
            "Pairs of documents of which one holds most of the other.",
            dedup_report,
            threshold=report.threshold,
            exact_duplicates=groups.to_dicts(),
        ),
    )
    yield md.result(
        sidecar,
        {
            **report.summary(),
            "pairs": md.markdown_table(report.pairs.drop("contained_version", "container_version"), limit=PAIRS_SHOWN),
            "controls": md.markdown_table(report.controls),
            "exact duplicates": md.markdown_table(groups),
        },
        [check],
    )


assets: list[dg.AssetsDefinition] = [tenant_assignments, duplicates]
