"""Fictional contracts: the sheet of each, the bank of clauses, and the text that they make.

What belongs here: which articles a contract has, how they are numbered and set, exhibits and signatures.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from zeroth_assets.sample.chooser import Chooser
from zeroth_assets.sample.drafting import drafting_style
from zeroth_assets.sample.patterns import BANK, fill, paragraphs, read_lines, read_paragraphs, read_sections

_CLAUSES = read_paragraphs(BANK / "contract_clauses.txt")
_TYPES = read_paragraphs(BANK / "contracts" / "types.txt")
_EXHIBITS = read_lines(BANK / "contracts" / "exhibits.txt")
_FALLBACKS = {
    "period": "week", "frac": "eighth", "arb": "one arbitrator", "court": "Court of Imaginary Commerce",
    "invoice": "the last day of each month", "escrow": "Strongbox Depository Co.",
    "minqty": "the quantity in Exhibit A", "input": "energy", "lead": "the principal", "mark": "the mark",
}  # fmt: skip
_SPELLINGS = (("icence", "icense"), ("ICENCE", "ICENSE"), ("efence", "efense"), ("colour", "color"), ("abour", "abor"))
_MONTHS = ("January", "March", "April", "May", "September", "November")
CLAUSE_WORDS = 45
_SMALL = frozenset({"The", "A", "In", "After", "Three", "Such"})
_ROMAN = ((10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))


@dataclass(frozen=True, slots=True)
class Contract:
    """One contract as a person described it."""

    name: str
    kind: str
    date: str
    slots: Mapping[str, str]
    recitals: tuple[str, ...]
    definitions: tuple[str, ...]
    special: tuple[str, ...]
    omitted: frozenset[str]


def read_contracts() -> tuple[Contract, ...]:
    """All contracts of the list, in its order."""
    _, body = read_sections(BANK / "contracts" / "list.txt")
    return tuple(_contract(name, text) for name, text in body.items())


def _contract(name: str, text: str) -> Contract:
    slots: dict[str, str] = {}
    repeated: dict[str, list[str]] = {"recital": [], "define": [], "special": []}
    for line in text.splitlines():
        key, _, value = line.partition(": ")
        if key in repeated:
            repeated[key].append(value)
        else:
            slots[key] = value
    return Contract(
        name=name,
        kind=slots["type"],
        date=slots["date"],
        slots=slots,
        recitals=tuple(repeated["recital"]),
        definitions=tuple(repeated["define"]),
        special=tuple(repeated["special"]),
        omitted=frozenset(part.strip() for part in slots["omit"].split(",")),
    )


def article_titles(contract: Contract) -> tuple[str, ...]:
    """The titles of all articles: definitions, those of the type, those of this contract, then the general ones."""
    own = tuple(article.partition(". ")[0] for article in _TYPES[contract.kind])
    general = tuple(title for title in _CLAUSES if title not in contract.omitted)
    return ("Definitions", *own, "Particular Terms", *general)


def write_contract(contract: Contract, style: int, variants: Chooser) -> str:
    """The contract as text.

    `style` 0 has articles in Roman numerals, 1 plain numbers, 2 sections with letters. `variants` deals the wordings of
    each clause, so that contracts written one after the other differ.
    """
    chooser = Chooser(f"contract {contract.name}")
    titles = article_titles(contract)
    slots = _FALLBACKS | dict(contract.slots)
    slots |= {
        "TermArt": _reference(titles.index("Termination for Cause") + 1, style),
        "WarArt": _reference(titles.index("Warranty") + 1, style),
        "loi": f"{chooser.pick(_MONTHS)} {chooser.between(1, 28)}, {int(contract.date[-4:]) - 1}",
    }
    drafted = drafting_style(Chooser(f"style {contract.name}"))
    parts = [_opening(contract, chooser)]
    for number, title in enumerate(titles, 1):
        if title == "Definitions":
            clauses = ["In this Agreement, words that are capitalized have these meanings."]
            clauses[0] += "".join(f"\n\n{definition}" for definition in contract.definitions)
        elif title == "Particular Terms":
            clauses = list(contract.special)
        else:
            text = next((a.partition(". ")[2] for a in _TYPES[contract.kind] if a.startswith(f"{title}. ")), None)
            if text is None:
                text = variants.deal(title, _CLAUSES[title])
            said = [c[:1].upper() + c[1:] for c in drafted(fill(text, chooser, slots)).split(" // ")]
            clauses = _grouped(said)
        parts.append(_article(number, title, clauses, style))
    parts += [_signatures(contract, style), _exhibit("A", contract, chooser, slots)]
    parts.append(_exhibit("B", contract, chooser, slots))
    text = "\n\n".join(parts) + "\n"
    return _american(text)


def _reference(number: int, style: int) -> str:
    return _roman(number) if style == 0 else str(number)


def _roman(number: int) -> str:
    text = ""
    for value, letters in _ROMAN:
        while number >= value:
            text, number = text + letters, number - value
    return text


def _opening(contract: Contract, chooser: Chooser) -> str:
    s = contract.slots
    title = f"{contract.kind} Agreement".upper()
    intro = (
        f'This {title} (this "Agreement") is made as of {contract.date} (the "Effective Date") between '
        f'{s["p1full"]} ("{s["p1"]}"), and {s["p2full"]} ("{s["p2"]}").'
    )
    territory = f'"Territory" means {s["terr"]}.'
    recitals = [f"WHEREAS, {_running(recital)}" for recital in contract.recitals]
    close = chooser.pick(
        (
            f"NOW, THEREFORE, in consideration of the promises below, the parties agree as follows. {territory}",
            f"The parties, intending to be legally bound, therefore agree as follows. {territory}",
        )
    )
    fiction = "This document is fiction, written as sample data. The parties do not exist."
    return "\n\n".join([contract.name.upper(), title, fiction, intro, "RECITALS", *recitals, close])


def _running(sentence: str) -> str:
    """A sentence as it goes on after a comma: articles and prepositions lose their capital, names keep it."""
    first = sentence.split(" ", 1)[0]
    return sentence[:1].lower() + sentence[1:] if first in _SMALL else sentence


def _grouped(sentences: list[str]) -> list[str]:
    """Sentences joined into clauses of some length: contracts do not number every sentence."""
    clauses = [sentences[0]]
    for sentence in sentences[1:]:
        if len(clauses[-1].split()) < CLAUSE_WORDS:
            clauses[-1] += f" {sentence}"
        else:
            clauses.append(sentence)
    return clauses


def _article(number: int, title: str, clauses: list[str], style: int) -> str:
    if style == 0:
        lines = [f"ARTICLE {_roman(number)}", title.upper()]
        lines += [f"{number}.{i} {clause}" for i, clause in enumerate(clauses, 1)]
    elif style == 1:
        lines = [f"{number}. {title.upper()}"]
        lines += [f"{number}.{i}. {clause}" for i, clause in enumerate(clauses, 1)]
    else:
        lines = [f"Section {number}. {title}."]
        letters = "abcdefghij"
        lines += [f"({letters[i]}) {clause}" for i, clause in enumerate(clauses)]
    if style == 1:
        pieces = [piece for line in lines for piece in line.split("\n\n")]
        wrapped = [textwrap.fill(line, 78, initial_indent="     " if i else "") for i, line in enumerate(pieces)]
        return "\n\n".join(wrapped)
    return "\n\n".join(lines)


def _signatures(contract: Contract, style: int) -> str:
    s = contract.slots
    rule = "_" * 28
    rows = ["IN WITNESS WHEREOF, the parties have signed this Agreement as of the Effective Date.", ""]
    for party, person, office in (
        (s["p1full"], "Ambrose Tallow", "President"),
        (s["p2full"], "Ottilie Crane", s["officer"].capitalize()),
    ):
        rows += [party.split(",")[0].upper(), "", f"By: {rule}", f"Name: {person}", f"Title: {office}", ""]
    return "\n".join(rows).rstrip()


def _exhibit(letter: str, contract: Contract, chooser: Chooser, slots: Mapping[str, str]) -> str:
    text = fill(_EXHIBITS[f"{contract.kind} {letter}"][0], chooser, slots)
    rows = []
    for line in _EXHIBITS[f"{contract.kind} {letter} rows"]:
        name, bounds, unit = (part.strip() for part in fill(line, chooser, slots).split("|"))
        low, high = (int(bound) for bound in bounds.split("-"))
        rows.append(f"{name:<42}{chooser.between(low, high):>10,}   {unit}")
    return "\n".join([f"EXHIBIT {letter}", "", text, "", *rows])


def _american(text: str) -> str:
    for british, american in _SPELLINGS:
        text = text.replace(british, american)
    return text


def reformat(text: str) -> str:
    """The same words in another coat: other case, white space, line breaks and spacing of punctuation.

    Normalised to lower-case words the copy equals the original, which is what a containment detector must see.
    """
    words = re.sub(r"\s+", " ", text).strip()
    words = re.sub(r"([,;:]) ", r" \1  ", words)
    shouted = [part.upper() if index % 3 == 0 else part for index, part in enumerate(words.split(". "))]
    lines = textwrap.wrap(" . ".join(shouted), 61, break_long_words=False, break_on_hyphens=False)
    return "\r\n".join(f"\t{line}" if index % 5 == 0 else line for index, line in enumerate(lines)) + "\r\n"


def as_paragraphs(text: str) -> tuple[str, ...]:
    """The contract's paragraphs, for a filing that holds it as an exhibit."""
    return paragraphs(text)
