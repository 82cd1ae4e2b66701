"""The worked numbers in the docstrings are true."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "module", ["evaluation.bootstrap", "evaluation.intervals", "evaluation.metrics", "evaluation.significance"]
)
def test_the_worked_numbers_of_a_module_hold(module: str) -> None:
    result = doctest.testmod(importlib.import_module(f"zeroth_assets.{module}"))
    assert result.attempted > 0
    assert result.failed == 0
