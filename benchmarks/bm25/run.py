"""BM25 with tenants and explanations against bm25s, one thread, on the same chunks and the same terms, in one run.

    python benchmarks/bm25/run.py --mirror ../shared/corpus
    python benchmarks/bm25/run.py --chunks '.zeroth-corpus/artefacts/chunks_fixed_512/*.parquet' --sample 10000

Chunks are `chunks_fixed_512` if given by `--chunks` (one Parquet file per tenant), else windows of 350 words with an
overlap of 50 over the parsed documents, which are as long as windows of 512 tokens. Queries are sentences drawn from
the chunks. Each timing is CPU time, so that a busy machine does not decide.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import bm25s
import numpy as np
import polars as pl

from zeroth_assets.corpus.manifest import current_versions, load_manifest
from zeroth_assets.corpus.parse import parse_source
from zeroth_assets.search.analyser import ANALYSERS, DEFAULT_ANALYSER
from zeroth_assets.search.bm25 import BM25Index
from zeroth_assets.search.postings import Array, Postings
from zeroth_assets.search.postings_build import build_postings
from zeroth_assets.search.postings_file import open_postings, write_postings

K = 10
TENANTS = 60
T = TypeVar("T")
Columns = tuple[list[int], list[str], list[str]]  # chunk ids, tenants, texts


def chunks_by_words(documents: pl.DataFrame, words: int = 350, overlap: int = 50) -> Columns:
    """Windows of words; each source's documents are dealt to a third of the tenants."""
    ids: list[int] = []
    tenants: list[str] = []
    texts: list[str] = []
    for name, source, text in documents.select("document_id", "source", "text").iter_rows():
        places = [match.start() for match in re.finditer(r"\S+", text)]
        tenant = f"{source}-{int(hashlib.sha256(name.encode()).hexdigest(), 16) % (TENANTS // 3):02}"
        for first in range(0, max(1, len(places) - overlap), words - overlap):
            window = [*places, len(text)][first : first + words + 1]
            ids.append(int.from_bytes(hashlib.sha256(f"{name}:{first}".encode()).digest()[:8], "big") >> 1)
            tenants.append(tenant)
            texts.append(text[window[0] : window[-1]])
    return ids, tenants, texts


def read_documents(mirror: Path) -> pl.DataFrame:
    manifest = load_manifest(Path(__file__).parents[2] / "corpus_manifest.json")
    report = parse_source(current_versions(manifest.records), lambda r: (mirror / str(r.mirror_path)).read_bytes())
    rows = [(d.document_id, d.source, d.text) for d in report.documents]
    return pl.DataFrame(rows, schema=["document_id", "source", "text"], orient="row")


def read_chunks(pattern: str) -> Columns:
    frames = [
        (Path(f).name.partition(".")[0], pl.read_parquet(f))
        for f in sorted(Path(pattern).parent.glob(Path(pattern).name))
    ]
    return (
        [i for _, frame in frames for i in frame["chunk_id"].to_list()],
        [tenant for tenant, frame in frames for _ in range(frame.height)],
        [text for _, frame in frames for text in frame["text"].to_list()],
    )


def sentences(texts: Sequence[str], number: int, rng: random.Random) -> list[str]:
    drawn: list[str] = []
    while len(drawn) < number:
        found = re.findall(r"[A-Z][^.!?]{40,200}[.!?]", rng.choice(texts))
        if found:
            drawn.append(" ".join(rng.choice(found).split()))
    return drawn


def timed(work: Callable[[], T]) -> tuple[T, float]:
    started = time.process_time()
    return work(), time.process_time() - started


def best_of_each(*ways: Callable[[list[str]], Any], queries: list[list[str]], rounds: int = 4) -> list[float]:
    """The least time of each way over all queries; by turns, so that each meets the machine in the same mood."""
    best = [float("inf")] * len(ways)
    for _ in range(rounds):
        for i, way in enumerate(ways):
            best[i] = min(best[i], timed(lambda w=way: [w(terms) for terms in queries])[1])  # type: ignore[misc]
    return best


def resident() -> float:
    """Resident memory of this process in MB, without file pages."""
    fields = Path("/proc/self/status").read_text().split("RssAnon:")[1].split()
    return int(fields[0]) / 1024


