"""Fictional annual reports: accounts that add up, and the Items that a company's sheet and the bank give.

What belongs here: what a report says. How it is set, as HTML or as the text of the 1990s, is for `filing_html` and
`filing_text`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zeroth_assets.sample.chooser import Chooser
from zeroth_assets.sample.patterns import BANK, Bank, fill, paragraphs, read_lines, read_paragraphs, read_sections

ITEMS = read_paragraphs(BANK / "filings" / "items.txt")
NOTES = read_paragraphs(BANK / "filings" / "notes.txt")
RISKS = read_paragraphs(BANK / "filings" / "risks.txt")["risks"]
FOLLOW_UPS = read_lines(BANK / "filings" / "risks.txt")["followups"]
_WORDS = read_lines(BANK / "filings" / "notes.txt")


@dataclass(frozen=True, slots=True)
class Part:
    """A titled paragraph of an Item; the title may be empty."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table of figures: a caption, column heads and rows of cells."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Item:
    """One Item: its number, its title and what it holds, in order."""

    number: str
    title: str
    content: tuple[Part | Table, ...]


@dataclass(frozen=True, slots=True)
class Company:
    """The sheet of one company."""

    head: Mapping[str, str]
    body: Mapping[str, str]

    @property
    def segments(self) -> tuple[str, ...]:
        """Names of the three segments."""
        return tuple(part.strip() for part in self.head["segments"].split("|"))


@dataclass(frozen=True, slots=True)
class Accounts:
    """One year's figures in tenths of a million dollars."""

    year: int
    segments: tuple[int, ...]
    cost: int
    sga: int
    research: int
    tax: int
    cash: int
    debt: int

    @property
    def sales(self) -> int:
        """Net sales."""
        return sum(self.segments)

    @property
    def gross(self) -> int:
        """Gross profit."""
        return self.sales - self.cost

    @property
    def operating(self) -> int:
        """Operating income."""
        return self.gross - self.sga - self.research

    @property
    def net(self) -> int:
        """Net income."""
        return self.operating - self.tax


def read_company(name: str) -> Company:
    """A company's sheet."""
    return Company(*read_sections(BANK / "filings" / f"{name}.txt"))


def accounts(company: Company, year: int) -> Accounts:
    """The figures of a year. They depend on company and year alone, so two reports agree about a year they share."""
    base = Chooser(f"base {company.head['ticker']}")
    start = [base.between(450, 2400) for _ in company.segments]
    for past in range(1990, year + 1):
        drift = Chooser(f"drift {company.head['ticker']} {past}")
        start = [round(s * (1 + (drift.between(-30, 65)) / 1000)) for s in start]
    own = Chooser(f"accounts {company.head['ticker']} {year}")
    sales = sum(start)
    cost = sales * own.between(560, 640) // 1000
    sga = sales * own.between(170, 220) // 1000
    research = sales * own.between(20, 60) // 1000
    before_tax = sales - cost - sga - research
    return Accounts(
        year=year,
        segments=tuple(start),
        cost=cost,
        sga=sga,
        research=research,
        tax=before_tax * own.between(190, 260) // 1000,
        cash=own.between(180, 900),
        debt=own.between(300, 1200),
    )


def tenths(value: int) -> str:
    """Tenths of a million, as printed: 12345 is 1,234.5."""
    return f"{value // 10:,}.{value % 10}" if value >= 0 else f"({-value // 10:,}.{-value % 10})"


