"""What the figures of access control say, in a table and in words.

What belongs here: the comparison of designs, the statement of what a shared index loses, and whether figures may stand.
Everything is computed from the frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.access_model import HEADLINE_K, LABELS, SHOWN_DESIGNS, AccessReport
from zeroth_assets.evaluation.ann_report import Verdict
from zeroth_assets.evaluation.bootstrap import mean_ci

HEADLINE_EF_SEARCH = 40
SINGLE = "single tenants"
PLATEAU = 0.01
COMPARISON_SCHEMA = pl.Schema(
    {
        "scope": pl.String,
        "design": pl.String,
        "ef_search": pl.Int64,
        "k": pl.Int64,
        "predicate": pl.Boolean,
        "principals": pl.Int64,
        "queries": pl.Int64,
        "recall": pl.Float64,
        "recall_low": pl.Float64,
        "recall_high": pl.Float64,
        "worst_recall": pl.Float64,
        "worst_principal": pl.String,
        "empty_queries": pl.Int64,
        "short_share": pl.Float64,
        "latency_p50_ms": pl.Float64,
        "latency_p95_ms": pl.Float64,
        "planning_p50_ms": pl.Float64,
        "buffers": pl.Float64,
    }
)


def verdict(report: AccessReport) -> Verdict:
    """Whether the figures are what they claim, and nothing leaked: what a blocking check asks.

    A problem is a row of a tenant that was not granted, a role other than `zeroth_app`, a figure without an interval or
    a plan, or rows that depend on the explicit predicate. A cell that was withheld is a warning.
    """
    problems = []
    if report.figures.is_empty():
        problems.append("nothing was measured")
    leaks = report.figures.filter(pl.col("cross_tenant_rows") > 0)
    problems += [
        f"{_cell_name(row)}: {row['cross_tenant_rows']} rows of tenants that were not granted"
        for row in leaks.iter_rows(named=True)
    ]
    for row in report.figures.iter_rows(named=True):
        if row["role"] != "zeroth_app":
            problems.append(f"{_cell_name(row)}: measured as {row['role']}, not zeroth_app")
        if not row["recall_low"] < row["recall_high"]:
            problems.append(f"{_cell_name(row)}: recall {row['recall']:.3f} has no interval")
        if row["explained"] < 1:
            problems.append(f"{_cell_name(row)}: no plan was read")
    keys = ["principal", "design", "ef_search", "k", "query_id"]
    exact = report.per_query.filter(pl.col("design").is_in(["shared_postfilter", "partition_exact"]))
    both = exact.filter("predicate").join(
        exact.filter(~pl.col("predicate")), on=keys, suffix="_alone", nulls_equal=True
    )
    if differing := both.filter(pl.col("rows") != pl.col("rows_alone")).height:
        problems.append(f"{differing} queries got other rows by the policy alone than with the predicate")
    return Verdict(tuple(problems), report.withheld)


def compare_designs(figures: pl.DataFrame, *, seed: int, resamples: int = 1_000) -> pl.DataFrame:
    """A row per scope, design, ef_search, k and predicate, in `COMPARISON_SCHEMA`.

    The scope is a principal of several tenants, or `SINGLE`: all principals of one tenant, each counted once, whatever
    its size; the interval is then over tenants, and latencies are medians over them.
    """
    scoped = figures.with_columns(
        pl.when(pl.col("tenants") == 1).then(pl.lit(SINGLE)).otherwise(pl.col("principal")).alias("scope")
    )
    rows = []
    groups = scoped.group_by("scope", "design", "ef_search", "k", "predicate", maintain_order=True)
    for (scope, design, ef, k, predicate), group in groups:
        one = group.height == 1
        interval = mean_ci(group["recall"].to_numpy(), seed=seed, resamples=resamples)
        worst = group.sort("recall", "principal").row(0, named=True)
        rows.append(
            {
                "scope": scope,
                "design": design,
                "ef_search": ef,
                "k": k,
                "predicate": predicate,
                "principals": group.height,
                "queries": int(group["queries"].sum()),
                "recall": interval.point,
                "recall_low": group["recall_low"][0] if one else interval.low,
                "recall_high": group["recall_high"][0] if one else interval.high,
                "worst_recall": worst["recall"],
                "worst_principal": worst["principal"],
                "empty_queries": int(group["empty_queries"].sum()),
                "short_share": float(np.average(group["short_share"], weights=group["queries"])),
                "latency_p50_ms": group["latency_p50_ms"].median(),
                "latency_p95_ms": group["latency_p95_ms"].median(),
                "planning_p50_ms": group["planning_p50_ms"].median(),
                "buffers": (group["buffers_hit"] + group["buffers_read"]).median(),
            }
        )
    return pl.DataFrame(rows, schema=COMPARISON_SCHEMA)


def headline_rows(
    comparison: pl.DataFrame, *, ef_search: int = HEADLINE_EF_SEARCH, k: int = HEADLINE_K
) -> pl.DataFrame:
    """One row per scope and design: at `ef_search` or without any, with the predicate if every query was so asked."""
    chosen = comparison.filter(
        pl.col("k") == k, (pl.col("ef_search") == ef_search) | pl.col("ef_search").is_null()
    ).with_columns(
        pl.col("design")
        .replace_strict({d: i for i, d in enumerate(SHOWN_DESIGNS)}, return_dtype=pl.Int64)
        .alias("order")
    )
    return (
        chosen.sort(pl.col("queries") / pl.col("principals"), "predicate", descending=True, maintain_order=True)
        .unique(["scope", "design"], keep="first", maintain_order=True)
        .sort(pl.col("scope") != SINGLE, "scope", "order")
        .drop("order")
    )


def access_table(comparison: pl.DataFrame, *, ef_search: int = HEADLINE_EF_SEARCH, k: int = HEADLINE_K) -> str:
    """The comparison of designs at one ef_search as a Markdown table."""
    names = ["who asks", f"design, ef_search {ef_search}", f"recall@{k} [95 %]", "worst", "empty", f"short of {k}"]
    names += ["p50 ms", "p95 ms", "planning ms", "buffers"]
    lines = [f"| {' | '.join(names)} |", "| --- " * len(names) + "|"]
    for row in headline_rows(comparison, ef_search=ef_search, k=k).iter_rows(named=True):
        who = f"{row['principals']} {SINGLE}" if row["scope"] == SINGLE else row["scope"]
        lines.append(
            f"| {who} | {LABELS[row['design']]} | {row['recall']:.3f} [{row['recall_low']:.3f}, "
            f"{row['recall_high']:.3f}] | {row['worst_recall']:.3f} | {row['empty_queries']} of {row['queries']} | "
            f"{row['short_share']:.1%} | {row['latency_p50_ms']:.2f} | {row['latency_p95_ms']:.2f} | "
            f"{_number(row['planning_p50_ms'], 2)} | {_number(row['buffers'], 0)} |"
        )
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Widening:
    """Recall by ef_search, ascending. `plateau` is the least ef_search from which on no more than 0.01 is gained.

    `rising` says that the last step still gained more: no plateau was reached.
    """

    ef_search: tuple[int, ...]
    recall: tuple[float, ...]
    empty_queries: tuple[int, ...]

    @property
    def plateau(self) -> int:
        """The least ef_search whose recall is within 0.01 of the widest's."""
        pairs = zip(self.ef_search, self.recall, strict=True)
        return next(ef for ef, recall in pairs if recall >= self.recall[-1] - PLATEAU)

    @property
    def rising(self) -> bool:
        """Whether the widest is needed."""
        return len(self.ef_search) > 1 and self.plateau == self.ef_search[-1]


