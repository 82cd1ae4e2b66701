from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Examples are judged by what they find; how long one takes on a busy machine says nothing.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

_LONG = {"materialised", "mirror", "corpus_part", "imported"}  # fixtures

pytest_plugins = ["zeroth_assets_tests.database_fixtures", "zeroth_assets_tests.small_corpus"]


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder of real documents that ZEROTH_MIRROR names."""
    location = os.environ.get("ZEROTH_MIRROR")
    if not location:
        pytest.skip("ZEROTH_MIRROR is not set: no real documents to read")
    folder = Path(location).expanduser().resolve()
    if not (folder / "SOURCES.json").exists():
        pytest.skip(f"ZEROTH_MIRROR={location} is not there: no real documents to read")
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that wait for whole materialisations come first: no worker is to be left alone with one at the end."""
    long = {item.path for item in items if _LONG & set(getattr(item, "fixturenames", ()))}
    items.sort(key=lambda item: item.path not in long)
