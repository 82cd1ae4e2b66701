"""The shared index as a path: whether it stands, and for which rows.

What belongs here: the one question, asked under the policy. Building it is the store's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from zeroth_assets.store.registry import ChunkSet


@dataclass(frozen=True, slots=True)
class SharedIndex:
    """`rows` is how many it holds of all tenants together."""

    table: sql.Identifier
    rows: int


def standing_shared_index(connection: psycopg.Connection[Any], chunk_set: ChunkSet) -> SharedIndex | None:
    """The shared index, if it holds the live builds of every tenant that the principal may see; else None."""
    return None
