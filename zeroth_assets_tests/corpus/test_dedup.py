"""Duplicates by containment: the measure, the detector against brute force, its controls, and the real corpus."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from zeroth_assets.corpus import dedup, dedup_controls, dedup_index
from zeroth_assets.corpus.dedup import (
    EXACT_SCHEMA,
    PAIR_SCHEMA,
    SAMPLING_SCHEMA,
    containment,
    controls_verdict,
    dedup_report,
    exact_duplicates,
)
from zeroth_assets.corpus.dedup_controls import CONTROL_SCHEMA
from zeroth_assets.corpus.dedup_index import ShingleIndex, estimate_of
from zeroth_assets.corpus.dedup_relations import NO_RELATION, relate
from zeroth_assets.corpus.manifest import ManifestRecord, current_versions, load_manifest
from zeroth_assets.corpus.parse import parse_document
from zeroth_assets.corpus.shingles import Hashes, shingle_hashes, shingle_set
from zeroth_assets.errors import MeasurementError


def prose(seed: int, words: int) -> str:
    rng = random.Random(seed)
    return " ".join(f"w{rng.randrange(5_000)}" for _ in range(words))


def corpus(**texts: str) -> pl.DataFrame:
    rows = [(f"cuad:{name}", f"{i:064x}", "cuad", text) for i, (name, text) in enumerate(texts.items())]
    return pl.DataFrame(rows, schema=["document_id", "version", "source", "text"], orient="row")


CONTRACT = prose(1, 3_000)
FILING = f"{prose(2, 20_000)}\n{CONTRACT}\n{prose(3, 20_000)}"
CORPUS = corpus(
    contract=CONTRACT,
    filing=FILING,
    reformatted=CONTRACT.upper().replace(" ", " ,\n"),
    other=prose(4, 4_000),
    note=" ".join(CONTRACT.split()[100:200]),
    stub="too short",
    empty=" \n",
)


@pytest.fixture(scope="module")
def report() -> dedup.DedupReport:
    return dedup_report(CORPUS, seed=7)


def pair(report: dedup.DedupReport, contained: str, container: str) -> dict[str, object]:
    rows = report.pairs.filter(
        (pl.col("contained_id") == f"cuad:{contained}") & (pl.col("container_id") == f"cuad:{container}")
    )
    assert rows.height == 1
    return rows.row(0, named=True)


def test_containment_is_of_the_smaller_in_the_larger_whatever_the_order() -> None:
    small, large = "a b c d e f", "x a b c d e f y z"
    assert containment(small, large) == containment(large, small) == 1.0
    assert containment("one two three four five six", "zero one two three four five seven") == 0.5


def test_a_text_without_words_is_contained_in_nothing() -> None:
    assert containment("", "a b c d e f") == 0.0
    assert containment("...", "") == 0.0


def test_a_contract_inside_a_filing_is_found_with_direction_where_jaccard_sees_nothing(
    report: dedup.DedupReport,
) -> None:
    row = pair(report, "contract", "filing")
    assert row["containment"] == row["estimate"] == 1.0
    assert row["kind"] == "contained"
    assert float(str(row["jaccard"])) < 0.1
    assert float(str(row["reverse_containment"])) < 0.1


def test_a_reformatted_contract_is_the_same_text(report: dedup.DedupReport) -> None:
    assert pair(report, "contract", "reformatted")["kind"] == "same text"


def test_a_short_document_is_compared_in_full_and_says_so(report: dedup.DedupReport) -> None:
    row = pair(report, "note", "filing")
    assert row["method"] == "full (short document)"
    assert row["standard_error"] == 0.0
    assert row["shingles_compared"] == row["contained_shingles"] == 96
    assert pair(report, "contract", "filing")["method"] == "sample"
    assert (report.short_documents, report.empty_documents) == (2, 1)


def test_nothing_else_is_reported(report: dedup.DedupReport) -> None:
    found = {(r["contained_id"][5:], r["container_id"][5:]) for r in report.pairs.iter_rows(named=True)}
    expected = {(a, b) for a in ("contract", "reformatted") for b in ("filing",)}
    expected |= {("note", b) for b in ("contract", "reformatted", "filing")} | {("contract", "reformatted")}
    assert found == expected


def test_frames_have_their_declared_schemas(report: dedup.DedupReport) -> None:
    assert report.pairs.schema == PAIR_SCHEMA
    assert report.controls.schema == CONTROL_SCHEMA
    assert report.sampling.schema == SAMPLING_SCHEMA
    assert exact_duplicates(report).schema == EXACT_SCHEMA


def test_the_same_text_forms_one_linked_group_however_many_hold_it() -> None:
    copies = dict.fromkeys("dbca", CONTRACT)
    links = exact_duplicates(dedup_report(corpus(**copies, other=prose(4, 4_000))))
    assert links["document_id"].to_list() == ["cuad:a", "cuad:b", "cuad:c", "cuad:d"]
    assert links["next"].to_list() == ["cuad:b", "cuad:c", "cuad:d", None]
    assert set(links["representative"]) == {"cuad:a"}
    assert set(links["members"]) == {4}


def test_equal_bytes_are_called_so() -> None:
    twins = corpus(one=CONTRACT, two=CONTRACT).with_columns(version=pl.lit("f" * 64))
    assert dedup_report(twins).pairs["kind"].to_list() == ["same bytes"]


def test_the_order_of_the_documents_changes_nothing(report: dedup.DedupReport) -> None:
    again = dedup_report(CORPUS.reverse(), seed=7)
    assert again.pairs.equals(report.pairs)
    assert again.controls.equals(report.controls)
    assert again.sampling.equals(report.sampling)


@pytest.mark.parametrize("threshold", [0.5, 0.8, 1.0])
def test_the_detector_reports_just_what_a_comparison_of_all_pairs_finds(threshold: float) -> None:
    rng = random.Random(5)
    lines = [prose(100 + i, 60) for i in range(40)]
    texts = {f"d{i}": "\n".join(rng.sample(lines, rng.choice([1, 2, 12, 30, 38]))) for i in range(24)}
    report = dedup_report(corpus(**texts), threshold=threshold)
    found = {
        frozenset((r["contained_id"], r["container_id"])): r["containment"] for r in report.pairs.iter_rows(named=True)
    }
    expected = {}
    for i, one in enumerate(texts):
        for other in list(texts)[i + 1 :]:
            value = containment(texts[one], texts[other])
            if value >= threshold:
                expected[frozenset((f"cuad:{one}", f"cuad:{other}"))] = value
    assert len(expected) > 3
    assert found == expected


def test_the_estimates_error_is_what_repeated_samples_show() -> None:
    rng = np.random.default_rng(3)
    shared = np.zeros(1_600, dtype=bool)
    shared[:1_280] = True
    estimates = [rng.choice(shared, 100, replace=False).mean() for _ in range(4_000)]
    predicted = estimate_of(80, 100, 1_600).standard_error
    assert predicted == pytest.approx(float(np.std(estimates)), rel=0.05)


def test_the_interval_says_something_where_every_kept_shingle_is_shared() -> None:
    estimate = estimate_of(100, 100, 1_600)
    assert estimate.standard_error == 0.0
    assert 0.95 < estimate.low < estimate.high
    assert estimate.high == 1.0
    assert estimate_of(7, 7, 7).low == 1.0


def test_the_interval_covers_the_exact_value_of_most_random_overlaps() -> None:
    lines = [prose(500 + i, 40) for i in range(120)]
    rng = random.Random(8)
    hashes = shingle_hashes(["\n".join(rng.sample(lines, 60)) for _ in range(40)])
    index = ShingleIndex(hashes)
    covered = []
    for first in range(0, 40, 2):
        c = index.compare(first, first + 1)
        estimate = estimate_of(c.shared, c.kept, int(index.sizes[c.smaller]))
        covered.append(estimate.low <= index.shared(c.smaller, c.larger) / index.sizes[c.smaller] <= estimate.high)
    assert sum(covered) >= 17


def test_random_pairs_compare_the_estimate_with_the_exact_value() -> None:
    lines = [prose(900 + i, 60) for i in range(60)]
    rng = random.Random(9)
    texts = {f"d{i}": "\n".join(rng.sample(lines, 30)) for i in range(25)}
    report = dedup_report(corpus(**texts), seed=3)
    drawn = report.sampling.filter(pl.col("drawn_from") == "random pairs")
    assert drawn.height == 200
    for row in drawn.head(5).iter_rows(named=True):
        one, two = (texts[row[side].removeprefix("cuad:")] for side in ("contained_id", "container_id"))
        assert row["exact"] == containment(one, two)
    assert 0 < report.summary()["estimate, random pairs: mean error"] < 0.08
    assert drawn["error"].abs().max() == pytest.approx(
        report.summary()["estimate, random pairs: worst error"], abs=1e-5
    )


def test_controls_pass_and_cover_both_ways_of_comparing(report: dedup.DedupReport) -> None:
    assert controls_verdict(report).passed
    by_name = {row["control"]: row for row in report.controls.iter_rows(named=True)}
    assert set(by_name) == {"embedded", "reformatted", "excerpt", "unrelated", "shuffled"}
    assert by_name["embedded"]["method"] == "sample"
    assert by_name["excerpt"]["method"] == "full"
    assert by_name["embedded"]["contained"] in {f"cuad:{n}" for n in ("contract", "filing", "reformatted", "other")}


@pytest.mark.parametrize("frame", [CORPUS.clear(), corpus(stub="two words"), corpus(note=prose(6, 150))])
def test_controls_are_made_for_any_corpus(frame: pl.DataFrame) -> None:
    report = dedup_report(frame)
    assert controls_verdict(report).passed, report.controls
    assert report.pairs.is_empty()


@pytest.mark.parametrize("seed", range(4))
def test_controls_stand_whatever_the_language_and_the_signs(seed: int) -> None:
    awkward = "Ŀ Straße ŉ İstanbul ıl ﬁn ΟΔΟΣ e\u0301 1,000.5 “quoted” co\u00adop \u200bzero fin_de_siècle\n"
    text = awkward.join(prose(seed, 40) for seed in range(40))
    report = dedup_report(corpus(awkward=text, other=prose(77, 2_000)), seed=seed)
    assert controls_verdict(report).passed, report.controls


def test_a_detector_that_finds_nothing_fails_its_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedup_index.ShingleIndex, "candidates", lambda *_: [])
    verdict = controls_verdict(dedup_report(CORPUS))
    assert not verdict.passed
    assert any("embedded" in failure for failure in verdict.failures)
    assert any("finds nothing at all" in failure for failure in verdict.failures)


def test_a_detector_that_finds_everything_fails_its_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_alike(texts: list[str], progress: object = None) -> list[Hashes]:
        return [np.arange(0, 6_400, 16, dtype=np.uint64) for _ in texts]

    monkeypatch.setattr(dedup, "shingle_hashes", all_alike)
    verdict = controls_verdict(dedup_report(CORPUS))
    assert [f.partition(":")[0] for f in verdict.failures] == ["unrelated", "shuffled"]


def test_a_detector_that_minds_case_fails_on_the_reformatted_control(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zeroth_assets.corpus.shingles.normalise", lambda text: text)
    verdict = controls_verdict(dedup_report(corpus(contract=CONTRACT, other=prose(4, 4_000))))
    assert [f.partition(":")[0] for f in verdict.failures] == ["reformatted"]


def test_packaged_texts_are_unrelated_and_long_enough_to_serve() -> None:
    one, two = dedup_controls.PACKAGED_CONTRACT, dedup_controls.PACKAGED_HOST
    assert containment(one, two) == 0.0
    assert min(len(shingle_set(one)), len(shingle_set(two))) > 100


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.01])
def test_a_threshold_that_means_nothing_is_refused(threshold: float) -> None:
    with pytest.raises(MeasurementError, match="threshold"):
        dedup_report(CORPUS, threshold=threshold)


def test_a_document_version_that_comes_twice_is_refused() -> None:
    with pytest.raises(MeasurementError, match="twice"):
        dedup_report(pl.concat([CORPUS, CORPUS.head(1)]))


def record(document_id: str, number: int, **about: object) -> ManifestRecord:
    fields: dict[str, object] = {
        "document_id": document_id,
        "source": document_id.partition(":")[0],
        "identifier": document_id.partition(":")[2],
        "title": document_id,
        "sha256": f"{number:064x}",
        "bytes": 1,
        "media_type": "text/plain",
        "licence": "none",
        "tenant_attribute": "group",
    }
    return ManifestRecord(**{**fields, **about})  # type: ignore[arg-type]


def test_relations_are_read_from_the_manifest_with_direction() -> None:
    records = [
        record("rfc:1", 1, obsoleted_by=("rfc:2",)),
        record("rfc:2", 2, obsoleted_by=("rfc:3",)),
        record("rfc:3", 3),
        record("rfc:4", 4, updates=("rfc:3",), tenant_attribute="elsewhere"),
        record("sec:9:10-k:2023", 5, form="10-K"),
        record("sec:9:10-k:2024", 6, form="10-K"),
        record("cuad:a", 7),
        record("cuad:b", 8),
    ]
    version = {r.document_id: r.sha256 for r in records}
    cases = [
        ("rfc:1", "rfc:2", "obsoleted by"),
        ("rfc:1", "rfc:3", "obsoleted through others by"),
        ("rfc:3", "rfc:2", "successor of"),
        ("rfc:3", "rfc:4", "updated by"),
        ("rfc:4", "rfc:3", "update of"),
        ("sec:9:10-k:2023", "sec:9:10-k:2024", "another filing of the filer of"),
        ("cuad:a", "cuad:b", "of the same tenant as"),
        ("cuad:a", "rfc:1", NO_RELATION),
    ]
    pairs = pl.DataFrame(
        [(a, version[a], b, version[b]) for a, b, _ in cases],
        schema=["contained_id", "contained_version", "container_id", "container_version"],
        orient="row",
    )
    assert relate(pairs, records)["relation"].to_list() == [expected for *_, expected in cases]


@pytest.mark.mirror
def test_the_byte_identical_contracts_of_the_mirror_are_found(mirror: Path) -> None:
    manifest = load_manifest(Path(__file__).parents[2] / "corpus_manifest.json")
    records = [r for r in current_versions(manifest.records) if r.source == "cuad"]
    rows = []
    for r in records:
        document = parse_document(r, (mirror / str(r.mirror_path)).read_bytes())
        rows.append((r.document_id, r.sha256, r.source, document.text))
    report = dedup_report(
        pl.DataFrame(rows, schema=["document_id", "version", "source", "text"], orient="row"), seed=20_240_501
    )
    assert controls_verdict(report).passed
    identical = report.pairs.filter(pl.col("kind") == "same bytes")
    assert identical.height == 1
    assert identical["contained_id"].item().startswith("cuad:adurobiotech-inc-06-02-2020-ex-10-7-consulting")
    assert exact_duplicates(report)["members"].to_list() == [2, 2]
    assert report.summary()["estimate, random pairs: mean error"] < 0.01
    assert report.seconds < 60
