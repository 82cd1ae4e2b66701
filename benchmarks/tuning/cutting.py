"""How documents are cut, and whether title and section path before a chunk help: sizes, overlaps and prefixes.

Ways of cutting differ in what a chunk is, so recall@k cannot compare them: ten chunks of 128 tokens are a quarter of
the text of ten of 512. The objective here is the share of the answer's characters in the first chunks that fit into
2,560 tokens of text, which a prompt pays for. Nothing is embedded for sizes and overlaps: they are compared by BM25.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from benchmarks.tuning.bench import Bench, picked, say
from benchmarks.tuning.ground import (
    BUDGET,
    Cut,
    Ground,
    Rankings,
    encoder_of,
    fingerprint_of,
    ground,
    stored_cut,
    stored_vectors,
)
from benchmarks.tuning.outcome import difference, measured, summary
from zeroth_assets.chunking import FastTokenizer, chunk_documents, chunks_to_frame
from zeroth_assets.chunking.context import (
    CONTEXT_SETS,
    CONTEXT_TOKENS,
    chunk_with_context,
    context_frame,
    indexed_texts,
)
from zeroth_assets.corpus.model import Document, documents_from_frame
from zeroth_assets.embedding import embed_with_memo
from zeroth_assets.embedding.memo import Memo
from zeroth_assets.search.scoring import Scoring

OBJECTIVE = "answer_in_budget"
SHARE = 0.15
# (size, overlap): the default first, then what tells most.
GRID = ((512, 0.15), (256, 0.15), (512, 0.0), (512, 0.3))
SECTIONS = ((512, 0.15), (256, 0.15))  # most sections are shorter than a window: overlap is seldom used
DEFAULT = {"size": 512, "overlap": SHARE}
COMPARED = (OBJECTIVE, "success@10", "ndcg_exponential@10", "success@50")
DEPTH = 100  # candidates of a ranking: enough small chunks to fill the budget
EMBEDDED = 2_500


def documents_of(g: Ground, tenants: list[str] | tuple[str, ...]) -> dict[str, list[Document]]:
    """The documents of each tenant."""
    placed = g.store.read_frame("tenant_assignments").filter(pl.col("tenant").is_in(list(tenants)))
    found: dict[str, list[Document]] = {tenant: [] for tenant in tenants}
    for source in placed["source"].unique().sort():
        mine = placed.filter(pl.col("source") == source).select("document_id", "version", "tenant")
        parsed = g.store.read_frame("parsed_documents", source).join(mine, on=["document_id", "version"])
        owners = dict(mine.select("document_id", "tenant").iter_rows())
        for document in documents_from_frame(parsed.drop("tenant")):
            found[owners[document.document_id]].append(document)
    return found


def values_of(cut: Cut, rankings: Rankings) -> pl.DataFrame:
    """The measures of `retrieval_metrics`, and how much of the answer fits into the budget."""
    return cut.figures(rankings).join(cut.within_budget(rankings), on=["role", "query_id"], how="left")


def chunks(bench: Bench) -> None:
    g = bench.lend("chunking", bench.complete())
    tokenizer = tokenizer_of(bench)
    documents = documents_of(g, g.tenants)
    results: dict[str, Any] = g.about() | {"budget": BUDGET, "scoring": "BM25, k1 = 1.5, b = 0.75"}
    grids: dict[str, list[tuple[dict[str, Any], pl.DataFrame]]] = {"fixed_512": [], "section_aware": []}
    for size, share in GRID:
        for name, grid in grids.items():
            if name == "section_aware" and (size, share) not in SECTIONS:
                continue
            if (size, share) == (512, SHARE):
                cut = stored_cut(g, name)
            else:
                kept = bench.scratch / f"{fingerprint_of(g, name)}-{name}-{size}-{share}.parquet"
                if not kept.exists():
                    cut_anew(documents, name, tokenizer, size, share).write_parquet(kept)
                cut = Cut(pl.read_parquet(kept), g)
            values = values_of(cut, cut.lexical(Scoring(), DEPTH))
            grid.append(({"size": size, "overlap": share}, values))
            say(f"{name} {size} {share}: {cut.chunks.height:,} chunks, {values[OBJECTIVE].to_numpy().mean():.3f}")
            if name == "section_aware" and (size, share) == (512, SHARE):
                fixed = grids["fixed_512"][0][1]
                results["section_aware less fixed_512"] = {m: difference(values, fixed, g.groups, m) for m in COMPARED}
                results["intervals"] = {
                    label: {m: measured(own[0][1], g.groups, m) for m in COMPARED} for label, own in grids.items()
                }
            if len(grid) > 1:
                results[name] = {"corpus": fingerprint_of(g, name)} | picked(grid, DEFAULT, g, OBJECTIVE)
                results[name]["differences"] = [
                    {"parameters": p}
                    | {m: difference(v, grid[0][1], g.groups, m, looks=len(GRID) - 1) for m in COMPARED}
                    for p, v in grid[1:]
                ]
                bench.write("chunks", results)
    for name in grids:
        bench.choose("chunking", {"chunk_set": name, **results[name]["chosen"]})


def cut_anew(
    documents: dict[str, list[Document]], name: str, tokenizer: FastTokenizer, size: int, share: float
) -> pl.DataFrame:
    frames = [
        chunks_to_frame(chunk_documents(own, name, tokenizer, size=size, share=share)).with_columns(
            pl.lit(tenant).alias("tenant")
        )
        for tenant, own in documents.items()
    ]
    return pl.concat(frames)


def context(bench: Bench) -> None:
    """The prefix on and off: BM25 over all tenants and both chunk sets, dense over the tenants that are asked most."""
    g = bench.lend("context", bench.complete())
    tokenizer = tokenizer_of(bench)
    results: dict[str, Any] = g.about() | {"budget": BUDGET, "prefix": CONTEXT_TOKENS}
    found: dict[str, Any] = {}
    documents = documents_of(g, g.tenants)
    for name, base in CONTEXT_SETS.items():
        frames = [
            context_frame(chunk_with_context(own, name, tokenizer)).with_columns(pl.lit(tenant).alias("tenant"))
            for tenant, own in documents.items()
        ]
        # A prompt pays for the text that is shown, not for the prefix.
        frame = pl.concat(frames)
        frame = frame.with_columns(pl.Series("token_count", tokenizer.counts(frame["text"].to_list()), dtype=pl.Int64))
        cuts = {base: stored_cut(g, base), f"{base} at 448": Cut(frame.drop("context"), g), name: Cut(frame, g)}
        values = {label: values_of(cut, cut.lexical(Scoring(), DEPTH)) for label, cut in cuts.items()}
        found[f"bm25, {base}"] = told(values, g) | {
            "chunks": {label: cut.chunks.height for label, cut in cuts.items()},
            "prefix tokens": prefix_tokens(frame, tokenizer),
        }
        say(f"{name}: {found[f'bm25, {base}']['differences'][f'{name} less {base}'][OBJECTIVE]}")
        bench.write("context", results | {"arms": found})
        if base == "fixed_512":
            found["dense, fixed_512"] = dense(bench, g, name, base, frame)
            bench.write("context", results | {"arms": found})
    helped = all(
        arm["differences"]["fixed_512_context less fixed_512"][OBJECTIVE]["verdict"] == "higher"
        for label, arm in found.items()
        if label.endswith("fixed_512")
    )
    chosen = {"context_prefix": helped}
    bench.choose("context", chosen)
    bench.write("context", results | {"arms": found, "chosen": chosen})


def dense(bench: Bench, g: Ground, name: str, base: str, frame: pl.DataFrame) -> dict[str, Any]:
    """Exact search over the tenants with the most queries for their chunks: embedding the rest would take hours."""
    asked = dict(g.asked.filter(pl.col("role") == "single_tenant").group_by("principal").len().iter_rows())
    sizes = dict(frame.group_by("tenant").len().iter_rows())
    kept: list[str] = []
    room = bench.args.limit or EMBEDDED
    for tenant in sorted(asked, key=lambda t: (-asked[t] / sizes[t], t)):
        if sizes[tenant] <= room:
            kept.append(tenant)
            room -= sizes[tenant]
    small = ground(bench.store, bench.found, g.queries, kept)
    encoder, queries = bench.vectors(small)
    mine = frame.filter(pl.col("tenant").is_in(kept)).sort("tenant", maintain_order=True)
    say(f"embedding {mine.height:,} chunks of {len(kept)} tenants")
    texts = indexed_texts(mine)

    def progress(done: int, total: int) -> None:
        if done % 256 < 16 or done == total:
            say(f"embedded {done} of {total}")

    matrix = embed_with_memo(texts, encoder, Memo(bench.scratch / "memo.sqlite"), progress).vectors
    before, after = stored_cut(small, base), Cut(mine, small)
    values = {
        base: values_of(before, before.dense(stored_vectors(small, base), queries, DEPTH)),
        name: values_of(after, after.dense(matrix, queries, DEPTH)),
    }
    return told(values, small) | {"asked": small.about()["asked"], "tenants": kept, "chunks": mine.height}


def told(values: dict[str, pl.DataFrame], g: Ground) -> dict[str, Any]:
    """Each arm's figures and, over all roles and by role, the differences of later arms to earlier ones."""
    labels = list(values)
    pairs = [(later, labels[i]) for i in range(len(labels)) for later in labels[i + 1 :]]
    made: dict[str, Any] = {
        "figures": {label: summary(v, g.groups, OBJECTIVE) for label, v in values.items()},
        "intervals": {label: {m: measured(v, g.groups, m) for m in COMPARED} for label, v in values.items()},
        "differences": {},
    }
    for one, other in pairs:
        whole = {m: difference(values[one], values[other], g.groups, m, looks=len(COMPARED)) for m in COMPARED}
        by_role = {
            str(role): {
                m: difference(part, values[other].filter(pl.col("role") == role), g.groups, m, looks=len(COMPARED))
                for m in COMPARED
            }
            for (role,), part in values[one].group_by("role", maintain_order=True)
        }
        made["differences"][f"{one} less {other}"] = whole | by_role
    return made


def prefix_tokens(frame: pl.DataFrame, tokenizer: FastTokenizer) -> dict[str, float]:
    counts = pl.Series(tokenizer.counts(frame["context"].unique().to_list())) - tokenizer.special_tokens
    return {"mean of distinct": round(float(counts.mean()), 1), "largest": float(counts.max())}  # type: ignore[arg-type]


def tokenizer_of(bench: Bench) -> FastTokenizer:
    return encoder_of(bench.scratch).tokenizer
