"""How often do our intervals cover the truth? A simulation over kinds of figure, true values and numbers of queries.

    python benchmarks/coverage/run.py [--samples 1000] [--resamples 1000] [--seed 1] [--csv coverage.csv]

Populations are made so that their mean is known exactly: hits and misses; recall@10 per query as an index gives it
(most queries perfect, the others missing a few tenths together); nDCG-like values with atoms at 0 and 1. From each,
`samples` samples of n queries are drawn and every method's 95 % interval is made. `mean_ci` is what tables print.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zeroth_assets.evaluation.bootstrap import bootstrap_ci, mean_ci
from zeroth_assets.evaluation.intervals import Interval, wilson

SIZES = (10, 20, 50, 100, 200, 500)
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Population:
    """A finite set of values with weights: its mean is exact."""

    kind: str
    values: Floats
    weights: Floats

    @property
    def mean(self) -> float:
        return float(self.values @ self.weights)

    def draw(self, generator: np.random.Generator, n: int) -> Floats:
        return generator.choice(self.values, size=n, p=self.weights)


def populations() -> list[Population]:
    found = [
        Population("hit or miss", np.array([0.0, 1.0]), np.array([1 - p, p])) for p in (0.05, 0.5, 0.8, 0.95, 0.99)
    ]
    tenths = np.arange(11) / 10
    for imperfect, typical in ((0.9, 0.5), (0.5, 0.7), (0.2, 0.8), (0.1, 0.8), (0.04, 0.85), (0.01, 0.85)):
        # An imperfect query misses several neighbours together: a wide bell around `typical`, without 1.
        bell = np.exp(-0.5 * ((tenths - typical) / 0.2) ** 2)
        bell[-1] = 0.0
        weights = imperfect * bell / bell.sum()
        weights[-1] = 1.0 - imperfect
        found.append(Population("ANN recall@10", tenths, weights))
    grid = (np.arange(200) + 0.5) / 200
    for a, b, zeros, ones in ((2.0, 2.0, 0.2, 0.1), (4.0, 1.5, 0.1, 0.3), (1.0, 4.0, 0.5, 0.02), (6.0, 1.0, 0.02, 0.6)):
        body = grid ** (a - 1) * (1 - grid) ** (b - 1)
        weights = np.concatenate([[zeros], (1 - zeros - ones) * body / body.sum(), [ones]])
        found.append(Population("nDCG", np.concatenate([[0.0], grid, [1.0]]), weights))
    return found


def coverage(population: Population, n: int, samples: int, resamples: int, seed: int) -> list[dict[str, object]]:
    def closed_form(sample: Floats, number: int) -> Interval:
        low, high = wilson(float(sample.sum()), sample.size)
        return Interval(float(sample.mean()), low, high, sample.size, "wilson", 0.95)

    methods: dict[str, Callable[[Floats, int], Interval]] = {
        "percentile": lambda sample, number: bootstrap_ci(sample, seed=number, resamples=resamples),
        "bca": lambda sample, number: bootstrap_ci(sample, seed=number, resamples=resamples, method="bca"),
        "studentised": lambda sample, number: bootstrap_ci(
            sample, seed=number, resamples=resamples, method="studentised"
        ),
        "wilson": closed_form,
        "mean_ci": lambda sample, number: mean_ci(sample, seed=number, resamples=resamples),
    }
    generator = np.random.default_rng([seed, n])
    drawn = [population.draw(generator, n) for _ in range(samples)]
    rows: list[dict[str, object]] = []
    for name, method in methods.items():
        intervals = [method(sample, number) for number, sample in enumerate(drawn)]
        inside = [ci.low <= population.mean <= ci.high for ci in intervals]
        rows.append(
            {
                "figure": population.kind,
                "true mean": population.mean,
                "n": n,
                "method": name,
                "coverage": float(np.mean(inside)),
                "with warning": float(np.mean([ci.warning is not None for ci in intervals])),
                "mean width": float(np.mean([ci.high - ci.low for ci in intervals])),
            }
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1_000)
    parser.add_argument("--resamples", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    cells = [(population, n) for population in populations() for n in SIZES]
    for number, (population, n) in enumerate(cells, 1):
        rows += coverage(population, n, options.samples, options.resamples, options.seed)
        print(f"\r{number}/{len(cells)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    frame = pl.DataFrame(rows)
    if options.csv:
        frame.write_csv(options.csv, float_precision=4)
    by_method = frame.pivot("method", index=["figure", "true mean", "n"], values="coverage")
    printed = frame.filter(pl.col("method") == "mean_ci").select(
        "figure", "true mean", "n", "with warning", "mean width"
    )
    table = by_method.join(printed, on=["figure", "true mean", "n"], maintain_order="left")
    columns = table.columns
    print("| " + " | ".join(columns) + " |")
    print("|" + " --- |" * len(columns))
    for row in table.iter_rows():
        print(
            "| " + " | ".join("" if v is None else f"{v:.3f}" if isinstance(v, float) else str(v) for v in row) + " |"
        )
    print(f"\n{options.samples} samples per cell, {options.resamples} resamples, seed {options.seed}; nominal 0.95.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
