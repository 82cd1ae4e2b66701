"""A small corpus out of the packaged sample, and what a process needs to work on it.

What belongs here: writing a manifest of a few of the sample's records, changing it, and running `zeroth` on a home of
its own, as a process or within this one (an import of everything costs seconds). Mirror and manifest are copies: a test
may spoil them. The fixtures materialise once per session; a test that changes anything gets a copy of that home.

The encoder is a real one of a single small layer with random weights, made here: these tests are about runs, not about
what a vector means, and 512 tokens through the packaged model cost a hundred times as much.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from zeroth_assets import cli, settings
from zeroth_assets.settings import package_file
from zeroth_assets.store import server
from zeroth_assets.store.connect import embedded_database
from zeroth_assets_tests.database_fixtures import make_home, remove_home

ORCHARD, ORCHARD_SMALL, LANTERN = "rfc:90109", "rfc:90110", "rfc:90201"
CONTRACT = "cuad:ravensworth-museum-lighting-consulting-agreement"
FILING = "sec:9900062:10-k:1995-12-31"
DOCUMENTS = (ORCHARD, ORCHARD_SMALL, LANTERN, CONTRACT, FILING)
COMMAND_SECONDS = 240
SETTINGS = {
    "ZEROTH_TENANT_FLOOR": "0",  # the tenants here are far below any floor, and each is to stay its own
    "ZEROTH_ANN_QUERIES": "10",
    "ZEROTH_ARMS": "dense_exact,dense_postfilter,bm25,rrf",
    "ZEROTH_RESAMPLES": "100",
    "ZEROTH_THREADS": "2",
    "ZEROTH_ENGINE": "torch",
    "ZEROTH_PRECISION": "fp32",
    "COLUMNS": "200",
}


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class SmallCorpus:
    """A folder with `small.json` and a mirror, and a home for it."""

    home: Path
    folder: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def manifest(self) -> Path:
        return self.folder / "small.json"

    @property
    def mirror(self) -> Path:
        return self.folder / "mirror"

    @property
    def artefacts(self) -> Path:
        return self.home / "artefacts"

    def environment(self, **extra: str) -> dict[str, str]:
        """Of a process that works on this corpus: none of the caller's own settings come through."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("ZEROTH_", "DAGSTER_"))}
        own = {"ZEROTH_HOME": str(self.home), "ZEROTH_MANIFEST": str(self.manifest), "ZEROTH_MIRROR": str(self.mirror)}
        return {**inherited, **SETTINGS, **own, **self.extra, **extra}

    def with_extra(self, **extra: str) -> SmallCorpus:
        return SmallCorpus(self.home, self.folder, {**self.extra, **extra})

    @contextlib.contextmanager
    def active(self, **extra: str) -> Iterator[None]:
        """This process reads the settings of this corpus, as a new one would."""
        _forget()
        with mock.patch.dict(os.environ, self.environment(**extra), clear=True):
            yield
        _forget()

    def zeroth(self, *arguments: str, **extra: str) -> Done:
        """`zeroth` within this process, from the arguments to the exit code."""
        out, err = io.StringIO(), io.StringIO()
        code: object = 0
        with (
            self.active(**extra),
            mock.patch.object(sys, "argv", ["zeroth", *arguments]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                cli.main()
            except SystemExit as ending:
                code = ending.code
        return Done(code if isinstance(code, int) else 0, out.getvalue(), err.getvalue())

    def remake(self, *options: str, **extra: str) -> Done:
        """`zeroth materialize` of what each tenant has for itself: what stands on all of them costs far more."""
        return self.zeroth("materialize", "--no-fan-ins", *options, **extra)

    def process(self, *arguments: str, **extra: str) -> Done:
        """`zeroth` as a process, to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "zeroth_assets.cli", *arguments],
            env=self.environment(**extra),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str, **extra: str) -> subprocess.Popen[str]:
        """Start `zeroth` as the leader of a process group."""
        return subprocess.Popen(
            [sys.executable, "-m", "zeroth_assets.cli", *arguments],
            env=self.environment(**extra),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def records(self) -> list[dict[str, Any]]:
        return list(json.loads(self.manifest.read_text("utf-8"))["records"])

    def record(self, document_id: str) -> dict[str, Any]:
        return next(r for r in self.records() if r["document_id"] == document_id)

    def write(self, records: list[dict[str, Any]]) -> None:
        """Replace the manifest's records."""
        whole = json.loads(self.manifest.read_text("utf-8"))
        self.manifest.write_text(json.dumps({**whole, "records": records}), "utf-8")

    def amend(self, document_id: str, **fields: Any) -> None:
        """Change fields of one record; None removes the field."""
        changed = {**self.record(document_id), **fields}
        kept = {name: value for name, value in changed.items() if value is not None}
        self.write([kept if r["document_id"] == document_id else r for r in self.records()])

    def drop(self, *document_ids: str) -> None:
        """Take documents out of the manifest."""
        self.write([r for r in self.records() if r["document_id"] not in document_ids])

    def path(self, document_id: str) -> Path:
        """A document's file in the mirror."""
        return self.mirror / str(self.record(document_id)["mirror_path"])

    def rewrite(self, document_id: str, change: Callable[[bytes], bytes]) -> None:
        """Change a document in the mirror and say so in the manifest."""
        path = self.path(document_id)
        content = change(path.read_bytes())
        path.write_bytes(content)
        self.amend(document_id, sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))

    def data_file(self, artefact: str, partition: str) -> Path:
        """The data file of an artefact, for a test that spoils it."""
        sidecar = json.loads((self.artefacts / artefact / f"{partition}.meta.json").read_text("utf-8"))
        return self.artefacts / artefact / str(sidecar["file"])

    def data_versions(self) -> dict[str, str]:
        """Artefact/partition to sha256, as the sidecars say."""
        sidecars = [json.loads(p.read_text("utf-8")) for p in self.artefacts.glob("*/*.meta.json")]
        return {_name(s): s["sha256"] for s in sidecars}

    def made_at(self) -> dict[str, int]:
        """Artefact/partition to the moment at which its sidecar was written."""
        paths = list(self.artefacts.glob("*/*.meta.json"))
        return {_name(json.loads(p.read_text("utf-8"))): p.stat().st_mtime_ns for p in paths}


def remade(before: dict[str, int], after: dict[str, int]) -> set[str]:
    """What was published between two `made_at`."""
    return {name for name, moment in after.items() if before.get(name) != moment}


def write_corpus(folder: Path, document_ids: tuple[str, ...] = DOCUMENTS) -> None:
    """Write `small.json` and a mirror of the sample's documents `document_ids` into `folder`."""
    sample = json.loads(package_file("sample/corpus_manifest.json").read_text("utf-8"))
    records = [r for r in sample["records"] if r["document_id"] in document_ids]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "small.json").write_text(json.dumps({**sample, "records": records}), "utf-8")
    for record in records:
        target = folder / "mirror" / record["mirror_path"]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(package_file("sample/documents") / record["mirror_path"], target)


