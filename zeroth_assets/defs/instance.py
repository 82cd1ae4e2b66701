"""The instance: what belongs here is opening the Dagster instance of a home, and clearing up after killed runs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import dagster as dg
import yaml
from dagster import DagsterRunStatus, RunsFilter

from zeroth_assets.artefacts import write_atomic
from zeroth_assets.defs.processes import is_alive, this_process
from zeroth_assets.errors import RunError
from zeroth_assets.settings import Settings, project_file
from zeroth_assets.store.connect import Database

UNFINISHED = [DagsterRunStatus.STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.CANCELING]
STATEMENT_TIMEOUT_MS = 60_000
# The prefix hides the tag in the UI.
PROCESS_TAG = ".dagster/zeroth_process"

__all__ = [
    "PROCESS_TAG",
    "close_orphans",
    "environment",
    "note_run",
    "open_instance",
    "render_instance",
    "this_process",
]


def render_instance(settings: Settings, database: Database) -> Path:
    """Write `dagster.yaml` with the live URL into `$ZEROTH_HOME/dagster` and return the folder.

    The password goes into a file beside it (mode 0600) that libpq reads: Dagster hands its configuration to code
    servers and run workers as arguments, which every user of the machine can list.
    """
    folder = settings.state_dir / "dagster"
    folder.mkdir(parents=True, exist_ok=True)
    config = yaml.safe_load(project_file("dagster.yaml").read_text("utf-8"))
    url, entry = without_password(database.dagster_url(), folder / "pgpass")
    _publish(folder / "pgpass", entry.encode())
    config["storage"]["postgres"]["postgres_url"] = url
    payload = yaml.safe_dump(config, sort_keys=False).encode()
    _publish(folder / "dagster.yaml", payload)
    return folder


def without_password(url: str, passfile: Path) -> tuple[str, str]:
    """A URL that names `passfile` instead of carrying the password, and the line that this file must hold."""
    parts = urlsplit(url)
    if parts.password is None:
        return url, ""
    host, port = parts.hostname or "localhost", str(parts.port or 5432)
    fields = [host, port, unquote(parts.path.lstrip("/")), unquote(parts.username or ""), unquote(parts.password)]
    entry = ":".join(value.replace("\\", "\\\\").replace(":", "\\:") for value in fields) + "\n"
    place = parts.netloc.rpartition("@")[2]
    query = "&".join(filter(None, [parts.query, f"passfile={quote(str(passfile), safe='/')}"]))
    return parts._replace(netloc=f"{parts.username}@{place}", query=query).geturl(), entry


def _publish(target: Path, payload: bytes) -> None:
    if not target.exists() or target.read_bytes() != payload:
        write_atomic(target, payload, mode=0o600)


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
    closed, unfinished = [], instance.get_runs(filters=RunsFilter(statuses=UNFINISHED))
    for run in unfinished:
        record = settings.state_dir / "runs" / run.run_id
        mark = run.tags.get(PROCESS_TAG) or (record.read_text() if record.exists() else None)
        if mark is None or alive(mark):
            continue
        instance.report_run_failed(run, message="The process that worked on this run is gone; start it again.")
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
        record.unlink(missing_ok=True)
        closed.append(run.run_id)
    _forget_finished(settings, {run.run_id for run in unfinished}, alive)
    return closed


def _forget_finished(settings: Settings, unfinished: set[str], alive: Callable[[str], bool]) -> None:
    for record in (settings.state_dir / "runs").glob("*"):
        with contextlib.suppress(FileNotFoundError):
            if record.name not in unfinished and not alive(record.read_text("utf-8")):
                record.unlink()
