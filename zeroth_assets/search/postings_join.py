"""Joining the postings of several tenants, for a principal who may see them all.

What belongs here: one pass over the arrays. Nothing is written: a file of joined postings would outlive the grants.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zeroth_assets.errors import ArtefactError
from zeroth_assets.search.analyser import DEFAULT_ANALYSER, analyser_named
from zeroth_assets.search.postings import Array, Postings, check_together, narrowest
from zeroth_assets.search.postings_build import build_postings


def join_postings(postings: Sequence[Postings]) -> Postings:
    """Several tenants' postings as one, in memory: what a principal who may see many is served from fastest.

    The result holds what all of them hold. It belongs to one set of grants, and goes when that does.

    Raises:
        ArtefactError: a tenant is there twice, or they differ in chunk set or analyser.
    """
    check_together(postings)
    if len(postings) == 1:
        return postings[0]
    if not postings:
        return build_postings([], [], tenant="none", chunk_set="none", analyser=analyser_named(DEFAULT_ANALYSER))
    hashes, representative = np.unique(np.concatenate([p.hashes for p in postings]), return_index=True)
    rows = [np.searchsorted(hashes, p.hashes) for p in postings]
    spellings, spelling_ends = _spellings(postings, representative)
    for part, row in zip(postings, rows, strict=True):
        same, _ = _gathered(spellings, spelling_ends, row)
        _check_spelled_alike(same, part.spellings)
    df = np.zeros(len(hashes), dtype=np.int64)
    for part, row in zip(postings, rows, strict=True):
        df[row] += np.diff(part.starts)
    starts = np.concatenate([[0], np.cumsum(df)]).astype("<i8")
    total = sum(p.size for p in postings)
    chunks = np.empty(int(starts[-1]), dtype=narrowest(max(0, total - 1)))
    counts = np.empty(len(chunks), dtype=max((p.counts.dtype for p in postings), key=lambda d: d.itemsize))
    free, first = starts[:-1].copy(), 0
    for part, row in zip(postings, rows, strict=True):
        sizes = np.diff(part.starts)
        places = np.repeat(free[row] - part.starts[:-1], sizes) + np.arange(len(part.chunks))
        chunks[places] = part.chunks.astype(np.int64) + first
        counts[places] = part.counts
        free[row] += sizes
        first += part.size
    return Postings(
        parts=tuple(part for p in postings for part in p.parts),
        chunk_set=postings[0].chunk_set,
        analyser=postings[0].analyser,
        chunk_ids=np.concatenate([p.chunk_ids for p in postings]),
        lengths=np.concatenate([p.lengths for p in postings]),
        hashes=hashes,
        spellings=spellings,
        spelling_ends=spelling_ends,
        starts=starts,
        chunks=chunks,
        counts=counts,
    )


def _check_spelled_alike(one: Array, other: Array) -> None:
    if not np.array_equal(one, other):
        raise ArtefactError(
            "Two tenants' terms share a hash and differ in spelling",
            expected="a hash of 64 bits for each term",
            found="a collision, one in billions",
            remedy="search these tenants without joining them",
        )


def _spellings(postings: Sequence[Postings], representative: Array) -> tuple[Array, Array]:
    blob = np.concatenate([p.spellings for p in postings])
    before = np.cumsum([0, *(len(p.spellings) for p in postings)])
    starts = np.concatenate([p.spelling_ends[:-1] + at for p, at in zip(postings, before[:-1], strict=True)])
    sizes = np.concatenate([np.diff(p.spelling_ends) for p in postings])
    return _ranges(blob, starts[representative], sizes[representative])


def _gathered(blob: Array, ends: Array, rows: Array) -> tuple[Array, Array]:
    return _ranges(blob, ends[rows], (ends[rows + 1] - ends[rows]))


def _ranges(blob: Array, starts: Array, sizes: Array) -> tuple[Array, Array]:
    """The ranges of `blob` one after another, and where each ends (one more than ranges)."""
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype("<i8")
    places = np.repeat(starts - ends[:-1], sizes) + np.arange(int(ends[-1]))
    return blob[places], ends
