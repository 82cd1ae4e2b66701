"""What tuning stands on: a home's artefacts, the golden queries that are lent for it, and rankings without a database.

BM25 is the product's own index over postings that are built here; the dense arm is an exact search in NumPy over the
stored vectors. `run.py check` holds both, and their fusion, against the arms as `zeroth materialize` ran them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.chunking.context import indexed_texts
from zeroth_assets.corpus.manifest import load_manifest
from zeroth_assets.embedding import Encoder, embed_with_memo, load_encoder
from zeroth_assets.embedding.memo import Memo
from zeroth_assets.errors import QueryError
from zeroth_assets.evaluation.golden.build import build_golden_queries
from zeroth_assets.evaluation.golden.cuad_label_files import find_label_file
from zeroth_assets.evaluation.golden.grades import chunk_qrels, part_grades
from zeroth_assets.evaluation.golden.judgments import answering_spans
from zeroth_assets.evaluation.golden.span_measures import span_overlap_at_k
from zeroth_assets.evaluation.retrieval_arms import NAMED_DOCUMENT, UNRESTRICTED, askable, asks
from zeroth_assets.evaluation.retrieval_figures import per_query, run_of
from zeroth_assets.search.analyser import ANALYSERS, DEFAULT_ANALYSER
from zeroth_assets.search.bm25 import BM25Index
from zeroth_assets.search.fusion import fuse
from zeroth_assets.search.postings import Postings
from zeroth_assets.search.postings_build import build_postings
from zeroth_assets.search.postings_join import join_postings
from zeroth_assets.search.scoring import Scoring

DEEP = 1_000  # where one document's passages are wanted of all that its tenant has
KEPT = 50
BUDGET = 2_560  # tokens of five full windows: what a prompt pays, whatever the size of a chunk
Key = tuple[str, str]  # role, query id
Rankings = dict[Key, list[int]]
Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Ground:
    """A home, the tenants that are looked at, and who asks which of their answerable queries of one split."""

    store: ArtefactStore
    tenants: tuple[str, ...]
    asked: pl.DataFrame
    queries: pl.DataFrame
    spans: pl.DataFrame
    all_queries: pl.DataFrame
    digest: str

    @cached_property
    def groups(self) -> dict[str, str]:
        return dict(self.queries.select("query_id", "group").iter_rows())

    def about(self) -> dict[str, Any]:
        counts = self.asked.group_by("role").agg(pl.len(), pl.col("principal").n_unique()).sort("role")
        return {
            "golden": self.digest,
            "tenants": list(self.tenants),
            "asked": {role: {"queries": n, "principals": p} for role, n, p in counts.iter_rows()},
            "groups": len(set(self.groups.values())),
        }


def golden(store: ArtefactStore, mirror: Path | None, raw: Path, manifest: Path, seed: int) -> Any:
    """Queries, spans and digest: the home's own, else made anew from its documents."""
    if store.exists("golden_queries"):
        frame = store.read_frame("golden_queries")
        spans = frame.select("query_id", "spans").explode("spans").drop_nulls("spans").unnest("spans")
        return frame.drop("spans"), spans, str(store.require("golden_queries").details["digest"])
    records = load_manifest(manifest).records
    columns = ["document_id", "version", "text"]
    documents = pl.concat(
        [store.read_frame("parsed_documents", key, columns=columns) for key in store.partitions("parsed_documents")]
    )
    made = build_golden_queries(
        documents,
        records,
        store.read_frame("tenant_assignments"),
        store.read_frame("dedup_report"),
        labels=find_label_file(mirror, raw, records),
        seed=seed,
    )
    return made.queries, made.spans, made.digest


def ground(
    store: ArtefactStore,
    found: tuple[pl.DataFrame, pl.DataFrame, str],
    lent: pl.DataFrame,
    tenants: Sequence[str],
    *,
    answerable: bool = True,
) -> Ground:
    """Who asks which of the `lent` queries, over the chunks of `tenants`."""
    queries, spans, digest = found
    placed = store.read_frame("tenant_assignments").filter(pl.col("tenant").is_in(list(tenants)))
    owners = dict(placed.select("document_id", "tenant").iter_rows())
    lent, _ = askable(lent, spans, owners)
    if answerable:
        lent = lent.filter("answerable")
    told = lent.select("query_id", "text", pl.col("document_id").alias("only"))
    asked = asks(lent, spans, owners, "all").join(told, on="query_id").sort("role", "query_id")
    return Ground(store, tuple(sorted(tenants)), asked, lent, spans, queries, digest)


