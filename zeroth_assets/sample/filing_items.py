"""The Items of a fictional annual report, in order.

What belongs here: which Items a report of its time has, and the tables of its statements.
"""

from __future__ import annotations

from zeroth_assets.sample.filing_sheet import (
    NOTES,
    Accounts,
    Company,
    Item,
    Part,
    Table,
    accounts,
    context,
    item,
    parts,
    plain,
    risks,
    segment_parts,
    tenths,
)

TITLES = {
    "1": "Business", "1A": "Risk Factors", "1B": "Unresolved Staff Comments", "2": "Properties",
    "3": "Legal Proceedings", "4": "Mine Safety Disclosures",
    "5": "Market for Registrant's Common Equity, Related Stockholder Matters and Issuer Purchases of Equity "
    "Securities",
    "6": "[Reserved]",
    "7": "Management's Discussion and Analysis of Financial Condition and Results of Operations",
    "7A": "Quantitative and Qualitative Disclosures About Market Risk",
    "8": "Financial Statements and Supplementary Data",
    "9": "Changes in and Disagreements With Accountants on Accounting and Financial Disclosure",
    "9A": "Controls and Procedures", "9B": "Other Information",
    "10": "Directors, Executive Officers and Corporate Governance", "11": "Executive Compensation",
    "12": "Security Ownership of Certain Beneficial Owners and Management and Related Stockholder Matters",
    "13": "Certain Relationships and Related Transactions, and Director Independence",
    "14": "Principal Accountant Fees and Services", "15": "Exhibits and Financial Statement Schedules",
    "16": "Form 10-K Summary",
}  # fmt: skip
PARTS = {"1": "PART I", "5": "PART II", "10": "PART III", "15": "PART IV"}


def full_report(company: Company, year: int, risk_count: int) -> tuple[Item, ...]:
    """Items 1 to 16 of a present-day report."""
    unique = plain(company.body[f"unique{year}"], company, year)
    content: dict[str, tuple[Part | Table, ...]] = {
        "1": parts({"business": _paragraphs(company, "business")}, "business", company, year),
        "1A": risks(company, year, risk_count),
        "2": plain(company.body["properties"], company, year),
        "3": plain(company.body["legal"], company, year),
        "7": discussion(company, year, unique),
        "7A": plain(NOTES["market"][0], company, year),
        "8": statements(company, year),
        "9A": plain(NOTES["controls"][0], company, year),
    }
    return tuple(
        Item(number, title, content.get(number) or ((Part("", ""),) if number == "6" else item(company, year, number)))
        for number, title in TITLES.items()
    )


def discussion(company: Company, year: int, unique: tuple[Part, ...]) -> tuple[Part | Table, ...]:
    """Item 7: the year in words, what was unlike other years, and the usual sections."""
    opening = plain(company.body["mdna"], company, year)
    return (
        *opening,
        *unique,
        segment_table(company, year),
        *segment_parts(company, year),
        *parts(NOTES, "mdna", company, year),
    )


def statements(company: Company, year: int) -> tuple[Part | Table, ...]:
    """Item 8: the auditor's word, two statements and the notes."""
    h = context(company, year)
    report = (
        f"To the shareholders and the board of directors: We have audited the consolidated balance sheets of "
        f"{h['short']} as of {h['period']} and of the year before, and the statements of income. In our opinion they "
        f"present fairly, in all material respects, the financial position of the company. The report is signed by "
        f"{h['auditor']}."
    )
    numbered = tuple(
        Part(f"Note {number}. {part.title}", part.text)
        for number, part in enumerate(parts(NOTES, "notes", company, year), 1)
    )
    return (
        Part("Report of Independent Registered Public Accounting Firm", report),
        income_table(company, year),
        balance_table(company, year),
        *numbered,
        quarter_table(company, year),
    )


def income_table(company: Company, year: int) -> Table:
    """Consolidated statements of income of three years."""
    years = [accounts(company, year - back) for back in range(3)]
    return Table(
        "Consolidated Statements of Income (in millions)",
        ("Fiscal year", *(str(y.year) for y in years)),
        (
            _row("Net sales", years, "sales"),
            _row("Cost of sales", years, "cost"),
            _row("Gross profit", years, "gross"),
            _row("Selling, general and administrative", years, "sga"),
            _row("Research and development", years, "research"),
            _row("Operating income", years, "operating"),
            _row("Provision for income taxes", years, "tax"),
            _row("Net income", years, "net"),
        ),
    )


