"""Pictures of the corpus, as PNG bytes for an asset's metadata.

What belongs here: drawing, and nothing that computes a figure. matplotlib's state is not touched: no pyplot, no backend
chosen, no style left behind.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter

from zeroth_assets.corpus.centroids import FloatMatrix
from zeroth_assets.errors import TenantError

_INK, _MUTED, _GRID, _FLOOR = "#1f2933", "#616e7c", "#e4e7eb", "#c2410c"
_SOURCES = {"cuad": "#0b7285", "rfc": "#5f3dc4", "sec": "#2b8a3e"}
_OTHER = "#495057"
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 8.5,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _MUTED,
    "axes.linewidth": 0.8,
    "xtick.color": _MUTED,
    "ytick.color": _INK,
    "text.parse_math": False,
}
_BARS_A_COLUMN = 50
_TICKS = (0, 25, 100, 250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000)


def plot_tenant_chunks(table: pl.DataFrame, floor: int) -> bytes:
    """Estimated chunks of each tenant as bars, largest first within a source, with the floor as a line.

    `table` has `source`, `tenant`, `estimated_chunks` and `raw_tenants`. The axis is a square root: it starts at
    zero, so lengths mean something, and a tenant of 20 chunks beside one of 4,000 is still seen. `+n` counts what
    was folded in.

    Raises:
        TenantError: the table is empty.
    """
    if table.is_empty():
        raise TenantError("There is no tenant to draw", expected="at least one row", remedy="materialise the corpus")
    ordered = table.sort(["source", "estimated_chunks", "tenant"], descending=[False, True, False])
    columns = math.ceil(ordered.height / _BARS_A_COLUMN)
    height = math.ceil(ordered.height / columns)
    largest = float(ordered["estimated_chunks"].to_numpy().max())
    with mpl.rc_context(_STYLE):
        figure = Figure(
            figsize=(max(6.4, 4.7 * columns), 1.1 + 0.19 * height), dpi=110, layout="constrained", facecolor="white"
        )
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, columns, squeeze=False)[0]
        for axes, start in zip(panels, range(0, ordered.height, height), strict=False):
            _draw_bars(axes, ordered.slice(start, height), largest, floor, height)
        figure.suptitle(f"{ordered.height} tenants, estimated chunks of each (square root axis)", fontsize=11)
        return _png(figure)


def plot_cosines(tenants: Sequence[str], cosines: FloatMatrix) -> bytes:
    """Cosines between tenants' centroids as a heat map, (tenants, tenants), rows and columns by name.

    Raises:
        TenantError: the matrix is not square with a row for each tenant, or there is none.
    """
    count = len(tenants)
    if count == 0 or cosines.shape != (count, count):
        raise TenantError(
            "The cosines cannot be drawn",
            expected=f"a matrix of {count} x {count}, at least 1",
            found=str(cosines.shape),
        )
    side = 3.4 + 0.105 * count
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(side + 0.8, side), dpi=110, layout="constrained", facecolor="white")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        image = axes.imshow(np.ma.masked_invalid(cosines), vmin=0, vmax=1, cmap="viridis", interpolation="nearest")
        size = 8.5 if count <= 40 else 5.6
        axes.set_xticks(range(count), tenants, rotation=90, fontsize=size)
        axes.set_yticks(range(count), tenants, fontsize=size)
        axes.tick_params(length=0, pad=1.5)
        sources = [tenant.partition("-")[0] for tenant in tenants]
        for place in range(1, count):
            if sources[place] != sources[place - 1]:
                axes.axhline(place - 0.5, color="white", linewidth=1.2)
                axes.axvline(place - 0.5, color="white", linewidth=1.2)
        bar = figure.colorbar(image, ax=axes, shrink=0.6, pad=0.01)
        bar.set_label("cosine of TF-IDF centroids")
        axes.set_title(f"How much {count} tenants overlap", fontsize=11)
        return _png(figure)


def _draw_bars(axes: Axes, rows: pl.DataFrame, largest: float, floor: int, height: int) -> None:
    chunks = rows["estimated_chunks"].to_list()
    places = list(range(rows.height))
    colours = [_SOURCES.get(source, _OTHER) for source in rows["source"]]
    axes.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0)), np.square))
    axes.barh(places, chunks, height=0.72, color=colours, zorder=2)
    for place, value, raw in zip(places, chunks, rows["raw_tenants"], strict=True):
        folded = f"  +{raw - 1}" if raw > 1 else ""
        axes.annotate(
            f"{value:,.0f}{folded}",
            (value, place),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
            color=_MUTED,
        )
    axes.set_yticks(places, rows["tenant"].to_list(), fontsize=7)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(height - 0.4, -0.6)
    limit = max(largest, float(floor), 1.0) * 1.35
    axes.set_xlim(0, limit)
    shown = [tick for tick in _TICKS if tick <= limit]
    thinned = [
        t for i, t in enumerate(shown) if i == 0 or math.sqrt(t) - math.sqrt(shown[i - 1]) > 0.04 * math.sqrt(limit)
    ]
    axes.xaxis.set_major_locator(FixedLocator(thinned))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.tick_params(axis="x", labelsize=7)
    axes.grid(axis="x", color=_GRID, zorder=0)
    if floor > 0:
        axes.axvline(floor, color=_FLOOR, linewidth=1.1, linestyle="--", zorder=3)
        axes.annotate(
            f"floor {floor}",
            (floor, 1),
            xycoords=("data", "axes fraction"),
            xytext=(2, 3),
            textcoords="offset points",
            color=_FLOOR,
            fontsize=7,
        )
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()
