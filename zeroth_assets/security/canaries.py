"""What a probe looks for, and where: tables that a query may name, and sentences of tenants that it may not see.

What belongs here: what several attacks share.
"""

from __future__ import annotations

from zeroth_assets.security.ground import Ground, Outcome, Relation
from zeroth_assets.security.identities import Identity
from zeroth_assets.security.model import Record


def named_tables(ground: Ground) -> list[Relation]:
    """Tables with tenants that a query may name."""
    return [r for r in ground.relations if r.has_tenant and not r.is_partition and r.schema == "zeroth"]


def look_for_canaries(ground: Ground, identity: Identity, outcomes: list[Outcome], where: str, record: Record) -> None:
    """Look for sentences of tenants that the identity may not see, in rows and in errors."""
    for outcome in outcomes:
        whole = outcome.message + " ".join(str(cell) for row in outcome.rows for cell in row)
        for tenant, texts in ground.canaries.items():
            if tenant not in identity.permitted and any(text in whole for text in texts):
                record.breach(f"{identity.name}: {where}: words of tenant {tenant}")
