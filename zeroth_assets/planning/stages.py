"""Every stage and every phase, in the order in which they are made.

What belongs here: the table. Adding an asset is one `Stage` in one of the stage modules; adding a step of the plan is
one line in `PHASES`. No recipe. One run cannot span two partition sets, hence the phases.
"""

from __future__ import annotations

from collections.abc import Mapping

from zeroth_assets.planning import comparison_stages, corpus_stages, corpuswide_stages, retrieval_stages, tenant_stages
from zeroth_assets.planning.model import PartitionedBy, Phase, Stage, split_asset

STAGES: Mapping[str, Stage] = {
    stage.name: stage
    for stages in (corpus_stages, tenant_stages, corpuswide_stages, retrieval_stages, comparison_stages)
    for stage in stages.STAGES
}


def _assets_of(phase: str) -> tuple[str, ...]:
    return tuple(asset for stage in STAGES.values() if stage.phase == phase for asset in stage.assets)


def _phase(
    name: str,
    partitioned_by: PartitionedBy | None,
    *,
    required: bool = False,
    over_tenants: bool = False,
    needs: tuple[str, ...] = (),
) -> Phase:
    return Phase(name, partitioned_by, _assets_of(name), required, over_tenants, needs)


PHASES: tuple[Phase, ...] = (
    _phase("plain", None, required=True),
    _phase("sources", "source", required=True),
    _phase("corpus", None, required=True),
    _phase("tenants", "tenant"),
    _phase("shared", None, over_tenants=True),
    _phase("access", "tenant", over_tenants=True, needs=("shared",)),
    _phase("summaries", None, over_tenants=True, needs=("shared",)),
    _phase("questions", None, over_tenants=True),
    _phase("runs", "arm", over_tenants=True, needs=("shared", "questions")),
    _phase("golden", None, over_tenants=True, needs=("questions",)),
    _phase("metrics", "arm", over_tenants=True, needs=("questions", "golden")),
    _phase("comparisons", None, over_tenants=True, needs=("shared", "questions", "golden")),
)
PLAIN_ASSETS: tuple[str, ...] = _assets_of("plain")
SOURCE_ASSETS: tuple[str, ...] = _assets_of("sources")
CORPUS_ASSETS: tuple[str, ...] = _assets_of("corpus")
CODE_VERSIONS: Mapping[str, str] = {s.name: s.version for s in STAGES.values() if isinstance(s.version, str)}


def all_assets() -> tuple[str, ...]:
    """Every asset in an order in which they can be made."""
    return tuple(asset for phase in PHASES for asset in phase.assets)


def phase_assets(phase: str) -> tuple[str, ...]:
    """The assets of a phase in an order in which they can be made."""
    return next(p.assets for p in PHASES if p.name == phase)


def tenant_assets() -> tuple[str, ...]:
    """The tenant-partitioned assets in an order in which they can be made."""
    return tuple(asset for phase in PHASES if phase.partitioned_by == "tenant" for asset in phase.assets)


def partitioned_by(artefact: str) -> PartitionedBy | None:
    """The partition set of an asset, None for none. Raises KeyError for an asset that there is not."""
    stage = STAGES[split_asset(artefact)[0]]
    return next(phase.partitioned_by for phase in PHASES if phase.name == stage.phase)


def feeds(upstream: str, downstream: str) -> bool:
    """Whether `downstream` is stale with `upstream` while both are of one partition."""
    up, up_set = split_asset(upstream)
    down, down_set = split_asset(downstream)
    if up_set is not None and down_set is not None and up_set != down_set:
        return False
    return up in _before(down)


def _before(stage: str) -> set[str]:
    direct = STAGES[stage].after
    return {*direct, *(name for other in direct for name in _before(other))}
