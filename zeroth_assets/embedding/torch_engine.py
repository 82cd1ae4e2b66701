"""The torch engine: the reference in fp32, and the one for a GPU.

What belongs here: everything that imports torch or transformers, and that at call time, since it takes seconds.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zeroth_assets.embedding.engines import Batch, FloatArray, pool
from zeroth_assets.embedding.models import ModelFiles
from zeroth_assets.errors import EmbeddingError


def has_gpu() -> bool:
    """Whether torch sees a CUDA or ROCm device. It is imported only where there is a driver to ask."""
    if "+cpu" in importlib.metadata.version("torch"):
        return False
    if not any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")):
        return False
    import torch

    return bool(torch.cuda.is_available())


def load_module(files: ModelFiles) -> Any:
    """The model in fp32, in evaluation mode, from local files alone.

    Raises:
        EmbeddingError: transformers cannot load it.
    """
    from transformers import AutoModel
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            module = AutoModel.from_pretrained(str(files.folder), local_files_only=True, use_safetensors=True)
    except Exception as error:  # transformers raises OSError, ValueError, KeyError and more for unfit folders
        raise EmbeddingError(
            f"The model {files.name} cannot be loaded",
            expected="a model that transformers' AutoModel knows, without code of its own",
            found=f"{type(error).__name__}: {error}",
            remedy="choose another model or revision",
        ) from error
    finally:
        logging.set_verbosity(verbosity)
    return module.float().eval()


class TorchEngine:
    """Runs a model with torch, in fp32 or bf16."""

    name = "torch"

    def __init__(self, files: ModelFiles, precision: str, threads: int | None, device: str | None = None) -> None:
        import torch

        self.precision = precision
        self._pooling = files.pooling
        self._device = device or ("cuda" if has_gpu() else "cpu")
        self._module = load_module(files).to(self._device)
        self._threads = threads
        if precision == "bf16":
            self._module = self._module.to(torch.bfloat16)

    def run(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, FloatArray]]:
        """Pooled vectors of each batch, in order."""
        for batch, states in self.states(batches):
            yield batch, pool(states, batch.mask, self._pooling)

    def states(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, FloatArray]]:
        """The last hidden state of every token of each batch, in order."""
        import torch

        with _threads(self._threads):
            for batch in batches:
                with torch.inference_mode():
                    hidden = self._module(
                        input_ids=torch.from_numpy(batch.ids).to(self._device),
                        attention_mask=torch.from_numpy(batch.mask).to(self._device),
                    )[0]
                    state = np.asarray(hidden.float().cpu().numpy(), dtype=np.float32)
                yield batch, state


@contextlib.contextmanager
def _threads(wanted: int | None) -> Iterator[None]:
    """Set torch's threads, a setting of the whole process, for as long as it is needed."""
    import torch

    before = torch.get_num_threads()
    if wanted is not None:
        torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)
