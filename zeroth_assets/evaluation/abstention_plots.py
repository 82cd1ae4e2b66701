"""Pictures of abstention: risk against coverage, and where the scores of either kind of query lie.

What belongs here: drawing, and nothing that computes a figure. matplotlib's state is not touched.
"""

from __future__ import annotations

import io
import math
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.abstention import AbstentionReport, area_under_risk_coverage

_INK, _MUTED, _GRID = "#1f2933", "#616e7c", "#e4e7eb"
_GOOD, _BAD, _MARK = "#0b7285", "#c2410c", "#1f2933"
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


def plot_risk_coverage(report: AbstentionReport, *, title: str) -> bytes:
    """Risk against coverage of the queries with enough candidates, as PNG bytes; the dot is the threshold in force.

    Raises:
        MeasurementError: no query had enough candidates.
    """
    curve = report.curve
    if not curve.height:
        raise _nothing()
    coverage, risk = curve["coverage"].to_numpy(), curve["risk"].to_numpy()
    note = f"area {area_under_risk_coverage(curve):.3f}, {report.scores.height} queries"
    if report.insufficient:
        note += f"; {report.insufficient} more short of candidates, counted apart"
    with mpl.rc_context(_STYLE):
        figure, axes = _canvas(title, note)
        axes.step(coverage, risk, where="post", color=_GOOD, linewidth=1.8)
        axes.axhline(risk[-1], color=_MUTED, linewidth=0.9, linestyle=(0, (5, 3)))
        axes.annotate(
            f"answering everything: {risk[-1]:.3f}",
            (1.0, risk[-1]),
            xytext=(0, 4),
            textcoords="offset points",
            ha="right",
            fontsize=8.5,
            color=_MUTED,
        )
        answered = curve.filter(pl.col("threshold") >= report.threshold.value)
        if answered.height:
            at = answered.row(-1, named=True)
            axes.plot([at["coverage"]], [at["risk"]], marker="o", markersize=7, color=_MARK, zorder=3)
            left = at["coverage"] > 0.6
            axes.annotate(
                f"threshold {report.threshold.value:.3f}: {at['coverage']:.2f} answered, risk {at['risk']:.3f}",
                (at["coverage"], at["risk"]),
                xytext=(-8 if left else 8, -12),
                textcoords="offset points",
                ha="right" if left else "left",
                va="top",
                fontsize=8.5,
            )
        axes.set_xlim(0, 1.02)
        top = max(0.05, float(risk.max()) * 1.15)
        axes.set_ylim(-0.13 * top, top)
        axes.set_xlabel("coverage: share of queries answered")
        axes.set_ylabel("risk: share of answers that are wrong")
        return _png(figure)


def plot_score_distributions(report: AbstentionReport, *, title: str) -> bytes:
    """The best scores of answerable and unanswerable queries with the threshold between them, as PNG bytes.

    Raises:
        MeasurementError: no query had enough candidates.
    """
    scores = report.scores["score"].to_numpy()
    if not len(scores):
        raise _nothing()
    threshold = report.threshold
    low, high = float(scores.min()), float(scores.max())
    if math.isfinite(threshold.value):
        low, high = min(low, threshold.value), max(high, threshold.value)
    edges = np.linspace(low, high if high > low else low + 1e-6, 31).tolist()
    with mpl.rc_context(_STYLE):
        figure, axes = _canvas(
            title, f"best {threshold.source} score; calibrated on {threshold.unanswerable} unanswerable queries"
        )
        for answerable, name, colour in ((True, "answerable", _GOOD), (False, "unanswerable", _BAD)):
            part = report.scores.filter(pl.col("answerable") == answerable)["score"].to_numpy()
            if len(part):
                # Shares, not counts: the two kinds differ in number.
                weights = np.full(len(part), 1 / len(part))
                label = f"{name} ({len(part)})"
                axes.hist(part, edges, weights=weights, color=colour, alpha=0.22)
                axes.hist(part, edges, weights=weights, histtype="step", color=colour, linewidth=1.4, label=label)
        if math.isfinite(threshold.value):
            axes.axvline(
                threshold.value,
                color=_MARK,
                linewidth=1.2,
                linestyle=(0, (5, 3)),
                label=f"threshold {threshold.value:.3f}",
            )
        axes.margins(y=0.28)
        axes.set_xlabel(f"best {threshold.source} score of the query")
        axes.set_ylabel("share of the queries of a kind")
        axes.legend(
            loc="upper center",
            ncols=3,
            facecolor="white",
            edgecolor="white",
            framealpha=1,
            fontsize=8.5,
            labelcolor=_INK,
        )
        return _png(figure)


def _canvas(title: str, note: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.4, 3.7), dpi=110, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.grid(axis="y", color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_title(title, loc="left", pad=22, weight="bold", fontsize=11.5)
    axes.annotate(
        note,
        (0.0, 1.0),
        xycoords="axes fraction",
        xytext=(0, 7),
        textcoords="offset points",
        fontsize=8.5,
        color=_MUTED,
    )
    return figure, axes


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _nothing() -> MeasurementError:
    return MeasurementError(
        "There is nothing to draw",
        expected="queries with enough candidates",
        found="none",
        remedy="see the metric insufficient_candidates",
    )
