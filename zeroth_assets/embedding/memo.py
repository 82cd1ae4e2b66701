"""The memo: nothing is embedded twice.

What belongs here: a table from (hash of a text, fingerprint) to its vector, in one SQLite file, and the loop that
embeds what the table lacks. The file holds no text: hashes and vectors alone. (A vector tells something of its text;
the file belongs under ZEROTH_HOME with the rest of the state.)

It is a cache, and not trusted: a row counts only with the checksum that was stored with it, and as a finite unit
vector; any other is a miss and is replaced. A checksum tells of decay and of careless edits, not of malice: who can
write the file can write checksums. Against that, a few hits a call are embedded again and compared. Losing the file
costs time and no result; it may be deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from zeroth_assets.artefacts import private_file, private_folder
from zeroth_assets.embedding.engines import DEFAULT_BATCH, FloatArray
from zeroth_assets.embedding.fingerprint import Fingerprint
from zeroth_assets.embedding.verify import NORM_TOLERANCE
from zeroth_assets.errors import EmbeddingError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS fingerprint (id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE IF NOT EXISTS vector (
    fingerprint_id INTEGER NOT NULL REFERENCES fingerprint,
    text_sha256 BLOB NOT NULL,
    vector BLOB NOT NULL,
    checksum BLOB NOT NULL,
    PRIMARY KEY (fingerprint_id, text_sha256)
) STRICT;
"""
# A file of before checksums: its vectors took hours, and are held to be finite, of unit length and, by sample, right.
_MIGRATION = """
ALTER TABLE vector ADD COLUMN checksum BLOB NOT NULL DEFAULT x'';
UPDATE vector SET checksum = checksum_of(
    text_sha256, (SELECT digest FROM fingerprint WHERE id = fingerprint_id), vector
);
"""
_AT_ONCE = 500
_BUSY_SECONDS = 60.0
_COMMIT_EVERY = 256
_CHECKED_HITS = 4
_LEAST_COSINE = 0.999  # engines' own noise (`encoder.TOLERANCE`) stays far above it


class TextEncoder(Protocol):
    """What the memo asks of an encoder."""

    @property
    def fingerprint(self) -> Fingerprint:
        """What its vectors may be compared with."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    def encode(self, texts: Sequence[str], *, batch: int) -> FloatArray:
        """Unit vectors in the order of the texts."""


class Memo:
    """Vectors by text and fingerprint, safe under several processes and `kill -9`.

    Each call opens its own connection: an instance may be used from several threads and after a fork.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._connection() as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)
            _migrate(connection)

    def get(self, hashes: Sequence[bytes], fingerprint: str, dimension: int) -> dict[bytes, FloatArray]:
        """The vectors that are there and whole, by text hash; what is damaged is as if absent.

        Raises:
            EmbeddingError: the file is damaged or cannot be read.
        """
        found: dict[bytes, FloatArray] = {}
        with self._connection() as connection:
            for at in range(0, len(hashes), _AT_ONCE):
                part = hashes[at : at + _AT_ONCE]
                marks = ",".join("?" * len(part))
                rows = connection.execute(
                    "SELECT text_sha256, vector, checksum FROM vector JOIN fingerprint f ON f.id = fingerprint_id"  # noqa: S608
                    f" WHERE f.digest = ? AND text_sha256 IN ({marks})",
                    (fingerprint, *part),
                )
                for text_hash, blob, checksum in rows:
                    if len(blob) == 4 * dimension and checksum == _checksum(text_hash, fingerprint, blob):
                        vector = np.frombuffer(blob, dtype="<f4").astype(np.float32)
                        if _is_unit(vector):
                            found[text_hash] = vector
        return found

    def put(self, vectors: Mapping[bytes, FloatArray], fingerprint: str) -> None:
        """Add vectors in one transaction, in the place of what is there under their keys.

        Raises:
            EmbeddingError: the file is damaged, locked for a minute, or the disk is full.
        """
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT OR IGNORE INTO fingerprint (digest) VALUES (?)", (fingerprint,))
            (own,) = connection.execute("SELECT id FROM fingerprint WHERE digest = ?", (fingerprint,)).fetchone()
            blobs = {key: np.ascontiguousarray(vector, dtype="<f4").tobytes() for key, vector in vectors.items()}
            connection.executemany(
                "INSERT OR REPLACE INTO vector (fingerprint_id, text_sha256, vector, checksum) VALUES (?, ?, ?, ?)",
                [(own, key, blob, _checksum(key, fingerprint, blob)) for key, blob in blobs.items()],
            )
            connection.execute("COMMIT")

    def count(self, fingerprint: str | None = None) -> int:
        """Vectors in the file, of one fingerprint or of all."""
        with self._connection() as connection:
            (rows,) = connection.execute(
                "SELECT count(*) FROM vector JOIN fingerprint f ON f.id = fingerprint_id"
                " WHERE ?1 IS NULL OR f.digest = ?1",
                (fingerprint,),
            ).fetchone()
        return int(rows)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            private_folder(self.path.parent)
            private_file(self.path)  # the files that SQLite makes beside it take its mode
            connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
            try:
                connection.execute("PRAGMA synchronous = NORMAL")
                yield connection
            finally:
                connection.close()
        except (sqlite3.Error, OSError) as error:
            raise EmbeddingError(
                "The memo of vectors cannot be used",
                expected=f"a SQLite file at {self.path}, on a disk with room",
                found=str(error),
                remedy="make room, or delete the file: it is a cache, and is filled again by embedding",
            ) from error


