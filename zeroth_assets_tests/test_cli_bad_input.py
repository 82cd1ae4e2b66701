from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from zeroth_assets.store import server, versions
from zeroth_assets.store.connect import Database, embedded_database
from zeroth_assets.store.passwords import Role
from zeroth_assets_tests.defs.test_runner import TENANTS, all_of, rows_of
from zeroth_assets_tests.small_corpus import CONTRACT, LANTERN, SmallCorpus, remade

Spoil = Callable[[SmallCorpus], object]


def completes(corpus: SmallCorpus) -> bool:
    """The same command, once what was wrong is mended: everything there and intact."""
    done = corpus.remake()
    return done.code == 0 and corpus.zeroth("corpus", "verify").code == 0 and all_of(*TENANTS) <= set(corpus.made_at())


def not_json(corpus: SmallCorpus) -> None:
    corpus.manifest.write_text(corpus.manifest.read_text("utf-8")[:-20], "utf-8")


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda c: c.amend(LANTERN, licence=None), (LANTERN, "licence")),
        (lambda c: c.amend(LANTERN, source="patents"), (LANTERN, "source", "patents")),
        (lambda c: c.amend(LANTERN, sha256="abc"), (LANTERN, "sha256")),
        (not_json, ("small.json", "JSON")),
        (lambda c: c.manifest.unlink(), ("small.json",)),
    ],
    ids=["missing field", "unknown source", "no checksum", "not JSON", "no file"],
)
def test_a_manifest_that_breaks_a_rule_is_named_and_nothing_is_touched(
    spoil: Spoil, named: tuple[str, ...], own: SmallCorpus
) -> None:
    whole, before = own.manifest.read_bytes(), own.made_at()
    spoil(own)
    done = own.remake()
    assert done.code == 3, done.out + done.err
    assert all(word in done.err for word in named), done.err
    assert "To do:" in done.err
    assert "Traceback" not in done.err
    assert own.made_at() == before
    own.manifest.write_bytes(whole)
    assert own.remake("--json").json["runs"] == []


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda c: c.amend(LANTERN, sha256="0" * 64), "sha256"),
        (lambda c: c.path(LANTERN).write_bytes(c.path(LANTERN).read_bytes()[:-100]), "bytes"),
        (lambda c: c.path(LANTERN).unlink(), LANTERN),
    ],
    ids=["wrong checksum", "truncated file", "no such file"],
)
def test_a_document_that_cannot_be_had_is_named_and_the_others_go_on(spoil: Spoil, word: str, own: SmallCorpus) -> None:
    manifest, document, path = own.manifest.read_bytes(), own.path(LANTERN).read_bytes(), own.path(LANTERN)
    shutil.rmtree(own.home / "raw")
    own.data_file("ann_recall_fixed_512", "sec-brf").unlink()
    spoil(own)
    before = own.made_at()
    done = own.remake()
    assert done.code == 4, done.out + done.err
    assert f"missing {LANTERN}" in done.out
    assert word in done.out
    assert "ann_recall_fixed_512/sec-brf" in remade(before, own.made_at())
    dead = own.zeroth("corpus", "dead", "--json").json
    assert [row["document_id"] for row in dead] == [LANTERN]
    assert dead[0]["next_step"]
    own.manifest.write_bytes(manifest)
    path.write_bytes(document)
    retried = own.zeroth("corpus", "retry")
    assert retried.code == 0, retried.out + retried.err
    assert completes(own)


def test_a_mirror_that_is_not_there_is_named_and_what_was_made_stays(own: SmallCorpus) -> None:
    shutil.rmtree(own.home / "raw")
    before = own.made_at()
    done = own.remake(ZEROTH_MIRROR=str(own.folder / "gone"))
    assert done.code == 4, done.out + done.err
    assert str(own.folder / "gone") in done.out + done.err
    assert "Traceback" not in done.out + done.err
    tenants = all_of(*TENANTS)
    assert not tenants & remade(before, own.made_at())
    assert tenants <= set(own.made_at())
    assert completes(own)


def test_a_server_that_does_not_answer_is_named_without_its_password(own: SmallCorpus) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    before = own.made_at()
    url = f"postgresql://postgres:secret-word@127.0.0.1:{port}/postgres"
    for arguments in (("materialize",), ("db", "status"), ("db", "migrate")):
        done = own.zeroth(*arguments, ZEROTH_DATABASE_URL=url)
        assert done.code == 10, done.err
        assert f"127.0.0.1:{port}" in done.err
        assert "secret-word" not in done.out + done.err
        assert "To do:" in done.err
    assert own.made_at() == before


