from __future__ import annotations

import errno
import hashlib
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from zeroth_assets.artefacts import write_atomic
from zeroth_assets.corpus.acquisition import retry_dead
from zeroth_assets.corpus.http import RetryPolicy
from zeroth_assets.corpus.pacing import Ceilings
from zeroth_assets.corpus.raw import raw_path
from zeroth_assets.errors import AcquisitionError
from zeroth_assets_tests.corpus import publisher as answers
from zeroth_assets_tests.corpus.fetching import NOW, Home, filing, memo, page_of, row, text_of
from zeroth_assets_tests.corpus.publisher import Publisher

ONE, TWO, THREE = memo(1), memo(2), memo(3)
PATH = "/rfc/rfc1.txt"
THRESHOLD = answers.page(403, "SEC.gov | Request Rate Threshold Exceeded", "Your Request Originates from an Tool")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Publisher]:
    """A publisher that serves memos 1 to 9 and filings 1 to 3 rightly, until told otherwise."""
    folder = tmp_path / "site"
    for number in range(1, 10):
        (folder / "rfc").mkdir(parents=True, exist_ok=True)
        (folder / "rfc" / f"rfc{number}.txt").write_bytes(text_of(number))
    for number in range(1, 4):
        (folder / "sec").mkdir(parents=True, exist_ok=True)
        (folder / "sec" / f"{number}.htm").write_bytes(page_of(number))
    with Publisher(folder) as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, site: Publisher) -> Home:
    return Home(tmp_path / "home", site.base)


def test_a_clean_fetch_asks_once_per_document_and_a_second_asks_nothing(home: Home, site: Publisher) -> None:
    report = home.acquire(ONE, TWO, filing(1))
    assert (report.count("fetched"), report.requests, report.complete) == (3, 3, True)
    assert all(home.has(r) for r in (ONE, TWO, filing(1)))
    again = home.acquire(ONE, TWO, filing(1))
    assert (again.count("intact"), again.requests) == (3, 0)
    assert len(site.requests) == 3


def test_the_request_says_who_asks_and_whom_to_write_to(home: Home, site: Publisher) -> None:
    home.acquire(ONE, options={"contact": "Example Ltd admin@example.org"})
    agent = site.requests[0].headers["user-agent"]
    assert agent.startswith("zeroth-assets/")
    assert "Example Ltd admin@example.org" in agent


@pytest.mark.parametrize(
    "behaviour",
    [
        answers.gzipped(text_of(1)),
        answers.chunked(text_of(1)),
        answers.answer(200, text_of(1), kind="application/octet-stream"),
        answers.redirect("/rfc/rfc1.txt?second"),
    ],
    ids=["gzip", "chunked", "odd content type", "redirect on the site"],
)
def test_a_right_answer_in_another_form_is_taken(home: Home, site: Publisher, behaviour: answers.Behaviour) -> None:
    site.serve(PATH, behaviour)
    site.serve("/rfc/rfc1.txt?second", answers.answer(200, text_of(1)))
    assert home.acquire(ONE).count("fetched") == 1
    assert home.has(ONE)


TRANSIENT = {
    "reset at 60 %": answers.reset_at(text_of(1)),
    "Content-Length too large": answers.announced(text_of(1), len(text_of(1)) + 100),
    "Content-Length too small": answers.announced(text_of(1), 1000),
    "chunks without an end": answers.chunked(text_of(1), end=False),
    "gzip cut short": answers.gzipped(text_of(1), keep=0.7),
    "no HTTP at all": answers.noise(),
    "500": answers.page(500, "Internal Server Error"),
    "502": answers.page(502, "Bad Gateway"),
    "503 without Retry-After": answers.page(503, "Service Unavailable"),
    "429 without Retry-After": answers.page(429, "Slow down"),
}


