"""The drafted queries: their form, their mixture, and, against the real documents, their quotes."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from zeroth_assets.corpus.manifest import Manifest, load_manifest
from zeroth_assets.corpus.parse import parse_document
from zeroth_assets.golden.overlap import PARAPHRASED_AT_MOST, content_words, lexical_overlap
from zeroth_assets.settings import project_file

Row = dict[str, Any]

CATEGORIES = {"single_chunk", "multi_chunk", "cross_document", "tenant_scoped", "unanswerable"}
REASONS = {"absent_from_corpus", "other_tenant", "false_premise"}
KEYS = {
    "id",
    "category",
    "text",
    "asker",
    "spans",
    "paraphrased",
    "lexical_overlap",
    "drafter",
    "drafted_on",
    "verified",
}
OPTIONAL = {"unanswerable_reason", "elsewhere", "about", "note"}
READ_AT_MOST = 25


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    file = resources.files("zeroth_assets.golden").joinpath("drafted.jsonl")
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return load_manifest(project_file("corpus_manifest.json"))


def parts(row: Row) -> list[list[Row]]:
    return [*row["spans"], *row.get("elsewhere", [])]


def quotes(row: Row) -> list[Row]:
    return [quote for part in parts(row) for quote in part]


def documents(rows: list[Row], source: str) -> set[str]:
    return {quote["document_id"] for row in rows for quote in quotes(row) if quote["document_id"].startswith(source)}


def refuted(row: Row) -> list[str]:
    """What is wrong with the form of a row."""
    answerable = bool(row["spans"])
    needed = {"single_chunk": range(1, 2), "multi_chunk": range(2, 5), "cross_document": range(2, 5)}
    quoted = {quote["document_id"] for part in row["spans"] for quote in part[:1]}
    found = {
        "keys": set(row) - OPTIONAL != KEYS,
        "category": row["category"] not in CATEGORIES,
        "parts": row["category"] in needed and len(row["spans"]) not in needed[row["category"]],
        "an empty part": not all(parts(row)),
        "documents": (row["category"] == "multi_chunk" and len(quoted) != 1)
        or (row["category"] == "cross_document" and len(quoted) < 2),
        "asker": row["category"] == "tenant_scoped" and not row["asker"],
        "reason": answerable == (row.get("unanswerable_reason") in REASONS),
        "answered": row["category"] == "unanswerable" and answerable,
        "elsewhere": ("elsewhere" in row) != (row.get("unanswerable_reason") == "other_tenant"),
        "reasoning": not answerable and not row.get("note"),
        "quote": any(
            set(quote) != {"document_id", "quote", "occurrence"}
            or not 40 <= len(quote["quote"]) <= 900
            or quote["occurrence"] < 0
            for quote in quotes(row)
        ),
        "repeated quote": any(len({json.dumps(q) for q in part}) != len(part) for part in parts(row)),
        "verified": row["verified"] != "not verified by a human",
        "drafter": not row["drafter"] or row["drafted_on"] != "2026-11-30",
    }
    return [name for name, wrong in found.items() if wrong]


def test_every_row_has_the_form_that_its_category_asks_for(rows: list[Row]) -> None:
    assert {row["id"]: refuted(row) for row in rows if refuted(row)} == {}


def test_ids_are_distinct_and_in_order(rows: list[Row]) -> None:
    assert [row["id"] for row in rows] == [f"drafted:{n:04d}" for n in range(1, len(rows) + 1)]


def test_each_category_has_the_share_that_the_golden_set_needs(rows: list[Row]) -> None:
    counts = Counter(row["category"] for row in rows)
    least = {"single_chunk": 45, "multi_chunk": 25, "cross_document": 25, "tenant_scoped": 20, "unanswerable": 30}
    assert {name: counts[name] for name in least if counts[name] < least[name]} == {}
    assert sum(counts.values()) >= 140
    reasons = Counter(row.get("unanswerable_reason") for row in rows if not row["spans"])
    assert set(reasons) == REASONS


def test_the_truth_is_spread_over_memos_groups_filings_and_filers(rows: list[Row], manifest: Manifest) -> None:
    memos, filings = documents(rows, "rfc:"), documents(rows, "sec:")
    assert len(memos) >= 35
    assert len({manifest.record(memo).tenant_attribute for memo in memos}) >= 15
    assert len(filings) >= 20
    assert len({manifest.record(filing).tenant_attribute for filing in filings}) >= 10
    assert all(manifest.record(document) for row in rows for document in row.get("about", []))


def test_the_recorded_overlap_is_what_the_words_give(rows: list[Row]) -> None:
    for row in rows:
        texts = [quote["quote"] for quote in quotes(row)]
        assert row["lexical_overlap"] == (lexical_overlap(row["text"], texts) if texts else None), row["id"]
        expected = row["lexical_overlap"] is not None and row["lexical_overlap"] <= PARAPHRASED_AT_MOST
        assert row["paraphrased"] == expected, row["id"]


def test_at_least_half_of_the_answerable_queries_of_each_category_are_paraphrased(rows: list[Row]) -> None:
    for category in CATEGORIES - {"unanswerable"}:
        shares = [row["paraphrased"] for row in rows if row["spans"] and row["category"] == category]
        assert sum(shares) >= len(shares) / 2, category


def test_no_two_queries_are_near_duplicates_unless_two_tenants_ask_in_the_same_words(rows: list[Row]) -> None:
    words = {row["id"]: content_words(row["text"]) for row in rows}
    for one, two in itertools.combinations(rows, 2):
        if one["text"] == two["text"]:
            assert one["category"] == two["category"] == "tenant_scoped"
            assert one["asker"] != two["asker"]
            assert one["spans"] != two["spans"]
        else:
            a, b = words[one["id"]], words[two["id"]]
            assert len(a & b) / len(a | b) < 0.6, (one["id"], two["id"])


def test_the_same_words_of_two_tenants_come_often_enough_to_measure_access(rows: list[Row]) -> None:
    asked = Counter(row["text"] for row in rows if row["category"] == "tenant_scoped")
    assert sum(n > 1 for n in asked.values()) >= 5


@pytest.mark.parametrize(
    ("query", "quote", "share"),
    [
        ("How long do retries go on?", "Retries continue until the message is transmitted", 0.5),
        ("How long do retries go on?", "Give it up after 4-5 days", 0.0),
        ("What is it?", "anything", 0.0),
    ],
)
def test_overlap_counts_content_words_alone(query: str, quote: str, share: float) -> None:
    assert lexical_overlap(query, [quote]) == share


def sample(rows: list[Row]) -> list[str]:
    """A fixed spread of the quoted documents: every source, a filing in five, since filings are slow to parse."""
    memos, filings = sorted(documents(rows, "rfc:")), sorted(documents(rows, "sec:"))
    few = filings[:: max(1, len(filings) // 5)][:5]
    return [*few, *memos[:: max(1, len(memos) // (READ_AT_MOST - len(few)))]][:READ_AT_MOST]


@pytest.mark.mirror
def test_quotes_are_exact_slices_of_the_parsed_documents(rows: list[Row], manifest: Manifest, mirror: Path) -> None:
    chosen = sample(rows)
    checked = 0
    for document_id in chosen:
        record = manifest.record(document_id)
        text = parse_document(record, (mirror / str(record.mirror_path)).read_bytes()).text
        for row in rows:
            for quote in quotes(row):
                if quote["document_id"] != document_id:
                    continue
                start = -1
                for _ in range(quote["occurrence"] + 1):
                    start = text.find(quote["quote"], start + 1)
                    assert start >= 0, (row["id"], document_id)
                assert text[start : start + len(quote["quote"])] == quote["quote"]
                checked += 1
    assert checked >= len(chosen) >= 20
