"""The OpenVINO engine: the fast one on a CPU.

What belongs here: everything that imports openvino, and that at call time. The model is converted once from torch and
kept as OpenVINO's own files under a cache folder, so that a warm start needs no torch.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import json
import os
import queue
import shutil
import sys
import uuid
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from zeroth_assets.embedding.engines import Batch, FloatArray, pool, usable_threads
from zeroth_assets.embedding.models import ModelFiles
from zeroth_assets.errors import EmbeddingError

_HINTS = {"fp32": "f32", "bf16": "bf16"}
_CONVERSION = "1"


def openvino() -> Any:
    """The module, imported without its reporter: openvino sends usage events on import where that is installed."""
    if "openvino" not in sys.modules:
        sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import openvino as module

    return module


def cpu_name() -> str:
    """The CPU, as OpenVINO names it, with what it can do: a choice made on one need not hold on another."""
    core = openvino().Core()
    return f"{core.get_property('CPU', 'FULL_DEVICE_NAME')} [{' '.join(sorted(_abilities(core)))}]"


def cpu_has_bf16() -> bool:
    """Whether the CPU computes in bf16 itself; OpenVINO would quietly use f32 where it does not."""
    return "BF16" in _abilities(openvino().Core())


def _abilities(core: Any) -> list[str]:
    return list(core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"))


class OpenVinoEngine:
    """Runs a model with OpenVINO on the CPU, in fp32 or bf16, with as many requests in flight as it has streams."""

    name = "openvino"

    def __init__(self, files: ModelFiles, precision: str, threads: int | None, cache_dir: Path | None) -> None:
        ov = openvino()
        core = ov.Core()
        if precision == "bf16" and "BF16" not in _abilities(core):
            raise EmbeddingError(
                "This CPU does not compute in bf16",
                expected="AVX512-BF16 or AMX",
                found=cpu_name(),
                remedy="set ZEROTH_PRECISION to fp32 or auto",
            )
        self.precision = precision
        self._pooling = files.pooling
        threads = threads or usable_threads()
        self._streams = max(1, min(threads, 4))
        config = {
            "INFERENCE_PRECISION_HINT": _HINTS[precision],
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": self._streams,
        }
        model = core.read_model(str(_stored(files, cache_dir))) if cache_dir is not None else _convert(files)
        self._compiled = core.compile_model(model, "CPU", config)
        runs_in = self._compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
        if runs_in != _HINTS[precision]:
            raise EmbeddingError(
                "OpenVINO does not run the model as asked",
                expected=_HINTS[precision],
                found=runs_in,
                remedy="set ZEROTH_PRECISION to fp32, or ZEROTH_ENGINE to torch",
            )
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for _ in range(self._streams):
            self._requests.put(self._compiled.create_infer_request())
        self._infer_once()

    def _infer_once(self) -> None:
        """Make the first call on one thread alone.

        OpenVINO's binding sets up statics at its first call and gives up Python's lock inside their guard: two first
        calls at once were seen to wait for each other for ever.
        """
        one = np.ones((1, 2), dtype=np.int64)
        request = self._requests.get()
        request.infer({"input_ids": one, "attention_mask": one}, share_inputs=True)
        self._requests.put(request)

    def run(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, FloatArray]]:
        """Pooled vectors of each batch, in order, with all streams busy.

        Threads of ours wait for one request each. OpenVINO's own queue calls back into Python from its threads, and
        was seen to abort the process when the queue was dropped while a callback returned.
        """
        running: collections.deque[Future[tuple[Batch, FloatArray]]] = collections.deque()
        with ThreadPoolExecutor(self._streams, thread_name_prefix="openvino") as workers:
            try:
                for batch in batches:
                    running.append(workers.submit(self._infer, batch))
                    if len(running) > 2 * self._streams:
                        yield running.popleft().result()
                while running:
                    yield running.popleft().result()
            finally:
                for waiting in running:
                    waiting.cancel()

    def states(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, FloatArray]]:
        """The last hidden state of every token of each batch, in order, one batch at a time."""
        for batch in batches:
            yield self._infer(batch, pooled=False)

    def _infer(self, batch: Batch, *, pooled: bool = True) -> tuple[Batch, FloatArray]:
        request = self._requests.get()
        try:
            request.infer({"input_ids": batch.ids, "attention_mask": batch.mask}, share_inputs=True)
            states = request.get_output_tensor(0).data
            # A copy: the tensor is the request's own, and the next batch will overwrite it.
            return batch, pool(states, batch.mask, self._pooling) if pooled else np.array(states, dtype=np.float32)
        finally:
            self._requests.put(request)


def _convert(files: ModelFiles) -> Any:
    import torch

    from zeroth_assets.embedding.torch_engine import load_module

    class LastHiddenState(torch.nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.inner(input_ids=input_ids, attention_mask=attention_mask)[0]

    example = {name: torch.ones((2, 8), dtype=torch.int64) for name in ("input_ids", "attention_mask")}
    with torch.inference_mode(), warnings.catch_warnings():
        # Tracing warns of every branch on a shape; the self-test shows that other shapes come out right.
        warnings.simplefilter("ignore")
        return openvino().convert_model(LastHiddenState(load_module(files)).eval(), example_input=example)


def _stored(files: ModelFiles, cache_dir: Path) -> Path:
    """The converted model under the cache folder, made if it is missing or damaged.

    It is written beside its place and renamed, so that a killed process or a second one leaves no half model.
    """
    ov = openvino()
    key = hashlib.sha256(
        "\0".join([_CONVERSION, files.weights_sha256, files.revision, ov.__version__]).encode()
    ).hexdigest()[:24]
    place = cache_dir / "openvino" / key
    if _intact(place):
        return place / "model.xml"
    draft = place.with_name(f".{key}-{uuid.uuid4().hex}")
    cache_dir.mkdir(parents=True, exist_ok=True, mode=0o700)  # of the home, so nobody else's to read
    draft.mkdir(parents=True)
    try:
        ov.save_model(_convert(files), str(draft / "model.xml"), compress_to_fp16=False)
        digests = {name: _sha256(draft / name) for name in ("model.xml", "model.bin")}
        (draft / "sha256.json").write_text(json.dumps(digests))
        for _ in range(3):
            with contextlib.suppress(OSError):
                os.replace(draft, place)  # noqa: PTH105 - replaces an empty folder only; a filled one is an OSError
            if _intact(place):
                return place / "model.xml"
            shutil.rmtree(place, ignore_errors=True)
    except OSError as error:
        raise EmbeddingError(
            "The converted model cannot be kept",
            expected=f"room for {2 * _weight(files) / 1e6:.0f} MB and the right to write in {cache_dir}",
            found=str(error),
            remedy="make room, or set ZEROTH_HOME to another disk",
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    raise EmbeddingError(
        "The converted model cannot be kept",
        expected=f"the files that were just written in {place}",
        found="others",
        remedy="check the disk under ZEROTH_HOME",
    )


def _intact(place: Path) -> bool:
    try:
        digests = json.loads((place / "sha256.json").read_text())
        return all(_sha256(place / name) == digests[name] for name in ("model.xml", "model.bin"))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _sha256(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _weight(files: ModelFiles) -> int:
    return sum(file.stat().st_size for file in files.folder.glob("model*.safetensors"))
