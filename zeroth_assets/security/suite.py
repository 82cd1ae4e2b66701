"""The suite: every probe against one database.

What belongs here: the order of the probes, and running them. Nothing that they do outlasts them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import psycopg

from zeroth_assets.errors import ZerothError
from zeroth_assets.security import (
    attacks_catalogue,
    attacks_connection,
    attacks_files,
    attacks_functions,
    attacks_postings,
    attacks_query,
    attacks_reading,
    attacks_roles,
    attacks_session,
)
from zeroth_assets.security.ground import Ground, survey
from zeroth_assets.security.matrix import MATRIX
from zeroth_assets.security.model import Probe, ProbeResult, Record, conclude
from zeroth_assets.security.report import SecurityReport
from zeroth_assets.security.residual import measure_channels
from zeroth_assets.store.connect import Database

PROBES: tuple[Probe, ...] = (
    MATRIX,
    *attacks_session.PROBES,
    *attacks_connection.PROBES,
    *attacks_query.PROBES,
    *attacks_reading.PROBES,
    *attacks_roles.PROBES,
    *attacks_catalogue.PROBES,
    *attacks_functions.PROBES,
    *attacks_files.PROBES,
    *attacks_postings.PROBES,
)


def security_check(
    db: Database,
    *,
    residual: bool = True,
    repetitions: int = 200,
    progress: Callable[[int, int], None] | None = None,
) -> SecurityReport:
    """Run the suite against a database that is there, with the tenants and principals that it has; nothing is changed.

    `residual` also measures what PostgreSQL leaves to every role, timing included (`repetitions` queries each).

    Raises:
        MeasurementError: nobody holds a grant, or this home has no key for claims.
        DatabaseError: the database does not answer.
    """
    ground = survey(db)
    return check_ground(ground, residual=residual, repetitions=repetitions, progress=progress)


def check_ground(
    ground: Ground,
    *,
    residual: bool = True,
    repetitions: int = 200,
    progress: Callable[[int, int], None] | None = None,
) -> SecurityReport:
    """The same for a ground that was surveyed already."""
    results = run_probes(ground, PROBES, progress)
    channels = measure_channels(ground, repetitions) if residual else ()
    ground.reset()
    return SecurityReport(
        database=ground.db.name,
        place=ground.db.administrator.place,
        tenants=len(ground.tenants),
        hidden=len(ground.hidden),
        relations=tuple(relation.path for relation in ground.relations),
        identities=tuple(identity.name for identity in ground.cast.all),
        probes=results,
        channels=channels,
    )


def run_probes(
    ground: Ground, probes: Iterable[Probe], progress: Callable[[int, int], None] | None = None
) -> tuple[ProbeResult, ...]:
    """Run some probes; one that fails has found something that is not as it has to be."""
    chosen = tuple(probes)
    results = []
    for at, probe in enumerate(chosen):
        began = time.perf_counter()
        record = Record()
        try:
            probe.run(ground, record)
        except psycopg.Error as error:
            # Its class alone: the message may quote a row.
            record.breach(f"the probe could not go on: {type(error).__name__}")
            ground.reset()
        except ZerothError as error:  # as where the service itself refuses a role that is too much
            record.breach(f"the probe could not go on: {error.what}")
            ground.reset()
        results.append(conclude(probe, record, time.perf_counter() - began))
        if progress is not None:
            progress(at + 1, len(chosen))
    return tuple(results)
