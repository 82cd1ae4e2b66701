"""The judge's journal: a line per call, on disk before the next call is made.

What belongs here: an append-only file of records that survives its writer. A line that a kill cut short is cut off at
the next start; any other damage is an error that names the line. One process writes at a time.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from zeroth_assets.evaluation.judging.model import GRADES, CallRecord, JudgeError, Snapshot, SnapshotError, Usage
from zeroth_assets.evaluation.judging.validate import strict_json


class Journal:
    """The records of one judge with one prompt. A context manager; nothing is read or written outside of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(f"{path}.lock")
        self._file = -1
        self._calls: dict[tuple[str, str], CallRecord] = {}
        self._grades: dict[tuple[str, float | None], int] = {}
        self._seconds: dict[tuple[str, float | None], int] = {}
        self._identity: tuple[str, str] | None = None
        self.spent = Usage()
        self.sitting = Usage()

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            self._load()
        except Timeout:
            raise JudgeError(
                "The judge's journal is in use", expected="one run at a time", found=str(self.path.name)
            ) from None
        except OSError as error:
            self.__exit__()
            raise JudgeError(
                "The judge's journal cannot be opened",
                expected="a file that this user can read and write",
                found=f"{self.path}: {error.strerror or error}",
                remedy="mend its owner or mode, or make room on the disk",
            ) from None
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._lock.release()

    def claim(self, snapshot: Snapshot, prompt_hash: str, spent: Usage) -> None:
        """Begin a sitting: the journal must be new, or of this very judge and prompt.

        Raises:
            SnapshotError: its records are of another model or another prompt.
        """
        identity = (snapshot.label, prompt_hash)
        if self._identity not in (None, identity):
            assert self._identity is not None
            raise SnapshotError(
                "The journal belongs to another judge",
                expected=f"{self._identity[0]} with prompt {self._identity[1][:12]}",
                found=f"{snapshot.label} with prompt {prompt_hash[:12]}",
                remedy="use another journal; grades of two judges are not mixed",
            )
        self._identity = identity
        self.spent += spent
        self.sitting += spent
        self._write({"kind": "run", "judge": snapshot.label, "prompt_hash": prompt_hash, "usage": asdict(spent)})

    def append(self, record: CallRecord) -> None:
        """Put a record on disk."""
        self._write({"kind": "call", **asdict(record)})
        self.sitting += record.usage
        self._keep(record)

    def finished(self, query_id: str, call_digest: str) -> CallRecord | None:
        """The judgment of a call, if there is one; failures are not."""
        record = self._calls.get((query_id, call_digest))
        return record if record is not None and record.failure is None else None

    def failure(self, query_id: str, call_digest: str) -> CallRecord | None:
        """The last failure of a call that has no judgment."""
        record = self._calls.get((query_id, call_digest))
        return record if record is not None and record.failure is not None else None

    def grade(self, pair: str, temperature: float | None) -> int | None:
        """The grade that a question and passage (`pair_digest`) have already, in whichever call it was given."""
        return self._grades.get((pair, temperature))

    def second_grade(self, pair: str, temperature: float | None) -> int | None:
        """The grade of its second showing, if it was shown twice."""
        return self._seconds.get((pair, temperature))

    def _keep(self, record: CallRecord) -> None:
        self.spent += record.usage
        for grades, known in ((record.grades, self._grades), (record.repeats, self._seconds)):
            for document, grade in grades.items():
                if document in record.pairs:
                    known.setdefault((record.pairs[document], record.temperature), grade)
        if record.failure is None or self.finished(record.query_id, record.call_digest) is None:
            self._calls[record.query_id, record.call_digest] = record

    def _write(self, line: dict[str, Any]) -> None:
        data = json.dumps(line, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n"
        while data:
            data = data[os.write(self._file, data) :]
        os.fsync(self._file)

    def _load(self) -> None:
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.ftruncate(self._file, whole)
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                self._read(strict_json(line.decode("utf-8")))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise JudgeError(
                    "The judge's journal is damaged",
                    expected="a record as it was written",
                    found=f"line {number} of {self.path.name} ({type(error).__name__})",
                    remedy="restore it, or move it away and judge anew",
                ) from None

    def _read(self, line: dict[str, Any]) -> None:
        usage = Usage(**line["usage"])
        if line["kind"] == "run":
            self._identity = (line["judge"], line["prompt_hash"])
            self.spent += usage
            return
        known = {field.name for field in fields(CallRecord)}
        values = {name: value for name, value in line.items() if name in known}
        for grades in (line["grades"], line["repeats"]):
            if not all(type(grade) is int and grade in GRADES for grade in grades.values()):
                raise ValueError("a grade that is none")
        self._keep(CallRecord(**{**values, "usage": usage, "caveats": tuple(line["caveats"])}))
