"""Figures and runs of made-up arms, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from zeroth_assets.evaluation.retrieval_figures import FIGURES, About, figures
from zeroth_assets.search.runs import PER_QUERY_SCHEMA

ABOUT = {"corpus_fingerprint": "corpus-1", "golden_fingerprint": "golden-1", "seed": 7, "resamples": 200}


def values_of(quality: float, *, role: str, n: int = 40, seed: int = 1, group_size: int = 1) -> pl.DataFrame:
    """Values per query as `retrieval_figures.per_query` gives them; `quality` shifts what all arms find hard alike."""
    hard = np.random.default_rng(seed).uniform(0, 1, n)
    noise = np.random.default_rng(int(1000 * quality)).uniform(-0.05, 0.05, n)
    value = np.clip(hard * 0.5 + quality * 0.5 + noise, 0, 1)
    return pl.DataFrame(
        {
            "query_id": [f"q:{i:03}" for i in range(n)],
            "category": ["single_chunk" if i % 2 else "multi_chunk" for i in range(n)],
            "group": [f"g:{i // group_size}" for i in range(n)],
            "role": [role] * n,
            "unreachable": [False] * n,
            **dict.fromkeys(FIGURES, value),
        }
    )


def figures_of(arms: Mapping[tuple[str, str, str], float], *, n: int = 40, **about: Any) -> pl.DataFrame:
    """The figures of arms (chunk set, retriever, role) of these qualities."""
    tables = [
        figures(values_of(quality, role=role, n=n), About(chunk_set=chunk_set, arm=name, **{**ABOUT, **about}))
        for (chunk_set, name, role), quality in arms.items()
    ]
    return pl.concat(tables)


def runs_of(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows of a run: query_id, role, split, score and ranking; whatever else is null."""
    frames = []
    for row in rows:
        known = {"principal": "p", "returned": len(row["ranking"]), "candidates": len(row["ranking"])}
        values = {**dict.fromkeys(PER_QUERY_SCHEMA), **known, "query_id": row["query_id"], "best_dense": row["score"]}
        frames.append(
            pl.DataFrame([values], schema=PER_QUERY_SCHEMA).with_columns(
                pl.lit(row["role"]).alias("role"),
                pl.lit(row["split"]).alias("split"),
                pl.Series("ranking", [list(row["ranking"])], dtype=pl.List(pl.String)),
            )
        )
    return pl.concat(frames)
