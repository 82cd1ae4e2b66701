from __future__ import annotations

import os
import subprocess

import pytest

from zeroth_assets.errors import DatabaseError, QueryError
from zeroth_assets.store.connect import Database
from zeroth_assets.store.shell import psql_command
from zeroth_assets_tests.store.builders import load, make_chunks, prepared

SEEN = "select count(*) from zeroth.chunk_1"


@pytest.fixture(scope="module")
def db(module_database: Database) -> Database:
    prepared(module_database)
    load(module_database, make_chunks(range(4), "alpha"), tenant="alpha")
    return module_database


def psql(db: Database, principal: str | None) -> str:
    arguments, variables = psql_command(db, "app", principal=principal)
    assert not [a for a in arguments if variables["PGPASSWORD"] in a or "zeroth.claim" in a]
    done = subprocess.run(
        [*arguments, "-Atqc", SEEN], env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_psql_sees_what_the_principal_may_see_and_nothing_without_one(db: Database) -> None:
    assert psql(db, "alpha") == "4"
    assert psql(db, "nobody") == "0"
    assert psql(db, None) == "0"


def test_only_the_app_role_asks_as_a_principal(db: Database) -> None:
    with pytest.raises(QueryError):
        psql_command(db, "owner", principal="alpha")
    with pytest.raises(QueryError):
        psql_command(db, "app", principal="")
    with pytest.raises(DatabaseError, match="no role"):
        psql_command(db, "postgres")
