from __future__ import annotations

import dataclasses

import pytest

from zeroth_assets.embedding import Fingerprint
from zeroth_assets.errors import EmbeddingError

ONE = Fingerprint("m", "r", "a" * 64, "mean", "bf16", 512, True, "openvino")


def test_the_digest_is_the_same_in_every_process() -> None:
    assert ONE.digest == "881f18a64508cf020f9bdd5e5adb1d5c779eb8d102c1bb08f976921aa1db1d81"


@pytest.mark.parametrize(
    "change",
    [
        {"model": "n"},
        {"revision": "s"},
        {"weights_sha256": "b" * 64},
        {"pooling": "cls"},
        {"precision": "fp32"},
        {"max_tokens": 256},
        {"normalised": False},
        {"engine": "torch"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_field_is_in_the_digest_and_in_the_differences(change: dict[str, object]) -> None:
    other = dataclasses.replace(ONE, **change)  # type: ignore[arg-type]
    assert other.digest != ONE.digest
    (name,) = change
    assert [line.split(":")[0] for line in ONE.differences(other)] == [name]


def test_a_fingerprint_survives_being_written_and_read() -> None:
    assert Fingerprint.from_dict(ONE.to_dict()) == ONE


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({**ONE.to_dict(), "max_tokens": "512"}, "max_tokens='512'"),
        ({k: v for k, v in ONE.to_dict().items() if k != "engine"}, "engine=None"),
        ({**ONE.to_dict(), "extra": 1}, "extra=1"),
    ],
)
def test_a_fingerprint_with_a_wrong_field_is_refused_by_name(values: dict[str, object], named: str) -> None:
    with pytest.raises(EmbeddingError, match=named):
        Fingerprint.from_dict(values)
