"""Pictures of the arms of retrieval, as PNG bytes for an asset's metadata.

What belongs here: drawing, and nothing that computes a figure. How pictures look is in `access_drawing`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes

from zeroth_assets.evaluation.access_drawing import INK, STYLE, bare, headed, most, new_figure, panels, png, require
from zeroth_assets.evaluation.retrieval_arms import RETRIEVERS, ROLES
from zeroth_assets.evaluation.retrieval_figures import ALL, HEADLINE

ROLE_NAMES: Final[Mapping[str, str]] = {
    "unrestricted": "asked by one who sees everything",
    "single_tenant": "asked by a single tenant",
    "named_document": "within the document named",
}
# Okabe and Ito's colours, and a marker of its own for each chunk set.
_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#1f2933", "#7f7f7f")
_MARKERS: Final = "os^Dvp"


def plot_forest(figures: pl.DataFrame, *, metric: str = HEADLINE) -> bytes:
    """A row per arm with its mean and 95 % interval, a panel per role; chunk sets differ in colour and marker.

    `figures` is in `retrieval_figures.FIGURE_SCHEMA`. A hollow mark has no interval.

    Raises:
        MeasurementError: no such figure.
    """
    chosen = figures.filter((pl.col("metric") == metric) & (pl.col("category") == ALL))
    require(chosen, metric)
    roles = _ordered(chosen["role"], ROLES)
    arms = _ordered(chosen["arm"], tuple(RETRIEVERS))
    chunk_sets = _ordered(chosen["chunk_set"], ())
    with mpl.rc_context(STYLE):
        # Rows grow with the marks in them, so that those of two arms stay apart.
        row = 0.42 * max(1.0, len(chunk_sets) / 2)
        figure = new_figure(1.6 + 3.4 * len(roles), 1.6 + row * len(arms))
        for number, (axes, role) in enumerate(zip(panels(figure, len(roles)), roles, strict=True)):
            part = chosen.filter(pl.col("role") == role)
            for place, chunk_set in enumerate(chunk_sets):
                _intervals(axes, part.filter(pl.col("chunk_set") == chunk_set), arms, place, len(chunk_sets), chunk_set)
            axes.set_yticks(range(len(arms)), arms if number == 0 else [""] * len(arms))
            axes.tick_params(axis="y", length=0, labelcolor=INK)
            axes.set_ylim(len(arms) - 0.5, -0.5)
            axes.set_xlim(0, 1)
            axes.set_xlabel(f"mean {metric}, 95 % interval")
            axes.set_title(_role_title(role, part), loc="left", fontsize=9.5)
            bare(axes, "x")
        _legend(figure, chunk_sets)
        headed(figure, "How well each arm finds what answers", _about(chosen))
        return png(figure)


def plot_by_category(figures: pl.DataFrame, *, chunk_set: str, role: str, metric: str = HEADLINE) -> bytes:
    """A panel per category of question with a row per arm: where an arm is strong and where it is not.

    Raises:
        MeasurementError: no such figure.
    """
    chosen = figures.filter(
        (pl.col("metric") == metric)
        & (pl.col("category") != ALL)
        & (pl.col("chunk_set") == chunk_set)
        & (pl.col("role") == role)
    )
    require(chosen, f"{metric} by category over {chunk_set}, {role}")
    categories = sorted(chosen["category"].unique())
    arms = _ordered(chosen["arm"], tuple(RETRIEVERS))
    with mpl.rc_context(STYLE):
        columns = min(4, len(categories))
        height = math.ceil(len(categories) / columns)
        figure = new_figure(1.4 + 2.3 * columns, 0.9 + height * (0.75 + 0.27 * len(arms)))
        grid = figure.subplots(height, columns, sharex=True, squeeze=False).flatten()
        for number, (axes, category) in enumerate(zip(grid, categories, strict=False)):
            part = chosen.filter(pl.col("category") == category)
            _intervals(axes, part, arms, 0, 1, chunk_set, coloured=True)
            axes.set_yticks(range(len(arms)), arms if number % columns == 0 else [""] * len(arms))
            axes.tick_params(axis="y", length=0, labelcolor=INK)
            axes.set_ylim(len(arms) - 0.5, -0.5)
            axes.set_xlim(-0.02, 1.02)
            axes.set_title(f"{category.replace('_', ' ')}, n = {most(part, 'n')}", loc="left", fontsize=9.5)
            bare(axes, "x")
        for axes in grid[len(categories) :]:
            axes.set_visible(False)
        headed(
            figure,
            f"{metric} by category of question",
            f"{chunk_set} chunks, {ROLE_NAMES.get(role, role)}; 95 % intervals",
        )
        return png(figure)


def _intervals(
    axes: Axes,
    rows: pl.DataFrame,
    arms: list[str],
    place: int,
    places: int,
    chunk_set: str,
    *,
    coloured: bool = False,
) -> None:
    shift = (place - (places - 1) / 2) * min(0.28, 0.6 / places)
    for row in rows.iter_rows(named=True):
        at = arms.index(row["arm"])
        colour = _COLOURS[(at if coloured else place) % len(_COLOURS)]
        marker = _MARKERS[place % len(_MARKERS)]
        known = row["low"] is not None and row["high"] is not None
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 5, "linestyle": "none"}
        if known:
            axes.plot([row["low"], row["high"]], [at + shift] * 2, color=colour, linewidth=1.5, solid_capstyle="butt")
        axes.plot([row["value"]], [at + shift], markerfacecolor=colour if known else "white", **look)


def _legend(figure: Any, chunk_sets: list[str]) -> None:
    if len(chunk_sets) < 2:
        return
    first = figure.axes[0]
    for place, name in enumerate(chunk_sets):
        first.plot([np.nan], [np.nan], color=_COLOURS[place], marker=_MARKERS[place], markersize=5, label=name)
    figure.legend(
        *first.get_legend_handles_labels(), loc="outside lower center", ncols=len(chunk_sets), frameon=False, fontsize=9
    )


def _role_title(role: str, part: pl.DataFrame) -> str:
    return f"{ROLE_NAMES.get(role, role)}, n = {most(part, 'n')}"


def _about(chosen: pl.DataFrame) -> str:
    return f"test split of the golden set, at most {most(chosen, 'units')} independent units of questions"


def _ordered(values: pl.Series, first: tuple[str, ...]) -> list[str]:
    there = set(values)
    return [name for name in first if name in there] + sorted(there - set(first))
