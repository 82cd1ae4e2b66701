"""Progress: what belongs here is how an asset tells a person how far it is.

The command line listens with bars; a run that the UI launched has no listener, and says so in its log a few times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dagster as dg

Listener = Callable[[str, int, int], None]
LOG_INTERVAL_SECONDS = 15.0
_listeners: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send the progress of every asset that runs in this process to `listener(what, done, total)`."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def progress_of(
    context: dg.AssetExecutionContext, clock: Callable[[], float] = time.monotonic
) -> Callable[[int, int], None]:
    """A callback `(done, total)` for the asset that `context` belongs to."""
    asset = context.asset_key.to_user_string()
    what = f"{asset} {context.partition_key}" if context.has_partition_key else asset
    last = clock()

    def report(done: int, total: int) -> None:
        nonlocal last
        for listener in _listeners:
            listener(what, done, total)
        if not _listeners and clock() - last >= LOG_INTERVAL_SECONDS:
            last = clock()
            context.log.info(f"{what}: {done} of {total}")

    return report
