"""What the arms' figures say side by side: what belongs here is `metric_comparisons`, one asset over all arms."""

from collections.abc import Callable
from functools import partial
from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.defs import metadata as md
from zeroth_assets.defs.evaluation import GROUP
from zeroth_assets.defs.golden import golden_frames, graded_by
from zeroth_assets.defs.partitions import all_of
from zeroth_assets.defs.resources import Project
from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.comparison_report import comparisons_markdown
from zeroth_assets.evaluation.comparisons import COMPARISON_SCHEMA, compare_arms
from zeroth_assets.evaluation.document_figures import DOCUMENT_FIGURES, DOCUMENT_HEADLINE, headline_of
from zeroth_assets.evaluation.retrieval_arms import ROLES
from zeroth_assets.evaluation.retrieval_family import FIXED, WHOLE, arms_of, family_of
from zeroth_assets.evaluation.retrieval_figures import FIGURES
from zeroth_assets.evaluation.retrieval_plots import plot_by_category, plot_forest
from zeroth_assets.evaluation.retrieval_report import TABLE_OF_ARMS, published_figures, table_of_arms
from zeroth_assets.planning import measured_arms


@dg.asset(
    deps=[all_of("retrieval_metrics"), "golden_queries"],
    group_name=GROUP,
    kinds={"parquet"},
    owners=md.OWNERS,
    description=(
        "Arms against each other over the same queries: the difference with its 95 % interval, the randomisation test "
        "with Holm's correction over the comparisons that were named beforehand, and the smallest difference that "
        "these queries would show. Where they cannot tell, it says so."
    ),
    metadata={"dagster/column_schema": md.column_schema(COMPARISON_SCHEMA)},
    check_specs=[
        dg.AssetCheckSpec(
            "named_beforehand",
            asset="metric_comparisons",
            blocking=True,
            description="Every primary comparison is of the family in the code; none that could be made is missing.",
        ),
        dg.AssetCheckSpec(
            "whole_family",
            asset="metric_comparisons",
            description="Every arm that the family names was measured.",
        ),
    ],
)
def metric_comparisons(context: dg.AssetExecutionContext, project: Project) -> Any:
    """Compare what was named beforehand, and show every arm."""
    store, settings = project.store, project.settings
    recipe = project.planner().recipe("metric_comparisons")
    figures = published_figures(store, measured_arms(settings))
    arms = arms_of(figures)
    headline = headline_of(figures)
    family, gone = family_of({arm.name for arm in arms}, documents=headline == DOCUMENT_HEADLINE)
    groups = dict(golden_frames(store)[0].select("query_id", "group").iter_rows())
    table, withheld = COMPARISON_SCHEMA.to_frame(), None
    if family is None:
        withheld = "no primary comparison has both of its arms"
    else:
        table = compare_arms(arms, family, seed=settings.seed, resamples=settings.resamples, clusters=groups)
    expected = 0 if family is None else len(family.primary)
    named = int(table["primary"].sum())
    results = [
        dg.AssetCheckResult(
            check_name="named_beforehand",
            passed=named == expected,
            metadata={
                "primary": named,
                "family": WHOLE.digest,
                "family as measured": family.digest if family else "none",
            },
        ),
        dg.AssetCheckResult(
            check_name="whole_family",
            passed=not gone,
            severity=dg.AssetCheckSeverity.WARN,
            metadata={"left out": "; ".join(sorted({str(c) for c in gone})[:12]) or "nothing", "count": len(gone)},
        ),
    ]
    if named != expected:
        yield from results
        raise MeasurementError(
            "The comparisons are not those that were named", expected=f"{expected} primary", found=f"{named}"
        )
    sidecar = store.write_frame(
        table,
        "metric_comparisons",
        **recipe.about(
            "Paired differences of arms on the test split, Holm-corrected over a family named beforehand.",
            compare_arms,
            family=WHOLE.digest,
            left_out=[str(c) for c in gone],
            withheld=withheld,
        ),
    )
    told: dict[str, Any] = {"graded by": graded_by(store), **({} if withheld is None else {"withheld": withheld})}
    if table.height:
        told["comparisons"] = dg.MetadataValue.md(comparisons_markdown(table))
        told["primary"] = dg.MetadataValue.md("\n".join(f"- {one}" for one in table.filter("primary")["wording"]))
    yield md.result(sidecar, {**told, **_shown(figures)}, results)


def _shown(figures: pl.DataFrame) -> dict[str, Any]:
    """Every arm in a table and in pictures; what cannot be drawn says why."""
    if figures.is_empty():
        return {"arms": "no figure of any arm"}
    definitions, present = {**FIGURES, **DOCUMENT_FIGURES}, set(figures["metric"])
    told: dict[str, Any] = {
        "arms": md.markdown_table(table_of_arms(figures)),
        "definitions": dg.MetadataValue.md(
            "\n".join(f"- `{name}`: {definitions[name]}" for name in TABLE_OF_ARMS if name in present)
        ),
    }
    pictures: dict[str, Callable[[], bytes]] = {
        "arms with intervals": partial(plot_forest, figures, metric=headline_of(figures)),
        **{
            f"nDCG@10 by category, {role}": partial(plot_by_category, figures, chunk_set=FIXED, role=role)
            for role in ROLES
        },
    }
    for name, draw in pictures.items():
        try:
            told[name] = md.png(draw(), name)
        except MeasurementError as error:
            told[name] = f"not drawn: {error.what}"
    return told


assets: list[dg.AssetsDefinition] = [metric_comparisons]
