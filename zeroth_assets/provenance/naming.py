"""The artefact that a person asks about, as they spell it.

What belongs here: telling an asset that there is not from one that was never made, and a partition that is lacking from
one that is unknown, each with what to type instead.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.errors import ArtefactError

_SHOWN = 8


def named(store: ArtefactStore, asked: str, known: Sequence[str]) -> tuple[str, str | None]:
    """Asset and partition of `asset` or `asset/partition`; `known` are the graph's assets.

    Raises:
        ArtefactError: there is no such asset; it has partitions and none is named, or none and one is; or what is named
            was never made.
    """
    name, _, given = asked.strip().partition("/")
    partition = given or None
    if name not in known:
        close = difflib.get_close_matches(name, known, 3, 0.5) or sorted(known)[:_SHOWN]
        raise ArtefactError(
            f"There is no asset {name[:100]!r}",
            expected=f"one of {len(known)} assets, such as {', '.join(close)}",
            found=repr(asked[:100]),
            remedy="name one of them, after a slash its tenant or source: `zeroth provenance parsed_documents/rfc`",
        )
    published = store.partitions(name)
    if partition is None and published:
        raise ArtefactError(
            f"{name} has partitions",
            expected=f"{name}/ and one of {_some(published)}",
            found=repr(asked[:100]),
            remedy=f"ask about one of them, for instance `zeroth provenance {name}/{published[0]}`",
        )
    if partition is not None and published and partition not in published:
        close = difflib.get_close_matches(partition, published, 3, 0.5)
        raise ArtefactError(
            f"{name} was never made of {partition[:100]!r}",
            expected=f"one of {_some(close or published)}",
            found=repr(asked[:100]),
            remedy="correct the name; `zeroth corpus tenants` shows every tenant",
        )
    if partition is not None and not published and store.sidecar(name) is not None:
        raise ArtefactError(
            f"{name} has no partitions",
            expected=name,
            found=repr(asked[:100]),
            remedy=f"ask `zeroth provenance {name}`",
        )
    return name, partition


def _some(keys: Sequence[str]) -> str:
    more = len(keys) - _SHOWN
    return ", ".join(keys[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
