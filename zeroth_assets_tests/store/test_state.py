from __future__ import annotations

import pytest

from zeroth_assets.store.connect import Database
from zeroth_assets.store.registry import IndexParameters, current_build
from zeroth_assets.store.state import LiveBuild, live_builds
from zeroth_assets_tests.store.builders import CHUNK_SET, load, make_chunks, prepared, stored_rows


@pytest.fixture(scope="module")
def db(module_database: Database) -> Database:
    return prepared(module_database)


def index_of(db: Database, tenant: str) -> str:
    build = current_build(db, CHUNK_SET, tenant)
    assert build is not None
    assert build.index_name is not None
    return build.index_name


SPOILS = {
    "dropped": "drop index zeroth.{}",
    "invalid": "update pg_index set indisvalid = false where indexrelid = 'zeroth.{}'::regclass",
}


def test_a_database_without_our_schema_has_no_builds(fresh_database: Database) -> None:
    assert live_builds(fresh_database) == {}


@pytest.mark.parametrize("kind", ["hnsw", "none"])
def test_a_build_in_force_is_live_with_and_without_an_index(db: Database, kind: str) -> None:
    parameters = IndexParameters("hnsw" if kind == "hnsw" else "none")
    report = load(db, make_chunks(range(5)), tenant=f"live-{kind}", parameters=parameters)
    assert live_builds(db)[CHUNK_SET, f"live-{kind}"] == LiveBuild(report.index_build_id, 5)


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_build_whose_index_is_gone_or_invalid_is_not_live_and_loading_makes_it_anew(db: Database, spoil: str) -> None:
    tenant = f"spoilt-{spoil}"
    first = load(db, make_chunks(range(5)), tenant=tenant)
    rows = stored_rows(db, first.tenant_id)
    with db.admin() as connection:
        connection.execute(SPOILS[spoil].format(index_of(db, tenant)).encode())
    assert (CHUNK_SET, tenant) not in live_builds(db)

    again = load(db, make_chunks(range(5)), tenant=tenant)
    assert (again.kind, again.unchanged, again.index_bytes > 0) == ("changed", 5, True)
    assert again.index_build_id != first.index_build_id
    assert live_builds(db)[CHUNK_SET, tenant] == LiveBuild(again.index_build_id, 5)
    assert stored_rows(db, first.tenant_id) == rows
    with db.admin() as connection:
        left = connection.execute(
            "select indexrelid::regclass::text, indisvalid from pg_index join pg_class on pg_class.oid = indexrelid"
            " where indrelid = %s::regclass and relname ~ 'hnsw'",
            (f"zeroth.chunk_1_t{first.tenant_id}",),
        ).fetchall()
    assert left == [(f"zeroth.{index_of(db, tenant)}", True)]
