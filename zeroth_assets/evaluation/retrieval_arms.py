"""The arms of retrieval that are measured side by side, and who asks them which query.

What belongs here: names, what stands behind each, and the roles. Running them is `search.runs`', figures are
`retrieval_figures`'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import polars as pl

from zeroth_assets.search.dense_route import Path
from zeroth_assets.search.retriever_model import Arm

UNRESTRICTED: Final = "unrestricted"
SINGLE_TENANT: Final = "single_tenant"
NAMED_DOCUMENT: Final = "named_document"
ROLES: Final = (UNRESTRICTED, SINGLE_TENANT, NAMED_DOCUMENT)
ASK_SCHEMA = pl.Schema({"query_id": pl.String, "role": pl.String, "principal": pl.String})


@dataclass(frozen=True, slots=True)
class RetrieverArm:
    """One arm: the stages that run, the dense path (None: the cheapest sound one), and whether it reranks.

    With `postfilter` the dense stage is the design that others are measured against (`evaluation.postfilter`).
    `within` says whether the arm is also asked within the one document that a query names: index designs are not, since
    what differs between them is gone there.
    """

    name: str
    describes: str
    stages: tuple[Arm, ...]
    path: Path | None = None
    rerank: bool = False
    postfilter: bool = False
    within: bool = False

    @property
    def dense(self) -> bool:
        """Whether query vectors are needed."""
        return "dense" in self.stages

    @property
    def shared(self) -> bool:
        """Whether the shared index may answer."""
        return self.postfilter or (self.dense and self.path in (None, "shared"))


RETRIEVERS: Mapping[str, RetrieverArm] = MappingProxyType(
    {
        arm.name: arm
        for arm in (
            RetrieverArm("dense_exact", "exact scan of the permitted partitions", ("dense",), "exact", within=True),
            RetrieverArm("dense_shared", "one HNSW over all tenants, iterative scan", ("dense",), "shared"),
            RetrieverArm(
                "dense_postfilter",
                "one HNSW at ef_search 40, the policy after it: the usual design",
                ("dense",),
                postfilter=True,
            ),
            RetrieverArm("dense_hnsw", "the HNSW of each permitted tenant", ("dense",), "hnsw"),
            RetrieverArm("bm25", "BM25 over the permitted tenants' postings", ("lexical",), within=True),
            RetrieverArm("full_text", "PostgreSQL's ts_rank_cd under the policy", ("fulltext",), within=True),
            RetrieverArm("rrf", "dense and BM25, fused by rank", ("dense", "lexical"), within=True),
            RetrieverArm("rrf_rerank", "dense and BM25, fused, then reranked", ("dense", "lexical"), rerank=True),
        )
    }
)


def arm_key(chunk_set: str, retriever: str) -> str:
    """The partition of an arm: `fixed_512.bm25`."""
    return f"{chunk_set}.{retriever}"


def split_arm(key: str) -> tuple[str, str]:
    """Chunk set and retriever of a partition.

    >>> split_arm("fixed_512.bm25")
    ('fixed_512', 'bm25')
    """
    chunk_set, _, retriever = key.partition(".")
    return chunk_set, retriever


def askable(queries: pl.DataFrame, spans: pl.DataFrame, owners: Mapping[str, str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The queries that an index over these documents (`owners`) can be asked, and those that wait for the others.

    An answerable query is asked where each part of its answer has an alternative in the index; one without an answer
    where the documents that it names are, since what is not there at all is too easily not found. A tenant that has no
    document in the index asks nothing yet: it is no principal.
    """
    tenants = set(owners.values())
    part_there = pl.col("document_id").is_in(list(owners)).any()
    parts = spans.group_by("query_id", "part").agg(part_there.alias("there"))
    missing = set(parts.filter(~pl.col("there"))["query_id"])
    waits = [
        (row["asker"] is not None and row["asker"] not in tenants)
        or (
            (row["query_id"] in missing)
            if row["answerable"]
            else any(document not in owners for document in row["about"] or ())
        )
        for row in queries.select("query_id", "answerable", "about", "asker").iter_rows(named=True)
    ]
    mask = pl.Series(waits, dtype=pl.Boolean)
    return queries.filter(~mask), queries.filter(mask)


def asks(queries: pl.DataFrame, spans: pl.DataFrame, owners: Mapping[str, str], unrestricted: str) -> pl.DataFrame:
    """Who asks what, in `ASK_SCHEMA`, of the queries over the whole corpus.

    Role `unrestricted` is the principal of that name, for queries that no tenant asks. Role `single_tenant` is the
    query's asker, or, where there is none, the tenant that holds all of its answer (`owners`: document to tenant): a
    query whose answer lies with several tenants is in the first role alone. One without an answer is asked by the
    tenant that holds the documents it names. Role `named_document` is for queries that are limited to a document: the
    tenant that holds it.
    """
    corpus = queries.filter(pl.col("scope") == "corpus")
    open_to_all = corpus.filter(pl.col("asker").is_null()).select(
        "query_id", pl.lit(UNRESTRICTED).alias("role"), pl.lit(unrestricted).alias("principal")
    )
    owner = pl.DataFrame(
        {"document_id": list(owners), "tenant": list(owners.values())},
        schema={"document_id": pl.String, "tenant": pl.String},
    )
    held = (
        spans.join(owner, on="document_id", how="left")
        .group_by("query_id", "part")
        .agg(pl.col("tenant").unique())
        .group_by("query_id")
        .agg(pl.col("tenant"))
    )
    home = {query: _common(parts) for query, parts in held.iter_rows()}
    rows = [
        (row["query_id"], SINGLE_TENANT, principal)
        for row in corpus.iter_rows(named=True)
        if (principal := row["asker"] or (home.get(row["query_id"]) if row["answerable"] else _named(row, owners)))
        is not None
    ]
    rows += [
        (row["query_id"], NAMED_DOCUMENT, principal)
        for row in queries.filter(pl.col("scope") == "document").iter_rows(named=True)
        if (principal := row["asker"] or owners.get(row["document_id"])) is not None
    ]
    alone = pl.DataFrame(rows, schema=ASK_SCHEMA, orient="row")
    return pl.concat([open_to_all.cast(ASK_SCHEMA), alone]).sort("role", "query_id")


def _named(row: Mapping[str, Any], owners: Mapping[str, str]) -> str | None:
    """The one tenant that holds every document which the query names."""
    tenants = {owners.get(document) for document in row["about"] or ()}
    return tenants.pop() if len(tenants) == 1 else None


def _common(parts: list[list[str | None]]) -> str | None:
    """The first tenant, by key, that holds an alternative of every part."""
    sets = [set(part) - {None} for part in parts]
    common: set[str | None] = set.intersection(*sets) if sets else set()
    return min((tenant for tenant in common if tenant is not None), default=None)
