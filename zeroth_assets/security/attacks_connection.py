"""Attacks by what a connection keeps: cursors, prepared statements, plans, settings, from one principal to the next.

What belongs here: probes in which the principal changes and the connection does not.
"""

from __future__ import annotations

from psycopg import sql

from zeroth_assets.search.connections import Connections
from zeroth_assets.security.ground import Ground, Relation, attempt, become, transaction_of
from zeroth_assets.security.identities import Identity
from zeroth_assets.security.matrix import foreign, reading
from zeroth_assets.security.model import Probe, Record


def change_of_principal(ground: Ground, record: Record) -> None:
    """Cursors, prepared statements and cached plans when the transaction's, or the connection's, principal changes."""
    if not ground.content:
        record.skip("there is no chunk table")
        return
    table = ground.content[0]
    nobody = ground.cast.without_rights[0]
    others = [i for i in (ground.cast.other, nobody) if i is not None]
    statement = reading(table)
    for mode in ("auto", "force_generic_plan", "force_custom_plan"):
        with ground.connect() as connection:
            connection.execute(sql.SQL("set plan_cache_mode = {}").format(mode))
            connection.execute(sql.SQL("prepare seen as {}").format(statement))
            connection.execute(sql.SQL("prepare named as {}").format(_by_id(statement)))
            connection.commit()
            for turn in range(7):
                for identity in (ground.cast.own, *others):
                    with transaction_of(connection, identity):
                        record.tried(2)
                        for call in ("execute seen", f"execute named ({min(ground.hidden, default=0)})"):
                            outcome = attempt(connection, call)
                            if shown := foreign(outcome, identity, table):
                                record.breach(f"{identity.name}: {call}, {mode}, turn {turn}: {shown}")
    _cursors(ground, record, table, others)


def _by_id(statement: sql.Composed) -> sql.Composed:
    return sql.SQL("select * from ({}) s where s.tenant_id = $1").format(statement)


def _cursors(ground: Ground, record: Record, table: Relation, others: list[Identity]) -> None:
    for identity in others:
        with ground.connect() as connection, transaction_of(connection, ground.cast.own):
            record.tried()
            connection.execute(sql.SQL("declare c cursor for {}").format(reading(table)))
            become(connection, identity)
            fetched = connection.execute("fetch all from c").fetchall()
            both = Identity(identity.name, identity.permitted | ground.cast.own.permitted)
            # The cursor was opened by whoever held the first claim in this very transaction.
            seen = {int(row[0]) for row in fetched}
            if seen - both.permitted or (seen & ground.cast.own.permitted and seen & identity.permitted):
                record.breach(f"a cursor opened under one claim, fetched under {identity.name}: tenants {sorted(seen)}")


def pooled_connection(ground: Ground, record: Record) -> None:
    """What one principal's statements leave behind in the service's own pool, seen by the next one."""
    nobody = ground.cast.without_rights[0]
    table = ground.content[0] if ground.content else ground.relations[0]
    connections = Connections(ground.db, lambda connection: None)
    try:
        with connections.borrow() as connection:
            first = connection.info.backend_pid
            become(connection, ground.cast.own)
            for statement in (
                "set zeroth.claim = 'left behind'",
                "set zeroth.stash = 'left behind'",
                "set search_path = public",
                "listen zeroth_probe",
            ):
                connection.execute(statement)
            connection.execute("prepare left_behind as select 1")
            connection.execute(sql.SQL("declare left_behind cursor with hold for {}").format(reading(table)))
            connection.commit()
        with connections.borrow() as connection:
            if connection.info.backend_pid != first:
                record.tried()
                return
            for what, statement in (
                ("a cursor WITH HOLD", "select 1 from pg_cursors where name = 'left_behind'"),
                ("a prepared statement", "select 1 from pg_prepared_statements where name = 'left_behind'"),
                ("a claim", "select 1 where current_setting('zeroth.claim', true) <> ''"),
                ("a setting of its own", "select 1 where current_setting('zeroth.stash', true) <> ''"),
                ("a search_path", "select 1 where current_setting('search_path') = 'public'"),
                ("a LISTEN", "select 1 from pg_listening_channels() where pg_listening_channels = 'zeroth_probe'"),
            ):
                record.tried()
                if connection.execute(sql.SQL(statement)).fetchone() is not None:
                    record.breach(f"the next borrower of the connection meets {what}")
            connection.rollback()
            with transaction_of(connection, nobody):
                outcome = attempt(connection, reading(table))
                if shown := foreign(outcome, nobody, table):
                    record.breach(f"the next borrower without a claim: {shown}")
    finally:
        connections.close()


PROBES = (
    Probe(
        "cursors, prepared statements and cached plans",
        "keeps them across a change of principal, under every plan cache mode",
        "a row of the former principal, or of nobody's",
        change_of_principal,
    ),
    Probe(
        "pooled connection",
        "leaves a held cursor, a prepared statement, settings and a LISTEN to the next borrower",
        "the next borrower meets any of it",
        pooled_connection,
    ),
)
