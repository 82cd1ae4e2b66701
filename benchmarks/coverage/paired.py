"""How often do intervals of paired differences cover the truth? Ours, the bootstrap's alone, Student's t alone.

    python benchmarks/coverage/paired.py [--samples 1000] [--resamples 1000] [--seed 1]

Differences of hits (-1, 0, 1), of nDCG-like values, symmetric and skewed, three fifths of them 0; and clusters of 3 to
11 queries with a common shift. The means are known exactly.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from zeroth_assets.evaluation.bootstrap import mean_ci
from zeroth_assets.evaluation.paired import paired_ci, unit_values

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], tuple[Floats, NDArray[np.int64] | None]]
SPREAD = 0.25
RATE = 0.15


def hits(lost: float, won: float) -> Draw:
    def draw(generator: np.random.Generator, n: int) -> tuple[Floats, None]:
        return generator.choice([-1.0, 0.0, 1.0], n, p=[lost, 1.0 - lost - won, won]), None

    return draw


def symmetric(generator: np.random.Generator, n: int) -> tuple[Floats, None]:
    return np.where(generator.random(n) < 0.6, 0.0, generator.normal(0.0, SPREAD, n).clip(-1, 1)), None


def skewed(generator: np.random.Generator, n: int) -> tuple[Floats, None]:
    # An exponential cut at 1 has mean rate * (1 - exp(-1 / rate)).
    mean = RATE * (1.0 - np.exp(-1.0 / RATE))
    return np.where(generator.random(n) < 0.6, 0.0, generator.exponential(RATE, n).clip(0, 1) - mean), None


def clustered(generator: np.random.Generator, n: int) -> tuple[Floats, NDArray[np.int64]]:
    sizes = generator.integers(3, 12, n)
    shift = generator.normal(0.0, RATE, n)
    values = np.repeat(shift, sizes) + generator.normal(0.0, 0.1, int(sizes.sum()))
    return values.clip(-1, 1), np.repeat(np.arange(n), sizes)


CASES: tuple[tuple[str, Draw, float, tuple[int, ...]], ...] = (
    ("hits, 4 % won, 2 % lost", hits(0.02, 0.04), 0.02, (30, 50, 200)),
    ("hits, 10 % won, 1 % lost", hits(0.01, 0.10), 0.09, (30, 50, 200)),
    ("hits, 15 % won, 10 % lost", hits(0.10, 0.15), 0.05, (30, 50, 200)),
    ("nDCG-like, symmetric", symmetric, 0.0, (30, 50, 200)),
    ("nDCG-like, skewed", skewed, 0.0, (30, 50, 100, 200)),
    ("clusters of queries", clustered, 0.0, (10, 20, 50)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1_000)
    parser.add_argument("--resamples", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    generator = np.random.default_rng(arguments.seed)
    print("| differences | units | bootstrap | t | ours | ours, warned |\n| --- | --- | --- | --- | --- | --- |")
    for name, draw, truth, sizes in CASES:
        for n in sizes:
            covered = np.zeros(3)
            warned = 0
            for trial in range(arguments.samples):
                values, labels = draw(generator, n)
                options = {"seed": trial, "resamples": arguments.resamples, "bounds": (-1.0, 1.0), "clusters": labels}
                boot, ours = mean_ci(values, **options), paired_ci(values, **options)
                units = unit_values(values, labels)
                reach = stats.t.ppf(0.975, units.size - 1) * units.std(ddof=1) / np.sqrt(units.size)
                ends = ((boot.low, boot.high), (units.mean() - reach, units.mean() + reach), (ours.low, ours.high))
                covered += [low <= truth <= high for low, high in ends]
                warned += ours.warning is not None
            shares = " | ".join(f"{share:.3f}" for share in covered / arguments.samples)
            print(f"| {name} | {n} | {shares} | {warned / arguments.samples:.2f} |", flush=True)


if __name__ == "__main__":
    main()
