from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroth_assets.artefacts import ArtefactStore, check_partition_key, fingerprint_of, write_atomic
from zeroth_assets.errors import ArtefactError

FRAME = pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None]})
ABOUT: dict[str, Any] = {"describes": "A frame.", "code_version": "1", "code": "tests", "inputs": {"up": "f" * 64}}


@pytest.fixture
def store(tmp_path: Path) -> ArtefactStore:
    return ArtefactStore(tmp_path / "artefacts")


def test_a_published_frame_reads_back_equal_and_its_sidecar_says_what_it_is(store: ArtefactStore) -> None:
    sidecar = store.write_frame(FRAME, "chunks", "rfc-tls", **ABOUT)
    assert store.read_frame("chunks", "rfc-tls").equals(FRAME)
    assert store.sidecar("chunks", "rfc-tls") == sidecar
    assert sidecar.rows == 3
    assert sidecar.fingerprint == fingerprint_of("1", {"up": "f" * 64}, {})
    assert sidecar.generated_by["command"] == "zeroth materialize --asset chunks --partition rfc-tls"


def test_a_matrix_reads_back_equal(store: ArtefactStore) -> None:
    matrix = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert store.write_matrix(matrix, "embeddings", "t", **ABOUT).rows == 4
    assert np.array_equal(store.read_matrix("embeddings", "t"), matrix)


def test_the_same_frame_has_the_same_data_version(store: ArtefactStore) -> None:
    first = store.write_frame(FRAME, "x", **ABOUT)
    second = store.write_frame(FRAME, "x", **ABOUT)
    assert first.sha256 == second.sha256
    assert store.exists("x")


def test_publishing_again_removes_the_former_data_file(store: ArtefactStore, tmp_path: Path) -> None:
    store.write_frame(FRAME, "x", "p", **ABOUT)
    store.write_frame(FRAME.head(1), "x", "p", **ABOUT)
    assert len(list((tmp_path / "artefacts" / "x").glob("p.*.parquet"))) == 1
    assert store.read_frame("x", "p").height == 1


def test_an_artefact_never_published_names_the_command_that_makes_it(store: ArtefactStore) -> None:
    with pytest.raises(ArtefactError, match="run `zeroth materialize`"):
        store.read_frame("chunks", "rfc-tls")
    store.write_frame(FRAME, "x", "p", **ABOUT)
    with pytest.raises(ArtefactError, match="zeroth materialize --asset chunks --partition rfc-tls"):
        store.read_frame("chunks", "rfc-tls")


def test_an_artefact_deleted_by_hand_names_itself_and_the_command_that_restores_it(
    store: ArtefactStore, tmp_path: Path
) -> None:
    sidecar = store.write_frame(FRAME, "chunks", "rfc-tls", **ABOUT)
    (tmp_path / "artefacts" / "chunks" / sidecar.file).unlink()
    assert not store.exists("chunks", "rfc-tls")
    with pytest.raises(ArtefactError, match=r"chunks/rfc-tls is missing.*--partition rfc-tls"):
        store.read_frame("chunks", "rfc-tls")


