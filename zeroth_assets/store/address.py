"""Where a server is and how to log in there: addresses whose passwords never show.

What belongs here: connection parameters, URLs made of them, and the one place that opens a connection.
"""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar, overload

import psycopg
from psycopg import conninfo

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store.passwords import Secret

_CONNECT_SECONDS = 10
_RETRY_SECONDS = 0.05
_RESTARTING = (
    "is starting up",
    "in recovery mode",
    "not yet accepting connections",
    "closed the connection unexpectedly",
)
_NAMED = ("host", "port", "user", "password", "dbname")
# Said for the embedded server, so that no PG* variable of the caller's turns these connections elsewhere.
EMBEDDED_OPTIONS: Mapping[str, str] = MappingProxyType(
    {"hostaddr": "127.0.0.1", "sslmode": "disable", "gssencmode": "disable", "require_auth": "scram-sha-256"}
)

_C = TypeVar("_C", bound=psycopg.Connection)


class UnreachableError(DatabaseError):
    """No server answers at the address: another database or role would not help."""


@dataclass(frozen=True, slots=True)
class Login:
    """A server, a user, a database. `options` are further connection parameters (`sslmode`, ...)."""

    host: str | None
    port: str | None
    user: str | None
    password: Secret | None
    dbname: str | None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def to(self, dbname: str) -> Login:
        """The same login on another database."""
        return replace(self, dbname=dbname)

    def as_role(self, user: str, password: Secret) -> Login:
        """Another role on the same server."""
        return replace(self, user=user, password=password)

    @property
    def place(self) -> str:
        """Host and port, for messages."""
        return f"{self.host or 'the default host'}:{self.port or 5432}"

    @property
    def url(self) -> str:
        """The `postgresql://` URL, **with the password**: for programs that take a URL, never for a message."""
        user = _quoted(self.user or "")
        if self.password is not None:
            user += ":" + _quoted(self.password.reveal())
        # What a program of an older libpq would choke on is left out.
        query = {key: value for key, value in self.options.items() if key != "require_auth"}
        host = self.host or ""
        if host.startswith("/") or "," in host:
            query["host"], host = host, ""
        port = self.port or ""
        if "," in port:
            query["port"], port = port, ""
        port = f":{port}" if port else ""
        bracketed = f"[{host}]" if ":" in host else host
        tail = f"?{urllib.parse.urlencode(query)}" if query else ""
        return f"postgresql://{user}{'@' if user else ''}{bracketed}{port}/{_quoted(self.dbname or '')}{tail}"

    @overload
    def connect(self, *, autocommit: bool = False) -> psycopg.Connection: ...

    @overload
    def connect(self, *, autocommit: bool = False, kind: type[_C]) -> _C: ...

    def connect(
        self, *, autocommit: bool = False, kind: type[psycopg.Connection] = psycopg.Connection
    ) -> psycopg.Connection:
        """Open a connection that prepares no statement behind one's back (a cached plan outlives the settings).

        Raises:
            DatabaseError: the server is down, or refuses the login; names place, role and next step.
        """
        parameters: dict[str, str] = {"application_name": "zeroth", "connect_timeout": str(_CONNECT_SECONDS)}
        parameters |= self.options
        for name in _NAMED:
            value = getattr(self, name)
            if value is not None:
                parameters[name] = value.reveal() if isinstance(value, Secret) else value
        deadline = time.monotonic() + _CONNECT_SECONDS
        while True:
            try:
                return kind.connect(conninfo.make_conninfo(**parameters), autocommit=autocommit, prepare_threshold=None)
            except psycopg.Error as error:
                reason = str(error)
            # A server restarts by itself after one of its processes was killed; it is back in a moment.
            if not any(sign in reason for sign in _RESTARTING) or time.monotonic() > deadline:
                break
            time.sleep(_RETRY_SECONDS)
        del parameters
        # Raised outside of the handler: a chained exception would keep frames that hold the password.
        raise self._failure(self._without_password(reason))

    def _without_password(self, text: str) -> str:
        secret = self.password.reveal() if self.password is not None else ""
        return text.replace(secret, "***") if secret else text

    def _failure(self, reason: str) -> DatabaseError:
        lines = [line.strip() for line in reason.splitlines() if line.strip()]
        found = "; ".join(lines)[:600]
        what = f"PostgreSQL at {self.place} cannot be used as {self.user or 'the default user'}"
        if "password authentication failed" in reason or "no password supplied" in reason:
            remedy = "check the user and the password in ZEROTH_DATABASE_URL, or in the home's postgres/passwords.json"
        elif "too many clients" in reason or "remaining connection slots" in reason:
            remedy = "end other connections, or raise max_connections, then run the same command again"
        elif "database" in reason and "does not exist" in reason:
            remedy = "run `zeroth db migrate`, which makes the databases"
        elif "pg_hba.conf" in reason:
            remedy = "let the server's pg_hba.conf accept this host, database and role with scram-sha-256"
        elif "FATAL" in reason:
            remedy = "run `zeroth db migrate`, which makes the databases and lets the roles in"
        else:
            return UnreachableError(
                f"PostgreSQL does not answer at {self.place}",
                expected="a server that accepts connections",
                found=found,
                remedy="embedded server: run `zeroth db start`; external: check ZEROTH_DATABASE_URL and that it runs",
            )
        return DatabaseError(what, expected="a server that accepts the connection", found=found, remedy=remedy)


def parse_login(url: str) -> Login:
    """Read a URL, or a `key=value` string, as libpq does.

    Raises:
        DatabaseError: it cannot be parsed. The text itself is not shown: it may hold a password.
    """
    try:
        given = {key: str(value) for key, value in conninfo.conninfo_to_dict(url).items() if value is not None}
    except psycopg.Error:
        given = None
    if given is None:
        raise DatabaseError(
            "ZEROTH_DATABASE_URL cannot be parsed",
            expected="postgresql://user:password@host:port/database, special characters percent-encoded",
            remedy="correct it, or unset it to use the embedded server",
        )
    password = given.get("password")
    return Login(
        given.get("host"),
        given.get("port"),
        given.get("user"),
        Secret(password) if password is not None else None,
        given.get("dbname"),
        {key: value for key, value in given.items() if key not in _NAMED},
    )


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")
