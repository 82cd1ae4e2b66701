"""Whom the grid asks as: every tenant alone, and a few principals of several tenants.

What belongs here: choosing the several, granting them for a measurement, and choosing what they ask.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zeroth_assets.errors import MeasurementError
from zeroth_assets.store.acl import MEASURING, measuring
from zeroth_assets.store.connect import Database
from zeroth_assets.store.registry import EVERYTHING

UNRESTRICTED = EVERYTHING
_SOME = (3, 10)


@dataclass(frozen=True, slots=True)
class Asked:
    """Queries with their ids: `vectors` is float32 (q, dimension), of unit norm."""

    query_ids: tuple[str, ...]
    vectors: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class WidePrincipal:
    """A principal of several tenants; `standing` ones are granted anyway."""

    name: str
    tenant_keys: tuple[str, ...]
    standing: bool = False


def wide_principals(rows: Mapping[str, int], *, seed: int) -> tuple[WidePrincipal, ...]:
    """The principals of 3 tenants, of 10, of all but the largest, and of all, as far as the corpus has so many.

    `rows` is each tenant's size. The tenants of 3 and 10 are drawn by a hash of seed and key: a new tenant changes a
    draw only by coming before another.
    """
    drawn = sorted(rows, key=lambda key: hashlib.sha256(f"{seed}\0{key}".encode()).digest())
    found = [
        WidePrincipal(f"{MEASURING}{count}-tenants", tuple(sorted(drawn[:count])))
        for count in _SOME
        if count < len(rows)
    ]
    if len(rows) > 2:
        largest = max(rows, key=lambda key: (rows[key], key))
        found.append(WidePrincipal(f"{MEASURING}all-but-one", tuple(sorted(set(rows) - {largest}))))
    return (*found, WidePrincipal(UNRESTRICTED, tuple(sorted(rows)), standing=True))


@contextlib.contextmanager
def granted_for_measurement(db: Database, principals: Sequence[WidePrincipal]) -> Iterator[None]:
    """Have just these tenants granted to these principals for the block; afterwards they are unknown again.

    Raises:
        TenantError: a tenant is not registered.
        DatabaseError: the database failed.
    """
    with measuring(db, {one.name: one.tenant_keys for one in principals if not one.standing}):
        yield


def spread_queries(of_tenants: Mapping[str, Asked], tenant_keys: Sequence[str], *, n: int, seed: int) -> Asked:
    """At most `n` queries of these tenants, in turns of one per tenant.

    A large tenant asks no more than another. The order of tenants, and of the queries of each, is by a hash of seed and
    id.

    Raises:
        MeasurementError: n < 1, or none of the tenants has a query.
    """

    def turn(text: str) -> bytes:
        return hashlib.sha256(f"{seed}\0{text}".encode()).digest()

    ranked: list[tuple[int, bytes, str, int]] = []
    for tenant in tenant_keys:
        if tenant in of_tenants:
            ids = of_tenants[tenant].query_ids
            order = sorted(range(len(ids)), key=lambda i: turn(ids[i]))
            ranked += [(place, turn(tenant), tenant, position) for place, position in enumerate(order)]
    if n < 1 or not ranked:
        raise MeasurementError(
            "There are no queries for a principal of several tenants",
            expected="n >= 1 and at least one tenant with a query",
            found=f"n={n}, {len(ranked)} queries of {len(tenant_keys)} tenants",
        )
    chosen = sorted(ranked)[:n]
    return Asked(
        tuple(of_tenants[tenant].query_ids[position] for _, _, tenant, position in chosen),
        np.stack([of_tenants[tenant].vectors[position] for _, _, tenant, position in chosen]),
    )
