"""What the tests of the store share: scripts run by another process, and waiting for a condition."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import zeroth_assets

START = "from zeroth_assets.store import server\nprint(server.start(home).pid)"


def python_script(script: str, home: Path) -> list[str]:
    """A command that runs `script` with this interpreter and this package, `home` being defined."""
    root = str(Path(zeroth_assets.__file__).parent.parent)
    preamble = f"import sys; sys.path.insert(0, {root!r})\nfrom pathlib import Path\nhome = Path({str(home)!r})\n"
    return [sys.executable, "-c", preamble + script]


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Come back as soon as `condition` holds; fail if it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come about in time"
        time.sleep(0.001)
