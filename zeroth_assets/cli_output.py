"""What the commands share: where they print, and JSON for scripts.

What belongs here: consoles, the `--json` option and opening the home's database. No command.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from zeroth_assets.settings import Settings

if TYPE_CHECKING:
    from zeroth_assets.store.connect import Database

PLAIN_WIDTH = 140
out = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
err = Console(stderr=True)
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a script.")]


def emit(payload: Any) -> None:
    """Print JSON on standard output."""
    sys.stdout.write(json.dumps(payload, indent=2, default=str) + "\n")


def database_of(settings: Settings) -> Database:
    """The home's database, started if it is the embedded one, with its roles and databases."""
    from zeroth_assets.store.connect import open_database

    database = open_database(settings.state_dir, settings.database_url, settings.pg_bin)
    database.ensure_databases()
    return database
