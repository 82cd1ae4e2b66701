"""`zeroth beir`: test collections of others as corpora.

What belongs here: the command's arguments and what it prints.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from zeroth_assets.cli_output import Json, emit, out

beir = typer.Typer(no_args_is_help=True, help="Test collections in BEIR's format, run through the whole graph.")


@beir.command("import")
def beir_import(
    folder: Annotated[Path, typer.Argument(help="Folder with corpus.jsonl, queries.jsonl and qrels/*.tsv.")],
    to: Annotated[Path, typer.Option("--out", help="Folder that manifest, texts and truth go to.")],
    licence: Annotated[str, typer.Option(help="Under which terms you may use it.")],
    name: Annotated[str | None, typer.Option(help="Name of the set; default: the folder's.")] = None,
    split: Annotated[str, typer.Option(help="The qrels that figures are of: a file of qrels/ without .tsv.")] = "test",
    calibration: Annotated[
        list[str] | None, typer.Option("--calibration", help="Qrels to calibrate on; repeat for several.")
    ] = None,
    drop_identical_ids: Annotated[
        bool,
        typer.Option("--drop-identical-ids", help="A document with its query's id is no answer (ArguAna, Quora)."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a corpus of a BEIR folder: a manifest, a mirror of plain texts, and the golden set that goes with them."""
    from zeroth_assets.evaluation.golden.beir_import import import_beir

    report = import_beir(
        folder,
        to,
        name=name or folder.resolve().name.lower(),
        licence=licence,
        split=split,
        calibration=tuple(calibration or ()),
        drop_identical_ids=drop_identical_ids,
    )
    if as_json:
        emit({**asdict(report), "manifest": str(report.manifest)})
        return
    out.print(
        f"{report.documents} documents ({report.empty} empty ones left out), {report.queries} queries of {split},"
        f" {report.calibration_queries} to calibrate on, {report.judgments} judgments",
        highlight=False,
    )
    manifest, mirror = (shlex.quote(str(path.resolve())) for path in (report.manifest, to))
    command = f"ZEROTH_MANIFEST={manifest} ZEROTH_MIRROR={mirror} zeroth materialize"
    out.print(command, highlight=False, markup=False, soft_wrap=True)
