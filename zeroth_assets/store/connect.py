"""The handle on a database: which server, and a connection as each role.

What belongs here: `Database`, the two ways to get one, and the principal of a transaction.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow, tuple_row

from zeroth_assets.errors import DatabaseError, QueryError
from zeroth_assets.store import roles, server
from zeroth_assets.store.address import EMBEDDED_OPTIONS, Login, UnreachableError, parse_login
from zeroth_assets.store.claims import CLAIM_SETTING, DEFAULT_LIFETIME, Claim, ClaimError, ClaimSigner, check_principal
from zeroth_assets.store.passwords import Role, Secret, ensure_passwords, password_file
from zeroth_assets.store.versions import ServerVersions, check_server

DEFAULT_NAME = "zeroth"
_MAINTENANCE = "postgres"
# Loads copy into a temporary table; queries need none.
_DATA_GRANTS: Mapping[Role, tuple[str, ...]] = {Role.LOADER: ("CONNECT", "TEMPORARY"), Role.APP: ("CONNECT",)}


class AppConnection(psycopg.Connection[TupleRow]):
    """A connection as `zeroth_app`, with what signs its principals' claims."""

    signer: ClaimSigner | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Database:
    """A data database and the Dagster database beside it, on one server.

    Its text form shows where it is and never a password. It can be pickled and handed to other processes.
    """

    name: str
    home: Path
    embedded: bool
    administrator: Login
    passwords: Mapping[Role, Secret]

    def __repr__(self) -> str:
        kind = "embedded" if self.embedded else "external"
        return f"Database({self.name!r} at {self.administrator.place}, {kind})"

    @property
    def dagster_name(self) -> str:
        """Name of the database that holds Dagster's runs, events and schedules."""
        return f"{self.name}_dagster"

    def named(self, name: str) -> Database:
        """The same server with another data database; `ensure_databases` makes it."""
        return replace(self, name=name)

    def login(self, role: Role) -> Login:
        """How `role` logs in, to the database that is its own."""
        if role is Role.ADMIN:
            return self.administrator.to(self.name)
        database = self.dagster_name if role is Role.DAGSTER else self.name
        return self.administrator.as_role(role.value, self.passwords[role]).to(database)

    def url_for(self, role: Role) -> str:
        """A `postgresql://` URL **with the password**: hand it to programs, never print it."""
        return self.login(role).url

    def dagster_url(self) -> str:
        """The URL of Dagster's database, as SQLAlchemy and psycopg2 read it; with the password."""
        return self.url_for(Role.DAGSTER)

    @contextlib.contextmanager
    def admin(self, *, autocommit: bool = False, dbname: str | None = None) -> Iterator[psycopg.Connection]:
        """A connection as the administrator, who is bound by no policy: for set-up, never for a query or a figure."""
        login = self.login(Role.ADMIN)
        with login.to(dbname if dbname is not None else self.name).connect(autocommit=autocommit) as conn:
            if self.embedded:
                self._is_our_server(conn)
            yield conn

    @contextlib.contextmanager
    def owner(self, *, autocommit: bool = False) -> Iterator[psycopg.Connection]:
        """A connection as `zeroth_owner`: schema and partitions."""
        with self._as(Role.OWNER, autocommit) as conn:
            yield conn

    @contextlib.contextmanager
    def loader(self, *, autocommit: bool = False) -> Iterator[psycopg.Connection]:
        """A connection as `zeroth_loader`: rows in and out."""
        with self._as(Role.LOADER, autocommit) as conn:
            yield conn

    @contextlib.contextmanager
    def app(self, *, autocommit: bool = False) -> Iterator[AppConnection]:
        """A connection as `zeroth_app`: every query, every measurement. See `principal_session`."""
        with self.login(Role.APP).connect(autocommit=True, kind=AppConnection) as conn:
            _is_role(conn, Role.APP)
            conn.autocommit = autocommit
            conn.signer = self.signer()
            yield conn

    def signer(self) -> ClaimSigner:
        """Signs claims for this database with its home's key."""
        return ClaimSigner(self.home, self.name)

    @contextlib.contextmanager
    def _as(self, role: Role, autocommit: bool) -> Iterator[psycopg.Connection]:
        """Connect, verify, hand out; commits at the end of the block, rolls back on an exception, closes."""
        with self.login(role).connect(autocommit=True) as conn:
            _is_role(conn, role)
            conn.autocommit = autocommit
            yield conn

    def _is_our_server(self, conn: psycopg.Connection) -> None:
        row = conn.execute("select session_user").fetchone()
        if not conn.autocommit:
            conn.rollback()
        if row is None or row[0] != Role.ADMIN.value:
            raise DatabaseError(
                f"{self.administrator.place} is not this home's server",
                found=f"session user {row[0] if row else 'unknown'}",
                remedy="run `zeroth db stop`, then `zeroth db start`",
            )

    def ensure_databases(self) -> ServerVersions:
        """Make roles, both databases and the extension where they are absent, and check that every role can log in.

        Safe to run twice and from several processes at once.

        Raises:
            DatabaseError: the server is down, too old, without pgvector; or the administrator lacks a right.
        """
        with self._maintenance() as conn:
            versions = check_server(conn)
            with roles.setup_lock(conn):
                created = roles.ensure_roles(conn, self.passwords, ours=self.embedded)
                roles.reset_settings(conn)
                roles.ensure_database(conn, self.name, Role.OWNER, _DATA_GRANTS)
                roles.ensure_database(conn, self.dagster_name, Role.DAGSTER, {})
                if self.embedded:
                    for template in (_MAINTENANCE, "template1"):
                        conn.execute(sql.SQL("revoke all on database {} from public").format(sql.Identifier(template)))
                with self.admin(autocommit=True) as inside:
                    check_server(inside)
                    roles.ensure_extension(inside)
                    roles.restrict_functions(inside)
                if not self.embedded:
                    for role in roles.MANAGED:
                        self._can_log_in(role, new=role in created)
        return versions

    def reset_passwords(self) -> None:
        """Give the server's roles the passwords of this home; other homes that share the server are locked out."""
        with self._maintenance() as conn, roles.setup_lock(conn):
            roles.reset_passwords(conn, self.passwords)

    @contextlib.contextmanager
    def _maintenance(self) -> Iterator[psycopg.Connection]:
        """The administrator's connection to a database that exists before ours does."""
        # One database for all processes: advisory locks do not reach across databases.
        login = self.administrator.to(_MAINTENANCE)
        try:
            conn = login.connect(autocommit=True)
        except UnreachableError:
            raise
        except DatabaseError:
            if self.embedded:
                raise
            conn = self.administrator.to(self.name).connect(autocommit=True)
        with conn:
            yield conn

    def _can_log_in(self, role: Role, new: bool) -> None:
        try:
            with self.login(role).connect(autocommit=True) as conn:
                _is_role(conn, role)
            return
        except DatabaseError as error:
            reason = error.found
        raise DatabaseError(
            f"Role {role} cannot log in at {self.administrator.place} with this home's password",
            expected=f"the password that is kept in {password_file(self.home)}",
            found=reason,
            remedy="let the server's pg_hba.conf accept the role with scram-sha-256"
            if new
            else "copy that file from the home that made the roles, or call reset_passwords (locks that home out)",
        )