@dataclass(frozen=True, slots=True)
class Finding:
    """What the shared index under a policy gives the principal of everything and the tenants alone."""

    k: int
    ef_search: int
    unrestricted: Widening
    unrestricted_interval: tuple[float, float]
    restricted: Widening
    restricted_interval: tuple[float, float]
    worst_recall: float
    worst_share: float
    tenants: int
    queries: int
    tenants_below_half: int
    exact_empty: int

    @property
    def text(self) -> str:
        """The finding in words."""
        at = self.unrestricted.ef_search.index(self.ef_search)
        low, high = self.unrestricted_interval
        alone_low, alone_high = self.restricted_interval
        return (
            f"At ef_search {self.ef_search} the shared HNSW recovers {self.unrestricted.recall[at]:.3f} "
            f"[{low:.3f}, {high:.3f}] of the exact top {self.k} for a principal that sees everything, and on average "
            f"{self.restricted.recall[at]:.3f} [{alone_low:.3f}, {alone_high:.3f}] for one that sees a single tenant "
            f"({self.tenants} tenants, the worst {self.worst_recall:.3f} at {self.worst_share:.2%} of the rows, "
            f"{self.tenants_below_half} below one half). {self.restricted.empty_queries[at]} of their {self.queries} "
            f"queries return nothing, while exact search under the same policy is empty for {self.exact_empty}. "
            f"Unrestricted, recall by ef_search is {_steps(self.unrestricted)}. "
            f"Restricted, it is {_steps(self.restricted)}; at {self.restricted.ef_search[-1]}, "
            f"{self.restricted.empty_queries[-1]} queries still return nothing."
        )


