from __future__ import annotations

import time

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeroth_assets.evaluation.golden.grades import chunk_qrels, out_of_reach, part_grades
from zeroth_assets.evaluation.golden.model import SPAN_SCHEMA, GoldenError
from zeroth_assets_tests.evaluation.golden.builders import VERSION, chunks, queries, query, span, spans

TEXT = "x" * 1000


def grades(truth: pl.DataFrame, cut: pl.DataFrame) -> dict[int, int]:
    qrels = chunk_qrels(part_grades(truth, cut))
    return {int(row["document_id"]): row["grade"] for row in qrels.iter_rows(named=True)}


def test_the_whole_span_is_3_half_of_it_2_some_of_it_1_and_none_of_it_no_row() -> None:
    truth = spans(span("a", "rfc:1", 100, 140, TEXT))
    cut = chunks(
        [
            (1, "rfc:1", 0, 200),  # all of it
            (2, "rfc:1", 100, 140),  # exactly it
            (3, "rfc:1", 120, 300),  # exactly half
            (4, "rfc:1", 121, 300),  # a character less
            (5, "rfc:1", 139, 300),  # one character
            (6, "rfc:1", 140, 300),  # touches its end
            (7, "rfc:1", 0, 100),  # touches its start
        ]
    )
    assert grades(truth, cut) == {1: 3, 2: 3, 3: 2, 4: 1, 5: 1}


def test_of_a_span_longer_than_a_chunk_the_larger_part_of_what_a_chunk_can_hold_is_3() -> None:
    truth = spans(span("a", "rfc:1", 150, 650, TEXT))
    cut = chunks([(i, "rfc:1", 100 * i, 100 * i + 100) for i in range(10)] + [(20, "rfc:1", 620, 690)])
    # Chunk 1 holds 50 of 100: not more than half. Chunk 6 holds 50, the odd one 30.
    assert grades(truth, cut) == {1: 1, 2: 3, 3: 3, 4: 3, 5: 3, 6: 1, 20: 1}


def test_a_span_cut_in_two_though_a_chunk_could_hold_it_reaches_2_at_most() -> None:
    truth = spans(span("a", "rfc:1", 90, 120, TEXT))
    assert grades(truth, chunks([(1, "rfc:1", 0, 100), (2, "rfc:1", 100, 200)])) == {1: 1, 2: 2}


def test_a_span_as_long_as_a_chunk_is_not_longer_than_one() -> None:
    truth = spans(span("a", "rfc:1", 40, 140, TEXT))
    assert grades(truth, chunks([(1, "rfc:1", 0, 100), (2, "rfc:1", 100, 200)])) == {1: 2, 2: 1}


def test_a_span_over_three_chunks_can_be_out_of_every_chunks_reach_and_that_is_told() -> None:
    truth = spans(span("a", "rfc:1", 60, 165, TEXT))
    cut = chunks([(1, "rfc:1", 0, 110), (2, "rfc:1", 110, 125), (3, "rfc:1", 125, 230)])
    table = part_grades(truth, cut)
    assert set(table["grade"]) == {1}
    assert out_of_reach(queries(query("a")), truth, table).rows() == [("q:a", 0)]


def test_any_alternative_will_do_and_a_query_has_the_best_grade_of_its_parts() -> None:
    truth = spans(
        span("a", "rfc:1", 0, 10, TEXT), span("a", "rfc:1", 500, 510, TEXT), span("a", "rfc:1", 505, 605, TEXT, part=1)
    )
    cut = chunks([(1, "rfc:1", 0, 100), (2, "rfc:1", 500, 520), (3, "rfc:1", 520, 900)])
    assert sorted(part_grades(truth, cut).rows()) == [
        ("q:a", 0, "1", 3),
        ("q:a", 0, "2", 3),
        ("q:a", 1, "2", 1),
        ("q:a", 1, "3", 2),
    ]
    assert grades(truth, cut) == {1: 3, 2: 3, 3: 2}


def test_a_span_of_less_worth_caps_every_grade() -> None:
    truth = spans(span("a", "rfc:1", 0, 10, TEXT, grade=1))
    assert grades(truth, chunks([(1, "rfc:1", 0, 100)])) == {1: 1}


def test_a_document_without_chunks_is_refused_unless_allowed() -> None:
    truth = spans(span("a", "rfc:1", 0, 10, TEXT))
    other = chunks([(1, "rfc:2", 0, 10)])
    with pytest.raises(GoldenError, match="no chunk"):
        part_grades(truth, other)
    assert part_grades(truth, other, allow_absent=True).is_empty()


def test_chunks_of_another_version_do_not_count() -> None:
    truth = spans(span("a", "rfc:1", 0, 10, TEXT))
    old = chunks([(1, "rfc:1", 0, 10)]).with_columns(pl.lit("v0").alias("document_version"))
    with pytest.raises(GoldenError, match="no chunk"):
        part_grades(truth, old)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(1, 40)), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 90), st.integers(1, 30)), min_size=1, max_size=8),
)
def test_the_join_equals_the_rule_written_out(wanted: list[tuple[int, int]], cut: list[tuple[int, int]]) -> None:
    truth = spans(*(span("a", "rfc:1", a, a + n, TEXT) for a, n in wanted))
    table = chunks([(i, "rfc:1", a, a + n) for i, (a, n) in enumerate(cut)])
    expected: dict[int, int] = {}
    for a, n in wanted:
        held = {i: min(a + n, c + m) - max(a, c) for i, (c, m) in enumerate(cut)}
        capacity = max((cut[i][1] for i, h in held.items() if h > 0), default=0)
        for i, h in held.items():
            if h > 0:
                whole = h == n or (n > capacity and 2 * h > capacity)
                expected[i] = max(expected.get(i, 0), 3 if whole else 2 if 2 * h >= n else 1)
    assert grades(truth, table) == expected


def test_a_mirror_sized_set_is_graded_in_seconds() -> None:
    rng = np.random.default_rng(0)
    documents, per_document, wanted = 1300, 40, 20_000
    starts = np.tile(np.arange(per_document) * 1500, documents)
    names = np.repeat([f"d:{i}" for i in range(documents)], per_document)
    cut = pl.DataFrame(
        {
            "chunk_id": np.arange(documents * per_document),
            "document_id": names,
            "document_version": VERSION,
            "char_start": starts,
            "char_end": starts + 1800,
        }
    )
    begin = rng.integers(0, 55_000, wanted)
    truth = pl.DataFrame(
        {
            "query_id": [f"q:{i // 3}" for i in range(wanted)],
            "part": np.arange(wanted) % 3,
            "document_id": [f"d:{i}" for i in rng.integers(0, documents, wanted)],
            "document_version": VERSION,
            "char_start": begin,
            "char_end": begin + rng.integers(5, 3000, wanted),
            "quote": "",
            "grade": 3,
            "origin": "quoted",
        }
    ).cast(SPAN_SCHEMA)
    started = time.perf_counter()
    table = part_grades(truth, cut)
    assert time.perf_counter() - started < 5
    assert table.height >= wanted
