"""Metadata: what belongs here is how frames, figures and plots become what the UI shows.

No document text ever goes into metadata: event logs outlive permissions.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.artefacts import Sidecar
from zeroth_assets.defs.columns import COLUMNS

OWNERS = ["team:retrieval"]
WIDE, FEW = 8, 3


def column_schema(schema: Mapping[str, Any]) -> dg.TableSchema:
    """A Polars schema as Dagster's, with what each column means, for the metadata `dagster/column_schema`."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(name, type=_type(dtype), description=COLUMNS.get(name)) for name, dtype in schema.items()
        ]
    )


def markdown_table(frame: pl.DataFrame, limit: int = 200) -> dg.MarkdownMetadataValue:
    """A frame as a Markdown table, cut at `limit` rows with a line that says so; `none` for no row.

    Few rows and many columns are turned on their side: the UI gives a table no more than the page's width.
    """
    if frame.is_empty():
        return dg.MetadataValue.md("none")
    if frame.width > WIDE and frame.height <= FEW:
        cells = [[name, *(_cell(value) for value in frame[name])] for name in frame.columns]
        return dg.MetadataValue.md(_lines(["", *(" " for _ in range(frame.height))], cells))
    text = _lines(frame.columns, [[_cell(value) for value in row] for row in frame.head(limit).iter_rows()])
    more = f"\n\n{frame.height - limit} more rows in the artefact" if frame.height > limit else ""
    return dg.MetadataValue.md(text + more)


def png(image: bytes, alt: str) -> dg.MarkdownMetadataValue:
    """A picture inside Markdown, so that the UI shows it without a file server.

    The UI folds Markdown of more than some hundred characters: the picture opens by a click on "Show Markdown".
    """
    return dg.MetadataValue.md(f"![{alt}](data:image/png;base64,{base64.b64encode(image).decode()})")


def of_sidecar(sidecar: Sidecar) -> dict[str, Any]:
    """What every artefact shows: rows, size, checksum, inputs and the command that regenerates it."""
    return {
        "dagster/row_count": sidecar.rows,
        "bytes": sidecar.bytes,
        "sha256": sidecar.sha256,
        "describes": sidecar.describes,
        "regenerated_by": sidecar.generated_by["command"],
        "code": sidecar.generated_by["code"],
        "commit": sidecar.generated_by["commit"],
        "inputs": dg.MetadataValue.json(dict(sidecar.inputs)),
        "parameters": dg.MetadataValue.json(dict(sidecar.parameters)),
    }


def result(
    sidecar: Sidecar,
    metadata: Mapping[str, Any] | None = None,
    check_results: list[dg.AssetCheckResult] | None = None,
) -> dg.MaterializeResult[Any]:
    """A materialisation whose data version is the artefact's sha256."""
    return dg.MaterializeResult(
        # What this asset alone tells comes first; where it comes from is the same list for all.
        metadata={**(metadata or {}), **of_sidecar(sidecar)},
        data_version=dg.DataVersion(sidecar.sha256),
        check_results=check_results or [],
    )


def _type(dtype: object) -> str:
    """Nested types by their outermost name: the rest is unreadable in the catalogue."""
    return str(dtype).partition("({")[0].replace("(Struct", "[Struct]")


def _lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, pl.Series | list | tuple):
        return ", ".join(_cell(item) for item in value)
    if isinstance(value, dict):
        return " ".join(_cell(item) for item in value.values())
    return str(value).replace("|", "\\|").replace("\n", " ")
