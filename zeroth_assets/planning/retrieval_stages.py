"""The stages of retrieval's figures: what each of them is made of.

What belongs here: recipes from ranked runs over pools and grades to comparisons. Partitions are arms: a chunk set and
a retriever.
"""

from __future__ import annotations

from zeroth_assets.artefacts import Sidecar
from zeroth_assets.errors import SettingsError
from zeroth_assets.evaluation.retrieval_arms import RETRIEVERS, arm_key, split_arm
from zeroth_assets.planning.hygiene import record_digest
from zeroth_assets.planning.inputs import Inputs
from zeroth_assets.planning.judge import judge_recipe
from zeroth_assets.planning.model import Made, Place, Stage
from zeroth_assets.settings import CHUNK_SETS, Settings

RUN_DEPTH = 50
"""Passages kept of each query's ranking: the deepest cut-off of any measure."""
DOCUMENT_RUN_DEPTH = 300
"""The same where whole documents are judged, 100 deep: several chunks may be of one document."""


def run_depth(inputs: Inputs) -> int:
    """Passages kept of each query's ranking in this corpus."""
    return RUN_DEPTH if inputs.imported_path is None else DOCUMENT_RUN_DEPTH


def arm_depth(inputs: Inputs) -> int:
    """Candidates that each arm gives in this corpus."""
    depth = inputs.settings.retrieval_depth
    return depth if inputs.imported_path is None else max(depth, DOCUMENT_RUN_DEPTH)


def measured_arms(settings: Settings) -> tuple[str, ...]:
    """The arms that are measured under these settings: without a reranker, those without one.

    Raises:
        SettingsError: a retriever is named that there is not, or none is left.
    """
    allowed = [name for name, arm in RETRIEVERS.items() if not arm.rerank or settings.reranker != "none"]
    unknown = sorted(set(settings.arms) - set(allowed))
    if unknown:
        raise SettingsError(
            f"There is no retriever {', '.join(unknown)} under these settings",
            expected=", ".join(allowed),
            found=f"ZEROTH_ARMS={','.join(settings.arms)}",
            remedy="name some of these; rrf_rerank needs ZEROTH_RERANKER",
        )
    names = [name for name in allowed if not settings.arms or name in settings.arms]
    return tuple(arm_key(chunk_set, name) for chunk_set in CHUNK_SETS for name in names)


def reranker_named(settings: Settings) -> str:
    """The reranker as recipes name it: by its model too, where that is not its own."""
    chosen = (settings.reranker, settings.reranker_model, settings.reranker_revision)
    return " ".join(part for part in chosen if part) if settings.reranker in ("cross", "hosted") else settings.reranker


def indexes_of(inputs: Inputs, chunk_set: str, *, lexical: bool, shared: bool) -> dict[str, str]:
    """Data versions of the indexes over a chunk set, of every tenant that has them."""
    made_of = inputs.over_tenants(f"tenant_index_{chunk_set}")
    if lexical:
        made_of |= inputs.over_tenants(f"bm25_index_{chunk_set}")
    if shared:
        made_of |= inputs.versions((f"shared_index_{chunk_set}", None), (f"path_costs_{chunk_set}", None))
    return made_of


def _retrieval_runs(inputs: Inputs, place: Place) -> Made:
    chunk_set, name = split_arm(place.key)
    arm, settings = RETRIEVERS[name], inputs.settings
    made_of = inputs.versions(("golden_queries", None), ("tenant_assignments", None))
    made_of |= indexes_of(inputs, chunk_set, lexical="lexical" in arm.stages, shared=arm.shared)
    parameters: dict[str, object] = {
        "stages": list(arm.stages),
        "path": arm.path,
        "depth": arm_depth(inputs),
        "k": run_depth(inputs),
        "reranker": reranker_named(settings) if arm.rerank else "none",
    }
    if inputs.drops_identical_ids:
        parameters["drop_identical_ids"] = True
    return Made(made_of, {**parameters, **(inputs.encoder() if arm.dense else {})})


def published_arms(inputs: Inputs, stage: str) -> dict[str, str]:
    """Data versions of a stage for the measured arms that have it. Raises ArtefactError where none has."""
    published = set(inputs.store.partitions(stage))
    arms = [arm for arm in measured_arms(inputs.settings) if arm in published]
    if not arms:
        inputs.store.require(stage, measured_arms(inputs.settings)[0])
    return inputs.versions(*((stage, arm) for arm in arms))


def _judgment_pool(inputs: Inputs, place: Place) -> Made:
    made_of = inputs.versions(("golden_queries", None)) | published_arms(inputs, "retrieval_runs")
    for chunk_set in CHUNK_SETS:
        made_of |= inputs.over_tenants(f"chunks_{chunk_set}", f"bm25_index_{chunk_set}")
    return Made(made_of)


def _judgments(inputs: Inputs, place: Place) -> Made:
    made_of = inputs.versions(("judgment_pool", None), ("golden_queries", None)) | inputs.imported
    return Made(made_of, {"judge": judge_recipe(inputs.settings)})


def _judge_was_reached(inputs: Inputs, place: Place, sidecar: Sidecar) -> bool:
    """A question that the judge's server did not answer at all is asked again; a bad answer would be bad again."""
    return "unavailable" not in sidecar.details.get("judge", {}).get("failed", {}).values()


def _golden_set(inputs: Inputs, place: Place) -> Made:
    return Made(inputs.versions(("judgments", None), ("golden_queries", None)))


def _golden_is_accepted(inputs: Inputs, place: Place, sidecar: Sidecar) -> bool:
    """A golden set that nobody accepted is looked at again, until it is accepted or as it was."""
    return not sidecar.details.get("unaccepted", False)


def _retrieval_metrics(inputs: Inputs, place: Place) -> Made:
    made_of = inputs.versions(("retrieval_runs", place.key), ("golden_set", None))
    record = record_digest(inputs.settings, split_arm(place.key)[1])
    if record is not None:
        made_of["split_ledger"] = record
    return Made(made_of, {"seed": inputs.settings.seed, "resamples": inputs.settings.resamples})


def _not_regressed(inputs: Inputs, place: Place, sidecar: Sidecar) -> bool:
    return not sidecar.details.get("regressed", False)


STAGES: tuple[Stage, ...] = (
    Stage("retrieval_runs", "runs", "2", _retrieval_runs),
    Stage("judgment_pool", "golden", "2", _judgment_pool),
    Stage("judgments", "golden", "2", _judgments, after=("judgment_pool",), live=_judge_was_reached),
    Stage("golden_set", "golden", "1", _golden_set, after=("judgments",), live=_golden_is_accepted),
    Stage("retrieval_metrics", "metrics", "4", _retrieval_metrics, live=_not_regressed),
)
