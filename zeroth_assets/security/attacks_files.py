"""Attacks beside the database: files of the home, the server's log, a dump.

What belongs here: probes that look at what row-level security does not reach.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from psycopg import sql

from zeroth_assets.security.ground import Ground, attempt, server_logs
from zeroth_assets.security.model import Probe, Record
from zeroth_assets.store.binaries import binaries_folder
from zeroth_assets.store.claims import read_key
from zeroth_assets.store.passwords import Role

_READ_BY_OTHERS = stat.S_IRGRP | stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH
_PASSED_BY_OTHERS = stat.S_IXGRP | stat.S_IXOTH
_DUMP_SECONDS = 120
_SAMPLED = 20
_LETTERS = 60
# None says anything of a document: where the server is, and locks, which are empty.
_HARMLESS = frozenset({"server.lock", "server.json"})
# Settings that write statements, and with them their parameters, into the server's log; and what leaves them out.
_LOGGED = """
    select name, setting from pg_settings where
      name = 'log_statement' and setting in ('all', 'mod')
      or name in ('log_min_duration_statement', 'log_min_duration_sample') and setting <> '-1'
      or name = 'log_transaction_sample_rate' and setting <> '0'
      or name = 'log_parameter_max_length_on_error' and setting <> '0'
      or name in ('debug_print_parse', 'debug_print_plan', 'debug_print_rewritten') and setting = 'on'
      or name ~ 'preload_libraries$' and setting ~ 'auto_explain|pg_stat_statements|pgaudit'
"""


def files(ground: Ground, record: Record) -> None:
    """What another user of the machine could read under the home."""
    for path in _reachable(ground.db.home):
        record.tried()
        if not _harmless(path) and path.stat().st_mode & _READ_BY_OTHERS:
            record.breach(f"others may read {path.relative_to(ground.db.home)}")
    if not record.tries:
        record.tried()  # nothing can be reached at all


def _harmless(path: Path) -> bool:
    return path.name in _HARMLESS or (path.suffix == ".lock" and path.stat().st_size == 0)


def _reachable(folder: Path) -> Iterator[Path]:
    """Files in folders that others may pass through, all the way down from the home."""
    try:
        entries = list(os.scandir(folder)) if folder.stat().st_mode & _PASSED_BY_OTHERS else []
    except (FileNotFoundError, PermissionError):
        return
    for entry in entries:
        if entry.is_symlink():
            continue
        if entry.is_dir():
            yield from _reachable(Path(entry.path))
        elif entry.is_file():
            yield Path(entry.path)


def memo(ground: Ground, record: Record) -> None:
    """The memo of embeddings: it is shared by all tenants, and holds hashes and vectors alone."""
    found = sorted((ground.db.home / "memo").glob("*"))
    texts = [text.encode() for text in _sentences(ground)]
    if not found or not texts:
        record.skip("this home has no memo" if not found else "there is no text to look for")
        return
    for path in found:
        content = path.read_bytes()
        record.tried(len(texts))
        if count := sum(text in content for text in texts):
            record.breach(f"{path.name} holds {count} of {len(texts)} passages")


def server_log(ground: Ground, record: Record) -> None:
    """The server's log: claims, keys, passwords, passages; and the settings by which they would come there."""
    with ground.session(ground.cast.own) as connection:
        record.tried()
        for name, setting in attempt(connection, _LOGGED).rows:
            record.breach(f"{name} = {setting}: statements and their parameters are logged")
        for name in ("log_statement", "log_min_duration_statement", "log_error_verbosity", "log_duration"):
            record.tried()
            if attempt(connection, sql.SQL("select set_config({}, 'all', true)").format(name)).worked:
                record.breach(f"a session may set {name}")
            record.tried()
            held = sql.SQL("select has_parameter_privilege({}, 'SET, ALTER SYSTEM')").format(name)
            if attempt(connection, held).rows == [(True,)]:
                record.breach(f"zeroth_app may alter {name}")
    logs = server_logs(ground.db)
    if not logs:
        return
    secrets = {f"the password of {role}": secret.reveal() for role, secret in ground.db.passwords.items()}
    key = read_key(ground.db.home, ground.db.name)
    if key is not None:
        secrets["the key for claims"] = key.key.reveal()
    secrets |= {f"the code of {i.name}": i.claim[-64:] for i in (ground.cast.own, ground.cast.other) if i is not None}
    secrets |= {f"passage {n}": text for n, text in enumerate(_sentences(ground))}
    for path in logs:
        content = path.read_bytes()[ground.log_from.get(path.name, 0) :].decode("utf-8", errors="replace")
        for what, secret in secrets.items():
            record.tried()
            if secret in content:
                record.breach(f"{path.name} holds {what}")


def _sentences(ground: Ground) -> list[str]:
    """Beginnings of passages that the rightful identities may read."""
    found: list[str] = []
    for identity in (ground.cast.own, ground.cast.other):
        if identity is None:
            continue
        with ground.session(identity) as connection:
            for table in ground.content[:1]:
                query = sql.SQL("select left(text, {}) from {} where length(text) >= 30 limit {}").format(
                    _LETTERS, table.identifier, _SAMPLED
                )
                found += [str(row[0]) for row in attempt(connection, query).rows]
    return found


def dump(ground: Ground, record: Record) -> None:
    """`pg_dump` as the querying role, with and without row security."""
    program = binaries_folder() / "pg_dump"
    if ground.brief or not ground.db.embedded or not program.exists():
        record.skip("a brief run" if ground.brief else "there is no pg_dump of the server's version")
        return
    login = ground.db.login(Role.APP)
    password = login.password.reveal() if login.password is not None else ""
    command = [str(program), "-h", login.host or "", "-p", login.port or "", "-U", Role.APP.value]
    command += ["-d", ground.db.name, "--data-only", "--inserts"]
    for option in ("--enable-row-security", "--no-sync"):
        record.tried()
        done = subprocess.run(
            [*command, option],
            env={**os.environ, "PGPASSWORD": password},
            capture_output=True,
            timeout=_DUMP_SECONDS,
            check=False,
        )
        inserted = [
            line for line in done.stdout.decode(errors="replace").splitlines() if line.startswith("INSERT INTO ")
        ]
        tables = {line.split()[2] for line in inserted} - {"zeroth.meta", "zeroth.chunk_set"}
        if tables:
            record.breach(f"pg_dump {option}: rows of {', '.join(sorted(tables)[:5])}")


PROBES = (
    Probe("files of the home", "walks what another user could reach", "a file that others may read or write", files),
    Probe("memo of embeddings", "looks for passages in it", "a passage stands there", memo),
    Probe(
        "the server's log",
        "looks for claims, keys, passwords and passages in it, and for settings that would put them there",
        "one stands there, or would",
        server_log,
    ),
    Probe("pg_dump", "dumps the database as the querying role", "a row of any tenant", dump),
)
