"""A connection that is lent again knows nothing of its former user."""

from __future__ import annotations

from zeroth_assets.search.connections import Connections
from zeroth_assets.store.connect import Database, principal_session
from zeroth_assets_tests.store.builders import load, make_chunks, prepared

LEFT = {
    "a cursor": "select count(*) from pg_cursors",
    "a statement": "select count(*) from pg_prepared_statements",
    "a setting": "select count(*) from (select 1) s where current_setting('zeroth.stash', true) <> ''",
    "a channel": "select count(*) from pg_listening_channels()",
    "a timeout": "select count(*) from pg_settings where name = 'statement_timeout' and setting <> '0'",
}


def test_what_a_principals_statements_leave_in_a_session_is_gone_for_the_next(fresh_database: Database) -> None:
    db = prepared(fresh_database)
    load(db, make_chunks(range(3), "alpha"), tenant="alpha")
    connections = Connections(db, lambda connection: None)
    try:
        with connections.borrow() as connection:
            pid = connection.info.backend_pid
            with principal_session(connection, "alpha"):
                connection.execute("declare kept cursor with hold for select text from zeroth.chunk_1")
                connection.execute("prepare kept as select 1")
                connection.execute("set zeroth.stash = 'kept'")
                connection.execute("set statement_timeout = '1h'")
                connection.execute("listen kept")
            found = {what: connection.execute(query).fetchone() for what, query in LEFT.items()}
            assert all(row is not None and row[0] for row in found.values()), found
            connection.rollback()
        with connections.borrow() as connection:
            assert connection.info.backend_pid == pid
            assert not connection.autocommit
            assert {what: connection.execute(query).fetchone() for what, query in LEFT.items()} == dict.fromkeys(
                LEFT, (0,)
            )
            connection.rollback()
    finally:
        connections.close()
