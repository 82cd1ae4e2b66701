"""Artefacts: files that a stage publishes, each with a sidecar that says what it is and where it came from.

What belongs here: writing (temp, fsync, rename), reading with verification, and the sidecar. The store is a folder or
any fsspec URL. Nothing here knows what a frame means.

An artefact `name/partition` is one data file and one sidecar, `<data file>.meta.json`. The data file's name carries
its own sha256, and the sidecar is written last: a reader who finds a sidecar finds the bytes that it describes, and a
process killed half-way leaves the former artefact in force.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import uuid
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, cast

import fsspec
import numpy as np
import polars as pl
from filelock import FileLock
from numpy.typing import NDArray

from zeroth_assets import __version__
from zeroth_assets.errors import ArtefactError

PARTITION_KEY = re.compile(r"^[a-z0-9][a-z0-9._-]{0,62}$")


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What stands beside an artefact.

    `fingerprint` identifies the work that made it (code version, parameters, the data versions of what went in): if it
    equals the one expected now, the artefact is fresh. `sha256` is of the data file and is the data version.
    """

    artefact: str
    partition: str | None
    describes: str
    file: str
    sha256: str
    bytes: int
    rows: int
    code_version: str
    fingerprint: str
    inputs: dict[str, str]
    parameters: dict[str, Any]
    generated_by: dict[str, str]
    created_at: str
    details: dict[str, Any] = field(default_factory=dict)