@contextlib.contextmanager
def small_corpus(
    label: str, like: SmallCorpus | None = None, document_ids: tuple[str, ...] = DOCUMENTS, **extra: str
) -> Iterator[SmallCorpus]:
    """A new home with the small corpus, or a copy of one whose server is stopped; all of it is gone afterwards."""
    place = make_home(label)
    corpus = SmallCorpus(place / "home", place / "corpus", extra if like is None else {**like.extra, **extra})
    try:
        if like is None:
            write_corpus(corpus.folder, document_ids)
        else:
            # The server's files belong to its own user.
            subprocess.run(["cp", "-a", str(like.home), str(corpus.home)], check=True)
            subprocess.run(["cp", "-a", str(like.folder), str(corpus.folder)], check=True)
        yield corpus
    finally:
        remove_home(corpus.home)
        remove_home(place)


def quick_server(home: Path) -> None:
    """What is lost in a crash of the machine is test data."""
    with embedded_database(home).admin(autocommit=True, dbname="postgres") as conn:
        for name in ("fsync", "full_page_writes", "synchronous_commit"):
            conn.execute(f"alter system set {name} = off".encode())
        conn.execute("select pg_reload_conf()")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of one layer and 32 dimensions with the packaged model's tokenizer."""
    import torch
    from transformers import BertConfig, BertModel

    from zeroth_assets.embedding import find_model

    packaged = find_model("all-MiniLM-L6-v2").folder
    folder = tmp_path_factory.mktemp("models") / "tiny"
    shutil.copytree(packaged, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    with torch.random.fork_rng():
        torch.manual_seed(1)
        shape = BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
        BertModel(shape).save_pretrained(folder)
    return folder


@dataclass(frozen=True, slots=True)
class Materialised:
    """A corpus whose first `materialize` is done, how that went, and whose server is stopped."""

    corpus: SmallCorpus
    first: Done


@pytest.fixture(scope="session")
def materialised(tiny_model: Path) -> Iterator[Materialised]:
    """Never run anything on this one: take `shared` to read, `own` to change."""
    with small_corpus("materialised", ZEROTH_MODEL=str(tiny_model)) as corpus:
        quick_server(corpus.home)
        first = corpus.zeroth("materialize", "--json")
        server.stop(corpus.home)
        yield Materialised(corpus, first)


@pytest.fixture(scope="session")
def shared(materialised: Materialised) -> Iterator[SmallCorpus]:
    """A materialised home for tests that only read."""
    with small_corpus("shared", like=materialised.corpus) as corpus:
        yield corpus


@pytest.fixture
def own(materialised: Materialised) -> Iterator[SmallCorpus]:
    """A materialised home of the test's own."""
    with small_corpus("own", like=materialised.corpus) as corpus:
        yield corpus


@pytest.fixture
def empty(materialised: Materialised) -> Iterator[SmallCorpus]:
    """A home of the test's own with a server and nothing made, but every embedding in the memo."""
    with small_corpus("empty", like=materialised.corpus) as corpus:
        for name in ("artefacts", "raw"):
            shutil.rmtree(corpus.home / name)
        yield corpus


def _forget() -> None:
    # This module is a plugin of every test session: what imports Dagster or torch waits until a test needs it.
    from zeroth_assets.defs import resources

    for cache in (settings.load_settings, resources._settings, resources._database):
        cache.cache_clear()


def _name(sidecar: dict[str, Any]) -> str:
    partition = sidecar["partition"]
    return str(sidecar["artefact"]) if partition is None else f"{sidecar['artefact']}/{partition}"
