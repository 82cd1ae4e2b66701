"""The keys that the database accepts claims under: registering this home's, and changing it without a gap.

What belongs here: the database's side of `claims`, as `zeroth_owner`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from zeroth_assets.store import server
from zeroth_assets.store.claims import MAX_LIFETIME, ClaimKey, ensure_key, keep_key, new_key, read_key
from zeroth_assets.store.connect import Database
from zeroth_assets.store.failures import database_errors


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key as the database lists it: everything but the key. It is accepted until `retired_at`."""

    key_id: str
    created_at: datetime
    retired_at: datetime | None


def ensure_claim_key(db: Database) -> str | None:
    """See to it that this home can sign for `db`; a home whose key was retired gets a new one.

    Returns the key's id, or None where the schema is older than claims.

    Raises:
        DatabaseError: the database failed, or the key file cannot be read.
    """
    with database_errors("registering the key for claims"), db.owner() as connection:
        row = connection.execute("select to_regclass('zeroth_acl.claim_key') is not null").fetchone()
        if row is None or not row[0]:
            return None
        key = ensure_key(db.home, db.name)
        with connection.transaction():
            connection.execute(
                "insert into zeroth_acl.claim_key (key_id, key) values (%s, decode(%s, 'hex')) on conflict do nothing",
                (key.key_id, key.key.reveal()),
            )
            row = connection.execute(
                "select retired_at is null from zeroth_acl.claim_key where key_id = %s", (key.key_id,)
            ).fetchone()
    return key.key_id if row is not None and row[0] else rotate_claim_key(db)


def rotate_claim_key(db: Database, *, overlap: float = MAX_LIFETIME) -> str:
    """Sign with a new key from now on; returns its id.

    The former key is accepted for another `overlap` seconds: claims that are in use outlive it in no case, and whoever
    signs by this home takes up the new key at the next claim. With 0 (the key is known to somebody) open sessions end.

    Raises:
        DatabaseError: the database failed, or the key file cannot be read.
    """
    with (
        server.home_lock(db.home),
        database_errors("changing the key for claims"),
        db.owner(autocommit=True) as connection,
    ):
        current = read_key(db.home, db.name)
        key = new_key(() if current is None else (*current.former, current.key_id))
        if current is not None:
            # Noted before the database knows it: one that a kill leaves behind is retired by the next change.
            noted = ClaimKey(current.key_id, current.key, (*current.former, key.key_id))
            keep_key(db.home, db.name, noted)
        # Known to the database before anybody signs with it; kept here before the former one ends.
        connection.execute(
            "insert into zeroth_acl.claim_key (key_id, key) values (%s, decode(%s, 'hex'))",
            (key.key_id, key.key.reveal()),
        )
        keep_key(db.home, db.name, key)
        connection.execute(
            "update zeroth_acl.claim_key set retired_at ="
            " least(retired_at, clock_timestamp() + make_interval(secs => %s)) where key_id = any(%s)",
            (overlap, list(key.former)),
        )
    return key.key_id


def list_claim_keys(db: Database) -> tuple[KnownKey, ...]:
    """The keys that the database has, oldest first, without the keys themselves."""
    with (
        database_errors("listing the keys for claims"),
        db.owner() as connection,
        connection.cursor(row_factory=class_row(KnownKey)) as cursor,
    ):
        cursor.execute("select key_id, created_at, retired_at from zeroth_acl.claim_key order by created_at, key_id")
        return tuple(cursor.fetchall())
