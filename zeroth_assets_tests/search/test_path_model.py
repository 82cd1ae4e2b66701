"""The cost model: thresholds from made-up points whose answer is known."""

from __future__ import annotations

import dataclasses

import pytest

from zeroth_assets.errors import MeasurementError, QueryError
from zeroth_assets.search.dense_route import Limits, choose_route
from zeroth_assets.search.dense_sql import VisibleTenant
from zeroth_assets.search.path_model import PathCosts, SizePoint, WidthPoint, check_points

# An exact scan takes 0.2 ms and 1 ms per thousand rows; an index 1.2 ms whatever the size: it wins by a
# tenth from 1,133 rows on.
SIZES = tuple(
    SizePoint(rows, 0.2 + rows / 1_000, 1.2, ef, 1.0)
    for rows, ef in ((100, 100), (500, 100), (2_000, 200), (10_000, 400))
)
WIDTHS = (
    WidthPoint(2, 400, 0.02, 0.7, 9.0, 800, 0.995),
    WidthPoint(10, 2_000, 0.1, 3.1, 3.0, 400, 0.992),
    WidthPoint(100, 20_000, 1.0, 30.0, 1.0, 100, 0.999),
)
COSTS = PathCosts("fixed_512", 8, "print-1", 10, 50, 0.99, SIZES, WIDTHS, "2026-01-01T00:00:00", "PostgreSQL 18")


def tenants(*rows: int, indexed: bool = True) -> tuple[VisibleTenant, ...]:
    return tuple(VisibleTenant(number, r, "print-1", number, indexed) for number, r in enumerate(rows, start=1))


def test_the_threshold_is_where_both_lines_meet() -> None:
    assert COSTS.exact_rows == pytest.approx(1_133, rel=0.05)
    assert not COSTS.exact_rows_extrapolated


def test_a_threshold_that_no_tenant_reached_is_extrapolated_and_says_so() -> None:
    small = dataclasses.replace(COSTS, sizes=SIZES[:2])
    assert small.exact_rows == pytest.approx(1_133, rel=0.05)
    assert small.exact_rows_extrapolated


def test_tenants_that_are_all_small_are_scanned_whatever_noise_was_measured() -> None:
    noisy = dataclasses.replace(COSTS, sizes=(SizePoint(150, 3.0, 1.0, 100, 1.0), SizePoint(150, 2.9, 1.1, 100, 1.0)))
    assert noisy.exact_rows == 500


def test_an_index_that_missed_its_recall_is_no_choice() -> None:
    poor = dataclasses.replace(COSTS, sizes=tuple(dataclasses.replace(p, recall=0.9) for p in SIZES))
    assert poor.hnsw_ms(10_000) is None
    assert poor.exact_rows >= 10_000


def test_the_shared_index_wins_from_the_least_width_at_which_it_was_faster() -> None:
    assert COSTS.shared_tenants == 10
    assert COSTS.shared_ms(0.01) is None
    assert COSTS.shared_ms(0.1) == pytest.approx(3.0)
    assert COSTS.shared_ef_search(0.5) == 400
    missed = dataclasses.replace(COSTS, widths=tuple(dataclasses.replace(p, shared_recall=0.5) for p in WIDTHS))
    assert missed.shared_tenants is None
    assert missed.shared_ms(1.0) is None


def test_ef_search_is_that_of_the_first_measured_tenant_at_least_as_large() -> None:
    assert [COSTS.ef_search(rows) for rows in (50, 500, 501, 2_000, 9_000, 99_000)] == [100, 100, 200, 200, 400, 400]


def test_costs_survive_json_and_damaged_json_is_refused() -> None:
    assert PathCosts.from_json(COSTS.to_json()) == COSTS
    for text in ("", "[]", "{}", COSTS.to_json().replace('"format": 1', '"format": 99'), '{"format": 1}'):
        with pytest.raises(MeasurementError, match="path costs"):
            PathCosts.from_json(text)


def test_costs_hold_for_their_own_index_alone() -> None:
    assert COSTS.holds_for("fixed_512", 8, "print-1")
    assert COSTS.holds_for("fixed_512", 8, None)
    assert not COSTS.holds_for("section_aware", 8, "print-1")
    assert not COSTS.holds_for("fixed_512", 16, "print-1")
    assert not COSTS.holds_for("fixed_512", 8, "print-2")


def route(rows: tuple[int, ...], k: int = 10, costs: PathCosts | None = COSTS, shared: bool = False):  # type: ignore[no-untyped-def]
    return choose_route(tenants(*rows), k, costs=costs, path=None, shared=shared, limits=Limits())


def test_small_tenants_are_scanned_and_large_ones_walked() -> None:
    chosen = route((300, 9_000, 700))
    assert [t.rows for t in chosen.exact] == [300, 700]
    assert [t.rows for t in chosen.indexed] == [9_000]
    assert chosen.scan.ef_search == 400


def test_ef_search_is_twice_k_at_least_and_beyond_pgvectors_limit_all_is_scanned() -> None:
    assert route((9_000,), 300).scan.ef_search == 600
    assert route((9_000,), 900).scan.ef_search == 1_000
    assert not route((9_000,), 1_001).indexed


def test_a_tenant_without_an_index_is_scanned_whatever_its_size() -> None:
    chosen = choose_route(tenants(50_000, indexed=False), 10, costs=COSTS, path="hnsw", shared=False, limits=Limits())
    assert not chosen.indexed


def test_a_wide_principal_takes_the_shared_index_and_a_narrow_one_does_not() -> None:
    assert route((200,) * 100, shared=True).shared
    assert not route((200,) * 2, shared=True).shared
    assert not route((200,) * 100, shared=False).shared
    assert not route((200,) * 100, costs=None, shared=True).shared


def test_a_shared_index_that_does_not_stand_cannot_be_asked_for() -> None:
    with pytest.raises(QueryError, match="shared index"):
        choose_route(tenants(5), 10, costs=None, path="shared", shared=False, limits=Limits())


def test_points_that_no_model_can_stand_on_are_refused() -> None:
    with pytest.raises(MeasurementError):
        check_points((), WIDTHS)
    with pytest.raises(MeasurementError):
        check_points(SIZES[::-1], WIDTHS)


def test_below_a_width_at_which_the_shared_index_missed_its_recall_it_is_not_trusted_again() -> None:
    gap = (WIDTHS[0], dataclasses.replace(WIDTHS[1], shared_recall=0.9), WIDTHS[2])
    costs = dataclasses.replace(COSTS, widths=gap)
    assert costs.shared_ms(0.02) is None
    assert costs.shared_ms(0.1) is None
    assert costs.shared_ms(1.0) == pytest.approx(1.0)
