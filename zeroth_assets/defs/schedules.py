"""Schedules: what belongs here is the nightly re-materialisation of what changed, one schedule a source.

Off until a person switches it on in the UI. The tick's job runs the same plan as `zeroth materialize`, in a process of
its own: a run per source, then a run per tenant that changed, each of them seen in the UI.
"""

import os
import subprocess
import sys

import dagster as dg

from zeroth_assets.defs.instance import environment
from zeroth_assets.defs.resources import Project
from zeroth_assets.settings import SOURCES

NIGHTLY = "0 2 * * *"


class Refresh(dg.Config):
    """Which source to bring up to date."""

    source: str


@dg.op(description="Runs `zeroth materialize --source ...`: only what changed is made again.")
def refresh_source(context: dg.OpExecutionContext, config: Refresh, project: Project) -> None:
    """Carry out the plan for one source; fails if any of its runs fails."""
    command = [sys.executable, "-m", "zeroth_assets.cli", "materialize", "--source", config.source, "--plain"]
    variables = {**os.environ, **environment(project.settings, project.database)}
    with subprocess.Popen(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                context.log.info(line.rstrip())
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        raise dg.Failure(description=f"zeroth materialize --source {config.source} ended with {process.returncode}")


@dg.job(description="Re-materialise what changed in one source and in its tenants.")
def refresh() -> None:
    """The job behind the schedules."""
    refresh_source()


def nightly(source: str) -> dg.ScheduleDefinition:
    """The schedule of one source."""
    return dg.ScheduleDefinition(
        name=f"nightly_{source}",
        job=refresh,
        cron_schedule=NIGHTLY,
        execution_timezone="UTC",
        run_config=dg.RunConfig(ops={"refresh_source": Refresh(source=source)}),
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=f"Every night at 02:00 UTC: what changed in source {source}, and only that.",
    )


schedules = [nightly(source) for source in SOURCES]
