"""Recipes and freshness.

What belongs here: what an artefact should be made of now, and whether the one in force was. Assets take the same answer
when they publish, so that plan and sidecar cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterable

from zeroth_assets.errors import ArtefactError
from zeroth_assets.planning.inputs import Inputs
from zeroth_assets.planning.model import Place, Recipe, Stage, split_asset
from zeroth_assets.planning.stages import STAGES, all_assets, feeds, partitioned_by


class Planner(Inputs):
    """Recipes and freshness over one store, one manifest and one state of the database."""

    def recipe(self, artefact: str, partition: str | None = None) -> Recipe:
        """What `artefact/partition` should be made of now.

        Raises:
            ArtefactError: there is no such artefact, or something upstream was never published; the message names the
                command that makes it.
            TenantError: the partition is no tenant of the assignments in force.
        """
        stage, place = _placed(artefact, partition)
        made = stage.made(self, place)
        return Recipe(artefact, partition, stage.code_version(place), dict(made.inputs), dict(made.parameters))

    def is_fresh(self, artefact: str, partition: str | None = None) -> bool:
        """Whether the artefact in force was made by today's recipe and is really there."""
        try:
            recipe = self.recipe(artefact, partition)
        except ArtefactError:
            return False
        sidecar = self.store.sidecar(artefact, partition)
        if sidecar is None or sidecar.fingerprint != recipe.fingerprint:
            return False
        if not self.store.exists(artefact, partition):
            return False
        stage, place = _placed(artefact, partition)
        return stage.live is None or stage.live(self, place, sidecar)

    def stale(self, artefacts: Iterable[str], partition: str | None = None) -> tuple[str, ...]:
        """Those of `artefacts` that are not fresh, each followed by all after it in its chain."""
        stale: list[str] = []
        for artefact in artefacts:
            upstream_is_stale = any(feeds(other, artefact) for other in stale)
            if upstream_is_stale or not self.is_fresh(artefact, partition):
                stale.append(artefact)
        return tuple(stale)


def _placed(artefact: str, partition: str | None) -> tuple[Stage, Place]:
    name, chunk_set = split_asset(artefact)
    stage = STAGES.get(name)
    known = stage is not None and stage.chunk_sets == (chunk_set is not None)
    if stage is None or not known or (partition is None) != (partitioned_by(artefact) is None):
        raise ArtefactError(
            f"Asset {artefact!r} has {'no ' if partition else ''}partitions"
            if known
            else f"There is no asset {artefact!r}",
            expected=", ".join(all_assets()) if not known else "an asset with its source or tenant, or without",
            found=repr(partition) if known else repr(artefact),
            remedy="name one of them, with its source or tenant",
        )
    return stage, Place(artefact, chunk_set, partition)