@dataclass
class Cut:
    """One way of cutting the tenants' documents: chunks with their tenant, and the grades that spans give them."""

    chunks: pl.DataFrame
    ground: Ground

    @cached_property
    def grades(self) -> pl.DataFrame:
        return part_grades(answering_spans(self.ground.queries, self.ground.spans), self.chunks, allow_absent=True)

    @cached_property
    def qrels(self) -> pl.DataFrame:
        owner = self.chunks.select(pl.col("chunk_id").cast(pl.String).alias("document_id"), "tenant")
        return chunk_qrels(self.grades).join(owner, on="document_id", how="left")

    @cached_property
    def inside(self) -> dict[str, set[int]]:
        return {str(d): set(ids) for d, ids in self.chunks.group_by("document_id").agg("chunk_id").iter_rows()}

    @cached_property
    def postings(self) -> dict[str, Postings]:
        made = {}
        for (tenant,), part in self.chunks.group_by("tenant", maintain_order=True):
            made[str(tenant)] = build_postings(
                part["chunk_id"].to_numpy(),
                indexed_texts(part),
                tenant=str(tenant),
                chunk_set="tuning",
                analyser=ANALYSERS[DEFAULT_ANALYSER],
            )
        return made

    @cached_property
    def joined(self) -> Postings:
        return join_postings(list(self.postings.values()))

    def lexical(self, scoring: Scoring, depth: int = KEPT) -> Rankings:
        """BM25's rankings; within a document, of the `DEEP` best of its tenant."""
        indexes: dict[str, BM25Index] = {}
        found: Rankings = {}
        for role, query_id, principal, text, only in self._asked():
            if principal not in indexes:
                postings = self.joined if role == UNRESTRICTED else self.postings[principal]
                indexes[principal] = BM25Index([postings], scoring)
            try:
                hits = indexes[principal].search(text, DEEP if role == NAMED_DOCUMENT else depth)
            except QueryError:  # nothing that could be searched for
                hits = []
            found[role, query_id] = self._within(role, only, [hit.chunk_id for hit in hits])
        return found

    def dense(self, matrix: Vectors, queries: Mapping[str, Vectors], depth: int = KEPT) -> Rankings:
        """Exact cosine; `matrix` has a row for each row of `chunks`. Equal scores by chunk id."""
        ids, tenants = self.chunks["chunk_id"].to_numpy(), self.chunks["tenant"].to_numpy()
        rows = {str(tenant): np.flatnonzero(tenants == tenant) for tenant in np.unique(tenants)}
        found: Rankings = {}
        for role, query_id, principal, text, only in self._asked():
            mine = np.arange(len(ids)) if role == UNRESTRICTED else rows[principal]
            scores = matrix[mine] @ queries[text]
            best = np.lexsort((ids[mine], -scores))[: DEEP if role == NAMED_DOCUMENT else depth]
            found[role, query_id] = self._within(role, only, ids[mine[best]].tolist())
        return found

    def figures(self, rankings: Rankings, kept: int = KEPT) -> pl.DataFrame:
        """A row per role and query with the measures of `retrieval_metrics`."""
        return per_query(self.run(rankings, kept), self.ground.queries, self.qrels)

    def run(self, rankings: Rankings, kept: int = KEPT) -> pl.DataFrame:
        rows = [[str(i) for i in rankings[key][:kept]] for key in self.ground.asked.select("role", "query_id").rows()]
        return self.ground.asked.with_columns(pl.Series("ranking", rows, dtype=pl.List(pl.String)))

    def within_budget(self, rankings: Rankings, budget: int = BUDGET) -> pl.DataFrame:
        """role, query_id and the share of the answer's characters in the first chunks of at most `budget` tokens.

        Unlike recall@k it can be compared between ways of cutting: ten small chunks are less text than ten large ones.
        """
        tokens = dict(self.chunks.select("chunk_id", "token_count").iter_rows())
        cut = {}
        for key, ranking in rankings.items():
            total = np.cumsum([tokens[i] for i in ranking])
            cut[key] = ranking[: int(np.searchsorted(total, budget, side="right"))]
        spans = answering_spans(self.ground.queries, self.ground.spans)
        frames = []
        for (role,), part in self.run(cut, DEEP).group_by("role", maintain_order=True):
            mine = spans.filter(pl.col("query_id").is_in(part["query_id"].implode()))
            found = span_overlap_at_k(run_of(part), mine, self.chunks, cutoffs=(DEEP,))
            value = pl.col(f"span_recall@{DEEP}").alias("answer_in_budget")
            frames.append(found.select(pl.lit(role).alias("role"), "query_id", value))
        return pl.concat(frames)

    def _asked(self) -> Iterable[tuple[str, str, str, str, str | None]]:
        return self.ground.asked.select("role", "query_id", "principal", "text", "only").iter_rows()

    def _within(self, role: str, only: str | None, ranking: list[int]) -> list[int]:
        return [i for i in ranking if i in self.inside[str(only)]] if role == NAMED_DOCUMENT else ranking


def fused(rankings: Sequence[Rankings], k: float, depth: int) -> Rankings:
    """RRF of arms; within a document every arm gives what it has of it."""
    made: Rankings = {}
    for key in rankings[0]:
        lists = {str(arm): one[key] for arm, one in enumerate(rankings)}
        made[key] = [one.id for one in fuse(lists, k=k, depth=None if key[0] == NAMED_DOCUMENT else depth)]
    return made


def stored_cut(g: Ground, chunk_set: str, *, text: bool = True) -> Cut:
    """The chunks of a chunk set as the home has them."""
    columns = ["chunk_id", "document_id", "document_version", "char_start", "char_end", "token_count", "section_path"]
    frames = [
        g.store.read_frame(f"chunks_{chunk_set}", key, columns=[*columns, *(["text"] if text else [])]).with_columns(
            pl.lit(key).alias("tenant")
        )
        for key in g.tenants
    ]
    return Cut(pl.concat(frames), g)


def stored_vectors(g: Ground, chunk_set: str) -> Vectors:
    """The home's vectors, in the order of `stored_cut`."""
    return np.concatenate([g.store.read_matrix(f"embeddings_{chunk_set}", key) for key in g.tenants])


def encoder_of(scratch: Path, threads: int | None = None) -> Encoder:
    return load_encoder(cache_dir=scratch / "cache", threads=threads)


def query_vectors(g: Ground, encoder: Encoder, memo: Memo) -> dict[str, Vectors]:
    """Each distinct text's vector."""
    texts = g.asked["text"].unique().sort().to_list()
    vectors = embed_with_memo([encoder.query_prefix + text for text in texts], encoder, memo).vectors
    return dict(zip(texts, vectors, strict=True))


def fingerprint_of(g: Ground, chunk_set: str) -> str:
    """sha256 over the chunk artefacts that were read."""
    parts = [f"{key} {g.store.require(f'chunks_{chunk_set}', key).sha256}" for key in g.tenants]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
