"""Recall under access control: every index design, asked as one principal, against what that principal should get.

What belongs here: the measurement of one principal, which is the unit that can be repeated alone. The grid over many is
in `access_grid`.

Each cell is asked under settings that leave the planner no other path than the design's, by single statements in one
transaction as the principal; the plan of a sample is read, and a cell whose plan is another design's is withheld. What
the planner takes of its own accord is kept beside it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import psycopg
from numpy.typing import NDArray

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.access_figures import Measured, each_query, figure_of
from zeroth_assets.evaluation.access_model import (
    ACCESS_PER_QUERY_SCHEMA,
    ACCESS_SCHEMA,
    DESIGNS,
    GRID_EF_SEARCH,
    GRID_K,
    SHARED_DESIGNS,
    AccessReport,
    Cell,
    Design,
    plan_cells,
)
from zeroth_assets.evaluation.access_probe import AccessAnswer, open_access_probe
from zeroth_assets.evaluation.access_subject import Subject, clear_dead_rows
from zeroth_assets.evaluation.access_truth import AccessTruth, check_queries, granted_tenants
from zeroth_assets.evaluation.ann_refusals import changed_error
from zeroth_assets.evaluation.probe import vector_literal
from zeroth_assets.store.connect import Database
from zeroth_assets.store.failures import database_errors
from zeroth_assets.store.shared_partial import partial_index
from zeroth_assets.store.shared_state import shared_state

_EXPLAINED = 3


def measure_access(
    db: Database,
    *,
    chunk_set: str,
    principal: str,
    queries: NDArray[np.float32],
    query_ids: Sequence[str],
    seed: int,
    dimension: int | None = None,
    fingerprint_digest: str | None = None,
    designs: Sequence[Design] = DESIGNS,
    ef_search: Sequence[int] = GRID_EF_SEARCH,
    ks: Sequence[int] = GRID_K,
    resamples: int = 1_000,
    explained: int = _EXPLAINED,
    keep_partial_index: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> AccessReport:
    """Measure the cells of the grid for one principal, as `zeroth_app`.

    `queries` is float32 (q, dimension), of unit norm, with an id each. `fingerprint_digest`, if given, must be that of
    the rows. Dead rows are vacuumed first. The partial index that its design needs is built for the time of the
    measurement, and left standing with `keep_partial_index`. `progress` counts cells.

    Raises:
        QueryError: unusable queries; the principal is unknown or has no tenant.
        MeasurementError: k or ef_search out of range, every k above the principal's rows, a shared table that is not
            the tenants' live builds, another fingerprint, dead rows that VACUUM could not clear, rows that changed
            meanwhile.
        DatabaseError: the database failed, as when it is restarted; nothing is kept of this principal, so that it can
            be measured again.
    """
    _check_parameters(designs, ef_search, ks, explained)
    label = f"{chunk_set} as {principal}"
    granted = granted_tenants(db, principal)
    state = shared_state(db, chunk_set, dimension)
    check_queries(queries, query_ids, state.chunk_set.dimension)
    shared = any(design in SHARED_DESIGNS for design in designs)
    subject = Subject.of(state, principal, granted, shared=shared, fingerprint_digest=fingerprint_digest)
    with database_errors(f"measuring {label}"):
        clear_dead_rows(db, subject, shared=shared, label=label)
        truth = AccessTruth.read(db, state.chunk_set, principal, queries, max(ks))
        plan = plan_cells(tenants=len(subject.tenant_ids), rows=truth.rows, designs=designs, ef_search=ef_search, ks=ks)
        if not plan.cells:
            raise MeasurementError(
                f"Nothing of {label} can be measured",
                expected="a k that is not above the principal's rows, and an ef_search that is not below it",
                found=f"k {tuple(ks)}, ef_search {tuple(ef_search)}, {truth.rows} rows",
            )
        literals = [vector_literal(query) for query in truth.queries]
        measured: list[Measured] = []
        with db.app() as connection, contextlib.ExitStack() as stack:
            with connection.transaction():
                role = str(connection.execute("select current_user").fetchone()[0])  # type: ignore[index]
            partial: str | None = None
            # Last, since with it the planner has one index more to take for the other designs.
            for done, cell in enumerate(sorted(plan.cells, key=lambda c: c.design == "partial_hnsw"), start=1):
                if cell.design == "partial_hnsw" and partial is None:
                    partial = stack.enter_context(
                        partial_index(
                            db, state.chunk_set, subject.tenant_ids[0], subject.parameters, keep=keep_partial_index
                        )
                    )
                measured.append(_measure_cell(connection, subject, truth, cell, literals, explained))
                if progress is not None:
                    progress(done, len(plan.cells))
    after = shared_state(db, chunk_set, dimension)
    if (after.parts, after.build) != (state.parts, state.build):
        raise changed_error(label, "another build of a tenant or of the shared table is in force now")
    if unknown := sum(m.judged.unknown for m in measured):
        raise changed_error(label, f"{unknown} returned rows were not there when the truth was read")
    kept, withheld = [], []
    for one in sorted(measured, key=lambda m: plan.cells.index(m.cell)):
        if (problem := _other_plan(one, subject, partial)) is not None:
            withheld.append(f"{principal}: {problem}")
        else:
            kept.append(one)
    about = {**subject.about(), "role": role, "seed": seed, "resamples": resamples}
    return AccessReport(
        figures=pl.DataFrame([figure_of(one, truth, about) for one in kept], schema=ACCESS_SCHEMA),
        per_query=pl.concat(
            [ACCESS_PER_QUERY_SCHEMA.to_frame(), *(each_query(one, truth, about, query_ids) for one in kept)]
        ),
        left_out=plan.left_out,
        withheld=tuple(withheld),
    )


def _measure_cell(
    connection: psycopg.Connection[Any],
    subject: Subject,
    truth: AccessTruth,
    cell: Cell,
    literals: Sequence[str],
    explained: int,
) -> Measured:
    chosen = literals[: cell.queries]

    def opened(forced: bool) -> Any:
        return open_access_probe(
            connection,
            chunk_set=subject.chunk_set,
            cell=cell,
            principal=subject.principal,
            tenant_ids=subject.tenant_ids,
            forced=forced,
        )

    with opened(False) as probe:
        choice = str(probe.explain(chosen[0], run=False))
    with opened(True) as probe:
        probe.ask(chosen[0])
        answers: list[AccessAnswer] = [probe.ask(literal) for literal in chosen]
        plans = tuple(probe.explain(literal, run=True) for literal in chosen[:explained])
    return Measured(
        cell=cell,
        judged=truth.judge(answers, cell.k, subject.granted),
        seconds=np.array([answer.seconds for answer in answers]),
        plans=plans,
        choice=choice,
    )


def _other_plan(one: Measured, subject: Subject, partial: str | None) -> str | None:
    """How a cell's plan is not that of its design, if so."""
    cell, state = one.cell, subject.state
    for plan in one.plans:
        if cell.design == "partition_exact":
            right = plan.node == "Seq Scan"
        elif cell.design == "partition_hnsw":
            prefixes = tuple(f"chunk_{subject.chunk_set.chunk_set_id}_t{part.tenant_id}_hnsw_" for part in state.parts)
            right = plan.node == "Index Scan" and all(name.startswith(prefixes) for name in plan.indexes)
        else:
            index = partial if cell.design == "partial_hnsw" else state.build.index_name if state.build else None
            right = plan.node == "Index Scan" and plan.indexes == (index,)
        if not right:
            ef = "" if cell.ef_search is None else f", ef_search {cell.ef_search}"
            return f"{cell.design}, k {cell.k}{ef}, {'with' if cell.predicate else 'without'} predicate: {plan}"
    return None


def _check_parameters(designs: Sequence[Design], ef_search: Sequence[int], ks: Sequence[int], explained: int) -> None:
    unknown = [design for design in designs if design not in DESIGNS]
    ranges = all(k >= 1 for k in ks) and all(1 <= ef <= 1000 for ef in ef_search)
    if unknown or not designs or not ks or not ef_search or not ranges or explained < 1:
        raise MeasurementError(
            "The measurement's parameters are out of range",
            expected=f"designs of {', '.join(DESIGNS)}; k of at least 1, ef_search within 1 to 1000, a plan to read",
            found=f"designs {tuple(designs)}, k {tuple(ks)}, ef_search {tuple(ef_search)}, {explained} plans",
        )
