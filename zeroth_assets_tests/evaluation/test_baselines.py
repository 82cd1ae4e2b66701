from __future__ import annotations

import math
from pathlib import Path

import pytest

from zeroth_assets.errors import ArtefactError, MeasurementError, SettingsError
from zeroth_assets.evaluation.baselines import Baseline, compare_with_baseline, read_baseline, write_baseline

AT = "2026-01-02T03:04:05+00:00"


def values(*numbers: float) -> dict[str, float]:
    return {f"q{i:03}": number for i, number in enumerate(numbers)}


def baseline(reason: str = "measured on a quiet machine") -> Baseline:
    return Baseline("ann_recall", reason, AT, {"fixed_512/rfc-a": values(1.0, 0.9)}, {"digest": "d"})


def test_a_baseline_reads_as_it_was_written(tmp_path: Path) -> None:
    write_baseline(tmp_path, baseline())
    assert read_baseline(tmp_path, "ann_recall") == baseline()
    assert read_baseline(tmp_path, "golden_set") is None


def test_a_baseline_without_series_reads_as_it_was_written(tmp_path: Path) -> None:
    mark = Baseline("golden_set", "the first one", AT, {}, {"digest": "d"})
    write_baseline(tmp_path, mark)
    assert read_baseline(tmp_path, "golden_set") == mark


def test_a_baseline_moves_only_for_a_reason(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="for a reason"):
        write_baseline(tmp_path, baseline("  "))
    assert not list(tmp_path.iterdir())


def test_a_figure_that_there_is_not_has_no_baseline(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no baseline of 'speed'"):
        read_baseline(tmp_path, "speed")


WHOLE = '{"reason": "r", "accepted_at": "now", "marks": %s, "series": %s}'


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"reason": "r"}',
        "{",
        "[" * 100_000,
        WHOLE % ("[]", "{}"),
        WHOLE % ("{}", '["a"]'),
        WHOLE % ("{}", '{"a": ["q"]}'),
        WHOLE % ("{}", '{"a": {"q": "high"}}'),
        WHOLE % ("{}", '{"a": {"q": null}}'),
        WHOLE % ("{}", '{"a": {"q": NaN}}'),
    ],
)
def test_a_file_that_is_no_baseline_is_refused_by_name(tmp_path: Path, content: str) -> None:
    (tmp_path / "ann_recall.json").write_text(content)
    with pytest.raises(ArtefactError, match=r"ann_recall\.json cannot be read"):
        read_baseline(tmp_path, "ann_recall")


def test_equal_values_hold_although_their_interval_is_wide() -> None:
    same = values(*[1.0] * 10)
    assert compare_with_baseline(same, same, seed=1).verdict == "holds"


@pytest.mark.parametrize("lost", [math.nan, math.inf])
def test_a_value_that_is_no_number_never_holds(lost: float, tmp_path: Path) -> None:
    accepted = values(*[1.0] * 20)
    found = compare_with_baseline(values(*[lost] * 19, 1.0), accepted, seed=1)
    assert (found.verdict, found.n) == ("cannot tell", 20)
    assert "19 of 20 queries have no value" in found.wording
    with pytest.raises(MeasurementError, match="cannot be accepted"):
        write_baseline(tmp_path, Baseline("ann_recall", "why", "now", {"a": values(lost)}, {}))
    assert read_baseline(tmp_path, "ann_recall") is None


def test_a_clear_fall_is_a_regression_with_its_interval() -> None:
    found = compare_with_baseline(values(*[0.5, 0.6] * 25), values(*[1.0, 0.9] * 25), seed=1)
    assert found.verdict == "regressed"
    assert found.difference is not None
    assert found.difference.high < -0.01
    assert "below the accepted baseline" in found.wording


def test_a_fall_of_one_query_among_few_cannot_be_told() -> None:
    found = compare_with_baseline(values(*[1.0] * 19, 0.5), values(*[1.0] * 20), seed=1)
    assert found.verdict == "cannot tell"


def test_a_fall_within_the_margin_holds() -> None:
    before = [0.9, 0.8, 0.7, 1.0] * 100
    after = [number - 0.001 * (i % 3) for i, number in enumerate(before)]
    assert compare_with_baseline(values(*after), values(*before), seed=1).verdict == "holds"


def test_without_a_baseline_nothing_is_told() -> None:
    assert compare_with_baseline(values(1.0), None, seed=1).verdict == "no baseline"


def test_a_baseline_of_other_queries_says_nothing() -> None:
    other = {f"other{i}": 1.0 for i in range(20)}
    assert compare_with_baseline(values(*[0.1] * 20), other, seed=1).verdict == "other queries"


def test_queries_in_common_are_paired_by_id_and_not_by_place() -> None:
    before = {"a": 1.0, "b": 0.0, "c": 0.5}
    assert compare_with_baseline({"c": 0.5, "b": 0.0, "a": 1.0}, before, seed=1).verdict == "holds"
