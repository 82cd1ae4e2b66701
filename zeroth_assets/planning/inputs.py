"""What recipes are written from: the settings, the store's data versions, the manifest, and what the database holds.

What belongs here: looking up. Which of it goes into which asset stands with the stages.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import polars as pl

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.corpus.manifest import Manifest
from zeroth_assets.corpus.parse import PARSER_VERSION
from zeroth_assets.corpus.tenants import default_floor
from zeroth_assets.embedding import ModelFiles
from zeroth_assets.errors import TenantError
from zeroth_assets.evaluation.golden.cuad_label_files import find_label_file
from zeroth_assets.evaluation.golden.imported import find_imported, imported_digest, read_about
from zeroth_assets.provenance import documents_digest
from zeroth_assets.settings import SOURCES, Settings
from zeroth_assets.store.state import LiveBuild

_T = TypeVar("_T")
Later: TypeAlias = _T | Callable[[], _T]


class Inputs:
    """One store, one manifest and one state of the database.

    `live_builds` maps (chunk set, tenant) to what the database holds; an index whose receipt names another build is
    stale, whatever its sidecar says; `shared_builds` maps a chunk set to the build of its shared index, if that holds
    just the live builds. `schema_version` is the digest of the migrations that the database has applied. Each of the
    three may be a function, called once if a plan asks for it: a recipe stands on none of them.
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
        schema_version: Later[str | None] = None,
        live_builds: Later[Mapping[tuple[str, str], LiveBuild] | None] = None,
        shared_builds: Later[Mapping[str, int] | None] = None,
    ) -> None:
        self.settings = settings
        self.store = store
        self.manifest = manifest
        self.model = model
        self.raw_dir = raw_dir
        self.migrations_digest = migrations_digest
        self._schema_version = schema_version
        self._live_builds = live_builds
        self._shared_builds = shared_builds

    @cached_property
    def schema_version(self) -> str | None:
        """Digest of the migrations that the database has applied."""
        return _now(self._schema_version)

    @cached_property
    def live_builds(self) -> Mapping[tuple[str, str], LiveBuild]:
        """What the database holds for each chunk set and tenant."""
        return _now(self._live_builds) or {}

    @cached_property
    def shared_builds(self) -> Mapping[str, int]:
        """The build of each chunk set's shared index that is current."""
        return _now(self._shared_builds) or {}

    @cached_property
    def assignments(self) -> pl.DataFrame:
        """The tenant assignments in force. Raises ArtefactError where there are none."""
        return self.store.read_frame("tenant_assignments")

    @property
    def tenant_floor(self) -> int:
        """Estimated chunks below which a tenant is folded: the setting, or the corpus' default."""
        floor = self.settings.tenant_floor
        return default_floor(self.settings.corpus) if floor is None else floor

    @property
    def tenants(self) -> tuple[str, ...]:
        """Tenant keys of the assignments in force, sorted."""
        return tuple(sorted(self.assignments["tenant"].unique().to_list()))

    def versions(self, *upstream: tuple[str, str | None]) -> dict[str, str]:
        """Data versions of artefacts in force. Raises ArtefactError where one was never published."""
        return {
            name if key is None else f"{name}/{key}": self.store.require(name, key).sha256 for name, key in upstream
        }

    def parsed(self) -> dict[str, str]:
        """Data versions of the parsed documents of every source that has any."""
        parsed = {}
        for source in SOURCES:
            sidecar = self.store.sidecar("parsed_documents", source)
            if sidecar is not None:
                parsed[f"parsed_documents/{source}"] = sidecar.sha256
        if not parsed:
            self.store.require("parsed_documents", SOURCES[0])
        return parsed

    @property
    def labels_path(self) -> Path | None:
        """The file of expert labels: named by the settings, or in the mirror, or in the fetched archive; or none."""
        named, mirror = self.settings.expert_labels, self.settings.mirror_location
        if named is not None:
            return named
        local = mirror is not None and not mirror.startswith(("http://", "https://"))
        return find_label_file(Path(mirror) if mirror and local else None, self.raw_dir, self.manifest.records)

    def labels_digest(self) -> str | None:
        """sha256 of the expert labels, None where there are none."""
        path = self.labels_path
        return None if path is None else _file_digest(path, path.stat().st_mtime_ns)

    @cached_property
    def imported_path(self) -> Path | None:
        """The folder of a golden set from elsewhere that goes with the manifest, or None."""
        return find_imported(self.settings.manifest_path)

    @cached_property
    def imported(self) -> dict[str, str]:
        """The golden set from elsewhere as an input, if there is one."""
        return {} if self.imported_path is None else {"imported_golden": imported_digest(self.imported_path)}

    @property
    def drops_identical_ids(self) -> bool:
        """Whether the golden set from elsewhere takes documents with their query's id out of rankings."""
        return self.imported_path is not None and read_about(self.imported_path).drop_identical_ids

    def tokenizer(self) -> dict[str, Any]:
        """What cuts text into tokens."""
        return {
            "model": self.model.name,
            "revision": self.model.revision,
            "weights_sha256": self.model.weights_sha256,
        }

    def encoder(self) -> dict[str, Any]:
        """What makes a vector of a text."""
        settings = self.settings
        return {
            **self.tokenizer(),
            "pooling": self.model.pooling,
            "max_tokens": settings.max_tokens,
            "engine": settings.engine,
            "precision": settings.precision,
        }

    def documents(self, tenant: str) -> dict[str, str]:
        """The documents of a tenant as an input: ids, versions, parser versions, texts.

        Raises:
            TenantError: no document belongs to it.
        """
        return {f"tenant_assignments#{tenant}": self.documents_digest(tenant)}

    def documents_digest(self, tenant: str) -> str:
        """Data version of the documents that make up a tenant. Raises as `documents`."""
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

    def tenants_with(self, artefact: str) -> tuple[str, ...]:
        """The tenants in force for which `artefact` was published. What a fan-in stands on."""
        published = set(self.store.partitions(artefact))
        return tuple(tenant for tenant in self.tenants if tenant in published)

    def over_tenants(self, *artefacts: str) -> dict[str, str]:
        """Data versions of `artefacts` of every tenant that has all of them.

        Raises:
            ArtefactError: no tenant has.
        """
        tenants = [t for t in self.tenants_with(artefacts[0]) if all(self.store.sidecar(a, t) for a in artefacts[1:])]
        if not tenants:
            self.store.require(artefacts[0], self.tenants[0])
        return self.versions(*((artefact, tenant) for artefact in artefacts for tenant in tenants))


@functools.lru_cache(maxsize=4)
def _file_digest(path: Path, stamp: int) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _now(value: Later[_T]) -> _T:
    return value() if callable(value) else value
