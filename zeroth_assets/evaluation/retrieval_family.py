"""The comparisons of retrieval, named before anybody looks, and the arms that they are asked of.

What belongs here: which arm against which, in which measure, and lifting an arm's values out of the figures. The
statistics are `comparisons`'.

Few are primary, since each of them makes Holm's correction dearer. "Fusion against the better of its arms" is asked
against each of them: which one is better is nothing that may be looked up in the queries that then judge it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import polars as pl

from zeroth_assets.evaluation.comparison_family import Arm, Comparison, Family
from zeroth_assets.evaluation.document_figures import DOCUMENT_FIGURES, DOCUMENT_HEADLINE
from zeroth_assets.evaluation.retrieval_arms import NAMED_DOCUMENT, SINGLE_TENANT, UNRESTRICTED
from zeroth_assets.evaluation.retrieval_figures import ALL, FIGURES, HEADLINE
from zeroth_assets.settings import CHUNK_SETS

NAME: Final = "arms of retrieval"
FIXED, AWARE = "fixed_512", "section_aware"
FOUND: Final = "success@5"
DEEP: Final = "recall@50"
# Pairs of retrievers that are asked for over fixed_512, by a principal that sees everything.
_ARMS: Final = (("dense_exact", "bm25"), ("rrf", "dense_exact"), ("rrf", "bm25"), ("rrf_rerank", "rrf"))
_CUT: Final = ("dense_exact", "bm25")
_DESIGNS: Final = (("dense_postfilter", "dense_exact"),)
_LOOKED_AT: Final = (("full_text", "bm25"), ("dense_shared", "dense_exact"), ("dense_hnsw", "dense_exact"))


# The prefix on and off, where the chunk sets that have one are made at all.
_PREFIXED: Final = tuple((f"{base}_context", base) for base in (FIXED, AWARE) if f"{base}_context" in CHUNK_SETS)


def arm_name(chunk_set: str, retriever: str, role: str) -> str:
    """What an arm is called in a comparison: `fixed_512 bm25, unrestricted`."""
    return f"{chunk_set} {retriever}, {role}"


def _pairs(
    pairs: Iterable[tuple[str, str]], chunk_set: str, role: str, metrics: Iterable[str] = (HEADLINE,)
) -> list[Comparison]:
    chosen = tuple(metrics)
    return [
        Comparison(arm_name(chunk_set, one, role), arm_name(chunk_set, other, role), metric)
        for one, other in pairs
        for metric in chosen
    ]


def _cuts(retrievers: Iterable[str], role: str, metrics: Iterable[str] = (HEADLINE,)) -> list[Comparison]:
    chosen = tuple(metrics)
    return [
        Comparison(arm_name(AWARE, name, role), arm_name(FIXED, name, role), metric)
        for name in retrievers
        for metric in chosen
    ]


def _prefixes(retrievers: Iterable[str], role: str) -> list[Comparison]:
    return [
        Comparison(arm_name(prefixed, name, role), arm_name(base, name, role), HEADLINE)
        for prefixed, base in _PREFIXED
        for name in retrievers
    ]


WHOLE: Final = Family(
    NAME,
    primary=(
        *_pairs(_ARMS, FIXED, UNRESTRICTED),
        *_cuts(_CUT, UNRESTRICTED),
        *_pairs(_DESIGNS, FIXED, SINGLE_TENANT),
        *_prefixes(_CUT, UNRESTRICTED),
    ),
    exploratory=(
        *_pairs((*_ARMS, *_LOOKED_AT), AWARE, UNRESTRICTED),
        *_pairs(_LOOKED_AT, FIXED, UNRESTRICTED),
        *_cuts(("full_text", "rrf"), UNRESTRICTED),
        *_pairs((*_ARMS, *_LOOKED_AT), FIXED, SINGLE_TENANT),
        *_pairs((*_ARMS, *_DESIGNS, *_LOOKED_AT), AWARE, SINGLE_TENANT),
        *_cuts(_CUT, SINGLE_TENANT),
        *_pairs((("dense_exact", "bm25"), ("rrf", "dense_exact"), ("rrf", "bm25")), FIXED, NAMED_DOCUMENT),
        *_cuts(_CUT, NAMED_DOCUMENT),
        *_pairs((*_ARMS, ("full_text", "bm25")), FIXED, UNRESTRICTED, (FOUND, DEEP)),
        *_cuts(_CUT, UNRESTRICTED, (FOUND, DEEP)),
        *_pairs(_DESIGNS, FIXED, SINGLE_TENANT, (FOUND, DEEP)),
        *_prefixes(("rrf",), UNRESTRICTED),
        *_prefixes((*_CUT, "rrf"), SINGLE_TENANT),
    ),
)


def family_of(arms: Collection[str], *, documents: bool = False) -> tuple[Family | None, tuple[Comparison, ...]]:
    """`WHOLE`, narrowed to the arms that were measured, and the comparisons that fall away with the others.

    None where no primary comparison is left. What was measured is no choice after the fact: it hangs on the settings.
    With `documents`, the same pairs in the measures over whole documents, where no chunk is graded.
    """
    named, asked = (_over_documents(part) if documents else part for part in (WHOLE.primary, WHOLE.exploratory))
    gone = tuple(c for c in (*named, *asked) if c.a not in arms or c.b not in arms)
    primary = tuple(c for c in named if c not in gone)
    exploratory = tuple(c for c in asked if c not in gone)
    return (Family(NAME, primary, exploratory) if primary else None), gone


def _over_documents(comparisons: Iterable[Comparison]) -> tuple[Comparison, ...]:
    measures = {HEADLINE: DOCUMENT_HEADLINE, FOUND: "document_success@5", DEEP: "document_recall@100"}
    return tuple(Comparison(c.a, c.b, measures[c.metric]) for c in comparisons)


def arms_of(figures: pl.DataFrame) -> list[Arm]:
    """The arms in a table of `retrieval_figures.FIGURE_SCHEMA`, each with its values per query."""
    arms = []
    whole = figures.filter(pl.col("category") == ALL)
    for (chunk_set, name, role), rows in whole.group_by("chunk_set", "arm", "role", maintain_order=True):
        values: pl.DataFrame | None = None
        for row in rows.iter_rows(named=True):
            column = pl.DataFrame({"query_id": row["query_ids"], row["metric"]: row["values"]})
            values = column if values is None else values.join(column, on="query_id", how="full", coalesce=True)
        assert values is not None  # a group has a row
        about = rows.row(0, named=True)
        arms.append(
            Arm(
                arm_name(str(chunk_set), str(name), str(role)),
                values,
                corpus_fingerprint=about["corpus_fingerprint"],
                golden_fingerprint=about["golden_fingerprint"],
                chunk_set=str(chunk_set),
                role=str(role),
                definitions={**FIGURES, **DOCUMENT_FIGURES},
            )
        )
    return arms
