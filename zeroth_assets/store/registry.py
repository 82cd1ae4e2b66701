"""What the database says about itself: chunk sets, tenants, index builds.

What belongs here: the records of schema `zeroth` other than chunks, read by whoever loads, plans or measures, and the
one call that makes a chunk table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from zeroth_assets.artefacts import PARTITION_KEY
from zeroth_assets.errors import DatabaseError, TenantError
from zeroth_assets.store.connect import Database
from zeroth_assets.store.failures import database_errors

IndexKind = Literal["hnsw", "none"]
EVERYTHING = "all"  # the principal that may see every tenant; no tenant is called so


@dataclass(frozen=True, slots=True)
class IndexParameters:
    """How a tenant's vectors are indexed: HNSW (cosine) with pgvector's `m` and `ef_construction`, or not at all."""

    kind: IndexKind = "hnsw"
    m: int = 16
    ef_construction: int = 64

    def __post_init__(self) -> None:
        if self.kind == "hnsw" and not (
            2 <= self.m <= 100 and 4 <= self.ef_construction <= 1000 and self.ef_construction >= 2 * self.m
        ):
            raise DatabaseError(
                "The HNSW parameters are out of range",
                expected="m in 2..100, ef_construction in 4..1000 and at least 2 * m",
                found=f"m = {self.m}, ef_construction = {self.ef_construction}",
                remedy="set ZEROTH_HNSW_M and ZEROTH_HNSW_EF_CONSTRUCTION within them",
            )


@dataclass(frozen=True, slots=True)
class ChunkSet:
    """A chunk table: `zeroth.chunk_<chunk_set_id>`, for vectors of one dimension."""

    chunk_set_id: int
    name: str
    dimension: int

    @property
    def table(self) -> sql.Identifier:
        """The partitioned parent, the one name that a query may use."""
        return sql.Identifier("zeroth", f"chunk_{self.chunk_set_id}")

    @property
    def shared(self) -> sql.Identifier:
        """The unpartitioned copy under one index, if there is one: see `store.shared`."""
        return sql.Identifier("zeroth", f"shared_{self.chunk_set_id}")

    def partition(self, tenant_id: int) -> sql.Identifier:
        """A tenant's partition; only its owner can name it."""
        return sql.Identifier("zeroth", f"chunk_{self.chunk_set_id}_t{tenant_id}")


@dataclass(frozen=True, slots=True)
class Tenant:
    """A registered tenant."""

    tenant_id: int
    tenant_key: str


@dataclass(frozen=True, slots=True)
class IndexBuild:
    """What a tenant's rows in one chunk table are, and how they are indexed."""

    index_build_id: int
    chunk_set_id: int
    tenant_id: int
    status: str
    fingerprint_digest: str
    fingerprint: dict[str, Any]
    chunker_version: str
    row_count: int
    rows_digest: str
    index_kind: IndexKind
    m: int | None
    ef_construction: int | None
    index_name: str | None
    inputs: dict[str, str]
    started_at: datetime
    finished_at: datetime

    def is_of(self, digest: str, chunker_version: str, parameters: IndexParameters) -> bool:
        """Whether the build has this fingerprint, chunker and index."""
        built = (self.index_kind, self.m, self.ef_construction)
        return (self.fingerprint_digest, self.chunker_version, built) == (
            digest,
            chunker_version,
            _stored(parameters),
        )

    def indexed_by(self, parameters: IndexParameters) -> bool:
        """Whether the build's index has these parameters."""
        return (self.index_kind, self.m, self.ef_construction) == _stored(parameters)


_BUILD_COLUMNS = sql.SQL(", ").join(map(sql.Identifier, IndexBuild.__slots__))


def check_tenant_key(key: str) -> str:
    """Return `key` if it may name a tenant.

    Raises:
        TenantError: it breaks the rule, or is the reserved principal `all`.
    """
    if not PARTITION_KEY.fullmatch(key) or key == EVERYTHING:
        raise TenantError(
            f"Tenant key {key!r} is refused",
            expected="lower-case letters, digits, '.', '_' and '-', first a letter or digit, at most 63; not `all`",
            found=repr(key),
            remedy="derive it with `zeroth_assets.corpus.tenants.tenant_key`",
        )
    return key