def seed_finding(
    comparison: pl.DataFrame, figures: pl.DataFrame, *, ef_search: int = HEADLINE_EF_SEARCH, k: int = HEADLINE_K
) -> Finding:
    """The finding, from `compare_designs` and the figures that it was made of.

    Raises:
        MeasurementError: the principal of everything, the single tenants, or the ef_search are not among the figures.
    """
    shared = figures.filter(design="shared_postfilter", k=k, predicate=False)
    alone, at = shared.filter(tenants=1), shared.filter(tenants=1, ef_search=ef_search)
    widest = shared.filter(pl.col("tenants") > 1).sort("share", descending=True)
    if at.is_empty() or widest.filter(ef_search=ef_search).is_empty():
        raise MeasurementError(
            "The finding cannot be stated",
            expected=f"post-filtered figures at ef_search {ef_search}, k {k}, of single tenants and of all of them",
            found=f"{alone.height} figures of single tenants, {widest.height} of several",
        )
    everyone = widest.filter(principal=widest["principal"][0]).sort("ef_search")
    single = comparison.filter(scope=SINGLE, design="shared_postfilter", k=k, predicate=False).sort("ef_search")
    whole, part = (frame.filter(ef_search=ef_search).row(0, named=True) for frame in (everyone, single))
    worst = at.sort("recall", "share").row(0, named=True)
    exact = figures.filter(design="partition_exact", k=k, predicate=False, tenants=1)
    return Finding(
        k=k,
        ef_search=ef_search,
        unrestricted=_widening(everyone),
        unrestricted_interval=(whole["recall_low"], whole["recall_high"]),
        restricted=_widening(single),
        restricted_interval=(part["recall_low"], part["recall_high"]),
        worst_recall=worst["recall"],
        worst_share=worst["share"],
        tenants=at.height,
        queries=int(at["queries"].sum()),
        tenants_below_half=int((at["recall"] < 0.5).sum()),
        exact_empty=int(exact["empty_queries"].sum()),
    )


def access_summary(report: AccessReport, *, seed: int, left_out: Sequence[str] = ()) -> str:
    """Finding, table and what was left out, as Markdown."""
    comparison = compare_designs(report.figures, seed=seed)
    parts = [seed_finding(comparison, report.figures).text, access_table(comparison)]
    if left_out:
        parts.append("Left out of the grid:\n" + "\n".join(f"- {reason}" for reason in left_out))
    return "\n\n".join(parts)


def _number(value: float | None, decimals: int) -> str:
    return "" if value is None else f"{value:.{decimals}f}"


def _widening(frame: pl.DataFrame) -> Widening:
    columns = (frame[name].to_list() for name in ("ef_search", "recall", "empty_queries"))
    return Widening(*(tuple(column) for column in columns))


def _steps(widening: Widening) -> str:
    steps = ", ".join(f"{r:.3f} at {ef}" for ef, r in zip(widening.ef_search, widening.recall, strict=True))
    if len(widening.ef_search) < 2:
        return steps
    return f"{steps} ({'still rising' if widening.rising else f'a plateau from {widening.plateau} on'})"


def _cell_name(row: dict[str, object]) -> str:
    return f"{row['principal']}, {row['design']}, ef_search {row['ef_search']}, k {row['k']}"
