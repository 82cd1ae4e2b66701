"""Pictures of the corpus: legible at the size of the real one, and without leaving state behind."""

from __future__ import annotations

import io

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from matplotlib.image import imread

from zeroth_assets.corpus.plots import plot_cosines, plot_tenant_chunks
from zeroth_assets.errors import TenantError


def table(count: int) -> pl.DataFrame:
    sources = ["cuad", "rfc", "sec"]
    rows = [(sources[i % 3], f"{sources[i % 3]}-tenant-{i}", float(7 * i + 1), 1 + i % 2) for i in range(count)]
    return pl.DataFrame(rows, schema=["source", "tenant", "estimated_chunks", "raw_tenants"], orient="row")


def pixels(png: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.asarray(imread(io.BytesIO(png), format="png"))


@pytest.mark.parametrize("count", [1, 11, 149])
def test_each_tenant_has_room_for_its_name(count: int) -> None:
    image = pixels(plot_tenant_chunks(table(count), 25))
    rows = -(-count // -(-count // 50))
    assert image.shape[0] / rows > 15


def test_the_floor_is_drawn_where_there_is_one() -> None:
    def drawn(floor: int) -> bool:
        image = pixels(plot_tenant_chunks(table(11), floor))[..., :3]
        red, green, blue = image[..., 0], image[..., 1], image[..., 2]
        return bool(((red - green > 0.2) & (red - blue > 0.2)).sum() > 50)

    assert drawn(25)
    assert not drawn(0)


def test_each_row_of_the_heat_map_has_room_for_its_name() -> None:
    image = pixels(plot_cosines([f"rfc-tenant-{i}" for i in range(149)], np.eye(149)))
    assert image.shape[0] / 149 > 10


@pytest.mark.parametrize(("names", "shape"), [([], (0, 0)), (["a"], (2, 2)), (["a", "b"], (2, 1))])
def test_a_matrix_that_does_not_fit_its_names_is_refused(names: list[str], shape: tuple[int, int]) -> None:
    with pytest.raises(TenantError):
        plot_cosines(names, np.zeros(shape))


def test_no_tenants_are_refused() -> None:
    with pytest.raises(TenantError):
        plot_tenant_chunks(table(0), 25)


def test_matplotlib_is_left_as_it_was() -> None:
    before = dict(mpl.rcParams)
    plot_tenant_chunks(table(3), 25)
    plot_cosines(["a", "b"], np.eye(2))
    assert dict(mpl.rcParams) == before
