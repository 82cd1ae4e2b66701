"""What the tests of acquisition share: made-up documents, their records, and options whose clocks do not wait."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zeroth_assets.corpus.acquisition import acquire
from zeroth_assets.corpus.dead_letters import DeadLetters
from zeroth_assets.corpus.http import FetchOptions, RetryPolicy
from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.corpus.raw import raw_path
from zeroth_assets.corpus.report import FetchReport

NOW = 1_790_000_000.0  # a day in September 2026


def text_of(number: int, lines: int = 60) -> bytes:
    """An invented memo, different for each number, that ends in a newline as memos do."""
    body = "\n".join(f"Memo {number}, line {line}: the receiver MUST answer within {line} ms." for line in range(lines))
    return f"Request for Comments: {number}\n\n{body}\n".encode()


def page_of(number: int) -> bytes:
    rows = "".join(f"<tr><td>Item {number}.{row}</td><td>{row * 17}</td></tr>" for row in range(60))
    return f"<html><head><title>form10k</title></head><body><table>{rows}</table></body></html>\n".encode()


def memo(number: int, payload: bytes | None = None, **changes: Any) -> ManifestRecord:
    """A record of the rfc source whose mirror path is `rfc/rfc<number>.txt`."""
    payload = text_of(number) if payload is None else payload
    record = ManifestRecord(
        document_id=f"rfc:{number}",
        source="rfc",
        identifier=str(number),
        title=f"Memo {number}",
        sha256=hashlib.sha256(payload).hexdigest(),
        bytes=len(payload),
        media_type="text/plain",
        licence="made for tests",
        tenant_attribute="Tests",
        mirror_path=f"rfc/rfc{number}.txt",
    )
    return dataclasses.replace(record, **changes)


def filing(number: int, payload: bytes | None = None, **changes: Any) -> ManifestRecord:
    """A record of the sec source, HTML, whose mirror path is `sec/<number>.htm`."""
    payload = page_of(number) if payload is None else payload
    given: dict[str, Any] = {
        "document_id": f"sec:{number}:10-k:2020-12-31",
        "source": "sec",
        "media_type": "text/html",
        "mirror_path": f"sec/{number}.htm",
        **changes,
    }
    return memo(number, payload, **given)


@dataclass
class FakeTime:
    """A clock that only sleeping moves; `now` and `clock` move together."""

    elapsed: float = 0.0
    slept: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.elapsed

    def now(self) -> float:
        return NOW + self.elapsed

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.elapsed += seconds


@dataclass
class Home:
    """A home in a temporary folder, fetching from a mirror with a time of its own."""

    folder: Path
    mirror: str | None
    time: FakeTime = field(default_factory=FakeTime)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def raw_dir(self) -> Path:
        return self.folder / "raw"

    @property
    def table(self) -> DeadLetters:
        return DeadLetters(self.folder)

    def fetch_options(self, **changes: Any) -> FetchOptions:
        given: dict[str, Any] = {
            "pacing_dir": self.folder / "pacing",
            "clock": self.time.clock,
            "now": self.time.now,
            "sleep": self.time.sleep,
            "retries": RetryPolicy(attempts=3),
            "timeout": 5.0,
            "seed": 1,
        }
        return FetchOptions(**(given | self.options | changes))

    def acquire(self, *records: ManifestRecord, **changes: Any) -> FetchReport:
        options = self.fetch_options(**changes.pop("options", {}))
        given: dict[str, Any] = {
            "raw_dir": self.raw_dir,
            "mirror": self.mirror,
            "options": options,
            "workers": 1,
            **changes,
        }
        return acquire(records, **given)

    def has(self, record: ManifestRecord) -> bool:
        """Whether the record's bytes are on disk under their final name."""
        path = raw_path(self.raw_dir, record)
        return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == record.sha256

    def files(self) -> list[str]:
        """All files under the raw folder, by name."""
        return sorted(p.name for p in self.raw_dir.rglob("*") if p.is_file())


def row(report: FetchReport, record: ManifestRecord) -> dict[str, Any]:
    """A document's line of a report."""
    for found in report.documents.iter_rows(named=True):
        if (found["document_id"], found["version"]) == (record.document_id, record.sha256):
            return found
    raise AssertionError(f"{record.document_id} is not in the report")
