"""One document: from its origin to its file, or to the outcome that says why not.

What belongs here: what happens to the bytes of one document, and how each way of failing is told and recorded.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

from zeroth_assets.artefacts import private_file
from zeroth_assets.corpus.answers import Answer, Expected, judge
from zeroth_assets.corpus.archives import Archive, BadMember, archive_path, is_archive
from zeroth_assets.corpus.dead_letters import DeadLetter, DeadLetters
from zeroth_assets.corpus.hosts import HostDown, HostPaused, when
from zeroth_assets.corpus.http import MAX_DOCUMENT_BYTES, Fetched, Fetcher, FetchFailure, FetchOptions, Stopped
from zeroth_assets.corpus.local_files import UnfitFile, read_file
from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.corpus.origins import Origin
from zeroth_assets.corpus.raw import raw_path, refusals_of, store
from zeroth_assets.corpus.report import Outcome, Status
from zeroth_assets.corpus.versions import store_candidate
from zeroth_assets.errors import AcquisitionError

STRIKES = 3
_RETRY = "the next run tries again; `zeroth corpus retry` does so now"
_RELEASE = "find out why, then `zeroth corpus retry`"


class DocumentFetcher:
    """Brings documents, one call each, from several threads."""

    def __init__(
        self,
        fetcher: Fetcher,
        table: DeadLetters,
        raw_dir: Path,
        options: FetchOptions,
        write: Callable[[Path, bytes], None],
        listed: Iterable[ManifestRecord],
    ) -> None:
        self._fetcher, self._table, self._raw_dir, self._options, self._write = fetcher, table, raw_dir, options, write
        self._listed = {(r.document_id, r.sha256) for r in listed}
        self._archives: dict[str, Archive | Exception] = {}

    def open_archives(self, origins: Iterable[Origin]) -> None:
        """Have every archive that the origins name on disk and open; a failure is kept for its members to tell.

        Raises:
            AcquisitionError: the disk takes no more files.
        """
        for location, kind in sorted({(o.location, o.kind) for o in origins if o.member is not None}):
            try:
                self._archives[location] = self._open_archive(location, kind)
            except (FetchFailure, HostPaused, HostDown) as failure:
                self._archives[location] = failure

    def close(self) -> None:
        """Close the archives."""
        for archive in self._archives.values():
            if isinstance(archive, Archive):
                archive.close()

    def bring(self, record: ManifestRecord, origin: Origin) -> Outcome:
        """Bring one document, whatever happens to it.

        Raises:
            AcquisitionError: no document can be stored any more.
        """
        started = self._options.clock()
        try:
            payload, fetched = self._read(record, origin)
            if fetched.changed:
                self._set_aside(record, payload, fetched, origin)
            if len(payload) != record.bytes:
                raise _wrong_length(record, len(payload), origin, fetched)
            store(raw_path(self._raw_dir, record), payload, self._write)
        except AcquisitionError:
            raise
        except HostPaused as paused:
            return self._paused(record, origin, paused)
        except HostDown as down:
            cause = f"{down.host} cannot be reached: {down.cause}"
            return self._outcome(record, origin, "pending", cause=cause, next_step="run again when it answers")
        except Stopped:
            return self._outcome(record, origin, "pending", cause="the run was ended", next_step="run again")
        except FetchFailure as failure:
            return self._failed(record, origin, failure, self._options.clock() - started)
        except Exception as error:  # one document's failure, of whatever kind, is its own
            unforeseen = FetchFailure(f"{type(error).__name__}: {error}", final=False, attempts=1)
            return self._failed(record, origin, unforeseen, self._options.clock() - started)
        seconds = self._options.clock() - started
        return self._outcome(record, origin, "fetched", fetched.attempts, bytes=len(payload), seconds=seconds)

    def _read(self, record: ManifestRecord, origin: Origin) -> tuple[bytes, Fetched]:
        if origin.member is not None:
            payload = self._member(origin)
            # The archive's CRC vouches that the member is whole, so its length says nothing.
            return payload, self._judged(payload, Expected(record.media_type, record.sha256), origin)
        expected = Expected(record.media_type, record.sha256, record.bytes)
        if origin.kind == "web":
            return self._fetcher.fetch_bytes(origin.location, expected)
        try:
            payload = read_file(Path(origin.location), MAX_DOCUMENT_BYTES, Path(origin.root) if origin.root else None)
        except UnfitFile as error:
            step = "put the document itself there in its place, then run again"
            raise _Told(f"{origin.location} is {error}", step, final=False, attempts=1) from error
        except OSError as error:
            raise FetchFailure(f"{origin.location}: {error.strerror}", final=False, attempts=1) from error
        return payload, self._judged(payload, expected, origin)

    def _judged(self, payload: bytes, expected: Expected, origin: Origin) -> Fetched:
        answer = Answer(origin.label, 200, payload)
        verdict = judge(answer, expected, now=0.0, longest_wait=0.0)
        if verdict.kind in ("document", "changed"):
            return Fetched(verdict.kind == "changed", 1, answer)
        cause = verdict.cause.removeprefix("200 with ")
        raise FetchFailure(f"{origin.label} holds {cause}", final=False, attempts=1)

    def _member(self, origin: Origin) -> bytes:
        archive = self._archives[origin.location]
        if isinstance(archive, FetchFailure):
            cause = f"its archive: {archive.cause}"
            raise FetchFailure(cause, final=archive.final, attempts=archive.attempts, last_answer=archive.last_answer)
        if isinstance(archive, Exception):
            raise archive
        try:
            return archive.read(str(origin.member))
        except BadMember as error:
            raise FetchFailure(str(error), final=origin.kind == "web", attempts=1) from error

    def _open_archive(self, location: str, kind: str) -> Archive:
        path = archive_path(self._raw_dir, location) if kind == "web" else Path(location)
        if not path.is_file() or not is_archive(path):  # a FIFO would block
            if kind == "file":
                raise FetchFailure(f"{path} is not there or no zip file", final=False, attempts=1)
            self._fetch_archive(location, path)
        return Archive(path)

    def _fetch_archive(self, url: str, path: Path) -> None:
        part = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.part")
        with refusals_of(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            for leftover in path.parent.glob(f".{path.name}.*.part"):
                leftover.unlink(missing_ok=True)
            try:
                private_file(part)
                with part.open("w+b") as sink:
                    self._fetcher.fetch(url, Expected("application/zip"), sink)
                    sink.flush()
                    os.fsync(sink.fileno())
                if not is_archive(part):
                    raise FetchFailure("no zip file, or one without its end", final=False, attempts=1)
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)

    def _set_aside(self, record: ManifestRecord, payload: bytes, fetched: Fetched, origin: Origin) -> None:
        found = hashlib.sha256(payload).hexdigest()
        told = f"other bytes than the manifest's: {len(payload)} with sha256 {found[:12]}, not {record.bytes} with"
        told = f"{told} {record.sha256[:12]}"
        final = origin.kind == "web"
        if (record.document_id, found) in self._listed:
            told = f"an earlier version again ({found[:12]}), not {record.sha256[:12]}"
            raise FetchFailure(told, final=final, attempts=fetched.attempts, last_answer=fetched.answer.summary)
        with refusals_of(raw_path(self._raw_dir, record)):
            now = self._options.now()
            store_candidate(record, payload, raw_dir=self._raw_dir, origin=fetched.answer.url, now=now)
        step = "`zeroth corpus update` takes them as a new version, if that is what they are"
        raise _Told(told, step, final=final, attempts=fetched.attempts, last_answer=fetched.answer.summary)

    def _failed(self, record: ManifestRecord, origin: Origin, failure: FetchFailure, seconds: float) -> Outcome:
        step = _RELEASE if failure.final else _RETRY
        if isinstance(failure, _Told):
            step = failure.next_step
        letter = DeadLetter(
            record.document_id,
            record.sha256,
            record.source,
            origin.label,
            failure.cause,
            failure.final,
            failure.attempts,
            step,
            failure.last_answer,
        )
        self._table.bury(letter, self._options.now())
        return self._outcome(
            record,
            origin,
            "failed",
            failure.attempts,
            cause=failure.cause,
            last_answer=failure.last_answer,
            next_step=step,
            seconds=seconds,
        )

    def _paused(self, record: ManifestRecord, origin: Origin, paused: HostPaused) -> Outcome:
        pause = paused.pause
        cause = f"{pause.host} is paused until {when(pause.until)}: {pause.reason}"
        if paused.attempts and origin.member is None:
            strikes = self._table.strike(record.document_id, record.sha256)
            if strikes >= STRIKES:
                cause = f"asking for it led to a pause {strikes} times: {pause.reason}"
                return self._failed(record, origin, FetchFailure(cause, final=False, attempts=paused.attempts), 0.0)
        step = f"run again after {when(pause.until)}"
        return self._outcome(record, origin, "pending", paused.attempts, cause=cause, next_step=step)

    def _outcome(
        self,
        record: ManifestRecord,
        origin: Origin,
        status: Status,
        attempts: int = 0,
        *,
        cause: str | None = None,
        last_answer: str | None = None,
        next_step: str | None = None,
        bytes: int = 0,  # noqa: A002 - the column's name
        seconds: float = 0.0,
    ) -> Outcome:
        return Outcome(
            record.document_id, record.sha256, record.source, status, attempts, cause, last_answer, next_step, bytes,
            seconds, origin.label,
        )  # fmt: skip


class _Told(FetchFailure):
    """A failure that knows what is to be done about it."""

    def __init__(
        self, cause: str, next_step: str, *, final: bool, attempts: int, last_answer: str | None = None
    ) -> None:
        self.next_step = next_step
        super().__init__(cause, final=final, attempts=attempts, last_answer=last_answer)


def _wrong_length(record: ManifestRecord, found: int, origin: Origin, fetched: Fetched) -> FetchFailure:
    """The checksum is right, so the bytes are; the record that says both is wrong in one."""
    return _Told(
        f"{found} bytes with the manifest's sha256, where its `bytes` says {record.bytes}",
        "correct `bytes` of the record in the manifest, then `zeroth corpus retry`",
        final=origin.kind == "web",
        attempts=fetched.attempts,
        last_answer=fetched.answer.summary if origin.kind == "web" else None,
    )
