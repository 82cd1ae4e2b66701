"""The stages that stand on all tenants: what each of them is made of.

What belongs here: recipes of the shared index and of the golden set. Dagster does not carry staleness across a fan-in
of a hundred partitions or more; these recipes name every tenant's data version, and so decide for themselves.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources

from zeroth_assets.artefacts import Sidecar
from zeroth_assets.evaluation.access_model import DESIGNS, GRID_EF_SEARCH, GRID_K, Design
from zeroth_assets.evaluation.golden.drafted_file import PACKAGED
from zeroth_assets.planning.inputs import Inputs
from zeroth_assets.planning.model import Made, Place, Stage
from zeroth_assets.planning.tenant_stages import not_regressed
from zeroth_assets.settings import Settings


@dataclass(frozen=True, slots=True)
class AccessGrid:
    """What is measured of access control."""

    designs: tuple[Design, ...]
    ef_search: tuple[int, ...]
    k: tuple[int, ...]


def _shared_index(inputs: Inputs, place: Place) -> Made:
    settings = inputs.settings
    return Made(
        inputs.over_tenants(f"tenant_index_{place.chunks}"),
        {"m": settings.hnsw_m, "ef_construction": settings.hnsw_ef_construction},
    )


def _path_costs(inputs: Inputs, place: Place) -> Made:
    settings = inputs.settings
    made_of = inputs.versions((f"shared_index_{place.chunks}", None)) | inputs.parsed()
    return Made(made_of, {"queries": settings.ann_queries, "seed": settings.seed, **inputs.encoder()})


def _shared_is_live(inputs: Inputs, place: Place, sidecar: Sidecar) -> bool:
    return inputs.shared_builds.get(place.chunks, 0) == int(sidecar.details.get("shared_build_id", -1))


def access_grid(settings: Settings) -> AccessGrid:
    """The index designs, ef_search and k that are measured under these settings."""
    if settings.access_grid == "full":
        return AccessGrid(DESIGNS, GRID_EF_SEARCH, GRID_K)
    return AccessGrid(("shared_postfilter", "shared_strict", "partition_hnsw", "partition_exact"), (40, 200), (10,))


def _grid(inputs: Inputs) -> dict[str, object]:
    settings, grid = inputs.settings, access_grid(inputs.settings)
    return {
        "designs": list(grid.designs),
        "ef_search": list(grid.ef_search),
        "k": list(grid.k),
        "queries": settings.ann_queries,
        "seed": settings.seed,
        "resamples": settings.resamples,
        **inputs.encoder(),
    }


def _access_recall(inputs: Inputs, place: Place) -> Made:
    indexes = inputs.versions((f"tenant_index_{place.chunks}", place.key), (f"shared_index_{place.chunks}", None))
    return Made(inputs.documents(place.key) | indexes, _grid(inputs))


def _access_summary(inputs: Inputs, place: Place) -> Made:
    measured = inputs.over_tenants(f"access_recall_{place.chunks}")
    return Made(measured | inputs.versions((f"shared_index_{place.chunks}", None)), _grid(inputs))


def _golden_queries(inputs: Inputs, place: Place) -> Made:
    settings = inputs.settings
    made_of = inputs.parsed() | inputs.versions(("tenant_assignments", None), ("dedup_report", None))
    made_of["manifest"] = inputs.manifest.sha256
    made_of["drafted_queries"] = _drafted_digest()
    labels = inputs.labels_digest()
    if labels is not None:
        made_of["expert_labels"] = labels
    return Made(
        made_of | inputs.imported,
        {
            "answerable": settings.golden_answerable,
            "unanswerable": settings.golden_unanswerable,
            "seed": settings.seed,
        },
    )


def _drafted_digest() -> str:
    digest = hashlib.sha256()
    for name in PACKAGED:
        file = resources.files("zeroth_assets.golden").joinpath(name)
        digest.update(file.read_bytes() if file.is_file() else b"")
    return digest.hexdigest()


STAGES: tuple[Stage, ...] = (
    Stage("shared_index", "shared", "1", _shared_index, chunk_sets=True, live=_shared_is_live),
    Stage("path_costs", "shared", "1", _path_costs, after=("shared_index",), chunk_sets=True),
    Stage("access_recall", "access", "2", _access_recall, chunk_sets=True, live=not_regressed),
    Stage("access_recall_summary", "summaries", "2", _access_summary, chunk_sets=True),
    Stage("golden_queries", "questions", "1", _golden_queries),
)
