"""What the commands share: where they print, and JSON for scripts.

What belongs here: consoles and the `--json` option. No command.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console

PLAIN_WIDTH = 140
out = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
err = Console(stderr=True)
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a script.")]


def emit(payload: Any) -> None:
    """Print JSON on standard output."""
    sys.stdout.write(json.dumps(payload, indent=2, default=str) + "\n")
