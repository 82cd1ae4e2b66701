from __future__ import annotations

import pytest

from zeroth_assets.corpus.tenk_html import extract_html
from zeroth_assets.corpus.tenk_lines import Line


def texts(markup: str) -> list[str]:
    return [line.text for line in extract_html(markup).lines]


def rows(markup: str) -> list[str]:
    return [line.text for line in extract_html(markup).lines if line.row]


def test_blocks_become_lines_and_inline_markup_does_not_break_words() -> None:
    markup = "<body><div>Net <b>sales</b> gr<i>ew</i>.</div><p>By\n 3&#37;</p>tail<br>end</body>"
    assert texts(markup) == ["Net sales grew.", "By 3%", "tail", "end"]


def test_inline_xbrl_header_and_hidden_facts_are_left_out_and_counted() -> None:
    extracted = extract_html(
        "<body><div style='display:none'><ix:header><ix:hidden>secret fact</ix:hidden></ix:header></div>"
        "<ix:header>context</ix:header>"
        "<p>Revenue of <ix:nonFraction name='x'>12</ix:nonFraction> million</p></body>"
    )
    assert [line.text for line in extracted.lines] == ["Revenue of 12 million"]
    assert extracted.dropped == {"hidden": len("secret fact"), "inline_xbrl_hidden": len("context")}


@pytest.mark.parametrize("style", ["display:none", "DISPLAY : None", "color:red; visibility: hidden"])
def test_hidden_styles_are_read_whatever_their_case_and_spacing(style: str) -> None:
    assert texts(f"<p>seen</p><p style='{style}'>unseen</p>") == ["seen"]


def test_an_empty_hidden_element_of_xhtml_does_not_swallow_what_follows() -> None:
    markup = "<?xml version='1.0'?><html><body><div style='display:none'/><p>body text</p></body></html>"
    assert texts(markup) == ["body text"]


def test_windows_entities_and_no_break_spaces_read_as_a_browser_reads_them() -> None:
    assert texts("<p>The&nbsp;&#147;Company&#148;&#160;&mdash; R&amp;D&#8203;</p>") == ["The “Company” — R&D"]


def test_spans_set_apart_by_padding_are_not_one_word() -> None:
    markup = "<p><span>Item 1B.</span><span style='padding-left:3.86pt'>Unresolved</span></p>"
    assert texts(markup) == ["Item 1B. Unresolved"]


def test_a_row_is_one_line_whose_cells_a_tab_keeps_apart() -> None:
    markup = (
        "<table><tr><td></td><td colspan=3>2023</td><td colspan=2>2022</td></tr>"
        "<tr><td>Net<br>sales</td><td>$</td><td>1,234</td><td>&nbsp;</td><td>(56</td><td>)</td><td>7.5</td><td>%</td></tr>"
        "</table>"
    )
    assert rows(markup) == ["\t2023\t2022", "Net sales\t$1,234\t(56)\t7.5%"]


def test_rows_of_one_table_share_its_number() -> None:
    markup = "<table><tr><td>a<td>b<tr><td>c<td>d</table><table><tr><td>e<td>f<tr><td>g<td>h</table>"
    assert [(line.text, line.table) for line in extract_html(markup).lines] == [
        ("a\tb", 1),
        ("c\td", 1),
        ("e\tf", 2),
        ("g\th", 2),
    ]


def test_a_paragraph_laid_out_in_a_table_is_a_paragraph() -> None:
    markup = "<table><tr><td>&nbsp;</td><td><p>First paragraph.</p><p>Second one.</p></td></tr></table>"
    lines = extract_html(markup).lines
    assert [line.text for line in lines] == ["First paragraph.", "Second one."]
    assert not any(line.row for line in lines)


def test_a_bullet_laid_out_in_a_table_is_a_list_item() -> None:
    markup = "<table><tr><td>&#149;</td><td>net income of $2.7 billion;</td></tr></table>"
    assert extract_html(markup).lines == [Line("• net income of $2.7 billion;", list_item=True)]


def test_a_heading_laid_out_in_a_table_is_one_line() -> None:
    markup = "<table><tr><td>ITEM 7A.</td><td>QUANTITATIVE AND QUALITATIVE<br>DISCLOSURES</td></tr></table>"
    assert extract_html(markup).lines == [Line("ITEM 7A. QUANTITATIVE AND QUALITATIVE DISCLOSURES")]


def test_a_table_that_lays_out_other_tables_gives_their_lines() -> None:
    markup = "<table><tr><td><p>Above</p><table><tr><td>a<td>1<tr><td>b<td>2</table></td><td>Beside</td></tr></table>"
    assert texts(markup) == ["Above", "a\t1", "b\t2", "Beside"]
    assert rows(markup) == ["a\t1", "b\t2"]


@pytest.mark.parametrize(
    "break_",
    [
        "<hr style='page-break-after:always'/>",
        "<p style='PAGE-BREAK-BEFORE: Always'>",
        "<div style='break-after: page'></div>",
        "<!-- PAGEBREAK -->",
        "<page>",
    ],
)
def test_page_breaks_that_the_markup_names_are_real(break_: str) -> None:
    extracted = extract_html(f"<body><p>one</p>{break_}<p>two</p></body>")
    assert extracted.real_pages
    assert [(line.text, line.page) for line in extracted.lines] == [("one", 0), ("two", 1)]


def test_rules_under_page_numbers_are_page_breaks_where_there_are_no_others() -> None:
    pages = "".join(f"<p>Text {'abc'[n]}</p><p>{n + 1}</p><hr>" for n in range(3))
    extracted = extract_html(f"<body>{pages}<p>Last</p></body>")
    assert extracted.real_pages
    assert [line.page for line in extracted.lines] == [0, 0, 1, 1, 2, 2, 3]


def test_rules_between_headings_are_no_page_breaks() -> None:
    extracted = extract_html("<body><p>Title</p><hr><p>Subtitle</p><hr><p>Text</p><hr><p>End</p></body>")
    assert not extracted.real_pages


def test_links_into_the_document_are_marked() -> None:
    lines = extract_html("<p><a href='#i1'>Item 1.</a> Business</p><p><a href='https://x.example'>site</a></p>").lines
    assert [line.linked for line in lines] == [True, False]


def test_preformatted_text_keeps_its_lines() -> None:
    assert texts("<pre>one\n  two\nthree</pre>") == ["one", "two", "three"]


@pytest.mark.parametrize(
    "markup",
    [
        "<p>kept<table><tr><td>a</b></i><td>b<p>kept",
        "<td>kept</td></table></div></p>",
        "<p <b kept>kept</p",
        "<!-- unclosed <p>x</p>--><p>kept",
        "<div style='display:none'>gone</div><b><p>kept</b></p>",
    ],
)
def test_malformed_markup_loses_no_text(markup: str) -> None:
    assert "kept" in " ".join(texts(markup))


@pytest.mark.parametrize("tag", ["div", "span", "table><tr><td", "b", "ul><li"])
def test_ten_thousand_levels_of_nesting_are_read(tag: str) -> None:
    assert texts(f"<body>{f'<{tag}>' * 10_000}deep text") == ["deep text"]


def test_hidden_nesting_of_ten_thousand_levels_is_counted_whole() -> None:
    extracted = extract_html("<body>seen<div hidden>" + "<div>" * 10_000 + "unseen")
    assert [line.text for line in extracted.lines] == ["seen"]
    assert extracted.dropped == {"hidden": 6}
