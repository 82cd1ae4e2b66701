from __future__ import annotations

import json
import stat
import traceback
from pathlib import Path

import pytest

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store.passwords import Role, Secret, ensure_passwords, password_file


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "postgres").mkdir()
    return tmp_path


def test_each_role_gets_a_password_of_its_own_and_keeps_it(home: Path) -> None:
    made = ensure_passwords(home)
    assert set(made) == set(Role)
    assert len({secret.reveal() for secret in made.values()}) == len(Role)
    assert stat.S_IMODE(password_file(home).stat().st_mode) == 0o600
    assert ensure_passwords(home) == made
    assert [path.name for path in (home / "postgres").iterdir()] == ["passwords.json"]


def test_a_role_that_came_later_is_added_and_the_others_stay(home: Path) -> None:
    made = ensure_passwords(home)
    kept = {role.value: secret.reveal() for role, secret in made.items() if role is not Role.DAGSTER}
    password_file(home).write_text(json.dumps(kept))
    again = ensure_passwords(home)
    assert {role: again[role] for role in Role if role is not Role.DAGSTER} == {
        role: made[role] for role in Role if role is not Role.DAGSTER
    }
    assert again[Role.DAGSTER] != made[Role.DAGSTER]


@pytest.mark.parametrize("text", ["", '{"zeroth_app": "hunter2"', '["hunter2"]', '{"somebody": "hunter2"}'])
def test_a_damaged_file_is_refused_and_its_text_not_shown(home: Path, text: str) -> None:
    password_file(home).write_text(text)
    with pytest.raises(DatabaseError, match=r"passwords\.json") as caught:
        ensure_passwords(home)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
    assert password_file(home).read_text() == text


def test_a_secret_shows_in_no_text_form() -> None:
    secret = Secret("hunter2")
    assert "hunter2" not in f"{secret} {secret!r} {[secret]}"
    assert secret.reveal() == "hunter2"
