"""Late interaction over the fused shortlist against none, on the calibration split.

The shortlist is the first 20 of RRF with its defaults, as the retriever has it; behind it nothing moves. A passage is
scored once for a query, whoever asks.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import Any

import polars as pl

from benchmarks.tuning.bench import Bench, arms, say
from benchmarks.tuning.ground import Rankings, fingerprint_of, fused
from benchmarks.tuning.outcome import SEED, measured, summary
from zeroth_assets.evaluation.comparisons import Arm, Comparison, Family, compare_arms
from zeroth_assets.evaluation.retrieval_arms import NAMED_DOCUMENT
from zeroth_assets.search.passages import Passage
from zeroth_assets.search.rerank_late import MAX_SHORTLIST, LateInteraction

PRIMARY = ("ndcg_exponential@10", "success@5")
SHOWN = ("reciprocal_rank@10", "recall@10", "success@10")


def late(bench: Bench) -> None:
    name = "fixed_512"
    g = bench.lend("late interaction", bench.complete())
    if bench.args.limit is not None:
        # Whole questions, by a hash: both roles of a query stay together.
        ids = sorted(g.queries.filter(pl.col("scope") == "corpus")["query_id"], key=_turn)[: bench.args.limit]
        kept = g.asked.filter(pl.col("query_id").is_in(ids))
        g = type(g)(**{f.name: getattr(g, f.name) for f in fields(g)} | {"asked": kept})
    else:
        kept = g.asked.filter(pl.col("role") != NAMED_DOCUMENT)
        g = type(g)(**{f.name: getattr(g, f.name) for f in fields(g)} | {"asked": kept})
    encoder, _ = bench.vectors(g)
    cut, dense, words = arms(bench, g, name, 50)
    before = fused([dense, words], 60, 50)
    after = reranked(bench, before, g.asked, cut.chunks, LateInteraction(encoder, batch=8), say)
    values = {"none": cut.figures(before), "late interaction": cut.figures(after)}
    results: dict[str, Any] = g.about() | {
        "corpus": fingerprint_of(g, name),
        "chunks": cut.chunks.height,
        "shortlist": MAX_SHORTLIST,
        "reranker": LateInteraction(encoder).identity,
        "arms": {arm: summary(v, g.groups, PRIMARY[0]) for arm, v in values.items()},
        "intervals": {
            f"{arm}, {role}": {m: measured(part, g.groups, m) for m in (*PRIMARY, *SHOWN)}
            for arm, v in values.items()
            for (role,), part in v.group_by("role", maintain_order=True)
        },
        "comparisons": compared(values, g.digest, fingerprint_of(g, name), g.groups),
    }
    rows = results["comparisons"]
    positive = all(row["verdict"] == "higher" for row in rows if row["primary"])
    results["chosen"] = {"reranker": "late" if positive else "none"}
    bench.choose("late interaction", results["chosen"])
    bench.write("late", results)
    for row in rows:
        say(row["wording"])


def reranked(
    bench: Bench, before: Rankings, asked: pl.DataFrame, chunks: pl.DataFrame, reranker: LateInteraction, say: Any
) -> Rankings:
    """The first of each ranking in the order of `max_sim`; scores are kept in the scratch folder, as hashes."""
    texts = dict(chunks.select("chunk_id", "text").iter_rows())
    kept_in = bench.scratch / f"late-{hashlib.sha256(reranker.identity.encode()).hexdigest()[:12]}.json"
    known: dict[str, float] = json.loads(kept_in.read_text()) if kept_in.exists() else {}
    wanted: dict[str, dict[int, None]] = {}
    # In the order of the limit's own hash, so that a smaller limit finds what a larger one has done so far.
    for role, query_id, text in sorted(asked.select("role", "query_id", "text").rows(), key=lambda row: _turn(row[1])):
        wanted.setdefault(text, {}).update(dict.fromkeys(before[role, query_id][: reranker.shortlist]))
    for done, (text, ids) in enumerate(wanted.items(), 1):
        lacking = [i for i in ids if _pair(text, i) not in known]
        if lacking:
            found = reranker.rerank(text, [_passage(i, texts[i]) for i in lacking], 3_600.0)
            known |= {_pair(text, i): score for i, score in zip(lacking, found.scores, strict=True)}
        if done % 5 == 0 or done == len(wanted):
            kept_in.write_text(json.dumps(known))
            say(f"reranked {done} of {len(wanted)} queries")
    after: Rankings = {}
    for role, query_id, text in asked.select("role", "query_id", "text").iter_rows():
        ranking = before[role, query_id]
        first = ranking[: reranker.shortlist]
        order = sorted(range(len(first)), key=lambda at: (-known[_pair(text, first[at])], at))
        after[role, query_id] = [first[at] for at in order] + ranking[len(first) :]
    return after


def compared(values: dict[str, pl.DataFrame], golden: str, corpus: str, groups: dict[str, str]) -> list[dict[str, Any]]:
    """Paired differences over both roles, query by query; groups of documents are resampled whole."""
    keyed = {
        arm: v.with_columns((pl.col("role") + " " + pl.col("query_id")).alias("query_id")) for arm, v in values.items()
    }
    clusters = {
        key: groups[query] for key, query in zip(keyed["none"]["query_id"], values["none"]["query_id"], strict=True)
    }
    family = Family(
        "late interaction against none",
        tuple(Comparison("late interaction", "none", m) for m in PRIMARY),
        tuple(Comparison("late interaction", "none", m) for m in SHOWN),
    )
    sides = [
        Arm(arm, v.select("query_id", *PRIMARY, *SHOWN), corpus, golden, "fixed_512", "both")
        for arm, v in keyed.items()
    ]
    table = compare_arms(sides, family, seed=SEED, clusters=clusters)
    columns = [
        "primary",
        "metric",
        "n",
        "units",
        "mean_a",
        "mean_b",
        "difference",
        "ci_low",
        "ci_high",
        "p",
        "p_holm",
        "mde",
    ]
    return table.select(*columns, "verdict", "wording", "warning").to_dicts()


def _turn(query_id: str) -> bytes:
    return hashlib.sha256(f"late {query_id}".encode()).digest()


def _pair(text: str, chunk_id: int) -> str:
    return hashlib.sha256(f"{chunk_id} {text}".encode()).hexdigest()[:24]


def _passage(chunk_id: int, text: str) -> Passage:
    return Passage(0, chunk_id, "", "", 0, 0, len(text), None, None, False, "", 0, text)
