"""Who runs the server: as root an unprivileged system user, otherwise ourselves; and what that leaves untouched."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store import place, server
from zeroth_assets.store.accounts import Account, reaches, server_account
from zeroth_assets.store.binaries import binaries_folder, copy_binaries, usable_by
from zeroth_assets.store.connect import Database, embedded_database
from zeroth_assets.store.process import ended
from zeroth_assets_tests.database_fixtures import make_home, remove_home
from zeroth_assets_tests.store.helpers import until

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes users")
NOBODY = Account("nobody", 65534, 65534, switch=True)


def _modes(path: Path) -> dict[Path, tuple[int, int, int]]:
    found = {}
    for parent in (path, *path.parents):
        info = parent.stat()
        found[parent] = (info.st_mode, info.st_uid, info.st_gid)
    return found


@as_root
def test_as_root_the_server_runs_as_a_system_user_without_our_groups(database: Database) -> None:
    state = server.status(database.home)
    assert state.pid is not None
    process = psutil.Process(state.pid)
    account = server_account(None)
    assert set(process.uids()) == {account.uid}
    assert set(process.gids()) == {account.gid}
    groups = [line for line in Path(f"/proc/{state.pid}/status").read_text().splitlines() if line.startswith("Groups:")]
    assert groups[0].split()[1:] == []


@as_root
def test_the_data_is_private_and_the_passwords_are_roots(database: Database) -> None:
    folder = database.home / "postgres"
    assert stat.S_IMODE((folder / "cluster").stat().st_mode) == 0o700
    assert (folder / "passwords.json").stat().st_uid == 0
    assert not reaches(NOBODY, folder / "cluster") or server_account(None).name == "nobody"


@as_root
def test_a_home_below_a_private_folder_gets_its_data_elsewhere_and_no_mode_changes(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    home = private / "deep" / "home"
    home.mkdir(parents=True)
    before = _modes(home)
    try:
        state = server.start(home)
        assert state.data_dir is not None
        assert home not in state.data_dir.parents
        record = place.read_record(home)
        assert record is not None
        assert record.base == str(state.data_dir.parent.parent)
        cluster = state.data_dir.parent.stat()
        assert (stat.S_IMODE(cluster.st_mode), cluster.st_uid) == (0o700, server_account(None).uid)
        assert _modes(home) == before
        with embedded_database(home).admin(dbname="postgres") as conn:
            assert conn.execute("select 1").fetchone() == (1,)
        server.stop(home)
        assert server.start(home).data_dir == state.data_dir
        # Somebody who swaps the folder for a link, or opens it, is found out.
        server.stop(home)
        state.data_dir.parent.chmod(0o755)
        with pytest.raises(DatabaseError, match="is not the folder"):
            server.start(home)
        state.data_dir.parent.chmod(0o700)
        moved = state.data_dir.parent.rename(state.data_dir.parent.with_name("moved"))
        state.data_dir.parent.symlink_to(moved)
        with pytest.raises(DatabaseError, match="is not the folder"):
            server.status(home)
        state.data_dir.parent.unlink()
        moved.rename(state.data_dir.parent)
        assert server.start(home).state == "running"
    finally:
        server.destroy(home)
    assert not Path(str(record.base)).exists()


@pytest.fixture
def nobodys_home() -> Iterator[Path]:
    if usable_by(NOBODY, binaries_folder()) is None:
        pytest.skip("PostgreSQL's programs lie where an ordinary user cannot reach them")
    home = make_home("nobody")
    os.chown(home, NOBODY.uid, NOBODY.gid)
    yield home
    remove_home(home)


def _as_nobody(work: Callable[[], object]) -> str:
    """The text of what `work` gives, or raises, in a child process that has given up root for good."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        text = ""
        try:
            os.setgroups([])
            os.setgid(NOBODY.gid)
            os.setuid(NOBODY.uid)
            text = str(work())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        finally:
            os.write(writer, text.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    return text


@as_root
def test_an_ordinary_users_home_keeps_its_owner_when_root_starts_the_server(nobodys_home: Path) -> None:
    home = nobodys_home
    assert _as_nobody(lambda: (server.start(home).state, server.stop(home))) == "('running', True)"
    state = server.start(home)
    assert state.pid is not None
    assert psutil.Process(state.pid).uids().real == NOBODY.uid
    assert {path.lstat().st_uid for path in home.rglob("*")} == {NOBODY.uid}
    server.stop(home)
    assert _as_nobody(lambda: (server.start(home).state, server.stop(home))) == "('running', True)"


@as_root
def test_an_ordinary_user_has_a_server_of_their_own_in_a_home_closed_to_others(nobodys_home: Path) -> None:
    nobodys_home.chmod(0o700)

    def life() -> object:
        db = embedded_database(nobodys_home)
        db.ensure_databases()
        postmaster = psutil.Process(server.status(nobodys_home).pid)
        postmaster.kill()
        until(lambda: ended(postmaster))
        with embedded_database(nobodys_home).app() as conn:
            row = conn.execute("select current_user").fetchone()
        return row, postmaster.pid != server.status(nobodys_home).pid, server.stop(nobodys_home)

    assert _as_nobody(life) == "(('zeroth_app',), True, True)"


@as_root
def test_an_ordinary_user_is_told_that_roots_home_is_not_theirs(database: Database) -> None:
    for work in (server.start, server.stop, server.status, embedded_database):
        text = _as_nobody(partial(work, database.home))
        assert text.startswith("DatabaseError"), (work, text)
        assert "set ZEROTH_HOME to a folder of your own" in text
    assert server.status(database.home).state == "running"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    folder = make_home("programs")
    yield folder
    shutil.rmtree(folder)


@as_root
def test_programs_out_of_the_users_reach_are_copied_and_run(open_folder: Path, tmp_path: Path) -> None:
    account = server_account(None)
    source = binaries_folder()
    hidden = tmp_path / source.parent.parent.name / source.parent.name
    for part in ("bin", "lib", "share"):
        shutil.copytree(source.parent / part, hidden / part)
    libraries = source.parent.parent.with_name(f"{source.parent.parent.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, tmp_path / libraries.name)
    tmp_path.chmod(0o700)
    assert usable_by(account, hidden / "bin") is None
    copied = copy_binaries(hidden / "bin", open_folder / "programs", account)
    assert open_folder in copied.folder.parents
    assert usable_by(account, copied.folder) == copied
    stamp = (copied.folder / "postgres").stat().st_mtime_ns
    assert copy_binaries(hidden / "bin", open_folder / "programs", account) == copied
    assert (copied.folder / "postgres").stat().st_mtime_ns == stamp
    assert {path.lstat().st_uid for path in (open_folder / "programs").rglob("*")} == {0}


@as_root
def test_a_full_disk_is_named_and_the_start_works_once_there_is_room() -> None:
    home = make_home("full")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=0711", "tmpfs", str(home)]).returncode == 0
    try:
        if not mounted:
            pytest.skip("this machine lets root mount nothing")
        with pytest.raises(DatabaseError, match="No space left") as caught:
            server.start(home)
        assert "make room" in caught.value.remedy
        assert list((home / "postgres" / "cluster").glob("init-*")) == []
        subprocess.run(["mount", "-o", "remount,size=200m", str(home)], check=True)
        assert server.start(home).state == "running"
    finally:
        remove_home(home)
        if mounted:
            subprocess.run(["umount", str(home)], check=True)
        shutil.rmtree(home, ignore_errors=True)
