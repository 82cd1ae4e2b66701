"""What the probes stand on: the relations of a database by its catalogue, and sessions as `zeroth_app`.

What belongs here: discovery, real connections as each identity, and one attempt at a time. Whatever an attempt does is
undone, whether it was refused or not.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.rows import class_row, tuple_row

from zeroth_assets.security.identities import Cast, Identity, choose_identities
from zeroth_assets.store.claims import ClaimKey
from zeroth_assets.store.connect import Database
from zeroth_assets.store.passwords import Role
from zeroth_assets.store.place import read_record

Statement = str | sql.SQL | sql.Composed
REFUSED = "42501"
GONE = ("42P01", "3F000", "42704")
# Tables that name no tenant: everybody who is connected may read them.
OPEN = frozenset({"zeroth.meta", "zeroth.chunk_set"})

# Ours; what inherits from it; what reads it; what zeroth_owner owns; what the querying role was granted anywhere.
_RELATIONS: LiteralString = """
    with recursive ours as (
      select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind in ('r', 'p', 'v', 'm', 'f') and n.nspname !~ '^pg_(toast|temp)' and (n.nspname ~ '^zeroth'
        or pg_get_userbyid(c.relowner) = 'zeroth_owner'
        or exists (select from aclexplode(c.relacl) a where a.grantee = 'zeroth_app'::regrole)
        or exists (select from pg_attribute t, aclexplode(t.attacl) a
          where t.attrelid = c.oid and a.grantee = 'zeroth_app'::regrole))
      union
      select x.oid from ours o cross join lateral (
        select i.inhrelid from pg_inherits i where i.inhparent = o.oid
        union all
        select w.ev_class from pg_depend d join pg_rewrite w on w.oid = d.objid
        where d.classid = 'pg_rewrite'::regclass and d.refclassid = 'pg_class'::regclass and d.refobjid = o.oid
      ) x (oid)
    )
    select c.oid::int8 as oid, n.nspname::text as schema, c.relname::text as name, c.relkind::text as kind,
      (c.relispartition or exists (select from pg_inherits i where i.inhrelid = c.oid)) as is_partition,
      array(select a.attname::text from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum) as columns
    from ours join pg_class c on c.oid = ours.oid join pg_namespace n on n.oid = c.relnamespace
    order by n.nspname, c.relname
"""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, partition, view, materialised view or foreign table. `kind` is that of `pg_class`."""

    oid: int
    schema: str
    name: str
    kind: str
    is_partition: bool
    columns: list[str]

    @property
    def path(self) -> str:
        """`schema.name`, for messages."""
        return f"{self.schema}.{self.name}"

    @property
    def identifier(self) -> sql.Identifier:
        """Its quoted name."""
        return sql.Identifier(self.schema, self.name)

    @property
    def has_tenant(self) -> bool:
        """Whether its rows say whose they are."""
        return "tenant_id" in self.columns


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an attempt came to: rows, or the database's refusal."""

    rows: list[tuple[Any, ...]] = field(default_factory=list, repr=False)
    state: str = ""
    message: str = field(default="", repr=False)

    @property
    def worked(self) -> bool:
        """Whether the statement was carried out."""
        return not self.state

    @property
    def refused(self) -> bool:
        """Whether it was refused for a lack of privileges."""
        return self.state == REFUSED


