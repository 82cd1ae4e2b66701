from __future__ import annotations

import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store import place, server
from zeroth_assets.store.accounts import server_account
from zeroth_assets.store.binaries import binaries_folder, usable_by
from zeroth_assets.store.connect import Database, embedded_database
from zeroth_assets.store.passwords import Role, password_file
from zeroth_assets.store.process import ended, process_of
from zeroth_assets_tests.database_fixtures import make_home, remove_home
from zeroth_assets_tests.store.helpers import START, python_script


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    path = make_home("server")
    yield path
    remove_home(path)


def _stopped(home: Path) -> Path:
    """A home whose server exists and is stopped; its cluster folder."""
    data = server.start(home).data_dir
    server.stop(home)
    assert data is not None
    return data.parent


def _over(pid: int) -> bool:
    process = process_of(pid)
    return process is None or ended(process)


def test_start_makes_a_server_that_answers_and_status_tells_where(home: Path) -> None:
    state = server.start(home)
    assert state.state == "running"
    assert state.data_dir == home / "postgres" / "cluster" / "data"
    assert state.version is not None
    assert state.version.split(".")[0] == str((state.data_dir / "PG_VERSION").read_text().strip())
    assert server.status(home) == state
    with embedded_database(home).admin(dbname="postgres") as conn:
        assert conn.execute("select 1").fetchone() == (1,)


def test_a_second_start_finds_the_same_server(home: Path) -> None:
    assert server.start(home) == server.start(home)


def test_the_data_directory_has_checksums_and_unicode_in_code_point_order(home: Path) -> None:
    with embedded_database(home).admin(dbname="postgres") as conn:
        assert conn.execute("show data_checksums").fetchone() == ("on",)
        assert conn.execute("show server_encoding").fetchone() == ("UTF8",)
        row = conn.execute("select datcollate from pg_database where datname = 'postgres'").fetchone()
        assert row == ("C.UTF-8",)


def test_only_the_loopback_listens(home: Path) -> None:
    state = server.start(home)
    assert state.pid is not None
    process = psutil.Process(state.pid)
    listening = [c.laddr for c in process.net_connections(kind="inet") if c.status == psutil.CONN_LISTEN]
    assert [(a.ip, a.port) for a in listening] == [("127.0.0.1", state.port)]
    assert process.net_connections(kind="unix") == []


def test_a_connection_without_the_right_password_is_refused_for_every_role(home: Path) -> None:
    port = server.start(home).port
    for role in Role:
        for password in ("", "wrong"):
            with pytest.raises(psycopg.OperationalError, match="password"):
                psycopg.connect(host="127.0.0.1", port=port, user=role.value, password=password, dbname="postgres")


def test_no_program_of_the_server_may_use_a_socket_or_another_host(home: Path) -> None:
    data = server.start(home).data_dir
    assert data is not None
    lines = [line for line in (data / "pg_hba.conf").read_text().splitlines() if not line.startswith("#")]
    assert lines == ["host all all 127.0.0.1/32 scram-sha-256"]


def test_passwords_are_private_to_their_owner_and_loose_modes_are_tightened(home: Path) -> None:
    server.start(home)
    path = password_file(home)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    server.start(home)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_stop_ends_the_server_and_may_be_called_again(home: Path) -> None:
    pid = server.start(home).pid
    assert pid is not None
    assert server.stop(home)
    assert _over(pid)
    assert server.status(home).state == "stopped"
    assert not server.stop(home)


def test_a_home_without_a_server_is_absent_and_stopping_it_makes_nothing() -> None:
    empty = make_home("empty")
    assert server.status(empty).state == "absent"
    assert not server.stop(empty)
    assert list(empty.iterdir()) == []
    empty.rmdir()


def test_a_port_taken_by_somebody_else_is_left_to_them(home: Path) -> None:
    _stopped(home)
    port = server.status(home).port
    assert port is not None
    with socket.create_server(("127.0.0.1", port)):
        moved = server.start(home)
        assert moved.port not in (None, port)
        with embedded_database(home).admin(dbname="postgres") as conn:
            assert conn.info.port == moved.port
    server.stop(home)
    assert server.start(home).port == moved.port


