"""Why a measurement of an index's recall is refused or withheld.

What belongs here: the checks that need no database, and the errors that name what was found and what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from zeroth_assets.errors import MeasurementError
from zeroth_assets.store.registry import IndexBuild


def require_build(label: str, tenant_key: str, build: IndexBuild, expected: int | None) -> None:
    """Refuse to measure another build than the one that the figure would cite.

    Raises:
        MeasurementError: another build is in force.
    """
    if expected not in (None, build.index_build_id):
        raise MeasurementError(
            f"The figure of {label} is withheld: its index is not the one that it would cite",
            expected=f"index build {expected}, which the receipt names",
            found=f"index build {build.index_build_id} in force in the database",
            remedy=f"run `zeroth materialize --tenant {tenant_key}`",
        )


def dead_rows_error(label: str, dead: int) -> MeasurementError:
    """`dead` rows that VACUUM could not clear stand in the index."""
    return MeasurementError(
        f"The figure of {label} is withheld: dead rows in its index would lower it",
        expected="no dead row after VACUUM",
        found=f"{dead} that an open transaction may still see",
        remedy="run the same command again when no long transaction is left open in the database (pg_stat_activity)",
    )


def changed_error(label: str, found: str) -> MeasurementError:
    """The rows were not the same throughout."""
    return MeasurementError(
        f"{label} changed while it was measured",
        expected="the same rows throughout",
        found=found,
        remedy="measure again when the tenant is not being loaded",
    )


def check_input(queries: NDArray[np.float32], ef_search: Sequence[int], k: int, repetitions: int) -> None:
    """Refuse parameters and queries that no measurement can be made with.

    Raises:
        MeasurementError: they are out of range, or there are no queries.
    """
    if k < 1 or repetitions < 1 or not ef_search or any(not 1 <= ef <= 1000 for ef in ef_search):
        raise MeasurementError(
            "The measurement's parameters are out of range",
            expected="k and repetitions of at least 1, ef_search within 1 to 1000",
            found=f"k={k}, repetitions={repetitions}, ef_search={tuple(ef_search)}",
        )
    if queries.ndim != 2 or not len(queries):
        raise MeasurementError(
            "There are no queries", expected="vectors (q, dimension)", found=f"shape {queries.shape}"
        )
