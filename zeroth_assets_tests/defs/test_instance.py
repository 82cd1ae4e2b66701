from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import dagster as dg
import psycopg
import pytest
from dagster import DagsterRunStatus

from zeroth_assets.defs.instance import (
    PROCESS_TAG,
    close_orphans,
    environment,
    note_run,
    open_instance,
    this_process,
    without_password,
)
from zeroth_assets.defs.resources import Project
from zeroth_assets.settings import Settings, read_settings
from zeroth_assets.store.connect import Database

POOL = "encoder"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return read_settings(home=tmp_path)


@pytest.fixture
def instance(fresh_database: Database, settings: Settings) -> Iterator[dg.DagsterInstance]:
    with mock.patch.dict(os.environ), open_instance(settings, fresh_database) as opened:
        yield opened


@dg.asset(name="something")
def something() -> None: ...


def started_run(instance: dg.DagsterInstance, tags: dict[str, str] | None = None) -> str:
    """A run that is at work and holds the one slot of a pool."""
    job = dg.Definitions(assets=[something]).resolve_implicit_global_asset_job_def()
    run = instance.create_run_for_job(job, tags=tags, status=DagsterRunStatus.STARTED)
    storage = instance.event_log_storage
    storage.set_concurrency_slots(POOL, 1)
    assert storage.claim_concurrency_slot(POOL, run.run_id, "something").is_claimed
    return run.run_id


def status(instance: dg.DagsterInstance, run_id: str) -> DagsterRunStatus:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


def killed_after_noting(settings: Settings, run_id: str) -> None:
    """A worker that records itself for the run, as one that the UI launched does, and is then killed."""
    code = (
        "import sys, os, signal\n"
        "from zeroth_assets.settings import read_settings\n"
        "from zeroth_assets.defs.instance import note_run\n"
        "note_run(read_settings(home=sys.argv[1]), sys.argv[2])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(settings.state_dir), run_id], check=False)
    assert done.returncode == -9


def test_a_killed_workers_run_is_closed_and_its_pool_slot_is_free(
    instance: dg.DagsterInstance, settings: Settings
) -> None:
    run_id = started_run(instance)
    killed_after_noting(settings, run_id)
    assert close_orphans(instance, settings) == [run_id]
    assert status(instance, run_id) is DagsterRunStatus.FAILURE
    assert instance.event_log_storage.get_concurrency_info(POOL).active_slot_count == 0
    assert list((settings.state_dir / "runs").iterdir()) == []


def test_a_run_whose_process_works_is_left_alone(instance: dg.DagsterInstance, settings: Settings) -> None:
    run_id = started_run(instance, {PROCESS_TAG: this_process()})
    assert close_orphans(instance, settings) == []
    assert status(instance, run_id) is DagsterRunStatus.STARTED
    assert instance.event_log_storage.get_concurrency_info(POOL).active_slot_count == 1


def test_a_run_of_which_nobody_knows_the_process_is_left_to_the_daemon(
    instance: dg.DagsterInstance, settings: Settings
) -> None:
    run_id = started_run(instance)
    assert close_orphans(instance, settings) == []
    assert status(instance, run_id) is DagsterRunStatus.STARTED


def test_the_record_of_a_finished_run_is_forgotten_when_its_process_ends(
    instance: dg.DagsterInstance, settings: Settings
) -> None:
    killed_after_noting(settings, "finished")
    note_run(settings, "working")
    close_orphans(instance, settings)
    assert [path.name for path in (settings.state_dir / "runs").iterdir()] == ["working"]


@pytest.mark.parametrize("tagged", [False, True])
def test_a_run_records_its_process_unless_its_tag_names_it(tmp_path: Path, tagged: bool) -> None:
    seen: list[str] = []

    @dg.asset(required_resource_keys={"project"})
    def looks() -> None:
        record = tmp_path / "runs" / dg.AssetExecutionContext.get().run.run_id
        seen.extend([record.read_text("utf-8")] if record.exists() else [])

    tags = {PROCESS_TAG: this_process()} if tagged else {}
    dg.materialize([looks], resources={"project": Project(home=str(tmp_path))}, tags=tags)
    assert seen == ([] if tagged else [this_process()])


def test_no_configuration_carries_the_password(fresh_database: Database, settings: Settings) -> None:
    """Dagster passes its configuration to code servers as arguments, which every user of the machine can list."""
    folder = Path(environment(settings, fresh_database)["DAGSTER_HOME"])
    password = fresh_database.dagster_url().split("@")[0].rpartition(":")[2]
    assert password not in (folder / "dagster.yaml").read_text("utf-8")
    assert password in (folder / "pgpass").read_text("utf-8")
    assert stat.S_IMODE((folder / "pgpass").stat().st_mode) == 0o600


def test_a_url_without_its_password_still_opens_the_database(fresh_database: Database, tmp_path: Path) -> None:
    passfile = tmp_path / "pg:pass"
    url, entry = without_password(fresh_database.dagster_url(), passfile)
    passfile.write_text(entry)
    passfile.chmod(0o600)
    psycopg.connect(url).close()
    passfile.write_text("")
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(url)


def test_a_password_of_awkward_characters_is_written_as_libpq_reads_it() -> None:
    url, entry = without_password("postgresql://me:a%3Ab%5Cc%40d@db.example:6543/zeroth?sslmode=require", Path("/p f"))
    assert url == "postgresql://me@db.example:6543/zeroth?sslmode=require&passfile=/p%20f"
    assert entry == "db.example:6543:zeroth:me:a\\:b\\\\c@d\n"


def test_a_url_that_has_no_password_stays_as_it_is() -> None:
    assert without_password("postgresql://me@db/zeroth", Path("/p")) == ("postgresql://me@db/zeroth", "")
