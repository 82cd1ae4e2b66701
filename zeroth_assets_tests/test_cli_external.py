"""An external database: a second server's administrator's URL."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from zeroth_assets.store import server
from zeroth_assets.store.connect import embedded_database
from zeroth_assets.store.passwords import Role
from zeroth_assets_tests.database_fixtures import make_home, remove_home
from zeroth_assets_tests.defs.test_runner import TENANTS, all_of
from zeroth_assets_tests.small_corpus import SmallCorpus, quick_server


@pytest.fixture
def url() -> Iterator[str]:
    """A server on which nobody has made our roles yet."""
    home = make_home("external")
    try:
        quick_server(home)
        yield embedded_database(home).login(Role.ADMIN).to("postgres").url
    finally:
        remove_home(home)


def test_an_external_database_serves_the_whole_corpus_and_no_other(empty: SmallCorpus, url: str) -> None:
    password = url.split(":")[2].partition("@")[0]
    server.stop(empty.home)
    outside = empty.with_extra(ZEROTH_DATABASE_URL=url)
    done = outside.zeroth("materialize")
    assert done.code == 0, done.out + done.err
    assert all_of(*TENANTS) <= set(outside.data_versions())
    assert server.status(empty.home).state == "stopped"
    assert outside.zeroth("materialize", "--json").json["runs"] == []
    status = outside.zeroth("db", "status", "--json")
    assert status.json["state"] == "running"
    assert password not in done.out + done.err + status.out
    stopped = outside.zeroth("db", "stop")
    assert stopped.code == 2
    assert "not ours to stop" in stopped.err

    other = outside.folder / "other.json"
    shutil.copyfile(outside.manifest, other)
    refused = outside.zeroth("materialize", ZEROTH_MANIFEST=str(other))
    assert refused.code == 10
    assert "holds another corpus" in refused.err

    elsewhere = outside.zeroth("materialize", ZEROTH_HOME=str(outside.folder / "elsewhere"))
    assert elsewhere.code == 10
    assert "cannot log in" in elsewhere.err
    assert password not in elsewhere.err
    assert "To do:" in elsewhere.err
