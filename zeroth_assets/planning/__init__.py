"""What is stale: each artefact's recipe, and whether the one in force was made by it.

What belongs here: for every asset, which data versions and parameters go into it. The store decides what is stale,
never the event log: a pruned log or an artefact deleted by hand must not mislead. Nothing here runs anything, and
nothing here knows Dagster. `model` says what a stage is, the `*_stages` modules hold one entry per kind of asset,
`stages` puts them in order, `planner` answers.
"""

from zeroth_assets.planning.corpuswide_stages import access_grid
from zeroth_assets.planning.model import PartitionedBy, Phase, Place, Recipe, Stage, split_asset
from zeroth_assets.planning.planner import Planner
from zeroth_assets.planning.retrieval_stages import measured_arms
from zeroth_assets.planning.stages import (
    CODE_VERSIONS,
    CORPUS_ASSETS,
    PHASES,
    PLAIN_ASSETS,
    SOURCE_ASSETS,
    STAGES,
    all_assets,
    feeds,
    partitioned_by,
    phase_assets,
    tenant_assets,
)
from zeroth_assets.planning.tenant_stages import EF_SEARCH, OVERLAP_SHARE

__all__ = [
    "CODE_VERSIONS",
    "CORPUS_ASSETS",
    "EF_SEARCH",
    "OVERLAP_SHARE",
    "PHASES",
    "PLAIN_ASSETS",
    "SOURCE_ASSETS",
    "STAGES",
    "PartitionedBy",
    "Phase",
    "Place",
    "Planner",
    "Recipe",
    "Stage",
    "access_grid",
    "all_assets",
    "feeds",
    "measured_arms",
    "partitioned_by",
    "phase_assets",
    "split_asset",
    "tenant_assets",
]
