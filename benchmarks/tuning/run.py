"""Parameters of retrieval, tuned on the calibration split alone, with every configuration that was looked at.

    python -m benchmarks.tuning.run check   --home .zeroth
    python -m benchmarks.tuning.run lexical --home .zeroth-published --mirror ../shared/corpus
    python -m benchmarks.tuning.run fusion  --home ... | late | diversity | context | chunks | ef | hygiene

`check` holds the rankings made here (BM25 over postings built anew, exact search in NumPy, their fusion) against the
artefact `retrieval_runs` of the home. The others read `chunks_*`, `embeddings_*` and `parsed_documents` of the home,
write nothing there and need no database; `ef` makes a throw-away server. Queries are the home's `golden_queries`, or
made anew from its documents where it has none. They are lent by the split ledger beside this file, which records what
was read and what was chosen. Figures go to `results/<name>.json`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.tuning.bench import HERE, OBJECTIVE, SETS, Bench, arms, picked, say
from benchmarks.tuning.cutting import chunks, context
from benchmarks.tuning.diversity import diversity
from benchmarks.tuning.ground import Ground, Rankings, encoder_of, fingerprint_of, fused, ground, stored_cut
from benchmarks.tuning.outcome import MEASURES, difference, measured, summary
from benchmarks.tuning.reranking import late
from benchmarks.tuning.walking import ef
from zeroth_assets.evaluation.golden.ledger import SplitLedger
from zeroth_assets.search.scoring import Scoring

K1 = (0.4, 0.8, 1.2, 1.5, 2.0, 3.0)
B = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
DEFAULT_BM25 = {"k1": 1.5, "b": 0.75}
DEPTHS = (10, 20, 50, 100, 200)
CONSTANTS = (1, 5, 10, 20, 60, 120)
DEFAULT_RRF = {"depth": 50, "rrf_k": 60}


def lexical(bench: Bench) -> None:
    """k1 and b of BM25 on both chunk sets."""
    tenants = bench.complete()
    g = bench.lend("bm25", tenants)
    results: dict[str, Any] = g.about()
    for name in SETS:
        cut = stored_cut(g, name)
        say(f"{name}: {cut.chunks.height:,} chunks, {g.asked.height} asked")
        grid = []
        for k1 in K1:
            grid += [({"k1": k1, "b": b}, cut.figures(cut.lexical(Scoring(k1=k1, b=b)))) for b in B]
            say(f"{name}: k1 = {k1}")
        results[name] = {"chunks": cut.chunks.height, "corpus": fingerprint_of(g, name)} | picked(grid, DEFAULT_BM25, g)
        bench.choose("bm25", {"chunk_set": name, **results[name]["chosen"]})
        say(f"{name}: best {results[name]['best']}, gain {results[name]['gain']}")
    bench.write("lexical", results)


def fusion(bench: Bench) -> None:
    """Depth and constant of RRF on both chunk sets, and each arm by itself."""
    g = bench.lend("rrf", bench.complete())
    results: dict[str, Any] = g.about()
    for name in SETS:
        cut, dense, words = arms(bench, g, name, max(DEPTHS))
        alone = {"dense": cut.figures(dense), "bm25": cut.figures(words)}
        grid = [
            ({"depth": depth, "rrf_k": k}, cut.figures(fused([dense, words], k, depth)))
            for depth in DEPTHS
            for k in CONSTANTS
        ]
        usual = next(values for p, values in grid if p == DEFAULT_RRF)
        results[name] = {"chunks": cut.chunks.height, "corpus": fingerprint_of(g, name)} | picked(grid, DEFAULT_RRF, g)
        results[name]["alone"] = {arm: summary(values, g.groups, OBJECTIVE) for arm, values in alone.items()}
        results[name]["rules"] = rules({"rrf": usual, **alone}, g)
        results[name]["shared_of_top_20"] = shared(dense, words)
        bench.choose("rrf", {"chunk_set": name, **results[name]["chosen"]})
        say(f"{name}: best {results[name]['best']}, gain {results[name]['gain']}")
    bench.write("fusion", results)


def shared(one: Rankings, other: Rankings) -> dict[str, float]:
    """Mean overlap of the top 20 of two arms, by role."""
    counts: dict[str, list[int]] = {}
    for key, ranking in one.items():
        counts.setdefault(key[0], []).append(len(set(ranking[:20]) & set(other[key][:20])))
    return {role: round(sum(found) / len(found), 2) for role, found in counts.items()}


def rules(values: dict[str, pl.DataFrame], g: Ground) -> dict[str, Any]:
    """What decides between arms, by role and by source of the query, each with its interval."""
    source = g.queries.select("query_id", "source")
    made: dict[str, Any] = {}
    parts = {role: pl.col("role") == role for role in values["rrf"]["role"].unique().sort()}
    parts |= {
        f"{role}, {kind} queries": (pl.col("role") == role) & (pl.col("source") == kind)
        for role in ("unrestricted", "single_tenant")
        for kind in ("drafted", "expert")
    }
    for label, chosen in parts.items():
        cut = {arm: frame.join(source, on="query_id").filter(chosen) for arm, frame in values.items()}
        if cut["rrf"].is_empty():
            continue
        made[label] = {
            arm: {m: measured(frame, g.groups, m) for m in MEASURES} | {"unreachable": int(frame["unreachable"].sum())}
            for arm, frame in cut.items()
        }
        for one, other in (("rrf", "dense"), ("rrf", "bm25"), ("bm25", "dense")):
            for m in (OBJECTIVE, "ndcg_exponential@10"):
                made[label][f"{one} less {other}, {m}"] = difference(cut[one], cut[other], g.groups, m)
    return made


def check(bench: Bench) -> None:
    """Rankings made here against those of the home's own arms."""
    tenants = sorted(set(bench.complete()) & set(bench.store.partitions("bm25_index_fixed_512")))
    g = ground(bench.store, bench.found, bench.found[0], tenants, answerable=False)
    ours = encoder_of(bench.scratch).fingerprint.digest
    results: dict[str, Any] = {}
    for name in SETS:
        made: dict[str, Rankings] = {}
        if {bench.store.require(f"embeddings_{name}", t).details["fingerprint_digest"] for t in tenants} == {ours}:
            _, dense, words = arms(bench, g, name, 50)
            made = {"dense_exact": dense, "rrf": fused([dense, words], 60, 50)}
        made["bm25"] = stored_cut(g, name).lexical(Scoring())
        for arm, rankings in made.items():
            if not bench.store.exists("retrieval_runs", f"{name}.{arm}"):
                continue
            theirs = bench.store.read_frame("retrieval_runs", f"{name}.{arm}").select("role", "query_id", "ranking")
            counts = {"compared": 0, "same": 0, "same as sets": 0, "chunks apart": 0}
            for role, query_id, ranking in theirs.iter_rows():
                mine = rankings.get((role, query_id))
                if mine is None:
                    continue
                found = [int(i) for i in ranking][:50]
                counts["compared"] += 1
                counts["same"] += mine[:50] == found
                counts["same as sets"] += set(mine[:50]) == set(found)
                counts["chunks apart"] += len(set(found) ^ set(mine[:50]))
            results[f"{name}.{arm}"] = counts
            say(f"{name}.{arm}: {counts}")
    bench.write("check", results)


