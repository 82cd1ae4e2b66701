"""The stages that stand on all tenants: what each of them is made of.

What belongs here: recipes of the shared index and of the golden set. Dagster does not carry staleness across a fan-in
of a hundred partitions or more; these recipes name every tenant's data version, and so decide for themselves.
"""

from __future__ import annotations

import hashlib
from importlib import resources

from zeroth_assets.artefacts import Sidecar
from zeroth_assets.evaluation.golden.drafted_file import PACKAGED
from zeroth_assets.planning.inputs import Inputs
from zeroth_assets.planning.model import Made, Place, Stage


def _shared_index(inputs: Inputs, place: Place) -> Made:
    settings = inputs.settings
    return Made(
        inputs.over_tenants(f"tenant_index_{place.chunks}"),
        {"m": settings.hnsw_m, "ef_construction": settings.hnsw_ef_construction},
    )


def _shared_is_live(inputs: Inputs, place: Place, sidecar: Sidecar) -> bool:
    return inputs.shared_builds.get(place.chunks, 0) == int(sidecar.details.get("shared_build_id", -1))


def _golden_queries(inputs: Inputs, place: Place) -> Made:
    settings = inputs.settings
    made_of = inputs.parsed() | inputs.versions(("tenant_assignments", None), ("dedup_report", None))
    made_of["manifest"] = inputs.manifest.sha256
    made_of["drafted_queries"] = _drafted_digest()
    labels = inputs.labels_digest()
    if labels is not None:
        made_of["expert_labels"] = labels
    return Made(
        made_of,
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
    Stage("golden_queries", "shared", "1", _golden_queries),
)