def test_a_wrong_password_is_named_without_showing_it(own: SmallCorpus, database: Database) -> None:
    login = database.login(Role.ADMIN)
    url = f"postgresql://{login.user}:secret-word@{login.host}:{login.port}/postgres"
    done = own.remake(ZEROTH_DATABASE_URL=url)
    assert done.code == 10, done.err
    assert "password" in done.err
    assert "secret-word" not in done.err


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("POSTGRES_FLOORS", {19: 1}, "PostgreSQL is too old"),
        ("PGVECTOR_FLOOR", (9, 0, 0), "pgvector is too old"),
    ],
)
def test_a_server_below_the_floors_is_refused_with_advice(
    name: str, value: object, words: str, own: SmallCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = own.made_at()
    with monkeypatch.context() as patched:
        patched.setattr(versions, name, value)
        done = own.remake()
    assert done.code == 10, done.err
    assert words in done.err
    assert "To do:" in done.err
    assert own.made_at() == before
    assert own.remake("--json").json["runs"] == []


def test_a_server_without_pgvector_is_refused_with_the_package_to_install(
    own: SmallCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = versions.check_versions
    with monkeypatch.context() as patched:
        patched.setattr(versions, "check_versions", lambda number, installed, available: real(number, None, None))
        done = own.remake()
    assert done.code == 10
    assert "no pgvector" in done.err
    assert "install pgvector" in done.err


def test_a_database_of_another_corpus_is_refused(own: SmallCorpus) -> None:
    other = own.folder / "other.json"
    shutil.copyfile(own.manifest, other)
    before, rows = own.made_at(), rows_of(own, CONTRACT)
    whole = own.manifest.read_bytes()
    own.drop(CONTRACT)
    own.manifest.rename(other)
    own.manifest.write_bytes(whole)
    done = own.zeroth("db", "migrate", ZEROTH_MANIFEST=str(other))
    assert done.code == 10
    assert "holds another corpus" in done.err
    assert "'small'" in done.err
    assert "ZEROTH_HOME" in done.err
    done = own.remake(ZEROTH_MANIFEST=str(other))
    assert done.code == 10, done.out + done.err
    assert own.made_at() == before
    assert rows_of(own, CONTRACT) == rows
    assert own.remake("--json").json["runs"] == []


def test_a_database_that_is_gone_is_made_again_from_the_artefacts(own: SmallCorpus) -> None:
    server.stop(own.home)
    shutil.rmtree(own.home / "postgres")
    before = own.made_at()
    done = own.zeroth("materialize")
    assert done.code == 0, done.out + done.err
    made = remade(before, own.made_at())
    index = {
        f"{asset}_{s}/{t}"
        for asset in ("tenant_index", "ann_recall")
        for s in ("fixed_512", "section_aware")
        for t in TENANTS
    }
    assert made >= index | {"database_schema"}
    assert not [name for name in made if name.startswith(("raw_", "parsed_", "chunks_", "embeddings_"))]


def test_a_full_database_disk_is_named_and_the_same_command_completes(own: SmallCorpus) -> None:
    """What a load copies in first lies on a disk without room."""
    own.rewrite(LANTERN, lambda content: content.replace(b"lamp", b"lantern"))
    database = embedded_database(own.home)
    disk = own.home.parent / "disk"
    disk.mkdir(mode=0o755)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"mounting a small disk is not permitted here: {mounted.stderr.decode().strip()}")
    try:
        room = disk / "room"
        room.mkdir()
        owner = (own.home / "postgres" / "cluster").stat()
        shutil.chown(room, owner.st_uid, owner.st_gid)
        with database.admin(autocommit=True) as conn:
            conn.execute(f"create tablespace small location '{room}'".encode())
            conn.execute(b"alter database zeroth set temp_tablespaces = 'small'")
            conn.execute(b"grant create on tablespace small to public")
        with contextlib.suppress(OSError), (room / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        before = own.data_versions()
        done = own.remake()
        assert done.code == 10, done.out
        assert "No space left on device" in done.out
        assert "free disk space" in done.out
        after = own.data_versions()
        kept = {n: v for n, v in before.items() if n.startswith(("tenant_index", "ann_recall"))}
        assert kept.items() <= after.items()
        with database.admin(autocommit=True) as conn:
            conn.execute(b"alter database zeroth reset temp_tablespaces")
        assert completes(own)
    finally:
        server.stop(own.home)
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_the_artefact_of_a_source_keeps_which_documents_are_missing(own: SmallCorpus) -> None:
    own.path(LANTERN).unlink()
    shutil.rmtree(own.home / "raw" / "rfc")
    report = own.remake("--json")
    assert report.code == 4
    assert [m["document_id"] for m in report.json["missing"]] == [LANTERN]
    sidecar = json.loads(Path(own.artefacts / "raw_documents" / "rfc.meta.json").read_text("utf-8"))
    assert sidecar["details"]["missing"] == [own.record(LANTERN)["sha256"]]
