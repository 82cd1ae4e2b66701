from __future__ import annotations

import polars as pl
import pytest

from zeroth_assets.corpus.manifest import ManifestRecord
from zeroth_assets.errors import MeasurementError
from zeroth_assets.evaluation.golden.model import GoldenError
from zeroth_assets.evaluation.golden.splits import check_splits, document_links, with_groups, with_splits
from zeroth_assets_tests.evaluation.golden.builders import pairs, queries, query, span, spans

TEXT = "x" * 50


def record(document_id: str, **fields: object) -> ManifestRecord:
    source = document_id.split(":")[0]
    basics = {"identifier": document_id, "title": "", "sha256": "0", "bytes": 1, "media_type": "t", "licence": "l"}
    return ManifestRecord(**{"document_id": document_id, "source": source, "tenant_attribute": "x", **basics, **fields})  # type: ignore[arg-type]


def test_successors_filers_and_near_duplicates_stay_together() -> None:
    records = [
        record("rfc:1", obsoleted_by=("rfc:2",)),
        record("rfc:2", updates=("rfc:3",)),
        record("rfc:3"),
        record("sec:7:10-k:2001", tenant_attribute="T"),
        record("sec:7:10-k:2002", tenant_attribute="T"),
        record("sec:8:10-k:2002", tenant_attribute="U"),
        record("cuad:a"),
        record("cuad:b"),
    ]
    links = document_links(records, pairs(("cuad:a", "cuad:b", 0.85, 0.8), ("cuad:a", "cuad:gone", 0.9, 0.9)))
    assert links == [("cuad:a", "cuad:b"), ("rfc:1", "rfc:2"), ("sec:7:10-k:2002", "sec:7:10-k:2001")]


def test_a_query_over_two_documents_ties_their_groups_together() -> None:
    asked = queries(query("a"), query("b"), query("c", about=["rfc:3"]), query("d"))
    truth = spans(
        span("a", "rfc:1", 0, 5, TEXT),
        span("b", "rfc:1", 0, 5, TEXT),
        span("b", "rfc:2", 0, 5, TEXT, part=1),
    )
    grouped = with_groups(asked, truth, [("rfc:2", "rfc:3")])
    assert grouped["group"].to_list() == ["g:rfc:1", "g:rfc:1", "g:rfc:1", "g:q:d"]


def test_no_group_straddles_and_the_seed_decides_alone() -> None:
    asked = queries(*(query(f"n{i}", group=f"g:{i // 3}") for i in range(600)))
    split = with_splits(asked, seed=1)
    check_splits(split)
    assert split.equals(with_splits(asked, seed=1))
    assert not split.equals(with_splits(asked, seed=2))
    assert 0.3 < (split["split"] == "calibration").sum() / 600 < 0.5


def test_a_query_that_is_added_moves_no_other() -> None:
    asked = queries(*(query(f"n{i}") for i in range(50)))
    more = queries(*(query(f"n{i}") for i in range(60)))
    before = dict(with_splits(asked, seed=1).select("query_id", "split").iter_rows())
    after = dict(with_splits(more, seed=1).select("query_id", "split").iter_rows())
    assert all(after[name] == split for name, split in before.items())


def test_a_torn_group_or_question_is_refused() -> None:
    torn = queries(query("a", group="g:1", split="test"), query("b", group="g:1", split="calibration"))
    with pytest.raises(GoldenError, match="in both splits"):
        check_splits(torn)
    scopes = queries(query("a", split="test"), query("b", question_id="q:a", split="calibration"))
    with pytest.raises(GoldenError, match="question_id"):
        check_splits(scopes)


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0, float("nan")])
def test_an_impossible_share_is_refused(share: float) -> None:
    with pytest.raises(MeasurementError, match="share of calibration"):
        with_splits(queries(query("a")), seed=0, calibration=share)


def test_a_split_column_is_filled_for_every_query() -> None:
    asked = queries(query("a", split=None), query("b", split=None))
    assert set(with_splits(asked, seed=0)["split"]) <= {"calibration", "test"}
    assert with_splits(asked, seed=0)["split"].dtype == pl.String
