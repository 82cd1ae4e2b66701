"""Which calls a pool needs, and what their answers mean.

What belongs here: the way from ids to texts and back. It is the one place that holds both; the prompt is built from
the texts alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from zeroth_assets.evaluation.judging.model import (
    PAIR_SCHEMA,
    JudgeConfig,
    JudgeError,
    JudgeQuery,
    Snapshot,
    pair_digest,
)
from zeroth_assets.evaluation.judging.prompt import answer_schema, arrange, labels, render

_PASSAGE_SCHEMA = pl.Schema({"document_id": pl.String, "text": pl.String})


@dataclass(frozen=True, slots=True)
class Call:
    """One call: its messages, and which document each label stands for (`second`: labels of a second showing)."""

    messages: list[dict[str, str]]
    schema: dict[str, Any]
    names: tuple[str, ...]
    documents: tuple[str, ...]
    second: frozenset[str]
    digest: str

    def read(self, grades: dict[str, int]) -> tuple[dict[str, int], dict[str, int]]:
        """Grades by label as grades by document: those of first showings, those of second ones."""
        by_label = list(zip(self.names, self.documents, strict=True))
        first = {document: grades[name] for name, document in by_label if name not in self.second}
        return first, {document: grades[name] for name, document in by_label if name in self.second}


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A query's calls. `same_text` maps each document of the pool to the one whose text is shown for it.

    `pairs` has the `pair_digest` of each document that is shown; those of `known` have a grade and are not asked again.
    """

    query: JudgeQuery
    calls: tuple[Call, ...]
    same_text: dict[str, str]
    order_seed: int
    pairs: dict[str, str]
    known: frozenset[str] = frozenset()


def plan_calls(
    pool: pl.DataFrame,
    passages: pl.DataFrame,
    queries: Sequence[JudgeQuery],
    config: JudgeConfig,
    snapshot: Snapshot,
    statement: str,
    *,
    begun: Callable[[str, str], bool] = lambda query_id, call_digest: False,
    graded: Callable[[str], bool] = lambda pair: False,
) -> list[QueryPlan]:
    """The calls for each query of the pool, by query id. Documents with the same text are graded once, as one.

    A query any of whose calls was `begun` goes on as it was planned. Of any other, what is `graded` already is left
    out, so that a pool which grew costs what it grew by.

    Raises:
        JudgeError: an empty pool, a column or a cell missing, a pair or an id twice, a query or document without text.
    """
    pairs = _checked(pool, PAIR_SCHEMA, "judgment pool")
    texts_frame = _checked(passages, _PASSAGE_SCHEMA, "passages")
    _refuse_twice(pairs, "judgment pool")
    _refuse_twice(texts_frame.select("document_id"), "passages")
    by_id: dict[str, JudgeQuery] = {}
    for query in queries:
        if query.query_id in by_id:
            raise JudgeError("A query is there twice", expected="each id once", found=repr(query.query_id))
        by_id[query.query_id] = query
    texts = dict(texts_frame.iter_rows())
    plans = []
    for (query_id,), group in pairs.sort("query_id", "document_id").group_by("query_id", maintain_order=True):
        documents = group["document_id"].to_list()
        if query_id not in by_id or not by_id[str(query_id)].question.strip():
            raise JudgeError("The pool holds a query without a question", expected="a question", found=repr(query_id))
        for document in documents:
            if not _is_text(texts.get(document)):
                raise JudgeError("The pool holds a document without text", expected="a passage", found=repr(document))
        query = by_id[str(query_id)]
        plan = _plan(query, documents, texts, config, snapshot, statement)
        known = frozenset(document for document, pair in plan.pairs.items() if graded(pair))
        if known and not any(begun(query.query_id, call.digest) for call in plan.calls):
            plan = _plan(query, documents, texts, config, snapshot, statement, known)
        plans.append(plan)
    return plans


def _plan(
    query: JudgeQuery,
    documents: list[str],
    texts: dict[str, str],
    config: JudgeConfig,
    snapshot: Snapshot,
    statement: str,
    known: frozenset[str] = frozenset(),
) -> QueryPlan:
    shown_for: dict[str, str] = {}
    for document in documents:
        shown_for.setdefault(texts[document], document)
    shown = [text for text, document in shown_for.items() if document not in known]
    layout = arrange(
        query.question, shown, seed=config.seed, per_call=config.passages_per_call, repeats=config.repeats_per_query
    )
    calls = []
    for number, places in enumerate(layout.calls if shown else ()):
        names = labels(len(places))
        messages = render(query.question, [shown[i] for i in places], statement=statement)
        calls.append(
            Call(
                messages=messages,
                schema=answer_schema(len(places)),
                names=names,
                documents=tuple(shown_for[shown[i]] for i in places),
                second=frozenset(name for place, name in enumerate(names) if (number, place) in layout.second),
                digest=_digest(snapshot.label, messages, config),
            )
        )
    return QueryPlan(
        query,
        tuple(calls),
        {document: shown_for[texts[document]] for document in documents},
        layout.order_seed,
        {document: pair_digest(query.question, text) for text, document in shown_for.items()},
        known,
    )


def _digest(judge: str, messages: list[dict[str, str]], config: JudgeConfig) -> str:
    asked = json.dumps([judge, messages, config.seed, config.temperature], ensure_ascii=False)
    return hashlib.sha256(asked.encode("utf-8")).hexdigest()


def _is_text(text: str | None) -> bool:
    if text is None or not text.strip():
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _checked(frame: pl.DataFrame, schema: pl.Schema, what: str) -> pl.DataFrame:
    missing = [name for name in schema if name not in frame.columns]
    if missing:
        raise JudgeError(f"The {what} lacks columns", expected=", ".join(schema), found="without " + ", ".join(missing))
    narrowed = frame.select(list(schema))
    if narrowed.is_empty():
        raise JudgeError(f"The {what} is empty", expected="at least one row")
    if dict(narrowed.schema) != dict(schema) or sum(narrowed.null_count().row(0)):
        raise JudgeError(f"The {what} has cells that are no text", expected="strings, no nulls in " + ", ".join(schema))
    return narrowed


def _refuse_twice(keys: pl.DataFrame, what: str) -> None:
    twice = keys.filter(keys.is_duplicated())
    if twice.height:
        raise JudgeError(f"The {what} holds a row twice", expected="each once", found=repr(twice.row(0)))
