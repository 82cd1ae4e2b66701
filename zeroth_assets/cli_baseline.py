"""The command line's `zeroth baseline`.

What belongs here: arguments and what is printed of the commands about accepted figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from zeroth_assets.cli_output import Json, emit, out
from zeroth_assets.settings import load_settings

if TYPE_CHECKING:
    from zeroth_assets.evaluation.baselines import Baseline

baseline = typer.Typer(no_args_is_help=True, help="Accepted figures: checks turn red where today's fall below them.")


@baseline.command("accept")
def baseline_accept(
    reason: Annotated[str, typer.Option("--reason", help="Why, in a sentence; it is kept with the figures.")],
    figure: Annotated[
        list[str] | None,
        typer.Option("--figure", help="ann_recall, access_recall, retrieval_metrics, golden_set; default: all."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Take the figures that are published now as what later ones are compared with."""
    from zeroth_assets.artefacts import ArtefactStore
    from zeroth_assets.defs.baselines import accept, published_values
    from zeroth_assets.evaluation.baselines import FIGURES

    settings = load_settings()
    store = ArtefactStore(settings.state_dir / "artefacts")
    chosen = figure or [name for name in FIGURES if any(published_values(store, name))] or list(FIGURES[:1])
    accepted = [(name, *accept(settings, name, reason)) for name in chosen]
    if as_json:
        emit([{**_told(one), "file": str(path)} for _, path, one in accepted])
        return
    for name, path, one in accepted:
        out.print(f"{name}: {one.holds} accepted in {path}", highlight=False, soft_wrap=True)


@baseline.command("show")
def baseline_show(as_json: Json = False) -> None:
    """Say which figures were accepted, when and why."""
    from zeroth_assets.evaluation.baselines import FIGURES, read_baseline

    folder = load_settings().baselines_dir
    found = [(name, read_baseline(folder, name)) for name in FIGURES]
    if as_json:
        emit([_told(one) for _, one in found if one is not None])
        return
    for name, one in found:
        told = "none was accepted" if one is None else f"{one.holds}, {one.accepted_at}: {one.reason}"
        out.print(f"{name}: {told}", highlight=False, markup=False, soft_wrap=True)


def _told(one: Baseline) -> dict[str, Any]:
    return {
        "figure": one.figure,
        "accepted_at": one.accepted_at,
        "reason": one.reason,
        "series": len(one.series),
        "marks": dict(one.marks),
    }
