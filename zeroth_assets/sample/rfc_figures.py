"""The figures of an RFC: bit diagrams, a state machine, tables and a trace, in ASCII.

What belongs here: functions from a sheet to lines of at most 69 columns.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from zeroth_assets.sample.chooser import Chooser
from zeroth_assets.sample.rfc_sheet import Sheet

_RULER = "+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+"


def bit_diagram(kind: int, fields: Sequence[tuple[str, int, str]]) -> str:
    """The usual picture of a message, thirty-two bits a row."""
    rows = [
        " 0                   1                   2                   3",
        " 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1",
        _RULER,
        f"|  Version = 1  |{f'Type = {kind}'.center(15)}|{'Length'.center(31)}|",
        _RULER,
        f"|{'Check Value'.center(63)}|",
        _RULER,
    ]
    used, row = 0, "|"
    for name, bits, _ in sorted(fields, key=lambda f: -f[1]):
        if bits >= 32:
            rows += [f"|{name.center(63)}|", _RULER]
            if bits == 64:
                rows[-1:] = ["+" + " " * 63 + "+", f"|{' ' * 63}|", _RULER]
            continue
        row += name[: 2 * bits - 1].center(2 * bits - 1) + "|"
        used += bits
        if used == 32:
            rows += [row, _RULER]
            used, row = 0, "|"
    if used:
        row += "Reserved".center(2 * (32 - used) - 1) + "|"
        rows += [row, _RULER]
    return "\n".join(rows)


def state_figure(names: Sequence[str], messages: Sequence[str]) -> str:
    """Four states in a row, with the messages that lead from one to the next."""
    width = max(len(n) for n in names) + 2
    top = "+" + "-" * width + "+"
    boxes = "    ".join(top for _ in names)
    middle = "--->".join(f"|{n.center(width)}|" for n in names)
    back = f"    ^{' ' * (len(boxes) - 10)}|"
    floor = f"    +{'-' * (len(boxes) - 10)}+"
    legend = [f"  {a} -> {b}: {m}" for a, b, m in zip(names, names[1:], messages, strict=False)]
    return "\n".join([boxes, middle, boxes, back, floor, "", *legend, f"  {names[3]} -> {names[0]}: timer or person"])


def message_table(sheet: Sheet) -> str:
    """Types and names of all messages."""
    rows = ["Type  Message            From", "----  -----------------  ------------------------"]
    for index, (name, _) in enumerate(sheet.messages):
        rows.append(f"{index + 1:>4}  {name:<17}  {sheet.roles[index % len(sheet.roles)]}")
    return "\n".join(rows)


def timer_table(sheet: Sheet) -> str:
    """Names and defaults of all timers."""
    rows = ["+-------------------+----------------------+", "| Timer             | Default              |"]
    rows.append(rows[0])
    rows += [f"| {name:<17} | {value:<20} |" for name, value, _ in sheet.timers]
    return "\n".join([*rows, rows[0]])


def error_table(sheet: Sheet) -> str:
    """Codes, names and causes of all errors."""
    rows = ["Code  Error               Cause", "----  ------------------  ---------------------------------------"]
    for index, (name, condition) in enumerate(sheet.errors):
        first, *rest = textwrap.wrap(condition, 38)
        rows.append(f"{17 + 3 * index:>4}  {name:<18}  {first}")
        rows += [" " * 26 + line for line in rest]
    return "\n".join(rows)


def trace(sheet: Sheet, chooser: Chooser) -> str:
    """A recorded exchange with invented numbers, one line a message."""
    rows = [f"time/s    from {'':<13} message            detail"]
    at = chooser.between(3, 40) * 100
    for index in range(11):
        name, _ = sheet.messages[index % len(sheet.messages)] if index % 3 else chooser.pick(sheet.messages)
        field, bits, _ = chooser.pick(sheet.fields)
        value = chooser.below(2 ** min(bits, 15))
        role = sheet.roles[index % 2]
        rows.append(f"{at / 1000:8.3f}  {role:<18} {name:<17}  {field[:14].lower()}={value}")
        at += chooser.between(40, 9000)
    return "\n".join(rows)