@pytest.mark.parametrize("name", TRANSIENT)
def test_a_passing_trouble_is_asked_about_again_with_growing_waits(home: Home, site: Publisher, name: str) -> None:
    site.serve(PATH, TRANSIENT[name], TRANSIENT[name], answers.answer(200, text_of(1)))
    report = home.acquire(ONE, TWO)
    assert report.count("fetched") == 2
    assert row(report, ONE)["attempts"] == 3
    first, second = home.time.slept
    assert 0.25 <= first <= 0.5 <= second <= 1.0


@pytest.mark.parametrize("name", [n for n in TRANSIENT if not n.startswith("429")])
def test_a_lasting_trouble_ends_in_a_dead_letter_and_stops_no_other(home: Home, site: Publisher, name: str) -> None:
    site.serve(PATH, TRANSIENT[name])
    report = home.acquire(ONE, TWO)
    assert row(report, TWO)["status"] == "fetched"
    failed = row(report, ONE)
    assert (failed["status"], failed["attempts"]) == ("failed", 3)
    assert "after 3 attempts" in failed["cause"]
    assert not any(ONE.sha256 in name or name.endswith(".part") for name in home.files())
    letter = home.table.frame().row(0, named=True)
    assert (letter["document_id"], letter["attempts"], letter["final"]) == ("rfc:1", 3, False)
    assert letter["next_step"]


@pytest.mark.parametrize("name", TRANSIENT)
def test_the_next_run_completes_what_a_passing_trouble_left(home: Home, site: Publisher, name: str) -> None:
    site.serve(PATH, TRANSIENT[name])
    home.acquire(ONE)
    site.serve(PATH, answers.answer(200, text_of(1)))
    home.time.elapsed += 3600
    assert home.acquire(ONE).count("fetched") == 1
    assert home.table.frame().is_empty()


NO_DOCUMENT = {
    "an HTML error page": (answers.page(200, "404 Not Found"), "HTML page where plain text was expected"),
    "an empty body": (answers.answer(200, b""), "an empty body"),
    "white space": (answers.answer(200, b" \r\n\r\n"), "an empty body"),
    "a login page": (
        answers.answer(200, b"<html><form><input type='password' name='p'></form></html>", "text/html"),
        "login page",
    ),
    "a PDF": (answers.answer(200, b"%PDF-1.7\n" + b"x" * 9000), "a PDF"),
    "JSON": (answers.answer(200, b'{"error": {"code": 17, "text": "' + b"x" * 3000 + b'"}}'), "JSON"),
    "an XML error": (answers.answer(200, b"<?xml version='1.0'?><Error>NoSuchKey</Error>", "application/xml"), "XML"),
    "a short message": (answers.answer(200, b"Service temporarily unavailable, try again later\n"), "error message"),
    "a tenth of the size": (answers.answer(200, b"Welcome to our new site\n" * 3), "too few"),
    "a cut text": (answers.answer(200, text_of(1)[:2005]), "cut off"),
    "binary data": (answers.answer(200, bytes(range(256)) * 20), "binary data"),
    "a coding nobody asked for": (answers.answer(200, b"xx", headers={"Content-Encoding": "br"}), "coding br"),
    "206 and a part": (answers.answer(206, text_of(1)[:100]), "206"),
    "204 and nothing": (answers.answer(204), "204"),
}


@pytest.mark.parametrize("name", NO_DOCUMENT)
def test_what_is_no_document_is_not_stored_whatever_the_status_says(home: Home, site: Publisher, name: str) -> None:
    behaviour, cause = NO_DOCUMENT[name]
    site.serve(PATH, behaviour)
    report = home.acquire(ONE, TWO)
    assert row(report, TWO)["status"] == "fetched"
    assert row(report, ONE)["status"] == "failed"
    assert cause in row(report, ONE)["cause"]
    assert home.files() == [raw_path(home.raw_dir, TWO).name]
    assert site.asked(PATH) == 1


