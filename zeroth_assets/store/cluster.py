"""A data directory: made by initdb, configured for this machine.

What belongs here: `initdb`, `postgresql.conf`, `pg_hba.conf`. Both files are written anew at every start, so that they
fit the machine and the port; `user.conf` beside them is read last and never touched.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store.accounts import Account, run_as, write_as
from zeroth_assets.store.binaries import Binaries
from zeroth_assets.store.passwords import Role, Secret
from zeroth_assets.store.process import end_by_argument

_MIB = 1024 * 1024
_INITDB_SECONDS = 300.0
_REMOVE_TRIES = 100
_REMOVE_PAUSE_SECONDS = 0.1

# No line for sockets, for other hosts or for replication: what has no line is refused.
_HBA = """\
# Written by zeroth at every start.
host all all 127.0.0.1/32 scram-sha-256
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """What the configuration depends on: memory and shared memory in bytes, processors."""

    memory: int
    shared_memory: int
    processors: int


def this_machine() -> Machine:
    """Measure the machine, or the container that we are confined to."""
    memory = int(psutil.virtual_memory().total)
    for limit in (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")):
        try:
            memory = min(memory, int(limit.read_text()))
        except (OSError, ValueError):
            continue
    try:
        shared = shutil.disk_usage("/dev/shm").free  # noqa: S108  (asked for its size only)
    except OSError:
        shared = 0
    return Machine(memory, shared, os.cpu_count() or 1)


def configuration(port: int, cluster_name: str, machine: Machine) -> str:
    """The text of `postgresql.conf`, valid for every version from 15 on."""
    shared_buffers = _clamp(machine.memory // 16, 48 * _MIB, 1024 * _MIB)
    # An HNSW build that does not fit here falls to disk and slows down many times over.
    maintenance = _clamp(machine.memory // 24, 64 * _MIB, 1024 * _MIB)
    # A parallel build takes its memory from /dev/shm, which is 64 MiB in a container by default.
    segments = "posix" if machine.shared_memory >= 2 * maintenance else "sysv"
    workers = max(1, min(4, machine.processors))
    values = {
        "listen_addresses": "'127.0.0.1'",
        "port": port,
        "unix_socket_directories": "''",
        "max_connections": 100,
        "password_encryption": "'scram-sha-256'",
        "cluster_name": f"'{cluster_name}'",
        "update_process_title": "on",
        "shared_buffers": f"{shared_buffers // _MIB}MB",
        "dynamic_shared_memory_type": segments,
        "work_mem": f"{_clamp(machine.memory // 1024, 4 * _MIB, 32 * _MIB) // _MIB}MB",
        "maintenance_work_mem": f"{maintenance // _MIB}MB",
        "effective_cache_size": f"{machine.memory // 2 // _MIB}MB",
        "max_parallel_workers": workers,
        "max_parallel_workers_per_gather": workers // 2,
        "max_parallel_maintenance_workers": workers,
        "random_page_cost": 1.1,
        "jit": "off",
        # One server without standbys: a table loaded in the transaction that made it needs no log.
        "wal_level": "minimal",
        "max_wal_senders": 0,
        "max_wal_size": "1GB",
        "checkpoint_timeout": "15min",
        "log_destination": "'stderr'",
        "logging_collector": "off",
        "log_line_prefix": "'%m [%p] %q%u@%d '",
        "log_checkpoints": "off",
        # Without DETAIL and CONTEXT, in which an error quotes the row that it met.
        "log_error_verbosity": "'terse'",
        "log_timezone": "'UTC'",
        "timezone": "'UTC'",
        "datestyle": "'iso, mdy'",
        "lc_messages": "'C'",
        "default_text_search_config": "'pg_catalog.english'",
    }
    lines = [f"{name} = {value}" for name, value in values.items()]
    return "\n".join(["# Written by zeroth at every start; put your own values into user.conf.", *lines]) + (
        "\ninclude_if_exists 'user.conf'\n"
    )


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


def configure(data_dir: Path, account: Account, port: int, cluster_name: str, machine: Machine) -> None:
    """Write the configuration of a server that is not running."""
    write_as(account, data_dir / "postgresql.conf", configuration(port, cluster_name, machine))
    write_as(account, data_dir / "pg_hba.conf", _HBA)
    if not (data_dir / "user.conf").exists():
        write_as(account, data_dir / "user.conf", "# Your own settings: read last, never changed by zeroth.\n")


def data_version(data_dir: Path) -> int | None:
    """The major version that made `data_dir`, or None where there is no data directory."""
    try:
        return int((data_dir / "PG_VERSION").read_text().strip())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DatabaseError(
            f"{data_dir} is not a PostgreSQL data directory that can be read",
            found=str(error),
            remedy="restore it from a backup, or remove the home's `postgres` folder and materialise again",
        ) from error


def initialise(folder: Path, binaries: Binaries, account: Account, password: Secret) -> None:
    """Make `folder/data`, whole or not at all: initdb works beside it and the result is renamed.

    Raises:
        DatabaseError: initdb failed; its last lines are shown.
    """
    remove_unfinished(folder, account)
    part = folder / f"init-{secrets.token_hex(6)}"
    pwfile = folder / f"{part.name}.pw"
    write_as(account, pwfile, password.reveal() + "\n")
    command = [
        binaries.program("initdb"),
        f"--pgdata={part}",
        f"--username={Role.ADMIN.value}",
        f"--pwfile={pwfile}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C.UTF-8",
        "--data-checksums",
    ]
    try:
        done = run_as(account, command, timeout=_INITDB_SECONDS)
        output, failed = done.stdout, done.returncode != 0
    except subprocess.TimeoutExpired:
        output, failed = f"initdb did not end within {_INITDB_SECONDS:.0f} s", True
    finally:
        pwfile.unlink(missing_ok=True)
    if failed:
        remove_unfinished(folder, account)
        lines = [line for line in output.splitlines() if line.strip()]
        raise DatabaseError(
            "The embedded server's data directory could not be made",
            found=" | ".join(lines[-5:]),
            remedy=remedy_for(output, folder),
        )
    part.rename(folder / "data")


def remove_unfinished(folder: Path, account: Account) -> None:
    """Take away what an initdb that was killed left behind, itself included."""
    for part in folder.glob("init-*"):
        if part.suffix:
            part.unlink(missing_ok=True)
            continue
        end_by_argument("initdb", f"--pgdata={part}", account.uid)
        # Its bootstrapping child dies of the broken pipe, and may still write while the folder is being removed.
        for _ in range(_REMOVE_TRIES):
            shutil.rmtree(part, ignore_errors=True)
            if not part.exists():
                break
            time.sleep(_REMOVE_PAUSE_SECONDS)


def remedy_for(output: str, folder: Path) -> str:
    """The next step, by what PostgreSQL complained of."""
    if "No space left" in output or "Disk quota" in output:
        return f"make room on the disk of {folder}, then run the same command again"
    if "pre-existing shared memory" in output:
        return "run `zeroth db stop`, which ends what is left of a killed server, then the same command again"
    if "annot allocate memory" in output or "could not map" in output or "shared memory" in output:
        return f"free memory, or put a smaller shared_buffers into {folder / 'data' / 'user.conf'}"
    if "ermission denied" in output:
        return f"restore the owner and the mode of {folder} and of what is in it"
    if "invalid locale" in output:
        return "install the locale C.UTF-8, or set ZEROTH_DATABASE_URL to a PostgreSQL server"
    return f"read {folder / 'server.log'}; if the data is beyond repair, remove the home's `postgres` folder"
