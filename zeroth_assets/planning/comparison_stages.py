"""The stages over all arms: what each of them is made of.

What belongs here: recipes of what compares arms, or times them.
"""

from __future__ import annotations

from zeroth_assets.evaluation.retrieval_family import WHOLE
from zeroth_assets.planning.inputs import Inputs
from zeroth_assets.planning.model import Made, Place, Stage
from zeroth_assets.planning.retrieval_stages import indexes_of, measured_arms, published_arms, reranker_named
from zeroth_assets.settings import CHUNK_SETS


def _metric_comparisons(inputs: Inputs, place: Place) -> Made:
    made_of = published_arms(inputs, "retrieval_metrics") | inputs.versions(("golden_queries", None))
    settings = inputs.settings
    return Made(made_of, {"family": WHOLE.digest, "seed": settings.seed, "resamples": settings.resamples})


def _abstention_metrics(inputs: Inputs, place: Place) -> Made:
    settings = inputs.settings
    parameters = {"target": settings.abstention_target, "seed": settings.seed, "resamples": settings.resamples}
    made_of = published_arms(inputs, "retrieval_runs")
    return Made(made_of | inputs.versions(("golden_set", None), ("golden_queries", None)), parameters)


def _latency_metrics(inputs: Inputs, place: Place) -> Made:
    made_of = inputs.versions(("golden_queries", None), ("tenant_assignments", None))
    for chunk_set in CHUNK_SETS:
        made_of |= indexes_of(inputs, chunk_set, lexical=True, shared=True)
    settings = inputs.settings
    parameters = {"queries": settings.latency_queries, "reranker": reranker_named(settings)}
    return Made(made_of, {**parameters, "arms": list(measured_arms(settings)), **inputs.encoder()})


STAGES: tuple[Stage, ...] = (
    Stage("metric_comparisons", "comparisons", "2", _metric_comparisons),
    Stage("abstention_metrics", "comparisons", "2", _abstention_metrics),
    Stage("latency_metrics", "comparisons", "1", _latency_metrics),
)