def test_an_error_page_in_place_of_a_filing_is_told_by_its_title(home: Home, site: Publisher) -> None:
    site.serve("/sec/1.htm", answers.page(200, "Sorry, page not found", "x" * 900))
    report = home.acquire(filing(1))
    assert "an error page: Sorry, page not found" in row(report, filing(1))["cause"]


def test_bytes_that_the_manifest_names_are_taken_whatever_they_look_like(home: Home, site: Publisher) -> None:
    odd = b"<html><title>404 Not Found</title><input type=password>{}"
    site.serve("/rfc/rfc8.txt", answers.answer(200, odd, "text/html"))
    assert home.acquire(memo(8, odd)).count("fetched") == 1


@pytest.mark.parametrize("status", [404, 410, 401, 451])
def test_a_final_answer_is_not_asked_for_again_until_somebody_says_so(home: Home, site: Publisher, status: int) -> None:
    site.serve(PATH, answers.page(status, "no"))
    assert row(home.acquire(ONE, TWO), ONE)["attempts"] == 1
    again = home.acquire(ONE, TWO)
    assert (row(again, ONE)["status"], again.requests) == ("failed", 0)
    assert str(status) in row(again, ONE)["cause"]
    assert home.table.frame()["final"].to_list() == [True]
    site.serve(PATH, answers.answer(200, text_of(1)))
    report = retry_dead([ONE, TWO], raw_dir=home.raw_dir, mirror=home.mirror, options=home.fetch_options())
    assert (report.documents.height, report.count("fetched")) == (1, 1)
    assert home.table.frame().is_empty()


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("form", ["seconds", "date", "date with a clock that is wrong here"])
def test_retry_after_is_honoured_in_both_forms(home: Home, site: Publisher, status: int, form: str) -> None:
    server_time = NOW + (5000 if "wrong" in form else 0)
    value = "120" if form == "seconds" else formatdate(server_time + 120, usegmt=True)
    headers = {"Retry-After": value, **({"Date": formatdate(server_time, usegmt=True)} if form != "seconds" else {})}
    site.serve(PATH, answers.answer(status, b"", headers=headers), answers.answer(200, text_of(1)))
    report = home.acquire(ONE)
    assert report.count("fetched") == 1
    assert home.time.elapsed == pytest.approx(120, abs=1)


def test_a_retry_after_that_has_passed_or_is_noise_waits_no_longer_than_a_backoff(home: Home, site: Publisher) -> None:
    past = answers.answer(503, b"", headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})
    odd = answers.answer(503, b"", headers={"Retry-After": "soon"})
    site.serve(PATH, past, odd, answers.answer(200, text_of(1)))
    assert home.acquire(ONE).count("fetched") == 1
    assert home.time.elapsed < 2


PAUSES: dict[str, tuple[answers.Behaviour, float]] = {
    "403 with a page about a threshold": (THRESHOLD, 600),
    "403 with any page": (answers.page(403, "Forbidden"), 600),
    "403 that names a time": (answers.page(403, "Forbidden", headers={"Retry-After": "3000"}), 3000),
    "429 with a long Retry-After": (answers.answer(429, b"", headers={"Retry-After": "86400"}), 86400),
    "429 with a date tomorrow": (
        answers.answer(429, b"", headers={"Retry-After": formatdate(NOW + 86400, usegmt=True)}),
        86400,
    ),
    "429 about a daily quota": (answers.page(429, "Daily quota exceeded"), 600),
    "503 for hours": (answers.page(503, "Maintenance", headers={"Retry-After": "7200"}), 7200),
    "200 with a page about a threshold": (answers.page(200, "Request Rate Threshold Exceeded"), 600),
}


