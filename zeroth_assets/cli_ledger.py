"""`zeroth ledger`: which golden queries were read to choose a retriever's parameters.

What belongs here: the commands' arguments and what they print.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zeroth_assets.cli_output import Json, emit, out
from zeroth_assets.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroth_assets.evaluation.golden.ledger import SplitLedger

ledger = typer.Typer(
    no_args_is_help=True,
    help="The record of what was read for tuning: figures of a retriever that was tuned on test queries are withheld.",
)
Retriever = Annotated[str, typer.Argument(help="A retriever, as `zeroth metrics retrieval` names it: rrf, bm25.")]


@ledger.command("lend")
def ledger_lend(
    retriever: Retriever,
    to: Annotated[Path, typer.Option("--out", help="File that the queries go to, a JSON object a line.")],
    split: Annotated[
        str, typer.Option(help="calibration; lending test is recorded, and spoils the choice.")
    ] = "calibration",
    as_json: Json = False,
) -> None:
    """Write the queries of a split to a file for tuning a retriever, and record that they were read for it."""
    from zeroth_assets.artefacts import ArtefactStore, write_atomic
    from zeroth_assets.errors import SettingsError
    from zeroth_assets.evaluation.golden.model import SPLITS

    if split not in SPLITS:
        raise SettingsError(f"There is no split {split!r}", expected=", ".join(SPLITS), found=split)
    _known(retriever)
    queries = ArtefactStore(load_settings().state_dir / "artefacts").read_frame("golden_queries")
    lent = queries.filter(queries["split"] == split).select("query_id", "text", "category", "scope", "answerable")
    try:
        write_atomic(to, "".join(f"{json.dumps(row)}\n" for row in lent.iter_rows(named=True)).encode())
    except OSError as error:
        raise SettingsError(
            "The queries cannot be written", expected="a path in a folder of yours", found=str(error)
        ) from error
    _record(lambda book, at: book.lend(queries, retriever=retriever, at=at, split=split))
    if as_json:
        emit({"retriever": retriever, "split": split, "queries": lent.height, "file": str(to)})
        return
    out.print(f"{lent.height} queries of {split} lent for {retriever}: {to}", highlight=False, soft_wrap=True)


@ledger.command("choose")
def ledger_choose(retriever: Retriever) -> None:
    """Record that today's parameters of a retriever were chosen with what was lent for it so far."""
    parameters = _parameters(retriever)

    def choose(book: SplitLedger, at: str) -> None:
        for one in parameters.values():
            book.choose(retriever=retriever, parameters=one, at=at)

    _record(choose)
    _say("chosen", parameters)


@ledger.command("untuned")
def ledger_untuned(retriever: Retriever) -> None:
    """Record that today's parameters of a retriever come from elsewhere: no query was read for them."""
    parameters = _parameters(retriever)

    def declare(book: SplitLedger, at: str) -> None:
        for one in parameters.values():
            book.declare_untuned(retriever=retriever, parameters=one, at=at)

    _record(declare)
    _say("untuned", parameters)


@ledger.command("show")
def ledger_show(as_json: Json = False) -> None:
    """Print the record, oldest first."""
    from zeroth_assets.evaluation.golden.ledger import SplitLedger
    from zeroth_assets.planning.hygiene import ledger_path

    rows = [
        {"at": e.at, "act": e.act, "retriever": e.retriever, "queries": len(e.query_ids), "parameters": e.parameters}
        for e in SplitLedger.load(ledger_path(load_settings())).entries
    ]
    if as_json:
        emit(rows)
        return
    for row in rows or [{"nothing": "was read for any retriever, and nothing chosen"}]:
        out.print(" ".join(f"{name} {value}" for name, value in row.items() if value), highlight=False, soft_wrap=True)


def _record(act: Callable[[SplitLedger, str], object]) -> None:
    """Load, act, save; two commands take turns."""
    from filelock import FileLock

    from zeroth_assets.artefacts import private_folder
    from zeroth_assets.evaluation.golden.ledger import SplitLedger
    from zeroth_assets.planning.hygiene import ledger_path

    path = ledger_path(load_settings())
    private_folder(path.parent)
    with FileLock(f"{path}.lock"):
        book = SplitLedger.load(path)
        act(book, datetime.now(UTC).isoformat(timespec="seconds"))
        book.save(path)


def _known(retriever: str) -> None:
    from zeroth_assets.errors import SettingsError
    from zeroth_assets.evaluation.retrieval_arms import RETRIEVERS

    if retriever not in RETRIEVERS:
        raise SettingsError(f"There is no retriever {retriever!r}", expected=", ".join(RETRIEVERS), found=retriever)


def _parameters(retriever: str) -> dict[str, dict[str, Any]]:
    """What is chosen of a retriever under today's settings, by arm."""
    from zeroth_assets.evaluation.retrieval_arms import arm_key
    from zeroth_assets.planning.hygiene import arm_parameters
    from zeroth_assets.settings import CHUNK_SETS

    _known(retriever)
    keys = [arm_key(chunk_set, retriever) for chunk_set in CHUNK_SETS]
    return {key: arm_parameters(load_settings(), key) for key in keys}


def _say(act: str, parameters: dict[str, dict[str, Any]]) -> None:
    for key, one in parameters.items():
        out.print(f"{act}: {key} {json.dumps(one)}", highlight=False, markup=False, soft_wrap=True)
