"""Who is measured, and what stands in the database for them.

What belongs here: the principal with its grants and builds, and the refusals that follow from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.ann_refusals import dead_rows_error
from zeroth_assets.store.connect import Database
from zeroth_assets.store.registry import ChunkSet, IndexParameters
from zeroth_assets.store.shared_partial import drop_partial_index
from zeroth_assets.store.shared_state import SharedState, parts_digest
from zeroth_assets.store.vacuum import vacuum_partition, vacuum_table


@dataclass(frozen=True, slots=True)
class Subject:
    """Who asks, and what stands in the database for them."""

    principal: str
    granted: NDArray[np.int64]
    tenant_ids: tuple[int, ...]
    tenant_key: str | None
    rows: int
    state: SharedState
    index_build_id: int | None
    builds_digest: str
    parameters: IndexParameters

    @classmethod
    def of(
        cls,
        state: SharedState,
        principal: str,
        granted: dict[int, str],
        *,
        shared: bool,
        fingerprint_digest: str | None,
    ) -> Subject:
        """The subject, if its figures could stand.

        Raises:
            MeasurementError: the shared table is wanted and not the live builds, no tenant is loaded, or the rows have
                another fingerprint.
        """
        label = f"{state.chunk_set.name} as {principal}"
        if shared and not state.current:
            raise MeasurementError(
                f"The figures of {label} are withheld: the shared index is not the tenants' live builds",
                expected="every tenant's live build under one standing index",
                found="; ".join(state.differences),
                remedy=f"run `zeroth materialize --asset shared_index_{state.chunk_set.name}`",
            )
        mine = tuple(part for part in state.parts if part.tenant_id in granted)
        if not mine:
            raise MeasurementError(
                f"No tenant of principal {principal!r} is loaded into {state.chunk_set.name}",
                expected="at least one live build",
                found=f"{len(granted)} granted tenants, none loaded",
                remedy="materialise the tenants' index",
            )
        foreign = {part.fingerprint_digest for part in mine} - {fingerprint_digest}
        if fingerprint_digest is not None and foreign:
            raise MeasurementError(
                f"The queries were not embedded as the rows of {label} were",
                expected=f"fingerprint {', '.join(sorted(foreign))}",
                found=fingerprint_digest,
                remedy="embed the queries with the encoder of the index, or load the tenants anew",
            )
        build = state.build
        return cls(
            principal=principal,
            granted=np.array(sorted(granted), dtype=np.int64),
            tenant_ids=tuple(part.tenant_id for part in mine),
            tenant_key=mine[0].tenant_key if len(mine) == 1 else None,
            rows=sum(part.row_count for part in mine),
            state=state,
            index_build_id=mine[0].index_build_id if len(mine) == 1 else None,
            builds_digest=parts_digest(mine),
            parameters=IndexParameters(m=build.m, ef_construction=build.ef_construction)
            if build
            else IndexParameters(),
        )

    @property
    def chunk_set(self) -> ChunkSet:
        """Whose rows are measured."""
        return self.state.chunk_set

    def about(self) -> dict[str, Any]:
        """What every figure says of it."""
        total = sum(part.row_count for part in self.state.parts)
        return {
            "chunk_set": self.chunk_set.name,
            "principal": self.principal,
            "tenants": len(self.tenant_ids),
            "tenant": self.tenant_key,
            "rows": self.rows,
            "total_rows": total,
            "share": self.rows / total if total else 0.0,
            "fingerprint_digest": self.state.parts[0].fingerprint_digest,
            "shared_build_id": self.state.build.shared_build_id if self.state.build else None,
            "index_build_id": self.index_build_id,
            "builds_digest": self.builds_digest,
        }


def clear_dead_rows(db: Database, subject: Subject, *, shared: bool, label: str) -> None:
    """VACUUM what is measured: HNSW counts dead entries against ef_search.

    A partial index that a killed measurement left is dropped too: it would be one path more for the shared designs.

    Raises:
        MeasurementError: an open transaction keeps dead rows.
    """
    dead = sum(vacuum_partition(db, subject.chunk_set, tenant_id) for tenant_id in subject.tenant_ids)
    if shared:
        if len(subject.tenant_ids) == 1:
            drop_partial_index(db, subject.chunk_set, subject.tenant_ids[0])
        dead += vacuum_table(db, subject.chunk_set.shared, analyze=False)
    if dead:
        raise dead_rows_error(label, dead)
