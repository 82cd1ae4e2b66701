"""What is stale: each artefact's recipe, and whether the one in force was made by it.

What belongs here: for every asset, which data versions and parameters go into it. Assets take the same answer when they
publish, so that plan and sidecar cannot disagree. The store decides what is stale, never the event log: a pruned log or
an artefact deleted by hand must not mislead. Nothing here runs anything, and nothing here knows Dagster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import polars as pl

from zeroth_assets.artefacts import ArtefactStore, Sidecar, fingerprint_of
from zeroth_assets.chunking import CHUNKER_VERSION
from zeroth_assets.corpus.dedup import DEDUP_VERSION
from zeroth_assets.corpus.manifest import Manifest
from zeroth_assets.corpus.parse import PARSER_VERSION
from zeroth_assets.corpus.raw import raw_path
from zeroth_assets.corpus.tenants import TENANTS_VERSION, default_floor
from zeroth_assets.embedding import ModelFiles
from zeroth_assets.errors import ArtefactError, TenantError
from zeroth_assets.provenance import documents_digest, manifest_digest
from zeroth_assets.settings import CHUNK_SETS, SOURCES, Settings
from zeroth_assets.store.state import LiveBuild

PartitionedBy = Literal["source", "tenant"]

# A change of the code behind an asset that changes its output is a change of its number here (chunkers, parsers and
# tenants carry theirs in their own packages).
CODE_VERSIONS: Mapping[str, str] = {
    "corpus_manifest": "1",
    "raw_documents": "1",
    "database_schema": "1",
    "embeddings": "1",
    "tenant_index": "1",
    "ann_recall": "2",
}
EF_SEARCH: tuple[int, ...] = (5, 10, 40, 100, 200, 800)
OVERLAP_SHARE = 0.15

PLAIN_ASSETS: tuple[str, ...] = ("corpus_manifest", "database_schema")
SOURCE_ASSETS: tuple[str, ...] = ("raw_documents", "parsed_documents")
CORPUS_ASSETS: tuple[str, ...] = ("tenant_assignments", "dedup_report")


def tenant_assets() -> tuple[str, ...]:
    """The tenant-partitioned assets in an order in which they can be made."""
    stages = ("chunks", "embeddings", "tenant_index", "ann_recall")
    return tuple(f"{stage}_{chunk_set}" for stage in stages for chunk_set in CHUNK_SETS)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What an artefact is made of. `fingerprint` is what its sidecar must carry to be fresh."""

    artefact: str
    partition: str | None
    code_version: str
    inputs: Mapping[str, str]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """sha256 (hex) over code version, inputs and parameters."""
        return fingerprint_of(self.code_version, self.inputs, self.parameters)

    def about(self, describes: str, code: Callable[..., object], **details: Any) -> dict[str, Any]:
        """Keyword arguments for `ArtefactStore.write_*`."""
        return {
            "describes": describes,
            "code": f"{code.__module__}.{code.__qualname__}",
            "code_version": self.code_version,
            "inputs": self.inputs,
            "parameters": self.parameters,
            "details": details,
        }


