from __future__ import annotations

import pytest

from zeroth_assets.errors import MeasurementError, TenantError
from zeroth_assets.store.acl import grant, list_grants
from zeroth_assets.store.connect import Database
from zeroth_assets.store.revocation import RevocationReport, measure_revocation
from zeroth_assets_tests.store.builders import CHUNK_SET, load, make_chunks, prepared


@pytest.fixture(scope="module")
def db(module_database: Database) -> Database:
    prepared(module_database)
    load(module_database, make_chunks(range(30), "alpha"), tenant="alpha")
    return module_database


@pytest.mark.parametrize("one_transaction", [True, False])
def test_a_revocation_reaches_an_open_session_and_no_later_statement_shows_rows(
    db: Database, one_transaction: bool
) -> None:
    seen: list[tuple[int, int]] = []
    report = measure_revocation(
        db,
        CHUNK_SET,
        "alpha",
        trials=3,
        one_transaction=one_transaction,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert report.stale == 0
    assert len(report.to_result) == len(report.call) == len(report.statement) == 3
    assert all(0 < value < 60_000 for value in report.to_result)
    assert "measure.revocation" not in [entry.principal for entry in list_grants(db)]


def test_a_session_that_keeps_its_snapshot_is_seen_to_miss_the_revocation(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The measurement can fail: under REPEATABLE READ the grant outlives its revocation."""
    monkeypatch.setattr("zeroth_assets.store.revocation._WAIT_SECONDS", 0.3)
    with db.owner(autocommit=True) as owner:
        owner.execute(f"alter database {db.name} set default_transaction_isolation = 'repeatable read'")
    try:
        with pytest.raises(MeasurementError, match="did not reach"):
            measure_revocation(db, CHUNK_SET, "alpha", trials=1)
    finally:
        with db.owner(autocommit=True) as owner:
            owner.execute(f"alter database {db.name} reset default_transaction_isolation")


def test_a_tenant_without_rows_or_registration_is_refused_and_leaves_no_principal(db: Database) -> None:
    with pytest.raises(TenantError):
        measure_revocation(db, CHUNK_SET, "nowhere", trials=1)
    with db.loader() as loader:
        loader.execute("select zeroth.register_tenant('empty')")
    with pytest.raises(MeasurementError, match="no row"):
        measure_revocation(db, CHUNK_SET, "empty", trials=1)
    assert "measure.revocation" not in [entry.principal for entry in list_grants(db)]


def test_a_principal_that_is_somebody_is_left_alone(db: Database) -> None:
    grant(db, "ann", ["alpha"])
    with pytest.raises(MeasurementError, match="somebody"):
        measure_revocation(db, CHUNK_SET, "alpha", trials=1, principal="ann")
    with pytest.raises(MeasurementError, match="trial"):
        measure_revocation(db, CHUNK_SET, "alpha", trials=0)


def test_quantiles_are_of_the_trials() -> None:
    report = RevocationReport(tuple(float(n) for n in range(1, 101)), (), (), 0)
    assert (report.median(), report.p95()) == (50.5, 95.0)
    assert RevocationReport((7.0,), (), (), 0).p95() == 7.0