@pytest.mark.parametrize("name", PAUSES)
def test_a_quota_or_threshold_pauses_the_host_and_nothing_is_retried(home: Home, site: Publisher, name: str) -> None:
    behaviour, seconds = PAUSES[name]
    site.serve("/rfc/rfc2.txt", behaviour)
    report = home.acquire(ONE, TWO, THREE, memo(4))
    assert report.counts == {"fetched": 1, "pending": 3, "failed": 0, "intact": 0, "superseded": 0}
    assert site.asked("/rfc/rfc2.txt") == 1
    assert len(site.requests) == 2
    assert home.time.elapsed == 0
    (pause,) = report.pauses
    assert pause.host == f"127.0.0.1:{site.port}"
    assert pause.until == pytest.approx(NOW + seconds, abs=1)
    assert pause.reason
    assert "paused until 2026-" in row(report, THREE)["cause"]
    assert home.table.frame().is_empty()


def test_a_pause_holds_in_the_next_run_and_ends_by_itself(home: Home, site: Publisher) -> None:
    site.serve(PATH, THRESHOLD, answers.answer(200, text_of(1)))
    home.acquire(ONE, TWO)
    home.time.elapsed += 590
    early = home.acquire(ONE, TWO)
    assert (early.requests, early.count("pending")) == (0, 2)
    assert early.pauses[0].reason.startswith("403")
    home.time.elapsed += 20
    late = home.acquire(ONE, TWO)
    assert (late.requests, late.count("fetched"), late.pauses) == (2, 2, ())


def test_a_host_that_answers_429_to_every_attempt_is_paused(home: Home, site: Publisher) -> None:
    site.serve(PATH, answers.page(429, "Slow down"))
    report = home.acquire(ONE, TWO)
    assert (report.count("pending"), site.asked(PATH), len(report.pauses)) == (2, 3, 1)


def test_a_document_that_pauses_its_host_each_time_cannot_keep_the_others_out(home: Home, site: Publisher) -> None:
    site.serve(PATH, THRESHOLD)
    for expected in (("pending", "pending"), ("pending", "fetched"), ("failed", "intact")):
        report = home.acquire(ONE, TWO)
        assert (row(report, ONE)["status"], row(report, TWO)["status"]) == expected
        home.time.elapsed += 3600
    assert "led to a pause 3 times" in home.table.frame()["cause"][0]


def test_403_without_a_page_is_about_the_document_alone(home: Home, site: Publisher) -> None:
    site.serve(PATH, answers.answer(403, b"<?xml version='1.0'?><Error>AccessDenied</Error>", "application/xml"))
    report = home.acquire(ONE, TWO)
    assert (row(report, ONE)["status"], row(report, TWO)["status"]) == ("failed", "fetched")


def test_a_redirect_loop_and_a_chain_without_end_are_given_up(home: Home, site: Publisher) -> None:
    site.serve(PATH, answers.redirect("/b"))
    site.serve("/b", answers.redirect(PATH))
    for hop in range(20):
        site.serve("/rfc/rfc2.txt" if hop == 0 else f"/hop{hop}", answers.redirect(f"/hop{hop + 1}"))
    report = home.acquire(ONE, TWO, THREE)
    assert "a redirect loop" in row(report, ONE)["cause"]
    assert "redirects, the last to" in row(report, TWO)["cause"]
    assert row(report, THREE)["status"] == "fetched"
    assert home.table.frame()["final"].to_list() == [True, True]


def test_a_redirect_to_another_host_is_not_followed(home: Home, site: Publisher, tmp_path: Path) -> None:
    with Publisher(tmp_path / "site") as other:
        site.serve(PATH, answers.redirect(f"{other.base}{PATH}"))
        site.serve("/rfc/rfc2.txt", answers.redirect("file:///etc/hostname"))
        report = home.acquire(ONE, TWO, THREE)
        assert other.requests == []
    assert f"a redirect to another site, {other.base}" in row(report, ONE)["cause"]
    assert "another site, file:" in row(report, TWO)["cause"]
    assert row(report, THREE)["status"] == "fetched"


