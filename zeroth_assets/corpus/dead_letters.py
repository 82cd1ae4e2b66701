"""Dead letters and pauses: what could not be had and why, and which hosts must be left alone until when.

What belongs here: one small SQLite file under the home, safe under several threads and processes and under a kill at
any moment. A dead letter is `final` when asking again is of no use before somebody acts (`zeroth corpus retry`,
`zeroth corpus update`); the others are tried by the next run.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from zeroth_assets.artefacts import private_file
from zeroth_assets.corpus.report import Pause
from zeroth_assets.errors import AcquisitionError

DEAD_LETTER_SCHEMA = pl.Schema(
    {
        "document_id": pl.String,
        "version": pl.String,
        "source": pl.String,
        "origin": pl.String,
        "cause": pl.String,
        "final": pl.Boolean,
        "attempts": pl.Int64,
        "last_answer": pl.String,
        "next_step": pl.String,
        "first_seen": pl.String,
        "last_seen": pl.String,
    }
)
_TABLES = """
create table if not exists dead_letters (
    document_id text not null, version text not null, source text not null, origin text not null,
    cause text not null, final integer not null, attempts integer not null, last_answer text,
    next_step text not null, first_seen text not null, last_seen text not null,
    primary key (document_id, version)
);
create table if not exists pauses (host text primary key, reason text not null, until real not null);
create table if not exists strikes (document_id text, version text, times integer, primary key (document_id, version));
"""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Why a version of a document is not on disk. `attempts` counts over all runs."""

    document_id: str
    version: str
    source: str
    origin: str
    cause: str
    final: bool
    attempts: int
    next_step: str
    last_answer: str | None = None


class DeadLetters:
    """The table of a home. `state_dir` is its folder."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / "acquisition.sqlite"

    def frame(self, source: str | None = None, versions: Iterable[tuple[str, str]] | None = None) -> pl.DataFrame:
        """All dead letters, in `DEAD_LETTER_SCHEMA`; of one source, and of the given (document_id, version) if any.

        Pass the manifest's versions to leave out letters of records that are no longer listed.
        """
        columns = ", ".join(DEAD_LETTER_SCHEMA)
        with self._open() as db:
            rows = db.execute(f"select {columns} from dead_letters order by document_id, version").fetchall()  # noqa: S608
        wanted = None if versions is None else set(versions)
        rows = [r for r in rows if source in (None, r[2]) and (wanted is None or (r[0], r[1]) in wanted)]
        rows = [(*r[:5], bool(r[5]), *r[6:]) for r in rows]
        return pl.DataFrame(rows, schema=DEAD_LETTER_SCHEMA, orient="row")

    def letters(self) -> dict[tuple[str, str], DeadLetter]:
        """All dead letters by (document_id, version)."""
        return {
            (r["document_id"], r["version"]): DeadLetter(
                **{k: v for k, v in r.items() if k not in ("first_seen", "last_seen")}
            )
            for r in self.frame().iter_rows(named=True)
        }

    def bury(self, letter: DeadLetter, now: float) -> None:
        """Record a failure, or a further one of the same version: attempts add up, the first date stays."""
        stamp = _stamp(now)
        with self._open() as db:
            db.execute(
                "insert into dead_letters (document_id, version, source, origin, cause, final, attempts, last_answer,"
                " next_step, first_seen, last_seen) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " on conflict (document_id, version) do update set origin = excluded.origin, cause = excluded.cause,"
                " final = excluded.final, attempts = attempts + excluded.attempts, last_answer = excluded.last_answer,"
                " next_step = excluded.next_step, last_seen = excluded.last_seen",
                (
                    letter.document_id, letter.version, letter.source, letter.origin, letter.cause, letter.final,
                    letter.attempts, letter.last_answer, letter.next_step, stamp, stamp,
                ),
            )  # fmt: skip

    def forget(self, versions: Iterable[tuple[str, str]]) -> None:
        """Remove the letters of (document_id, version): the bytes are there, or nobody wants them any more."""
        gone = list(versions)
        with self._open() as db:
            for table in ("dead_letters", "strikes"):
                db.executemany(f"delete from {table} where document_id = ? and version = ?", gone)  # noqa: S608

    def release(self, document_ids: Iterable[str] | None = None) -> tuple[str, ...]:
        """Let the next run try final letters again, of the given documents or all; returns the ids released."""
        wanted = None if document_ids is None else set(document_ids)
        ids = tuple(sorted({d for d, _ in self.letters() if wanted is None or d in wanted}))
        with self._open() as db:
            db.executemany("update dead_letters set final = 0 where document_id = ?", [(d,) for d in ids])
        return ids

    def pause(self, pause: Pause) -> None:
        """Record that a host must be left alone; a later resume time wins."""
        with self._open() as db:
            db.execute(
                "insert into pauses (host, reason, until) values (?, ?, ?) on conflict (host) do update"
                " set reason = excluded.reason, until = max(until, excluded.until)",
                (pause.host, pause.reason, pause.until),
            )

    def pauses(self, now: float) -> dict[str, Pause]:
        """Hosts that are still to be left alone at `now`."""
        with self._open() as db:
            rows = db.execute("select host, reason, until from pauses where until > ?", (now,)).fetchall()
        return {host: Pause(host, reason, until) for host, reason, until in rows}

    def strike(self, document_id: str, version: str) -> int:
        """Count that asking for this version led to a pause; returns how often that was.

        A host may answer one document, and that one only, as it would a flood. Those that led to pauses are asked for
        last, so that they cannot keep the others from being fetched run after run.
        """
        with self._open() as db:
            db.execute(
                "insert into strikes values (?, ?, 1) on conflict (document_id, version) do update"
                " set times = times + 1",
                (document_id, version),
            )
        return self.strikes()[(document_id, version)]

    def strikes(self) -> dict[tuple[str, str], int]:
        """How often asking for a version led to a pause."""
        with self._open() as db:
            return {(d, v): times for d, v, times in db.execute("select document_id, version, times from strikes")}

    def resume(self, host: str | None = None) -> None:
        """End the pause of a host, or of all, before its time: for a person who knows better."""
        with self._open() as db:
            db.execute("delete from pauses where ? is null or host = ?", (host, host))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            private_file(self.path)  # causes quote answers
            connection = sqlite3.connect(self.path, timeout=30.0)
            try:
                connection.executescript(_TABLES)
                with connection:
                    yield connection
            finally:
                connection.close()
        except (sqlite3.Error, OSError) as error:
            raise AcquisitionError(
                f"The dead-letter table {self.path} cannot be used",
                expected="a SQLite file on a disk with room, in a folder that may be written",
                found=str(error),
                remedy="free some room or correct the permissions; a damaged file may be removed: it is made anew",
            ) from error


def _stamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