def balance_table(company: Company, year: int) -> Table:
    """Consolidated balance sheets of two years; both sides are equal."""
    rows: dict[str, list[str]] = {}
    for y in (accounts(company, year), accounts(company, year - 1)):
        receivables, stock, plant = y.sales * 13 // 100, y.sales * 19 // 100, y.sales * 41 // 100
        payables = y.sales * 9 // 100
        total = y.cash + receivables + stock + plant
        for name, value in (
            ("Cash and cash equivalents", y.cash), ("Receivables", receivables), ("Inventories", stock),
            ("Property, plant and equipment", plant), ("Total assets", total), ("Accounts payable", payables),
            ("Long-term debt", y.debt), ("Shareholders' equity", total - payables - y.debt),
            ("Total liabilities and equity", total),
        ):  # fmt: skip
            rows.setdefault(name, []).append(tenths(value))
    return Table(
        "Consolidated Balance Sheets (in millions)",
        ("As of fiscal year end", str(year), str(year - 1)),
        tuple((name, *values) for name, values in rows.items()),
    )


def segment_table(company: Company, year: int) -> Table:
    """Net sales by segment of three years."""
    years = [accounts(company, year - back) for back in range(3)]
    rows = [(name, *(tenths(y.segments[index]) for y in years)) for index, name in enumerate(company.segments)]
    rows.append(_row("Net sales", years, "sales"))
    return Table("Net sales by segment (in millions)", ("Segment", *(str(y.year) for y in years)), tuple(rows))


def quarter_table(company: Company, year: int) -> Table:
    """Unaudited quarters that add up to the year."""
    now = accounts(company, year)
    shares = (21, 24, 23)
    sales = [now.sales * s // 100 for s in shares]
    gross = [now.gross * s // 100 for s in shares]
    rows = [
        ("Net sales", *(tenths(v) for v in [*sales, now.sales - sum(sales)])),
        ("Gross profit", *(tenths(v) for v in [*gross, now.gross - sum(gross)])),
    ]
    heads = ("Quarter", "First", "Second", "Third", "Fourth")
    return Table("Quarterly Results (unaudited, in millions)", heads, tuple(rows))


def _row(name: str, years: list[Accounts], field: str) -> tuple[str, ...]:
    return (name, *(tenths(getattr(y, field)) for y in years))


def _paragraphs(company: Company, name: str) -> tuple[str, ...]:
    return tuple(" ".join(p.split()) for p in company.body[name].split("\n\n"))


_OLD_TITLES = {
    "1": "Business", "2": "Properties", "3": "Legal Proceedings",
    "4": "Submission of Matters to a Vote of Security Holders",
    "5": "Market for the Registrant's Common Equity and Related Stockholder Matters", "6": "Selected Financial Data",
    "7": "Management's Discussion and Analysis of Financial Condition and Results of Operations",
    "8": "Financial Statements and Supplementary Data",
    "9": "Changes in and Disagreements with Accountants on Accounting and Financial Disclosure",
    "10": "Directors and Executive Officers of the Registrant", "11": "Executive Compensation",
    "12": "Security Ownership of Certain Beneficial Owners and Management",
    "13": "Certain Relationships and Related Transactions",
    "14": "Exhibits, Financial Statement Schedules, and Reports on Form 8-K",
}  # fmt: skip


def old_report(company: Company, year: int) -> tuple[Item, ...]:
    """Items 1 to 14 of a report of the 1990s, whose Items 7 and 8 point to an exhibit."""
    pointer = (
        "The information required by this Item is set forth under the caption {caption} in the Annual Report to "
        "Shareholders, filed as Exhibit 13 hereto, and is incorporated herein by reference."
    )
    content: dict[str, tuple[Part | Table, ...]] = {
        "1": parts({"business": _paragraphs(company, "business")}, "business", company, year),
        "2": plain(company.body["properties"], company, year),
        "3": plain(company.body["legal"], company, year),
        "4": (Part("", "No matter was submitted to a vote in the fourth quarter."),),
        "6": (Part("", pointer.format(caption='"Five Years in Figures"')),),
        "7": (Part("", pointer.format(caption='"Management\'s Discussion"')),),
        "8": (Part("", pointer.format(caption='"Consolidated Statements"')),),
        "14": (
            Part("", "The exhibits filed with this report are Exhibit 13 and Exhibit 21."),
            segment_table(company, year),
        ),
    }
    return tuple(Item(n, title, content.get(n) or item(company, year, n)) for n, title in _OLD_TITLES.items())


def annual_report_exhibit(company: Company, year: int) -> tuple[Part | Table, ...]:
    """Exhibit 13 of such a report: discussion and statements."""
    unique = plain(company.body[f"unique{year}"], company, year)
    return (*discussion(company, year, unique), *statements(company, year))


def amendment(company: Company, year: int) -> tuple[Item, ...]:
    """A 10-K/A: an explanatory note in Item 1, Part III in full, and nothing else."""
    note = item(company, year, "amendment")
    content: dict[str, tuple[Part | Table, ...]] = {
        "1": tuple(Part("Explanatory Note", p.text) for p in note),
        "10": (*item(company, year, "10"), *item(company, year, "directors")),
    }
    return tuple(
        Item(n, TITLES[n], content.get(n) or item(company, year, n)) for n in ("1", "10", "11", "12", "13", "14", "15")
    )
