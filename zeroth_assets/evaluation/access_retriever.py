"""Recall of the dense retriever itself under access control: whatever path it chooses, as a design beside the others.

What belongs here: asking the retriever as one principal and judging what came back by the same truth as every other
design. It is asked as a caller asks it: principal, grants, choice of path and statement are in its time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.access_figures import Measured, each_query, figure_of
from zeroth_assets.evaluation.access_model import (
    ACCESS_PER_QUERY_SCHEMA,
    ACCESS_SCHEMA,
    GRID_K,
    RETRIEVER,
    AccessReport,
    Cell,
)
from zeroth_assets.evaluation.access_probe import AccessAnswer
from zeroth_assets.evaluation.access_subject import Subject, clear_dead_rows
from zeroth_assets.evaluation.access_truth import AccessTruth, check_queries, granted_tenants
from zeroth_assets.evaluation.ann_refusals import changed_error
from zeroth_assets.search.dense import DenseRetriever
from zeroth_assets.search.model import StageResult
from zeroth_assets.search.path_model import PathCosts
from zeroth_assets.store.connect import Database
from zeroth_assets.store.shared_state import shared_state


def measure_retriever(
    db: Database,
    *,
    chunk_set: str,
    principal: str,
    queries: NDArray[np.float32],
    query_ids: Sequence[str],
    seed: int,
    costs: PathCosts | None,
    dimension: int | None = None,
    fingerprint_digest: str | None = None,
    ks: Sequence[int] = GRID_K,
    resamples: int = 1_000,
    progress: Callable[[int, int], None] | None = None,
) -> AccessReport:
    """A figure for each k, with the explicit predicate and without, in the form of `measure_access`'s.

    `plan_node` is the way that most queries went, as the retriever tells it; nothing is forced, so there is no
    estimate and no count of buffers. `progress` counts figures.

    Raises:
        QueryError: unusable queries; the principal is unknown or has no tenant.
        MeasurementError: an answer was short and did not say so; or as `measure_access`.
        DatabaseError: the database failed.
    """
    label = f"the retriever over {chunk_set} as {principal}"
    granted = granted_tenants(db, principal)
    state = shared_state(db, chunk_set, dimension)
    check_queries(queries, query_ids, state.chunk_set.dimension)
    subject = Subject.of(state, principal, granted, shared=False, fingerprint_digest=fingerprint_digest)
    clear_dead_rows(db, subject, shared=True, label=label)
    truth = AccessTruth.read(db, state.chunk_set, principal, queries, max(ks))
    cells = [Cell(RETRIEVER, None, k, predicate) for k in sorted(set(ks)) for predicate in (False, True)]
    about = {**subject.about(), "role": "zeroth_app", "seed": seed, "resamples": resamples}
    figures, each = [], [ACCESS_PER_QUERY_SCHEMA.to_frame()]
    with DenseRetriever(
        db,
        chunk_set,
        fingerprint_digest=fingerprint_digest,
        costs=costs,
        dimension=state.chunk_set.dimension,
        for_measurement=True,
    ) as retriever:
        for done, cell in enumerate(cells, start=1):
            if cell.k <= truth.rows:
                retriever.search(principal, truth.queries[0], cell.k, predicate=cell.predicate)
                found = [retriever.search(principal, q, cell.k, predicate=cell.predicate) for q in truth.queries]
                _require_told(found, cell.k, label)
                one = Measured(
                    cell=cell,
                    judged=truth.judge([_answer(result) for result in found], cell.k, subject.granted),
                    seconds=np.array([result.seconds["total"] for result in found]),
                    plans=(),
                    choice="",
                )
                if one.judged.unknown:
                    raise changed_error(label, f"{one.judged.unknown} returned rows were not there before")
                path = Counter(str(result.plan) for result in found).most_common(1)[0][0]
                figures.append(figure_of(one, truth, about) | {"plan_node": path, "explained": len(found)})
                each.append(each_query(one, truth, about, query_ids))
            if progress is not None:
                progress(done, len(cells))
    after = shared_state(db, chunk_set, dimension)
    if (after.parts, after.build) != (state.parts, state.build):
        raise changed_error(label, "another build of a tenant or of the shared table is in force now")
    return AccessReport(pl.DataFrame(figures, schema=ACCESS_SCHEMA), pl.concat(each))


def _answer(result: StageResult) -> AccessAnswer:
    return AccessAnswer(
        tenant_ids=np.array([c.tenant_id for c in result.candidates], dtype=np.int64),
        chunk_ids=np.array([c.chunk_id for c in result.candidates], dtype=np.int64),
        seconds=result.seconds["total"],
    )


def _require_told(found: Sequence[StageResult], k: int, label: str) -> None:
    untold = sum(len(result.candidates) < k and result.shortfall is None for result in found)
    if untold:
        raise MeasurementError(
            f"{label} came back short and did not say so",
            expected=f"{k} rows, or a shortfall",
            found=f"{untold} of {len(found)} answers",
        )
