"""The hand-written sheet of one RFC: its parties, messages, fields, timers, errors, hazards and threats.

What belongs here: reading `bank/rfc/*.txt` into a dataclass, and the context that sentence patterns are filled from.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from zeroth_assets.sample.chooser import Chooser
from zeroth_assets.sample.patterns import BANK, Bank, paragraphs, read_lines, read_sections

RFC_PATTERNS: Bank = read_lines(BANK / "rfc_patterns.txt")


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a person wrote about one protocol."""

    number: int
    title: str
    short: str
    abbrev: str
    date: str
    category: str
    authors: tuple[tuple[str, str], ...]
    roles: tuple[str, ...]
    unit: str
    subject: str
    new_style: bool
    abstract: tuple[str, ...]
    intro: tuple[str, ...]
    design_title: str
    design: tuple[str, ...]
    terms: tuple[str, ...]
    messages: tuple[tuple[str, str], ...]
    fields: tuple[tuple[str, int, str], ...]
    timers: tuple[tuple[str, str, str], ...]
    errors: tuple[tuple[str, str], ...]
    hazards: tuple[tuple[str, str], ...]
    threats: tuple[tuple[str, str], ...]
    example: str


def read_sheet(number: int) -> Sheet:
    """The sheet of one RFC."""
    return parse_sheet(number, BANK / "rfc" / f"{number}.txt")


def parse_sheet(number: int, path: Path) -> Sheet:
    """A sheet from its file."""
    head, body = read_sections(path)
    design_title, _, design = body["design"].partition("\n")
    return Sheet(
        number=number,
        title=head["title"],
        short=head["short"],
        abbrev=head["abbrev"],
        date=head["date"],
        category=head["category"],
        authors=tuple(_pair(part) for part in head["authors"].split(";")),
        roles=tuple(part.strip() for part in head["roles"].split("|")),
        unit=head["unit"],
        subject=head["subject"],
        new_style=head.get("style") == "new",
        abstract=paragraphs(body["abstract"]),
        intro=paragraphs(body["intro"]),
        design_title=design_title,
        design=paragraphs(design),
        terms=tuple(body["terms"].splitlines()),
        messages=tuple(_pair(line) for line in body["messages"].splitlines()),
        fields=tuple((a, int(b), c) for a, b, c in (_triple(line) for line in body["fields"].splitlines())),
        timers=tuple(_triple(line) for line in body["timers"].splitlines()),
        errors=tuple(_pair(line) for line in body["errors"].splitlines()),
        hazards=tuple(_pair(line) for line in body["hazards"].splitlines()),
        threats=tuple(_pair(line) for line in body["threats"].splitlines()),
        example=body["example"],
    )


def context(sheet: Sheet, chooser: Chooser, **fixed: str) -> dict[str, str]:
    """A fresh set of values for every slot; `fixed` ones stay as given and their rivals differ from them."""
    messages = [name for name, _ in sheet.messages if name != fixed.get("msg")]
    fields = [f"{name} field" for name, _, _ in sheet.fields if f"{name} field" != fixed.get("field")]
    timers = [name for name, _, _ in sheet.timers if name != fixed.get("timer")]
    errors = [name for name, _ in sheet.errors if name != fixed.get("error")]
    message, message2 = chooser.shuffled(messages)[:2]
    field, field2 = chooser.shuffled(fields)[:2]
    timer, timer2 = chooser.shuffled(timers)[:2]
    error, error2 = chooser.shuffled(errors)[:2]
    a, b, *rest = chooser.shuffled(sheet.roles)
    hazard = chooser.pick(sheet.hazards)[0]
    values = {
        "abbrev": sheet.abbrev, "unit": sheet.unit, "subject": sheet.subject, "a": a, "b": b,
        "c": rest[0] if rest else b, "msg": message, "msg2": message2, "field": field, "field2": field2,
        "timer": timer, "timer2": timer2, "error": error, "error2": error2, "hazard": hazard,
        "lowhazard": situation(hazard), "weather": chooser.pick(RFC_PATTERNS["weather"]),
        "cousin": chooser.pick(RFC_PATTERNS["cousin"]),
    }  # fmt: skip
    return values | fixed


def situation(hazard: str) -> str:
    """A hazard's title as a noun phrase that fits any sentence."""
    return f'the case of "{hazard[:1].lower()}{hazard[1:]}"'


def _pair(text: str) -> tuple[str, str]:
    left, _, right = text.partition("|")
    return left.strip(), right.strip()


def _triple(text: str) -> tuple[str, str, str]:
    first, second, third = (part.strip() for part in text.split("|"))
    return first, second, third
