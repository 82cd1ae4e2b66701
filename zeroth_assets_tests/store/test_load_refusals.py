from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import psycopg
import pytest

from zeroth_assets.errors import DatabaseError, TenantError, ZerothError
from zeroth_assets.store.connect import Database
from zeroth_assets.store.read import read_vectors
from zeroth_assets.store.registry import (
    IndexParameters,
    current_build,
    describe_fingerprint,
    ensure_chunk_set,
    list_tenants,
)
from zeroth_assets_tests.store.builders import (
    CHUNK_SET,
    load,
    make_chunks,
    make_vectors,
    prepared,
    relations_of,
    stored_rows,
    tenant_id_of,
)


@pytest.fixture(scope="module")
def db(module_database: Database) -> Database:
    """The module's database; every test uses tenants of its own."""
    return prepared(module_database)


def _with(vectors: np.ndarray, row: int, value: float) -> np.ndarray:
    changed = vectors.copy()
    changed[row] = value
    return changed


def _repeat(chunks: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([chunks[:5], chunks[:1]])


REFUSED: dict[str, tuple[pl.DataFrame, np.ndarray, str]] = {
    "fewer vectors than chunks": (make_chunks(range(6)), make_vectors(5), "not one per chunk"),
    "NaN": (make_chunks(range(6)), _with(make_vectors(6), 2, np.nan), "not finite"),
    "infinity": (make_chunks(range(6)), _with(make_vectors(6), 2, np.inf), "not finite"),
    "a zero vector": (make_chunks(range(6)), _with(make_vectors(6), 2, 0.0), "unit norm"),
    "a norm of two": (make_chunks(range(6)), make_vectors(6) * np.float32(2), "unit norm"),
    "float64": (make_chunks(range(6)), make_vectors(6).astype(np.float64), "not a float32 matrix"),
    "one dimension": (make_chunks(range(6)), make_vectors(6)[0], "not a float32 matrix"),
    "another dimension than the chunk set": (make_chunks(range(6)), make_vectors(6, dimension=9), "9 dimensions"),
    "a chunk id twice": (_repeat(make_chunks(range(6))), make_vectors(6), "ids occur twice"),
    "NUL": (make_chunks(range(6), "a\0b"), make_vectors(6), "NUL"),
    "a missing column": (make_chunks(range(6)).drop("section_path"), make_vectors(6), "section_path is absent"),
    "a null text": (
        make_chunks(range(6)).with_columns(pl.lit(None, pl.String).alias("text")),
        make_vectors(6),
        "Column text has nulls",
    ),
    "a short hash": (
        make_chunks(range(6)).with_columns(pl.lit(b"x").alias("chunk_hash")),
        make_vectors(6),
        "not sha256",
    ),
    "an offset beyond int4": (
        make_chunks(range(6)).with_columns(pl.lit(2**31).alias("char_end")),
        make_vectors(6),
        "char_end has values out of range",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_before_anything_is_written(db: Database, case: str) -> None:
    chunks, vectors, message = REFUSED[case]
    load(db, make_chunks(range(3)), tenant="kept")
    before = stored_rows(db, tenant_id_of(db, "kept"))
    with pytest.raises(ZerothError, match=message) as caught:
        load(db, chunks, tenant="kept", vectors=vectors)
    assert caught.value.expected
    assert caught.value.remedy
    assert stored_rows(db, tenant_id_of(db, "kept")) == before


@pytest.mark.parametrize("key", ["../x", "/abs", "A", "", "all", "a" * 64, "a b", "-a", "a;drop table t"])
def test_a_tenant_key_that_breaks_the_rule_is_refused(db: Database, key: str) -> None:
    with pytest.raises(TenantError, match="is refused"):
        load(db, make_chunks(range(3)), tenant=key)
    assert key not in {tenant.tenant_key for tenant in list_tenants(db)}


def test_the_database_holds_the_rule_for_tenant_keys_too(db: Database) -> None:
    for key in ("../x", "all"):
        with db.loader() as connection, pytest.raises(psycopg.errors.CheckViolation):
            connection.execute("select zeroth.register_tenant(%s)", (key,))


def test_index_parameters_out_of_range_are_refused() -> None:
    for m, ef in ((1, 64), (16, 20), (101, 1000), (16, 1001)):
        with pytest.raises(DatabaseError, match="out of range"):
            IndexParameters(m=m, ef_construction=ef)


def test_a_fingerprint_is_a_mapping_or_an_object_with_a_digest() -> None:
    @dataclass(frozen=True)
    class Print:
        model: str

        @property
        def digest(self) -> str:
            return "d"

    assert describe_fingerprint(Print("m")) == ("d", {"model": "m", "digest": "d"})
    with pytest.raises(DatabaseError, match="no digest"):
        describe_fingerprint({"model": "m"})


def test_chunk_sets_of_one_name_and_two_dimensions_stand_side_by_side(db: Database) -> None:
    assert ensure_chunk_set(db, "both", 8) == ensure_chunk_set(db, "both", 8)
    ensure_chunk_set(db, "both", 9)
    load(db, make_chunks(range(4)), tenant="two-models", chunk_set="both")
    newer = load(db, make_chunks(range(4)), tenant="two-models", chunk_set="both", vectors=make_vectors(4, dimension=9))
    build = current_build(db, "both", "two-models")
    assert build is not None
    assert build.index_build_id == newer.index_build_id
    assert read_vectors(db, "both", "two-models", dimension=8).vectors.shape == (4, 8)
    with pytest.raises(DatabaseError, match="ambiguous"):
        read_vectors(db, "both", "two-models")


@pytest.mark.parametrize(("name", "dimension"), [("x; drop", 8), ("fine", 0), ("fine", 2001), ("", 8)])
def test_a_chunk_set_that_breaks_the_rule_is_refused(db: Database, name: str, dimension: int) -> None:
    with pytest.raises(DatabaseError):
        ensure_chunk_set(db, name, dimension)


# Failures in the middle -----------------------------------------------------------------------------------------------


class InterruptedLoadError(Exception):
    pass


def _interrupt(done: int, total: int) -> None:
    raise InterruptedLoadError


def test_an_exception_in_the_middle_of_copying_leaves_the_old_rows(db: Database) -> None:
    first = load(db, make_chunks(range(5)), tenant="interrupted")
    before = stored_rows(db, first.tenant_id)
    with pytest.raises(InterruptedLoadError):
        load(db, make_chunks(range(5), "two"), tenant="interrupted", progress=_interrupt)
    assert stored_rows(db, first.tenant_id) == before
    assert load(db, make_chunks(range(5), "two"), tenant="interrupted").updated == 5


def test_an_exception_in_a_first_load_leaves_no_partition_and_no_build(db: Database) -> None:
    for stage in ("copy", "index", "attach", "commit"):

        def fail(name: str, at: str = stage) -> None:
            if name == at:
                raise InterruptedLoadError

        with pytest.raises(InterruptedLoadError):
            load(db, make_chunks(range(5)), tenant="unborn", on_stage=fail)
        assert current_build(db, CHUNK_SET, "unborn") is None
        assert relations_of(db, tenant_id_of(db, "unborn")) == []
    assert load(db, make_chunks(range(5)), tenant="unborn").kind == "first"


def _too_many_words(count: int) -> pl.DataFrame:
    """The last chunk's word list passes 1 MB, which the server refuses when it computes `tsv`."""
    endless = " ".join(f"word{i}x{i * 7919}" for i in range(120_000))
    last = pl.col("ordinal") == count - 1
    return make_chunks(range(count), "two").with_columns(
        pl.when(last).then(pl.lit(endless)).otherwise(pl.col("text")).alias("text")
    )


@pytest.mark.parametrize("tenant", ["refused-first", "refused-later"])
def test_a_statement_that_the_server_refuses_half_way_is_a_typed_error_and_leaves_the_old_rows(
    db: Database, tenant: str
) -> None:
    if tenant == "refused-later":
        load(db, make_chunks(range(3)), tenant=tenant)
    before = stored_rows(db, tenant_id_of(db, tenant)) if tenant == "refused-later" else []
    with pytest.raises(DatabaseError, match=f"loading tenant {tenant}") as caught:
        load(db, _too_many_words(3), tenant=tenant)
    assert caught.value.remedy == "make the chunks smaller"
    assert stored_rows(db, tenant_id_of(db, tenant)) == before
    assert "two" not in str(caught.value)
