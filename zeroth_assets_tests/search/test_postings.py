"""Postings: what they count, how they are joined, and that a damaged or foreign file is refused."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroth_assets.errors import ArtefactError, ChunkingError
from zeroth_assets.search.analyser import ANALYSERS
from zeroth_assets.search.postings import ARRAYS, Part, Postings, spelled_out, term_hashes
from zeroth_assets.search.postings_build import build_postings
from zeroth_assets.search.postings_file import open_postings, postings_from_bytes, postings_to_bytes, write_postings
from zeroth_assets.search.postings_join import join_postings

TEXTS = {7: "idle timeout, idle ERR-4012", 3: "", 11: "the § 14.2 timeout"}


def build(chunks: dict[int, str], tenant: str = "rfc-quic", analyser: str = "compound") -> Postings:
    return build_postings(
        list(chunks), list(chunks.values()), tenant=tenant, chunk_set="fixed_512", analyser=ANALYSERS[analyser]
    )


def counted(postings: Postings) -> dict[str, dict[int, int]]:
    """term -> chunk id -> how often, by the slow way round."""
    found: dict[str, dict[int, int]] = {}
    for row, term in enumerate(postings.terms()):
        inside = slice(int(postings.starts[row]), int(postings.starts[row + 1]))
        ids = postings.chunk_ids[postings.chunks[inside]].tolist()
        found[term] = dict(zip(ids, postings.counts[inside].tolist(), strict=True))
    return found


def expected(chunks: dict[int, str]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for chunk_id, text in chunks.items():
        for token, times in Counter(t.term for t in ANALYSERS["compound"].analyse(text)).items():
            found.setdefault(token, {})[chunk_id] = times
    return found


words = st.lists(
    st.sampled_from(["idle", "timeout", "ERR-4012", "§14.2", "東京", "the", "\x00", "é" * 300]), max_size=12
)
corpora = st.dictionaries(st.integers(-(2**63), 2**63 - 1), words.map(" ".join), max_size=12)


@given(corpora)
def test_postings_count_what_the_analyser_gives(chunks: dict[int, str]) -> None:
    postings = build(chunks)
    assert counted(postings) == expected(chunks)
    assert postings.chunk_ids.tolist() == sorted(chunks)
    lengths = {i: len(ANALYSERS["compound"].analyse(text)) for i, text in chunks.items()}
    assert postings.lengths.tolist() == [lengths[i] for i in sorted(chunks)]


@given(corpora, corpora, corpora)
def test_joined_postings_count_what_each_tenant_counts(
    first: dict[int, str], second: dict[int, str], third: dict[int, str]
) -> None:
    tenants = (first, second, third)
    each = [build({3 * (i % 10**9) + n: t for i, t in chunks.items()}, f"t{n}") for n, chunks in enumerate(tenants)]
    joined = join_postings(each)
    total: dict[str, dict[int, int]] = {}
    for postings in each:
        for term, by_chunk in counted(postings).items():
            total.setdefault(term, {}).update(by_chunk)
    assert counted(joined) == total
    assert joined.lengths.tolist() == [n for postings in each for n in postings.lengths.tolist()]
    for postings in each:
        for chunk_id in postings.chunk_ids.tolist():
            place = joined.place(chunk_id)
            assert place is not None
            assert joined.chunk_ids[place] == chunk_id


@given(corpora)
def test_a_written_file_is_read_back_as_it_was(chunks: dict[int, str]) -> None:
    postings = build(chunks)
    again = postings_from_bytes(postings_to_bytes(postings))
    assert (again.parts, again.chunk_set, again.analyser) == (postings.parts, postings.chunk_set, postings.analyser)
    for name in ARRAYS:
        assert np.array_equal(getattr(again, name), getattr(postings, name)), name
        assert getattr(again, name).dtype == getattr(postings, name).dtype, name


def test_the_same_chunks_in_another_order_give_the_same_bytes() -> None:
    backwards = dict(reversed(TEXTS.items()))
    assert postings_to_bytes(build(TEXTS)) == postings_to_bytes(build(backwards))


def test_an_entry_takes_two_bytes_in_a_small_tenant_and_more_only_where_needed() -> None:
    assert {build(TEXTS).chunks.dtype, build(TEXTS).counts.dtype} == {np.dtype("u1")}
    wide = build({i: "a " * (300 if i == 5 else 1) for i in range(300)})
    assert {wide.chunks.dtype, wide.counts.dtype} == {np.dtype("<u2")}
    assert wide.counts.max() == 300


def test_terms_are_found_by_spelling_and_not_by_hash_alone() -> None:
    postings = build(TEXTS)
    asked = [b"idle", b"nothing", b"timeout"]
    found = postings.ranges(asked, term_hashes(asked))
    assert [end - first for first, end in found] == [1, 0, 2]
    assert postings.ranges([b"other"], term_hashes([b"idle"])) == [(0, 0)]


def test_building_reports_progress_to_the_last_text() -> None:
    seen: list[tuple[int, int]] = []
    build_postings(
        range(3), ["a"] * 3, tenant="t", chunk_set="c", analyser=ANALYSERS["exact"], progress=lambda *p: seen.append(p)
    )
    assert seen[-1] == (3, 3)


@pytest.mark.parametrize(("ids", "texts"), [([1, 1], ["a", "b"]), ([1, 2], ["a"])])
def test_an_id_twice_or_a_text_missing_is_refused(ids: list[int], texts: list[str]) -> None:
    with pytest.raises(ChunkingError, match="cannot be indexed"):
        build_postings(ids, texts, tenant="t", chunk_set="c", analyser=ANALYSERS["exact"])


def test_postings_of_different_kinds_or_one_tenant_twice_are_not_joined() -> None:
    with pytest.raises(ArtefactError, match="twice"):
        join_postings([build(TEXTS), build({1: "a"})])
    with pytest.raises(ArtefactError, match="different kinds"):
        join_postings([build(TEXTS), build({1: "a"}, "rfc-tls", "exact")])


def test_joined_postings_are_never_written(tmp_path: Path) -> None:
    joined = join_postings([build(TEXTS), build({1: "a"}, "rfc-tls")])
    with pytest.raises(ArtefactError, match="not written"):
        write_postings(joined, tmp_path / "joined")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_memory_mapped_and_readable_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "rfc-quic.bm25"
    write_postings(build(TEXTS), path)
    postings = open_postings(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not postings.chunk_ids.flags.owndata
    assert not postings.chunk_ids.flags.writeable
    assert postings.parts == (Part("rfc-quic", 3),)
    assert counted(postings) == expected(TEXTS)


def test_replacing_a_file_leaves_what_is_open_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "rfc-quic.bm25"
    write_postings(build(TEXTS), path)
    before = open_postings(path)
    write_postings(build({1: "other"}), path)
    assert counted(before) == expected(TEXTS)
    assert open_postings(path).terms() == ["other"]
    assert os.listdir(tmp_path) == [path.name]  # noqa: PTH208 - hidden temporary files must be seen too


@pytest.fixture(scope="module")
def payload() -> bytes:
    return postings_to_bytes(build(TEXTS))


@given(st.data())
def test_any_bit_that_turns_is_noticed(payload: bytes, data: st.DataObject) -> None:
    damaged = bytearray(payload)
    damaged[data.draw(st.integers(0, len(payload) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ArtefactError, match="cannot be used"):
        postings_from_bytes(bytes(damaged))


@given(st.data())
def test_a_file_cut_short_or_with_more_at_its_end_is_noticed(payload: bytes, data: st.DataObject) -> None:
    cut = payload[: data.draw(st.integers(0, len(payload) - 1))]
    for damaged in (cut, payload + b"\0"):
        with pytest.raises(ArtefactError, match="cannot be used"):
            postings_from_bytes(damaged)


@pytest.mark.parametrize("content", [b"", b"PAR1" + bytes(100), b"\x93NUMPY\x01\x00" + bytes(200)])
def test_a_foreign_or_empty_file_is_refused_with_its_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rfc-quic.bm25"
    path.write_bytes(content)
    with pytest.raises(ArtefactError, match=r"rfc-quic\.bm25.*materialise"):
        open_postings(path)


def test_a_missing_file_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match="absent"):
        open_postings(tmp_path / "absent")


def forged(payload: bytes, change: dict[str, object], version: int = 1) -> bytes:
    """The file with another header, its checksum made right, as only a deliberate hand or another program writes."""
    size = struct.unpack_from("<I", payload, 12)[0]
    header = json.loads(payload[48 : 48 + size])
    header = {k: v for k, v in (header | change).items() if v is not None}
    encoded = json.dumps(header).encode()
    return (
        struct.pack("<8sII32s", payload[:8], version, len(encoded), hashlib.sha256(encoded).digest())
        + encoded
        + payload[48 + size :]
    )


def test_another_format_version_is_refused(payload: bytes) -> None:
    assert postings_from_bytes(forged(payload, {})).size == 3
    with pytest.raises(ArtefactError, match="version 1"):
        postings_from_bytes(forged(payload, {}, version=2))


@pytest.mark.parametrize("field", ["tenant", "analyser", "arrays", "body_bytes", "body_sha256"])
def test_a_header_without_a_field_is_refused(payload: bytes, field: str) -> None:
    with pytest.raises(ArtefactError, match="cannot be used"):
        postings_from_bytes(forged(payload, {field: None}))


@pytest.mark.parametrize(
    ("array", "layout"),
    [
        ("chunks", ["|u1", 10**6, 0]),
        ("chunks", ["<f8", 1, 0]),
        ("chunks", ["|O", 1, 0]),
        ("lengths", ["<u4", 1, 0]),
        ("starts", ["<i8", 2, 0]),
        ("chunks", ["|u1", -1, 0]),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(payload: bytes, array: str, layout: list[object]) -> None:
    size = struct.unpack_from("<I", payload, 12)[0]
    arrays = json.loads(payload[48 : 48 + size])["arrays"] | {array: layout}
    with pytest.raises(ArtefactError, match="cannot be used"):
        postings_from_bytes(forged(payload, {"arrays": arrays}))


def test_a_lone_surrogate_does_not_stop_a_build() -> None:
    assert sorted(build({1: "ok \ud800 \udfffx"}).terms()) == ["ok", "x"]
    assert spelled_out("\ud800") == b"?"
