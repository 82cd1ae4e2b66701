from __future__ import annotations

from zeroth_assets.corpus.tenk_text import extract_text, split_submission

SUBMISSION = """-----BEGIN PRIVACY-ENHANCED MESSAGE-----
Proc-Type: 2001,MIC-CLEAR

<SEC-DOCUMENT>0000000000-98-000001.txt : 19980310
<SEC-HEADER>ACCESSION NUMBER: 0000000000-98-000001
</SEC-HEADER>
<DOCUMENT>
<TYPE>10-K405
<SEQUENCE>1
<DESCRIPTION>ANNUAL REPORT
<TEXT>
- ------
ITEM 1. BUSINESS
</TEXT>
</DOCUMENT>
<DOCUMENT>
<TYPE>EX-13
<SEQUENCE>2
<DESCRIPTION>PORTIONS OF THE ANNUAL REPORT
<TEXT>
Discussion.
</TEXT>
</DOCUMENT>
<DOCUMENT>
<TYPE>GRAPHIC
<SEQUENCE>3
<TEXT>
begin 644 logo.gif
M1TE&.#EA
end
</TEXT>
</DOCUMENT>
</SEC-DOCUMENT>
-----END PRIVACY-ENHANCED MESSAGE-----
"""


def test_a_submission_comes_apart_into_its_documents() -> None:
    documents, dropped = split_submission(SUBMISSION)
    assert [(d.type, d.description, d.is_main, d.is_text) for d in documents] == [
        ("10-K405", "ANNUAL REPORT", True, True),
        ("EX-13", "PORTIONS OF THE ANNUAL REPORT", False, True),
        ("GRAPHIC", "", False, False),
    ]
    assert documents[0].body.split() == ["------", "ITEM", "1.", "BUSINESS"]
    assert dropped["pem_escape"] == 2
    assert dropped["sgml_envelope"] > 200


def test_an_envelope_in_lower_case_is_one_all_the_same() -> None:
    documents, _ = split_submission(
        "<html><body><document> <type>10-K/A <text><html><p>Amendment</p></html></text></document></body></html>"
    )
    assert [(d.type, d.is_main) for d in documents] == [("10-K/A", True)]
    assert "Amendment" in documents[0].body


def test_a_file_without_an_envelope_is_one_document() -> None:
    documents, dropped = split_submission("<html><p>Text</p></html>")
    assert [d.body for d in documents] == ["<html><p>Text</p></html>"]
    assert dropped == {}


def test_a_truncated_submission_keeps_its_last_document() -> None:
    documents, _ = split_submission("<DOCUMENT>\n<TYPE>10-K\n<TEXT>\nITEM 1. BUSINESS\nWe make")
    assert documents[0].body.strip().endswith("We make")


def test_page_tags_and_form_feeds_begin_pages() -> None:
    extracted = extract_text("one\n<PAGE>\ntwo\n\fthree")
    assert [(line.text, line.page) for line in extracted.lines if line.text] == [("one", 0), ("two", 1), ("three", 2)]
    assert extracted.real_pages


def test_text_without_page_tags_has_no_real_pages() -> None:
    assert not extract_text("one\ntwo").real_pages


def test_a_tagged_table_keeps_the_spaces_of_its_columns_and_loses_its_tags() -> None:
    columns = ["            1997   1996", "Sales       $ 12   $ 11"]
    body = f"Before\n<TABLE>\n<CAPTION>\n{columns[0]}\n<S>         <C>    <C>\n{columns[1]}\n</TABLE>\nAfter"
    extracted = extract_text(body)
    assert [line.text for line in extracted.lines if line.row] == columns
    assert [line.text for line in extracted.lines if not line.row and line.text] == ["Before", "After"]
    assert extracted.dropped["markup"] > 0


def test_runs_of_blank_lines_become_one() -> None:
    assert [line.text for line in extract_text("a\n\n\n\nb").lines] == ["a", "", "b"]


def test_entities_of_text_filings_are_read() -> None:
    assert [line.text for line in extract_text("AT&amp;T &lt;3").lines] == ["AT&T <3"]
