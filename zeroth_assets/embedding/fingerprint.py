"""What makes two embeddings comparable.

What belongs here: the fingerprint and its digest. An index records it; a query with another one is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from zeroth_assets.errors import EmbeddingError


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Vectors of two equal fingerprints may be compared; of two different ones, not.

    `revision` is a commit of a hub, a package's version, or, for a local folder, a hash of its configuration and
    tokenizer. `max_tokens` counts special tokens. `engine` and `precision` belong here since the numbers depend on
    them; batch size does not, since vectors of one text in two batches agree to the tolerance that
    `embedding.TOLERANCE` states.
    """

    model: str
    revision: str
    weights_sha256: str
    pooling: str
    precision: str
    max_tokens: int
    normalised: bool
    engine: str

    @property
    def digest(self) -> str:
        """sha256 (hex) of the canonical JSON of all fields."""
        payload = json.dumps(asdict(self), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(payload.encode()).hexdigest()

    def to_dict(self) -> dict[str, str | int | bool]:
        """All fields, as JSON and Parquet metadata hold them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Fingerprint:
        """The inverse of `to_dict`.

        Raises:
            EmbeddingError: a field is missing, unknown or of another type.
        """
        wanted = {f.name: {"str": str, "int": int, "bool": bool}[str(f.type)] for f in fields(cls)}
        wrong = sorted(n for n in wanted.keys() | values.keys() if type(values.get(n)) is not wanted.get(n))
        if wrong:
            raise EmbeddingError(
                "An embedding's fingerprint cannot be read",
                expected=", ".join(f"{name} ({kind.__name__})" for name, kind in wanted.items()),
                found=", ".join(f"{name}={values.get(name)!r}" for name in wrong),
                remedy="embed the chunks again with this version",
            )
        return cls(**values)  # type: ignore[arg-type]

    def differences(self, other: Fingerprint) -> list[str]:
        """Every field that differs, as `name: own value, other's value`."""
        mine, theirs = self.to_dict(), other.to_dict()
        return [f"{name}: {mine[name]!r}, {theirs[name]!r}" for name in mine if mine[name] != theirs[name]]
