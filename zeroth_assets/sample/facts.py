"""Questions about the sample whose answers are known: `bank/facts.txt` resolved to exact slices of the raw text.

What belongs here: reading the hand-written list and finding each quote. A quote that does not occur exactly once in
its document stops the generator, so the list cannot drift from the documents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from zeroth_assets.errors import ManifestError
from zeroth_assets.sample.patterns import BANK, read_sections

KINDS = ("factual", "synthesis", "cross_document", "tenant_scoped", "unanswerable")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A passage: the document, its version, and the quote as it stands in the raw text, line breaks included."""

    document_id: str
    version: str
    quote: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A question, its answer and the passages; for an unanswerable one, the document that it is about."""

    fact_id: str
    kind: str
    question: str
    answer: str
    evidence: tuple[Evidence, ...]
    about: str | None


def resolve_facts(texts: Mapping[str, tuple[str, str]]) -> tuple[Fact, ...]:
    """All facts. `texts` maps a document id to its version and its raw text.

    Raises:
        ManifestError: a quote is not found exactly once, or names an unknown document.
    """
    _, body = read_sections(BANK / "facts.txt")
    return tuple(_fact(name, text, texts) for name, text in body.items())


def _fact(name: str, text: str, texts: Mapping[str, tuple[str, str]]) -> Fact:
    values: dict[str, str] = {}
    evidence = []
    for line in text.splitlines():
        key, _, value = line.partition(": ")
        if key == "quote":
            document_id, _, quote = value.partition(" | ")
            evidence.append(_located(name, document_id, quote, texts))
        elif key:
            values[key] = value
    about = values.get("about")
    known = values["kind"] in KINDS and (about is None or about in texts)
    if not known or bool(evidence) == (values["kind"] == "unanswerable"):
        raise ManifestError(f"Fact {name} is not complete", found=str(values), remedy="correct bank/facts.txt")
    return Fact(name, values["kind"], values["question"], values["answer"], tuple(evidence), about)


def _located(name: str, document_id: str, quote: str, texts: Mapping[str, tuple[str, str]]) -> Evidence:
    if document_id not in texts:
        raise ManifestError(f"Fact {name} quotes a document that is not there", found=document_id)
    version, text = texts[document_id]
    pattern = r"\s+".join(re.escape(word) for word in quote.split())
    found = [match[0] for match in re.finditer(pattern, text)]
    if len(found) != 1:
        raise ManifestError(
            f"Fact {name} has a quote that does not occur exactly once in {document_id}",
            expected=quote,
            found=f"{len(found)} occurrences",
            remedy="correct the quote in bank/facts.txt, or change the volume so that no page break cuts it",
        )
    return Evidence(document_id, version, found[0])


def dump_facts(facts: tuple[Fact, ...]) -> bytes:
    """The file `facts.json`."""
    listed = []
    for fact in facts:
        item: dict[str, object] = {
            "id": fact.fact_id,
            "kind": fact.kind,
            "question": fact.question,
            "answer": fact.answer,
            "evidence": [{"document_id": e.document_id, "version": e.version, "quote": e.quote} for e in fact.evidence],
        }
        if fact.about is not None:
            item["about"] = fact.about
        listed.append(item)
    content = {
        "schema": 1,
        "drafter": "the authors of the documents, together with them",
        "verified_by_a_human": False,
        "facts": listed,
    }
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode("utf-8")
