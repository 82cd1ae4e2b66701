"""The stages of the corpus: what each of them is made of.

What belongs here: recipes from the manifest to tenants and duplicates.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from zeroth_assets.artefacts import Sidecar
from zeroth_assets.corpus.dedup import DEDUP_VERSION
from zeroth_assets.corpus.parse import PARSER_VERSION
from zeroth_assets.corpus.raw import raw_path
from zeroth_assets.corpus.tenants import TENANTS_VERSION
from zeroth_assets.planning.inputs import Inputs
from zeroth_assets.planning.model import Made, Place, Stage
from zeroth_assets.provenance import manifest_digest
from zeroth_assets.settings import CHUNK_SETS


def _raw_documents(inputs: Inputs, place: Place) -> Made:
    return Made({f"corpus_manifest#{place.key}": manifest_digest(inputs.manifest, place.key)})


def _raw_is_live(inputs: Inputs, place: Place, sidecar: Sidecar) -> bool:
    absent = set(sidecar.details["absent"])
    # What could not be had is asked for again: the acquisition knows what is final and who must be left alone.
    return not sidecar.details["missing"] and all(
        _has_size(raw_path(inputs.raw_dir, record), record.bytes)
        for record in inputs.manifest.of_source(place.key)
        if record.sha256 not in absent
    )


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False


def _tenant_assignments(inputs: Inputs, place: Place) -> Made:
    return Made(inputs.parsed(), {"floor": inputs.tenant_floor, **inputs.tokenizer()})


def _schema_is_live(inputs: Inputs, place: Place, sidecar: Sidecar) -> bool:
    """Whether the database has today's migrations, and a table for every chunk set and the encoder's dimension."""
    made: Mapping[str, int] = sidecar.details.get("dimensions", {})
    return inputs.schema_version == inputs.migrations_digest and all(
        made.get(chunk_set) == inputs.model.dimension for chunk_set in CHUNK_SETS
    )


STAGES: tuple[Stage, ...] = (
    Stage("corpus_manifest", "plain", "1", lambda inputs, place: Made({"manifest": inputs.manifest.sha256})),
    Stage(
        "database_schema",
        "plain",
        "1",
        lambda inputs, place: Made({"migrations": inputs.migrations_digest}),
        live=_schema_is_live,
    ),
    Stage("raw_documents", "sources", "1", _raw_documents, live=_raw_is_live),
    Stage(
        "parsed_documents",
        "sources",
        lambda place: PARSER_VERSION[place.key],
        lambda inputs, place: Made(inputs.versions(("raw_documents", place.key))),
        after=("raw_documents",),
    ),
    Stage("tenant_assignments", "corpus", TENANTS_VERSION, _tenant_assignments),
    Stage(
        "dedup_report",
        "corpus",
        DEDUP_VERSION,
        lambda inputs, place: Made(inputs.parsed(), {"seed": inputs.settings.seed}),
    ),
)
