from __future__ import annotations

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
    assert sum(encoder.calls) == 700
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
