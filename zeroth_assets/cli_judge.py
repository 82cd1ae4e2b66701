"""`zeroth judge`: a person's grades beside the model's.

What belongs here: the commands' arguments and what they print.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zeroth_assets.cli_output import Json, emit, out
from zeroth_assets.settings import load_settings

judge = typer.Typer(
    no_args_is_help=True, help="What the model that grades passages is worth: a person grades some too."
)


@judge.command("sheet")
def judge_sheet(
    folder: Annotated[Path, typer.Argument(help="Folder that sheet.html and sheet.csv go to; give both to a person.")],
    size: Annotated[int, typer.Option(help="Passages; at least 30 tell anything.", min=1)] = 60,
    as_json: Json = False,
) -> None:
    """Draw passages that the model graded, evenly over its grades, as a sheet that tells neither grade nor source."""
    from zeroth_assets.artefacts import ArtefactStore
    from zeroth_assets.evaluation.judging.human_record import give_out
    from zeroth_assets.planning.judge import judge_folder

    settings = load_settings()
    store = ArtefactStore(settings.state_dir / "artefacts")
    files = give_out(store, folder, judge_folder(settings), size=size, seed=settings.seed)
    if as_json:
        emit({"html": str(files.html), "csv": str(files.csv)})
        return
    out.print(f"{files.html}\n{files.csv}", highlight=False, markup=False, soft_wrap=True)
    out.print("both hold text of documents; when it is graded: zeroth judge import SHEET.csv", style="dim")


@judge.command("import")
def judge_import(
    sheet: Annotated[
        Path, typer.Argument(help="The graded sheet, as CSV: saved by sheet.html, or sheet.csv filled in.")
    ],
    as_json: Json = False,
) -> None:
    """Take a graded sheet back: the person's agreement with the model, or the reason why the sample cannot tell it."""
    from zeroth_assets.evaluation.judging.agreement import Withheld
    from zeroth_assets.evaluation.judging.human_record import take_back
    from zeroth_assets.evaluation.judging.worth import confusion_table, numbers_of
    from zeroth_assets.planning.judge import judge_folder

    settings = load_settings()
    done = take_back(sheet, judge_folder(settings), seed=settings.seed, resamples=settings.resamples)
    if as_json:
        emit({"judge": done.judge, "at": done.at, "record": str(done.record), **numbers_of(done.found)})
        return
    out.print(f"{done.judge} and a person: {done.words}", highlight=False, markup=False, soft_wrap=True)
    if not isinstance(done.found, Withheld):
        for row in confusion_table(done.found).iter_rows(named=True):
            out.print("  ".join(f"{name} {value}" for name, value in row.items()), highlight=False, markup=False)
