"""Pictures of recall under access control, as PNG bytes for an asset's metadata.

What belongs here: the pictures, and nothing that computes a figure. How they look is in `access_drawing`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator, PercentFormatter

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.access_drawing import (
    COLOURS,
    INK,
    MARKERS,
    MUTED,
    STYLE,
    bare,
    ef_axis,
    headed,
    label_ends,
    label_of,
    most,
    new_figure,
    panels,
    png,
    require,
)
from zeroth_assets.evaluation.access_model import HEADLINE_K, SHOWN_DESIGNS, WITHOUT_EF
from zeroth_assets.evaluation.access_report import HEADLINE_EF_SEARCH, SINGLE

_EXPECTED = "min(1, ef_search × share / k)"


def plot_recall_by_share(figures: pl.DataFrame, *, ef_search: int = HEADLINE_EF_SEARCH, k: int = HEADLINE_K) -> bytes:
    """Recall of each single tenant against its share of all rows, a panel per design.

    `figures` is in `access_model.ACCESS_SCHEMA`. Bars are 95 % intervals. The dashed curve is what would survive of
    ef_search candidates if rows lay anyhow; it is drawn where candidates are filtered after the search.

    Raises:
        MeasurementError: no single tenant was measured at this ef_search and k.
    """
    chosen = _at(figures, ef_search, k).filter(tenants=1)
    designs = [design for design in SHOWN_DESIGNS if chosen.filter(design=design).height]
    if len(designs) > 1:
        designs = [design for design in designs if design != "partition_exact"]  # it is 1 by definition
    require(chosen, f"single tenants at ef_search {ef_search}, k {k}")
    with mpl.rc_context(STYLE):
        columns = min(3, len(designs))
        figure = new_figure(3.45 * columns, 2.9 * math.ceil(len(designs) / columns) + 0.75)
        grid = figure.subplots(
            math.ceil(len(designs) / columns), columns, sharex=True, sharey=True, squeeze=False
        ).flatten()
        low, high = min(chosen["share"]) / 1.5, min(1.0, max(chosen["share"]) * 1.5)
        for axes, design in zip(grid, designs, strict=False):
            _share_panel(axes, chosen.filter(design=design).sort("share"), design, ef_search, k, (low, high))
        for axes in grid[len(designs) :]:
            axes.set_visible(False)
        for place in range(0, len(grid), columns):
            grid[place].set_ylabel(f"recall@{k}")
        for axes in grid[max(0, len(designs) - columns) : len(designs)]:
            axes.set_xlabel("tenant's share of all rows (log scale)")
            axes.tick_params(labelbottom=True)
        about = chosen.row(0, named=True)
        headed(
            figure,
            f"What each tenant gets back of its own exact top {k}",
            f"{chosen['principal'].n_unique()} tenants of {about['total_rows']:,} rows, ef_search {ef_search}, "
            f"{about['queries']} queries each, 95 % intervals",
        )
        return png(figure)


def plot_recall_by_ef(comparison: pl.DataFrame, *, k: int = HEADLINE_K) -> bytes:
    """Recall against ef_search per design, for the principal of everything and for the mean of single tenants.

    `comparison` is in `access_report.COMPARISON_SCHEMA`.

    Raises:
        MeasurementError: nothing was measured at this k.
    """
    scopes = _scopes(comparison.filter(k=k), k)
    with mpl.rc_context(STYLE):
        figure = new_figure(4.9 * len(scopes), 4.1)
        for axes, scope in zip(panels(figure, len(scopes)), scopes, strict=True):
            ends: list[tuple[float, str]] = []
            for design, line in _lines(comparison.filter(scope=scope, k=k)):
                if design in WITHOUT_EF:
                    axes.axhline(line["recall"][0], color=COLOURS[design], linewidth=1.1, linestyle=(0, (5, 3)))
                else:
                    ef = line["ef_search"].to_list()
                    axes.fill_between(
                        ef, line["recall_low"], line["recall_high"], color=COLOURS[design], alpha=0.12, linewidth=0
                    )
                    axes.plot(ef, line["recall"], color=COLOURS[design], marker=MARKERS[design], markersize=5)
                ends.append((float(line["recall"][-1]), design))
            ef_axis(axes, comparison)
            axes.set_ylim(0, 1.04)
            label_ends(axes, ends, 0.052)
            axes.set_title(_scope_name(comparison, scope), loc="left")
            axes.set_ylabel(f"recall@{k}")
        headed(figure, "Widening the search", "bands are 95 % intervals: over queries, or over tenants for their mean")
        return png(figure)


def plot_empty_answers(comparison: pl.DataFrame, *, k: int = HEADLINE_K) -> bytes:
    """Share of single tenants' queries that return nothing, and that return fewer than k rows, against ef_search.

    Raises:
        MeasurementError: no single tenant was measured at this k.
    """
    chosen = comparison.filter(scope=SINGLE, k=k).with_columns(empty=pl.col("empty_queries") / pl.col("queries"))
    require(chosen, f"single tenants at k {k}")
    with mpl.rc_context(STYLE):
        figure = new_figure(9.8, 4.0)
        columns = (("empty", "answers with no row at all"), ("short_share", f"answers with fewer than {k} rows"))
        for axes, (column, title) in zip(panels(figure, 2), columns, strict=True):
            ends = []
            for design, line in _lines(chosen):
                if design in WITHOUT_EF:
                    axes.axhline(line[column][0], color=COLOURS[design], linewidth=1.1, linestyle=(0, (5, 3)))
                else:
                    axes.plot(
                        line["ef_search"], line[column], color=COLOURS[design], marker=MARKERS[design], markersize=5
                    )
                ends.append((float(line[column][-1]), design))
            ef_axis(axes, chosen)
            top = max(0.1, 1.12 * max(chosen[column]))
            axes.set_ylim(-0.02 * top, top)
            axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            label_ends(axes, ends, 0.056 * top)
            axes.set_title(title, loc="left")
        headed(
            figure,
            "Answers that look like “no evidence”",
            f"{most(chosen, 'queries'):,} queries of {most(chosen, 'principals')} tenants; exact search answers each",
        )
        return png(figure)


def plot_latency(comparison: pl.DataFrame, *, ef_search: int = HEADLINE_EF_SEARCH, k: int = HEADLINE_K) -> bytes:
    """Median and 95th percentile of latency per design (log axis), for everything and for single tenants.

    Raises:
        MeasurementError: nothing was measured at this ef_search and k.
    """
    chosen = _at(comparison, ef_search, k)
    scopes = _scopes(chosen, k)
    with mpl.rc_context(STYLE):
        figure = new_figure(9.8, 0.6 + 1.9 * len(scopes))
        grid = np.atleast_1d(figure.subplots(len(scopes), 1, sharex=True))
        for axes, scope in zip(grid, scopes, strict=True):
            rows = {row["design"]: row for row in chosen.filter(scope=scope).iter_rows(named=True)}
            shown = [design for design in SHOWN_DESIGNS if design in rows]
            for place, design in enumerate(reversed(shown)):
                p50, p95 = rows[design]["latency_p50_ms"], rows[design]["latency_p95_ms"]
                axes.plot([p50, p95], [place, place], color=COLOURS[design], linewidth=2.2, alpha=0.45)
                axes.plot(p50, place, color=COLOURS[design], marker=MARKERS[design], markersize=7)
                axes.plot(p95, place, color=COLOURS[design], marker="|", markersize=11, markeredgewidth=2)
                axes.annotate(
                    f"{p50:.3g} / {p95:.3g} ms, recall {rows[design]['recall']:.2f}",
                    (p95, place),
                    xytext=(8, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=8.5,
                )
            axes.set_yticks(range(len(shown)), [label_of(design) for design in reversed(shown)], color=INK)
            axes.set_ylim(-0.6, len(shown) - 0.4)
            axes.set_xscale("log")
            axes.margins(x=0.28)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_title(_scope_name(comparison, scope).replace("mean", "medians"), loc="left")
            bare(axes, "x")
        grid[-1].set_xlabel("milliseconds, median / 95th percentile (log scale)")
        headed(
            figure, "What an answer takes", f"ef_search {ef_search}, k {k}, one statement at a time, planning included"
        )
        return png(figure)


def _share_panel(
    axes: Axes, rows: pl.DataFrame, design: str, ef_search: int, k: int, limits: tuple[float, float]
) -> None:
    colour = COLOURS[design]
    share, recall = rows["share"].to_numpy(), rows["recall"].to_numpy()
    axes.vlines(share, rows["recall_low"], rows["recall_high"], color=colour, alpha=0.3, linewidth=1.1)
    axes.plot(
        share, recall, linestyle="none", marker=MARKERS[design], markersize=4.5, color=colour, markeredgewidth=0,
        alpha=0.85,
    )  # fmt: skip
    if design == "shared_postfilter":
        curve = np.geomspace(*limits, 200)
        axes.plot(curve, np.minimum(1.0, ef_search * curve / k), color=INK, linewidth=1.2, linestyle=(0, (5, 3)))
        axes.annotate(  # below zero, where there is neither curve nor tenant
            f"- - -  expected: {_EXPECTED}", (0.98, 0.025), xycoords="axes fraction", fontsize=8, ha="right"
        )
    axes.set_xscale("log")
    axes.set_xlim(*limits)
    axes.set_ylim(-0.13, 1.05)
    axes.set_yticks([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if limits[1] > 100 * limits[0] else (1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_title(label_of(design), loc="left", weight="bold", pad=19)
    empty, asked = int(rows["empty_queries"].sum()), int(rows["queries"].sum())
    axes.annotate(
        f"mean {recall.mean():.3f}, worst {recall.min():.3f}; {empty:,} of {asked:,} answers empty",
        (0.0, 1.0),
        xycoords="axes fraction",
        xytext=(0, 6),
        textcoords="offset points",
        fontsize=8.2,
        color=MUTED,
    ).set_in_layout(False)
    bare(axes, "y")


def _at(frame: pl.DataFrame, ef_search: int, k: int) -> pl.DataFrame:
    """One row per subject and design: at this ef_search, asked with all queries, and with the predicate if so."""
    subject = "principal" if "principal" in frame.columns else "scope"
    asked = pl.col("queries") if subject == "principal" else pl.col("queries") / pl.col("principals")
    return (
        frame.filter(pl.col("k") == k, (pl.col("ef_search") == ef_search) | pl.col("ef_search").is_null())
        .sort(asked, "predicate", descending=True, maintain_order=True)
        .unique([subject, "design"], keep="first", maintain_order=True)
    )


def _lines(rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Per design its rows by ef_search, one each, of the form that was asked with the most queries."""
    chosen = rows.sort(
        pl.col("queries") / pl.col("principals"), "predicate", descending=True, maintain_order=True
    ).unique(["design", "ef_search"], keep="first")
    for design in SHOWN_DESIGNS:
        line = chosen.filter(design=design).sort("ef_search")
        if line.height:
            yield design, line


def _scopes(comparison: pl.DataFrame, k: int) -> list[str]:
    """Everything (the principal of most queries' rows, `all` by name) first, then the single tenants."""
    there = set(comparison["scope"].to_list())
    found = [scope for scope in ("all", SINGLE) if scope in there]
    if not found:
        raise MeasurementError("There is nothing to draw", expected=f"the principal `all` or single tenants, at k {k}")
    return found


def _scope_name(comparison: pl.DataFrame, scope: str) -> str:
    if scope != SINGLE:
        return "a principal that sees everything"
    return f"a principal of one tenant (mean of {most(comparison.filter(scope=SINGLE), 'principals')})"
