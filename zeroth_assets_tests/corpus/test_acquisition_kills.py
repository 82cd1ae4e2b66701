from __future__ import annotations

import multiprocessing
import multiprocessing.process
import random
import time
from pathlib import Path

import pytest

from zeroth_assets.corpus.acquisition import acquire
from zeroth_assets.corpus.http import FetchOptions
from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.corpus.raw import raw_path
from zeroth_assets.corpus.verification import verify_raw
from zeroth_assets_tests.corpus.fetching import memo, text_of
from zeroth_assets_tests.corpus.publisher import Publisher

DOCUMENTS, KILLS, SEED = 200, 20, 20_240_501

# Forked from a process that has imported everything: a child is at work in milliseconds, and shares no thread with us.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])


def records_of(count: int) -> list[ManifestRecord]:
    return [memo(n, text_of(n, 200)) for n in range(1, count + 1)]


def fetch(count: int, home: Path, base: str, report_to: Path | None = None) -> None:
    """What a child does."""
    options = FetchOptions(pacing_dir=home / "pacing")
    report = acquire(records_of(count), raw_dir=home / "raw", mirror=base, options=options, workers=4)
    if report_to is not None:
        report_to.write_text(f"{report.count('fetched')} {report.count('intact')} {report.requests}")


def start(*arguments: object) -> multiprocessing.process.BaseProcess:
    process = PROCESSES.Process(target=fetch, args=arguments)
    process.start()
    return process


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    (folder / "rfc").mkdir(parents=True)
    for number in range(1, DOCUMENTS + 1):
        (folder / f"rfc/rfc{number}.txt").write_bytes(text_of(number, 200))
    return folder


def intact_paths(records: list[ManifestRecord], raw_dir: Path) -> set[str]:
    table = verify_raw(records, raw_dir).documents
    whole = set(table.filter(table["state"] == "intact")["document_id"])
    return {f"/{r.mirror_path}" for r in records if r.document_id in whole}


def wait_for_requests(publisher: Publisher, count: int, process: multiprocessing.process.BaseProcess) -> None:
    deadline = time.monotonic() + 60
    while len(publisher.requests) < count and process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.0005)


def test_after_twenty_kills_the_bytes_are_those_of_a_clean_run_and_no_intact_file_was_asked_for(
    tmp_path: Path, site: Path
) -> None:
    records, home = records_of(DOCUMENTS), tmp_path / "home"
    moments = random.Random(SEED)
    stood_at = []
    with Publisher(site, delay=0.002) as publisher:
        for _ in range(KILLS):
            before = intact_paths(records, home / "raw")
            stood_at.append(len(before))
            publisher.forget()
            process = start(DOCUMENTS, home, publisher.base)
            wait_for_requests(publisher, moments.randint(0, 15), process)
            time.sleep(moments.uniform(0, 0.004))
            process.kill()
            process.join()
            assert not {r.path for r in publisher.requests} & before
        before = intact_paths(records, home / "raw")
        assert len(before) < DOCUMENTS, "the kills came too late to prove anything"
        publisher.forget()
        last = start(DOCUMENTS, home, publisher.base, tmp_path / "report")
        last.join(timeout=120)
        left = DOCUMENTS - len(before)
        assert (tmp_path / "report").read_text() == f"{left} {len(before)} {left}"
        assert len(publisher.requests) == left
    for number, record in enumerate(records, start=1):
        assert raw_path(home / "raw", record).read_bytes() == text_of(number, 200)
    assert verify_raw(records, home / "raw").strays == ()
    assert len(set(stood_at)) > KILLS / 2, f"the kills hit too few different moments: {stood_at}"


def test_two_processes_at_once_ask_for_each_document_once(tmp_path: Path, site: Path) -> None:
    with Publisher(site, delay=0.002) as publisher:
        paths = [tmp_path / "one", tmp_path / "two"]
        processes = [start(60, tmp_path / "home", publisher.base, path) for path in paths]
        for process in processes:
            process.join(timeout=120)
        assert len(publisher.requests) == 60
    assert sorted(path.read_text() for path in paths) == ["0 60 0", "60 0 60"]
