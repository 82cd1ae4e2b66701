"""Reading hits again as `zeroth_app`, which is the only way that a chunk's text leaves the process.

What belongs here: `Passage`, made by `read_passages` alone, and the check that hits from outside PostgreSQL are there
and permitted. The tenant predicate only tells the planner where to look; the policy decides.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from zeroth_assets.store.registry import ChunkSet

Key = tuple[int, int]  # tenant id, chunk id


@dataclass(frozen=True, slots=True, repr=False)
class Passage:
    """A chunk as the principal could read it just now. Its text form leaves the text out, so that no log gets it."""

    tenant_id: int
    chunk_id: int
    document_id: str
    document_version: str
    ordinal: int
    char_start: int
    char_end: int
    page_first: int | None
    page_last: int | None
    pages_real: bool
    section_path: str
    index_build_id: int
    text: str

    @property
    def key(self) -> Key:
        """What identifies it within its chunk table."""
        return (self.tenant_id, self.chunk_id)

    def __repr__(self) -> str:
        return f"Passage({self.document_id} [{self.char_start}:{self.char_end}], chunk {self.chunk_id})"


_COLUMNS = sql.SQL(", ").join(map(sql.Identifier, Passage.__slots__))


def read_passages(
    connection: psycopg.Connection[Any], chunk_set: ChunkSet, keys: Collection[Key]
) -> dict[Key, Passage]:
    """Those of `keys` that the session's principal may read and that are there, in one statement."""
    if not keys:
        return {}
    with connection.cursor(row_factory=class_row(Passage)) as cursor:
        cursor.execute(
            sql.SQL("select {} from {} where tenant_id = any(%s) and chunk_id = any(%s)").format(
                _COLUMNS, chunk_set.table
            ),
            _arrays(keys),
            prepare=False,  # a plan made for any tenants would prune at run time only
        )
        wanted = set(keys)
        return {passage.key: passage for passage in cursor if passage.key in wanted}


def present(connection: psycopg.Connection[Any], chunk_set: ChunkSet, keys: Collection[Key]) -> set[Key]:
    """Those of `keys` that the session's principal may read and that are there."""
    if not keys:
        return set()
    rows = connection.execute(
        sql.SQL("select tenant_id, chunk_id from {} where tenant_id = any(%s) and chunk_id = any(%s)").format(
            chunk_set.table
        ),
        _arrays(keys),
        prepare=False,
    ).fetchall()
    return {(int(tenant), int(chunk)) for tenant, chunk in rows} & set(keys)


def _arrays(keys: Collection[Key]) -> tuple[list[int], list[int]]:
    return sorted({tenant for tenant, _ in keys}), sorted({chunk for _, chunk in keys})