def test_a_changed_byte_is_found_when_the_artefact_is_read(store: ArtefactStore, tmp_path: Path) -> None:
    sidecar = store.write_frame(FRAME, "chunks", **ABOUT)
    path = tmp_path / "artefacts" / "chunks" / sidecar.file
    payload = bytearray(path.read_bytes())
    payload[len(payload) // 2] ^= 1
    path.write_bytes(payload)
    with pytest.raises(ArtefactError, match="damaged"):
        store.read_bytes("chunks")


def test_a_damaged_sidecar_is_named(store: ArtefactStore, tmp_path: Path) -> None:
    store.write_frame(FRAME, "chunks", **ABOUT)
    (tmp_path / "artefacts" / "chunks" / "_.meta.json").write_text("{")
    with pytest.raises(ArtefactError, match="sidecar of chunks cannot be read"):
        store.sidecar("chunks")


@pytest.mark.parametrize("key", ["../x", "/abs", "", ".hidden", "A", "a b", "a/b", "a" * 64, "ä", "a\n", "-a"])
def test_partition_keys_that_could_leave_the_folder_are_refused(store: ArtefactStore, key: str) -> None:
    with pytest.raises(ArtefactError, match="is refused"):
        store.write_frame(FRAME, "x", key, **ABOUT)
    with pytest.raises(ArtefactError, match="is refused"):
        store.sidecar("x", key)


@given(st.text(max_size=70))
def test_a_key_that_passes_is_one_plain_file_name(key: str) -> None:
    try:
        check_partition_key(key)
    except ArtefactError:
        return
    assert key == Path(key).name
    assert key not in (".", "..")
    assert "\x00" not in key


def test_partitions_lists_what_was_published(store: ArtefactStore) -> None:
    assert store.partitions("x") == ()
    store.write_frame(FRAME, "x", **ABOUT)
    for key in ("b", "a", "a.b"):
        store.write_frame(FRAME, "x", key, **ABOUT)
    assert store.partitions("x") == ("a", "a.b", "b")


def test_remove_withdraws_sidecar_and_data(store: ArtefactStore, tmp_path: Path) -> None:
    store.write_frame(FRAME, "x", "p", **ABOUT)
    store.remove("x", "p")
    store.remove("x", "p")
    assert [p for p in (tmp_path / "artefacts" / "x").iterdir() if p.suffix != ".lock"] == []


def test_an_object_store_serves_as_well(tmp_path: Path) -> None:
    store = ArtefactStore("memory://artefacts-test")
    store.write_frame(FRAME, "x", "p", **ABOUT)
    store.write_frame(FRAME.head(2), "x", "p", **ABOUT)
    assert store.read_frame("x", "p").height == 2
    assert store.partitions("x") == ("p",)


def test_fingerprint_does_not_depend_on_order_and_depends_on_every_part() -> None:
    base = fingerprint_of("1", {"a": "x", "b": "y"}, {"k": 1, "l": [2]})
    assert fingerprint_of("1", {"b": "y", "a": "x"}, {"l": [2], "k": 1}) == base
    assert fingerprint_of("2", {"a": "x", "b": "y"}, {"k": 1, "l": [2]}) != base
    assert fingerprint_of("1", {"a": "x", "b": "z"}, {"k": 1, "l": [2]}) != base
    assert fingerprint_of("1", {"a": "x", "b": "y"}, {"k": 2, "l": [2]}) != base


def test_a_failed_write_leaves_the_former_file_and_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    write_atomic(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_a_killed_writer_leaves_an_artefact_that_is_whole(tmp_path: Path) -> None:
    """Kill a process that publishes two frames in turn; whichever is in force must verify."""
    program = textwrap.dedent(
        f"""
        import polars as pl
        from zeroth_assets.artefacts import ArtefactStore
        store = ArtefactStore({str(tmp_path / "artefacts")!r})
        about = dict(describes="d", code_version="1", code="c")
        frames = [pl.DataFrame({{"a": list(range(n))}}) for n in (20_000, 30_000)]
        store.write_frame(frames[0], "x", "p", **about)
        print("ready", flush=True)
        while True:
            for frame in frames:
                store.write_frame(frame, "x", "p", **about)
        """
    )
    for spins in range(4):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            for _ in range(spins * 50_000):
                pass
            process.send_signal(signal.SIGKILL)
        store = ArtefactStore(tmp_path / "artefacts")
        assert store.read_frame("x", "p").height in (20_000, 30_000)


def test_the_sidecar_is_plain_json(store: ArtefactStore, tmp_path: Path) -> None:
    store.write_frame(FRAME, "x", "p", **ABOUT)
    content = json.loads((tmp_path / "artefacts" / "x" / "p.meta.json").read_text())
    assert {"describes", "generated_by", "inputs", "sha256", "fingerprint"} <= content.keys()


def test_the_owner_alone_reads_artefacts_and_the_folder_above_stays_open(tmp_path: Path) -> None:
    home = tmp_path / "home"
    ArtefactStore(home / "artefacts").write_frame(FRAME, "chunks", "rfc-tls", **ABOUT)
    (tmp_path / "plain").mkdir()
    assert home.stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert stat.S_IMODE((home / "artefacts").stat().st_mode) == 0o700
    written = [p for p in home.rglob("*") if p.is_file() and p.suffix != ".lock"]
    assert len(written) == 2
    assert {stat.S_IMODE(p.stat().st_mode) for p in written} == {0o600}


def test_a_folder_that_is_there_keeps_the_mode_that_its_owner_gave_it(tmp_path: Path) -> None:
    (tmp_path / "artefacts").mkdir()
    (tmp_path / "artefacts").chmod(0o750)
    ArtefactStore(tmp_path / "artefacts").write_frame(FRAME, "chunks", "rfc-tls", **ABOUT)
    assert stat.S_IMODE((tmp_path / "artefacts").stat().st_mode) == 0o750


def test_a_local_artefact_can_be_mapped_and_its_stamp_changes_with_every_publication(store: ArtefactStore) -> None:
    assert store.stamp("blob") is None
    published = {}
    for payload in (b"one", b"two", b"one"):
        store.write_bytes(payload, ".bin", "blob", describes="d", code_version="1", code="c", rows=1)
        path = store.local_path("blob")
        assert path is not None
        assert path.read_bytes() == payload
        published[store.stamp("blob")] = payload
    assert len(published) == 3
    assert store.stamp("blob") == store.stamp("blob")


def test_an_artefact_that_lies_elsewhere_has_no_local_path() -> None:
    store = ArtefactStore("memory://stamps")
    store.write_bytes(b"one", ".bin", "blob", describes="d", code_version="1", code="c", rows=1)
    assert store.local_path("blob") is None
    assert store.stamp("blob") is not None
