from __future__ import annotations

import io

from rich.console import Console

from zeroth_assets.defs.console import PlainProgress
from zeroth_assets.defs.progress import LOG_INTERVAL_SECONDS


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_without_a_terminal_a_long_run_says_where_it_is_once_per_interval() -> None:
    clock, printed = Clock(), io.StringIO()
    lines = PlainProgress(Console(file=printed, width=20), clock)
    lines.started("rfc-tls", ("a", "b"), 2, 11)
    lines.step("embeddings_fixed_512 rfc-tls", 1, 240)
    assert printed.getvalue() == ""

    clock.now = LOG_INTERVAL_SECONDS
    lines.step("embeddings_fixed_512 rfc-tls", 96, 240)
    lines.step("embeddings_fixed_512 rfc-tls", 97, 240)
    assert printed.getvalue() == "   run 2 of 11: embeddings_fixed_512 rfc-tls, 96 of 240\n"


def test_a_run_gets_its_own_while_before_it_is_told_of() -> None:
    clock, printed = Clock(), io.StringIO()
    lines = PlainProgress(Console(file=printed), clock)
    clock.now = LOG_INTERVAL_SECONDS
    lines.started("rfc-tls", ("a",), 1, 1)
    lines.step("a", 1, 2)
    assert printed.getvalue() == ""