def hygiene(bench: Bench) -> None:
    """Whether everything that was chosen was chosen without the test split."""
    results = {path.stem: json.loads(path.read_text()) for path in sorted((HERE / "results").glob("*.json"))}
    ledger = SplitLedger.load(HERE / "ledger.jsonl")
    for retriever, source in (
        ("bm25", "lexical"),
        ("rrf", "fusion"),
        ("chunking", "chunks"),
        ("diversification", "diversity"),
    ):
        for name in SETS:
            if name in results.get(source, {}):
                chosen = {"chunk_set": name, **results[source][name]["chosen"]}
                say(str(ledger.check(bench.found[0], retriever=retriever, parameters=chosen)))
    for retriever, source in (("hnsw", "ef"), ("late interaction", "late"), ("context", "context")):
        if "chosen" in results.get(source, {}):
            say(str(ledger.check(bench.found[0], retriever=retriever, parameters=results[source]["chosen"])))


def main() -> None:
    ways: dict[str, Callable[[Bench], None]] = {
        "check": check, "lexical": lexical, "fusion": fusion, "late": late, "diversity": diversity,
        "context": context, "chunks": chunks, "ef": ef, "hygiene": hygiene,
    }  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=ways)
    parser.add_argument("--home", type=Path, required=True, help="a state folder; it is only read")
    parser.add_argument("--mirror", type=Path, help="for expert labels, where the home has no golden queries")
    parser.add_argument("--tenants", nargs="+", default=[], help="these alone; default: all that are complete")
    parser.add_argument(
        "--scratch", type=Path, default=Path(tempfile.gettempdir()) / "zeroth-tuning", help="memo and engine cache"
    )
    parser.add_argument("--limit", type=int, help="late: queries at most; context: chunks that are embedded, at most")
    parser.add_argument("--at", help="the time to record; default: now")
    args = parser.parse_args()
    began = time.monotonic()
    ways[args.what](Bench(args))
    say(f"{args.what} took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
