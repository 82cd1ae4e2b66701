"""Acquisition: from records of the manifest to verified bytes on disk.

What belongs here: the run over many documents, and taking up again what failed. How one document is asked for, paced
and judged lies beside it (`http`, `pacing`, `answers`).

A run writes a document's file whole or not at all, asks for nothing that is intact, and can be killed at any moment:
what it leaves behind is finished files, a dead-letter table and half-written temporary files that the next run removes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from pathlib import Path

from zeroth_assets.artefacts import private_folder, write_atomic
from zeroth_assets.corpus.archives import archive_path
from zeroth_assets.corpus.dead_letters import DeadLetter, DeadLetters
from zeroth_assets.corpus.documents import DocumentFetcher
from zeroth_assets.corpus.hosts import Hosts, host_of
from zeroth_assets.corpus.http import Fetcher, FetchOptions
from zeroth_assets.corpus.manifest import ManifestRecord, current_versions
from zeroth_assets.corpus.origins import Origin, check_mirror, is_web, origin_of
from zeroth_assets.corpus.raw import is_intact, raw_path, read_raw, refusals_of, remove_leftovers, source_locks
from zeroth_assets.corpus.report import FetchReport, Outcome, report_of
from zeroth_assets.errors import AcquisitionError

__all__ = ["acquire", "raw_path", "read_raw", "retry_dead"]

MAX_WORKERS = 16  # as many as there are connections
Progress = Callable[[int, int], None]


def acquire(
    records: Iterable[ManifestRecord],
    *,
    raw_dir: Path,
    mirror: str | None = None,
    state_dir: Path | None = None,
    options: FetchOptions | None = None,
    workers: int = 8,
    write: Callable[[Path, bytes], None] = write_atomic,
    progress: Progress | None = None,
) -> FetchReport:
    """Bring every record's bytes to `raw_path(raw_dir, record)`, verified; what is intact there is not asked for.

    `mirror` is a folder or an http(s) base that stands in for the publishers. `state_dir` (default: the parent of
    `raw_dir`) keeps dead letters and pauses. A document's failure is in the report and the dead-letter table; the
    others go on.

    Raises:
        AcquisitionError: nothing can proceed: a mirror that is not there, a full disk, no contact where all that is
            left must come from sec.gov.
    """
    options = options or FetchOptions()
    check_mirror(mirror)
    _check_contact(options.contact)
    wanted = list(records)
    workers = max(1, min(workers, MAX_WORKERS))
    state_dir = state_dir or raw_dir.parent
    started = options.clock()
    with source_locks(state_dir, (r.source for r in wanted)):
        table = DeadLetters(state_dir)
        hosts = Hosts(table, options.now())
        done: dict[int, Outcome] = {}
        jobs = _plan(wanted, done, raw_dir, mirror, table, options, workers)
        if progress is not None:
            progress(len(done), len(wanted))
        if jobs:
            with refusals_of(raw_dir):
                private_folder(raw_dir)
            with Fetcher(options, hosts) as fetcher:
                documents = DocumentFetcher(fetcher, table, raw_dir, options, write, wanted)
                _run(jobs, done, documents, fetcher, workers, len(wanted), progress)
        outcomes = [done[index] for index in range(len(wanted))]
        table.forget((o.document_id, o.version) for o in outcomes if o.status in ("fetched", "intact", "superseded"))
    _check_mirror_answered(mirror, hosts, outcomes)
    return report_of(outcomes, pauses=hosts.pauses, requests=hosts.requests, seconds=options.clock() - started)


def retry_dead(
    records: Iterable[ManifestRecord],
    *,
    raw_dir: Path,
    document_ids: Iterable[str] | None = None,
    state_dir: Path | None = None,
    mirror: str | None = None,
    options: FetchOptions | None = None,
    progress: Progress | None = None,
) -> FetchReport:
    """Take up dead letters, final ones too: all, or those of `document_ids`. Arguments and errors as for `acquire`.

    An archive whose members are among them is fetched again. The pauses of hosts stay in force.
    """
    table = DeadLetters(state_dir or raw_dir.parent)
    released = set(table.release(document_ids))
    taken = [r for r in records if r.document_id in released]
    for record in taken:
        if (
            record.archive_url is not None
            and is_web(record.archive_url)
            and not is_intact(raw_path(raw_dir, record), record)
        ):
            archive_path(raw_dir, record.archive_url).unlink(missing_ok=True)
    return acquire(taken, raw_dir=raw_dir, mirror=mirror, state_dir=state_dir, options=options, progress=progress)


def _plan(
    wanted: Sequence[ManifestRecord],
    done: dict[int, Outcome],
    raw_dir: Path,
    mirror: str | None,
    table: DeadLetters,
    options: FetchOptions,
    workers: int,
) -> list[tuple[int, ManifestRecord, Origin]]:
    """Settle in `done` what needs no fetch; return the rest, documents that led to pauses last."""
    letters, strikes = table.letters(), table.strikes()
    listed = {(r.document_id, r.sha256) for r in wanted}
    ids = {d for d, _ in listed}
    table.forget(key for key in letters if key[0] in ids and key not in listed)
    current = {(r.document_id, r.sha256) for r in current_versions(wanted)}

    def check(record: ManifestRecord) -> bool:
        remove_leftovers(raw_dir, record)
        return is_intact(raw_path(raw_dir, record), record)

    with ThreadPoolExecutor(workers) as pool:
        intact = list(pool.map(check, wanted))
    jobs = []
    refused = []
    for index, record in enumerate(wanted):
        key = (record.document_id, record.sha256)
        outcome = Outcome(*key, record.source, "intact", bytes=record.bytes, origin=record.origin)
        if intact[index]:
            done[index] = outcome
            continue
        outcome = dataclasses.replace(outcome, bytes=0)
        if key not in current:
            done[index] = dataclasses.replace(outcome, status="superseded", cause="a newer version replaced it")
            continue
        try:
            origin = origin_of(record, mirror)
        except AcquisitionError as error:
            done[index] = _refused(outcome, error)
            refused.append(error)
            continue
        letter = letters.get(key)
        outcome = dataclasses.replace(outcome, origin=origin.label)
        if letter is not None and letter.final and origin.kind == "web":
            done[index] = _still_dead(outcome, letter)
        elif origin.is_sec and not options.contact:
            refused.append(_no_contact())
            done[index] = _refused(outcome, refused[-1])
        else:
            jobs.append((index, record, origin))
    if refused and not jobs:
        raise refused[0]
    return sorted(jobs, key=lambda job: strikes.get((job[1].document_id, job[1].sha256), 0))


def _run(
    jobs: Sequence[tuple[int, ManifestRecord, Origin]],
    done: dict[int, Outcome],
    documents: DocumentFetcher,
    fetcher: Fetcher,
    workers: int,
    total: int,
    progress: Progress | None,
) -> None:
    """Fetch all jobs on `workers` threads. Ended from outside or by an error that stops all, it leaves no half file."""
    with ThreadPoolExecutor(workers, thread_name_prefix="acquire") as pool:
        futures: dict[Future[Outcome], int] = {}
        try:
            documents.open_archives(origin for _, _, origin in jobs)
            futures = {pool.submit(documents.bring, record, origin): index for index, record, origin in jobs}
            for future in as_completed(futures):
                done[futures[future]] = future.result()
                if progress is not None:
                    progress(len(done), total)
        except BaseException:
            fetcher.stop()
            for future in futures:
                future.cancel()
            wait([f for f in futures if not f.cancelled()], timeout=60)
            raise
        finally:
            documents.close()


def _refused(outcome: Outcome, error: AcquisitionError) -> Outcome:
    return dataclasses.replace(outcome, status="pending", cause=error.what, next_step=error.remedy)


def _still_dead(outcome: Outcome, letter: DeadLetter) -> Outcome:
    return dataclasses.replace(
        outcome,
        status="failed",
        cause=letter.cause,
        last_answer=letter.last_answer,
        next_step=letter.next_step,
        origin=letter.origin,
    )


def _check_contact(contact: str | None) -> None:
    if contact is None or (contact.isascii() and contact.isprintable() and ("@" in contact or "://" in contact)):
        return
    raise AcquisitionError(
        "The contact cannot be declared to publishers",
        expected="an e-mail address or URL in one line of ASCII, such as `Example Ltd admin@example.org`",
        found=repr(contact),
        remedy="correct ZEROTH_CONTACT",
    )


def _no_contact() -> AcquisitionError:
    return AcquisitionError(
        "sec.gov is not asked without a declared contact",
        expected="ZEROTH_CONTACT, which goes into the User-Agent as sec.gov's fair-access rules want",
        found="none",
        remedy="set ZEROTH_CONTACT to your name and e-mail address",
    )


def _check_mirror_answered(mirror: str | None, hosts: Hosts, outcomes: Sequence[Outcome]) -> None:
    if mirror is None or not is_web(mirror) or any(o.status == "fetched" for o in outcomes):
        return
    cause = hosts.down.get(host_of(mirror))
    if cause is not None:
        raise AcquisitionError(
            f"The mirror {mirror} cannot be reached",
            expected="an http(s) base that answers",
            found=cause,
            remedy="start it or correct ZEROTH_MIRROR, then run the same command again",
        )