@dataclass(slots=True)
class Ground:
    """A database under test. `canaries` are sentences that stand in a tenant's chunks alone, by tenant id.

    `throwaway` databases may be changed by a probe, which undoes it. A `brief` run leaves out what can hardly differ.
    `log_from` says from which byte on a log is of this ground: before, others may have been broken on the same server.
    """

    db: Database
    cast: Cast
    tenants: Mapping[str, int]
    relations: tuple[Relation, ...]
    canaries: Mapping[int, Sequence[str]] = field(default_factory=dict, repr=False)
    throwaway: bool = False
    brief: bool = False
    log_from: Mapping[str, int] = field(default_factory=dict)
    _kept: psycopg.Connection[Any] | None = field(default=None, repr=False)

    @property
    def hidden(self) -> frozenset[int]:
        """Tenants that the rightful identity may not see."""
        return frozenset(self.tenants.values()) - self.cast.own.permitted

    @property
    def content(self) -> tuple[Relation, ...]:
        """Tables that a query may name and that hold chunks."""
        return tuple(
            r for r in self.relations if r.schema == "zeroth" and not r.is_partition and {"text", "tsv"} <= {*r.columns}
        )

    @property
    def partitions(self) -> tuple[Relation, ...]:
        """Tables that no query may name."""
        return tuple(r for r in self.relations if r.is_partition)

    def connect(self) -> psycopg.Connection[Any]:
        """A new connection as `zeroth_app`, whatever that role can do: what it can do is the question."""
        return self.db.login(Role.APP).connect()

    @contextlib.contextmanager
    def session(self, identity: Identity) -> Iterator[psycopg.Connection[Any]]:
        """A transaction of that identity, rolled back. Not to be nested: the connection is one and the same."""
        if self._kept is None or self._kept.closed:
            self._kept = self.connect()
        with transaction_of(self._kept, identity) as connection:
            yield connection

    def reset(self) -> None:
        """End what a probe left in the kept session."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None


@contextlib.contextmanager
def transaction_of(connection: psycopg.Connection[Any], identity: Identity) -> Iterator[psycopg.Connection[Any]]:
    """A transaction in which the session is that identity, rolled back at its end."""
    with contextlib.ExitStack() as stack:
        stack.callback(_roll_back, connection)
        for name, value in identity.settings.items():  # and nothing else: nobody has no claim at all
            connection.execute("select set_config(%s, %s, true)", (name, value))
        connection.execute("savepoint probe")
        yield connection


def become(connection: psycopg.Connection[Any], identity: Identity) -> None:
    """Make an open transaction that of `identity`, whoever it was before."""
    for name, value in {"zeroth.claim": "", "zeroth.principal": "", **identity.settings}.items():
        connection.execute("select set_config(%s, %s, true)", (name, value))


def _roll_back(connection: psycopg.Connection[Any]) -> None:
    if not connection.closed:
        connection.rollback()


def attempt(
    connection: psycopg.Connection[Any], statement: Statement, values: Sequence[object] | None = None
) -> Outcome:
    """Run one statement inside `transaction_of` and undo it."""
    try:
        with connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(statement, values, prepare=False)
            outcome = Outcome(cursor.fetchall() if cursor.description is not None else [])
    except psycopg.Error as error:
        outcome = Outcome([], error.sqlstate or "XX000", _said(error))
    connection.execute("rollback to savepoint probe")
    return outcome


def _said(error: psycopg.Error) -> str:
    """All that the server said, without the place in the statement, which echoes what we wrote."""
    told = error.diag
    return "\n".join(
        part for part in (told.message_primary, told.message_detail, told.message_hint, told.context) if part
    )


def copy_out(connection: psycopg.Connection[Any], statement: Statement) -> Outcome:
    """As `attempt`, for COPY ... TO STDOUT; a row is a line."""
    lines: list[tuple[Any, ...]] = []
    try:
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            lines += [(bytes(part).decode(),) for part in copy]
        outcome = Outcome(lines)
    except psycopg.Error as error:
        outcome = Outcome([], error.sqlstate or "XX000", _said(error))
    connection.execute("rollback to savepoint probe")
    return outcome


def copy_in(connection: psycopg.Connection[Any], statement: Statement) -> Outcome:
    """As `attempt`, for COPY ... FROM STDIN with nothing to copy."""
    try:
        with connection.cursor() as cursor, cursor.copy(statement):
            pass
        outcome = Outcome()
    except psycopg.Error as error:
        outcome = Outcome([], error.sqlstate or "XX000", _said(error))
    connection.execute("rollback to savepoint probe")
    return outcome


def survey(
    db: Database,
    *,
    canaries: Mapping[str, Sequence[str]] | None = None,
    retired: ClaimKey | None = None,
    throwaway: bool = False,
    clock: Callable[[], float] | None = None,
) -> Ground:
    """Look at a database: tenants and grants as its owner, relations as the querying role sees the catalogue.

    Raises:
        MeasurementError: nobody holds a grant.
        DatabaseError: the database does not answer.
    """
    with db.owner() as owner:
        tenants = {str(k): int(i) for k, i in owner.execute("select tenant_key, tenant_id from zeroth.tenant")}
    cast = choose_identities(db, tenants, retired, None if clock is None else clock())
    with db.login(Role.APP).connect() as connection, connection.cursor(row_factory=class_row(Relation)) as cursor:
        relations = tuple(cursor.execute(_RELATIONS).fetchall())
    known = {tenants[key]: tuple(texts) for key, texts in (canaries or {}).items() if key in tenants}
    began = {path.name: path.stat().st_size for path in server_logs(db)} if throwaway else {}
    return Ground(db, cast, tenants, relations, known, throwaway, log_from=began)


def server_logs(db: Database) -> list[Path]:
    """The embedded server's logs that this user can read."""
    place = read_record(db.home) if db.embedded else None
    found = [] if place is None else sorted(place.cluster(db.home).glob("server.log*"))
    return [path for path in found if os.access(path, os.R_OK)]
