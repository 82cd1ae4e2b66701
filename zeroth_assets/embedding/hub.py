"""The one place that may fetch a model over the network.

What belongs here: a pinned revision from a Hugging Face hub's cache, else from the hub.
"""

from __future__ import annotations

import os
from pathlib import Path

from zeroth_assets.errors import EmbeddingError

_PATTERNS = ["*.json", "*.txt", "model*.safetensors", "1_Pooling/*", "2_Normalize/*"]


def from_hub(model: str, revision: str) -> Path:
    """The folder of a model's revision; the network is asked only for what the cache lacks.

    Raises:
        EmbeddingError: the hub cannot be reached, or has no such model or revision.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import HfApi, snapshot_download  # its import takes a while and reads the environment

    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=_PATTERNS, local_files_only=True))
    except Exception:  # noqa: S110 - not in the cache; what the hub says next is what matters
        pass
    try:
        # Asked first, and once: a download would try a hub that is not there for half a minute.
        HfApi().model_info(model, revision=revision, timeout=10)
        return Path(snapshot_download(model, revision=revision, allow_patterns=_PATTERNS, etag_timeout=10))
    except Exception as error:  # the library's errors have no common base: HTTP, OS and its own
        raise EmbeddingError(
            f"The model {model} could not be fetched",
            expected=f"revision {revision} in the hub's cache, or a hub that answers",
            found=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}",
            remedy="fetch it where there is a network and set ZEROTH_MODEL to the folder, or use the packaged model",
        ) from error
