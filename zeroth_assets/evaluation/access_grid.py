"""The grid over many principals: each measured alone, kept as soon as it is, and never measured twice.

What belongs here: running units in turn, and the folder in which finished ones wait for the rest. A unit is known by
everything that it stands on, so that a folder can be used again after a restart, and after a tenant has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.access_model import (
    ACCESS_PER_QUERY_SCHEMA,
    ACCESS_SCHEMA,
    CELL_COLUMNS,
    AccessReport,
    merge_reports,
)
from zeroth_assets.evaluation.access_principals import Asked
from zeroth_assets.evaluation.access_recall import measure_access
from zeroth_assets.evaluation.access_truth import granted_tenants
from zeroth_assets.store.connect import Database
from zeroth_assets.store.shared_state import parts_digest, shared_state

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Unit:
    """A principal and what it asks."""

    principal: str
    asked: Asked


def measure_grid(
    db: Database,
    units: Sequence[Unit],
    *,
    chunk_set: str,
    seed: int,
    folder: Path,
    dimension: int | None = None,
    measure: Callable[..., AccessReport] | None = None,
    progress: Callable[[int, int], None] | None = None,
    on_unit: Callable[[str], None] | None = None,
    **how: Any,
) -> AccessReport:
    """Measure every unit, those aside whose figures on the same builds wait in `folder`; one report of all.

    `how` goes to `measure`, which is `measure_access` or takes and gives the same. `progress` counts units, `on_unit`
    is told each principal as it begins.

    Raises:
        MeasurementError: two units of one principal, or as `measure_access`.
        DatabaseError: the database failed, as when it was restarted. What was finished is kept: the same call goes on.
    """
    names = [unit.principal for unit in units]
    if len(set(names)) != len(names):
        raise MeasurementError("A principal is to be measured twice", expected="one unit each", found=str(len(names)))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    reports: list[AccessReport] = []
    for done, unit in enumerate(units, start=1):
        key = _key(db, unit, chunk_set, dimension, seed, how, measure)
        report = _read(folder, key)
        if report is None:
            if on_unit is not None:
                on_unit(unit.principal)
            report = (measure or measure_access)(
                db,
                chunk_set=chunk_set,
                principal=unit.principal,
                queries=unit.asked.vectors,
                query_ids=unit.asked.query_ids,
                seed=seed,
                dimension=dimension,
                **how,
            )
            _keep(folder, key, report)
        reports.append(report)
        if progress is not None:
            progress(done, len(units))
    merged = merge_reports(reports)
    if merged.figures.select("principal", *CELL_COLUMNS).is_duplicated().any():
        raise MeasurementError(
            "A cell of the grid has two figures", expected="one", remedy=f"remove {folder.name} and measure again"
        )
    return merged


def _key(
    db: Database,
    unit: Unit,
    chunk_set: str,
    dimension: int | None,
    seed: int,
    how: dict[str, Any],
    measure: Callable[..., AccessReport] | None,
) -> str:
    """What a unit's figures stand on. The shared build counts: every tenant's rows compete in it."""
    granted = granted_tenants(db, unit.principal)
    state = shared_state(db, chunk_set, dimension)
    stands_on = {
        "format": _FORMAT,
        "chunk_set": chunk_set,
        "principal": unit.principal,
        "builds": parts_digest([part for part in state.parts if part.tenant_id in granted]),
        "all builds": parts_digest(state.parts),
        "shared build": state.build.shared_build_id if state.build else None,
        "database": [db.name, str(db.home)],
        "query ids": unit.asked.query_ids,
        "queries": hashlib.sha256(unit.asked.vectors.tobytes()).hexdigest(),
        "seed": seed,
        "how": {name: str(value) for name, value in sorted(how.items()) if name != "progress"},
    }
    if measure is not None:
        stands_on["measure"] = measure.__qualname__
    return hashlib.sha256(json.dumps(stands_on, sort_keys=True).encode()).hexdigest()[:32]


def _keep(folder: Path, key: str, report: AccessReport) -> None:
    """Write the unit's files; the last one, by its name, says that all are there."""
    notes = {"left_out": report.left_out, "withheld": report.withheld}
    _put(folder / f"{key}.per_query.parquet", report.per_query.write_parquet)
    _put(folder / f"{key}.notes.json", lambda path: path.write_text(json.dumps(notes)))
    _put(folder / f"{key}.figures.parquet", report.figures.write_parquet)


def _put(target: Path, write: Callable[[Path], Any]) -> None:
    temporary = target.with_name(f"{target.name}.{os.getpid()}.part")
    write(temporary)
    with temporary.open("rb") as written:
        os.fsync(written.fileno())
    temporary.replace(target)


def _read(folder: Path, key: str) -> AccessReport | None:
    if not (folder / f"{key}.figures.parquet").exists():
        return None
    figures = pl.read_parquet(folder / f"{key}.figures.parquet")
    per_query = pl.read_parquet(folder / f"{key}.per_query.parquet")
    if (figures.schema, per_query.schema) != (ACCESS_SCHEMA, ACCESS_PER_QUERY_SCHEMA):
        return None
    notes = json.loads((folder / f"{key}.notes.json").read_text())
    return AccessReport(figures, per_query, tuple(notes["left_out"]), tuple(notes["withheld"]))