def test_a_slow_drip_is_cut_off_by_the_total_deadline(home: Home, site: Publisher) -> None:
    site.serve(PATH, answers.drip(text_of(1)))
    started = time.monotonic()
    report = home.acquire(ONE, TWO, options={"deadline": 0.3, "clock": time.monotonic})
    assert time.monotonic() - started < 3
    assert "longer than its 0.3 s" in row(report, ONE)["cause"]
    assert row(report, TWO)["status"] == "fetched"


def test_a_silent_server_times_out(home: Home, site: Publisher) -> None:
    site.serve(PATH, answers.after(5, answers.answer(200, text_of(1))))
    report = home.acquire(ONE, options={"timeout": 0.1, "retries": RetryPolicy(attempts=2)})
    assert "ReadTimeout" in row(report, ONE)["cause"]


def test_a_server_without_tls_under_https_fails_with_tls_as_the_cause_and_is_not_retried(
    home: Home, site: Publisher
) -> None:
    record = memo(1, url=f"https://127.0.0.1:{site.port}/rfc/rfc1.txt", mirror_path=None)
    home.mirror = None
    report = home.acquire(record)
    assert row(report, record)["cause"].startswith("TLS to 127.0.0.1")
    assert (row(report, record)["attempts"], home.time.slept) == (1, [])


