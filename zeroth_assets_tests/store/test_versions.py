from __future__ import annotations

import pytest

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store.connect import Database
from zeroth_assets.store.versions import check_server, check_versions


@pytest.mark.parametrize("server", [150_016, 160_012, 170_008, 180_002, 180_004, 190_000])
def test_servers_at_or_above_the_floor_of_their_line_pass(server: int) -> None:
    assert check_versions(server, "0.8.4", "0.8.5").pgvector == "0.8.4"


@pytest.mark.parametrize(
    ("server", "advice"),
    [
        (180_001, "18.2"),
        (170_007, "17.8"),
        (160_011, "16.12"),
        (150_015, "15.16"),
        (140_020, "newer release"),
        (90_624, "newer release"),
    ],
)
def test_servers_below_the_floor_are_refused_with_advice(server: int, advice: str) -> None:
    with pytest.raises(DatabaseError, match="too old") as caught:
        check_versions(server, "0.8.5", "0.8.5")
    assert advice in caught.value.remedy


def test_a_server_without_pgvector_is_refused_with_the_package_to_install() -> None:
    with pytest.raises(DatabaseError, match="no pgvector") as caught:
        check_versions(170_009, None, None)
    assert "postgresql-17-pgvector" in caught.value.remedy


@pytest.mark.parametrize(("installed", "available"), [("0.8.3", "0.8.3"), (None, "0.7.4"), ("0.5.0", None)])
def test_an_old_pgvector_is_refused(installed: str | None, available: str | None) -> None:
    with pytest.raises(DatabaseError, match="pgvector is too old") as caught:
        check_versions(180_004, installed, available)
    assert "install a newer pgvector" in caught.value.remedy


def test_an_old_extension_beside_new_programs_only_needs_an_update() -> None:
    with pytest.raises(DatabaseError) as caught:
        check_versions(180_004, "0.8.3", "0.8.5")
    assert caught.value.remedy.startswith("run `ALTER EXTENSION vector UPDATE`")


def test_versions_compare_as_numbers() -> None:
    assert check_versions(180_004, "0.10.0", "0.10.0").pgvector == "0.10.0"


def test_the_embedded_server_passes(database: Database) -> None:
    with database.app() as conn:
        found = check_server(conn)
    assert found.postgres.split(".")[0].isdigit()
