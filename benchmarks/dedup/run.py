"""Containment by inverted index against datasketch's MinHash, on the same shingles: time, recall and precision.

    python benchmarks/dedup/run.py --mirror ../shared/corpus

Truth is every pair of the corpus whose exact containment reaches the threshold, counted over all shingles of all pairs,
plus contracts planted whole into filings. The peer is spared the tokenising: it gets the shingle hashes ready-made.
"""

from __future__ import annotations

import argparse
import functools
import random
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl
from datasketch import MinHash, MinHashLSH, MinHashLSHEnsemble

from zeroth_assets.corpus.dedup import THRESHOLD, dedup_report
from zeroth_assets.corpus.dedup_index import _incidence, _overlaps
from zeroth_assets.corpus.manifest import current_versions, load_manifest
from zeroth_assets.corpus.parse import parse_source
from zeroth_assets.corpus.shingles import Hashes, shingle_hashes

PLANTED = 40
PERMUTATIONS = 128
PARTITIONS = 32
Pair = tuple[int, int]
T = TypeVar("T")


def read_documents(mirror: Path) -> pl.DataFrame:
    manifest = load_manifest(Path(__file__).parents[2] / "corpus_manifest.json")
    records = current_versions(manifest.records)
    report = parse_source(records, lambda r: (mirror / str(r.mirror_path)).read_bytes())
    rows = [(d.document_id, d.version, d.source, d.text) for d in report.documents]
    return pl.DataFrame(rows, schema=["document_id", "version", "source", "text"], orient="row")


def plant(documents: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    """Filings that hold a contract each, named after both."""
    contracts = documents.filter((pl.col("source") == "cuad") & (pl.col("text").str.len_chars() > 8_000)).rows()
    filings = documents.filter((pl.col("source") == "sec") & (pl.col("text").str.len_chars() > 100_000)).rows()
    rows = []
    for contract in rng.sample(contracts, PLANTED):
        filing = rng.choice(filings)
        middle = len(filing[3]) // 2
        text = f"{filing[3][:middle]}\n\n{contract[3]}\n\n{filing[3][middle:]}"
        rows.append((f"planted:{contract[0]}", contract[1], "planted", text))
    return pl.concat([documents, pl.DataFrame(rows, schema=documents.schema, orient="row")])


def exact_pairs(full: list[Hashes]) -> set[Pair]:
    """(smaller, larger) of every pair at the threshold, over all shingles: the truth."""
    sizes = np.array([len(h) for h in full])
    matrix, _ = _incidence(full)
    pairs: set[Pair] = set()
    for rows, columns, shared in _overlaps(matrix, matrix):
        ahead = (sizes[rows] < sizes[columns]) | ((sizes[rows] == sizes[columns]) & (rows < columns))
        hit = ahead & (shared / sizes[rows] >= THRESHOLD)
        pairs.update(zip(rows[hit].tolist(), columns[hit].tolist(), strict=True))
    return pairs


def sketches(full: list[Hashes]) -> list[MinHash]:
    made = []
    for hashes in full:
        sketch = MinHash(num_perm=PERMUTATIONS, hashfunc=lambda value: value & 0xFFFFFFFF)
        sketch.update_batch(hashes.tolist())
        made.append(sketch)
    return made


def by_ensemble(full: list[Hashes], made: list[MinHash]) -> Iterator[Pair]:
    """datasketch's index for containment; the smaller document asks."""
    index = MinHashLSHEnsemble(threshold=THRESHOLD, num_perm=PERMUTATIONS, num_part=PARTITIONS)
    index.index((i, sketch, len(full[i])) for i, sketch in enumerate(made))
    for i, sketch in enumerate(made):
        for j in index.query(sketch, len(full[i])):
            if (len(full[i]), i) < (len(full[j]), j):
                yield i, j


def by_jaccard(full: list[Hashes], made: list[MinHash]) -> Iterator[Pair]:
    """datasketch's index for Jaccard, what most pipelines use."""
    index = MinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS)
    for i, sketch in enumerate(made):
        index.insert(i, sketch)
    for i, sketch in enumerate(made):
        for j in index.query(sketch):
            if (len(full[i]), i) < (len(full[j]), j):
                yield i, j


def timed(work: Callable[[], T]) -> tuple[T, float]:
    started = time.process_time()
    return work(), time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mirror", type=Path)
    parser.add_argument("--documents", type=Path, help="parsed documents as Parquet, in place of --mirror")
    parser.add_argument("--seed", type=int, default=20_240_501)
    arguments = parser.parse_args()
    documents = pl.read_parquet(arguments.documents) if arguments.documents else read_documents(arguments.mirror)
    documents = plant(documents, random.Random(arguments.seed)).sort("document_id", "version")
    ids = documents["document_id"].to_list()
    texts = documents["text"].to_list()
    print(f"{len(ids)} documents, {sum(map(len, texts)):,} characters, {PLANTED} contracts planted in filings")

    report, ours = timed(lambda: dedup_report(documents, seed=arguments.seed))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    place = {document_id: i for i, document_id in enumerate(ids)}
    sides = report.pairs.select("contained_id", "container_id").iter_rows()
    found = {(place[one], place[two]) for one, two in sides}

    full, shingling = timed(lambda: shingle_hashes(texts))
    truth, counting = timed(lambda: exact_pairs(full))
    known = {pair for pair in truth if ids[pair[1]].removeprefix("planted:") == ids[pair[0]]}
    print(f"truth: {len(truth)} pairs at {THRESHOLD} (of them {len(known)} planted), {counting:.1f} s of CPU\n")
    print("| method | CPU s | pairs offered | recall | recall of planted | precision |")
    print("| --- | --- | --- | --- | --- | --- |")

    def line(name: str, seconds: float, offered: set[Pair]) -> None:
        right = offered & truth
        print(
            f"| {name} | {seconds:.1f} | {len(offered)} | {len(right) / len(truth):.3f} | "
            f"{len(offered & known) / len(known):.3f} | {len(right) / max(1, len(offered)):.3f} |",
            flush=True,
        )

    line(f"dedup_report, all of it (peak {peak:.2f} GB)", ours, found)
    made, sketching = timed(lambda: sketches(full))
    for name, method in (("LSH Ensemble (containment)", by_ensemble), ("MinHash LSH (Jaccard)", by_jaccard)):
        offered, seconds = timed(functools.partial(lambda m: set(m(full, made)), method))
        line(f"datasketch {name}", shingling + sketching + seconds, offered)
    print(f"\nof the peers' time {shingling:.1f} s are our shingling and {sketching:.1f} s their sketches")


if __name__ == "__main__":
    main()
