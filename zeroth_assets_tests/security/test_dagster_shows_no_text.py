"""What Dagster keeps and shows of a materialisation: no sentence of any tenant's document, succeeded or failed."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from psycopg import sql

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.store.connect import Database, embedded_database
from zeroth_assets.store.place import read_record
from zeroth_assets_tests.small_corpus import Materialised, SmallCorpus

# Long enough to be a document's own, short enough to stand on one line of it.
LETTERS = 48
PIECES = 60  # about so many of a tenant are looked for


def sentences_of(corpus: SmallCorpus) -> dict[str, set[str]]:
    """Pieces of each document's text, from its middle too; what several documents share is left out."""
    store = ArtefactStore(corpus.artefacts)
    pieces: dict[str, set[str]] = {}
    for name in sorted(path.name for path in corpus.artefacts.iterdir() if path.name.startswith("chunks_")):
        for partition in store.partitions(name):
            frame = pl.read_parquet(io.BytesIO(store.read_bytes(name, partition)))
            for text in frame["text"]:
                lines = [line.strip() for line in str(text).splitlines()]
                pieces.setdefault(partition, set()).update(line[:LETTERS] for line in lines if len(line) >= LETTERS)
    seen: dict[str, int] = {}
    for found in pieces.values():
        for piece in found:
            seen[piece] = seen.get(piece, 0) + 1
    return {
        tenant: set(sorted(piece for piece in found if seen[piece] == 1)[:: max(1, len(found) // PIECES)])
        for tenant, found in pieces.items()
    }


def kept_by_dagster(db: Database) -> Iterator[tuple[str, str]]:
    """Every row of every table of Dagster's database, as text."""
    with db.admin(dbname=db.dagster_name) as admin:
        tables = admin.execute(
            "select schemaname::text, tablename::text from pg_tables where schemaname !~ '^(pg_|information_schema)'"
        ).fetchall()
        for schema, table in tables:
            for (row,) in admin.execute(sql.SQL("select t::text from {} t").format(sql.Identifier(schema, table))):
                yield f"{schema}.{table}", str(row)


def files_beside(corpus: SmallCorpus) -> Iterator[tuple[str, str]]:
    """Logs, plots and settings of the home: all but what holds documents by design, and the database's own files."""
    for path in sorted(corpus.home.rglob("*")):
        inside = path.relative_to(corpus.home).parts
        if path.is_file() and inside[0] not in ("artefacts", "raw", "postgres"):
            yield "/".join(inside), path.read_bytes().decode("latin-1")
    for path in sorted(corpus.artefacts.rglob("*.meta.json")):
        yield str(path.relative_to(corpus.home)), path.read_text("utf-8")
    place = read_record(corpus.home)
    assert place is not None
    for path in place.cluster(corpus.home).glob("server.log*"):
        yield path.name, path.read_text("utf-8", errors="replace")


def leaks(pieces: dict[str, set[str]], shown: Iterator[tuple[str, str]]) -> list[tuple[str, str]]:
    """Where a piece of a tenant's text stands; the place and the tenant, never the piece."""
    whole: dict[str, list[str]] = {}
    for place, text in shown:
        whole.setdefault(place, []).append(text)
    found = []
    for place, texts in whole.items():
        joined = "\n".join(texts)
        found += [(place, tenant) for tenant, own in pieces.items() if any(piece in joined for piece in own)]
    return found


@pytest.fixture(scope="module")
def pieces(materialised: Materialised) -> dict[str, set[str]]:
    found = sentences_of(materialised.corpus)
    assert len(found) >= 3
    assert all(len(own) >= 5 for own in found.values()), {tenant: len(own) for tenant, own in found.items()}
    return found


def test_a_materialisation_leaves_no_sentence_in_events_metadata_logs_or_output(
    shared: SmallCorpus, materialised: Materialised, pieces: dict[str, set[str]]
) -> None:
    db = embedded_database(shared.home)
    rows = list(kept_by_dagster(db))
    assert len(rows) > 200
    assert sum("ASSET_MATERIALIZATION" in text for _, text in rows) >= 10
    assert leaks(pieces, iter(rows)) == []
    assert leaks(pieces, files_beside(shared)) == []
    assert leaks(pieces, iter([("stdout", materialised.first.out), ("stderr", materialised.first.err)])) == []


def test_a_failing_load_leaves_no_sentence_in_its_failure(own: SmallCorpus, pieces: dict[str, set[str]]) -> None:
    db = embedded_database(own.home)
    with db.owner(autocommit=True) as owner:
        tables = owner.execute(
            "select oid::regclass::text from pg_class where relkind = 'p' and relname ~ '^chunk_[0-9]+$'"
        ).fetchall()
        assert tables
        for (table,) in tables:
            owner.execute(
                sql.SQL("alter table {} add constraint refused check (ordinal < 0) not valid").format(sql.SQL(table))
            )
        tenant = owner.execute("select tenant_key from zeroth.tenant order by tenant_id limit 1").fetchone()
    assert tenant is not None
    # Loaded anew from nothing, into a staging table that no policy guards.
    from zeroth_assets.store.retire import retire_tenant

    retire_tenant(db, str(tenant[0]))
    failed = own.remake("--tenant", str(tenant[0]), "--json")
    assert failed.code != 0
    rows = list(kept_by_dagster(db))
    assert any("refused" in text and "STEP_FAILURE" in text for _, text in rows)
    assert leaks(pieces, iter(rows)) == []
    assert leaks(pieces, files_beside(own)) == []
    assert leaks(pieces, iter([("stdout", failed.out), ("stderr", failed.err)])) == []


def test_the_search_for_leaks_finds_one(pieces: dict[str, set[str]], tmp_path: Path) -> None:
    tenant, own = next(iter(pieces.items()))
    assert leaks(pieces, iter([("somewhere", f"before {next(iter(own))} behind")])) == [("somewhere", tenant)]
