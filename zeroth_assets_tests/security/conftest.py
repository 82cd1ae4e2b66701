"""One seeded database per session, to be copied, attacked and broken."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg import sql

from zeroth_assets.security.seed import Seeded, seed
from zeroth_assets.store.connect import Database


@pytest.fixture(scope="session")
def seeded(database: Database) -> Iterator[Seeded]:
    db = database.named("security")
    db.ensure_databases()
    yield seed(db)
    with database.admin(autocommit=True, dbname="postgres") as conn:
        for name in (db.name, db.dagster_name):
            conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