def context(company: Company, year: int) -> dict[str, str]:
    """All slots of a report."""
    now, before = accounts(company, year), accounts(company, year - 1)
    chooser = Chooser(f"context {company.head['ticker']} {year}")
    causes = chooser.shuffled(_WORDS["causes"])
    change = (now.sales - before.sales) * 1000 // before.sales
    values = dict(company.head) | {
        "year": str(year), "prevyear": str(year - 1), "period": f"{company.head['year_end']}, {year}",
        "rev": tenths(now.sales), "prevrev": tenths(before.sales), "pct": tenths(abs(change)),
        "direction": "an increase" if change >= 0 else "a decrease", "story": chooser.pick(_WORDS["stories"]),
        "gp": tenths(now.gross), "gm": tenths(now.gross * 1000 // now.sales),
        "pgm": tenths(before.gross * 1000 // before.sales), "sga": tenths(now.sga),
        "sgapct": tenths(now.sga * 1000 // now.sales), "rd": tenths(now.research), "oi": tenths(now.operating),
        "tax": tenths(now.tax * 1000 // max(1, now.operating)),
        "ptax": tenths(before.tax * 1000 // max(1, before.operating)), "cash": tenths(now.cash),
        "cfo2": tenths(now.net + now.sales // 25), "capex": tenths(now.sales // chooser.between(17, 28)),
        "div": tenths(now.net // 3), "dep": tenths(now.sales // 31), "cents": f"0.{chooser.between(11, 68)}",
        "wins": str(chooser.between(9, 31)), "tenders": str(chooser.between(34, 60)),
        "returns": str(chooser.between(4, 9)), "weeks": str(chooser.between(11, 30)),
        "turnover": str(chooser.between(3, 9)), "trial": f"{chooser.pick(('March', 'May', 'October'))} {year + 1}",
        "accrual": f"${chooser.between(1, 6)}.{chooser.between(1, 9)} million",
        "creditfor": chooser.pick(("research", "the training of apprentices", "a plant in a rural county")),
        "debt": tenths(now.debt), "season": chooser.pick(("first", "second", "fourth")), "employees2": "1,168",
    }  # fmt: skip
    for key in ("iodine", "second"):
        values[key] = values.get(f"{key}{year}", "")
    for index, name in enumerate(company.segments):
        values[f"s{index}"] = name
        values[f"r{index}"] = tenths(now.segments[index])
        values[f"q{index}"] = tenths(before.segments[index])
        values[f"cause{index}"] = causes[index]
    return values


def parts(texts: Bank | tuple[str, ...], name: str, company: Company, year: int) -> tuple[Part, ...]:
    """Paragraphs of a bank section as titled parts, filled for a company and a year."""
    chosen = texts if isinstance(texts, tuple) else texts[name]
    made = []
    for text in chosen:
        chooser = Chooser(f"{name} {company.head['ticker']} {year} {text[:40]}")
        filled = fill(text, chooser, context(company, year))
        title, _, rest = filled.partition(". ")
        made.append(Part(title, rest) if rest and len(title) < 95 and name != "plain" else Part("", filled))
    return tuple(made)


def plain(text: str, company: Company, year: int) -> tuple[Part, ...]:
    """Paragraphs without titles."""
    return tuple(
        Part("", fill(p, Chooser(f"plain {company.head['ticker']} {year} {p[:40]}"), context(company, year)))
        for p in paragraphs(text)
    )


def risks(company: Company, year: int, count: int) -> tuple[Part, ...]:
    """Risk factors. As in life, two years of one filer share nearly all of their words."""
    chooser = Chooser(f"risks {company.head['ticker']}")
    values = context(company, year)
    made = []
    for pattern in chooser.shuffled(RISKS)[:count]:
        title, _, body = fill(pattern, chooser, values).partition(". ")
        after = [fill(chooser.deal("followups", FOLLOW_UPS), chooser, values) for _ in range(chooser.between(2, 3))]
        made.append(Part(title, " ".join([body, *after])))
    return tuple(made)


def segment_parts(company: Company, year: int) -> tuple[Part, ...]:
    """What management says of each segment."""
    chooser = Chooser(f"segments {company.head['ticker']} {year}")
    made = []
    for name in company.segments:
        values = context(company, year) | {"seg": name}
        said = [_sentence(fill(chooser.deal(name, _WORDS["segment"]), chooser, values)) for _ in range(8)]
        made += [Part(name, " ".join(said[:4])), Part("", " ".join(said[4:]))]
    return tuple(made)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def item(company: Company, year: int, number: str) -> tuple[Part, ...]:
    """A short Item from the bank."""
    return plain("\n\n".join(ITEMS[number]), company, year)
