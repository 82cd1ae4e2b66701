"""Folding: small tenants join the most similar tenant of their source.

What belongs here: the rule, what it gives from scratch, what it gives beside a folding that is in force, and the
difference of the two. No texts and no manifest.

The rule. Of the tenants under the floor that may move, the one with the fewest estimated chunks (ties by key) joins the
tenant of the same source whose centroid is nearest by cosine (ties by key); the two are one tenant from then on, under
the key of the one that was joined, with the chunks and the centroid of both. So it goes until none is under the floor
or none has anywhere to go. A tenant that others have joined may still be under the floor and then moves with all of
them: where A joined B and B moves to C, A's documents belong to C. A tenant that shares no word with another of its
source stays, whatever its size.

A folding in force stays. Tenants that it knows keep their place, above the floor or under it, and none of them is
renamed because a document came or went; only tenants that it does not know are placed, by the rule, among those there
are. What the rule would say from scratch is reported as a difference, to be accepted or left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from zeroth_assets.corpus.centroids import FloatMatrix, TenantVectors

FOLD_SCHEMA = pl.Schema(
    {
        "step": pl.Int64,
        "source": pl.String,
        "tenant": pl.String,
        "into": pl.String,
        "similarity": pl.Float64,
        "chunks": pl.Float64,
        "chunks_of_target": pl.Float64,
        "raw_tenants": pl.Int64,
    }
)
DIFF_SCHEMA = pl.Schema(
    {
        "raw_tenant": pl.String,
        "change": pl.String,
        "accepted": pl.String,
        "in_force": pl.String,
        "proposed": pl.String,
        "estimated_chunks": pl.Float64,
    }
)
FLOOR_SCHEMA = pl.Schema(
    {
        "floor": pl.Int64,
        "tenants": pl.Int64,
        "raw_tenants_moved": pl.Int64,
        "share_of_chunks_moved": pl.Float64,
        "mean_similarity": pl.Float64,
        "lowest_similarity": pl.Float64,
        "most_raw_tenants_in_one": pl.Int64,
    }
)
FLOORS_WEIGHED: tuple[int, ...] = (10, 25, 50, 100, 200, 500)


@dataclass(frozen=True, slots=True)
class RawTenant:
    """A tenant as the manifest has it: its source and its estimated chunks."""

    key: str
    source: str
    chunks: float


@dataclass(frozen=True, slots=True)
class Step:
    """One fold: `tenant`, with the raw tenants in it, joined `into`."""

    source: str
    tenant: str
    into: str
    similarity: float
    chunks: float
    chunks_of_target: float
    raw_tenants: int


@dataclass(frozen=True, slots=True)
class Folding:
    """Raw tenant to final tenant, the steps that led there, and those under the floor that had nowhere to go."""

    final: Mapping[str, str]
    steps: tuple[Step, ...]
    stranded: frozenset[str]

    def path(self, raw: str) -> tuple[Step, ...]:
        """The steps that took a raw tenant to its final one, in order."""
        taken: list[Step] = []
        at = raw
        for step in self.steps:
            if step.tenant == at:
                taken.append(step)
                at = step.into
        return tuple(taken)


@dataclass(slots=True)
class _Group:
    key: str
    members: list[str]
    chunks: float
    settled: bool


def fold(
    tenants: Mapping[str, RawTenant], vectors: TenantVectors, floor: float, settled: Mapping[str, str] | None = None
) -> Folding:
    """Apply the rule. `settled` maps raw tenants that keep their place to their final tenant.

    Deterministic: the result depends neither on the order of `tenants` nor on that of the documents behind them.
    """
    steps: list[Step] = []
    stranded: set[str] = set()
    final: dict[str, str] = {}
    for source in sorted({t.source for t in tenants.values()}):
        mine = {key: t for key, t in sorted(tenants.items()) if t.source == source}
        groups = _starting_groups(mine, settled or {})
        while (moving := _next_to_move(groups, floor, stranded)) is not None:
            target, similarity = _nearest(moving, groups, vectors)
            if target is None:
                stranded.add(moving.key)
                continue
            steps.append(
                Step(source, moving.key, target.key, similarity, moving.chunks, target.chunks, len(moving.members))
            )
            target.members += moving.members
            target.chunks += moving.chunks
            del groups[moving.key]
        final |= {member: group.key for group in groups.values() for member in group.members}
    return Folding(final, tuple(steps), frozenset(stranded))


def steps_frame(steps: tuple[Step, ...]) -> pl.DataFrame:
    """Steps in the order taken, in `FOLD_SCHEMA`."""
    rows = [
        (i, s.source, s.tenant, s.into, s.similarity, s.chunks, s.chunks_of_target, s.raw_tenants)
        for i, s in enumerate(steps, start=1)
    ]
    return pl.DataFrame(rows, schema=FOLD_SCHEMA, orient="row")


def difference(
    tenants: Mapping[str, RawTenant],
    accepted: Mapping[str, str] | None,
    in_force: Mapping[str, str],
    proposed: Mapping[str, str],
) -> pl.DataFrame:
    """Where the accepted folding and today's proposal differ, in `DIFF_SCHEMA`; empty where nothing was accepted yet.

    `change` is `moves` (the rule would place a known tenant elsewhere), `new` (the accepted folding does not know it)
    or `gone` (it has no documents any more).
    """
    if accepted is None:
        return pl.DataFrame(schema=DIFF_SCHEMA)
    rows: list[tuple[object, ...]] = []
    for raw in sorted(set(accepted) | set(proposed)):
        before, after = accepted.get(raw), proposed.get(raw)
        if before == after:
            continue
        change = "gone" if after is None else "new" if before is None else "moves"
        chunks = tenants[raw].chunks if raw in tenants else None
        rows.append((raw, change, before, in_force.get(raw), after, chunks))
    return pl.DataFrame(rows, schema=DIFF_SCHEMA, orient="row")


def weigh_floors(
    tenants: Mapping[str, RawTenant], vectors: TenantVectors, floors: Iterable[int] = FLOORS_WEIGHED
) -> pl.DataFrame:
    """What each floor would cost in purity and give in size, in `FLOOR_SCHEMA`, one row per floor.

    Similarities are of the moved raw tenants with the rest of the tenants that they would end in (see `fit`).
    """
    total = sum(tenant.chunks for tenant in tenants.values())
    rows: list[tuple[object, ...]] = []
    for floor in floors:
        final = fold(tenants, vectors, floor).final
        moved = [raw for raw, tenant in final.items() if raw != tenant]
        fits = [similarity for raw in moved if (similarity := fit(raw, final, vectors)) is not None]
        share = sum(tenants[raw].chunks for raw in moved) / total if total else 0.0
        mean, lowest = (sum(fits) / len(fits), min(fits)) if fits else (None, None)
        sizes = Counter(final.values())
        rows.append((floor, len(sizes), len(moved), share, mean, lowest, max(sizes.values(), default=0)))
    return pl.DataFrame(rows, schema=FLOOR_SCHEMA, orient="row")


def fit(raw: str, final: Mapping[str, str], vectors: TenantVectors) -> float | None:
    """Cosine of a raw tenant with the rest of the final tenant that it is part of; None where it is alone there."""
    rest = [other for other, tenant in final.items() if tenant == final[raw] and other != raw]
    return float(vectors.cosines([[raw], rest])[0, 1]) if rest else None


def final_cosines(final: Mapping[str, str], vectors: TenantVectors) -> tuple[tuple[str, ...], FloatMatrix]:
    """The final tenants, sorted, and the cosine of each pair of them."""
    keys = tuple(sorted(set(final.values())))
    return keys, vectors.cosines([[raw for raw, tenant in final.items() if tenant == key] for key in keys])


def _starting_groups(tenants: Mapping[str, RawTenant], settled: Mapping[str, str]) -> dict[str, _Group]:
    groups: dict[str, _Group] = {}
    for raw, tenant in tenants.items():
        group = groups.setdefault(settled.get(raw, raw), _Group(settled.get(raw, raw), [], 0.0, settled=False))
        group.members.append(raw)
        group.chunks += tenant.chunks
        group.settled = group.settled or raw in settled
    return groups


def _next_to_move(groups: Mapping[str, _Group], floor: float, stranded: set[str]) -> _Group | None:
    movable = [g for g in groups.values() if g.chunks < floor and not g.settled and g.key not in stranded]
    return min(movable, key=lambda g: (g.chunks, g.key), default=None)


def _nearest(moving: _Group, groups: Mapping[str, _Group], vectors: TenantVectors) -> tuple[_Group | None, float]:
    others = sorted((g for g in groups.values() if g.key != moving.key), key=lambda g: g.key)
    if not others:
        return None, 0.0
    similarities = vectors.cosines([moving.members, *(g.members for g in others)])[0, 1:]
    best = int(similarities.argmax())
    return (others[best], float(similarities[best])) if similarities[best] > 0 else (None, 0.0)
