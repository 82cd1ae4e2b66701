"""Pictures of the figures, as PNG bytes for an asset's metadata.

What belongs here: drawing, and nothing that computes a figure. matplotlib's state is not touched: no pyplot, no backend
chosen, no style left behind.
"""

from __future__ import annotations

import io
from typing import Any

import matplotlib as mpl
import polars as pl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.ann_report import HEADLINE_EF_SEARCH

_INK, _MUTED, _GRID = "#1f2933", "#616e7c", "#e4e7eb"
_LINE, _EXACT = "#0b7285", "#c2410c"
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _MUTED,
    "axes.linewidth": 0.8,
    "xtick.color": _MUTED,
    "ytick.color": _MUTED,
    "text.parse_math": False,
}


def plot_ann_recall(figures: pl.DataFrame, *, title: str | None = None) -> bytes:
    """Recall against ef_search (log axis) of one tenant and chunk set, as PNG bytes.

    `figures` is in `ann_report.FIGURE_SCHEMA`. The band is the confidence interval; hollow points are trivial, where
    ef_search reaches every row; the dashed line is exact search.

    Raises:
        MeasurementError: no rows, or rows of several tenants, chunk sets, principals or k.
    """
    figures = figures.sort("ef_search")
    about = figures.select("tenant", "chunk_set", "principal", "k", "queries", "tenant_rows").unique()
    if about.height != 1:
        raise MeasurementError(
            "The figures are not of one measurement",
            expected="one tenant, chunk set, principal and k",
            found=f"{about.height} combinations",
        )
    one = about.row(0, named=True)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(6.4, 3.7), dpi=110, layout="constrained", facecolor="white")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        _draw_recall(axes, figures)
        axes.set_xlabel("hnsw.ef_search (log scale)")
        axes.set_ylabel(f"recall@{one['k']} against exact search")
        axes.set_title(
            title or f"{one['tenant']}, {one['chunk_set']}", loc="left", pad=22, weight="bold", fontsize=11.5
        )
        axes.annotate(
            f"{one['tenant_rows']:,} rows, {one['queries']} queries as {one['principal']}, 95 % intervals",
            (0.0, 1.0),
            xycoords="axes fraction",
            xytext=(0, 7),
            textcoords="offset points",
            fontsize=8.5,
            color=_MUTED,
        )
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _draw_recall(axes: Axes, figures: pl.DataFrame) -> None:
    ef, recall = figures["ef_search"].to_list(), figures["recall"].to_list()
    low, high = figures["recall_low"].to_list(), figures["recall_high"].to_list()
    k = figures["k"][0]
    floor = max(0.0, min(low) - 0.06)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(ef))
    axes.xaxis.set_major_formatter(FixedFormatter([str(value) for value in ef]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(min(ef) / 1.25, max(ef) * 1.25)
    axes.set_ylim(floor, 1.0 + 0.08 * (1.0 - floor))
    axes.grid(axis="y", color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)

    axes.axhline(1.0, color=_EXACT, linewidth=1.1, linestyle=(0, (5, 3)), label="exact search", zorder=2.5)
    axes.fill_between(ef, low, high, color=_LINE, alpha=0.16, linewidth=0, label="95 % interval")
    axes.plot(ef, recall, color=_LINE, linewidth=1.8, label=f"HNSW, recall@{k}")
    for trivial, face in ((False, _LINE), (True, "white")):
        chosen = figures.filter(pl.col("trivial") == trivial)
        if chosen.height:
            axes.plot(
                chosen["ef_search"].to_list(),
                chosen["recall"].to_list(),
                linestyle="none",
                marker="o",
                markersize=6,
                markerfacecolor=face,
                markeredgecolor=_LINE,
                markeredgewidth=1.5,
                label="trivial: ef_search reaches every row" if trivial else None,
                zorder=3,
            )
    headline = figures.filter(pl.col("ef_search") == HEADLINE_EF_SEARCH)
    if headline.height:
        row = headline.row(0, named=True)
        axes.annotate(
            f"at {row['ef_search']}: {row['recall']:.3f} [{row['recall_low']:.3f}, {row['recall_high']:.3f}]",
            (row["ef_search"], row["recall_low"]),
            xytext=(6, -8),
            textcoords="offset points",
            va="top",
            fontsize=8.5,
            color=_INK,
        )
    axes.legend(loc="lower right", frameon=False, fontsize=8.5, labelcolor=_INK)
