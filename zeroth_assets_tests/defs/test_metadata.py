from __future__ import annotations

from typing import cast

import dagster as dg
import polars as pl
import pytest

from zeroth_assets.definitions import defs
from zeroth_assets.defs import metadata as md

SPECS = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}


@pytest.mark.parametrize("name", sorted(SPECS))
def test_every_asset_tells_a_person_what_it_is_and_whose(name: str) -> None:
    spec = SPECS[name]
    assert spec.description
    assert spec.owners
    assert spec.kinds
    assert spec.group_name not in (None, "default")


@pytest.mark.parametrize("name", sorted(SPECS))
def test_every_column_of_every_asset_is_explained(name: str) -> None:
    schema = cast(dg.TableSchema, SPECS[name].metadata["dagster/column_schema"])
    assert schema.columns
    assert [column.name for column in schema.columns if not column.description] == []


def test_a_nested_type_is_named_by_its_outermost_part() -> None:
    nested = pl.List(pl.Struct({"start": pl.Int64, "end": pl.Int64}))
    columns = md.column_schema({"sections": nested, "warnings": pl.List(pl.String)}).columns
    assert [column.type for column in columns] == ["List[Struct]", "List(String)"]


def test_a_frame_becomes_a_markdown_table_whose_cells_cannot_break_it() -> None:
    table = md.markdown_table(pl.DataFrame({"a": ["x|y\nz", None], "b": [0.123456, 2.0]}))
    assert table.value == "| a | b |\n| --- | --- |\n| x\\|y z | 0.1235 |\n|  | 2 |"


def test_a_long_table_is_cut_and_says_so() -> None:
    lines = str(md.markdown_table(pl.DataFrame({"a": range(7)}), limit=5).value).splitlines()
    assert lines[-1] == "2 more rows in the artefact"
    assert len(lines) == 2 + 5 + 2


def test_a_wide_table_of_few_rows_is_turned_on_its_side() -> None:
    frame = pl.DataFrame({f"c{i}": [i, 10 * i] for i in range(12)})
    lines = str(md.markdown_table(frame).value).splitlines()
    assert len(lines) == 2 + 12
    assert lines[2 + 3] == "| c3 | 3 | 30 |"


def test_an_empty_table_says_none() -> None:
    assert md.markdown_table(pl.DataFrame(schema={"a": pl.String})).value == "none"


def test_a_nested_cell_is_written_out() -> None:
    frame = pl.DataFrame(
        {"dropped": [[{"reason": "page_header", "characters": 7}, {"reason": "tab", "characters": 1}]]}
    )
    assert str(md.markdown_table(frame).value).splitlines()[-1] == "| page_header 7, tab 1 |"
