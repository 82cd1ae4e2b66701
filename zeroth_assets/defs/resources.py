"""Resources: what belongs here is the one resource of the graph, the project at work on one home.

Everything heavy (database, encoder) is opened on first use and kept for the life of the process, so that a plan of many
runs in one process pays for it once.
"""

from __future__ import annotations

import functools
from pathlib import Path

import dagster as dg

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.chunking import FastTokenizer
from zeroth_assets.corpus.http import FetchOptions
from zeroth_assets.corpus.manifest import Manifest, load_manifest
from zeroth_assets.corpus.pacing import Ceilings
from zeroth_assets.defs.instance import PROCESS_TAG, note_run
from zeroth_assets.embedding import Encoder, Memo, ModelFiles, find_model, load_encoder
from zeroth_assets.planning import Planner
from zeroth_assets.settings import Settings, read_settings
from zeroth_assets.store.connect import Database, open_database
from zeroth_assets.store.state import applied_digest, live_builds, migrations_digest, shared_builds


class Project(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The corpus, store, database and encoder that the settings name. `home` overrides `ZEROTH_HOME` in tests."""

    home: str | None = None

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Record which process works on the run: one that the UI launched carries no tag of ours."""
        if context.run is not None and PROCESS_TAG not in context.run.tags:
            note_run(self.settings, context.run.run_id)

    @property
    def settings(self) -> Settings:
        """The settings, read once per home."""
        return _settings(self.home)

    @property
    def store(self) -> ArtefactStore:
        """The artefact store under the home."""
        return ArtefactStore(self.settings.state_dir / "artefacts")

    @property
    def raw_dir(self) -> Path:
        """Where raw documents lie."""
        return self.settings.state_dir / "raw"

    @property
    def manifest(self) -> Manifest:
        """The manifest, read again when the file changes."""
        path = self.settings.manifest_path
        stamp = path.stat().st_mtime_ns if path.exists() else 0
        return _manifest(path, stamp)

    @property
    def database(self) -> Database:
        """The database, started if it is the embedded one."""
        return _database(self.settings)

    @property
    def model(self) -> ModelFiles:
        """The model's files, found and checked once per process; nothing is loaded."""
        return _model(self.settings)

    @property
    def tokenizer(self) -> FastTokenizer:
        """The model's own tokenizer."""
        return _tokenizer(self.settings)

    @property
    def encoder(self) -> Encoder:
        """The encoder, loaded once per process."""
        return _encoder(self.settings)

    @property
    def memo(self) -> Memo:
        """The memo of embeddings."""
        return Memo(self.settings.state_dir / "memo" / "embeddings.sqlite")

    def planner(self) -> Planner:
        """A planner over the store as it is now, and the database as it is when it first asks."""
        database = self.database
        return Planner(
            self.settings,
            self.store,
            self.manifest,
            model=self.model,
            raw_dir=self.raw_dir,
            migrations_digest=migrations_digest(),
            schema_version=functools.partial(applied_digest, database),
            live_builds=functools.partial(live_builds, database),
            shared_builds=functools.partial(shared_builds, database),
        )


def fetch_options(settings: Settings) -> FetchOptions:
    """How publishers' hosts are treated under these settings."""
    return FetchOptions(
        contact=settings.contact,
        ceilings=Ceilings(sec_per_second=settings.sec_requests_per_second, per_second=settings.requests_per_second),
        timeout=settings.fetch_timeout_seconds,
    )


@functools.cache
def _settings(home: str | None) -> Settings:
    return read_settings() if home is None else read_settings(home=Path(home))


@functools.lru_cache(maxsize=2)
def _manifest(path: Path, stamp: int) -> Manifest:
    return load_manifest(path)


@functools.cache
def _database(settings: Settings) -> Database:
    database = open_database(settings.state_dir, settings.database_url, settings.pg_bin)
    database.ensure_databases()
    return database


@functools.cache
def _model(settings: Settings) -> ModelFiles:
    return find_model(settings.model, settings.model_revision, settings.pooling)


@functools.cache
def _tokenizer(settings: Settings) -> FastTokenizer:
    return _model(settings).tokenizer()


@functools.cache
def _encoder(settings: Settings) -> Encoder:
    return load_encoder(
        settings.model,
        revision=settings.model_revision,
        pooling=settings.pooling,
        max_tokens=settings.max_tokens,
        engine=settings.engine,
        precision=settings.precision,
        threads=settings.threads,
        cache_dir=settings.state_dir / "cache",
    )
