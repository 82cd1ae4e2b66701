"""Putting passages that overlap a better one behind, on and off, on the calibration split.

Windows share 15 % with each neighbour, so a clause at a seam brings two of them. What is looked at: how much of a top
10 is such a neighbour, and what the answer gains when they go behind. Over RRF with its defaults, no model is asked.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from benchmarks.tuning.bench import SETS, Bench, arms, say
from benchmarks.tuning.ground import Cut, Rankings, fingerprint_of, fused
from benchmarks.tuning.outcome import difference, measured
from zeroth_assets.search.diversify import diversify
from zeroth_assets.search.passages import Passage

SHARES = (0.1, 0.5)
"""Overlap from which a passage goes behind: any neighbour of a window, and only what repeats most of another."""
READ = 20
"""Passages that the retriever reads for ten: twice as many as asked for."""
COMPARED = ("ndcg_exponential@10", "success@5", "recall@10", "answer_in_budget")


def diversity(bench: Bench) -> None:
    """No, little and any overlap in front, on both chunk sets."""
    g = bench.lend("diversification", bench.complete())
    results: dict[str, Any] = g.about()
    for name in SETS:
        cut, dense, words = arms(bench, g, name, 50)
        before = fused([dense, words], 60, 50)
        usual = _figures(cut, before)
        rows: dict[str, Any] = {"chunks": cut.chunks.height, "corpus": fingerprint_of(g, name)}
        rows["none"] = {m: measured(usual, g.groups, m) for m in COMPARED}
        for share in SHARES:
            after, neighbours = diversified(cut, before, share)
            values = _figures(cut, after)
            rows[f"overlap above {share}"] = {
                "neighbours_in_top_10": round(neighbours, 3),
                **{m: measured(values, g.groups, m) for m in COMPARED},
                **{f"gain, {m}": difference(values, usual, g.groups, m, len(SHARES) * len(COMPARED)) for m in COMPARED},
            }
            say(f"{name}, {share}: {neighbours:.2f} of ten; {rows[f'overlap above {share}'][f'gain, {COMPARED[0]}']}")
        gains = [rows[f"overlap above {share}"][f"gain, {COMPARED[0]}"]["verdict"] for share in SHARES]
        rows["chosen"] = {"max_overlap": next((s for s, v in zip(SHARES, gains, strict=True) if v == "higher"), None)}
        bench.choose("diversification", {"chunk_set": name, **rows["chosen"]})
        results[name] = rows
    bench.write("diversity", results)


def diversified(cut: Cut, rankings: Rankings, max_overlap: float) -> tuple[Rankings, float]:
    """The first `READ` of each ranking diversified, the rest behind; and the mean number of neighbours in a top 10."""
    places = {
        row["chunk_id"]: Passage(
            0, row["chunk_id"], row["document_id"], row["document_version"], 0, row["char_start"], row["char_end"],
            None, None, False, "", 0, "",
        )
        for row in cut.chunks.iter_rows(named=True)
    }  # fmt: skip
    made: Rankings = {}
    neighbours = 0
    for key, ranking in rankings.items():
        first = ranking[:READ]
        found = diversify([places[i] for i in first], max_overlap=max_overlap)
        made[key] = [first[place] for place in found.order] + ranking[READ:]
        neighbours += sum(place < 10 for place in found.deferred)
    return made, neighbours / len(rankings)


def _figures(cut: Cut, rankings: Rankings) -> pl.DataFrame:
    return cut.figures(rankings).join(cut.within_budget(rankings), on=["role", "query_id"])
