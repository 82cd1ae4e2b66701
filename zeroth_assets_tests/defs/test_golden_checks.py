"""Each check of the golden set and of the figures is made to fail, and what it guards must not be published.

The assets are called themselves, on a home that is only read: a run of each would cost seconds, and what is asked here
is what they yield, what they raise and whether they write.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import dagster as dg
import polars as pl
import pytest

from zeroth_assets.artefacts import ArtefactStore, Sidecar
from zeroth_assets.errors import ZerothError
from zeroth_assets.evaluation.baselines import Baseline, write_baseline
from zeroth_assets.evaluation.golden.ledger import Entry
from zeroth_assets.evaluation.golden.model import GoldenError
from zeroth_assets.evaluation.retrieval_figures import figures
from zeroth_assets_tests.small_corpus import SmallCorpus

ARM = "fixed_512.bm25"


@dataclasses.dataclass
class Yielded:
    """What an asset gave: its checks by name, the error that it ended with, and what it would have published."""

    checks: dict[str, dg.AssetCheckResult]
    error: ZerothError | None
    published: list[str]


@contextmanager
def writing_nothing(published: list[str]) -> Iterator[None]:
    def write(self: ArtefactStore, frame: pl.DataFrame, name: str, key: str | None = None, **about: Any) -> Sidecar:
        published.append(name)
        details = {**self.require(name, key).details, **about["details"]}
        return dataclasses.replace(self.require(name, key), details=details)

    with mock.patch.object(ArtefactStore, "write_frame", write):
        yield


def made(corpus: SmallCorpus, module: str, asset: str, key: str | None = None, **extra: str) -> Yielded:
    """Call an asset of `zeroth_assets.defs.<module>`."""
    import importlib

    found = Yielded({}, None, [])
    with corpus.active(**extra), writing_nothing(found.published):
        from zeroth_assets.defs.partitions import dagster_key
        from zeroth_assets.defs.resources import Project

        function = getattr(importlib.import_module(f"zeroth_assets.defs.{module}"), asset).op.compute_fn.decorated_fn
        with dg.build_asset_context(partition_key=dagster_key(key)) as context:
            try:
                for event in function(context, Project()):
                    results = [event] if isinstance(event, dg.AssetCheckResult) else event.check_results or []
                    found.checks |= {str(one.check_name): one for one in results}
            except ZerothError as error:
                found.error = error
    return found


def golden_but(change: Callable[[Any], Any]) -> Any:
    """`build_golden_queries`, with its result changed."""
    from zeroth_assets.evaluation.golden.build import build_golden_queries

    def build(*arguments: Any, **named: Any) -> Any:
        return change(build_golden_queries(*arguments, **named))

    return mock.patch("zeroth_assets.defs.golden.build_golden_queries", build)


def test_a_golden_set_as_it_should_be_passes(shared: SmallCorpus) -> None:
    found = made(shared, "golden", "golden_queries")
    assert found.error is None
    assert {name: one.passed for name, one in found.checks.items()} == {
        "quotes_resolve": True,
        "splits_are_clean": True,
    }
    assert found.published == ["golden_queries"]


def test_a_quote_that_is_not_its_slice_stops_the_golden_queries(shared: SmallCorpus) -> None:
    moved = golden_but(lambda g: dataclasses.replace(g, spans=g.spans.with_columns(pl.col("char_start") + 1)))
    with moved:
        found = made(shared, "golden", "golden_queries")
    assert not found.checks["quotes_resolve"].passed
    assert isinstance(found.error, GoldenError)
    assert found.published == []


def test_a_group_in_both_splits_stops_the_golden_queries(shared: SmallCorpus) -> None:
    def torn(golden: Any) -> Any:
        big = golden.queries.group_by("group").len().filter(pl.col("len") > 1).sort("group")["group"][0]
        turns = (
            pl.when(pl.int_range(pl.len()).over("group") % 2 == 0).then(pl.lit("test")).otherwise(pl.lit("calibration"))
        )
        split = pl.when(pl.col("group") == big).then(turns).otherwise("split").alias("split")
        return dataclasses.replace(golden, queries=golden.queries.with_columns(split))

    with golden_but(torn):
        found = made(shared, "golden", "golden_queries")
    assert not found.checks["splits_are_clean"].passed
    assert isinstance(found.error, GoldenError)
    assert found.published == []


@pytest.mark.parametrize(
    ("marks", "passed", "severity"),
    [
        ({"digest": "of another set"}, False, dg.AssetCheckSeverity.ERROR),
        ({"digest": "", "judge": "another judge"}, False, dg.AssetCheckSeverity.ERROR),
        ({"digest": ""}, True, dg.AssetCheckSeverity.WARN),
    ],
)
def test_a_golden_set_that_changed_without_acceptance_is_red(
    shared: SmallCorpus, tmp_path: Path, marks: dict[str, str], passed: bool, severity: dg.AssetCheckSeverity
) -> None:
    digest = str(ArtefactStore(shared.artefacts).require("golden_queries").details["digest"])
    marks = {**marks, "digest": marks["digest"] or digest}
    write_baseline(tmp_path, Baseline("golden_set", "a test", "2026-01-01", {}, marks))
    found = made(shared, "golden_set", "golden_set", ZEROTH_BASELINES=str(tmp_path))
    check = found.checks["unchanged_unless_accepted"]
    assert (check.passed, check.severity) == (passed, severity)


def figures_but(*columns: pl.Expr) -> Any:
    """`figures`, with columns of the table changed."""
    return mock.patch(
        "zeroth_assets.defs.retrieval_metrics.figures", lambda *given: figures(*given).with_columns(*columns)
    )


def test_a_figure_without_an_interval_is_withheld(shared: SmallCorpus) -> None:
    with figures_but(pl.lit(None, pl.Float64).alias("low"), pl.lit(None, pl.String).alias("warning")):
        found = made(shared, "retrieval_metrics", "retrieval_metrics", ARM)
    assert not found.checks["no_figure_without_interval"].passed
    assert "without an interval" in str(found.error)
    assert found.published == []


def test_a_calibration_query_in_a_figure_withholds_it(shared: SmallCorpus) -> None:
    """The runs were made before the query went to the other split."""
    from zeroth_assets.defs.golden import golden_frames

    def moved(store: ArtefactStore) -> tuple[pl.DataFrame, pl.DataFrame]:
        queries, spans = golden_frames(store)
        first = queries.filter("answerable")["query_id"][0]
        split = pl.when(pl.col("query_id") == first).then(pl.lit("calibration")).otherwise("split").alias("split")
        return queries.with_columns(split), spans

    with mock.patch("zeroth_assets.defs.retrieval_metrics.golden_frames", moved):
        found = made(shared, "retrieval_metrics", "retrieval_metrics", ARM)
    assert not found.checks["test_split_alone"].passed
    assert "1 queries of another split" in str(found.error)
    assert found.published == []


def recorded(split: str, shared: SmallCorpus) -> tuple[Entry, ...]:
    """Queries of a split were read for bm25, and its parameters of today chosen with them."""
    from zeroth_assets.evaluation.golden.ledger import parameters_digest
    from zeroth_assets.planning.hygiene import arm_parameters

    queries = ArtefactStore(shared.artefacts).read_frame("golden_queries").filter(pl.col("split") == split)
    with shared.active():
        from zeroth_assets.settings import load_settings

        digest = parameters_digest(arm_parameters(load_settings(), ARM))
    return (
        Entry("read", "bm25", "2026-01-01", tuple(queries["query_id"])),
        Entry("chosen", "bm25", "2026-01-02", parameters=digest),
    )


@pytest.mark.parametrize(("split", "passed"), [("test", False), ("calibration", True)])
def test_parameters_chosen_with_test_queries_withhold_the_figures(
    shared: SmallCorpus, split: str, passed: bool
) -> None:
    entries = recorded(split, shared)
    with mock.patch("zeroth_assets.defs.retrieval_metrics.entries_for", return_value=entries):
        found = made(shared, "retrieval_metrics", "retrieval_metrics", ARM)
    check = found.checks["parameters_chosen_apart"]
    assert check.passed is passed
    if passed:
        assert (found.error, found.published) == (None, ["retrieval_metrics"])
    else:
        assert check.severity == dg.AssetCheckSeverity.ERROR
        assert "chosen with test queries" in str(found.error)
        assert found.published == []


def test_parameters_that_nobody_recorded_are_told_and_published(shared: SmallCorpus) -> None:
    found = made(shared, "retrieval_metrics", "retrieval_metrics", ARM, ZEROTH_ANALYSER="exact")
    check = found.checks["parameters_chosen_apart"]
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert check.metadata["parameters"] == dg.MetadataValue.text("unrecorded")
    assert found.published == ["retrieval_metrics"]


@pytest.mark.parametrize(("lost", "verdict"), [(0.5, "regressed"), (0.0, "holds")])
def test_a_retriever_that_fell_behind_its_accepted_figures_is_red(
    shared: SmallCorpus, tmp_path: Path, lost: float, verdict: str
) -> None:
    now = {f"{ARM}/unrestricted": {f"q:{number}": 0.4 for number in range(20)}}
    # A little more each time: a difference that never varies has no interval.
    better = {
        name: {query: value + lost * (1 + number / 100) for number, (query, value) in enumerate(values.items())}
        for name, values in now.items()
    }
    write_baseline(tmp_path, Baseline("retrieval_metrics", "a test", "2026-01-01", better, {}))
    # The few questions of this corpus could not tell.
    with mock.patch("zeroth_assets.defs.retrieval_metrics.headline_series", return_value=now):
        found = made(shared, "retrieval_metrics", "retrieval_metrics", ARM, ZEROTH_BASELINES=str(tmp_path))
    check = found.checks["no_regression"]
    assert check.metadata["verdict"] == dg.MetadataValue.text(verdict)
    assert check.passed is (verdict == "holds")
    assert (check.severity == dg.AssetCheckSeverity.ERROR) is (verdict == "regressed")
    assert found.published == ["retrieval_metrics"], "a figure that is true is published however bad it is"
