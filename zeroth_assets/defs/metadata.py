"""Metadata: what belongs here is how frames, figures and plots become what the UI shows.

No document text ever goes into metadata: event logs outlive permissions.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import dagster as dg
import polars as pl

from zeroth_assets.artefacts import Sidecar

OWNERS = ["team:retrieval"]


def column_schema(schema: Mapping[str, Any], descriptions: Mapping[str, str] | None = None) -> dg.TableSchema:
    """A Polars schema as Dagster's, for the definition-level metadata `dagster/column_schema`."""
    descriptions = descriptions or {}
    return dg.TableSchema(
        columns=[
            dg.TableColumn(name, type=str(dtype), description=descriptions.get(name)) for name, dtype in schema.items()
        ]
    )


def markdown_table(frame: pl.DataFrame, limit: int = 200) -> dg.MarkdownMetadataValue:
    """A frame as a Markdown table, cut at `limit` rows with a line that says so."""
    header = "| " + " | ".join(frame.columns) + " |\n|" + " --- |" * frame.width
    lines = ["| " + " | ".join(_cell(value) for value in row) + " |" for row in frame.head(limit).iter_rows()]
    if frame.height > limit:
        lines.append(f"\n{frame.height - limit} more rows in the artefact")
    return dg.MetadataValue.md("\n".join([header, *lines]))


def png(image: bytes, alt: str) -> dg.MarkdownMetadataValue:
    """A picture inside Markdown, so that the UI shows it without a file server."""
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
        metadata={**of_sidecar(sidecar), **(metadata or {})},
        data_version=dg.DataVersion(sidecar.sha256),
        check_results=check_results or [],
    )


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value).replace("|", "\\|").replace("\n", " ")