def difference(index: BM25Index, retriever: Any, ids: Array, queries: list[list[str]]) -> tuple[float, int]:
    """Largest difference in score, and queries whose top differs by more than the peer's rounding explains."""
    worst, wrong = 0.0, 0
    for terms in queries:
        theirs = retriever.get_scores(terms) * 2.5
        by_id = dict(zip(ids.tolist(), theirs.tolist(), strict=True))
        hits = index.search_terms(terms, K)
        worst = max([worst, *(abs(by_id[hit.chunk_id] - hit.score) / hit.score for hit in hits)])
        best = np.sort(theirs)[::-1][: len(hits)]
        wrong += not np.allclose([by_id[hit.chunk_id] for hit in hits], best, rtol=1e-5)
    return worst, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", type=Path)
    parser.add_argument("--documents", type=Path, help="parsed documents as Parquet, in place of --mirror")
    parser.add_argument("--chunks", help="pattern of Parquet files of chunks, in place of --mirror")
    parser.add_argument("--sample", type=int, help="so many chunks only")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--analyser", default=DEFAULT_ANALYSER)
    parser.add_argument("--seed", type=int, default=20_240_501)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    if arguments.chunks:
        ids, tenants, texts = read_chunks(arguments.chunks)
    else:
        read = arguments.documents and pl.read_parquet(arguments.documents)
        ids, tenants, texts = chunks_by_words(read_documents(arguments.mirror) if read is None else read)
    keep = sorted(rng.sample(range(len(ids)), min(len(ids), arguments.sample or len(ids))))
    ids, tenants, texts = [ids[i] for i in keep], [tenants[i] for i in keep], [texts[i] for i in keep]
    analyser = ANALYSERS[arguments.analyser]
    print(
        f"{len(ids):,} chunks, {len(set(tenants))} tenants, {sum(map(len, texts)) / 1e6:.0f} MB, {analyser.identity}\n"
    )

    base = resident()
    postings, building = timed(
        lambda: build_postings(ids, texts, tenant="all", chunk_set="benchmark", analyser=analyser)
    )
    held = resident() - base
    by_tenant: dict[str, list[int]] = {}
    for i, tenant in enumerate(tenants):
        by_tenant.setdefault(tenant, []).append(i)

    def build(tenant: str, rows: list[int]) -> Postings:
        chosen = [texts[i] for i in rows]
        return build_postings([ids[i] for i in rows], chosen, tenant=tenant, chunk_set="benchmark", analyser=analyser)

    each, building_each = timed(lambda: [build(tenant, rows) for tenant, rows in by_tenant.items()])
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / p.parts[0].tenant for p in each]
        _, writing = timed(lambda: write_all(each, paths))
        size = sum(path.stat().st_size for path in paths) / 1e6
        mapped, opening = timed(lambda: [open_postings(path) for path in paths])
        separate = BM25Index(mapped)
        joined, joining = timed(separate.joined)
        lines = [sentence.split() for sentence in sentences(texts, arguments.queries, rng)]
        queries = [[term for word in line for term in analyser.terms(word)] for line in lines]

        number: dict[str, int] = {}

        def numbered() -> list[list[int]]:
            split = [[term for word in text.split() for term in analyser.terms(word)] for text in texts]
            return [[number.setdefault(term, len(number)) for term in terms] for terms in split]

        tokens, analysing = timed(numbered)
        before = resident()
        retriever = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        _, indexing = timed(lambda: retriever.index((tokens, number), show_progress=False))
        theirs_held = resident() - before
        _, peer_tokenising = timed(lambda: bm25s.tokenize(texts, stopwords=None, show_progress=False))

        index = BM25Index([postings])
        single = BM25Index(mapped[:1])
        found = [index.search_terms(terms, K) for terms in queries]
        again = [separate.search_terms(terms, K) for terms in queries]
        same = [joined.search_terms(terms, K) for terms in queries]
        ours, by_parts, restricted, theirs = best_of_each(
            lambda terms: index.search_terms(terms, K),
            lambda terms: separate.search_terms(terms, K),
            lambda terms: single.search_terms(terms, K),
            lambda terms: retriever.retrieve([terms], k=K, show_progress=False),
            queries=queries,
        )
        one_by_one = [timed(lambda t=terms: index.search_terms(t, K))[1] for terms in queries]  # type: ignore[misc]
        worst, wrong = difference(index, retriever, np.asarray(ids), queries)
        scores = retriever.scores
        theirs_bytes = (scores["data"].nbytes + scores["indices"].nbytes + scores["indptr"].nbytes) / 1e6

        q = len(queries)
        print("| CPU seconds | here | bm25s |\n| --- | --- | --- |")
        print(f"| texts to index | {building:.2f} | {analysing + indexing:.2f} with the same terms |")
        print(f"| the same with its own tokeniser (one pattern, no parts) | | {peer_tokenising + indexing:.2f} |")
        print(f"| of which indexing alone | | {indexing:.2f} |")
        print(f"| one index per tenant | {building_each:.2f} | |")
        print(f"| write; open and verify all tenants; join them | {writing:.2f}; {opening:.2f}; {joining:.2f} | |")
        print(f"| queries/s, all tenants, one index, k = {K} | {q / ours:,.0f} | {q / theirs:,.0f} |")
        print(f"| queries/s, all {len(paths)} tenants, not joined | {q / by_parts:,.0f} | |")
        print(f"| queries/s, one tenant | {q / restricted:,.0f} | |")
        print(
            f"| p50 and p95 of a query, ms | {1e3 * np.median(one_by_one):.2f}, "
            f"{1e3 * np.quantile(one_by_one, 0.95):.2f} | |"
        )
        print(
            f"| MB of arrays (terms included here, a dict there) | {postings.nbytes / 1e6:.1f} | {theirs_bytes:.1f} |"
        )
        print(f"| MB of anonymous memory that grew | {held:.0f} | {theirs_held:.0f} |")
        print(f"| MB of files | {size:.1f} | |\n")
        per_query = np.mean([len(terms) for terms in queries])
        print(f"{len(postings.hashes):,} terms, {len(postings.chunks):,} entries, {per_query:.1f} terms a query")
        print(f"largest relative difference in score {worst:.1e}, queries with another top {K}: {wrong} of {q}")
        print(f"not joined, joined and built as one agree: {same == again}, {scored(found) == scored(same)}")


def write_all(each: Sequence[Postings], paths: Sequence[Path]) -> None:
    for postings, path in zip(each, paths, strict=True):
        write_postings(postings, path)


def scored(runs: list[list[Any]]) -> list[list[tuple[int, float]]]:
    return [[(hit.chunk_id, hit.score) for hit in hits] for hits in runs]


if __name__ == "__main__":
    main()
