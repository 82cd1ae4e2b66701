"""A person's own look into the database: psql as one of the roles.

What belongs here: which program, with which arguments and environment. Running it is the caller's.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from psycopg import conninfo

from zeroth_assets.errors import DatabaseError, QueryError
from zeroth_assets.store.binaries import binaries_folder
from zeroth_assets.store.claims import CLAIM_SETTING, MAX_LIFETIME
from zeroth_assets.store.connect import Database
from zeroth_assets.store.passwords import Role

NAMES = {"admin": Role.ADMIN, "owner": Role.OWNER, "loader": Role.LOADER, "app": Role.APP, "dagster": Role.DAGSTER}


def psql_command(
    database: Database, role: str, pg_bin: Path | None = None, *, principal: str | None = None
) -> tuple[list[str], dict[str, str]]:
    """Arguments and further environment for psql; password and claim are in the environment alone, never arguments.

    With `principal`, the session starts under a claim for it, which ends after an hour.

    Raises:
        DatabaseError: there is no such role, or no psql.
        QueryError: the principal is not usable, or the role is another than `app`.
        ClaimError: the home has no key for this database.
    """
    if role not in NAMES:
        raise DatabaseError(f"There is no role {role!r}", expected=", ".join(NAMES), remedy="name one of them")
    packaged = binaries_folder(pg_bin) / "psql"
    program = str(packaged) if packaged.is_file() else shutil.which("psql")
    if program is None:
        raise DatabaseError(
            "psql is not there", expected=f"{packaged}, or psql on PATH", remedy="install PostgreSQL's client"
        )
    login = database.login(NAMES[role])
    place = {"host": login.host, "port": login.port, "user": login.user, "dbname": login.dbname, **login.options}
    arguments = [program, "-d", conninfo.make_conninfo(**{key: value for key, value in place.items() if value})]
    variables = {"PGPASSWORD": login.password.reveal()} if login.password is not None else {}
    if principal is not None:
        if NAMES[role] is not Role.APP:
            raise QueryError("Only the role `app` asks as a principal", expected="app", found=role)
        claim = database.signer().sign(principal, MAX_LIFETIME)
        variables["PGOPTIONS"] = f"-c {CLAIM_SETTING}={claim.text}"
    return arguments, variables
