"""Tables: what belongs here is what `zeroth metrics` and `zeroth corpus tenants` print, read from the artefacts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
from rich import box
from rich.table import Table

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.errors import ArtefactError, TenantError
from zeroth_assets.settings import CHUNK_SETS, Settings

HEADLINE_EF_SEARCH = 40


def ann_recall_frame(
    settings: Settings, *, tenants: Sequence[str] = (), chunk_set: str | None = None, headline_only: bool = True
) -> pl.DataFrame:
    """The published `ann_recall` figures, one row per chunk set, tenant and ef_search; none for a withheld figure.

    Raises:
        ArtefactError: an unknown chunk set, or nothing was published yet.
    """
    store, published = _published(settings, tenants, chunk_set)
    # Figures that an earlier version published may lack a column.
    frame = pl.concat([store.read_frame(*one) for one in published], how="diagonal")
    frame = frame.sort("chunk_set", "tenant", "ef_search")
    return frame.filter(pl.col("ef_search") == HEADLINE_EF_SEARCH) if headline_only else frame


def withheld_figures(
    settings: Settings, *, tenants: Sequence[str] = (), chunk_set: str | None = None
) -> list[tuple[str, str, str]]:
    """Chunk set, tenant and reason of each figure that was withheld because the tenant cannot be measured.

    Raises:
        ArtefactError: as for `ann_recall_frame`.
    """
    store, published = _published(settings, tenants, chunk_set)
    return [
        (artefact.removeprefix("ann_recall_"), tenant, str(details["withheld"]))
        for artefact, tenant in published
        if "withheld" in (details := store.require(artefact, tenant).details)
    ]


def _published(
    settings: Settings, tenants: Sequence[str], chunk_set: str | None
) -> tuple[ArtefactStore, list[tuple[str, str]]]:
    """The store, and the `ann_recall` artefacts and partitions in it that were asked for."""
    if chunk_set is not None and chunk_set not in CHUNK_SETS:
        raise ArtefactError(
            f"There is no chunk set {chunk_set!r}", expected=", ".join(CHUNK_SETS), remedy="name one of them"
        )
    store = ArtefactStore(settings.state_dir / "artefacts")
    known = set(tenant_frame(settings)["tenant"])
    unknown = sorted(set(tenants) - known)
    if unknown:
        raise TenantError(
            f"No document belongs to tenant {', '.join(unknown)}",
            expected=f"one of the {len(known)} tenants",
            found=", ".join(unknown),
            remedy="list them with `zeroth corpus tenants`",
        )
    published = [
        (f"ann_recall_{name}", tenant)
        for name in ([chunk_set] if chunk_set else CHUNK_SETS)
        for tenant in store.partitions(f"ann_recall_{name}")
        if tenant in (tenants or known)
    ]
    if not published:
        raise ArtefactError(
            "No figure was measured yet",
            expected="ann_recall of at least one tenant",
            found="none in this home",
            remedy="run `zeroth materialize`",
        )
    return store, published


def ann_recall_table(frame: pl.DataFrame, *, narrow: bool = False) -> list[Table]:
    """One table per chunk set. Recall is of exact search by NumPy over the vectors that the role may see.

    `narrow` leaves out what stands between columns, so that a terminal of 80 columns breaks no tenant's key.
    """
    tables = []
    for (name,), rows in frame.group_by("chunk_set", maintain_order=True):
        table = Table(
            box=box.SIMPLE_HEAD,
            padding=(0, 0) if narrow else (0, 1),
            title=f"{name}: recall@{rows['k'][0]} of HNSW against exact, as zeroth_app under its policy",
            caption="n queries, short: those with fewer than k rows. * trivial: ef_search reaches every row.",
        )
        for column in ("tenant", "rows", "ef", "recall", "95 % CI", "n", "short", "p50 ms", "p95 ms"):
            left = column == "tenant"
            table.add_column(column, justify="left" if left else "right", no_wrap=not left, overflow="fold")
        for row in rows.iter_rows(named=True):
            table.add_row(*_cells(row))
        tables.append(table)
    return tables


def tenant_frame(settings: Settings) -> pl.DataFrame:
    """Tenant, documents, estimated chunks and the tenants folded in, largest first."""
    store = ArtefactStore(settings.state_dir / "artefacts")
    return (
        store.read_frame("tenant_assignments")
        .group_by("tenant")
        .agg(
            pl.len().alias("documents"),
            pl.col("estimated_chunks").sum().alias("estimated chunks"),
            pl.col("raw_tenant").filter(pl.col("raw_tenant") != pl.col("tenant")).unique().sort().alias("folded in"),
        )
        .sort("estimated chunks", "tenant", descending=[True, False])
        .with_columns(pl.col("folded in").list.join(", "))
    )


def _cells(row: dict[str, Any]) -> list[str]:
    star = "*" if row["trivial"] else ""
    return [
        row["tenant"],
        f"{row['tenant_rows']:,}",
        str(row["ef_search"]),
        f"{row['recall']:.3f}{star}",
        f"[{row['recall_low']:.3f}, {row['recall_high']:.3f}]".replace("[", "\\["),
        str(row["queries"]),
        str(row["short_queries"]),
        f"{row['latency_p50_ms']:.2f}",
        f"{row['latency_p95_ms']:.2f}",
    ]


def pending_folding(settings: Settings) -> list[dict[str, Any]]:
    """Raw tenants that the rule would place elsewhere than the folding in force does."""
    store = ArtefactStore(settings.state_dir / "artefacts")
    return list(store.require("tenant_assignments").details.get("pending", ()))
