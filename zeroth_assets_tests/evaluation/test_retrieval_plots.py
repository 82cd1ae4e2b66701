"""Pictures of the arms: small PNGs, the same for the same figures, refused where there is nothing."""

from __future__ import annotations

import pytest

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.retrieval_figures import FIGURE_SCHEMA
from zeroth_assets.evaluation.retrieval_plots import plot_by_category, plot_forest
from zeroth_assets_tests.evaluation.retrieval_tables import figures_of

ARMS = {
    (chunk_set, name, role): quality
    for chunk_set in ("fixed_512", "section_aware")
    for role in ("unrestricted", "single_tenant")
    for name, quality in (("dense_exact", 0.4), ("bm25", 0.6), ("rrf", 0.7))
}


def test_pictures_are_small_pngs_and_the_same_for_the_same_figures() -> None:
    figures = figures_of(ARMS, n=20)
    forest = plot_forest(figures)
    category = plot_by_category(figures, chunk_set="fixed_512", role="single_tenant")
    for picture in (forest, category):
        assert picture.startswith(b"\x89PNG")
        assert len(picture) < 150_000
    assert forest == plot_forest(figures)
    assert forest != plot_forest(figures_of({**ARMS, ("fixed_512", "rrf", "unrestricted"): 0.1}, n=20))


def test_nothing_is_drawn_of_nothing() -> None:
    with pytest.raises(MeasurementError, match="nothing to draw"):
        plot_forest(FIGURE_SCHEMA.to_frame())
    with pytest.raises(MeasurementError, match="nothing to draw"):
        plot_by_category(figures_of(ARMS, n=20), chunk_set="fixed_256", role="unrestricted")