def test_a_port_taken_while_the_server_starts_is_given_up(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _stopped(home)
    with socket.create_server(("127.0.0.1", 0)) as stranger, socket.create_server(("127.0.0.1", 0)) as probe:
        taken, free = stranger.getsockname()[1], probe.getsockname()[1]
        probe.close()
        monkeypatch.setattr(server, "candidate_ports", lambda *_: iter([taken, free]))
        assert server.start(home).port == free


def test_a_pid_file_that_names_a_stranger_neither_fools_nor_hurts(home: Path) -> None:
    folder = _stopped(home)
    with subprocess.Popen(["sleep", "600"]) as stranger:
        lines = [stranger.pid, folder / "data", 1, 5432, "", "127.0.0.1", "", "ready"]
        (folder / "data" / "postmaster.pid").write_text("\n".join(map(str, lines)) + "\n")
        assert server.status(home).state == "stopped"
        assert not server.stop(home)
        assert server.start(home).state == "running"
        assert stranger.poll() is None
        stranger.kill()


def test_the_server_of_another_home_is_not_taken_for_ones_own(home: Path, database: Database) -> None:
    folder = _stopped(home)
    theirs = server.start(database.home)
    assert theirs.data_dir is not None
    (folder / "data" / "postmaster.pid").write_bytes((theirs.data_dir / "postmaster.pid").read_bytes())
    assert server.status(home).state == "stopped"
    assert not server.stop(home)
    assert server.start(home).pid != theirs.pid
    assert server.status(database.home) == theirs


def test_a_copy_of_a_home_gets_a_server_of_its_own_and_the_original_runs_on(home: Path) -> None:
    original = server.start(home)
    copy = make_home("copy")
    with embedded_database(home).admin(dbname="postgres") as conn:
        # Only a copy of a running data directory, not a backup: it brings the pid file and the name along.
        conn.execute("checkpoint")
        _copy_tree(home, copy)
        try:
            assert server.status(copy).state == "stopped"
            assert not server.stop(copy)
            assert server.start(copy).port != original.port
            assert conn.execute("select 1").fetchone() == (1,)
            assert server.status(home) == original
        finally:
            remove_home(copy)


def _copy_tree(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", f"{source}/.", str(target)], check=True)


def test_a_server_that_does_not_start_shows_its_log_and_a_remedy(home: Path) -> None:
    folder = _stopped(home)
    own = folder / "data" / "user.conf"
    own.write_text("shared_buffers = plenty\n")
    own.chmod(0o644)
    try:
        with pytest.raises(DatabaseError, match="shared_buffers") as caught:
            server.start(home)
        assert "server.log" in caught.value.remedy
        assert server.status(home).state == "stopped"
    finally:
        own.unlink()
    assert server.start(home).state == "running"


def test_programs_of_another_major_version_are_refused(home: Path) -> None:
    older = binaries_folder().parent.parent / "pginstall" / "bin"
    if usable_by(server_account(None), older) is None:
        pytest.skip("the installed package has one major version of PostgreSQL only")
    _stopped(home)
    with pytest.raises(DatabaseError, match="another PostgreSQL") as caught:
        server.start(home, pg_bin=older)
    assert "ZEROTH_PG_BIN" in caught.value.remedy


def test_a_folder_without_the_programs_is_refused(tmp_path: Path, home: Path) -> None:
    _stopped(home)
    with pytest.raises(DatabaseError, match="no initdb and no postgres"):
        server.start(home, pg_bin=tmp_path)


def test_the_server_outlives_its_starter_and_holds_nothing_of_it(home: Path, tmp_path: Path) -> None:
    _stopped(home)
    marker = tmp_path / "marker"
    script = f"import os\nopened = open({str(marker)!r}, 'w')\nos.set_inheritable(opened.fileno(), True)\n{START}"
    # communicate() ends when the last holder of the pipe is gone: a server that kept it would hang this test.
    done = subprocess.run(python_script(script, home), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    pid = server.status(home).pid
    assert pid == int(done.stdout)
    assert os.getsid(pid) not in (os.getsid(0), 0)
    held = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()] if Path("/proc").is_dir() else []
    assert not [target for target in held if "marker" in target or target.startswith("/dev/pts")]
    assert not [target for target in held if "server.lock" in target]


def test_four_processes_that_start_at_once_get_one_server_and_destroy_leaves_nothing() -> None:
    fresh = make_home("race")
    try:
        starters = [subprocess.Popen(python_script(START, fresh), stdout=subprocess.PIPE, text=True) for _ in range(4)]
        pids = {starter.communicate(timeout=120)[0].strip() for starter in starters}
        assert [starter.returncode for starter in starters] == [0] * 4
        pid = server.status(fresh).pid
        assert pid is not None
        assert pids == {str(pid)}
        server.destroy(fresh)
        assert list(fresh.iterdir()) == []
        assert _over(pid)
    finally:
        remove_home(fresh)


def test_a_damaged_record_is_named_and_not_overwritten(home: Path) -> None:
    _stopped(home)
    path = place.record_file(home)
    kept = path.read_text()
    path.write_text('{"cluster_id": 7}')
    with pytest.raises(DatabaseError, match="cluster_id") as caught:
        server.start(home)
    assert str(path) in str(caught.value)
    path.write_text(kept)
    assert server.start(home).state == "running"


def test_a_lock_that_is_held_too_long_is_an_error_that_says_so(home: Path) -> None:
    hold = "from zeroth_assets.store.server import home_lock\nwith home_lock(home):\n    print(1, flush=True); input()"
    with subprocess.Popen(
        python_script(hold, home), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "1\n"
        with pytest.raises(DatabaseError, match="starting or stopping"), server.home_lock(home, seconds=0.1):
            pass
        holder.kill()
    with server.home_lock(home, seconds=30):
        pass