def test_a_certificate_that_nobody_signed_is_refused(home: Home, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: no certificate to make")
    names = ["-keyout", str(tmp_path / "k.pem"), "-out", str(tmp_path / "c.pem")]
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", *names]
    subprocess.run(make, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "c.pem", tmp_path / "k.pem")
    with Publisher(tmp_path / "site", tls=context) as secure:
        record = memo(1, url=f"{secure.base}{PATH}", mirror_path=None)
        home.mirror = None
        report = home.acquire(record)
        assert "certificate verify failed" in row(report, record)["cause"]
        assert secure.requests == []


def test_a_mirror_that_nobody_serves_is_named_with_the_remedy(tmp_path: Path) -> None:
    with Publisher() as gone:
        base = gone.base
    with pytest.raises(AcquisitionError, match=r"http://127\.0\.0\.1:\d+ cannot be reached.*ZEROTH_MIRROR"):
        Home(tmp_path, base).acquire(ONE, TWO)


def test_a_publisher_that_is_down_costs_one_document_its_attempts_and_no_other_host_a_thing(
    home: Home, site: Publisher
) -> None:
    with Publisher() as gone:
        base = gone.base
    lost = [memo(n, url=f"{base}/{n}", mirror_path=None) for n in (5, 6, 7)]
    here = memo(1, url=f"{site.base}{PATH}", mirror_path=None)
    home.mirror = None
    report = home.acquire(*lost, here)
    assert [row(report, r)["status"] for r in (*lost, here)] == ["failed", "pending", "pending", "fetched"]
    assert "cannot be reached" in row(report, lost[1])["cause"]


def test_sec_gov_is_not_asked_without_a_contact(home: Home, site: Publisher) -> None:
    home.mirror = None
    record = filing(1, url="https://www.sec.gov/Archives/x.htm", mirror_path=None)
    with pytest.raises(AcquisitionError, match="ZEROTH_CONTACT"):
        home.acquire(record)
    here = memo(1, url=f"{site.base}{PATH}", mirror_path=None)
    report = home.acquire(record, here)
    assert (row(report, record)["status"], row(report, here)["status"]) == ("pending", "fetched")
    assert report.requests == 1


@pytest.mark.parametrize("contact", ["me", "a@b.org\r\nX-Evil: 1", "é@example.org", ""])
def test_a_contact_that_cannot_be_declared_is_refused(home: Home, contact: str) -> None:
    with pytest.raises(AcquisitionError, match="ZEROTH_CONTACT"):
        home.acquire(ONE, options={"contact": contact})


def test_requests_to_a_paced_host_keep_their_distance(home: Home, site: Publisher) -> None:
    ceilings = Ceilings(hosts={"127.0.0.1": 5.0})
    report = home.acquire(*(memo(n) for n in range(1, 8)), options={"ceilings": ceilings})
    assert report.count("fetched") == 7
    assert home.time.elapsed == pytest.approx(6 / 5)


def test_many_workers_on_a_real_clock_keep_the_distance_too(home: Home, site: Publisher) -> None:
    real = {"ceilings": Ceilings(hosts={"127.0.0.1": 40.0}), "clock": time.monotonic, "sleep": None}
    home.acquire(*(memo(n) for n in range(1, 10)), workers=8, options=real)
    moments = sorted(r.at for r in site.requests)
    # A thread may be held up between its turn and its request, so the span is compared with a little less.
    assert moments[-1] - moments[0] >= 8 / 40 - 0.02


@pytest.mark.parametrize("damage", [b"", b"short", text_of(1)[:1000], text_of(1)[:-1] + b"?"])
def test_a_damaged_file_is_fetched_again_and_an_intact_one_is_not(home: Home, site: Publisher, damage: bytes) -> None:
    home.acquire(ONE, TWO)
    raw_path(home.raw_dir, ONE).write_bytes(damage)
    report = home.acquire(ONE, TWO)
    assert (row(report, ONE)["status"], row(report, TWO)["status"]) == ("fetched", "intact")
    assert home.has(ONE)
    assert site.asked("/rfc/rfc2.txt") == 1


def test_half_files_of_a_killed_process_are_removed(home: Home) -> None:
    leftover = raw_path(home.raw_dir, ONE).parent / f".{ONE.sha256}.txt.999.abc.part"
    leftover.parent.mkdir(parents=True)
    leftover.write_bytes(b"half")
    home.acquire(ONE)
    assert home.files() == [f"{ONE.sha256}.txt"]


def test_a_full_disk_ends_the_run_with_the_remedy_and_leaves_no_half_file(home: Home, site: Publisher) -> None:
    room = 2

    def write(path: Path, payload: bytes) -> None:
        nonlocal room
        room -= 1
        if room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_atomic(path, payload)

    with pytest.raises(AcquisitionError, match=r"Nothing can be written.*No space left.*ZEROTH_HOME"):
        home.acquire(*(memo(n) for n in range(1, 8)), write=write)
    assert len(home.files()) == 2
    assert home.table.frame().is_empty()
    site.forget()
    assert home.acquire(*(memo(n) for n in range(1, 8))).counts["fetched"] == 5
    assert len(site.requests) == 5


def test_a_failure_that_nobody_foresaw_is_that_document_alone(home: Home) -> None:
    def write(path: Path, payload: bytes) -> None:
        if payload == text_of(1):
            raise ValueError("surprise")
        write_atomic(path, payload)

    report = home.acquire(ONE, TWO, write=write)
    assert row(report, ONE)["cause"] == "ValueError: surprise"
    assert row(report, TWO)["status"] == "fetched"


def test_a_run_ended_from_outside_leaves_finished_files_and_the_next_completes(home: Home, site: Publisher) -> None:
    def interrupt(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    records = [memo(n) for n in range(1, 10)]
    with pytest.raises(KeyboardInterrupt):
        home.acquire(*records, progress=interrupt)
    kept = sum(home.has(r) for r in records)
    assert 3 <= kept < 9
    site.forget()
    assert home.acquire(*records).counts["fetched"] == 9 - kept
    assert len(site.requests) == 9 - kept


def test_progress_counts_every_document_to_the_end(home: Home) -> None:
    seen: list[tuple[int, int]] = []
    home.acquire(ONE, progress=lambda done, total: seen.append((done, total)))
    home.acquire(ONE, TWO, THREE, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 1), (1, 1), (1, 3), (2, 3), (3, 3)]


def test_a_folder_as_mirror_gives_the_same_files(tmp_path: Path, site: Publisher) -> None:
    home = Home(tmp_path / "home", str(tmp_path / "site"))
    report = home.acquire(ONE, filing(1))
    assert (report.count("fetched"), report.requests) == (2, 0)
    assert home.has(ONE)
    assert not raw_path(home.raw_dir, ONE).samefile(tmp_path / "site/rfc/rfc1.txt")


def test_a_mirror_folder_that_is_not_there_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(AcquisitionError, match=r"absent is not there.*ZEROTH_MIRROR"):
        Home(tmp_path, str(tmp_path / "absent")).acquire(ONE)


def test_a_file_missing_or_cut_in_a_mirror_folder_is_reported_and_the_same_command_completes(
    tmp_path: Path, site: Publisher
) -> None:
    folder = tmp_path / "site"
    (folder / "rfc/rfc1.txt").unlink()
    (folder / "rfc/rfc2.txt").write_bytes(text_of(2)[:1500])
    home = Home(tmp_path / "home", str(folder))
    report = home.acquire(ONE, TWO, THREE)
    assert [row(report, r)["status"] for r in (ONE, TWO, THREE)] == ["failed", "failed", "fetched"]
    assert "No such file" in row(report, ONE)["cause"]
    assert "cut off" in row(report, TWO)["cause"]
    (folder / "rfc/rfc1.txt").write_bytes(text_of(1))
    (folder / "rfc/rfc2.txt").write_bytes(text_of(2))
    assert home.acquire(ONE, TWO, THREE).counts["fetched"] == 2


def test_a_record_that_only_a_mirror_serves_says_so_where_there_is_none(home: Home) -> None:
    home.mirror = None
    with pytest.raises(AcquisitionError, match=r"rfc:1 is only to be had from a mirror.*ZEROTH_MIRROR"):
        home.acquire(ONE)


def test_names_with_spaces_and_accents_are_quoted_for_the_server(home: Home, site: Publisher, tmp_path: Path) -> None:
    name = "cuad/LECLANCHÉ S.A. - JOINT #2 (50%) AGREEMENT?.txt"
    (tmp_path / "site/cuad").mkdir()
    (tmp_path / "site" / name).write_bytes(text_of(40))
    record = memo(40, document_id="cuad:leclanch", source="cuad", mirror_path=name)
    assert home.acquire(record).count("fetched") == 1
    assert site.requests[0].path.startswith("/cuad/LECLANCH%C3%89%20S.A.")


def test_a_letter_of_a_version_that_the_manifest_no_longer_names_is_forgotten(home: Home, site: Publisher) -> None:
    wrong = memo(1, b"never served")
    home.acquire(wrong)
    assert home.table.frame().height == 1
    assert home.acquire(ONE).count("fetched") == 1
    assert home.table.frame().is_empty()


@pytest.mark.parametrize("workers", [1, 8])
def test_many_workers_do_what_one_does(home: Home, site: Publisher, workers: int) -> None:
    site.serve(PATH, answers.page(404, "no"))
    site.serve("/rfc/rfc2.txt", answers.reset_at(text_of(2)), answers.answer(200, text_of(2)))
    report = home.acquire(*(memo(n) for n in range(1, 10)), workers=workers)
    assert report.counts == {"fetched": 8, "failed": 1, "pending": 0, "intact": 0, "superseded": 0}
    assert report.requests == len(site.requests) == 10


def test_the_report_keeps_the_order_of_the_records_and_types_its_columns(home: Home, site: Publisher) -> None:
    site.serve(PATH, answers.page(404, "no"))
    report = home.acquire(THREE, ONE, TWO)
    assert report.documents["document_id"].to_list() == ["rfc:3", "rfc:1", "rfc:2"]
    expected: dict[str, Any] = {"bytes": len(text_of(3)), "origin": f"{site.base}/rfc/rfc3.txt", "attempts": 1}
    assert {k: row(report, THREE)[k] for k in expected} == expected
    assert hashlib.sha256(text_of(3)).hexdigest() == row(report, THREE)["version"]
