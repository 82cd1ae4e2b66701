from __future__ import annotations

import multiprocessing
import re
import shutil
from pathlib import Path

import pytest

from zeroth_assets.errors import DatabaseError
from zeroth_assets.settings import project_file
from zeroth_assets.store.connect import Database
from zeroth_assets.store.migrate import claim_corpus, migrate, read_migrations

MORE = f"{len(read_migrations()) + 1:04}_more"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(project_file("sql"), tmp_path / "sql"))


def tables(db: Database) -> set[str]:
    with db.admin() as connection:
        rows = connection.execute(
            "select relname from pg_class c join pg_namespace n on n.oid = c.relnamespace"
            " where nspname in ('zeroth', 'zeroth_acl') and relkind in ('r', 'p')"
        ).fetchall()
    return {row[0] for row in rows}


def test_migrations_are_applied_once_and_in_order(fresh_database: Database) -> None:
    first = migrate(fresh_database)
    second = migrate(fresh_database)
    names = tuple(file.revision for file in read_migrations())
    assert (first.applied, first.already) == (names, ())
    assert (second.applied, second.already) == ((), names)
    assert first.head == second.head == names[-1]
    assert {"tenant", "chunk_set", "index_build", "meta", "grant_"} <= tables(fresh_database)


def test_a_changed_applied_file_is_refused_by_name_with_what_to_do(fresh_database: Database, folder: Path) -> None:
    migrate(fresh_database, folder=folder)
    with (folder / "0002_registry.sql").open("a") as handle:
        handle.write("-- an afterthought\n")
    with pytest.raises(DatabaseError, match=r"0002_registry\.sql") as caught:
        migrate(fresh_database, folder=folder)
    assert "git checkout sql/" in caught.value.remedy
    assert "0001" not in caught.value.found


def test_an_applied_file_that_is_gone_is_refused(fresh_database: Database, folder: Path) -> None:
    (folder / f"{MORE}.sql").write_text("create table zeroth.extra (n int);")
    migrate(fresh_database, folder=folder)
    (folder / f"{MORE}.sql").unlink()
    with pytest.raises(DatabaseError, match=rf"{MORE}\.sql was applied as .* and is gone"):
        migrate(fresh_database, folder=folder)


def test_a_failing_file_leaves_nothing_of_itself_and_the_corrected_one_is_applied(
    fresh_database: Database, folder: Path
) -> None:
    bad = folder / f"{MORE}.sql"
    bad.write_text("create table zeroth.extra (n int);\nselect 1 / 0;\n")
    with pytest.raises(DatabaseError, match=rf"{MORE}\.sql .*division by zero"):
        migrate(fresh_database, folder=folder)
    assert "extra" not in tables(fresh_database)
    assert "tenant" in tables(fresh_database)
    bad.write_text("create table zeroth.extra (n int);\n")
    assert migrate(fresh_database, folder=folder).applied == (MORE,)
    assert "extra" in tables(fresh_database)


def test_a_gap_in_the_numbers_is_refused(fresh_database: Database, folder: Path) -> None:
    (folder / "0003_chunk_tables.sql").unlink()
    with pytest.raises(DatabaseError, match="numbered series"):
        migrate(fresh_database, folder=folder)
    assert tables(fresh_database) == set()


def test_no_migration_ends_its_own_transaction() -> None:
    for file in read_migrations():
        assert not re.search(r"(?im)^\s*(commit|rollback|end)\s*;", re.sub(r"\$\$.*?\$\$", "", file.text, flags=re.S))


def _migrate(db: Database, outcome: multiprocessing.Queue[tuple[str, ...]]) -> None:
    outcome.put(migrate(db).applied)


def test_two_processes_migrate_at_once_and_one_of_them_does_the_work(fresh_database: Database) -> None:
    context = multiprocessing.get_context("spawn")
    outcome: multiprocessing.Queue[tuple[str, ...]] = context.Queue()
    processes = [context.Process(target=_migrate, args=(fresh_database, outcome)) for _ in range(2)]
    for process in processes:
        process.start()
    applied = sorted(outcome.get(timeout=60) for _ in processes)
    for process in processes:
        process.join(60)
    assert applied == [(), tuple(file.revision for file in read_migrations())]


def test_a_database_keeps_to_its_first_corpus(fresh_database: Database) -> None:
    migrate(fresh_database, corpus="sample")
    claim_corpus(fresh_database, "sample")
    with pytest.raises(DatabaseError, match="corpus 'published'") as caught:
        migrate(fresh_database, corpus="published")
    assert "ZEROTH_HOME" in caught.value.remedy


def test_a_database_that_was_never_migrated_says_so(fresh_database: Database) -> None:
    with pytest.raises(DatabaseError) as caught:
        claim_corpus(fresh_database, "sample")
    assert "zeroth db migrate" in caught.value.remedy
