"""Clearing dead rows out of a partition, and knowing whether any are left.

What belongs here: VACUUM of one tenant's partition and the reading of its report. HNSW counts dead entries against
ef_search, so each costs recall until it is gone; and one open snapshot anywhere in the database keeps them all.

The count is VACUUM's own, by VERBOSE: exact on every supported release, for the very rows that this run looked at.
`n_dead_tup` is not it: other sessions add to it late, and ANALYZE replaces it by an estimate from a sample. It serves
only where the server's messages are not English, in the one moment at which VACUUM itself has just written it.
"""

from __future__ import annotations

import re

from psycopg import sql
from psycopg.errors import Diagnostic

from zeroth_assets.store.connect import Database
from zeroth_assets.store.registry import ChunkSet

_KEPT = re.compile(r"tuples: \d+ removed, \d+ remain, (\d+) are dead but not yet removable")
# Of pages that another session had pinned.
_MISSED = re.compile(r"tuples missed: (\d+) dead from")


def vacuum_partition(db: Database, target: ChunkSet, tenant_id: int) -> int:
    """VACUUM and ANALYZE a tenant's partition, its indexes included, as its owner; the dead rows that remain.

    Where nothing is dead it costs little: pages that are all visible are not read.

    Raises:
        psycopg.Error: it could not be run, as when the partition is gone or a lock was not had.
    """
    return vacuum_table(db, target.partition(tenant_id))


def vacuum_table(db: Database, table: sql.Identifier, *, analyze: bool = True) -> int:
    """The same of any one table of ours, named with its schema; ANALYZE, which reads a sample of it, only if asked.

    Raises:
        psycopg.Error: as `vacuum_partition`.
    """
    messages: list[str] = []

    def keep(notice: Diagnostic) -> None:
        messages.append(notice.message_primary or "")

    with db.owner() as connection:
        connection.rollback()
        connection.autocommit = True
        connection.add_notice_handler(keep)
        # INDEX_CLEANUP ON: by default few dead rows are left in the index.
        connection.execute(sql.SQL("vacuum (verbose, index_cleanup on, truncate off) {}").format(table))
        name = table.as_string(connection).replace('"', "")
        dead = dead_rows_told(messages, name)
        if dead is None:
            row = connection.execute("select pg_stat_get_dead_tuples(%s::regclass)", (name,)).fetchone()
            dead = int(row[0]) if row is not None else 0
        if analyze:
            connection.execute(sql.SQL("analyze {}").format(table))
    return dead


def dead_rows_told(messages: list[str], partition: str) -> int | None:
    """Dead rows that VACUUM VERBOSE says it left in `partition` (schema and table); None if it says nothing of it."""
    for message in messages:
        # Its TOAST table has a report of its own.
        kept = _KEPT.search(message)
        if kept is not None and f'.{partition}"' in message.partition("\n")[0]:
            missed = _MISSED.search(message)
            return int(kept[1]) + (int(missed[1]) if missed else 0)
    return None
