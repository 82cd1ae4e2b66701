"""Running the mutants: each in a copy of one seeded database, each to be noticed by the suite.

What belongs here: applying, running the probes, the table of who killed whom. `python -m
zeroth_assets.security.mutation` does it on a server of its own and prints the table.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from psycopg import sql

from zeroth_assets.security.mutants import LINT, MUTANTS, Mutant
from zeroth_assets.security.seed import Seeded, copy_of, seed, throwaway_server
from zeroth_assets.security.suite import PROBES, run_probes

_CATALOGUE = frozenset({LINT, "preflight"})


@dataclass(frozen=True, slots=True)
class MutantResult:
    """Who noticed a mutant. `ran` counts the probes that were run on it."""

    mutant: Mutant
    killers: tuple[str, ...]
    ran: int
    seconds: float

    @property
    def survived(self) -> bool:
        """Whether the probe that has to notice it did not."""
        return self.mutant.killer not in self.killers

    @property
    def by_behaviour(self) -> bool:
        """Whether an attack got through, and not only a look at the catalogue found it."""
        return bool(set(self.killers) - _CATALOGUE)


def run_mutants(
    seeded: Seeded,
    mutants: Iterable[Mutant] = MUTANTS,
    *,
    every_probe: bool = False,
    place: str = "mutant",
    progress: Callable[[int, int], None] | None = None,
) -> tuple[MutantResult, ...]:
    """Run the probe that has to notice each mutant, or all of them, in databases named after `place`.

    The server must be one that may be broken.

    Raises:
        DatabaseError: the server failed.
        psycopg.Error: a mutant cannot be applied.
    """
    chosen = tuple(mutants)
    results = []
    for at, mutant in enumerate(chosen):
        began = time.perf_counter()
        with copy_of(seeded, f"{place}_{at}") as db, _applied(seeded, db.name, mutant):
            ground = seeded.ground(db)
            ground.brief = True
            probes = [p for p in PROBES if every_probe or p.name == mutant.killer]
            found = run_probes(ground, probes)
            ground.reset()
        killers = tuple(result.name for result in found if result.status == "breached")
        results.append(MutantResult(mutant, killers, len(found), time.perf_counter() - began))
        if progress is not None:
            progress(at + 1, len(chosen))
    return tuple(results)


@contextlib.contextmanager
def _applied(seeded: Seeded, name: str, mutant: Mutant) -> Iterator[None]:
    with seeded.db.admin(autocommit=True, dbname=name) as admin:
        if mutant.statement:
            admin.execute(mutant.statement.replace("{database}", sql.Identifier(name).as_string(admin)).encode())
        if mutant.everywhere:
            admin.execute(mutant.everywhere.encode())
    try:
        yield
    finally:
        if mutant.undo:
            with seeded.db.admin(autocommit=True, dbname="postgres") as admin:
                admin.execute(mutant.undo.encode())


def table_of(results: Iterable[MutantResult]) -> str:
    """Mutants and their killers, in Markdown."""
    lines = ["| mutant | killed by |", "| --- | --- |"]
    for result in results:
        by = ", ".join(result.killers) or "-"
        lines.append(f"| {result.mutant.name} | {'**survived**; ' if result.survived else ''}{by} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 0 where no mutant survived."""
    parser = argparse.ArgumentParser(description="Break the boundary on purpose, on a server made for it.")
    parser.add_argument(
        "--only-expected", action="store_true", help="run only the probe that has to notice each mutant"
    )
    chosen = parser.parse_args(arguments)

    def told(done: int, total: int) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{done} of {total}")

    with throwaway_server() as db:
        results = run_mutants(seed(db), every_probe=not chosen.only_expected, progress=told)
    survivors = [result for result in results if result.survived]
    behaviour = sum(result.by_behaviour for result in results)
    sys.stdout.write(table_of(results))
    sys.stdout.write(
        f"\n{len(results)} mutants, {len(survivors)} survivors; {behaviour} killed by an attack that got through, "
        f"{len(results) - behaviour} by the catalogue alone\n"
    )
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
