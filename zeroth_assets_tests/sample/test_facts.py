from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest

from zeroth_assets.corpus.manifest import Manifest
from zeroth_assets.corpus.model import Document
from zeroth_assets.errors import ManifestError
from zeroth_assets.sample.facts import KINDS, resolve_facts
from zeroth_assets_tests.sample.conftest import SAMPLE


@pytest.fixture(scope="module")
def facts() -> list[dict[str, Any]]:
    content = json.loads((SAMPLE / "facts.json").read_text("utf-8"))
    assert content["verified_by_a_human"] is False
    listed: list[dict[str, Any]] = content["facts"]
    return listed


def test_there_are_facts_of_every_kind(facts: list[dict[str, Any]]) -> None:
    kinds = Counter(fact["kind"] for fact in facts)
    assert set(kinds) == set(KINDS)
    assert kinds.total() >= 40
    assert kinds["cross_document"] >= 5
    assert kinds["unanswerable"] >= 5
    assert len({fact["id"] for fact in facts}) == len({fact["question"] for fact in facts}) == len(facts)


def test_every_quote_is_a_slice_of_the_raw_text_of_that_version(
    facts: list[dict[str, Any]], sample: Manifest, raw: dict[str, bytes]
) -> None:
    for fact in facts:
        for evidence in fact["evidence"]:
            assert sample.record(evidence["document_id"]).sha256 == evidence["version"]
            text = raw[evidence["document_id"]].decode("utf-8", "replace")
            assert text.count(evidence["quote"]) == 1, fact["id"]


def test_every_quote_is_found_once_in_the_canonical_text(
    facts: list[dict[str, Any]], parsed: dict[str, Document]
) -> None:
    for fact in facts:
        for evidence in fact["evidence"]:
            words = [re.escape(word) for word in evidence["quote"].split()]
            found = re.findall(r"\s+".join(words), parsed[evidence["document_id"]].text)
            assert len(found) == 1, fact["id"]


def test_questions_that_need_several_documents_quote_several(facts: list[dict[str, Any]]) -> None:
    for fact in facts:
        documents = {evidence["document_id"] for evidence in fact["evidence"]}
        if fact["kind"] in ("cross_document", "tenant_scoped"):
            assert len(documents) >= 2, fact["id"]
        if fact["kind"] == "synthesis":
            assert len(fact["evidence"]) >= 2, fact["id"]
        assert bool(documents) != (fact["kind"] == "unanswerable"), fact["id"]


def test_a_quote_that_is_no_longer_there_stops_the_generator(raw: dict[str, bytes]) -> None:
    texts = {name: ("version", content.decode("utf-8", "replace")) for name, content in raw.items()}
    texts["rfc:90002"] = ("version", "nothing that anybody quoted")
    with pytest.raises(ManifestError, match="tide-quiet-code"):
        resolve_facts(texts)
