from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import pytest

from zeroth_assets.corpus.dead_letters import DEAD_LETTER_SCHEMA, DeadLetter, DeadLetters
from zeroth_assets.corpus.report import Pause
from zeroth_assets.errors import AcquisitionError

LETTER = DeadLetter("rfc:1", "a" * 64, "rfc", "https://example.org/1", "500", False, 3, "run again", "500 (text/html)")


def test_a_second_failure_adds_its_attempts_and_keeps_the_first_date(tmp_path: Path) -> None:
    table = DeadLetters(tmp_path)
    table.bury(LETTER, 0.0)
    table.bury(dataclasses.replace(LETTER, cause="404", final=True, attempts=1), 86400.0)
    (row,) = table.frame().iter_rows(named=True)
    assert table.frame().schema == DEAD_LETTER_SCHEMA
    assert (row["attempts"], row["cause"], row["final"]) == (4, "404", True)
    assert (row["first_seen"][:10], row["last_seen"][:10]) == ("1970-01-01", "1970-01-02")


def test_letters_are_told_apart_by_version_and_source(tmp_path: Path) -> None:
    table = DeadLetters(tmp_path)
    table.bury(LETTER, 0.0)
    table.bury(dataclasses.replace(LETTER, version="b" * 64), 0.0)
    table.bury(dataclasses.replace(LETTER, document_id="sec:1:10-k:2020-12-31", source="sec"), 0.0)
    assert table.frame("rfc").height == 2
    assert table.frame(versions=[("rfc:1", "b" * 64)])["version"].to_list() == ["b" * 64]
    table.forget([("rfc:1", "b" * 64)])
    assert table.frame().height == 2


def test_release_frees_the_named_documents_only(tmp_path: Path) -> None:
    table = DeadLetters(tmp_path)
    for number in (1, 2):
        table.bury(dataclasses.replace(LETTER, document_id=f"rfc:{number}", final=True), 0.0)
    assert table.release(["rfc:2", "rfc:99"]) == ("rfc:2",)
    assert dict(table.frame().select("document_id", "final").iter_rows()) == {"rfc:1": True, "rfc:2": False}
    assert table.release() == ("rfc:1", "rfc:2")


def test_a_pause_is_kept_until_its_time_and_the_later_time_wins(tmp_path: Path) -> None:
    DeadLetters(tmp_path).pause(Pause("sec.gov", "threshold", 1000.0))
    DeadLetters(tmp_path).pause(Pause("sec.gov", "threshold again", 900.0))
    table = DeadLetters(tmp_path)
    assert table.pauses(999.0) == {"sec.gov": Pause("sec.gov", "threshold again", 1000.0)}
    assert table.pauses(1000.0) == {}
    table.pause(Pause("sec.gov", "threshold", 5000.0))
    table.resume("sec.gov")
    assert table.pauses(0.0) == {}


def test_many_threads_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    def work(number: int) -> None:
        for _ in range(5):
            DeadLetters(tmp_path).bury(dataclasses.replace(LETTER, document_id=f"rfc:{number}", attempts=1), 0.0)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert DeadLetters(tmp_path).frame()["attempts"].to_list() == [5] * 8


def test_a_damaged_table_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "acquisition.sqlite").write_bytes(b"this is no database, and long enough to be read as a header" * 20)
    with pytest.raises(AcquisitionError, match=r"acquisition\.sqlite.*may be removed"):
        DeadLetters(tmp_path).frame()
