"""Keeping near-duplicate chunks of one document from filling the top.

What belongs here: the choice by character ranges alone. Windows overlap by construction, so two neighbours that both
match say much the same; the later one goes behind the passages that say something else, and is not lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zeroth_assets.errors import QueryError
from zeroth_assets.search.passages import Passage


@dataclass(frozen=True, slots=True)
class Diversified:
    """Places of the passages given, each once: those kept in their order, then those `deferred`, in theirs."""

    order: tuple[int, ...]
    deferred: tuple[int, ...]


def diversify(passages: Sequence[Passage], *, max_overlap: float = 0.1, per_document: int | None = None) -> Diversified:
    """Defer a passage that overlaps one before it in the same document version by more than `max_overlap`.

    `max_overlap` is a share of the shorter of the two ranges of characters. `per_document` bounds how many passages of
    one document version stay in front.

    Raises:
        QueryError: `max_overlap` is outside 0 to 1, or `per_document` below 1.
    """
    if not 0 <= max_overlap <= 1 or (per_document is not None and per_document < 1):
        raise QueryError(
            "The diversification is impossible",
            expected="an overlap from 0 to 1, and at least 1 passage per document",
            found=f"{max_overlap}, {per_document}",
        )
    kept: dict[tuple[int, str, str], list[Passage]] = {}
    order: list[int] = []
    deferred: list[int] = []
    for place, passage in enumerate(passages):
        before = kept.setdefault((passage.tenant_id, passage.document_id, passage.document_version), [])
        full = per_document is not None and len(before) >= per_document
        if full or any(overlap_share(passage, other) > max_overlap for other in before):
            deferred.append(place)
        else:
            before.append(passage)
            order.append(place)
    return Diversified((*order, *deferred), tuple(deferred))


def overlap_share(one: Passage, other: Passage) -> float:
    """Shared characters as a share of the shorter range; both of one document version."""
    shared = min(one.char_end, other.char_end) - max(one.char_start, other.char_start)
    shorter = min(one.char_end - one.char_start, other.char_end - other.char_start)
    return max(0, shared) / shorter if shorter > 0 else 0.0
