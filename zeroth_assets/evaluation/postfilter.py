"""The usual design as an arm of retrieval: one HNSW over all tenants, the policy after it, and nothing done about it.

What belongs here: searching so, in order to be measured. No retriever that serves anybody uses it: `search.dense` does
what is missing here.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from zeroth_assets.evaluation.access_model import Cell
from zeroth_assets.evaluation.access_probe import settings_of
from zeroth_assets.evaluation.probe import vector_literal
from zeroth_assets.search.connections import Connections
from zeroth_assets.search.model import Candidate, Shortfall, StageResult
from zeroth_assets.store.connect import Database, principal_session
from zeroth_assets.store.failures import database_errors
from zeroth_assets.store.registry import find_chunk_set

EF_SEARCH = 40


class PostFilterSearch:
    """Searches the shared index of one chunk set at ef_search 40, without iterative scans. Close it after use.

    Raises:
        DatabaseError: no such chunk set.
    """

    def __init__(self, db: Database, chunk_set: str, *, dimension: int | None = None) -> None:
        self._connections = Connections(db, lambda connection: None)
        with database_errors(f"opening chunk set {chunk_set}"), self._connections.borrow() as connection:
            self._chunk_set = find_chunk_set(connection, chunk_set, dimension)
            connection.rollback()

    def search(self, principal: str, vector: NDArray[np.float32], k: int) -> StageResult:
        """What is left of the index's 40 nearest when the policy has dropped its part; k at most.

        Raises:
            QueryError: the principal is not usable.
            DatabaseError: no shared index, or the database failed.
        """
        settings = settings_of(Cell("shared_postfilter", EF_SEARCH, k, False))
        calls = sql.SQL(", ").join(
            sql.SQL("set_config({}, {}, true)").format(sql.Literal(n), sql.Literal(v)) for n, v in settings.items()
        )
        statement = sql.SQL(
            "select chunk_id, tenant_id, 1 - (embedding <=> %(vector)s::vector) from {}"
            " order by embedding <=> %(vector)s::vector limit %(k)s"
        ).format(self._chunk_set.shared)
        began = time.perf_counter()
        with (
            database_errors(f"searching the shared index of {self._chunk_set.name}"),
            self._connections.borrow() as connection,
            principal_session(connection, principal),
        ):
            connection.execute(sql.SQL("select ") + calls)
            rows = connection.execute(statement, {"vector": vector_literal(vector), "k": k}, prepare=False).fetchall()
        return StageResult(
            stage="dense",
            candidates=tuple(
                Candidate(chunk_id=chunk, tenant_id=tenant, rank=rank, score=score)
                for rank, (chunk, tenant, score) in enumerate(rows, 1)
            ),
            shortfall=Shortfall(k, len(rows), "index_exhausted") if len(rows) < k else None,
            seconds={"total": time.perf_counter() - began},
            plan=f"shared HNSW, ef_search {EF_SEARCH}, policy after it",
        )

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._connections.close()
