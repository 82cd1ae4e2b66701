"""What the database says of an error, and what of it stays with the database."""

from __future__ import annotations

import traceback

import polars as pl
import pytest

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store.cluster import Machine, configuration
from zeroth_assets.store.connect import Database
from zeroth_assets.store.place import read_record
from zeroth_assets_tests.store.builders import load, make_chunks, prepared

SECRET = "vexillarine"


def test_a_row_that_the_server_refuses_stands_neither_in_the_error_nor_in_its_causes_nor_in_the_log(
    fresh_database: Database,
) -> None:
    db = prepared(fresh_database)
    with db.owner(autocommit=True) as owner:
        owner.execute("alter table zeroth.chunk_1 add constraint small check (ordinal < 100)")
    chunks = make_chunks(range(3), SECRET).with_columns(ordinal=pl.lit(5000, dtype=pl.Int64))
    # Into a staging table, which no policy guards: there PostgreSQL quotes the row in its DETAIL.
    with pytest.raises(DatabaseError, match="check constraint") as caught:
        load(db, chunks, tenant="alpha")
    whole = "".join(traceback.format_exception(caught.value))
    assert "CheckViolation" in whole  # the cause is there
    assert "in apply" in whole or "loading.py" in whole  # and where it happened
    assert SECRET not in whole
    place = read_record(db.home)
    assert place is not None
    log = (place.cluster(db.home) / "server.log").read_text("utf-8")
    assert 'violates check constraint "small"' in log
    assert SECRET not in log


def test_the_embedded_server_logs_no_detail() -> None:
    assert "log_error_verbosity = 'terse'" in configuration(5432, "one", Machine(1 << 34, 1 << 30, 2))
