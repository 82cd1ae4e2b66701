"""Every error that a user can meet: what was expected, what was found, what to do.

What belongs here: exception types alone. Each carries a process exit code, so that a script can tell
"your input is wrong" from "the database is down" without reading prose.
"""

from __future__ import annotations

from typing import ClassVar


class ZerothError(Exception):
    """Base of all errors that are meant for a person.

    `what` names the thing that is wrong, `expected` and `found` say how, `remedy` is the next step.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, expected: str = "", found: str = "", remedy: str = "") -> None:
        self.what = what
        self.expected = expected
        self.found = found
        self.remedy = remedy
        super().__init__(what)

    def __str__(self) -> str:
        parts = [self.what.rstrip(".") + "."]
        if self.expected:
            parts.append(f"Expected: {self.expected.rstrip('.')}.")
        if self.found:
            parts.append(f"Found: {self.found.rstrip('.')}.")
        if self.remedy:
            parts.append(f"To do: {self.remedy.rstrip('.')}.")
        return " ".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.what, self.expected, self.found, self.remedy))


def _rebuild(cls: type[ZerothError], what: str, expected: str, found: str, remedy: str) -> ZerothError:
    """Pickle support: the fields are keyword-only, which the default protocol cannot pass."""
    return cls(what, expected=expected, found=found, remedy=remedy)


class SettingsError(ZerothError):
    """A setting is missing, malformed or contradicts another."""

    exit_code = 2


class ManifestError(ZerothError):
    """A manifest, or a record of one, is not what the schema asks for."""

    exit_code = 3


class AcquisitionError(ZerothError):
    """A document's bytes could not be had, or are not those that the manifest names."""

    exit_code = 4


class ParseError(ZerothError):
    """A document's bytes could not be turned into canonical text."""

    exit_code = 5


class TenantError(ZerothError):
    """A tenant key, or the assignment of documents to tenants, breaks a rule."""

    exit_code = 6


class ArtefactError(ZerothError):
    """An artefact is missing, damaged, or does not belong to the inputs at hand."""

    exit_code = 7


class EmbeddingError(ZerothError):
    """A model, its weights or the vectors that it gave are not usable."""

    exit_code = 8


class ChunkingError(ZerothError):
    """A chunker was asked for the impossible, or gave a chunk that breaks the contract."""

    exit_code = 9


class DatabaseError(ZerothError):
    """The database is down, too old, without pgvector, full, or not ours."""

    exit_code = 10


class MeasurementError(ZerothError):
    """A figure cannot be computed honestly; it is withheld, with this as the reason."""

    exit_code = 11


class QueryError(ZerothError):
    """A query, its vector or its principal is not acceptable."""

    exit_code = 12


class RunError(ZerothError):
    """A Dagster run ended other than in success."""

    exit_code = 13
