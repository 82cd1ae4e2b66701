from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from zeroth_assets.evaluation.judging.agreement import Agreement, Withheld
from zeroth_assets.evaluation.judging.human_sample import (
    SheetFiles,
    draw_sample,
    export_sheet,
    import_sheet,
    sample_agreement,
)
from zeroth_assets.evaluation.judging.model import JudgeError, JudgeQuery, SheetError

HOSTILE = '</div></article><script>document.title="owned"</script><img src=x onerror="document.title=\'owned\'">&amp;'
Rows = list[dict[str, str]]


def judged(counts: dict[int, int]) -> tuple[pl.DataFrame, pl.DataFrame, list[JudgeQuery]]:
    """A pool with so many pairs of each grade, five to a query."""
    rows = [(f"q{i // 5}", f"doc{i}", grade) for i, grade in enumerate(g for g, n in counts.items() for _ in range(n))]
    judgments = pl.DataFrame(rows, schema=["query_id", "document_id", "grade"], orient="row")
    texts = [
        f"Passage {i}, which says:\r\n=SUM(A1) \U0001f600 {HOSTILE if i % 3 == 0 else ''}" for i in range(len(rows))
    ]
    # The last ones are of the rarest grade, so that every sample has them.
    texts[-2:] = ["=1+1", "'quoted'"]
    passages = pl.DataFrame({"document_id": [f"doc{i}" for i in range(len(rows))], "text": texts})
    return judgments, passages, [JudgeQuery(f"q{i}", f'-Question {i}, "why"?') for i in range(len(rows) // 5 + 1)]


def skewed() -> tuple[pl.DataFrame, pl.DataFrame, list[JudgeQuery]]:
    return judged({0: 182, 1: 6, 2: 6, 3: 6})


@pytest.fixture
def files(tmp_path: Path) -> SheetFiles:
    return export_sheet(draw_sample(*skewed(), size=40, seed=3), tmp_path)


def read(path: Path) -> Rows:
    return list(csv.DictReader(io.StringIO(path.read_text("utf-8-sig"), newline="")))


def write(path: Path, rows: Rows, delimiter: str = ",", encoding: str = "utf-8") -> Path:
    table = io.StringIO()
    writer = csv.DictWriter(table, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(table.getvalue(), encoding, newline="")
    return path


def graded(files: SheetFiles, grades: Callable[[int], object]) -> Rows:
    return [{**row, "grade": str(grades(number))} for number, row in enumerate(read(files.csv))]


def test_the_sample_holds_every_grade_though_the_pool_is_nearly_all_zeros() -> None:
    sample = draw_sample(*skewed(), size=40, seed=3)
    counts = dict(sample.group_by("model_grade").len().iter_rows())
    assert counts == {0: 22, 1: 6, 2: 6, 3: 6}
    assert sample.filter(model_grade=0)["weight"].unique().to_list() == pytest.approx([182 / 22])
    assert sample["weight"].sum() == pytest.approx(200)


def test_shares_are_equal_where_every_grade_has_enough() -> None:
    sample = draw_sample(*judged({0: 100, 1: 100, 2: 100, 3: 100}), size=42, seed=1)
    assert sorted(sample.group_by("model_grade").len()["len"].to_list()) == [10, 10, 11, 11]


def test_a_seed_reproduces_the_sample_and_another_draws_another() -> None:
    one, two, three = (draw_sample(*skewed(), size=40, seed=seed) for seed in (3, 3, 4))
    assert one.equals(two)
    assert set(one["document_id"]) != set(three["document_id"])


def test_the_sheet_tells_neither_grade_nor_document_nor_query(files: SheetFiles) -> None:
    sample = draw_sample(*skewed(), size=40, seed=3)
    for text in (files.html.read_text("utf-8"), files.csv.read_text("utf-8-sig")):
        assert not re.search(r"doc\d+|\bq\d+\b", text)
        assert "model" not in text.lower()
    order = sample["model_grade"].to_list()
    assert order not in (sorted(order), sorted(order, reverse=True))


def test_the_sheet_loads_nothing_and_holds_no_markup_of_a_passage(files: SheetFiles) -> None:
    page = files.html.read_text("utf-8")
    assert not re.search(
        r"""(?:src|href)\s*=\s*["']|https?://|@import|url\(""", page.replace(HOSTILE, "").replace("&", "")
    )
    assert page.count("<script>") == 1
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert "default-src &#x27;none&#x27;" in page


def test_no_cell_of_the_sheet_is_a_formula(files: SheetFiles) -> None:
    for row in read(files.csv):
        for name in ("question", "passage"):
            assert row[name][0] not in "=+-@\t\r"


def test_a_graded_sheet_comes_back_with_both_grades(files: SheetFiles, tmp_path: Path) -> None:
    frame = import_sheet(write(tmp_path / "g.csv", graded(files, lambda i: i % 4)), files.key)
    sample = draw_sample(*skewed(), size=40, seed=3)
    assert frame["judge"].to_list() == sample["model_grade"].to_list()
    assert frame["reference"].to_list() == [i % 4 for i in range(40)]
    assert frame["document_id"].to_list() == sample["document_id"].to_list()
    found = sample_agreement(frame, seed=1)
    assert isinstance(found, Agreement)
    assert found.pool_kappa is not None
    assert found.pool_kappa.point != found.kappa.point


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_spreadsheets_delimiters_line_ends_and_spaces_do_no_harm(
    files: SheetFiles, tmp_path: Path, delimiter: str
) -> None:
    rows = [
        {**row, "grade": " 2 ", "passage": row["passage"].replace("\r\n", "\n")} for row in graded(files, lambda _: 2)
    ]
    assert import_sheet(write(tmp_path / "g.csv", rows, delimiter), files.key).height == 40


def break_rows(rows: Rows, change: str) -> Rows:
    if change == "half":
        return [{**row, "grade": "" if i % 2 else "1"} for i, row in enumerate(rows)]
    if change == "unknown":
        return [{**rows[0], "item_id": "ffffffffffff"}, *rows[1:]]
    if change == "twice":
        return [*rows, rows[0]]
    if change == "lost":
        return rows[1:]
    if change == "text":
        return [rows[0], {**rows[1], "passage": rows[1]["passage"] + "."}, *rows[2:]]
    if change == "question":
        return [rows[0], {**rows[1], "question": "Another?"}, *rows[2:]]
    return [*rows[:4], {**rows[4], "grade": change}, *rows[5:]]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("half", "no grade in rows 3, 5, 7, 9, 11, 13, 15, 17, 19, 21 and 10 more"),
        ("unknown", "an item that was not given out in row 2; 1 of 40 items missing"),
        ("twice", "an item that is there already in row 42"),
        ("lost", "1 of 40 items missing"),
        ("text", "another text than was given out in row 3"),
        ("question", "another text than was given out in row 3"),
        ("4", "a grade other than 0, 1, 2, 3 in row 6"),
        ("-1", "a grade other than 0, 1, 2, 3 in row 6"),
        ("2.5", "a grade other than 0, 1, 2, 3 in row 6"),
        ("NaN", "a grade other than 0, 1, 2, 3 in row 6"),
        ("two", "a grade other than 0, 1, 2, 3 in row 6"),
        ("²", "a grade other than 0, 1, 2, 3 in row 6"),
    ],
)
def test_a_sheet_that_is_not_what_was_given_out_is_refused_by_row(
    files: SheetFiles, tmp_path: Path, change: str, found: str
) -> None:
    rows = break_rows(graded(files, lambda i: i % 4), change)
    with pytest.raises(SheetError) as caught:
        import_sheet(write(tmp_path / "g.csv", rows), files.key)
    assert caught.value.found == found
    assert "Passage" not in str(caught.value)


def test_a_file_that_is_no_sheet_is_refused(files: SheetFiles, tmp_path: Path) -> None:
    rows = graded(files, lambda i: i % 4)
    with pytest.raises(SheetError, match="UTF-8"):
        import_sheet(write(tmp_path / "g.csv", rows, encoding="utf-16"), files.key)
    with pytest.raises(SheetError, match="lacks columns"):
        import_sheet(write(tmp_path / "g.csv", [{"item_id": "a", "grade": "1"}]), files.key)
    with pytest.raises(SheetError, match="cannot be read"):
        import_sheet(tmp_path / "nothing.csv", files.key)
    with pytest.raises(SheetError, match="key"):
        import_sheet(write(tmp_path / "g.csv", rows), files.csv)


@pytest.mark.parametrize(
    "change",
    [
        {"text_sha256": None},
        {"item_id": ["a"]},
        {"model_grade": "x"},
        {"model_grade": 4},
        {"weight": "nan"},
    ],
)
def test_a_key_with_an_entry_that_was_not_written_so_is_refused(
    files: SheetFiles, tmp_path: Path, change: dict[str, object]
) -> None:
    entries = json.loads(files.key.read_text("utf-8"))
    key = tmp_path / "damaged.json"
    key.write_text(json.dumps([{**entries[0], **change}, *entries[1:]]), "utf-8")
    with pytest.raises(SheetError, match="key of the sheet"):
        import_sheet(write(tmp_path / "g.csv", graded(files, lambda i: i % 4)), key)


def test_thirty_threes_and_two_twos_are_withheld_while_the_model_gave_zero_to_nearly_all(tmp_path: Path) -> None:
    files = export_sheet(draw_sample(*skewed(), size=32, seed=3), tmp_path)
    rows = graded(files, lambda i: 2 if i in (4, 20) else 3)
    found = sample_agreement(import_sheet(write(tmp_path / "g.csv", rows), files.key), seed=1)
    assert found == Withheld("one value", "the person gave grade 3 to 94% of 32, above 80%", 32)


def test_nothing_to_draw_from_is_refused() -> None:
    judgments, passages, queries = skewed()
    with pytest.raises(JudgeError):
        draw_sample(judgments.clear(), passages, queries, seed=1)
    with pytest.raises(JudgeError, match="no text"):
        draw_sample(judgments, passages.head(3), queries, seed=1)


@pytest.mark.browser
def test_a_person_grades_by_keyboard_in_a_browser_and_the_saved_file_comes_back(
    files: SheetFiles, tmp_path: Path
) -> None:
    from zeroth_assets_tests.defs.browser import open_page

    requests: list[str] = []
    with open_page("http://127.0.0.1") as page:
        page.on("request", lambda request: requests.append(request.url))
        page.goto(files.html.as_uri())
        assert page.title() == "Relevance grades"
        assert page.locator("article:visible").count() == 1
        for number in range(39):
            page.keyboard.press(str(number % 4))
        page.reload()
        assert page.locator("#count").text_content() == "39 of 40 graded"
        page.locator("article:visible label").nth(1).click()
        assert page.locator("#count").text_content() == "40 of 40 graded"
        page.screenshot(path=str(tmp_path / "sheet.png"))
        with page.expect_download() as download:
            page.keyboard.press("s")
        download.value.save_as(tmp_path / "graded.csv")
        assert page.title() == "Relevance grades"
    assert [url for url in requests if not url.startswith(("file:", "blob:"))] == []
    frame = import_sheet(tmp_path / "graded.csv", files.key)
    assert frame["reference"].to_list() == [*(i % 4 for i in range(39)), 1]