class Planner:
    """Recipes and freshness over one store, one manifest and one state of the database.

    `live_builds` maps (chunk set, tenant) to what the database holds; an index whose receipt names another build is
    stale, whatever its sidecar says. `schema_version` is the digest of the migrations that the database has applied.
    """

    def __init__(
        self,
        settings: Settings,
        store: ArtefactStore,
        manifest: Manifest,
        *,
        model: ModelFiles,
        raw_dir: Path,
        migrations_digest: str,
        schema_version: str | None = None,
        live_builds: Mapping[tuple[str, str], LiveBuild] | None = None,
    ) -> None:
        self._settings = settings
        self._store = store
        self._manifest = manifest
        self._model = model
        self._raw_dir = raw_dir
        self._migrations_digest = migrations_digest
        self._schema_version = schema_version
        self._live_builds = dict(live_builds or {})

    @cached_property
    def assignments(self) -> pl.DataFrame:
        """The tenant assignments in force. Raises ArtefactError where there are none."""
        return self._store.read_frame("tenant_assignments")

    @property
    def tenant_floor(self) -> int:
        """Estimated chunks below which a tenant is folded: the setting, or the corpus' default."""
        floor = self._settings.tenant_floor
        return default_floor(self._settings.corpus) if floor is None else floor

    @property
    def tenants(self) -> tuple[str, ...]:
        """Tenant keys of the assignments in force, sorted."""
        return tuple(sorted(self.assignments["tenant"].unique().to_list()))

    def recipe(self, artefact: str, partition: str | None = None) -> Recipe:
        """What `artefact/partition` should be made of now.

        Raises:
            ArtefactError: something upstream was never published; the message names the command that makes it.
            TenantError: the partition is no tenant of the assignments in force.
        """
        stage, chunk_set = split_asset(artefact)
        match stage:
            case "corpus_manifest":
                return self._made(artefact, None, CODE_VERSIONS[stage], {"manifest": self._manifest.sha256})
            case "database_schema":
                return self._made(artefact, None, CODE_VERSIONS[stage], {"migrations": self._migrations_digest})
            case "raw_documents":
                assert partition is not None
                inputs = {f"corpus_manifest#{partition}": manifest_digest(self._manifest, partition)}
                return self._made(artefact, partition, CODE_VERSIONS[stage], inputs)
            case "parsed_documents":
                assert partition is not None
                version = PARSER_VERSION[partition]
                return self._made(artefact, partition, version, self._versions(("raw_documents", partition)))
            case "tenant_assignments":
                return self._made(
                    artefact, None, TENANTS_VERSION, self._parsed(), {"floor": self.tenant_floor, **self._tokenizer()}
                )
            case "dedup_report":
                return self._made(artefact, None, DEDUP_VERSION, self._parsed(), {"seed": self._settings.seed})
        if artefact not in tenant_assets() or chunk_set is None or partition is None:
            raise ArtefactError(
                f"There is no asset {artefact!r}" if partition else f"Asset {artefact!r} has partitions",
                expected=", ".join((*PLAIN_ASSETS, *SOURCE_ASSETS, *CORPUS_ASSETS, *tenant_assets())),
                found=repr(partition),
                remedy="name one of them, with its source or tenant",
            )
        return self._tenant_recipe(artefact, stage, chunk_set, partition)

    def _tenant_recipe(self, artefact: str, stage: str, chunk_set: str, tenant: str) -> Recipe:
        documents = {f"tenant_assignments#{tenant}": self.documents_digest(tenant)}
        settings = self._settings
        match stage:
            case "chunks":
                parameters = {"size": settings.max_tokens, "overlap": OVERLAP_SHARE, **self._tokenizer()}
                return self._made(artefact, tenant, CHUNKER_VERSION[chunk_set], documents, parameters)
            case "embeddings":
                inputs = self._versions((f"chunks_{chunk_set}", tenant))
                return self._made(artefact, tenant, CODE_VERSIONS[stage], inputs, self._encoder())
            case "tenant_index":
                inputs = self._versions((f"chunks_{chunk_set}", tenant), (f"embeddings_{chunk_set}", tenant))
                parameters = {"m": settings.hnsw_m, "ef_construction": settings.hnsw_ef_construction}
                return self._made(artefact, tenant, CODE_VERSIONS[stage], inputs, parameters)
            case "ann_recall":
                inputs = documents | self._versions((f"tenant_index_{chunk_set}", tenant))
                parameters = {
                    "ef_search": list(EF_SEARCH),
                    "queries": settings.ann_queries,
                    "seed": settings.seed,
                    "resamples": settings.resamples,
                    **self._encoder(),
                }
                return self._made(artefact, tenant, CODE_VERSIONS[stage], inputs, parameters)
        raise ArtefactError(f"There is no stage {stage!r}", remedy="add its recipe to the planner")

    def is_fresh(self, artefact: str, partition: str | None = None) -> bool:
        """Whether the artefact in force was made by today's recipe and is really there."""
        try:
            recipe = self.recipe(artefact, partition)
        except ArtefactError:
            return False
        sidecar = self._store.sidecar(artefact, partition)
        if sidecar is None or sidecar.fingerprint != recipe.fingerprint:
            return False
        if not self._store.exists(artefact, partition):
            return False
        return self._is_live(artefact, partition, sidecar)

    def stale(self, artefacts: Iterable[str], partition: str | None = None) -> tuple[str, ...]:
        """Those of `artefacts` that are not fresh, each followed by all after it in its chain."""
        stale: list[str] = []
        for artefact in artefacts:
            upstream_is_stale = any(_feeds(other, artefact) for other in stale)
            if upstream_is_stale or not self.is_fresh(artefact, partition):
                stale.append(artefact)
        return tuple(stale)

    def documents_digest(self, tenant: str) -> str:
        """Data version of the documents that make up a tenant: ids, versions, parser versions, texts.

        Raises:
            TenantError: no document belongs to it.
        """
        mine = self.assignments.filter(pl.col("tenant") == tenant).sort("document_id", "version")
        if mine.is_empty():
            raise TenantError(
                f"Tenant {tenant!r} holds no document",
                expected="a tenant of the assignments in force",
                found=f"{len(self.tenants)} tenants, among them {', '.join(self.tenants[:5])}",
                remedy="list them with `zeroth corpus tenants`",
            )
        return documents_digest(
            (row["document_id"], row["version"], PARSER_VERSION[row["source"]], row.get("text_sha256"))
            for row in mine.iter_rows(named=True)
        )

    def _is_live(self, artefact: str, partition: str | None, sidecar: Sidecar) -> bool:
        stage, chunk_set = split_asset(artefact)
        if stage == "database_schema":
            return self._schema_version == self._migrations_digest
        if stage == "tenant_index":
            assert chunk_set is not None
            assert partition is not None
            live = self._live_builds.get((chunk_set, partition))
            receipt = LiveBuild(sidecar.details.get("index_build_id", -1), sidecar.details.get("table_rows", -1))
            return live == receipt
        if stage == "raw_documents":
            assert partition is not None
            absent = set(sidecar.details["absent"])
            # What could not be had is asked for again: the acquisition knows what is final and who must be left alone.
            return not sidecar.details["missing"] and all(
                _has_size(raw_path(self._raw_dir, record), record.bytes)
                for record in self._manifest.of_source(partition)
                if record.sha256 not in absent
            )
        return True

    def _made(
        self,
        artefact: str,
        partition: str | None,
        code_version: str,
        inputs: Mapping[str, str],
        parameters: Mapping[str, Any] | None = None,
    ) -> Recipe:
        return Recipe(artefact, partition, code_version, dict(inputs), dict(parameters or {}))

    def _versions(self, *upstream: tuple[str, str]) -> dict[str, str]:
        return {f"{name}/{key}": self._store.require(name, key).sha256 for name, key in upstream}

    def _parsed(self) -> dict[str, str]:
        parsed = {}
        for source in SOURCES:
            sidecar = self._store.sidecar("parsed_documents", source)
            if sidecar is not None:
                parsed[f"parsed_documents/{source}"] = sidecar.sha256
        if not parsed:
            self._store.require("parsed_documents", SOURCES[0])
        return parsed

    def _tokenizer(self) -> dict[str, Any]:
        return {
            "model": self._model.name,
            "revision": self._model.revision,
            "weights_sha256": self._model.weights_sha256,
        }

    def _encoder(self) -> dict[str, Any]:
        settings = self._settings
        return {
            **self._tokenizer(),
            "pooling": self._model.pooling,
            "max_tokens": settings.max_tokens,
            "engine": settings.engine,
            "precision": settings.precision,
        }


def split_asset(artefact: str) -> tuple[str, str | None]:
    """Asset name into stage and chunk set: `chunks_fixed_512` -> (`chunks`, `fixed_512`)."""
    for chunk_set in CHUNK_SETS:
        if artefact.endswith(f"_{chunk_set}"):
            return artefact.removesuffix(f"_{chunk_set}"), chunk_set
    return artefact, None


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False


def _feeds(upstream: str, downstream: str) -> bool:
    """Whether one asset comes before another in the same chain of the graph."""
    order = ("chunks", "embeddings", "tenant_index", "ann_recall")
    up, up_set = split_asset(upstream)
    down, down_set = split_asset(downstream)
    if up in order and down in order:
        return up_set == down_set and order.index(up) < order.index(down)
    return (up, down) == ("raw_documents", "parsed_documents")
