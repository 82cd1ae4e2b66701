"""Which engine and precision serve on this machine.

What belongs here: the order in which engines are tried, the check of each against torch fp32, and the record of the
outcome. The rule is fixed (fastest first, as benchmarks/embedding measured) and does not time anything: a choice that
followed the load of the moment would change the fingerprint, and with it every vector.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from zeroth_assets.embedding.engines import Engine, FloatArray
from zeroth_assets.embedding.models import ModelFiles
from zeroth_assets.embedding.openvino_engine import OpenVinoEngine, cpu_has_bf16, cpu_name
from zeroth_assets.embedding.selftest_texts import SELF_TEST_TEXTS
from zeroth_assets.embedding.torch_engine import TorchEngine, has_gpu
from zeroth_assets.errors import EmbeddingError

EngineName = Literal["auto", "torch", "openvino"]
PrecisionName = Literal["auto", "fp32", "bf16"]
Run = Callable[[Engine, Sequence[str]], FloatArray]

LEAST_MEAN_COSINE = 0.9999
_CHOICE_VERSION = "1"


@dataclass(frozen=True, slots=True)
class Choice:
    """An engine and its precision, with the mean and least cosine to torch fp32 where it was compared."""

    engine: str
    precision: str
    cosine_mean: float | None = None
    cosine_min: float | None = None


def make_engine(files: ModelFiles, choice: Choice, threads: int | None, cache_dir: Path | None) -> Engine:
    """Load the engine that a choice names."""
    if choice.engine == "openvino":
        return OpenVinoEngine(files, choice.precision, threads, cache_dir)
    return TorchEngine(files, choice.precision, threads)


def choose(
    files: ModelFiles,
    engine: EngineName,
    precision: PrecisionName,
    threads: int | None,
    cache_dir: Path | None,
    run: Run,
) -> Choice:
    """The first of the candidates whose mean cosine to torch fp32 is at least 0.9999, over 16 texts, on this machine.

    A single candidate is taken as asked, without a comparison. With a cache folder the outcome is kept, per CPU, model
    and versions of the engines.

    Raises:
        EmbeddingError: the engine that was asked for cannot run, or none is close enough.
    """
    candidates = _candidates(engine, precision)
    if len(candidates) == 1:
        return candidates[0]
    record = _record(files, candidates, cache_dir)
    kept = _read(record)
    if kept is not None:
        return kept
    reference = run(TorchEngine(files, "fp32", threads, device="cpu"), SELF_TEST_TEXTS)
    tried: list[Choice] = []
    for candidate in candidates:
        if candidate == Choice("torch", "fp32"):
            chosen = Choice("torch", "fp32", 1.0, 1.0)
        else:
            cosines = (run(make_engine(files, candidate, threads, cache_dir), SELF_TEST_TEXTS) * reference).sum(axis=1)
            mean, least = float(np.mean(cosines, dtype=np.float64)), float(cosines.min())
            chosen = Choice(candidate.engine, candidate.precision, round(mean, 7), round(least, 7))
        if chosen.cosine_mean is not None and chosen.cosine_mean >= LEAST_MEAN_COSINE:
            _write(record, chosen)
            return chosen
        tried.append(chosen)
    raise EmbeddingError(
        f"No engine runs {files.name} closely enough",
        expected=f"a mean cosine to torch fp32 of at least {LEAST_MEAN_COSINE}",
        found="; ".join(f"{c.engine} {c.precision}: {c.cosine_mean}" for c in tried),
        remedy="set ZEROTH_PRECISION to fp32 or auto",
    )


def _candidates(engine: EngineName, precision: PrecisionName) -> list[Choice]:
    """Fastest first. A GPU is asked for only where torch is an option."""
    if engine == "openvino":
        order = [Choice("openvino", "bf16"), Choice("openvino", "fp32")]
        if precision == "auto" and not cpu_has_bf16():
            order = order[1:]
    elif engine == "torch":
        order = [Choice("torch", "bf16"), Choice("torch", "fp32")] if _torch_wants_bf16(precision) else []
        order = order or [Choice("torch", "fp32")]
    elif has_gpu():
        order = [Choice("torch", "bf16"), Choice("torch", "fp32")]
    else:
        order = [Choice("openvino", "bf16"), Choice("openvino", "fp32"), Choice("torch", "fp32")]
        if precision != "bf16" and not cpu_has_bf16():
            order = order[1:]
    return [c for c in order if precision in ("auto", c.precision)]


def _torch_wants_bf16(precision: PrecisionName) -> bool:
    return precision == "bf16" or (precision == "auto" and (has_gpu() or cpu_has_bf16()))


def _record(files: ModelFiles, candidates: list[Choice], cache_dir: Path | None) -> Path | None:
    if cache_dir is None:
        return None
    versions = [importlib.metadata.version(name) for name in ("openvino", "torch", "transformers")]
    of = [_CHOICE_VERSION, cpu_name(), files.weights_sha256, files.revision, files.pooling, *versions]
    of += [f"{c.engine}-{c.precision}" for c in candidates]
    return cache_dir / "engine" / f"{hashlib.sha256(json.dumps(of).encode()).hexdigest()[:24]}.json"


def _read(record: Path | None) -> Choice | None:
    if record is None:
        return None
    try:
        return Choice(**json.loads(record.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _write(record: Path | None, choice: Choice) -> None:
    if record is None:
        return
    record.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)  # of the home, so nobody else's to read
    record.parent.mkdir(exist_ok=True)
    draft = record.with_name(f".{record.name}-{uuid.uuid4().hex}")
    draft.write_text(json.dumps(asdict(choice)))
    os.replace(draft, record)  # noqa: PTH105 - the atomic one
