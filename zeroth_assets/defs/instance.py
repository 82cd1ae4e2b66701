"""The instance: what belongs here is opening the Dagster instance of a home, and clearing up after killed runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import psutil
import yaml
from dagster import DagsterRunStatus, RunsFilter

from zeroth_assets.artefacts import write_atomic
from zeroth_assets.errors import RunError
from zeroth_assets.settings import Settings, project_file
from zeroth_assets.store.connect import Database

UNFINISHED = [DagsterRunStatus.STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.CANCELING]
STATEMENT_TIMEOUT_MS = 60_000
PROCESS_TAG = "zeroth/process"


def render_instance(settings: Settings, database: Database) -> Path:
    """Write `dagster.yaml` with the live URL into `$ZEROTH_HOME/dagster` (mode 0600) and return the folder."""
    folder = settings.state_dir / "dagster"
    folder.mkdir(parents=True, exist_ok=True)
    config = yaml.safe_load(project_file("dagster.yaml").read_text("utf-8"))
    config["storage"]["postgres"]["postgres_url"] = database.dagster_url()
    payload = yaml.safe_dump(config, sort_keys=False).encode()
    target = folder / "dagster.yaml"
    if not target.exists() or target.read_bytes() != payload:
        write_atomic(target, payload, mode=0o600)
    return folder


def environment(settings: Settings, database: Database) -> dict[str, str]:
    """The variables under which any Dagster command works on this home."""
    folder = render_instance(settings, database)
    return {"DAGSTER_HOME": str(folder), "ZEROTH_HOME": str(settings.state_dir), "DAGSTER_DISABLE_TELEMETRY": "yes"}


def open_instance(settings: Settings, database: Database) -> dg.DagsterInstance:
    """The Dagster instance of the home; `DAGSTER_HOME` is set for this process and its children."""
    os.environ.update(environment(settings, database))
    try:
        instance = dg.DagsterInstance.get()
        # Without a pool every event opens a connection: a third of a small tenant's run.
        instance.optimize_for_webserver(statement_timeout=STATEMENT_TIMEOUT_MS, pool_recycle=3600, max_overflow=4)
        return instance
    except Exception as error:
        raise RunError(
            "The Dagster instance cannot be opened",
            expected="run, event and schedule storage in the database",
            found=type(error).__name__ + ": " + str(error).split("\n", 1)[0],
            remedy="see that the database answers: `zeroth db status`",
        ) from error


def this_process() -> str:
    """A mark that no other process has had: pid and start time."""
    process = psutil.Process()
    return json.dumps({"pid": process.pid, "started": process.create_time()})


def is_alive(mark: str) -> bool:
    """Whether the process that made the mark still runs; a pid that was given to another does not count."""
    known = json.loads(mark)
    try:
        process = psutil.Process(known["pid"])
        return abs(process.create_time() - known["started"]) < 1.0 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def note_run(settings: Settings, run_id: str) -> None:
    """Record which process works on a run, so that its death can be told."""
    folder = settings.state_dir / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / run_id
    if not path.exists() or path.read_text() != this_process():
        write_atomic(path, this_process().encode())


def close_orphans(
    instance: dg.DagsterInstance, settings: Settings, alive: Callable[[str], bool] = is_alive
) -> list[str]:
    """Mark failed every unfinished run whose process is gone, and free its pool slots. Returns their ids.

    A `kill -9` leaves the run STARTED and its pool slot claimed: the next run would wait on the pool for ever.
    """
    closed = []
    for run in instance.get_runs(filters=RunsFilter(statuses=UNFINISHED)):
        record = settings.state_dir / "runs" / run.run_id
        mark = run.tags.get(PROCESS_TAG) or (record.read_text() if record.exists() else None)
        if mark is None or alive(mark):
            continue
        instance.report_run_failed(run, message="The process that worked on this run is gone; start it again.")
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
        record.unlink(missing_ok=True)
        closed.append(run.run_id)
    return closed
