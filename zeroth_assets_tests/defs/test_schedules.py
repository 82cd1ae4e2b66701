from __future__ import annotations

import dagster as dg
import pytest

from zeroth_assets.definitions import defs
from zeroth_assets.settings import SOURCES


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_has_a_nightly_schedule_that_is_off_until_a_person_switches_it_on(source: str) -> None:
    schedule = defs.resolve_schedule_def(f"nightly_{source}")
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    assert schedule.cron_schedule == "0 2 * * *"


@pytest.mark.parametrize("source", SOURCES)
def test_a_tick_launches_the_refresh_of_its_source_alone_with_config_that_the_job_takes(source: str) -> None:
    schedule = defs.resolve_schedule_def(f"nightly_{source}")
    with dg.DagsterInstance.ephemeral() as instance, dg.build_schedule_context(instance) as context:
        requests = schedule.evaluate_tick(context).run_requests
    assert requests is not None
    assert [request.run_config["ops"]["refresh_source"]["config"] for request in requests] == [{"source": source}]
    assert dg.validate_run_config(defs.resolve_job_def("refresh"), dict(requests[0].run_config))