def embedded_database(home: Path, pg_bin: Path | None = None, name: str = DEFAULT_NAME) -> Database:
    """The database of the home's own server, which is started if it does not run.

    Raises:
        DatabaseError: the server cannot be made or started.
    """
    home = home.resolve()
    state = server.start(home, pg_bin)
    with server.home_lock(home):
        passwords = ensure_passwords(home)
    login = Login(
        server.HOST, str(state.port), Role.ADMIN.value, passwords[Role.ADMIN], _MAINTENANCE, dict(EMBEDDED_OPTIONS)
    )
    return Database(name, home, True, login, passwords)


def external_database(url: str, home: Path) -> Database:
    """The database that an administrator's URL names; without a name there, or with `postgres`, it is `zeroth`.

    Nothing is opened yet; `ensure_databases` checks the server and makes what is absent. The roles' passwords
    are kept under `home`.

    Raises:
        DatabaseError: the URL cannot be parsed.
    """
    home = home.resolve()
    login = parse_login(url)
    name = login.dbname if login.dbname not in (None, "", _MAINTENANCE, "template1") else None
    with server.home_lock(home):
        passwords = ensure_passwords(home)
    return Database(name or DEFAULT_NAME, home, False, login, passwords)


def open_database(home: Path, database_url: str | None, pg_bin: Path | None = None) -> Database:
    """The external database if a URL is given, else the embedded one.

    Raises:
        DatabaseError: as for `external_database` and `embedded_database`.
    """
    if database_url is not None:
        return external_database(database_url, home)
    return embedded_database(home, pg_bin)


