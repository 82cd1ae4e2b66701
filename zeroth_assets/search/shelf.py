"""The postings of permitted tenants, opened once per build and searched together.

What belongs here: from the artefact store to a `BM25Index` over just the tenants that are named. Whoever calls has
asked the database which those are. What is kept is keyed by these grants and by the builds of the postings, so that a
revoked grant or a new build is another key; at most `kept` indexes and `open_files` files are held.
"""

from __future__ import annotations

import hashlib
import mmap
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.errors import ArtefactError
from zeroth_assets.search.bm25 import BM25Index
from zeroth_assets.search.postings import Postings
from zeroth_assets.search.postings_file import postings_from_bytes
from zeroth_assets.search.scoring import Scoring

# From so many tenants on, one joined copy is searched faster than its parts.
_JOINED_FROM = 4


def artefact_name(chunk_set: str) -> str:
    """The artefact that holds a chunk set's postings, partitioned by tenant key."""
    return f"bm25_index_{chunk_set}"


@dataclass(frozen=True, slots=True)
class Opened:
    """One tenant's postings, verified, and the sha256 of their artefact."""

    postings: Postings
    sha256: str


@dataclass(frozen=True, slots=True)
class Shelved:
    """What a principal may search. `missing` are permitted tenants whose postings were never built."""

    index: BM25Index
    opened: Mapping[str, Opened]
    missing: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """sha256 over the postings' own, in order of tenant: what lexical scores of this principal stand on."""
        parts = "\n".join(f"{key} {self.opened[key].sha256}" for key in sorted(self.opened))
        return hashlib.sha256(parts.encode()).hexdigest()


class PostingsShelf:
    """Opens postings of one chunk set; safe to use from several threads."""

    def __init__(
        self,
        store: ArtefactStore,
        chunk_set: str,
        scoring: Scoring | None = None,
        *,
        kept: int = 4,
        open_files: int = 512,
    ) -> None:
        self._store = store
        self._chunk_set = chunk_set
        self._artefact = artefact_name(chunk_set)
        self._scoring = scoring
        self._kept, self._open_files = kept, open_files
        self._files: OrderedDict[tuple[str, object], Opened] = OrderedDict()
        self._indexes: OrderedDict[tuple[tuple[str, int, str], ...], BM25Index] = OrderedDict()
        self._lock = threading.Lock()

    def index_for(self, permitted: Mapping[str, int]) -> Shelved:
        """The index over exactly the tenants of `permitted` (key to id) that have postings.

        Raises:
            ArtefactError: postings are damaged, foreign, or of another analyser than the rest.
        """
        opened = {key: found for key in sorted(permitted) if (found := self.open(key)) is not None}
        missing = tuple(sorted(set(permitted) - set(opened)))
        identity = tuple((key, permitted[key], one.sha256) for key, one in opened.items())
        with self._lock:
            index = self._indexes.get(identity)
            if index is not None:
                self._indexes.move_to_end(identity)
                return Shelved(index, opened, missing)
        index = BM25Index([one.postings for one in opened.values()], self._scoring)
        if len(opened) >= _JOINED_FROM:
            index = index.joined()
        with self._lock:
            self._indexes[identity] = index
            while len(self._indexes) > self._kept:
                self._indexes.popitem(last=False)
        return Shelved(index, opened, missing)

    def open(self, tenant_key: str) -> Opened | None:
        """One tenant's postings; None where they were never built.

        Raises:
            ArtefactError: they are damaged, or another tenant's, or another chunk set's.
        """
        stamp = self._store.stamp(self._artefact, tenant_key)
        if stamp is None:
            return None
        with self._lock:
            found = self._files.get((tenant_key, stamp))
            if found is not None:
                self._files.move_to_end((tenant_key, stamp))
                return found
        found = self._read(tenant_key)
        with self._lock:
            for former in [name for name in self._files if name[0] == tenant_key]:
                del self._files[former]
            self._files[(tenant_key, stamp)] = found
            while len(self._files) > self._open_files:
                self._files.popitem(last=False)
        return found

    def _read(self, tenant_key: str) -> Opened:
        try:
            return self._mapped(tenant_key)
        except FileNotFoundError:
            # A new build replaced the file between its sidecar and its bytes.
            try:
                return self._mapped(tenant_key)
            except FileNotFoundError as error:
                raise self._unfit(tenant_key, "the file that the sidecar names", "no such file") from error

    def _mapped(self, tenant_key: str) -> Opened:
        sidecar = self._store.require(self._artefact, tenant_key)
        path = self._store.local_path(self._artefact, tenant_key)
        payload: bytes | mmap.mmap
        if path is None:
            payload = self._store.read_bytes(self._artefact, tenant_key)
        else:
            with path.open("rb") as handle:
                try:
                    payload = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
                except ValueError as error:
                    raise self._unfit(tenant_key, f"{sidecar.bytes} bytes", "an empty file") from error
        found = hashlib.sha256(payload).hexdigest()
        if found != sidecar.sha256:
            raise self._unfit(tenant_key, f"sha256 {sidecar.sha256}", f"sha256 {found}")
        postings = postings_from_bytes(payload, f"{self._artefact}/{tenant_key}")
        owner = (postings.parts[0].tenant, postings.chunk_set)
        if owner != (tenant_key, self._chunk_set):
            raise self._unfit(tenant_key, f"postings of {tenant_key} in {self._chunk_set}", " in ".join(owner))
        return Opened(postings, sidecar.sha256)

    def _unfit(self, tenant_key: str, expected: str, found: str) -> ArtefactError:
        return ArtefactError(
            f"The postings of {tenant_key} in {self._chunk_set} cannot be used",
            expected=expected,
            found=found,
            remedy=f"run `zeroth materialize --asset {self._artefact} --partition {tenant_key}`",
        )
