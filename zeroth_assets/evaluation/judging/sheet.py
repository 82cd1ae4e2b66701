"""The sheet that a person grades: one HTML file that needs nothing but a browser.

What belongs here: its markup, its style, its script, and the cells of its CSV. Passages are strangers' text: they are
escaped, and the page's policy runs no script but its own, so that neither mistake alone would do harm.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Sequence
from dataclasses import dataclass

CSV_COLUMNS = ("item_id", "grade", "question", "passage")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")
_LEGEND = {0: "nothing", 1: "some part", 2: "at least half", 3: "the whole answer"}


@dataclass(frozen=True, slots=True)
class SheetItem:
    """What the person sees of a pair, with an id that says nothing."""

    item_id: str
    question: str
    passage: str


def guarded(cell: str) -> str:
    """A text that no spreadsheet takes for a formula.

    >>> guarded("=1+1"), guarded("text"), unguarded(guarded("'=1"))
    ("'=1+1", 'text', "'=1")
    """
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def unguarded(cell: str) -> str:
    """The text that was guarded."""
    return cell.removeprefix("'")


def render_sheet(items: Sequence[SheetItem], statement: str) -> str:
    """The page. It loads nothing, sends nothing, keeps grades in the browser's own storage until they are saved."""
    sheet_id = hashlib.sha256("\n".join(item.item_id for item in items).encode("utf-8")).hexdigest()[:16]
    policy = (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{_source(_STYLE)}'; script-src '{_source(_SCRIPT)}'"
    )
    articles = "\n".join(_article(number, len(items), item) for number, item in enumerate(items, 1))
    return f"""<!DOCTYPE html>
<html lang="en" data-sheet="{sheet_id}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Relevance grades</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<h1>How far does the passage answer the question?</h1>
<p class="statement">{html.escape(statement)}</p>
<p>Keys <kbd>0</kbd> <kbd>1</kbd> <kbd>2</kbd> <kbd>3</kbd> grade and go on, <kbd>←</kbd> <kbd>→</kbd> move,
<kbd>Backspace</kbd> takes a grade back, <kbd>s</kbd> saves.</p>
<div class="bar"><progress id="progress" max="{len(items)}" value="0"></progress>
<span id="count" role="status"></span><button id="save" type="button">Save CSV</button></div>
<noscript><p>This sheet needs its script; without it, grade the CSV that came with it.</p></noscript>
</header>
<main>
{articles}
</main>
<script>{_SCRIPT}</script>
</body>
</html>
"""


def _article(number: int, total: int, item: SheetItem) -> str:
    name = html.escape(item.item_id)
    choices = "".join(
        f'<label><input type="radio" name="{name}" value="{grade}"><b>{grade}</b> {legend}</label>'
        for grade, legend in _LEGEND.items()
    )
    return (
        f'<article id="{name}"><h2>{number} of {total}</h2>'
        f'<div class="question">{html.escape(item.question)}</div>'
        f'<div class="passage" tabindex="0">{html.escape(item.passage)}</div>'
        f"<fieldset><legend>Grade</legend>{choices}</fieldset></article>"
    )


def _source(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


_STYLE = """
:root { color-scheme: light dark; font: 17px/1.5 system-ui, sans-serif; }
body { max-width: 54rem; margin: 0 auto; padding: 0 1rem 3rem; }
header { position: sticky; top: 0; background: Canvas; border-bottom: 1px solid GrayText; padding-bottom: .5rem; }
h1 { font-size: 1.2rem; margin: .6rem 0 .3rem; }
header p { margin: .3rem 0; font-size: .85rem; }
.statement, .question, .passage { white-space: pre-wrap; overflow-wrap: anywhere; }
.bar { display: flex; gap: 1rem; align-items: center; }
progress { flex: 1; }
h2 { font-size: .9rem; font-weight: normal; margin: 1rem 0 .2rem; }
.question { font-weight: 600; font-size: 1.15rem; margin-bottom: .6rem; }
.passage { border: 1px solid GrayText; border-radius: .3rem; padding: .7rem .9rem; max-height: 50vh; overflow: auto; }
fieldset { border: 0; padding: 0; margin: .8rem 0 0; display: flex; flex-wrap: wrap; gap: .5rem; }
legend { position: absolute; clip-path: inset(50%); }
label { border: 1px solid GrayText; border-radius: .3rem; padding: .35rem .8rem; cursor: pointer; }
label:has(:checked) { outline: 3px solid Highlight; }
kbd { border: 1px solid GrayText; border-radius: .2rem; padding: 0 .3rem; }
.one article { display: none; }
.one article.current { display: block; }
"""

_SCRIPT = r"""
"use strict";
const articles = Array.from(document.querySelectorAll("article"));
const store = "grades-" + document.documentElement.dataset.sheet;
let grades = {}, saved = true, at = 0;
try { grades = JSON.parse(localStorage.getItem(store)) || {}; } catch (error) { grades = {}; }

function show(number) {
  at = Math.max(0, Math.min(articles.length - 1, number));
  articles.forEach((article, i) => article.classList.toggle("current", i === at));
  paint();
}
function paint() {
  for (const article of articles)
    for (const input of article.querySelectorAll("input"))
      input.checked = grades[article.id] === input.value;
  const done = articles.filter(article => article.id in grades).length;
  document.getElementById("progress").value = done;
  document.getElementById("count").textContent = done + " of " + articles.length + " graded";
}
function grade(id, value) {
  if (value === null) delete grades[id]; else grades[id] = value;
  saved = false;
  try { localStorage.setItem(store, JSON.stringify(grades)); } catch (error) { /* saving the file still works */ }
  paint();
}
function next() {
  for (let step = 1; step <= articles.length; step++) {
    const i = (at + step) % articles.length;
    if (!(articles[i].id in grades)) return show(i);
  }
  show(at);
}
function cell(text) {
  const safe = /^[=+\-@\t\r']/.test(text) ? "'" + text : text;
  return '"' + safe.replaceAll('"', '""') + '"';
}
function save() {
  const open = articles.filter(article => !(article.id in grades)).length;
  if (open && !confirm(open + " passages have no grade yet; the file can only be taken back when all have one. Save?"))
    return;
  const rows = [["item_id", "grade", "question", "passage"].join(",")];
  for (const article of articles) {
    const text = name => cell(article.querySelector(name).textContent);
    rows.push([article.id, grades[article.id] ?? "", text(".question"), text(".passage")].join(","));
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["\ufeff" + rows.join("\r\n") + "\r\n"], {type: "text/csv;charset=utf-8"}));
  link.download = "graded.csv";
  link.click();
  URL.revokeObjectURL(link.href);
  saved = true;
}
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const id = articles[at].id;
  if (/^[0-3]$/.test(event.key)) { grade(id, event.key); next(); }
  else if (event.key === "ArrowRight") show(at + 1);
  else if (event.key === "ArrowLeft") show(at - 1);
  else if (event.key === "Backspace") grade(id, null);
  else if (event.key === "s") save();
  else return;
  event.preventDefault();
});
document.addEventListener("change", event => grade(event.target.name, event.target.value));
document.getElementById("save").addEventListener("click", save);
window.addEventListener("beforeunload", event => { if (!saved) event.preventDefault(); });
document.body.classList.add("one");
show(Math.max(0, articles.findIndex(article => !(article.id in grades))));
"""
