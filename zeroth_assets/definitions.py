"""The code location's one entry: `defs`, and the builder behind it.

What belongs here: the list of what is in the graph. Tests and deployments swap a resource by `resource_overrides`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import dagster as dg

# Partitioned checks are marked as a preview; a user can do nothing about that.
for _category in ("BetaWarning", "PreviewWarning"):
    _known = getattr(dg, _category, None)
    if _known is not None:
        warnings.filterwarnings("ignore", category=_known, module=r"zeroth_assets\..*")

from zeroth_assets.defs import (  # noqa: E402
    abstention,
    access,
    access_summary,
    chunks,
    comparisons,
    corpus,
    embeddings,
    evaluation,
    golden,
    golden_set,
    index,
    judgments,
    latency,
    lexical,
    path_costs,
    retrieval,
    retrieval_metrics,
    schedules,
    shared,
    tenants,
)
from zeroth_assets.defs.resources import Project  # noqa: E402


def build_defs(*, resource_overrides: Mapping[str, Any] | None = None) -> dg.Definitions:
    """The definitions, with `resource_overrides` above the project's own resources."""
    return dg.Definitions(
        assets=[
            *corpus.assets,
            *tenants.assets,
            *chunks.assets,
            *embeddings.assets,
            *index.assets,
            *lexical.assets,
            *shared.assets,
            *path_costs.assets,
            *golden.assets,
            *evaluation.assets,
            *access.assets,
            *access_summary.assets,
            *retrieval.assets,
            *golden_set.assets,
            *judgments.assets,
            *retrieval_metrics.assets,
            *comparisons.assets,
            *abstention.assets,
            *latency.assets,
        ],
        jobs=[schedules.refresh],
        schedules=schedules.schedules,
        resources={"project": Project(), **(resource_overrides or {})},
        # One process a run: an encoder that is loaded once beats processes that each load it.
        executor=dg.in_process_executor,
    )


defs = build_defs()
