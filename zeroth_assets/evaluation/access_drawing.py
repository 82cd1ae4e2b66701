"""The look of the pictures of recall: colours, axes, labels at the ends of lines, titles, and the way to PNG.

What belongs here: what several pictures share. Colours are Okabe and Ito's, which people with any kind of colour vision
can tell apart; each design has a marker of its own too. matplotlib's state is not touched: no pyplot, no backend.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.access_model import LABELS, SHOWN_DESIGNS

INK, MUTED, GRID = "#1f2933", "#616e7c", "#e4e7eb"
COLOURS: dict[str, str] = {
    "shared_postfilter": "#D55E00",
    "shared_strict": "#0072B2",
    "shared_relaxed": "#56B4E9",
    "partition_hnsw": "#009E73",
    "partition_exact": "#1f2933",
    "partial_hnsw": "#CC79A7",
    "retriever": "#E69F00",
}
MARKERS: dict[str, str] = dict(zip(SHOWN_DESIGNS, "os^Dvp*", strict=True))
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.titlesize": 10,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "text.parse_math": False,
}


def ef_axis(axes: Axes, comparison: pl.DataFrame) -> None:
    """A log axis with a tick at each ef_search that was measured."""
    ticks = comparison["ef_search"].drop_nulls().unique().sort().to_list()
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FixedFormatter([str(tick) for tick in ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(ticks[0] / 1.12, ticks[-1] * 1.12)
    axes.set_xlabel("hnsw.ef_search (log scale)")
    bare(axes, "y")


def label_ends(axes: Axes, ends: Sequence[tuple[float, str]], gap: float) -> None:
    """Name each line at its right end; labels that would touch are moved apart, and a thin line leads to its own."""
    bottom, top = axes.get_ylim()
    places: list[float] = []
    ordered = sorted(ends, key=lambda end: -end[0])
    for value, _ in ordered:
        places.append(min(value, places[-1] - gap if places else top))
    least = bottom + gap / 2
    for number in reversed(range(len(places))):
        places[number] = max(places[number], least)
        least = places[number] + gap
    at_edge = axes.get_yaxis_transform()
    for (value, design), place in zip(ordered, places, strict=True):
        colour = COLOURS[design]
        line: Any = {"transform": at_edge, "clip_on": False, "color": colour}
        axes.plot([1.005, 1.04], [value, place], linewidth=0.7, **line)
        axes.plot([1.06], [place], marker=MARKERS[design], markersize=5, **line)
        # Dark, since the paler colours are hard to read as letters.
        axes.text(1.09, place, label_of(design), transform=at_edge, va="center", fontsize=8.5, color=INK)


def most(rows: pl.DataFrame, column: str) -> int:
    """The greatest number in a column."""
    return max(int(value) for value in rows[column])


def label_of(design: str) -> str:
    """What a design is called in a picture."""
    return {str(name): label for name, label in LABELS.items()}[design]


def bare(axes: Axes, grid: Any) -> None:
    """Grid lines along one axis, no frame at the top and right."""
    axes.grid(axis=grid, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def new_figure(width: float, height: float) -> Figure:
    """An empty white figure, in inches."""
    figure = Figure(figsize=(width, height), dpi=110, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def panels(figure: Figure, count: int) -> Sequence[Axes]:
    """So many axes side by side."""
    return list(np.atleast_1d(figure.subplots(1, count)))


def headed(figure: Figure, title: str, about: str) -> None:
    """A title, and under it a line that says what was measured."""
    figure.suptitle(f"{title}\n", x=0.01, ha="left", weight="bold", fontsize=12.5)
    figure.text(0.01, 1.0 - 0.40 / figure.get_figheight(), about, fontsize=9, color=MUTED, va="center")


def png(figure: Figure) -> bytes:
    """The figure as PNG bytes, the same for the same figure."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def require(rows: pl.DataFrame, what: str) -> None:
    """Refuse to draw nothing.

    Raises:
        MeasurementError: there are no rows.
    """
    if rows.is_empty():
        raise MeasurementError("There is nothing to draw", expected=f"figures of {what}")
