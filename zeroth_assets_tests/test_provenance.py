"""Provenance: the chain from chunks to publishers' bytes, and every way in which it can break named."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.chunking import chunk_documents, chunks_to_frame
from zeroth_assets.corpus.manifest import Manifest, current_versions, load_manifest, write_manifest
from zeroth_assets.corpus.model import documents_from_frame, documents_to_frame
from zeroth_assets.corpus.parse import parse_source
from zeroth_assets.corpus.raw import raw_path, read_raw
from zeroth_assets.corpus.tenants import plan_tenants
from zeroth_assets.embedding import find_model
from zeroth_assets.errors import ArtefactError
from zeroth_assets.planning import Planner, all_assets
from zeroth_assets.provenance import Chain, Verified, named, sidecar_problems, trace, verify
from zeroth_assets.settings import package_file, read_settings

TENANT = "rfc-orchard-naming"
CHUNKS = "chunks_section_aware"


@dataclasses.dataclass(frozen=True)
class Home:
    store: ArtefactStore
    manifest: Manifest
    manifest_path: Path
    raw_dir: Path

    def chain(self, artefact: str = CHUNKS, partition: str | None = TENANT) -> Chain:
        return trace(self.store, self.manifest, artefact, partition)

    def verify(self, artefact: str = CHUNKS, partition: str | None = TENANT, **about: Any) -> Verified:
        return verify(
            self.chain(artefact, partition),
            self.store,
            self.manifest,
            self.raw_dir,
            manifest_path=self.manifest_path,
            **about,
        )

    def file(self, artefact: str, partition: str | None = None) -> Path:
        return Path(self.store.root) / artefact / self.store.require(artefact, partition).file

    def sidecar_path(self, artefact: str, partition: str | None = None) -> Path:
        return Path(self.store.root) / artefact / f"{partition or '_'}.meta.json"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The sample's contracts and RFCs up to chunks, with the recipes that the planner gives."""
    folder = tmp_path_factory.mktemp("provenance")
    raw_dir = folder / "raw"
    sample = load_manifest(package_file("sample/corpus_manifest.json"))
    records = [r for r in sample.records if r.source in ("rfc", "cuad")]
    manifest = write_manifest(records, folder / "manifest.json")
    for record in manifest:
        path = raw_path(raw_dir, record)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(package_file("sample/documents") / str(record.mirror_path), path)
    store = ArtefactStore(folder / "artefacts")
    model = find_model("all-MiniLM-L6-v2")

    def planner() -> Planner:
        settings = read_settings(manifest="sample", home=folder)
        return Planner(settings, store, manifest, model=model, raw_dir=raw_dir, migrations_digest="0" * 64)

    about: dict[str, Any] = planner().recipe("corpus_manifest").about("The manifest.", load_manifest)
    store.write_frame(pl.DataFrame({"document_id": [r.document_id for r in manifest]}), "corpus_manifest", **about)
    for source in ("rfc", "cuad"):
        about = planner().recipe("raw_documents", source).about("Bytes on disk.", read_raw, missing=[])
        store.write_frame(pl.DataFrame({"path": ["x"]}), "raw_documents", source, **about)
        report = parse_source(current_versions(manifest.of_source(source)), lambda r: read_raw(raw_dir, r))
        about = planner().recipe("parsed_documents", source).about("Canonical texts.", parse_source)
        store.write_frame(documents_to_frame(list(report.documents)), "parsed_documents", source, **about)
    parsed = pl.concat(store.read_frame("parsed_documents", source) for source in ("cuad", "rfc"))
    counted = parsed.select("document_id", "version", "source", "text", tokens=pl.col("text").str.len_chars() // 4)
    assignments = plan_tenants(counted, manifest.records, stride=434).assignments
    about = planner().recipe("tenant_assignments").about("Document to tenant.", plan_tenants)
    store.write_frame(assignments, "tenant_assignments", **about)
    mine = parsed.join(assignments.filter(pl.col("tenant") == TENANT), on=["document_id", "version"], how="semi")
    chunks = chunk_documents(documents_from_frame(mine), "section_aware", model.tokenizer())
    about = planner().recipe(CHUNKS, TENANT).about("The chunks.", chunk_documents)
    store.write_frame(chunks_to_frame(chunks), CHUNKS, TENANT, **about)
    return Home(store, manifest, folder / "manifest.json", raw_dir)


@pytest.fixture
def home(built: Home, tmp_path: Path) -> Home:
    """A copy to break."""
    folder = tmp_path / "home"
    shutil.copytree(built.manifest_path.parent, folder)
    return Home(ArtefactStore(folder / "artefacts"), built.manifest, folder / "manifest.json", folder / "raw")


def flip(path: Path, place: int = -200) -> None:
    payload = bytearray(path.read_bytes())
    payload[place] ^= 1
    path.write_bytes(payload)


def edit_sidecar(home: Home, artefact: str, partition: str | None, change: Callable[[dict[str, Any]], None]) -> None:
    path = home.sidecar_path(artefact, partition)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def rewritten(home: Home, artefact: str, partition: str | None, frame: pl.DataFrame) -> None:
    """Publish another frame with the former sidecar's inputs, as a run with other code would."""
    former = home.store.require(artefact, partition)
    home.store.write_frame(
        frame,
        artefact,
        partition,
        describes=former.describes,
        code=former.generated_by["code"],
        code_version=former.code_version,
        inputs=former.inputs,
        parameters=former.parameters,
        details=former.details,
    )


def test_the_chain_goes_from_chunks_to_the_manifest_and_the_tenants_documents(built: Home) -> None:
    chain = built.chain()
    assert [link.key for link in chain.links][:6] == [
        f"{CHUNKS}/{TENANT}",
        f"tenant_assignments#{TENANT}",
        "parsed_documents/rfc",
        "raw_documents/rfc",
        "corpus_manifest#rfc",
        "manifest",
    ]
    assert {link.key for link in chain.links} >= {"tenant_assignments", "parsed_documents/cuad", "raw_documents/cuad"}
    assert chain.problems == ()
    names = {r.tenant_attribute for r in chain.documents}
    assert len(names) == 1
    assert len(chain.documents) == 5


def test_a_sound_chain_is_read_in_full(built: Home) -> None:
    seen: list[tuple[int, int]] = []
    verified = built.verify(progress=lambda done, total: seen.append((done, total)))
    assert verified.documents == 5
    assert verified.bytes == sum(r.bytes for r in built.chain().documents)
    assert verified.chunks == built.store.require(CHUNKS, TENANT).rows > 0
    assert verified.artefacts == 6
    assert verified.unread == ()
    assert seen[-1] == (5, 5)


@pytest.mark.parametrize(
    ("artefact", "partition", "documents"),
    [("parsed_documents", "rfc", 18), ("tenant_assignments", None, None), ("corpus_manifest", None, 0)],
)
def test_every_kind_of_artefact_has_a_chain(
    built: Home, artefact: str, partition: str | None, documents: int | None
) -> None:
    chain = built.chain(artefact, partition)
    assert len(chain.documents) == (len(built.manifest) if documents is None else documents)
    built.verify(artefact, partition)


def test_text_and_json_lead_to_address_and_checksum(built: Home) -> None:
    chain = built.chain()
    text = chain.to_text()
    content = json.loads(json.dumps(chain.to_json()))
    for record in chain.documents:
        assert f"{record.document_id}  sha256 {record.sha256}  {record.origin}" in text
        assert record.origin in {d["origin"] for d in content["documents"]}
    assert "zeroth materialize --asset chunks_section_aware --partition rfc-orchard-naming" in text
    assert "weights_sha256" in text
    assert content["root"] == f"{CHUNKS}/{TENANT}"
    assert {link["key"] for link in content["links"]} == {link.key for link in chain.links}


def test_a_long_list_of_documents_is_cut_and_says_so(built: Home) -> None:
    chain = built.chain("parsed_documents", "rfc")
    assert "and 16 more" in chain.to_text(documents=2)
    assert "more" not in chain.to_text(documents=None).splitlines()[-1]


def test_an_artefact_that_was_never_made_has_no_chain(built: Home) -> None:
    with pytest.raises(ArtefactError, match="missing"):
        built.chain("embeddings_fixed_512", TENANT)


def test_an_artefact_withdrawn_from_the_middle_is_named(home: Home) -> None:
    home.store.remove("raw_documents", "rfc")
    with pytest.raises(ArtefactError, match="raw_documents/rfc is missing"):
        home.chain()


def test_a_changed_raw_file_is_named_with_its_address(home: Home) -> None:
    record = home.chain().documents[2]
    flip(raw_path(home.raw_dir, record))
    with pytest.raises(ArtefactError) as caught:
        home.verify()
    assert record.document_id in str(caught.value)
    assert record.origin in str(caught.value)
    assert record.sha256 in str(caught.value)


def test_a_missing_raw_file_is_named(home: Home) -> None:
    record = home.chain().documents[0]
    raw_path(home.raw_dir, record).unlink()
    with pytest.raises(ArtefactError, match=record.document_id):
        home.verify()


def test_another_tenants_raw_file_is_no_part_of_the_chain(home: Home) -> None:
    mine = {r.document_id for r in home.chain().documents}
    other = next(r for r in home.manifest if r.document_id not in mine)
    flip(raw_path(home.raw_dir, other))
    home.verify()


@pytest.mark.parametrize(
    ("artefact", "partition"),
    [(CHUNKS, TENANT), ("parsed_documents", "rfc"), ("raw_documents", "rfc"), ("tenant_assignments", None)],
)
def test_a_changed_data_file_is_named(home: Home, artefact: str, partition: str | None) -> None:
    chain = home.chain()
    flip(home.file(artefact, partition))
    with pytest.raises(ArtefactError, match=f"{artefact}.* is damaged"):
        verify(chain, home.store, home.manifest, home.raw_dir)


def test_an_upstream_made_anew_breaks_the_chain_above_it(home: Home) -> None:
    frame = home.store.read_frame("raw_documents", "rfc")
    rewritten(home, "raw_documents", "rfc", pl.concat([frame, frame]))
    chain = home.chain()
    assert len(chain.problems) == 1
    assert chain.problems[0].startswith("parsed_documents/rfc was made of raw_documents/rfc")
    assert "Problems:" in chain.to_text()
    with pytest.raises(ArtefactError, match="parsed_documents/rfc was made of raw_documents/rfc"):
        home.verify()


def test_a_text_that_was_parsed_otherwise_under_the_same_version_breaks_the_tenants_link(home: Home) -> None:
    parsed = home.store.read_frame("parsed_documents", "rfc")
    rewritten(home, "parsed_documents", "rfc", parsed.with_columns(pl.col("text") + " "))
    version = home.store.require("parsed_documents", "rfc").sha256

    def accept(content: dict[str, Any]) -> None:
        content["inputs"]["parsed_documents/rfc"] = version

    edit_sidecar(home, "tenant_assignments", None, accept)
    chain = home.chain()
    assert [p for p in chain.problems if "fingerprint" not in p] == []
    with pytest.raises(ArtefactError, match=f"tenant_assignments#{TENANT} is not what the chain was made of"):
        verify(dataclasses.replace(chain, problems=()), home.store, home.manifest, home.raw_dir)


def test_a_chunk_that_is_not_in_its_document_is_named(home: Home) -> None:
    chunks = home.store.read_frame(CHUNKS, TENANT)
    wrong = chunks.with_columns(pl.when(pl.int_range(pl.len()) == 3).then(pl.lit("x")).otherwise("text").alias("text"))
    rewritten(home, CHUNKS, TENANT, wrong)
    row = chunks.row(3, named=True)
    with pytest.raises(ArtefactError, match=rf"Chunk {row['ordinal']} of {row['document_id']} "):
        home.verify()


def test_a_manifest_with_another_record_breaks_the_chain(home: Home) -> None:
    fewer = write_manifest(home.manifest.records[1:], home.manifest_path)
    with pytest.raises(ArtefactError, match="manifest is not what the chain was made of"):
        home.verify()
    selection = dataclasses.replace(home, manifest=fewer)
    chain = dataclasses.replace(selection.chain("raw_documents", "cuad"), problems=())
    with pytest.raises(ArtefactError, match="corpus_manifest#cuad"):
        verify(chain, home.store, fewer, home.raw_dir)


def test_an_input_outside_the_store_is_compared_where_its_value_is_known(home: Home) -> None:
    about: dict[str, Any] = {
        "describes": "Roles.",
        "code": "x.y",
        "code_version": "1",
        "inputs": {"migrations": "1" * 64},
    }
    home.store.write_frame(pl.DataFrame({"role": ["a"]}), "database_schema", **about)
    assert home.verify("database_schema", None).unread == ("migrations",)
    assert home.verify("database_schema", None, outside={"migrations": "1" * 64}).unread == ()
    with pytest.raises(ArtefactError, match="migrations"):
        home.verify("database_schema", None, outside={"migrations": "2" * 64})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"describes": " "}, "describes"),
        ({"generated_by": {"code": "a.b", "command": "zeroth x"}}, "commit"),
        ({"generated_by": {"commit": "1", "command": "zeroth x"}}, "code"),
        ({"generated_by": {"commit": "1", "code": "a.b"}}, "command"),
        ({"inputs": {}}, "no inputs"),
        ({"inputs": {"manifest": "latest"}}, "no sha256"),
        ({"parameters": {"size": 9}}, "fingerprint"),
    ],
)
def test_a_sidecar_that_says_too_little_or_was_edited_is_a_problem(
    home: Home, change: dict[str, Any], said: str
) -> None:
    sidecar = home.store.require("corpus_manifest")
    assert sidecar_problems(sidecar) == ()
    assert said in " ".join(sidecar_problems(dataclasses.replace(sidecar, **change)))
    edit_sidecar(home, "corpus_manifest", None, lambda content: content.update(change))
    with pytest.raises(ArtefactError, match="The chain of corpus_manifest is broken"):
        home.verify("corpus_manifest", None)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("nonsense", "no asset 'nonsense'"),
        ("chunk_section_aware", "such as chunks_section_aware"),
        (CHUNKS, f"zeroth provenance {CHUNKS}/{TENANT}"),
        (f"{CHUNKS}/rfc-orchard-namin", f"one of {TENANT}"),
        ("corpus_manifest/rfc", "zeroth provenance corpus_manifest"),
        ("", "no asset ''"),
    ],
)
def test_a_name_that_is_none_is_answered_with_what_to_type_instead(built: Home, asked: str, told: str) -> None:
    with pytest.raises(ArtefactError) as caught:
        named(built.store, asked, all_assets())
    assert told in str(caught.value)
    assert "materialize --asset nonsense" not in str(caught.value)


def test_a_name_that_is_one_is_taken_apart(built: Home) -> None:
    assert named(built.store, f" {CHUNKS}/{TENANT}", all_assets()) == (CHUNKS, TENANT)
    assert named(built.store, "corpus_manifest", all_assets()) == ("corpus_manifest", None)
    assert named(built.store, "judgments", all_assets()) == ("judgments", None), "never made: the chain says so"
