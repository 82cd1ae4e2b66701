"""The console: what belongs here is what a person sees while a materialisation works."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import dagster as dg
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from zeroth_assets.defs import progress as progress_module
from zeroth_assets.defs.outcome import Outcome, RunOutcome, Watcher
from zeroth_assets.defs.progress import LOG_INTERVAL_SECONDS
from zeroth_assets.defs.resources import Project
from zeroth_assets.defs.runner import Runner
from zeroth_assets.errors import RunError, SettingsError
from zeroth_assets.settings import Settings

MISSING_SHOWN = 20


def materialize_here(
    settings: Settings,
    build_defs: Callable[[], dg.Definitions],
    *,
    tenants: Sequence[str],
    sources: Sequence[str],
    assets: Sequence[str],
    partition: str | None,
    console: Console,
    bars: bool,
    fan_ins: bool = True,
) -> Outcome:
    """Carry out the plan, or one named run, and tell `console` about it."""
    if partition is not None and not assets:
        raise SettingsError("--partition says where, not what", remedy="name the asset too: --asset NAME")
    quieten()
    started = time.monotonic()
    console.print(f"corpus {settings.corpus} in {settings.state_dir}", highlight=False)
    with _watching(console, bars) as watcher:
        watcher.message("starting the database and loading definitions")
        runner = Runner(build_defs(), Project(), watcher)
        if assets:
            outcome = runner.materialize_named(assets, partition)
        else:
            outcome = runner.materialize(tenants, sources, fan_ins=fan_ins)
    _summary(console, outcome, time.monotonic() - started)
    return outcome


def accept_folding(build_defs: Callable[[], dg.Definitions], console: Console) -> None:
    """Take the folding that the rule proposes, in one run of `tenant_assignments`.

    Raises:
        RunError: the run failed.
    """
    runner = Runner(build_defs(), Project(), _lines(console))
    outcome = runner.materialize_named(["tenant_assignments"], None, {"tenant_assignments": {"accept": True}})
    if outcome.failed:
        raise RunError("The folding was not accepted", found=outcome.failed[0].error or "see the run")


def quieten() -> None:
    """Dagster's own lines stay in the instance; previews that we use knowingly warn no user."""
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    for category in ("BetaWarning", "PreviewWarning", "SupersessionWarning"):
        known = getattr(dg, category, None)
        if known is not None:
            warnings.filterwarnings("ignore", category=known)


@contextmanager
def _watching(console: Console, bars: bool) -> Iterator[Watcher]:
    if not bars:
        lines = PlainProgress(console)
        with progress_module.listening(lines.step):
            yield replace(_lines(console), started=lines.started)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        plan = progress.add_task("runs", total=None)
        work = progress.add_task("", total=None, visible=False)

        def started(what: str, assets: tuple[str, ...], number: int, of: int) -> None:
            progress.update(plan, description=f"run {number} of {of}: {what}", completed=number - 1, total=of)

        def ended(outcome: RunOutcome) -> None:
            progress.advance(plan)
            progress.update(work, visible=False)
            progress.console.print(_line(outcome), highlight=False, soft_wrap=True)

        def step(what: str, done: int, total: int) -> None:
            progress.update(work, description=what, completed=done, total=total, visible=True)

        with progress_module.listening(step):
            yield Watcher(lambda text: progress.console.print(text, highlight=False), started, ended)


class PlainProgress:
    """Progress without a terminal: a line where nothing was said for a while, so that a log does not look stalled."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock = console, clock
        self._run, self._last = "", clock()

    def started(self, what: str, assets: tuple[str, ...], number: int, of: int) -> None:
        """A run starts: it gets its own while before a line is printed."""
        self._run, self._last = f"run {number} of {of}", self._clock()

    def step(self, what: str, done: int, total: int) -> None:
        """An asset got on."""
        if self._clock() - self._last >= LOG_INTERVAL_SECONDS:
            self._last = self._clock()
            text = f"   {self._run}: {what}, {done} of {total}" if self._run else f"   {what}, {done} of {total}"
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def _lines(console: Console) -> Watcher:
    return Watcher(
        message=lambda text: console.print(text, highlight=False, soft_wrap=True),
        started=lambda what, assets, number, of: None,
        ended=lambda outcome: console.print(_line(outcome), highlight=False, soft_wrap=True),
    )


def _line(outcome: RunOutcome) -> str:
    mark = "[green]ok[/]" if outcome.succeeded else "[bold red]failed[/]"
    where = f" {outcome.partition}" if outcome.partition else ""
    what = ", ".join(outcome.assets) if len(outcome.assets) <= 3 else f"{len(outcome.assets)} assets"
    error = "" if outcome.error is None else "\n  " + escape(outcome.error)
    return f"{mark}{where} {what} {outcome.seconds:.1f} s{error}"


def _summary(console: Console, outcome: Outcome, seconds: float) -> None:
    for document_id, cause in outcome.missing[:MISSING_SHOWN]:
        console.print(f"[bold red]missing[/] {document_id}: {escape(cause)}", highlight=False, soft_wrap=True)
    if len(outcome.missing) > MISSING_SHOWN:
        console.print(f"and {len(outcome.missing) - MISSING_SHOWN} more; `zeroth corpus dead` lists them all")
    if not outcome.runs:
        console.print(
            f"nothing is stale: {outcome.fresh} artefacts are fresh, no run was started ({seconds:.1f} s)",
            highlight=False,
        )
        return
    unmet = outcome.unmet
    if unmet:
        told = ", ".join(f"{check}{f' ({count} times)' if count > 1 else ''}" for check, count in sorted(unmet.items()))
        console.print(
            f"checks that warn or failed, with the reason in the UI: {told}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    failed = len(outcome.failed)
    ending = f", [bold red]{failed} failed[/]" if failed else ""
    console.print(
        f"{len(outcome.runs)} runs{ending}, {outcome.fresh} artefacts were fresh ({seconds:.1f} s)", highlight=False
    )
