"""Near-duplicate chunks of one document do not fill the top, and nothing is lost by it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroth_assets.errors import QueryError
from zeroth_assets.search.diversify import diversify, overlap_share
from zeroth_assets_tests.search.test_rerank import passage

WINDOWS = [passage(n, "x" * 100, start=85 * n) for n in range(4)]


def test_overlapping_neighbours_go_behind_what_says_something_else() -> None:
    other = passage(9, "x" * 100, document="rfc:2")
    found = diversify([WINDOWS[0], WINDOWS[1], WINDOWS[2], other])
    assert found.order == (0, 2, 3, 1)
    assert found.deferred == (1,)


def test_the_same_range_of_another_version_or_tenant_is_another_text() -> None:
    newer = replace(WINDOWS[0], document_version="v2")
    elsewhere = replace(WINDOWS[0], tenant_id=2)
    assert diversify([WINDOWS[0], newer, elsewhere]).deferred == ()


def test_the_share_is_of_the_shorter_range_and_the_bound_itself_passes() -> None:
    inner = passage(8, "x" * 20, start=90)
    assert overlap_share(WINDOWS[0], inner) == 0.5
    assert diversify([WINDOWS[0], inner], max_overlap=0.5).deferred == ()
    assert diversify([WINDOWS[0], inner], max_overlap=0.49).deferred == (1,)


def test_one_document_can_be_held_to_a_number_of_passages() -> None:
    assert diversify(WINDOWS, max_overlap=1, per_document=2).order == (0, 1, 2, 3)
    other = passage(9, "x", document="rfc:2")
    assert diversify([*WINDOWS, other], max_overlap=1, per_document=2).order == (0, 1, 4, 2, 3)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50), st.integers(0, 30)), max_size=15), st.floats(0, 1))
def test_every_passage_stays_and_the_first_stays_first(ranges: list[tuple[int, int, int]], bound: float) -> None:
    passages = [passage(n, "x" * size, f"d{d}", start) for n, (d, start, size) in enumerate(ranges)]
    order = diversify(passages, max_overlap=bound).order
    assert sorted(order) == list(range(len(passages)))
    assert list(order[:1]) == list(range(len(passages)))[:1]


@pytest.mark.parametrize("bad", [{"max_overlap": 1.1}, {"max_overlap": float("nan")}, {"per_document": 0}])
def test_impossible_bounds_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(QueryError, match="diversification"):
        diversify(WINDOWS, **bad)  # type: ignore[arg-type]
