"""Pictures: small PNGs that show what they should, without leaving state behind."""

from __future__ import annotations

import io
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.ann_report import FIGURE_SCHEMA
from zeroth_assets.evaluation.plots import plot_ann_recall


def figures(recalls: list[float], rows: int, **changed: Any) -> pl.DataFrame:
    efs = [5, 10, 40, 100, 200, 800][: len(recalls)]
    common = {
        "chunk_set": "fixed_512",
        "tenant": "rfc-quic",
        "principal": "rfc-quic",
        "role": "zeroth_app",
        "k": 10,
        "queries": 50,
        "tenant_rows": rows,
    }
    made = [
        {
            **common,
            "ef_search": ef,
            "recall": r,
            "recall_low": max(0.0, r - 0.04),
            "recall_high": min(1.0, r + 0.02),
            "trivial": rows <= ef,
            **changed,
        }
        for ef, r in zip(efs, recalls, strict=True)
    ]
    return pl.DataFrame(made, schema=FIGURE_SCHEMA)


def _pixels(png: bytes) -> NDArray[np.float64]:
    from matplotlib.image import imread

    return np.asarray(imread(io.BytesIO(png), format="png"), dtype=np.float64)


RECALLS = [0.48, 0.81, 0.962, 0.99, 0.998, 1.0]


def test_the_plot_is_a_small_png_and_the_same_each_time() -> None:
    png = plot_ann_recall(figures(RECALLS, 1_400))
    assert png.startswith(b"\x89PNG")
    assert len(png) < 60_000
    assert _pixels(png).shape == (407, 704, 4)
    assert png == plot_ann_recall(figures(RECALLS, 1_400))


def test_rows_in_another_order_give_the_same_picture() -> None:
    assert plot_ann_recall(figures(RECALLS, 1_400).reverse()) == plot_ann_recall(figures(RECALLS, 1_400))


def test_trivial_points_look_different() -> None:
    same_title = "one title"
    frame = figures(RECALLS, 1_400)
    hollow = frame.with_columns(trivial=pl.col("ef_search") >= 200)
    assert plot_ann_recall(frame, title=same_title) != plot_ann_recall(hollow, title=same_title)


def test_drawing_leaves_no_state_behind() -> None:
    before = dict(mpl.rcParams)
    plot_ann_recall(figures(RECALLS, 1_400))
    assert dict(mpl.rcParams) == before
    import sys

    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or not pyplot.get_fignums()


def test_names_are_drawn_as_they_are_and_never_as_formulas() -> None:
    assert plot_ann_recall(figures(RECALLS, 1_400, tenant="a$b_$")).startswith(b"\x89PNG")


def test_figures_of_several_tenants_are_refused() -> None:
    both = pl.concat([figures(RECALLS, 1_400), figures(RECALLS, 1_400, tenant="rfc-tls")])
    with pytest.raises(MeasurementError, match="not of one measurement"):
        plot_ann_recall(both)
    with pytest.raises(MeasurementError, match="not of one measurement"):
        plot_ann_recall(both.clear())
