"""Drafted queries: verbatim quotes turned into exact spans, and what an asker may see of them.

What belongs here: the resolution of quotes against the canonical texts at hand. A quote that does not occur is refused
with its line; a document that this corpus does not hold only leaves its queries out, counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from zeroth_assets.evaluation.golden.cuad_queries import LEFT_OUT_SCHEMA
from zeroth_assets.evaluation.golden.drafted_file import Drafted, Quote
from zeroth_assets.evaluation.golden.model import NOT_PERMITTED, QUERY_SCHEMA, SPAN_SCHEMA, GoldenError
from zeroth_assets.evaluation.golden.spans import occurrences, span_row, trimmed


@dataclass(frozen=True, slots=True)
class DraftedQueries:
    """Queries and spans as `model` has them (split and group still to be dealt), and what was left out."""

    queries: pl.DataFrame
    spans: pl.DataFrame
    left_out: pl.DataFrame


def drafted_queries(
    drafted: Sequence[Drafted],
    versions: Mapping[str, str],
    texts: Mapping[tuple[str, str], str],
    tenants: pl.DataFrame,
) -> DraftedQueries:
    """Resolve quotes in the current versions of the documents at hand.

    `versions` maps each document id to the version that the manifest pins, `texts` as `model.texts_of`, `tenants` has
    document_id, tenant and raw_tenant (`corpus.tenants`). An asker may see the documents of its tenant alone: what it
    may not see is no alternative, and where a part is left with none the query is unanswerable for this asker. A part
    whose documents are all absent leaves its query out, and so does an asker that is no tenant here; a file none of
    whose quotes can be had leaves out its unanswerable queries too, since they are about other documents.

    Raises:
        GoldenError: a quote does not occur so often in its document; line and document are named, the quote is not
            repeated.
    """
    at_hand = {(document, version) for document, version in versions.items() if (document, version) in texts}
    here = {document for document, _ in at_hand}
    living = {item.file for item in drafted if (item.parts or item.elsewhere) and item.documents & here}
    finals = _final_tenants(tenants)
    owner = dict(tenants.select("document_id", "tenant").iter_rows())
    rows: list[dict[str, object]] = []
    spans: list[tuple[object, ...]] = []
    left_out: Counter[tuple[str, str]] = Counter()
    for item in drafted:
        wanted = item.parts or item.elsewhere
        parts = tuple(tuple(q for q in part if q.document_id in here) for part in wanted)
        if item.file not in living or (item.documents and not item.documents & here):
            left_out["none of its documents is in the corpus", "questions"] += 1
            continue
        if not all(parts) or not set(item.about) <= here:
            left_out["some of its documents are not in the corpus", "questions"] += 1
            continue
        asker = None if item.asker is None else finals.get(item.asker)
        if item.asker is not None and asker is None:
            left_out["its asker is no tenant of the corpus", "questions"] += 1
            continue
        seen = parts
        if asker is not None:
            seen = tuple(tuple(q for q in part if owner.get(q.document_id) == asker) for part in parts)
        answerable = bool(parts) and all(seen)
        rows.append(_query_row(item, asker, answerable))
        for number, part in enumerate(seen if answerable else parts):
            spans += [_span(item, number, quote, versions[quote.document_id], texts) for quote in part]
    counts = [(reason, unit, n) for (reason, unit), n in sorted(left_out.items())]
    return DraftedQueries(
        pl.DataFrame(rows, schema=QUERY_SCHEMA, orient="row"),
        pl.DataFrame(spans, schema=SPAN_SCHEMA, orient="row").unique(maintain_order=True),
        pl.DataFrame(counts, schema=LEFT_OUT_SCHEMA, orient="row"),
    )


def _span(
    item: Drafted, part: int, quote: Quote, version: str, texts: Mapping[tuple[str, str], str]
) -> tuple[object, ...]:
    document = (quote.document_id, version)
    text = texts[document]
    places = occurrences(text, quote.text)
    if quote.occurrence >= len(places):
        raise GoldenError(
            f"{item.where}, part {part}: a quote does not resolve in {quote.document_id}",
            expected=f"{quote.occurrence + 1} or more exact occurrences of its {len(quote.text)} characters",
            found=f"{len(places)} in version {version[:12]}",
            remedy="take the quote from the canonical text, white space included",
        )
    start = places[quote.occurrence]
    place = trimmed(text, start, start + len(quote.text))
    return span_row(f"q:{item.id}", part, document, place, text, grade=3, origin="quoted")


def _query_row(item: Drafted, asker: str | None, answerable: bool) -> dict[str, object]:
    hidden = bool(item.parts or item.elsewhere)
    reason = None if answerable else NOT_PERMITTED if hidden else item.reason or "absent_from_corpus"
    # Tenants that were folded into one see each other: what was meant to be hidden from the asker then is not.
    category = "tenant_scoped" if answerable and item.category == "unanswerable" else item.category
    return {
        "query_id": f"q:{item.id}",
        "question_id": f"q:{item.id}",
        "text": item.text,
        "category": category,
        "topic": None,
        "stratum": None,
        "source": "drafted",
        "set": "extended",
        "split": None,
        "scope": "corpus",
        "document_id": None,
        "asker": asker,
        "answerable": answerable,
        "unanswerable_reason": reason,
        "about": sorted(item.documents),
        "group": None,
        "paraphrased": item.paraphrased,
        "drafter": item.drafter,
        "drafted_on": item.drafted_on,
        "verified": item.verified,
        "note": item.note,
    }


def _final_tenants(tenants: pl.DataFrame) -> dict[str, str]:
    """Final tenants by themselves, and raw tenants to the final one that holds most of their documents."""
    finals: dict[str, str] = {}
    votes = tenants.group_by("raw_tenant", "tenant").len().sort(["len", "tenant"], descending=[True, False])
    for raw, final, _ in votes.iter_rows():
        finals.setdefault(raw, final)
    return finals | {tenant: tenant for tenant in tenants["tenant"]}
