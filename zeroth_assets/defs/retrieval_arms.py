"""The arms of retrieval, opened: what belongs here is turning an arm's name and the settings into a retriever.

And who asks it what: the queries of the golden set that today's index can be asked, with their vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zeroth_assets.defs.golden import golden_frames
from zeroth_assets.defs.resources import Project
from zeroth_assets.embedding import embed_with_memo
from zeroth_assets.evaluation.postfilter import PostFilterSearch
from zeroth_assets.evaluation.retrieval_arms import NAMED_DOCUMENT, RetrieverArm, askable, asks
from zeroth_assets.search.arms import DenseSearch
from zeroth_assets.search.dense import DenseRetriever
from zeroth_assets.search.dense_route import Path
from zeroth_assets.search.model import StageResult
from zeroth_assets.search.path_model import stored_costs
from zeroth_assets.search.rerank import Reranker
from zeroth_assets.search.rerank_choice import open_reranker
from zeroth_assets.search.retriever import Retriever
from zeroth_assets.search.retriever_model import Digested, QueryEncoder, RetrieverConfig
from zeroth_assets.search.supersession import Lineage
from zeroth_assets.settings import CHUNK_SETS
from zeroth_assets.store.registry import EVERYTHING


@dataclass(frozen=True, slots=True)
class Embedded:
    """Query vectors that are there already, in place of an encoder; an arm's latency is then without embedding."""

    fingerprint: Digested
    vectors: Mapping[str, NDArray[np.float32]]

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of texts that were embedded beforehand."""
        return np.stack([self.vectors[text] for text in texts])


@dataclass(frozen=True, slots=True)
class Along:
    """The dense arm along one path."""

    dense: DenseRetriever
    path: Path | None

    def search(self, principal: str, vector: NDArray[np.float32], k: int) -> StageResult:
        """The k nearest chunks that the principal may see."""
        return self.dense.search(principal, vector, k, path=self.path)

    def close(self) -> None:
        """Close what is kept open."""
        self.dense.close()


def embedded_queries(project: Project, texts: Sequence[str]) -> Embedded:
    """The vectors of `texts`, from the memo where it has them."""
    encoder = project.encoder
    vectors = embed_with_memo([encoder.query_prefix + text for text in texts], encoder, project.memo).vectors
    return Embedded(encoder.fingerprint, dict(zip(texts, vectors, strict=True)))


def open_arm(
    project: Project, chunk_set: str, arm: RetrieverArm, encoder: QueryEncoder | None, *, depth: int | None = None
) -> Retriever:
    """The retriever of an arm; close it after use."""
    dimension = project.model.dimension
    config = RetrieverConfig(
        chunk_set,
        arms=arm.stages,
        depth=depth or project.settings.retrieval_depth,
        dimension=dimension,
        rerank_seconds=30.0,
    )
    dense: DenseSearch | None = None
    if arm.postfilter:
        dense = PostFilterSearch(project.database, chunk_set, dimension=dimension)
    elif arm.dense and encoder is not None:
        digest = encoder.fingerprint.digest
        costs = stored_costs(project.store, chunk_set)
        opened = DenseRetriever(
            project.database, chunk_set, fingerprint_digest=digest, dimension=dimension, costs=costs
        )
        dense = Along(opened, arm.path)
    return Retriever(
        project.database,
        project.store,
        config,
        encoder=encoder if arm.dense else None,
        dense=dense,
        reranker=reranker_of(project) if arm.rerank else None,
        lineage=Lineage.of(project.manifest),
    )


def reranker_of(project: Project) -> Reranker | None:
    """The reranker that the settings name."""
    settings = project.settings
    return open_reranker(
        settings.reranker,
        encoder=project.encoder if settings.reranker == "late" else None,
        model=settings.reranker_model,
        revision=settings.reranker_revision,
        precision=settings.precision,
        url=settings.reranker_url,
        api_key=settings.reranker_api_key.get_secret_value() if settings.reranker_api_key else None,
    )


def asked_queries(project: Project, *, within: bool) -> pl.DataFrame:
    """Who asks what: query_id, role, principal, text, split and category; `within` a document too, or not."""
    planner = project.planner()
    queries, spans = golden_frames(project.store)
    indexed = set.intersection(*(set(planner.tenants_with(f"tenant_index_{chunk_set}")) for chunk_set in CHUNK_SETS))
    placed = planner.assignments.filter(pl.col("tenant").is_in(sorted(indexed)))
    owners = dict(placed.select("document_id", "tenant").iter_rows())
    queries, _ = askable(queries, spans, owners)
    told = queries.select("query_id", "text", "split", "category")
    asked = asks(queries, spans, owners, EVERYTHING).join(told, on="query_id").sort("role", "query_id")
    return asked if within else asked.filter(pl.col("role") != NAMED_DOCUMENT)
