"""The core set, the extended one, and the table that says what a golden set is made of.

What belongs here: choosing the core by seed, and counting.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from zeroth_assets.evaluation.golden.model import CATEGORIES
from zeroth_assets.evaluation.golden.stratify import stratified

CORE_SIZES: Mapping[str, int] = {
    "single_chunk": 60,
    "multi_chunk": 40,
    "cross_document": 35,
    "tenant_scoped": 35,
    "unanswerable": 30,
}
COMPOSITION_SCHEMA = pl.Schema(
    {
        "set": pl.String,
        "category": pl.String,
        "source": pl.String,
        "scope": pl.String,
        "queries": pl.Int64,
        "answerable": pl.Int64,
        "calibration": pl.Int64,
        "test": pl.Int64,
        "groups": pl.Int64,
        "topics": pl.Int64,
        "contract_types": pl.Int64,
        "parts": pl.Int64,
        "spans": pl.Int64,
    }
)


def with_core(queries: pl.DataFrame, *, seed: int, sizes: Mapping[str, int] = CORE_SIZES) -> pl.DataFrame:
    """`queries` with their `set`: `core` for the drawn ones, `extended` for all others.

    Only queries over the whole corpus are drawn. Within a category the draw is even over sources (experts, drafters)
    and, within each, over topics or kinds of document, and document groups. Where a category has too few, single_chunk
    and then multi_chunk make up for it, so that the core keeps its size where the queries allow; the number of
    unanswerable ones never grows.
    """
    pool = queries.filter(pl.col("scope") == "corpus")
    chosen: list[str] = []
    short = 0
    by_category = {category: pool.filter(pl.col("category") == category).sort("query_id") for category in CATEGORIES}
    for category in ("unanswerable", "tenant_scoped", "cross_document", "single_chunk", "multi_chunk"):
        table = by_category[category]
        wanted = sizes.get(category, 0)
        if category in ("single_chunk", "multi_chunk"):
            wanted += short
            short = 0
        drawn = _even(table, wanted, seed)
        chosen += drawn
        short += wanted - len(drawn)
    core = pl.col("query_id").is_in(chosen)
    return queries.with_columns(pl.when(core).then(pl.lit("core")).otherwise(pl.lit("extended")).alias("set"))


def _even(table: pl.DataFrame, n: int, seed: int) -> list[str]:
    """At most `n` query ids of a category, dealt in turn from each source's own even draw."""
    hands: list[list[str]] = []
    for _, part in sorted(table.partition_by("source", as_dict=True).items()):
        ids, kinds = part["query_id"].to_list(), part["about"].list.first().fill_null("").str.split(":").list.first()
        topics = part.select(pl.coalesce("topic", kinds))["topic"].to_list()
        askers = part["asker"].fill_null("").to_list()
        hands.append([ids[i] for i in stratified(ids, askers, topics, part["group"].to_list(), n=n, seed=seed)])
    dealt = [hand[i] for i in range(n) for hand in hands if i < len(hand)]
    return dealt[:n]


def composition(queries: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """What a golden set is made of, in `COMPOSITION_SCHEMA`: one row per set, category, source and scope."""
    counted = spans.group_by("query_id").agg(
        pl.col("part").n_unique().cast(pl.Int64).alias("parts"), pl.len().cast(pl.Int64).alias("spans")
    )
    return (
        queries.join(counted, on="query_id", how="left")
        .group_by("set", "category", "source", "scope")
        .agg(
            pl.len().alias("queries"),
            pl.col("answerable").sum(),
            (pl.col("split") == "calibration").sum().alias("calibration"),
            (pl.col("split") == "test").sum().alias("test"),
            pl.col("group").n_unique().alias("groups"),
            pl.col("topic").drop_nulls().n_unique().alias("topics"),
            pl.col("stratum").drop_nulls().n_unique().alias("contract_types"),
            pl.col("parts").sum(),
            pl.col("spans").sum(),
        )
        .sort("set", "category", "source", "scope")
        .select(COMPOSITION_SCHEMA.names())
        .cast(COMPOSITION_SCHEMA)
    )