@dataclass(frozen=True, slots=True)
class EmbedReport:
    """Vectors in the order of the texts, and what it took. `misses` are distinct texts that the model had to read;
    `chunks_per_second` is of these, 0 where there were none. `batch` is the encoder's."""

    vectors: FloatArray
    hits: int
    misses: int
    seconds: float
    chunks_per_second: float
    batch: int


def text_sha256(text: str) -> bytes:
    """The key of a text. Lone surrogates, which UTF-8 lacks, are hashed as they are."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def embed_with_memo(
    texts: Sequence[str],
    encoder: TextEncoder,
    memo: Memo | None,
    progress: Callable[[int, int], None] | None = None,
    *,
    batch: int = DEFAULT_BATCH,
    clock: Callable[[], float] = time.perf_counter,
    seed: int | None = None,
) -> EmbedReport:
    """Embed what the memo lacks, and keep it every 256 texts, so that a killed run goes on where it was.

    Up to 4 hits are embedded again and must agree with the memo. Where nothing is missing and there are fewer than 256
    distinct texts this is left out: loading the model would take longer than all the rest. `seed` decides which hits;
    None takes others each time, so that nobody can know which rows are safe to change.

    Raises:
        EmbeddingError: a text is too long, or the memo cannot be used or holds vectors of other texts.
    """
    begun = clock()
    digest = encoder.fingerprint.digest
    hashes = [text_sha256(text) for text in texts]
    distinct = dict(zip(hashes, texts, strict=True))
    known = memo.get(list(distinct), digest, encoder.dimension) if memo is not None else {}
    missing = sorted((h for h in distinct if h not in known), key=lambda h: -len(distinct[h]))
    done = sum(h in known for h in hashes)
    hits = done
    if progress is not None:
        progress(done, len(texts))
    if memo is not None and (missing or len(known) >= _COMMIT_EVERY):
        _check_hits(known, distinct, encoder, memo, batch, random.Random(seed))  # noqa: S311
    copies = Counter(hashes)
    spent = 0.0
    for at in range(0, len(missing), _COMMIT_EVERY):
        part = missing[at : at + _COMMIT_EVERY]
        started = clock()
        fresh = dict(zip(part, encoder.encode([distinct[h] for h in part], batch=batch), strict=True))
        spent += clock() - started
        if memo is not None:
            memo.put(fresh, digest)
        known.update(fresh)
        done += sum(copies[h] for h in part)
        if progress is not None:
            progress(done, len(texts))
    vectors = np.zeros((len(texts), encoder.dimension), dtype=np.float32)
    for row, text_hash in enumerate(hashes):
        vectors[row] = known[text_hash]
    return EmbedReport(
        vectors=vectors,
        hits=hits,
        misses=len(missing),
        seconds=clock() - begun,
        chunks_per_second=len(missing) / spent if spent else 0.0,
        batch=batch,
    )


def _check_hits(
    known: Mapping[bytes, FloatArray],
    texts: Mapping[bytes, str],
    encoder: TextEncoder,
    memo: Memo,
    batch: int,
    rng: random.Random,
) -> None:
    keys = rng.sample(sorted(known), min(_CHECKED_HITS, len(known)))
    if not keys:
        return
    again = encoder.encode([texts[key] for key in keys], batch=batch)
    cosines = [float(vector @ known[key]) for key, vector in zip(keys, again, strict=True)]
    if min(cosines) < _LEAST_COSINE:
        raise EmbeddingError(
            f"The memo of vectors {memo.path} holds vectors that the model does not give",
            expected=f"a cosine of at least {_LEAST_COSINE} between a kept vector and the text embedded again",
            found=f"{min(cosines):.4f} in a sample of {len(keys)}",
            remedy=f"delete {memo.path}: it is a cache, and is filled again by embedding",
        )


def _migrate(connection: sqlite3.Connection) -> None:
    def has_checksums() -> bool:
        return any(column[1] == "checksum" for column in connection.execute("PRAGMA table_info(vector)"))

    if has_checksums():
        return
    connection.create_function("checksum_of", 3, _checksum, deterministic=True)
    connection.execute("BEGIN IMMEDIATE")
    if not has_checksums():  # another process may have been first
        for statement in _MIGRATION.split(";")[:-1]:
            connection.execute(statement)
    connection.execute("COMMIT")


def _checksum(text_hash: bytes, fingerprint: str, blob: bytes) -> bytes:
    """Over all that a row says. Key and digest are of fixed length, so that no two rows read the same."""
    return hashlib.sha256(text_hash + fingerprint.encode() + blob).digest()


def _is_unit(vector: FloatArray) -> bool:
    # NaN compares false.
    return bool(abs(float(np.linalg.norm(vector.astype(np.float64))) - 1) <= NORM_TOLERANCE)
