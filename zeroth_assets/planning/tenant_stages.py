"""The stages of a tenant: what each of them is made of.

What belongs here: recipes from chunks to the recall of the tenant's own index, which look at one tenant alone.
"""

from __future__ import annotations

from zeroth_assets.artefacts import Sidecar
from zeroth_assets.chunking.context import CONTEXT_SETS, CONTEXT_TOKENS, version_of
from zeroth_assets.planning.inputs import Inputs
from zeroth_assets.planning.model import Made, Place, Stage
from zeroth_assets.search.analyser import analyser_named
from zeroth_assets.search.postings_file import FORMAT_VERSION
from zeroth_assets.store.state import LiveBuild

EF_SEARCH: tuple[int, ...] = (5, 10, 40, 100, 200, 800)
OVERLAP_SHARE = 0.15


def _chunks(inputs: Inputs, place: Place) -> Made:
    parameters: dict[str, object] = {
        "size": inputs.settings.max_tokens,
        "overlap": OVERLAP_SHARE,
        **inputs.tokenizer(),
        **({"context": CONTEXT_TOKENS} if place.chunks in CONTEXT_SETS else {}),
    }
    return Made(inputs.documents(place.key), parameters)


def _embeddings(inputs: Inputs, place: Place) -> Made:
    return Made(inputs.versions((f"chunks_{place.chunks}", place.key)), inputs.encoder())


def _tenant_index(inputs: Inputs, place: Place) -> Made:
    settings = inputs.settings
    made_of = inputs.versions((f"chunks_{place.chunks}", place.key), (f"embeddings_{place.chunks}", place.key))
    return Made(made_of, {"m": settings.hnsw_m, "ef_construction": settings.hnsw_ef_construction})


def _index_is_live(inputs: Inputs, place: Place, sidecar: Sidecar) -> bool:
    live = inputs.live_builds.get((place.chunks, place.key))
    return live == LiveBuild(sidecar.details.get("index_build_id", -1), sidecar.details.get("table_rows", -1))


def _bm25_index(inputs: Inputs, place: Place) -> Made:
    analyser = analyser_named(inputs.settings.analyser).identity
    return Made(
        inputs.versions((f"chunks_{place.chunks}", place.key)), {"analyser": analyser, "format": FORMAT_VERSION}
    )


def _ann_recall(inputs: Inputs, place: Place) -> Made:
    settings = inputs.settings
    made_of = inputs.documents(place.key) | inputs.versions((f"tenant_index_{place.chunks}", place.key))
    parameters = {
        "ef_search": list(EF_SEARCH),
        "queries": settings.ann_queries,
        "seed": settings.seed,
        "resamples": settings.resamples,
        **inputs.encoder(),
    }
    return Made(made_of, parameters)


def not_regressed(inputs: Inputs, place: Place, sidecar: Sidecar) -> bool:
    """A figure below its accepted baseline is measured again, until it is mended or the baseline moved."""
    return not sidecar.details.get("regressed", False)


STAGES: tuple[Stage, ...] = (
    Stage("chunks", "tenants", lambda place: version_of(place.chunks), _chunks, chunk_sets=True),
    Stage("embeddings", "tenants", "1", _embeddings, after=("chunks",), chunk_sets=True),
    Stage("tenant_index", "tenants", "1", _tenant_index, after=("embeddings",), chunk_sets=True, live=_index_is_live),
    Stage("bm25_index", "tenants", "1", _bm25_index, after=("chunks",), chunk_sets=True),
    Stage("ann_recall", "tenants", "4", _ann_recall, after=("tenant_index",), chunk_sets=True, live=not_regressed),
)
