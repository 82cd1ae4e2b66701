"""What a plan is made of: recipes, stages and phases.

What belongs here: frozen values. A stage is one kind of asset; where it has chunk sets it is one asset for each of
them. A phase is a step of the plan: assets that share a partition set and can be made in one run a partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from zeroth_assets.artefacts import Sidecar, fingerprint_of
from zeroth_assets.settings import CHUNK_SETS

if TYPE_CHECKING:
    from zeroth_assets.planning.inputs import Inputs

PartitionedBy = Literal["source", "tenant", "arm"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What an artefact is made of. `fingerprint` is what its sidecar must carry to be fresh."""

    artefact: str
    partition: str | None
    code_version: str
    inputs: Mapping[str, str]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """sha256 (hex) over code version, inputs and parameters."""
        return fingerprint_of(self.code_version, self.inputs, self.parameters)

    def about(self, describes: str, code: Callable[..., object], **details: Any) -> dict[str, Any]:
        """Keyword arguments for `ArtefactStore.write_*`."""
        return {
            "describes": describes,
            "code": f"{code.__module__}.{code.__qualname__}",
            "code_version": self.code_version,
            "inputs": self.inputs,
            "parameters": self.parameters,
            "details": details,
        }


@dataclass(frozen=True, slots=True)
class Place:
    """Which artefact of a stage: its name, its chunk set if the stage has them, its partition if it has them."""

    artefact: str
    chunk_set: str | None
    partition: str | None

    @property
    def chunks(self) -> str:
        """The chunk set. Only for stages that have them."""
        assert self.chunk_set is not None
        return self.chunk_set

    @property
    def key(self) -> str:
        """The partition. Only for stages that have them."""
        assert self.partition is not None
        return self.partition


@dataclass(frozen=True, slots=True)
class Made:
    """What goes into an artefact: data versions by `artefact[/partition]`, and parameters."""

    inputs: Mapping[str, str]
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stage:
    """One kind of asset.

    `phase` says when it is made and how it is partitioned. `made` gives what it is made of; `version` is the code's: a
    change of the code that changes the output is a change of it. `after` names the stages of the same partition set
    that make it stale with them, before they are remade. `live` says whether what the sidecar tells of the world
    outside the store still holds.
    """

    name: str
    phase: str
    version: str | Callable[[Place], str]
    made: Callable[[Inputs, Place], Made]
    after: tuple[str, ...] = ()
    chunk_sets: bool = False
    live: Callable[[Inputs, Place, Sidecar], bool] | None = None

    @property
    def assets(self) -> tuple[str, ...]:
        """The stage's assets: one, or one per chunk set."""
        return tuple(f"{self.name}_{c}" for c in CHUNK_SETS) if self.chunk_sets else (self.name,)

    def code_version(self, place: Place) -> str:
        """The version of the code behind `place`."""
        return self.version if isinstance(self.version, str) else self.version(place)


@dataclass(frozen=True, slots=True)
class Phase:
    """A step of the plan.

    Without a `required` one nothing after it can be made; one `over_tenants` stands on all tenants that there are.
    Where a phase that it `needs` had a failed run, it is left out.
    """

    name: str
    partitioned_by: PartitionedBy | None
    assets: tuple[str, ...]
    required: bool = False
    over_tenants: bool = False
    needs: tuple[str, ...] = ()


def split_asset(artefact: str) -> tuple[str, str | None]:
    """Asset name into stage and chunk set: `chunks_fixed_512` -> (`chunks`, `fixed_512`)."""
    for chunk_set in CHUNK_SETS:
        if artefact.endswith(f"_{chunk_set}"):
            return artefact.removesuffix(f"_{chunk_set}"), chunk_set
    return artefact, None
