"""What another user of the machine may read under a home, on the files that a materialisation leaves there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zeroth_assets.defs import processes
from zeroth_assets.security.attacks_files import files
from zeroth_assets.security.model import Record


def _breaches(home: Path) -> list[str]:
    ground: Any = SimpleNamespace(db=SimpleNamespace(home=home))
    record = Record()
    files(ground, record)
    return list(record.breaches)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    place.chmod(0o755)
    return place


def _written(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    path.chmod(0o644)
    return path


def test_an_empty_lock_tells_nobody_anything_and_a_file_with_content_does(home: Path) -> None:
    _written(home / "materialize.lock", "")
    assert _breaches(home) == []
    _written(home / "daemon.lock", "a passage")
    _written(home / "notes.txt", "a passage")
    assert {line.split()[-1] for line in _breaches(home)} == {"daemon.lock", "notes.txt"}


def test_the_record_of_a_running_ui_is_its_owners_alone(home: Path) -> None:
    processes.Record(home / processes.FOLDER / "one.json", "host-1-1.0", "http://127.0.0.1:3000", ()).write()
    assert _breaches(home) == []
