"""A security test that cannot fail is none: the boundary broken in every way, and each time noticed."""

from __future__ import annotations

import pytest

from zeroth_assets.security.mutants import LINT, MUTANTS, Mutant
from zeroth_assets.security.mutation import MutantResult, run_mutants, table_of
from zeroth_assets.security.seed import Seeded
from zeroth_assets.security.suite import PROBES


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_killed_by_the_probe_that_is_named_for_it(seeded: Seeded, mutant: Mutant) -> None:
    (result,) = run_mutants(seeded, [mutant])
    assert not result.survived, f"{mutant.name} survived {mutant.killer}"


def test_there_are_enough_mutants_and_most_are_killed_by_an_attack() -> None:
    assert len(MUTANTS) >= 25
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert {mutant.killer for mutant in MUTANTS} <= {probe.name for probe in PROBES}
    assert sum(mutant.killer != LINT for mutant in MUTANTS) >= 0.8 * len(MUTANTS)
    assert all(bool(mutant.everywhere) == bool(mutant.undo) for mutant in MUTANTS)


def test_a_mutant_that_breaks_nothing_survives_and_is_told_to(seeded: Seeded) -> None:
    harmless = Mutant("harmless", "sequences", "comment on table zeroth.meta is 'nothing'")
    results = run_mutants(seeded, [harmless])
    assert [(result.survived, result.killers) for result in results] == [(True, ())]
    assert "**survived**" in table_of(results)
    assert "survived" not in table_of([MutantResult(harmless, ("sequences",), 1, 0.0)])
