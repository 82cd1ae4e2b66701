"""Judgments: what belongs here is one asset, of grades by people's spans and, where one is configured, by a judge."""

from collections.abc import Mapping
from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.artefacts import private_folder
from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.golden import GROUP, golden_frames, imported_golden, own_frames
from zeroth_assets.defs.golden_set import GRADED_SCHEMA, of_set, placed_chunks, span_qrels
from zeroth_assets.defs.progress import progress_of
from zeroth_assets.defs.resources import Project
from zeroth_assets.evaluation.golden.imported import DOCUMENTS
from zeroth_assets.evaluation.golden.judgments import JUDGMENT_SCHEMA, MODEL, judgments_from_spans, merge_judgments
from zeroth_assets.evaluation.golden.splits import document_links
from zeroth_assets.evaluation.judging.agreement import Agreement
from zeroth_assets.evaluation.judging.human_record import persons_words
from zeroth_assets.evaluation.judging.judge import judge_pool
from zeroth_assets.evaluation.judging.model import JudgeConfig, JudgedRun, JudgeQuery
from zeroth_assets.evaluation.judging.sources import grade_pool
from zeroth_assets.evaluation.judging.worth import Worth, confusion_table, reference_pairs, told_of_judge, worth_of
from zeroth_assets.planning.judge import journal_path, judge_config, judge_folder
from zeroth_assets.settings import CHUNK_SETS

KEYS = ["query_id", "document_id"]


def _document_grades(project: Project) -> pl.DataFrame:
    """What an imported set says of documents, in GRADED_SCHEMA with `document` for the chunk set."""
    imported = imported_golden(project)
    if imported is None:
        return GRADED_SCHEMA.to_frame()
    known = golden_frames(project.store)[0]
    by = pl.lit(f"as published with {imported.about.name}").alias("judged_by")
    graded = imported.qrels.join(known, on="query_id", how="semi").with_columns(by)
    return of_set(graded, DOCUMENTS, GRADED_SCHEMA)


def _passages(project: Project, wanted: pl.Series) -> pl.DataFrame:
    """document_id (a chunk) and text of the chunks that are to be judged."""
    frames = [pl.DataFrame(schema={"document_id": pl.String, "text": pl.String})]
    for chunk_set in CHUNK_SETS:
        chunks = placed_chunks(
            project.store, chunk_set, project.planner().tenants_with(f"bm25_index_{chunk_set}"), text=True
        )
        named = chunks.select(pl.col("chunk_id").cast(pl.String).alias("document_id"), "text")
        frames.append(named.filter(pl.col("document_id").is_in(wanted.implode())))
    return pl.concat(frames).unique("document_id")


def _judged(
    context: dg.AssetExecutionContext,
    project: Project,
    config: JudgeConfig,
    pools: Mapping[str, pl.DataFrame],
    graded: Mapping[str, pl.DataFrame],
) -> tuple[JudgedRun, Worth] | None:
    """What the judge says of the pairs that nobody graded, and of some that people did; None if there is neither."""
    settings = project.settings
    queries = own_frames(project.store)[0]
    references = reference_pairs(
        pl.concat(graded.values()),
        queries,
        limit=settings.judge_agreement_queries,
        per_query=max(1, settings.judge_passages_per_call - settings.judge_repeats_per_query),
        seed=settings.seed,
    )
    unjudged = [pools[name].join(graded[name], on=KEYS, how="anti").select(KEYS) for name in pools]
    pairs = pl.concat([*unjudged, references.select(KEYS)]).unique(maintain_order=True)
    if pairs.is_empty():
        return None
    context.log.info(f"{pairs.height} passages for {pairs['query_id'].n_unique()} questions go to the judge")
    private_folder(judge_folder(settings))
    run = judge_pool(
        pairs,
        _passages(project, pairs["document_id"].unique()),
        config,
        queries=[JudgeQuery(*row) for row in queries.select("query_id", "text", "drafter").iter_rows()],
        journal=lambda snapshot: journal_path(settings, snapshot),
        progress=progress_of(context),
    )
    return run, worth_of(run, references, seed=settings.seed, resamples=settings.resamples)


