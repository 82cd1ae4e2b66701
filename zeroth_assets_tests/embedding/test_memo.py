from __future__ import annotations

import contextlib
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from zeroth_assets.embedding import Memo, embed_with_memo
from zeroth_assets.embedding.memo import text_sha256
from zeroth_assets.errors import EmbeddingError
from zeroth_assets_tests.embedding.stub_encoder import StubEncoder, vector_of

TEXTS = [f"text number {n}" for n in range(700)]


@pytest.fixture
def memo(tmp_path: Path) -> Memo:
    return Memo(tmp_path / "deep" / "memo.sqlite")


def test_nothing_is_embedded_twice(memo: Memo) -> None:
    encoder = StubEncoder()
    first = embed_with_memo(TEXTS, encoder, memo)
    again = embed_with_memo(TEXTS[::-1], encoder, memo)
    assert (first.hits, first.misses, again.hits, again.misses) == (0, 700, 700, 0)
    assert encoder.calls == [256, 256, 188, 4]  # and four to see whether the memo still agrees
    assert again.chunks_per_second == 0
    np.testing.assert_array_equal(first.vectors, np.stack([vector_of(t) for t in TEXTS]))
    np.testing.assert_array_equal(again.vectors, first.vectors[::-1])


def test_a_text_that_occurs_twice_is_embedded_once_and_answered_twice(memo: Memo) -> None:
    report = embed_with_memo(["a", "b", "a", "a"], StubEncoder(), memo)
    assert (report.hits, report.misses) == (0, 2)
    np.testing.assert_array_equal(report.vectors, np.stack([vector_of(t) for t in "abaa"]))


def test_another_fingerprint_finds_nothing(memo: Memo) -> None:
    embed_with_memo(TEXTS[:3], StubEncoder(), memo)
    other = StubEncoder("another")
    assert embed_with_memo(TEXTS[:3], other, memo).misses == 3
    assert memo.count() == 6
    assert memo.count(other.fingerprint.digest) == 3


def test_hostile_texts_have_keys_of_their_own(memo: Memo) -> None:
    texts = ["", " ", "\x00", "\ud800", "\udfff", "\ufffd", "e\u0301", "é"]
    assert embed_with_memo(texts, StubEncoder(), memo).misses == len(texts)


def test_it_works_without_a_memo_and_without_texts(memo: Memo) -> None:
    assert embed_with_memo(TEXTS[:5], StubEncoder(), None).misses == 5
    assert embed_with_memo([], StubEncoder(), memo).vectors.shape == (0, 8)


def test_progress_counts_what_was_known_at_once(memo: Memo) -> None:
    embed_with_memo(TEXTS[:100], StubEncoder(), memo)
    seen: list[tuple[int, int]] = []
    embed_with_memo(TEXTS, StubEncoder(), memo, lambda *p: seen.append(p))
    assert seen == [(100, 700), (356, 700), (612, 700), (700, 700)]


def test_a_vector_of_another_length_is_not_taken(memo: Memo) -> None:
    encoder = StubEncoder()
    memo.put({text_sha256("a"): np.ones(3, dtype=np.float32)}, encoder.fingerprint.digest)
    assert embed_with_memo(["a"], encoder, memo).misses == 1
    assert embed_with_memo(["a"], encoder, memo).misses == 0


def change(memo: Memo, statement: str, *values: object) -> None:
    with contextlib.closing(sqlite3.connect(memo.path)) as connection, connection:
        assert connection.execute(statement, values).rowcount > 0


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE vector SET vector = zeroblob(32) WHERE text_sha256 = ?",
        "UPDATE vector SET vector = (SELECT vector FROM vector WHERE text_sha256 <> ?1) WHERE text_sha256 = ?1",
        "UPDATE vector SET checksum = zeroblob(32) WHERE text_sha256 = ?",
    ],
    ids=["zeroed", "another text's", "checksum gone"],
)
def test_a_row_changed_by_hand_is_a_miss_and_is_replaced(memo: Memo, statement: str) -> None:
    encoder = StubEncoder()
    embed_with_memo(["a", "b"], encoder, memo)
    change(memo, statement, text_sha256("a"))
    report = embed_with_memo(["a", "b"], encoder, memo)
    assert (report.hits, report.misses) == (1, 1)
    np.testing.assert_array_equal(report.vectors, np.stack([vector_of("a"), vector_of("b")]))
    assert embed_with_memo(["a", "b"], encoder, memo).misses == 0


def test_a_row_given_to_another_model_is_a_miss(memo: Memo) -> None:
    other = StubEncoder("another")
    embed_with_memo(["a"], StubEncoder(), memo)
    change(memo, "UPDATE fingerprint SET digest = ?", other.fingerprint.digest)
    assert embed_with_memo(["a"], other, memo).misses == 1


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, 2.0])
def test_what_is_no_unit_vector_is_a_miss_whatever_its_checksum_says(memo: Memo, value: float) -> None:
    encoder = StubEncoder()
    wrong = vector_of("a")
    wrong[:] = value
    memo.put({text_sha256("a"): wrong}, encoder.fingerprint.digest)
    report = embed_with_memo(["a"], encoder, memo)
    assert report.misses == 1
    np.testing.assert_array_equal(report.vectors, vector_of("a")[None])


