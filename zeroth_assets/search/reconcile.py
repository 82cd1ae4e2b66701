"""Whether the two indexes of a tenant hold the same chunks.

What belongs here: the comparison, and what a check says of it. A chunk counts as indexed only when both have it; the
retriever drops the others and counts them, and materialising the index that lacks them is the cure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from psycopg import sql

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.search.sessions import Sessions, permitted
from zeroth_assets.search.shelf import PostingsShelf, artefact_name
from zeroth_assets.store.acl import NoTenantError
from zeroth_assets.store.connect import Database


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """A tenant's chunk ids that only one of its indexes has, ascending. `indexed` counts those that both have."""

    tenant: str
    chunk_set: str
    indexed: int
    only_database: tuple[int, ...]
    only_postings: tuple[int, ...]
    postings_built: bool

    @property
    def agrees(self) -> bool:
        """True if both hold the same chunks."""
        return self.postings_built and not self.only_database and not self.only_postings

    @property
    def remedy(self) -> str | None:
        """The command that brings them together; None where they agree."""
        if self.agrees:
            return None
        # Postings are made from the tenant's chunks, rows from its chunks and vectors: what lags is made again.
        asset = artefact_name(self.chunk_set) if self.only_database or not self.postings_built else None
        return (
            f"zeroth materialize --asset {asset or f'tenant_index_{self.chunk_set}'} --partition {self.tenant}"
            f"{f', and --asset tenant_index_{self.chunk_set}' if asset and self.only_postings else ''}"
        )


def reconcile(
    db: Database,
    store: ArtefactStore,
    chunk_set: str,
    tenant: str,
    *,
    principal: str | None = None,
    dimension: int | None = None,
) -> Reconciliation:
    """Compare a tenant's rows, read as `zeroth_app` under `principal` (default: the tenant's own), with its postings.

    Raises:
        NoTenantError: the principal may not read the tenant, and so learns nothing of its postings.
        UnknownPrincipalError: the principal was never granted anything.
        ArtefactError: the postings are damaged.
        DatabaseError: no such chunk set, or the database failed.
    """
    asking = principal or tenant
    with Sessions(db) as sessions:
        target = sessions.chunk_set(chunk_set, dimension)
        with sessions.session(asking, f"reconciling {tenant}") as connection:
            tenant_id = permitted(connection).get(tenant)
            if tenant_id is None:
                raise NoTenantError(
                    f"Principal {asking!r} may not read {tenant}",
                    expected="a grant of the tenant whose indexes are compared",
                    found="none",
                    remedy=f"grant it (`zeroth acl grant {asking} {tenant}`), or ask as somebody who may",
                )
            rows = connection.execute(
                sql.SQL("select chunk_id from {} where tenant_id = {}").format(target.table, sql.Literal(tenant_id))
            ).fetchall()
    opened = PostingsShelf(store, chunk_set).open(tenant)
    posted = np.zeros(0, np.int64) if opened is None else np.asarray(opened.postings.chunk_ids, np.int64)
    stored = np.array([row[0] for row in rows], dtype=np.int64)
    return Reconciliation(
        tenant=tenant,
        chunk_set=chunk_set,
        indexed=len(np.intersect1d(stored, posted)),
        only_database=tuple(np.setdiff1d(stored, posted).tolist()),
        only_postings=tuple(np.setdiff1d(posted, stored).tolist()),
        postings_built=opened is not None,
    )
