"""Make the published manifest from a mirror's SOURCES.json: `python -m zeroth_assets.corpus.manifest_build MIRROR OUT`.

What belongs here: how each source's document ids, dates and URLs are derived from what the mirror records. The result
is a function of SOURCES.json alone, so it can be made again and compared.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import urllib.parse
from pathlib import Path
from typing import Any

from zeroth_assets.corpus.manifest import ManifestRecord, write_manifest
from zeroth_assets.errors import ManifestError

CUAD_ARCHIVE_URL = "https://zenodo.org/records/4595826/files/CUAD_v1.zip"
CUAD_ARCHIVE_FOLDER = "CUAD_v1/full_contract_txt"
MAX_SLUG = 80
_MONTHS = (
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)
_CUAD_PUBLISHED = 2021


def slug_of(name: str) -> str:
    """A file-safe name: lower case, runs of anything but ASCII letters and digits become `-`.

    Names longer than `MAX_SLUG` keep their start and end in a hash of the whole, so that two long names that differ
    only at their end stay apart.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if len(slug) <= MAX_SLUG:
        return slug
    digest = hashlib.sha256(name.encode("utf-8")).hexdigest()[:8]
    return f"{slug[: MAX_SLUG - 9].rstrip('-')}-{digest}"


def sec_document_id(cik: str | None, filer: str, form: str, period_end: str) -> str:
    """`sec:<cik without leading zeros, or filer slug>:<form>:<period end>`; 10-K/A gives `10-k-a`."""
    return f"sec:{cik.lstrip('0') if cik else slug_of(filer)}:{slug_of(form)}:{period_end}"


def iso_date(printed: str | None) -> str | None:
    """The date as precisely as it can be read with certainty, or None.

    >>> iso_date("June 2020"), iso_date("6/21/99"), iso_date("03/[]/2018"), iso_date("[]/[]/2004")
    ('2020-06', '1999-06-21', '2018-03', '2004')
    >>> iso_date("[]/[]/20[]"), iso_date("2/30/10"), iso_date("1/1/35")
    (None, None, None)
    """
    text = (printed or "").strip()
    if match := re.fullmatch(r"([A-Z][a-z]+) (\d{4})", text):
        return f"{match[2]}-{_MONTHS.index(match[1]) + 1:02d}" if match[1] in _MONTHS else None
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return text
    # Month first, as the data set's README says; a blank in the contract is printed as [].
    match = re.fullmatch(r"(\d{1,2}|\[\])/(\d{1,2}|\[\])/(\d{4}|\d{2})", text)
    if match is None:
        return None
    month, day, year = (None if part == "[]" else int(part) for part in match.groups())
    if year is not None and year < 100:
        year = _full_year(year)
    if year is None or (month is not None and not 1 <= month <= 12):
        return None
    if month is None:
        return f"{year:04d}" if day is None else None
    if day is None:
        return f"{year:04d}-{month:02d}"
    return f"{year:04d}-{month:02d}-{day:02d}" if _is_day(year, month, day) else None


def build_records(sources: list[dict[str, Any]]) -> list[ManifestRecord]:
    """One record per document of SOURCES.json, checked to have unique ids.

    Raises:
        ManifestError: an unknown source, or two documents that get the same id.
    """
    makers = {"rfc": _rfc, "cuad": _cuad, "sec": _sec}
    records: dict[str, ManifestRecord] = {}
    for item in sources:
        if item["role"] != "document":
            continue
        if item["source"] not in makers:
            raise ManifestError(f"{item['path']} is of an unknown source", found=repr(item["source"]))
        record = makers[item["source"]](item)
        if record.document_id in records:
            raise ManifestError(
                f"Two documents get the id {record.document_id}",
                found=f"{records[record.document_id].mirror_path} and {record.mirror_path}",
                remedy="make the rule for the id tell them apart",
            )
        records[record.document_id] = record
    return list(records.values())


def _rfc(item: dict[str, Any]) -> ManifestRecord:
    number = item["identifier"]["rfc"]
    return ManifestRecord(
        document_id=f"rfc:{number}",
        identifier=str(number),
        date=iso_date(item["date"]),
        status=item["status"],
        tenant_attribute=item["tenant"]["wg"],
        obsoletes=_rfc_ids(item["obsoletes"]),
        obsoleted_by=_rfc_ids(item["obsoleted_by"]),
        updates=_rfc_ids(item["updates"]),
        updated_by=_rfc_ids(item["updated_by"]),
        **_location(item),
        **_common(item),
    )


def _cuad(item: dict[str, Any]) -> ManifestRecord:
    contract = item["identifier"]["contract"]
    return ManifestRecord(
        document_id=f"cuad:{slug_of(contract)}",
        identifier=contract,
        date=iso_date(item["date"]),
        tenant_attribute=item["tenant"]["contract_type"],
        archive_url=CUAD_ARCHIVE_URL,
        archive_member=f"{CUAD_ARCHIVE_FOLDER}/{Path(item['path']).name}",
        **_common(item),
    )


def _sec(item: dict[str, Any]) -> ManifestRecord:
    identifier, tenant = item["identifier"], item["tenant"]
    return ManifestRecord(
        document_id=sec_document_id(identifier["cik"], tenant["company"], item["form"], identifier["period_end"]),
        identifier=identifier["accession"] or f"{tenant['company']} {item['form']} {identifier['period_end']}",
        date=iso_date(item["date"]),
        tenant_attribute=tenant["company"],
        tenant_attribute_label=tenant["company_name"],
        form=item["form"],
        accession=identifier["accession"],
        period_end=identifier["period_end"],
        **_location(item),
        **_common(item),
    )


def _common(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "source": item["source"],
        "title": item["title"].strip(),
        "sha256": item["sha256"],
        "bytes": item["bytes"],
        "media_type": "text/html" if item["path"].endswith((".htm", ".html")) else "text/plain",
        "licence": item["licence"],
        "mirror_path": item["path"],
        "altered": item["altered"],
    }


def _location(item: dict[str, Any]) -> dict[str, Any]:
    if item["publisher_url"]:
        return {"url": item["publisher_url"], "url_kind": "publisher"}
    repository = item["repository"].removeprefix("https://github.com/")
    path = urllib.parse.quote(item["repository_path"])
    return {
        "url": f"https://raw.githubusercontent.com/{repository}/{item['repository_commit']}/{path}",
        "url_kind": "repository",
    }


def _rfc_ids(numbers: list[int]) -> tuple[str, ...]:
    return tuple(f"rfc:{n}" for n in sorted(set(numbers)))


def _full_year(year: int) -> int | None:
    """The century of a two-digit year: certain while a contract cannot be younger than the data set."""
    if year <= _CUAD_PUBLISHED - 2000:
        return 2000 + year
    return 1900 + year if year >= 50 else None


def _is_day(year: int, month: int, day: int) -> bool:
    lengths = (31, 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28, 31, 30, 31, 30)
    return 1 <= day <= (*lengths, 31, 31, 30, 31, 30, 31)[month - 1]


def main(arguments: list[str]) -> int:
    """Write the manifest; returns the process exit code."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m zeroth_assets.corpus.manifest_build MIRROR OUT\n")
        return 2
    sources = json.loads((Path(arguments[0]) / "SOURCES.json").read_text(encoding="utf-8"))
    manifest = write_manifest(build_records(sources), Path(arguments[1]))
    sys.stdout.write(f"{len(manifest)} records, sha256 {manifest.sha256}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
