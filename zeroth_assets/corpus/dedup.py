"""Duplicates by containment: which document stands inside which other.

What belongs here: the measure, the report over a corpus, the verdict on its controls, and the links between exact
duplicates that later stages follow. Duplicates are reported and linked, never deleted.

Containment (Broder, 1997) of A in B, A the smaller: |A and B| / |A| over shingles of five normalised words. Jaccard,
|A and B| / |A or B|, stands beside it to show why it is the wrong measure: a contract inside a long filing has a
containment of 1 and a Jaccard near 0.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from zeroth_assets.corpus.dedup_controls import judge_controls, make_controls
from zeroth_assets.corpus.dedup_index import Candidate, ShingleIndex, estimate_of
from zeroth_assets.corpus.shingles import Progress, shingle_hashes, shingle_set
from zeroth_assets.errors import MeasurementError

DEDUP_VERSION = "1"
THRESHOLD = 0.80
RANDOM_PAIRS = 200

_SIDES: dict[str, pl.DataType | type[pl.DataType]] = {
    f"{side}_{field}": pl.String for side in ("contained", "container") for field in ("id", "version", "source")
}
_PAIR_FIELDS: dict[str, pl.DataType | type[pl.DataType]] = {
    **_SIDES,
    "kind": pl.String,
    "containment": pl.Float64,
    "reverse_containment": pl.Float64,
    "jaccard": pl.Float64,
    "estimate": pl.Float64,
    "standard_error": pl.Float64,
    "ci_low": pl.Float64,
    "ci_high": pl.Float64,
    "method": pl.String,
    "shingles_compared": pl.Int64,
    "shared_shingles": pl.Int64,
    "contained_shingles": pl.Int64,
    "container_shingles": pl.Int64,
}
PAIR_SCHEMA = pl.Schema(_PAIR_FIELDS)
SAMPLING_SCHEMA = pl.Schema(
    {
        "drawn_from": pl.String,
        "contained_id": pl.String,
        "container_id": pl.String,
        "shingles_compared": pl.Int64,
        "estimate": pl.Float64,
        "exact": pl.Float64,
        "error": pl.Float64,
        "standard_error": pl.Float64,
    }
)
EXACT_SCHEMA = pl.Schema(
    {
        "document_id": pl.String,
        "version": pl.String,
        "representative": pl.String,
        "next": pl.String,
        "members": pl.Int64,
    }
)


@dataclass(frozen=True, slots=True)
class DedupReport:
    """What was found in a corpus, and how far it is to be trusted.

    `pairs` (`PAIR_SCHEMA`) holds each pair whose containment reaches `threshold`, highest first. `containment` is
    exact; `estimate` with its error is what the sample said before. `kind` is `same bytes`, `same text` (1.0 both
    ways), `near duplicate` (both ways at the threshold) or `contained`. `sampling` (`SAMPLING_SCHEMA`) compares
    estimates with exact values, on random pairs and on pairs near or above the threshold. `controls` is in
    `dedup_controls.CONTROL_SCHEMA`.
    """

    pairs: pl.DataFrame
    controls: pl.DataFrame
    sampling: pl.DataFrame
    threshold: float
    seed: int
    documents: int
    short_documents: int
    empty_documents: int
    shingles: int
    candidates: int
    seconds: float

    def summary(self) -> dict[str, Any]:
        """Counts, timing and the estimate's mean and worst absolute error, for an asset's metadata."""
        figures: dict[str, Any] = {
            "documents": self.documents,
            "compared in full (short)": self.short_documents,
            "without a word": self.empty_documents,
            "distinct shingles": self.shingles,
            "pairs looked at in full": self.candidates,
            "pairs reported": self.pairs.height,
            "seconds": round(self.seconds, 2),
        }
        for drawn_from, group in sorted(self.sampling.group_by("drawn_from")):
            errors = group["error"].abs()
            figures[f"estimate, {drawn_from[0]}: pairs"] = group.height
            figures[f"estimate, {drawn_from[0]}: mean error"] = round(_number(errors.mean()), 5)
            figures[f"estimate, {drawn_from[0]}: worst error"] = round(_number(errors.max()), 5)
        return figures


@dataclass(frozen=True, slots=True)
class ControlsVerdict:
    """Whether the detector answered every control rightly; `failures` says which not, and how."""

    passed: bool
    failures: tuple[str, ...]


def containment(a: str, b: str) -> float:
    """Share of the smaller text's distinct shingles that the larger one has; 0.0 where either holds no word.

    Exact: no sample, no hash. Which is the smaller is a matter of shingles, so the order of the arguments is none.

    >>> containment("one two three four five six", "zero one two three four five seven")
    0.5
    """
    smaller, larger = sorted((shingle_set(a), shingle_set(b)), key=len)
    return len(smaller & larger) / len(smaller) if smaller else 0.0


def dedup_report(
    documents: pl.DataFrame,
    *,
    threshold: float = THRESHOLD,
    seed: int = 0,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> DedupReport:
    """Every pair of documents of which one holds at least `threshold` of the other, with controls and sampling errors.

    `documents` has `document_id`, `version`, `source` and `text`, one row per document version. `progress` counts
    documents shingled. Controls and random pairs depend on `seed` and the documents alone.

    Raises:
        MeasurementError: the threshold is not in (0, 1], or a document version comes twice.
    """
    _check(documents, threshold)
    started = clock()
    documents = documents.select("document_id", "version", "source", "text").sort("document_id", "version")
    sources, texts = documents["source"].to_list(), documents["text"].to_list()
    corpus = ShingleIndex(shingle_hashes(texts, progress))
    controls = make_controls(sources, texts, corpus, seed)
    index = corpus.extended(shingle_hashes(controls.texts))
    size = documents.height
    candidates = index.candidates(threshold)
    shared = {(c.smaller, c.larger): index.shared(c.smaller, c.larger) for c in candidates}
    found = {pair for pair, count in shared.items() if count / index.sizes[pair[0]] >= threshold}
    own = [c for c in candidates if max(c.smaller, c.larger) < size]
    facts = documents.select("document_id", "version", "source").rows()
    reported = [c for c in own if (c.smaller, c.larger) in found]
    rows = [_pair_row(facts, index, c, shared[c.smaller, c.larger], threshold) for c in reported]
    order = ["containment", "reverse_containment", "contained_id", "container_id"]
    pairs = pl.DataFrame(rows, schema=PAIR_SCHEMA, orient="row")
    return DedupReport(
        pairs=pairs.sort(order, descending=[True, True, False, False]),
        controls=judge_controls(controls, size, [f[0] for f in facts], index, found),
        sampling=_sampling(facts, corpus, own, seed),
        threshold=threshold,
        seed=seed,
        documents=size,
        short_documents=int(np.sum(~corpus.is_long & (corpus.sizes > 0))),
        empty_documents=int(np.sum(corpus.sizes == 0)),
        shingles=int(corpus.sizes.sum()),
        candidates=len(own),
        seconds=clock() - started,
    )


def controls_verdict(report: DedupReport) -> ControlsVerdict:
    """Whether the report may be believed: every control passed, and something was found in the positive ones."""
    failures = [
        f"{row['control']}: expected {row['expected']}; containment {row['containment']:.4f}, estimate "
        f"{row['estimate']:.4f}, {'found' if row['found'] else 'not found'} ({row['contained']} in {row['container']})"
        for row in report.controls.filter(~pl.col("passed")).iter_rows(named=True)
    ]
    if not report.controls["found"].any():
        failures.append("nothing was found in the positive controls: the detector finds nothing at all")
    return ControlsVerdict(not failures, tuple(failures))


def exact_duplicates(report: DedupReport) -> pl.DataFrame:
    """Documents that hold the same text as another, in `EXACT_SCHEMA`: one row per document, linked within its group.

    `representative` is the group's first `document_id`, `next` the following member's (None at the end). The same text
    means the same set of shingles: layout and case may differ.
    """
    leader: dict[tuple[str, str], tuple[str, str]] = {}

    def find(node: tuple[str, str]) -> tuple[str, str]:
        while leader.setdefault(node, node) != node:
            node = leader[node]
        return node

    for row in report.pairs.filter(pl.col("kind").is_in(["same bytes", "same text"])).iter_rows(named=True):
        one = find((row["contained_id"], row["contained_version"]))
        two = find((row["container_id"], row["container_version"]))
        leader[max(one, two)] = min(one, two)
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for node in sorted(leader):
        groups.setdefault(find(node), []).append(node)
    rows = [
        (*member, head[0], following[0] if following else None, len(members))
        for head, members in sorted(groups.items())
        for member, following in zip(members, [*members[1:], None], strict=True)
    ]
    return pl.DataFrame(rows, schema=EXACT_SCHEMA, orient="row")


def _check(documents: pl.DataFrame, threshold: float) -> None:
    if not 0 < threshold <= 1:
        raise MeasurementError("The dedup threshold is refused", expected="above 0, at most 1", found=str(threshold))
    twice = documents.filter(documents.select("document_id", "version").is_duplicated())
    if not twice.is_empty():
        raise MeasurementError(
            "A document version comes twice",
            expected="one row per document_id and version",
            found=", ".join(sorted(set(twice["document_id"]))[:5]),
            remedy="run `zeroth corpus verify`; the parsed documents hold a row too many",
        )


def _pair_row(
    facts: list[tuple[str, str, str]], index: ShingleIndex, pair: Candidate, shared: int, threshold: float
) -> tuple[object, ...]:
    small, large = int(index.sizes[pair.smaller]), int(index.sizes[pair.larger])
    estimate = estimate_of(pair.shared, pair.kept, small)
    reverse = shared / large
    if facts[pair.smaller][1] == facts[pair.larger][1]:
        kind = "same bytes"
    elif shared == small == large:
        kind = "same text"
    else:
        kind = "near duplicate" if reverse >= threshold else "contained"
    figures = (shared / small, reverse, shared / (small + large - shared))
    sample = (estimate.value, estimate.standard_error, estimate.low, estimate.high)
    method = "sample" if pair.by_sample else "full (short document)"
    return (*facts[pair.smaller], *facts[pair.larger], kind, *figures, *sample, method, pair.kept, shared, small, large)


def _sampling(
    facts: list[tuple[str, str, str]], corpus: ShingleIndex, candidates: list[Candidate], seed: int
) -> pl.DataFrame:
    """Estimate against exact for random pairs of documents that are sampled, and for pairs that were looked at."""
    rng = random.Random(seed)  # noqa: S311 (a draw that must be repeatable, not a secret)
    long = [int(i) for i in np.flatnonzero(corpus.is_long)]
    possible = len(long) * (len(long) - 1) // 2
    drawn: set[tuple[int, int]] = set()
    while len(drawn) < min(RANDOM_PAIRS, possible):
        drawn.add(corpus.ordered(*rng.sample(long, 2)))
    by_sample = [c for c in candidates if c.by_sample]
    near = rng.sample(by_sample, min(RANDOM_PAIRS, len(by_sample)))
    rows = [_sampling_row(facts, corpus, "random pairs", corpus.compare(*pair)) for pair in sorted(drawn)]
    rows += [_sampling_row(facts, corpus, "pairs near or above the threshold", c) for c in near]
    return pl.DataFrame(rows, schema=SAMPLING_SCHEMA, orient="row")


def _sampling_row(
    facts: list[tuple[str, str, str]], corpus: ShingleIndex, drawn_from: str, pair: Candidate
) -> tuple[object, ...]:
    size = int(corpus.sizes[pair.smaller])
    estimate = estimate_of(pair.shared, pair.kept, size)
    exact = corpus.shared(pair.smaller, pair.larger) / size
    names = (facts[pair.smaller][0], facts[pair.larger][0])
    return (drawn_from, *names, pair.kept, estimate.value, exact, estimate.value - exact, estimate.standard_error)


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
