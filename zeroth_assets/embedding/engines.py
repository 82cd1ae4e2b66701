"""What runs a model: the interface, and pooling.

What belongs here: what torch and OpenVINO have in common. Engines give the last hidden state; pooling is done here in
float32 for both, so that an engine's precision is that of the model alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from zeroth_assets.embedding.models import Pooling

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]

# Small enough that a tenant of a few dozen chunks keeps every stream busy; larger was no faster.
DEFAULT_BATCH = 8


@dataclass(frozen=True, slots=True)
class Batch:
    """Token ids of several texts, padded to one length. `rows` are their places in the caller's list."""

    rows: tuple[int, ...]
    ids: IntArray
    mask: IntArray


class Engine(Protocol):
    """A loaded model."""

    @property
    def name(self) -> str:
        """`torch` or `openvino`."""

    @property
    def precision(self) -> str:
        """`fp32` or `bf16`, as it really runs."""

    def run(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, FloatArray]]:
        """Pooled vectors (len(rows), dimension) of each batch, in any order, not yet normalised."""


@runtime_checkable
class TokenEngine(Protocol):
    """An engine that also gives what pooling would have pooled."""

    def states(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, FloatArray]]:
        """The last hidden state of every token of each batch, (len(rows), length, dimension), in order."""


def pool(hidden: FloatArray, mask: IntArray, pooling: Pooling) -> FloatArray:
    """Mean over the tokens that are no padding, or the first token's state."""
    if pooling == "cls":
        return np.ascontiguousarray(hidden[:, 0], dtype=np.float32)
    weights = mask.astype(np.float32)
    total = np.einsum("bld,bl->bd", hidden, weights, dtype=np.float32)
    return np.asarray(total / weights.sum(axis=1, keepdims=True), dtype=np.float32)


def usable_threads() -> int:
    """CPUs that this process may run on, not those that the host has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
