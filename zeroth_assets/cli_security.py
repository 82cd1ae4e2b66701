"""The command line's `zeroth security`.

What belongs here: arguments, what is printed, and exit codes of the security suite.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zeroth_assets.cli_output import Json, emit, err, out
from zeroth_assets.settings import load_settings

security = typer.Typer(no_args_is_help=True, help="The boundary: attack it, and see that it holds.")


@security.callback()
def _group() -> None:
    """Keep `check` a command of its own, the only one as it is."""


@security.command("check")
def security_check(
    residual: Annotated[
        bool, typer.Option("--residual/--no-residual", help="Also measure what PostgreSQL leaves to every role.")
    ] = True,
    repetitions: Annotated[int, typer.Option(min=20, max=100_000, help="Pairs of queries per timing.")] = 200,
    report: Annotated[Path | None, typer.Option(help="Write the report here too, as Markdown.")] = None,
    channels: Annotated[
        Path | None, typer.Option(help="Write the residual channels alone here, as a Markdown page.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Attack the database as the querying role; it changes nothing. Exit code 14 on a breach."""
    from zeroth_assets.security import SecurityBreachError
    from zeroth_assets.security import security_check as check
    from zeroth_assets.store.connect import open_database

    settings = load_settings()
    db = open_database(settings.state_dir, settings.database_url, settings.pg_bin)
    with err.status("attacking the boundary") as status:
        found = check(
            db,
            residual=residual,
            repetitions=repetitions,
            progress=lambda done, total: status.update(f"attacking the boundary: {done} of {total} probes"),
        )
    if report is not None:
        report.write_text(found.to_markdown(), "utf-8")
    if channels is not None:
        channels.write_text(found.channels_page(f"zeroth security check --channels {channels}"), "utf-8")
    if as_json:
        emit(found.to_json())
    else:
        for result in found.probes:
            detail = "; ".join(result.breaches) or result.reason
            out.print(f"{result.status:9}{result.name}{': ' + detail if detail else ''}", highlight=False, markup=False)
        if found.channels:
            out.print(
                "what PostgreSQL itself lets any role learn (open) or not (closed), without any document's text:",
                highlight=False,
            )
        for channel in found.channels:
            out.print(
                f"{'open' if channel.open else 'closed':9}{channel.name}: {channel.measured}",
                highlight=False,
                markup=False,
            )
        out.print(f"{len(found.breached)} of {len(found.probes)} probes got through", highlight=False)
    if found.exit_code:
        raise typer.Exit(SecurityBreachError.exit_code)
