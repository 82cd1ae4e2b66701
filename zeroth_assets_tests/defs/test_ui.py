"""A person at the UI: one tenant's partition by clicking, a backfill of the others, a schedule, and Ctrl-C."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterInstance, DagsterRun, RunsFilter

from zeroth_assets.defs.instance import open_instance
from zeroth_assets.defs.resources import Project
from zeroth_assets.store import server
from zeroth_assets_tests.defs import browser
from zeroth_assets_tests.small_corpus import CONTRACT, LANTERN, ORCHARD_SMALL, SmallCorpus, quick_server, small_corpus

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

ASSET, TENANT, OTHERS = "chunks_fixed_512", "rfc-lantern-signalling", ("cuad-consulting", "rfc-orchard-naming")


@pytest.fixture(scope="module")
def corpus_part(tiny_model: Path) -> Iterator[SmallCorpus]:
    """A home in which the corpus is materialised, no tenant is, and no server runs."""
    browser.chromium()
    with small_corpus("ui", ZEROTH_MODEL=str(tiny_model)) as corpus:
        corpus.write([r for r in corpus.records() if r["document_id"] in (LANTERN, ORCHARD_SMALL, CONTRACT)])
        quick_server(corpus.home)
        for assets, partition in (
            (("corpus_manifest", "database_schema"), None),
            (("raw_documents", "parsed_documents"), "rfc"),
            (("raw_documents", "parsed_documents"), "cuad"),
            (("tenant_assignments",), None),
        ):
            options = [word for asset in assets for word in ("--asset", asset)]
            done = corpus.zeroth("materialize", *options, *(("--partition", partition) if partition else ()))
            assert done.code == 0, done.err + done.out
        server.stop(corpus.home)
        yield corpus


def test_a_person_materialises_a_tenant_backfills_the_others_and_stops_it_all(corpus_part: SmallCorpus) -> None:
    with browser.zeroth_dev(corpus_part) as dev:
        dev.wait_for("Dagster UI")
        with browser.open_page(dev.url) as page:
            _see_the_graph(page)
            _materialise_one(page)
            assert _made(corpus_part) == {TENANT}
            assert [(run.status.value, run.tags["dagster/partition"]) for run in _ui_runs(corpus_part)] == [
                ("SUCCESS", TENANT)
            ]
            _backfill_missing(page)
            assert _made(corpus_part) == {TENANT, *OTHERS}
            _switch_on(page, "nightly_rfc")
        assert _running_schedules(corpus_part) == ["nightly_rfc"]
        family = dev.family()
        assert len(family) >= 4, "web server, daemon and a code server for each"
        assert dev.end(signal.SIGINT) == 0, dev.log.read_text("utf-8")
    assert browser.left_of(family, seconds=1) == []
    assert server.status(corpus_part.home).state == "stopped"
    assert list((corpus_part.home / "dev").iterdir()) == []


def _see_the_graph(page: Any) -> None:
    # One group: of the whole graph at once only a part is on the screen.
    page.goto('/asset-groups?asset-selection=group:"corpus"&expanded=global@global:corpus')
    for asset in ("corpus_manifest", "parsed_documents", "tenant_assignments"):
        page.get_by_text(asset, exact=True).first.wait_for()


def _materialise_one(page: Any) -> None:
    page.goto(f"/assets/{ASSET}?view=partitions&partition={TENANT}")
    page.get_by_text("Missing (3)").wait_for()
    page.get_by_role("button", name="Materialize").first.click()
    page.get_by_role("button", name="Launch 1 run").click()
    page.get_by_text("Missing (2)").wait_for(timeout=120_000)
    page.get_by_text("Materialized (1)").wait_for()


def _backfill_missing(page: Any) -> None:
    page.get_by_role("button", name="Materialize").first.click()
    page.get_by_role("button", name="Missing", exact=True).click()
    page.get_by_text("2 partitions", exact=True).wait_for()
    page.get_by_role("button", name=re.compile("Launch (2-run )?backfill")).click()
    page.get_by_text("Materialized (3)").wait_for(timeout=180_000)


def _switch_on(page: Any, schedule: str) -> None:
    page.goto(f"/locations/zeroth_assets/schedules/{schedule}")
    switch = page.locator("input[type=checkbox]").first
    switch.wait_for(state="attached")
    assert not switch.is_checked(), "schedules are off until a person switches them on"
    with page.expect_response(lambda response: "startSchedule" in (response.request.post_data or "")):
        switch.locator("xpath=..").click()


def _made(corpus: SmallCorpus) -> set[str]:
    return {name.partition("/")[2] for name in corpus.data_versions() if name.startswith(f"{ASSET}/")}


def _ui_runs(corpus: SmallCorpus) -> list[DagsterRun]:
    with _instance(corpus) as instance:
        return list(instance.get_runs(filters=RunsFilter(tags={"dagster/from_ui": "true"})))


def _running_schedules(corpus: SmallCorpus) -> list[str]:
    with _instance(corpus) as instance:
        states = instance.all_instigator_state()
    return [state.instigator_name for state in states if state.is_running]


@contextlib.contextmanager
def _instance(corpus: SmallCorpus) -> Iterator[DagsterInstance]:
    with corpus.active():
        project = Project()
        with open_instance(project.settings, project.database) as instance:
            yield instance
