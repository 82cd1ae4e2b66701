from __future__ import annotations

import polars as pl
import pytest

from zeroth_assets.evaluation.golden.model import (
    GoldenError,
    check_queries,
    check_spans,
    golden_digest,
    texts_of,
)
from zeroth_assets_tests.evaluation.golden.builders import documents, queries, query, span, spans, unanswerable

TEXT = "Alpha pays 10. Beta pays 20."
TEXTS = {"rfc:1": TEXT}


def texts() -> dict[tuple[str, str], str]:
    return texts_of(documents(TEXTS))


def test_a_span_that_slices_its_text_passes() -> None:
    asked = check_queries(queries(query("a")))
    assert check_spans(spans(span("a", "rfc:1", 0, 14, TEXT)), asked, texts())["quote"].to_list() == ["Alpha pays 10."]


def test_a_span_whose_slice_is_not_its_quote_is_refused_with_its_row_and_without_its_text() -> None:
    good = span("a", "rfc:1", 0, 14, TEXT)
    moved = (*span("a", "rfc:1", 15, 28, TEXT, part=1)[:4], 14, 27, "Beta pays 20.", 3, "quoted")
    with pytest.raises(GoldenError, match=r"Span row 1 .*rfc:1") as caught:
        check_spans(spans(good, moved), queries(query("a")), texts())
    assert "Beta" not in str(caught.value)


def test_a_span_of_another_version_is_refused() -> None:
    row = list(span("a", "rfc:1", 0, 5, TEXT))
    row[3] = "v0"
    with pytest.raises(GoldenError, match="not at hand"):
        check_spans(spans(tuple(row)), queries(query("a")), texts())


def test_a_span_of_an_unknown_query_is_refused() -> None:
    with pytest.raises(GoldenError, match="belongs to no query"):
        check_spans(spans(span("b", "rfc:1", 0, 5, TEXT)), queries(query("a")), texts())


@pytest.mark.parametrize("grade", [0, 4, -1])
def test_a_span_with_an_impossible_grade_is_refused(grade: int) -> None:
    with pytest.raises(GoldenError, match="impossible grade"):
        check_spans(spans(span("a", "rfc:1", 0, 5, TEXT, grade=grade)), queries(query("a")), texts())


def test_parts_without_a_gap_are_asked_for() -> None:
    with pytest.raises(GoldenError, match="not numbered"):
        check_spans(spans(span("a", "rfc:1", 0, 5, TEXT, part=1)), queries(query("a")), texts())


def test_an_answerable_query_without_span_is_refused_and_so_is_a_span_of_an_unanswerable_one() -> None:
    with pytest.raises(GoldenError, match="answerable and has no span"):
        check_spans(spans(), queries(query("a")), texts())
    with pytest.raises(GoldenError, match="unanswerable and has a span"):
        check_spans(spans(span("a", "rfc:1", 0, 5, TEXT)), queries(unanswerable("a")), texts())


def test_what_lies_in_another_tenant_keeps_its_span_though_the_asker_gets_no_answer() -> None:
    hidden = queries(unanswerable("a", unanswerable_reason="other_tenant", asker="rfc-x"))
    assert check_spans(spans(span("a", "rfc:1", 0, 5, TEXT)), hidden, texts()).height == 1


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"query_id": "rfc:1"}, "no query id"),
        ({"query_id": "q:with space"}, "no query id"),
        ({"category": "hard"}, "unknown category"),
        ({"split": "train"}, "unknown split"),
        ({"scope": "document"}, "without being limited"),
        ({"document_id": "rfc:1"}, "without being limited"),
        ({"answerable": False}, "without a reason"),
        ({"unanswerable_reason": "false_premise"}, "without a reason"),
        ({"answerable": False, "unanswerable_reason": "whim"}, "unknown reason"),
        ({"text": " "}, "no text"),
        ({"drafter": None}, "empty cells"),
    ],
)
def test_a_query_that_breaks_a_rule_is_refused(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(GoldenError, match=complaint):
        check_queries(queries(query("a", **fields)))


def test_query_ids_are_distinct_and_never_document_ids() -> None:
    with pytest.raises(GoldenError, match="comes twice"):
        check_queries(queries(query("a"), query("a")))
    with pytest.raises(GoldenError, match="id of a query"):
        texts_of(documents({"q:a": "text"}))


def test_a_document_version_that_comes_twice_is_refused() -> None:
    with pytest.raises(GoldenError, match="comes twice"):
        texts_of(pl.concat([documents(TEXTS), documents(TEXTS)]))


def test_the_digest_knows_every_cell_and_no_order() -> None:
    asked, truth = (
        queries(query("a"), query("b")),
        spans(span("a", "rfc:1", 0, 5, TEXT), span("b", "rfc:1", 0, 5, TEXT)),
    )
    assert golden_digest(asked, truth) == golden_digest(asked.reverse(), truth.reverse())
    assert golden_digest(asked, truth) != golden_digest(asked.with_columns(pl.lit("x").alias("note")), truth)
    assert golden_digest(asked, truth) != golden_digest(asked, truth.with_columns(pl.lit(2).alias("grade")))