def ensure_chunk_set(db: Database, name: str, dimension: int) -> ChunkSet:
    """The chunk table for `name` and `dimension`, made if absent, as `zeroth_owner`.

    Raises:
        DatabaseError: not migrated, or a name or dimension (1 to 2,000) that is refused.
    """
    with database_errors(f"making chunk set {name} for {dimension} dimensions"), db.owner() as connection:
        row = connection.execute("select zeroth.ensure_chunk_set(%s, %s)", (name, dimension)).fetchone()
        connection.commit()
    assert row is not None
    return ChunkSet(int(row[0]), name, dimension)


def chunk_sets(connection: psycopg.Connection[Any]) -> tuple[ChunkSet, ...]:
    """Every chunk table, by name and dimension. For any of the roles."""
    with connection.cursor(row_factory=class_row(ChunkSet)) as cursor:
        cursor.execute("select chunk_set_id, name, dimension from zeroth.chunk_set order by name, dimension")
        return tuple(cursor.fetchall())


def find_chunk_set(connection: psycopg.Connection[Any], name: str, dimension: int | None = None) -> ChunkSet:
    """The chunk table called `name`; `dimension` tells several of that name apart.

    Raises:
        DatabaseError: there is none, or more than one.
    """
    every = chunk_sets(connection)
    found = [c for c in every if c.name == name and dimension in (None, c.dimension)]
    if len(found) == 1:
        return found[0]
    wanted = name if dimension is None else f"{name} for {dimension} dimensions"
    raise DatabaseError(
        f"Chunk set {wanted} is {'ambiguous' if found else 'not in the database'}",
        expected=f"one table for {wanted}",
        found=", ".join(f"{c.name} ({c.dimension})" for c in every) or "no chunk set at all",
        remedy="name the dimension" if found else "run `zeroth materialize --asset database_schema`",
    )


def list_tenants(db: Database) -> tuple[Tenant, ...]:
    """Registered tenants, by key, as `zeroth_loader`."""
    with (
        database_errors("listing tenants"),
        db.loader() as connection,
        connection.cursor(row_factory=class_row(Tenant)) as cursor,
    ):
        cursor.execute("select tenant_id, tenant_key from zeroth.tenant order by tenant_key")
        return tuple(cursor.fetchall())


def live_build(connection: psycopg.Connection[Any], chunk_set: ChunkSet, tenant_key: str) -> IndexBuild | None:
    """The build in force for a tenant in one chunk table; None if there is none, or the role may not see it."""
    with connection.cursor(row_factory=class_row(IndexBuild)) as cursor:
        cursor.execute(
            sql.SQL(
                "select {} from zeroth.index_build join zeroth.tenant using (tenant_id)"
                " where chunk_set_id = %s and tenant_key = %s and status = 'live'"
            ).format(_BUILD_COLUMNS),
            (chunk_set.chunk_set_id, tenant_key),
        )
        return cursor.fetchone()


def current_build(db: Database, chunk_set: str, tenant_key: str, dimension: int | None = None) -> IndexBuild | None:
    """The build in force, or None where the tenant was never loaded, as `zeroth_loader`.

    Where `name` has tables of several dimensions and none is named, it is the tenant's newest build among them.
    """
    with database_errors(f"reading the index build of {tenant_key}"), db.loader() as connection:
        builds = [
            build
            for candidate in chunk_sets(connection)
            if candidate.name == chunk_set and dimension in (None, candidate.dimension)
            if (build := live_build(connection, candidate, tenant_key)) is not None
        ]
    return max(builds, key=lambda build: build.index_build_id, default=None)


def describe_fingerprint(fingerprint: object) -> tuple[str, dict[str, Any]]:
    """Digest and JSON form of an embedding's fingerprint: a mapping with `digest`, or an object with that attribute.

    Raises:
        DatabaseError: it has no digest.
    """
    if isinstance(fingerprint, Mapping):
        payload = {str(key): value for key, value in fingerprint.items()}
        digest = payload.get("digest")
    else:
        digest = getattr(fingerprint, "digest", None)
        names = getattr(type(fingerprint), "__dataclass_fields__", None) or vars(fingerprint)
        payload = {name: getattr(fingerprint, name) for name in names}
    if not isinstance(digest, str) or not digest:
        raise DatabaseError(
            "The embedding's fingerprint has no digest",
            expected="a `digest` of type str",
            found=f"{type(fingerprint).__name__} with digest {digest!r}",
            remedy="pass `encoder.fingerprint`",
        )
    return digest, {**payload, "digest": digest}


def _stored(parameters: IndexParameters) -> tuple[str, int | None, int | None]:
    if parameters.kind == "none":
        return ("none", None, None)
    return (parameters.kind, parameters.m, parameters.ef_construction)