@contextlib.contextmanager
def principal_session(
    conn: psycopg.Connection, principal: str, *, lifetime: float = DEFAULT_LIFETIME
) -> Iterator[psycopg.Connection]:
    """One transaction in which the policies see `principal`; the next transaction sees nothing of it.

    The claim holds for `lifetime` seconds (3,600 at most); past them, statements would see nothing. A block that took
    longer ends in an error, so that nobody takes that nothing for an answer.

    Raises:
        QueryError: the principal is not usable, or a transaction is open already (the setting would outlive ours).
        ClaimError: the connection cannot sign, the database refuses the claim, or the block outlived it.
    """
    check_principal(principal)
    signer = conn.signer if isinstance(conn, AppConnection) else None
    if signer is None:
        raise ClaimError(
            "This connection cannot carry a principal",
            expected="a connection as zeroth_app that can sign claims",
            found=f"user {conn.info.user}, {type(conn).__name__} without a signer",
            remedy="take it from `Database.app()`",
        )
    if conn.info.transaction_status is not TransactionStatus.IDLE:
        raise QueryError(
            "A principal cannot be set inside a transaction that is already open",
            expected="an idle connection",
            found=conn.info.transaction_status.name,
            remedy="commit or roll back first",
        )
    with conn.transaction():
        started = time.monotonic()
        _claim(conn, signer, signer.sign(principal, lifetime))
        yield conn
        spent = time.monotonic() - started
        if spent > lifetime - 1:  # a claim's end is rounded down to a second
            raise ClaimError(
                "The claim ran out while it was in use: what was read last may be incomplete",
                expected=f"a transaction of less than {lifetime:.0f} s",
                found=f"{spent:.0f} s",
                remedy="read in shorter transactions, or pass a longer lifetime",
            )


def _claim(conn: psycopg.Connection, signer: ClaimSigner, claim: Claim) -> None:
    """Make the claim this transaction's, and make sure that the database takes it."""
    with conn.cursor(row_factory=tuple_row) as cursor:
        cursor.execute("select zeroth.verified_principal() from set_config(%s, %s, true)", [CLAIM_SETTING, claim.text])
        if cursor.fetchone() == (claim.principal,):
            return
        skew = cursor.execute(
            "select extract(epoch from clock_timestamp())::float8 - %s::float8", [signer.now()]
        ).fetchone()
    raise ClaimError(
        "The database refuses a claim that this home has signed",
        expected="this home's key among those it accepts, and clocks that agree",
        found=f"the server's clock is {skew[0] if skew else 0.0:+.0f} s from ours",
        remedy="run `zeroth db migrate`, which registers the key; set the clocks if they differ by minutes",
    )


def _is_role(conn: psycopg.Connection, role: Role) -> None:
    row = conn.execute(
        "select session_user, current_user, rolsuper, rolbypassrls from pg_roles where rolname = current_user"
    ).fetchone()
    if row != (role.value, role.value, False, False):
        raise DatabaseError(
            f"The connection is not what {role} has to be",
            expected=f"session and current user {role}, no superuser, bound by row-level security",
            found="no such role"
            if row is None
            else f"{row[0]} / {row[1]}, superuser {row[2]}, bypasses row-level security {row[3]}",
            remedy=f"ALTER ROLE {role} NOSUPERUSER NOBYPASSRLS; and let no pooler log in as somebody else",
        )
