"""All documents of the sample, as bytes with the records that the manifest lists.

What belongs here: which documents there are, their ids, dates, links and licences.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.sample import filing_html, filing_text
from zeroth_assets.sample.chooser import Chooser
from zeroth_assets.sample.contracts import Contract, as_paragraphs, read_contracts, reformat, write_contract
from zeroth_assets.sample.filing_html import Cover
from zeroth_assets.sample.filing_items import amendment, annual_report_exhibit, full_report, old_report
from zeroth_assets.sample.filing_sheet import Part, read_company
from zeroth_assets.sample.rfc_layout import Node, RfcSheet, render
from zeroth_assets.sample.rfc_prose import Prose
from zeroth_assets.sample.rfc_sheet import Sheet, read_sheet
from zeroth_assets.sample.special import BOM, broken_rfc, hostile_rfc, lantern_rfc

LICENCE = "CC0-1.0 (fictional; written for this project, no real document, party or protocol)"
HARBOUR, ORCHARD, LANTERN = "Harbour Telemetry", "Orchard Naming", "Lantern Signalling"
HARBOUR_NUMBERS = tuple(range(90001, 90013))
HARBOUR_VOLUME = 1.15
EMBEDDED = "Tidewrack-Umberfield Kelp Process License Agreement"
COPIED = "Hollin-Pardoe Clockspring Patent License Agreement"
_MONTHS = "January February March April May June July August September October November December".split()  # noqa: SIM905


@dataclass(frozen=True, slots=True)
class SampleDocument:
    """A document: its record, and its bytes."""

    record: ManifestRecord
    raw: bytes


def all_documents() -> tuple[SampleDocument, ...]:
    """Every document, in the manifest's order."""
    return (*_rfcs(), *_contracts(), *_filings())


def _rfcs() -> Iterator[SampleDocument]:
    for number in HARBOUR_NUMBERS:
        yield _rfc(read_sheet(number), HARBOUR, HARBOUR_VOLUME)
    first = read_sheet(90101)
    yield _rfc(first, ORCHARD, 0.55, obsoleted_by=("rfc:90104",))
    yield _successor(first)
    yield _rfc(read_sheet(90105), ORCHARD, 0.55)
    yield _document(
        "rfc", "90109", "Labels from Many Scripts: A Collection of Awkward Cases", hostile_rfc(), "rfc/rfc90109.txt",
        tenant_attribute=ORCHARD, date="2014-05", status="INFORMATIONAL",
    )  # fmt: skip
    yield _document(
        "rfc", "90110", "Labels in no Encoding: Octets that Mean Nothing", broken_rfc(), "rfc/rfc90110.txt",
        tenant_attribute=ORCHARD, date="2014-06", status="INFORMATIONAL",
    )  # fmt: skip
    yield _document(
        "rfc", "90201", "Three Lanterns: A Signal for Closed Bridges", lantern_rfc(), "rfc/rfc90201.txt",
        tenant_attribute=LANTERN, date="2020-02", status="INFORMATIONAL",
    )  # fmt: skip


def _successor(first: Sheet) -> SampleDocument:
    timers = {"QUERY_WAIT": "900 milliseconds", "SCION_LIFETIME": "12 hours"}
    second = dataclasses.replace(
        first,
        number=90104,
        title="Graft Name Resolution (GNR), Version 2",
        date="April 2017",
        timers=tuple((name, timers.get(name, value), purpose) for name, value, purpose in first.timers),
        intro=tuple(p.replace("at most four, a limit chosen because nobody has ever seen five",
                              "at most six; RFC 90101 said four, until an orchard with five was found")
                    for p in first.intro),
    )  # fmt: skip
    changes = (
        (
            "The lifetime of a scion answer was reduced from 36 hours to 12 hours, since buyers were still offered "
            "last year's fruit on the second day after a regraft."
        ),
        (
            "The number of grafts that a resolver follows was raised from four to six. The orchard at Longmeadow has a "
            "tree with five, planted before the limit was known."
        ),
        "The wait for one server was shortened from 1200 to 900 milliseconds. Nothing else was changed.",
    )
    return _rfc(second, ORCHARD, 0.55, seed="rfc 90101", changes=changes, obsoletes=("rfc:90101",))


def _rfc(
    sheet: Sheet,
    group: str,
    volume: float,
    *,
    seed: str = "",
    changes: tuple[str, ...] = (),
    obsoletes: tuple[str, ...] = (),
    obsoleted_by: tuple[str, ...] = (),
) -> SampleDocument:
    obsoleted = obsoletes[0].removeprefix("rfc:") if obsoletes else ""
    body = Prose(sheet, seed or f"rfc {sheet.number}", volume).write(changes, int(obsoleted) if obsoleted else None)
    text = render(
        RfcSheet(
            number=sheet.number,
            title=sheet.title,
            short=sheet.short,
            date=sheet.date,
            category=sheet.category,
            authors=sheet.authors,
            new_style=sheet.new_style,
            front=tuple(_front(sheet)),
            body=body,
            obsoletes=obsoleted,
            group=f"{group} Working Group",
        )
    )
    raw = (BOM if sheet.new_style else b"") + text.encode("utf-8")
    month, year = sheet.date.split()
    return _document(
        "rfc", str(sheet.number), sheet.title, raw, f"rfc/rfc{sheet.number}.txt", tenant_attribute=group,
        date=f"{year}-{_MONTHS.index(month) + 1:02d}", status=sheet.category.upper(),
        obsoletes=obsoletes, obsoleted_by=obsoleted_by,
    )  # fmt: skip


