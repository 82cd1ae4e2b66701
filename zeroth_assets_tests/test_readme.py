from __future__ import annotations

import re
from pathlib import Path

import pytest

from zeroth_assets.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_stands_in_the_table(name: str) -> None:
    assert f"| `ZEROTH_{name.upper()}` |" in README


def test_the_table_names_no_setting_that_does_not_exist() -> None:
    named = {m.lower() for m in re.findall(r"^\| `ZEROTH_([A-Z_]+)` \|", README, flags=re.MULTILINE)}
    assert named == set(Settings.model_fields)


def test_every_picture_and_file_that_it_points_to_is_there() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_contributing_fits_one_screen() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text("utf-8").splitlines()) <= 45
