from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from zeroth_assets.embedding import Encoder, find_model, load_encoder

MakeFolder = Callable[..., Path]


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared by the session: converting the model takes seconds."""
    return tmp_path_factory.mktemp("encoder-cache")


@pytest.fixture(scope="session")
def encoder(cache_dir: Path) -> Encoder:
    return load_encoder(cache_dir=cache_dir)


@pytest.fixture
def model_folder(tmp_path: Path) -> MakeFolder:
    """Makes a local folder from the packaged model, its weights hard-linked or copied, with files replaced."""

    def make(name: str = "my-model", without: tuple[str, ...] = (), **files: object) -> Path:
        folder = tmp_path / name
        packaged = find_model("all-MiniLM-L6-v2").folder
        shutil.copytree(packaged, folder, ignore=shutil.ignore_patterns("*.safetensors", *without))
        weights = folder / "model.safetensors"
        if "model.safetensors" not in without:
            try:
                os.link(packaged / "model.safetensors", weights)
            except OSError:
                shutil.copy2(packaged / "model.safetensors", weights)
        for key, value in files.items():
            (folder / key.replace("__", "/")).with_suffix(".json").write_text(json.dumps(value))
        return folder

    return make