def _front(sheet: Sheet) -> Iterator[Node]:
    yield Node("heading", "Abstract", 1)
    for paragraph in sheet.abstract:
        yield Node("text", paragraph)
    yield Node("heading", "Status of This Memo", 1)
    yield Node(
        "text",
        f"This memo is fiction. It was written as sample data in the form of an RFC, its number lies outside the range "
        f"that is in use, and nobody has reviewed, approved or deployed {sheet.abbrev}.",
    )
    yield Node("heading", "Copyright Notice", 1)
    yield Node(
        "text", "To the extent possible under law its authors have waived all rights to this document (CC0 1.0)."
    )


@functools.cache
def _contract_texts() -> tuple[tuple[Contract, str], ...]:
    variants = Chooser("clause variants")
    return tuple((c, write_contract(c, index % 3, variants)) for index, c in enumerate(read_contracts()))


def _contracts() -> Iterator[SampleDocument]:
    for contract, text in _contract_texts():
        yield _contract(contract, contract.name, text.encode("utf-8"))
        if contract.name == COPIED:
            copy = f"{contract.name} (reformatted copy)"
            yield _contract(contract, copy, reformat(text).encode("utf-8"))


def _contract(contract: Contract, name: str, raw: bytes) -> SampleDocument:
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    month, day, year = contract.date.replace(",", "").split()
    return _document(
        "cuad", slug, name, raw, f"contracts/{slug}.txt", identifier=name, tenant_attribute=contract.kind,
        date=f"{year}-{_MONTHS.index(month) + 1:02d}-{int(day):02d}",
    )  # fmt: skip


def _filings() -> Iterator[SampleDocument]:
    quill, tide, ferry = (read_company(name) for name in ("quillfeather", "tidewrack", "brackenridge"))
    for year, filed in ((2021, "2021-12-03"), (2022, "2022-12-02")):
        cover = Cover(quill, year, "10-K", filed, f"9900417001-{year % 100}-000011")
        yield _filing(cover, filing_html.render(cover, full_report(quill, year, 26)), f"{year}-09-30")
    cover = Cover(quill, 2022, "10-K/A", "2023-01-20", "9900417001-23-000002")
    yield _filing(cover, filing_html.render(cover, amendment(quill, 2022)), "2022-09-30")
    cover = Cover(tide, 2018, "10-K", "2019-03-15", "9900835001-19-000005")
    yield _filing(cover, filing_html.render(cover, full_report(tide, 2018, 28)), "2018-12-31")
    cover = Cover(tide, 2019, "10-K", "2020-03-13", "9900835001-20-000007")
    embedded = next(text for contract, text in _contract_texts() if contract.name == EMBEDDED)
    page = filing_html.render(cover, full_report(tide, 2019, 28), as_paragraphs(embedded), "EXHIBIT 10.1")
    yield _filing(cover, page, "2019-12-31")
    for year, filed in ((1995, "1996-03-22"), (1996, "1997-03-21")):
        cover = Cover(ferry, year, "10-K", filed, f"9900062001-{filed[2:4]}-000004")
        exhibits = (
            ("EX-13", "ANNUAL REPORT TO SHAREHOLDERS", annual_report_exhibit(ferry, year)),
            ("EX-21", "SUBSIDIARIES", (Part("", "Heron Spit Terminal Company and Narrows Soup Kitchen, Inc."),)),
        )
        yield _filing(cover, filing_text.render(cover, old_report(ferry, year), exhibits), f"{year}-12-31")


def _filing(cover: Cover, text: str, period: str) -> SampleDocument:
    h = cover.company.head
    form = cover.form.lower().replace("/", "-")
    markup = text.startswith("<?xml")
    path = f"sec/{h['ticker']}/{h['ticker']}_{form}_{period}.{'htm' if markup else 'txt'}"
    return _document(
        "sec", f"{int(h['cik'])}:{form}:{period}", f"{h['co']} {cover.form} for the year ended {cover.period}",
        text.encode("utf-8"), path, identifier=cover.accession, media_type="text/html" if markup else "text/plain",
        tenant_attribute=h["ticker"], tenant_attribute_label=h["co"], form=cover.form, accession=cover.accession,
        period_end=period, date=cover.filed,
    )  # fmt: skip


def _document(
    source: str,
    name: str,
    title: str,
    raw: bytes,
    path: str,
    *,
    tenant_attribute: str,
    identifier: str = "",
    media_type: str = "text/plain",
    date: str | None = None,
    status: str | None = None,
    tenant_attribute_label: str | None = None,
    form: str | None = None,
    accession: str | None = None,
    period_end: str | None = None,
    obsoletes: tuple[str, ...] = (),
    obsoleted_by: tuple[str, ...] = (),
) -> SampleDocument:
    record = ManifestRecord(
        document_id=f"{source}:{name}", source=source, identifier=identifier or name, title=title,
        sha256=hashlib.sha256(raw).hexdigest(), bytes=len(raw), media_type=media_type, licence=LICENCE,
        tenant_attribute=tenant_attribute, tenant_attribute_label=tenant_attribute_label, mirror_path=path, date=date,
        status=status, form=form, accession=accession, period_end=period_end, obsoletes=obsoletes,
        obsoleted_by=obsoleted_by,
    )  # fmt: skip
    return SampleDocument(record, raw)