def fingerprint_of(code_version: str, inputs: Mapping[str, str], parameters: Mapping[str, Any]) -> str:
    """sha256 (hex) over code version, data versions of the inputs, and parameters, independent of order."""
    payload = {"code_version": code_version, "inputs": dict(inputs), "parameters": dict(parameters)}
    return hashlib.sha256(json.dumps(payload, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def check_partition_key(key: str) -> str:
    """Return `key` if it may be a partition key (it becomes part of file names).

    Raises:
        ArtefactError: it breaks the rule, `../x` and `/abs` included.
    """
    if not PARTITION_KEY.fullmatch(key):
        raise ArtefactError(
            f"Partition key {key!r} is refused",
            expected="lower-case letters, digits, '.', '_' and '-', first a letter or digit, at most 63 characters",
            found=repr(key),
            remedy="name one of the keys that `zeroth corpus tenants` lists",
        )
    return key


class ArtefactStore:
    """Artefacts under one root, a local folder or an fsspec URL such as `s3://bucket/prefix`."""

    def __init__(self, root: str | Path) -> None:
        self._fs, self._root = fsspec.core.url_to_fs(str(root))
        self._local = "file" in ([self._fs.protocol] if isinstance(self._fs.protocol, str) else self._fs.protocol)

    @property
    def root(self) -> str:
        """The root, without a protocol."""
        return cast(str, self._root)

    def sidecar(self, artefact: str, partition: str | None = None) -> Sidecar | None:
        """The sidecar in force, or None where the artefact was never published.

        Raises:
            ArtefactError: a sidecar is there and cannot be read.
        """
        path = self._sidecar_path(artefact, partition)
        try:
            with self._fs.open(path, "rb") as handle:
                payload = handle.read()
        except FileNotFoundError:
            return None
        try:
            return Sidecar(**json.loads(payload))
        except (ValueError, TypeError) as error:
            raise ArtefactError(
                f"The sidecar of {_label(artefact, partition)} cannot be read",
                expected="the JSON object that this version of zeroth-assets writes",
                found=f"{error} in {path}",
                remedy=f"remove it and run `{_restore_command(artefact, partition)}`",
            ) from error

    def partitions(self, artefact: str) -> tuple[str, ...]:
        """Partition keys of `artefact` that have a sidecar, sorted."""
        suffix = ".meta.json"
        try:
            names = [Path(p).name for p in self._fs.ls(f"{self._root}/{artefact}", detail=False)]
        except FileNotFoundError:
            return ()
        return tuple(sorted(n.removesuffix(suffix) for n in names if n.endswith(suffix) and n != f"_{suffix}"))

    def exists(self, artefact: str, partition: str | None = None) -> bool:
        """Whether sidecar and data file are both there (the file's size included, its checksum not)."""
        sidecar = self.sidecar(artefact, partition)
        if sidecar is None:
            return False
        try:
            return int(self._fs.size(self._data_path(sidecar))) == sidecar.bytes
        except FileNotFoundError:
            return False

    def read_bytes(self, artefact: str, partition: str | None = None) -> bytes:
        """The data file's bytes, verified against the sidecar.

        Raises:
            ArtefactError: never published, gone, or changed since; the message names the command that restores it.
        """
        sidecar = self.require(artefact, partition)
        try:
            with self._fs.open(self._data_path(sidecar), "rb") as handle:
                payload = cast(bytes, handle.read())
        except FileNotFoundError as error:
            raise self._missing(artefact, partition, "the sidecar is there, the data file is not") from error
        found = hashlib.sha256(payload).hexdigest()
        if found != sidecar.sha256:
            raise ArtefactError(
                f"Artefact {_label(artefact, partition)} is damaged",
                expected=f"sha256 {sidecar.sha256}",
                found=f"sha256 {found} in {self._data_path(sidecar)}",
                remedy=f"remove the file and run `{_restore_command(artefact, partition)}`",
            )
        return payload

    def local_path(self, artefact: str, partition: str | None = None) -> Path | None:
        """Where the data file lies, to be memory-mapped; None where the store is not on this machine.

        The bytes are **not** verified: compare them with the sidecar's sha256 before they are believed.

        Raises:
            ArtefactError: the artefact was never published.
        """
        sidecar = self.require(artefact, partition)
        return Path(self._data_path(sidecar)) if self._local else None

    def stamp(self, artefact: str, partition: str | None = None) -> tuple[int | str, ...] | None:
        """Changes whenever the artefact is published anew; None where there is none. Cheap on a local folder.

        For caches: what was read under one stamp may be used again while the stamp is the same.
        """
        if not self._local:
            sidecar = self.sidecar(artefact, partition)
            return None if sidecar is None else (sidecar.sha256, sidecar.created_at)
        try:
            found = Path(self._sidecar_path(artefact, partition)).stat()
        except FileNotFoundError:
            return None
        # A sidecar is replaced by renaming another file over it.
        return (found.st_ino, found.st_mtime_ns, found.st_size)

    def read_frame(self, artefact: str, partition: str | None = None, columns: list[str] | None = None) -> pl.DataFrame:
        """The artefact as a Polars frame. Raises as `read_bytes`."""
        return pl.read_parquet(io.BytesIO(self.read_bytes(artefact, partition)), columns=columns)

    def read_matrix(self, artefact: str, partition: str | None = None) -> NDArray[np.float32]:
        """The artefact as a float32 array. Raises as `read_bytes`."""
        return cast(
            "NDArray[np.float32]", np.load(io.BytesIO(self.read_bytes(artefact, partition)), allow_pickle=False)
        )

    def require(self, artefact: str, partition: str | None = None) -> Sidecar:
        """The sidecar in force.

        Raises:
            ArtefactError: the artefact was never published.
        """
        sidecar = self.sidecar(artefact, partition)
        if sidecar is None:
            raise self._missing(artefact, partition, "no sidecar")
        return sidecar

    def write_frame(self, frame: pl.DataFrame, artefact: str, partition: str | None = None, **about: Any) -> Sidecar:
        """Publish a frame as Parquet (zstd). `about` as for `write_bytes`; `rows` is the frame's height."""
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression="zstd", row_group_size=about.pop("row_group_size", 8192))
        return self.write_bytes(buffer.getvalue(), ".parquet", artefact, partition, rows=frame.height, **about)

    def write_matrix(
        self, matrix: NDArray[np.float32], artefact: str, partition: str | None = None, **about: Any
    ) -> Sidecar:
        """Publish an array as `.npy`. `about` as for `write_bytes`; `rows` is the array's first dimension."""
        buffer = io.BytesIO()
        np.save(buffer, matrix, allow_pickle=False)
        return self.write_bytes(buffer.getvalue(), ".npy", artefact, partition, rows=matrix.shape[0], **about)

    def write_bytes(
        self,
        payload: bytes,
        suffix: str,
        artefact: str,
        partition: str | None = None,
        *,
        describes: str,
        code_version: str,
        code: str,
        rows: int,
        inputs: Mapping[str, str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> Sidecar:
        """Publish `payload`: data file first, then the sidecar, each temp -> fsync -> rename.

        `describes` is one sentence; `code` the dotted path of the function that made it; `inputs` maps
        `artefact[/partition]` to data version. The former data file is removed once the new sidecar is in force.

        Raises:
            ArtefactError: the disk is full or refuses; the former artefact stays in force.
        """
        inputs, parameters = dict(inputs or {}), dict(parameters or {})
        sha256 = hashlib.sha256(payload).hexdigest()
        stem = f"{self._root}/{artefact}/{_file_stem(partition)}"
        sidecar = Sidecar(
            artefact=artefact,
            partition=partition,
            describes=describes,
            file=f"{_file_stem(partition)}.{sha256[:16]}{suffix}",
            sha256=sha256,
            bytes=len(payload),
            rows=rows,
            code_version=code_version,
            fingerprint=fingerprint_of(code_version, inputs, parameters),
            inputs=inputs,
            parameters=parameters,
            generated_by={
                "code": code,
                "command": _restore_command(artefact, partition),
                "commit": source_commit(),
                "version": __version__,
            },
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            details=dict(details or {}),
        )
        try:
            if self._local:
                private_folder(Path(self.root))
            self._fs.makedirs(f"{self._root}/{artefact}", exist_ok=True)
            with self._writing(stem):
                self._publish(sidecar, payload, stem, suffix)
        except OSError as error:
            raise ArtefactError(
                f"Artefact {_label(artefact, partition)} cannot be written",
                expected=f"room for {len(payload)} bytes, and leave to write, under {self._root}",
                found=str(error),
                remedy="free disk space or mend the folder, and run the same command again; the former stays in force",
            ) from error
        return sidecar

    def _publish(self, sidecar: Sidecar, payload: bytes, stem: str, suffix: str) -> None:
        former = self.sidecar(sidecar.artefact, sidecar.partition)
        self._put(f"{stem}.{sidecar.sha256[:16]}{suffix}", payload)
        self._put(f"{stem}.meta.json", json.dumps(asdict(sidecar), indent=1, sort_keys=True).encode())
        if former is not None and former.file != sidecar.file:
            with contextlib.suppress(FileNotFoundError):
                self._fs.rm_file(self._data_path(former))

    def _writing(self, stem: str) -> AbstractContextManager[object]:
        """Two writers of one artefact take turns, or one could remove the file that the other's sidecar names."""
        return FileLock(f"{stem}.lock") if self._local else contextlib.nullcontext()

    def remove(self, artefact: str, partition: str | None = None) -> None:
        """Withdraw an artefact: sidecar first, then data. Absent is fine."""
        sidecar = self.sidecar(artefact, partition)
        for path in (self._sidecar_path(artefact, partition), self._data_path(sidecar) if sidecar else None):
            if path is not None and self._fs.exists(path):
                self._fs.rm_file(path)

    def _put(self, path: str, payload: bytes) -> None:
        if not self._local:
            self._fs.pipe_file(path, payload)  # object stores publish a whole object or none
            return
        write_atomic(Path(path), payload)

    def _data_path(self, sidecar: Sidecar) -> str:
        return f"{self._root}/{sidecar.artefact}/{sidecar.file}"

    def _sidecar_path(self, artefact: str, partition: str | None) -> str:
        return f"{self._root}/{artefact}/{_file_stem(partition)}.meta.json"

    def _missing(self, artefact: str, partition: str | None, found: str) -> ArtefactError:
        # One asset alone cannot be made where nothing is that it stands on.
        nothing = not any(Path(self._root).glob("*/*.meta.json"))
        return ArtefactError(
            f"Artefact {_label(artefact, partition)} is missing",
            expected=f"its data file and sidecar under {self._root}/{artefact}",
            found="nothing was materialised here yet" if nothing else found,
            remedy=f"run `{'zeroth materialize' if nothing else _restore_command(artefact, partition)}`",
        )


def private_folder(path: Path) -> None:
    """Make a folder that its owner alone can enter. One that is there keeps its mode, as do those above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)


def private_file(path: Path) -> None:
    """Make an empty file that its owner alone can read, for a library that would make it world-readable.

    One that is there is not even opened: closing it would drop the locks that SQLite holds on it in this process.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def write_atomic(path: Path, payload: bytes, mode: int = 0o600) -> None:
    """Write `payload` to `path`: a temporary file beside it, fsync, rename, fsync of the folder.

    Most of what is written is text of documents, or tells of it: the owner alone reads it unless `mode` says otherwise.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.part")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(payload)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@cache
def source_commit() -> str:
    """The checkout's commit with `+changes` where it differs, or the package version outside a checkout."""
    folder = Path(__file__).resolve().parent
    if not (folder.parent / ".git").exists():
        return f"v{__version__}"
    try:
        described = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty=+changes", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return f"v{__version__}"
    return described.stdout.strip()


def _file_stem(partition: str | None) -> str:
    return "_" if partition is None else check_partition_key(partition)


def _label(artefact: str, partition: str | None) -> str:
    return artefact if partition is None else f"{artefact}/{partition}"


def _restore_command(artefact: str, partition: str | None) -> str:
    command = f"zeroth materialize --asset {artefact}"
    return command if partition is None else f"{command} --partition {partition}"
