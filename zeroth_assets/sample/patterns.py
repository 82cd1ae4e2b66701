"""Sentence patterns: reading the bank, and filling `{slots}` and `[this|that]` choices.

What belongs here: the small language that the files of `bank/` are written in. `{name}` is a value of the context,
`{Name}` the same with a capital, `{n:2-9}` a number, `{m:2-9}` one with thousands separators; `[a|b]` picks one side
and may be nested. Brackets without a bar are left alone, since RFCs cite with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from zeroth_assets.sample.chooser import Chooser

BANK = Path(__file__).parent / "bank"
_CHOICE = re.compile(r"\[([^\[\]]*\|[^\[\]]*)\]")
_SLOT = re.compile(r"\{([A-Za-z_0-9]+)(?::(\d+)-(\d+))?\}")

Bank = Mapping[str, tuple[str, ...]]


def read_sections(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The `key: value` lines above the first `== name`, and the text below each `== name`."""
    head: dict[str, str] = {}
    body: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            lines = body.setdefault(line[3:].strip(), [])
        elif lines is not None:
            lines.append(line)
        elif ":" in line and not line.startswith("#"):
            key, _, value = line.partition(":")
            head[key.strip()] = value.strip()
    return head, {name: "\n".join(content).strip() for name, content in body.items()}


def read_lines(path: Path) -> Bank:
    """A bank with one pattern per line."""
    _, body = read_sections(path)
    return {name: tuple(line for line in text.splitlines() if line.strip()) for name, text in body.items()}


def read_paragraphs(path: Path) -> Bank:
    """A bank with one pattern per paragraph."""
    _, body = read_sections(path)
    return {name: paragraphs(text) for name, text in body.items()}


def paragraphs(text: str) -> tuple[str, ...]:
    """The paragraphs of a text, each on one line."""
    return tuple(" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip())


def fill(pattern: str, chooser: Chooser, context: Mapping[str, str]) -> str:
    """The text that a pattern gives in a context. An unknown slot is a `KeyError` that names it."""
    while choice := _CHOICE.search(pattern):
        side = chooser.pick(choice[1].split("|"))
        pattern = pattern[: choice.start()] + side + pattern[choice.end() :]
    return _SLOT.sub(lambda slot: _value(slot, chooser, context), pattern)


def _value(slot: re.Match[str], chooser: Chooser, context: Mapping[str, str]) -> str:
    name = slot[1]
    if slot[2] is not None:
        number = chooser.between(int(slot[2]), int(slot[3]))
        return f"{number:,}" if name == "m" else str(number)
    if name in context:
        return context[name]
    lowered = name[0].lower() + name[1:]
    value = context[lowered]
    return value[:1].upper() + value[1:]