def forge(memo: Memo, texts: list[str]) -> None:
    """Rows with right checksums, and the vectors of other texts."""
    memo.put({text_sha256(t): vector_of(f"not {t}") for t in texts}, StubEncoder().fingerprint.digest)


@pytest.mark.parametrize("asked", [[*TEXTS[:8], "new"], TEXTS[:256]], ids=["beside a miss", "a large call"])
def test_hits_that_the_model_does_not_confirm_are_an_error_that_names_the_file(memo: Memo, asked: list[str]) -> None:
    forge(memo, TEXTS[:256])
    with pytest.raises(EmbeddingError, match=f"delete {memo.path}"):
        embed_with_memo(asked, StubEncoder(), memo)


def test_a_small_call_of_hits_alone_does_not_wake_the_model(memo: Memo) -> None:
    embed_with_memo(TEXTS[:255], StubEncoder(), memo)
    idle = StubEncoder()
    assert embed_with_memo(TEXTS[:255], idle, memo).hits == 255
    assert idle.calls == []


def test_the_sample_of_hits_is_of_four_and_follows_the_seed(memo: Memo) -> None:
    embed_with_memo(TEXTS[:256], StubEncoder(), memo)
    forge(memo, TEXTS[:32])

    def passes(seed: int) -> bool:
        try:
            embed_with_memo(TEXTS[:256], StubEncoder(), memo, seed=seed)
        except EmbeddingError:
            return False
        return True

    found = [passes(seed) for seed in range(40)]
    assert found == [passes(seed) for seed in range(40)]
    assert 0.2 < 1 - sum(found) / 40 < 0.7  # one in eight is forged: a sample of four finds it in 41 %


OLD = """
CREATE TABLE fingerprint (id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE vector (
    fingerprint_id INTEGER NOT NULL REFERENCES fingerprint,
    text_sha256 BLOB NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (fingerprint_id, text_sha256)
) STRICT;
"""


def test_a_file_of_before_checksums_keeps_its_vectors(tmp_path: Path) -> None:
    path, encoder = tmp_path / "memo.sqlite", StubEncoder()
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(OLD)
        connection.execute("INSERT INTO fingerprint VALUES (1, ?)", (encoder.fingerprint.digest,))
        rows = [(text_sha256(t), v.tobytes()) for t, v in (("a", vector_of("a")), ("b", vector_of("b") * np.nan))]
        connection.executemany("INSERT INTO vector VALUES (1, ?, ?)", rows)
    report = embed_with_memo(["a", "b"], encoder, Memo(path))
    assert (report.hits, report.misses) == (1, 1)
    assert embed_with_memo(["a", "b"], encoder, Memo(path)).hits == 2


def test_the_owner_alone_can_read_it(memo: Memo) -> None:
    with contextlib.closing(sqlite3.connect(memo.path)) as reader:  # the last to close removes the files beside it
        reader.execute("SELECT count(*) FROM vector").fetchone()
        embed_with_memo(["a"], StubEncoder(), memo)
        modes = {f.name: stat.S_IMODE(f.stat().st_mode) for f in memo.path.parent.iterdir()}
    assert modes == {f"memo.sqlite{suffix}": 0o600 for suffix in ("", "-wal", "-shm")}
    assert stat.S_IMODE(memo.path.parent.stat().st_mode) == 0o700


def test_the_file_holds_no_text(memo: Memo) -> None:
    embed_with_memo(["a very private sentence"], StubEncoder(), memo)
    for file in memo.path.parent.iterdir():
        assert b"private" not in file.read_bytes()


def test_a_damaged_file_is_an_error_that_says_it_may_go(tmp_path: Path) -> None:
    path = tmp_path / "memo.sqlite"
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(EmbeddingError, match="delete the file"):
        Memo(path)


KILLED = """
import sys, time
from pathlib import Path
from zeroth_assets.embedding import Memo, embed_with_memo
from zeroth_assets_tests.embedding.stub_encoder import StubEncoder

def progress(done, total):
    print(done, flush=True)
    if done >= 512:
        sys.stdin.read()

embed_with_memo([f"text number {n}" for n in range(700)], StubEncoder(), Memo(Path(sys.argv[1])), progress)
"""


def test_a_killed_run_goes_on_where_it_was(memo: Memo) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(memo.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    while child.stdout.readline().strip() != "512":
        assert child.poll() is None
    child.kill()
    child.communicate()
    encoder = StubEncoder()
    report = embed_with_memo(TEXTS, encoder, memo)
    assert (report.hits, report.misses) == (512, 188)
    np.testing.assert_array_equal(report.vectors, np.stack([vector_of(t) for t in TEXTS]))


BESIDE = """
import sys
from pathlib import Path
from zeroth_assets.embedding import Memo, embed_with_memo
from zeroth_assets_tests.embedding.stub_encoder import StubEncoder

memo = Memo(Path(sys.argv[1]))
for n in range(30):
    embed_with_memo([f"text {i}" for i in range(n * 20, n * 20 + 40)], StubEncoder(), memo)
"""


def test_processes_side_by_side_fill_one_memo(memo: Memo) -> None:
    children = [subprocess.Popen([sys.executable, "-c", BESIDE, str(memo.path)]) for _ in range(3)]
    assert [child.wait(timeout=120) for child in children] == [0, 0, 0]
    assert memo.count() == 620
    assert embed_with_memo([f"text {i}" for i in range(620)], StubEncoder(), memo).misses == 0
