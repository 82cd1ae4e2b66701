"""The whole golden set of a corpus in one call.

What belongs here: putting the makers together in order (labels, drafted queries, duplicates, groups, splits, core) and
checking the result. Nothing is decided here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from zeroth_assets.corpus.manifest import ManifestRecord, current_versions
from zeroth_assets.evaluation.golden.composition import composition, with_core
from zeroth_assets.evaluation.golden.cuad_labels import read_cuad_labels
from zeroth_assets.evaluation.golden.cuad_queries import LEFT_OUT_SCHEMA, cuad_queries, phrasings
from zeroth_assets.evaluation.golden.drafted import drafted_queries
from zeroth_assets.evaluation.golden.drafted_file import Drafted, read_packaged
from zeroth_assets.evaluation.golden.imported import ImportedGolden
from zeroth_assets.evaluation.golden.model import check_queries, check_spans, golden_digest, texts_of
from zeroth_assets.evaluation.golden.spans import share_with_duplicates
from zeroth_assets.evaluation.golden.splits import check_splits, document_links, with_groups, with_splits

NO_LABELS = "no expert labels for this corpus"


@dataclass(frozen=True, slots=True)
class GoldenQueries:
    """Checked queries (`model.QUERY_SCHEMA`) and spans (`model.SPAN_SCHEMA`), and how they came about.

    `left_out` has reason, unit and count; `composition` is in `composition.COMPOSITION_SCHEMA`; `digest` identifies
    the set; `notes` are sentences for people, such as that there are no expert labels.
    """

    queries: pl.DataFrame
    spans: pl.DataFrame
    left_out: pl.DataFrame
    composition: pl.DataFrame
    digest: str
    notes: tuple[str, ...]


def build_golden_queries(
    documents: pl.DataFrame,
    records: Sequence[ManifestRecord],
    tenants: pl.DataFrame,
    pairs: pl.DataFrame,
    *,
    labels: Path | None,
    drafted: Sequence[Drafted] | None = None,
    answerable: int = 500,
    unanswerable: int = 350,
    seed: int = 0,
    imported: ImportedGolden | None = None,
) -> GoldenQueries:
    """Queries and truth for a corpus.

    `documents` has document_id, version and text of all sources; `records` are the manifest's; `tenants` has
    document_id, tenant and raw_tenant; `pairs` is the dedup report's frame; `labels` is the file of expert labels
    (`cuad_label_files.find_label_file`), or None; `drafted` are the packaged ones unless given. `answerable` and
    `unanswerable` count questions from labels. `imported` queries keep the split that they were published with.

    Raises:
        GoldenError: whatever breaks a rule of labels, drafted queries, spans or splits.
    """
    current = current_versions(records)
    versions = {r.document_id: r.sha256 for r in current}
    texts = texts_of(documents)
    notes: list[str] = []
    made = drafted_queries(read_packaged() if drafted is None else drafted, versions, texts, tenants)
    queries, spans, left_out = made.queries, made.spans, made.left_out
    if labels is None:
        notes.append(f"{NO_LABELS}: every query is drafted")
    else:
        known = read_cuad_labels(labels, current, texts, list(phrasings()["topics"]))
        experts = cuad_queries(known, texts, pairs, answerable=answerable, unanswerable=unanswerable, seed=seed)
        if experts.queries.is_empty():
            notes.append(f"{NO_LABELS}: the label file names none of its contracts")
        queries, spans = pl.concat([queries, experts.queries]), pl.concat([spans, experts.spans])
        left_out = pl.concat([left_out, experts.left_out])
    scoped = queries.filter(pl.col("scope") == "document")["query_id"].to_list()
    spans = share_with_duplicates(spans, scoped, texts, pairs)
    queries = with_groups(queries, spans, document_links(records, pairs))
    queries = with_core(with_splits(queries, seed=seed), seed=seed)
    if imported is not None:
        queries = pl.concat([queries, imported.queries])
        about = imported.about.name
        notes.append(
            f"{imported.queries.height} queries are as published with {about}: whole documents are their truth"
        )
    check_splits(queries)
    queries = check_queries(queries)
    spans = check_spans(spans, queries, texts)
    digest = golden_digest(queries, spans)
    if imported is not None:
        digest = hashlib.sha256(f"{digest} {imported.digest}".encode()).hexdigest()
    unverified = queries.filter(pl.col("source") == "drafted").height
    if unverified:
        notes.append(f"{unverified} queries were drafted and not verified by a human")
    return GoldenQueries(
        queries,
        spans,
        left_out.select(LEFT_OUT_SCHEMA.names()),
        composition(queries, spans),
        digest,
        tuple(notes),
    )
