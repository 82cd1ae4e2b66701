from __future__ import annotations

import pickle

import pytest

from zeroth_assets import errors
from zeroth_assets.errors import ZerothError

TYPES = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, ZerothError)]


def test_an_error_says_what_was_expected_what_was_found_and_what_to_do() -> None:
    error = errors.ManifestError("Record 7 is wrong", expected="a sha256", found="'abc'", remedy="correct it")
    assert str(error) == "Record 7 is wrong. Expected: a sha256. Found: 'abc'. To do: correct it."


@pytest.mark.parametrize("kind", TYPES)
def test_an_error_survives_a_process_boundary(kind: type[ZerothError]) -> None:
    error = pickle.loads(pickle.dumps(kind("w", expected="e", found="f", remedy="r")))
    assert type(error) is kind
    assert str(error) == "w. Expected: e. Found: f. To do: r."


def test_exit_codes_tell_kinds_apart() -> None:
    codes = [kind.exit_code for kind in TYPES]
    assert len(set(codes)) == len(codes)
    assert all(0 < code < 126 for code in codes)
