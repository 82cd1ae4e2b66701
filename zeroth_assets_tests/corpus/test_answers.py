from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from zeroth_assets.corpus.answers import Answer, Expected, excerpt, judge, looks_like_html, problem_of, retry_after
from zeroth_assets.corpus.manifest import load_manifest
from zeroth_assets.settings import project_file

TEXT = Expected("text/plain", "0" * 64, 100)


def verdict(status: int, body: bytes = b"", **headers: str) -> tuple[str, float | None]:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    found = judge(Answer("https://example.org/x", status, body, given), TEXT, now=0.0, longest_wait=120)
    return found.kind, found.seconds


@pytest.mark.mirror
def test_no_real_document_is_taken_for_an_error_page_and_most_cuts_are_seen(mirror: Path) -> None:
    whole, cut = 0, 0
    records = load_manifest(project_file("corpus_manifest.json")).records
    for record in records:
        body = (mirror / str(record.mirror_path)).read_bytes()
        assert problem_of(body, Expected(record.media_type)) is None, record.document_id
        whole += 1
        cut += problem_of(body[: int(len(body) * 0.6)], Expected(record.media_type, None, record.bytes)) is not None
    assert (whole, cut >= 1240) == (1267, True)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("120", 120.0),
        ("0", 0.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 60.0),
        ("Wednesday, 21-Oct-26 07:28:00 GMT", 60.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("-5", None),
        ("soon", None),
        ("", None),
        ("9" * 40, None),
    ],
)
def test_retry_after_is_read_in_both_forms_and_noise_is_none(header: str, expected: float | None) -> None:
    now = 1_792_567_620.0  # Wed, 21 Oct 2026 07:27:00 GMT
    assert retry_after({"retry-after": header}, now) == expected


def test_a_retry_after_date_is_compared_with_the_servers_own_clock() -> None:
    headers = {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "date": "Wed, 21 Oct 2026 07:27:30 GMT"}
    assert retry_after(headers, now=0.0) == 30.0


def test_the_border_between_a_wait_and_a_pause_is_the_longest_wait() -> None:
    assert verdict(429, retry_after="120") == ("wait", 120.0)
    assert verdict(429, retry_after="121") == ("pause", 121.0)
    assert verdict(503, retry_after="86400") == ("pause", 86400.0)


def test_a_transient_429_is_no_quota() -> None:
    assert verdict(429, b"<html><title>Too Many Requests</title></html>") == ("wait", None)
    assert verdict(429, b"Your daily quota exceeded the limit")[0] == "pause"


def test_403_pauses_with_a_page_and_refuses_without() -> None:
    assert verdict(403, b"<!doctype html><p>Forbidden") == ("pause", 600.0)
    assert verdict(403, b"Undeclared Automated Tool")[0] == "pause"
    assert verdict(403, b"<Error><Code>AccessDenied</Code></Error>")[0] == "refused"
    assert verdict(403)[0] == "refused"


@pytest.mark.parametrize(
    ("status", "kind"), [(408, "wait"), (425, "wait"), (500, "wait"), (504, "wait"), (404, "refused")]
)
def test_other_statuses(status: int, kind: str) -> None:
    assert verdict(status)[0] == kind


def test_a_document_about_limits_and_passwords_is_still_the_document() -> None:
    body = b"<html><title>Error</title><input type=password>Request Rate Threshold</html>"
    expected = Expected("text/plain", hashlib.sha256(body).hexdigest())
    assert judge(Answer("u", 200, body), expected, now=0.0, longest_wait=0.0).kind == "document"


def test_html_is_known_by_its_opening_behind_a_bom_a_comment_or_an_xml_line() -> None:
    assert looks_like_html(b"\xef\xbb\xbf  <!DOCTYPE html>")
    assert looks_like_html(b"<?xml version='1.0'?>\n<!-- made by x -->\n<html xmlns='y'>")
    assert not looks_like_html(b"<SEC-DOCUMENT>0000021344-98-000004.txt")
    assert not looks_like_html(b"The <html> element")


def test_a_filing_in_sgml_text_is_no_html_page() -> None:
    body = b"-----BEGIN PRIVACY-ENHANCED MESSAGE-----\n<SEC-HEADER>\n<PAGE>\n" + b"ITEM 1. BUSINESS\n" * 90
    assert problem_of(body, Expected("text/plain")) is None


def test_a_new_version_may_be_shorter_if_it_ends_where_a_text_ends() -> None:
    assert problem_of(b"word\n" * 90, Expected("text/plain", None, 500)) is None
    assert "cut off" in str(problem_of(b"word\n" * 90 + b"wo", Expected("text/plain", None, 500)))
    page = b"<html><body><p>" + b"word " * 90
    assert "cut off" in str(problem_of(page, Expected("text/html", None, 600)))
    assert problem_of(page + b"</body></html>\n", Expected("text/html", None, 600)) is None


def test_an_excerpt_has_the_words_and_not_the_markup() -> None:
    assert excerpt(b"<html><script>var x;</script><h1>Rate  limit</h1>\n<p>Slow down.\x07") == "Rate limit Slow down."
    assert len(excerpt(b"word " * 100)) == 120