@dg.asset(
    deps=["judgment_pool", "golden_queries"],
    group_name=GROUP,
    kinds={"parquet"},
    owners=md.OWNERS,
    description=(
        "Grades 0 to 3 of pooled chunks, and who gave each: experts' and drafters' spans, and what follows by "
        "construction. What nobody graded has no row: unjudged is not 0. No model grades anything unless one is "
        "configured (ZEROTH_JUDGE_URL); a person's grade goes before a model's."
    ),
    metadata={"dagster/column_schema": md.column_schema(GRADED_SCHEMA)},
    check_specs=[
        dg.AssetCheckSpec(
            "judge_is_measured",
            asset="judgments",
            description="Where a model graded, its agreement with experts' spans is known.",
        ),
        dg.AssetCheckSpec(
            "judge_answered",
            asset="judgments",
            description="Where a model was to grade, it gave a judgment for every question.",
        ),
    ],
)
def judgments(context: dg.AssetExecutionContext, project: Project) -> Any:
    """Grade what can be graded without a model, and the rest by the judge, if there is one."""
    planner, store = project.planner(), project.store
    recipe, config = planner.recipe("judgments"), judge_config(project.settings)
    queries, spans = own_frames(store)
    pool = store.read_frame("judgment_pool")
    links = document_links(project.manifest.records, store.read_frame("dedup_report"))
    pools, graded = {}, {}
    for chunk_set in CHUNK_SETS:
        chunks = placed_chunks(store, chunk_set, planner.tenants_with(f"bm25_index_{chunk_set}"))
        pools[chunk_set] = pool.filter(pl.col("chunk_set") == chunk_set).drop("chunk_set")
        qrels = span_qrels(queries, spans, chunks)
        graded[chunk_set] = judgments_from_spans(queries, qrels, pools[chunk_set], chunks, links)
    judged = None if config is None else _judged(context, project, config, pools, graded)
    run = None if judged is None else judged[0]
    frames, statements = [GRADED_SCHEMA.to_frame()], {}
    for chunk_set in CHUNK_SETS:
        mine = graded[chunk_set]
        statements[chunk_set] = grade_pool(pools[chunk_set], mine, run).statement
        if run is not None:
            mine = merge_judgments([mine, _by_model(run, pools[chunk_set])])
        frames.append(of_set(mine, chunk_set, GRADED_SCHEMA))
    frame = pl.concat([*frames, _document_grades(project)])
    about_judge = None if judged is None else told_of_judge(*judged)
    sidecar = store.write_frame(
        frame,
        "judgments",
        **recipe.about(
            "Graded relevance of pooled chunks, with who graded.",
            judgments_from_spans,
            who=statements,
            **({} if about_judge is None else {"judge": about_judge}),
        ),
    )
    counts = frame.group_by("chunk_set", "judged_by", "grade").len().sort("chunk_set", "judged_by", "grade")
    yield md.result(
        sidecar,
        {
            "grades": md.markdown_table(counts),
            **{f"who, {name}": text for name, text in statements.items()},
            **({} if judged is None or about_judge is None else _told(project, judged[1], about_judge)),
        },
        _checks(judged),
    )


def _by_model(run: JudgedRun, pool: pl.DataFrame) -> pl.DataFrame:
    """The judge's grades of a chunk set's pool, in `JUDGMENT_SCHEMA`."""
    mine = run.judgments.join(pool, on=KEYS, how="semi")
    return mine.with_columns((pl.lit(MODEL) + pl.col("graded_by")).alias("judged_by")).select(list(JUDGMENT_SCHEMA))


def _checks(judged: tuple[JudgedRun, Worth] | None) -> list[dg.AssetCheckResult]:
    warn = dg.AssetCheckSeverity.WARN
    if judged is None:
        none = {"found": "no model graded anything"}
        names = ("judge_is_measured", "judge_answered")
        return [dg.AssetCheckResult(check_name=name, passed=True, severity=warn, metadata=none) for name in names]
    run, worth = judged
    failed = pl.Series(sorted(run.failed.values()), dtype=pl.String).value_counts(sort=True, name="n")
    kinds = "; ".join(f"{kind}: {n}" for kind, n in failed.iter_rows())
    return [
        dg.AssetCheckResult(
            check_name="judge_is_measured",
            passed=isinstance(worth.experts, Agreement) and worth.experts.kappa.known,
            severity=warn,
            metadata={"found": str(worth.experts)},
        ),
        dg.AssetCheckResult(
            check_name="judge_answered",
            passed=run.complete,
            severity=warn,
            metadata={"questions without": len(run.failed), "why": kinds or "none"},
        ),
    ]


def _told(project: Project, worth: Worth, about: Mapping[str, Any]) -> dict[str, Any]:
    usage, now = about["usage"], about["this_run"]
    person = persons_words(judge_folder(project.settings), about["label"])
    told = {
        "judge": f"{about['label']}, prompt {about['prompt'][:12]}, {about['backend']}",
        "judge's worth": about["worth"],
        "judge with itself": str(worth.itself),
        "judge with a person": person or "nobody graded a sheet: `zeroth judge sheet`",
        "judge's calls": f"{now['calls']} in this run, {usage['calls']} in all",
        "judge's tokens": f"{now['input_tokens'] + now['output_tokens']} in this run, "
        f"{usage['input_tokens'] + usage['output_tokens']} in all",
        "judge's reasoning tokens": usage["reasoning_tokens"],
        "judge's cost": "no prices are set" if about["cost"] is None else f"{about['cost']:.4f} {about['currency']}",
        "judge's caveats": "; ".join(about["caveats"]) or "none",
        "questions without judgments": len(about["failed"]),
    }
    for who, found in (("experts", worth.experts), ("drafters", worth.drafters)):
        if isinstance(found, Agreement):
            told[f"confusion with {who}"] = md.markdown_table(confusion_table(found))
    return told


assets: list[dg.AssetsDefinition] = [judgments]
