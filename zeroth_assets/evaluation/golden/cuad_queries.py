"""Expert labels turned into queries that name their contract as a person would.

What belongs here: one candidate per contract and topic, present or absent, their spans, the drawn sample, and the count
of whatever was left out and why.

Every question is asked in the same words whether the experts found an answer or not, so nothing in the wording tells.
It is scored twice: over the whole corpus, and within the named contract (a clause seldom repeats the parties' names).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import polars as pl

from zeroth_assets.evaluation.golden.cuad_labels import Labels
from zeroth_assets.evaluation.golden.cuad_names import Name, Names, identity_of, party_names, spoken_name
from zeroth_assets.evaluation.golden.model import QUERY_SCHEMA, SCOPES, SPAN_SCHEMA
from zeroth_assets.evaluation.golden.spans import occurrences, span_row, trimmed
from zeroth_assets.evaluation.golden.stratify import stratified, turn

ABSENT = "absent_from_document"  # the experts found no such clause in the named contract
DRAFTER = "template over expert labels"
VERIFIED = "labels by lawyers (CUAD v1); wording of the question not verified by a human"
LEFT_OUT_SCHEMA = pl.Schema({"reason": pl.String, "unit": pl.String, "count": pl.Int64})


@dataclass(frozen=True, slots=True)
class CuadQueries:
    """Queries and spans as `model` has them (split and group still to be dealt), and what was left out."""

    queries: pl.DataFrame
    spans: pl.DataFrame
    left_out: pl.DataFrame


@dataclass(frozen=True, slots=True)
class _Candidate:
    document: tuple[str, str]
    topic: str
    contract_type: str
    name: Name
    parts: tuple[tuple[str, ...], ...]  # the label texts of each part

    @property
    def key(self) -> str:
        return f"{self.document[0]}/{slug(self.topic)}"


def slug(topic: str) -> str:
    """A topic as part of an id.

    >>> slug("Rofr/Rofo/Rofn"), slug("No-Solicit Of Customers")
    ('rofr-rofo-rofn', 'no-solicit-of-customers')
    """
    return "-".join("".join(c if c.isalnum() else " " for c in topic.lower()).split())


def phrasings() -> dict[str, Any]:
    """The packaged wording: what each contract type is called, and how each topic is asked for."""
    text = resources.files("zeroth_assets.golden").joinpath("cuad_phrasings.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def cuad_queries(
    labels: Labels,
    texts: Mapping[tuple[str, str], str],
    pairs: pl.DataFrame,
    *,
    answerable: int = 500,
    unanswerable: int = 350,
    seed: int = 0,
) -> CuadQueries:
    """A sample of questions, even over contract types and topics, each in both scopes.

    `texts` as `model.texts_of`; `pairs` is the dedup report's frame: contracts with containment 1.0 both ways need not
    be told apart. `answerable` and `unanswerable` count questions, so there are twice as many rows.
    """
    wording = phrasings()
    left_out: Counter[tuple[str, str]] = Counter()
    candidates = _candidates(labels, pairs, wording, left_out)
    drawn: list[_Candidate] = []
    for wanted, present in ((answerable, True), (unanswerable, False)):
        pool = [c for c in candidates if bool(c.parts) == present]
        picked = stratified(
            [c.key for c in pool],
            [c.contract_type for c in pool],
            [c.topic for c in pool],
            [c.document[0] for c in pool],
            n=wanted,
            seed=seed,
        )
        drawn += [pool[i] for i in picked]
        left_out[f"not drawn: {'answerable' if present else 'unanswerable'}", "questions"] += len(pool) - len(picked)
    rows: list[dict[str, object]] = []
    spans: list[tuple[object, ...]] = []
    for candidate in sorted(drawn, key=lambda c: c.key):
        rows += _query_rows(candidate, wording["topics"][candidate.topic]["phrasings"], seed)
        spans += _span_rows(candidate, texts[candidate.document])
    return CuadQueries(
        queries=pl.DataFrame(rows, schema=QUERY_SCHEMA, orient="row"),
        spans=pl.DataFrame(spans, schema=SPAN_SCHEMA, orient="row").unique(maintain_order=True),
        left_out=pl.DataFrame(
            [(reason, unit, n) for (reason, unit), n in sorted(left_out.items()) if n],
            schema=LEFT_OUT_SCHEMA,
            orient="row",
        ),
    )


def _candidates(
    labels: Labels, pairs: pl.DataFrame, wording: dict[str, Any], left_out: Counter[tuple[str, str]]
) -> list[_Candidate]:
    kinds, topics = wording["contract_kinds"], wording["topics"]
    kinds = {kind: kinds.get(kind, f"{kind.lower()} agreement") for kind in labels.types.values()}
    identities = [identity_of(d, labels.types[d], labels.answers[d], kinds) for d in sorted(labels.answers)]
    names = Names(identities, _alike(pairs))
    versions = dict(labels.labels.select("document_id", "document_version").unique().iter_rows())
    texts_of_labels: dict[tuple[str, str], list[str]] = {}
    for row in labels.labels.iter_rows(named=True):
        if row["set_aside"] is None:
            texts_of_labels.setdefault((row["document_id"], row["topic"]), []).append(row["text"])
        else:
            left_out[row["set_aside"], "labels"] += 1
    found: list[_Candidate] = []
    for identity in identities:
        document_id = identity.document_id
        if not identity.parties:
            left_out["the experts name no party that could be spoken", "contracts"] += 1
            continue
        if names.name(document_id) is None:
            left_out["no name singles out the contract", "contracts"] += 1
        for topic in labels.topics:
            rule = topics[topic]
            labelled = topic in labels.answers[document_id]
            if not labelled and not rule["absent_is_unanswerable"]:
                continue
            name = names.name(document_id, hide=frozenset(rule["hide"]))
            if name is None:
                if names.name(document_id) is not None:
                    left_out["no name singles out the contract without giving the answer away", "questions"] += 1
                continue
            parts = _parts(topic, texts_of_labels.get((document_id, topic), []), labels, document_id, rule["one_fact"])
            if labelled and not parts:
                left_out["no label of the question is evidence", "questions"] += 1
                continue
            document = (document_id, versions[document_id])
            found.append(_Candidate(document, topic, labels.types[document_id], name, parts))
    return found


def _alike(pairs: pl.DataFrame) -> dict[str, frozenset[str]]:
    alike: dict[str, set[str]] = {}
    both = (pl.col("containment") >= 1.0) & (pl.col("reverse_containment") >= 1.0)
    for one, two in pairs.filter(both).select("contained_id", "container_id").iter_rows():
        alike.setdefault(one, set()).add(two)
        alike.setdefault(two, set()).add(one)
    return {one: frozenset(others) for one, others in alike.items()}


def _parts(
    topic: str, texts: list[str], labels: Labels, document_id: str, one_fact: bool
) -> tuple[tuple[str, ...], ...]:
    """Which label texts are alternatives. A fact that is labelled twice is one part; clauses are a part each."""
    distinct = list(dict.fromkeys(texts))
    if topic == "Parties":
        # The experts also mark roles ("Company"), which stand everywhere: a party's name is what answers.
        wanted = [_letters(name) for name in party_names(labels.answers[document_id]["Parties"])]
        named = [t for t in distinct if any(_letters(spoken_name(t))[:12] == w[:12] for w in wanted) and len(t) > 5]
        groups: dict[str, list[str]] = {}
        for text in named:
            groups.setdefault(_letters(spoken_name(text))[:12], []).append(text)
        return tuple(tuple(group) for group in groups.values())
    if one_fact:
        return (tuple(distinct),) if distinct else ()
    return tuple((text,) for text in distinct)


def _letters(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())


def _query_rows(candidate: _Candidate, ways: list[str], seed: int) -> list[dict[str, object]]:
    way = ways[int(turn(seed, "phrasing", candidate.key)[:8], 16) % len(ways)]
    text = way.format(contract=candidate.name.phrase)
    text = text[0].upper() + text[1:]
    category = "unanswerable" if not candidate.parts else "single_chunk" if len(candidate.parts) == 1 else "multi_chunk"
    about = [candidate.document[0]]
    return [
        {
            "query_id": f"q:{candidate.key}/{scope}",
            "question_id": f"q:{candidate.key}",
            "text": text,
            "category": category,
            "topic": candidate.topic,
            "stratum": candidate.contract_type,
            "source": "expert",
            "set": "extended",
            "split": None,
            "scope": scope,
            "document_id": candidate.document[0] if scope == "document" else None,
            "asker": None,
            "answerable": bool(candidate.parts),
            "unanswerable_reason": None if candidate.parts else ABSENT,
            "about": about,
            "group": None,
            "paraphrased": None,
            "drafter": DRAFTER,
            "drafted_on": None,
            "verified": VERIFIED,
            "note": None,
        }
        for scope in SCOPES
    ]


def _span_rows(candidate: _Candidate, text: str) -> Iterable[tuple[object, ...]]:
    """Every place of every label text; a place after the first is an alternative of the same part."""
    for scope in SCOPES:
        query_id = f"q:{candidate.key}/{scope}"
        for part, alternatives in enumerate(candidate.parts):
            for quote in alternatives:
                for i, start in enumerate(occurrences(text, quote)):
                    place = trimmed(text, start, start + len(quote))
                    origin = "quoted" if i == 0 else "occurrence"
                    yield span_row(query_id, part, candidate.document, place, text, grade=3, origin=origin)
