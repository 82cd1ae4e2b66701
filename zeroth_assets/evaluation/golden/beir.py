"""BEIR folders (`corpus.jsonl`, `queries.jsonl`, `qrels/*.tsv`) as golden sets of their own.

What belongs here: reading one into documents, queries and document-level qrels, writing one, and mapping hits on chunks
to hits on documents. Grades stay as published, where 1 is relevant: evaluate with `relevant=BEIR_RELEVANT` and linear
gain to compare with published figures.

Inside, a document is `<name>:<id>` and a query `q:<name>/<id>`, so that the two never meet; what is written has the
original ids again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from zeroth_assets.artefacts import write_atomic
from zeroth_assets.corpus.model import Document, documents_to_frame
from zeroth_assets.evaluation.golden.lines import grade_at, lines_of, object_at, refusal
from zeroth_assets.evaluation.golden.model import IMPORTED, QUERY_SCHEMA, GoldenError
from zeroth_assets.evaluation.golden.span_measures import ranked_run
from zeroth_assets.evaluation.metric_tables import QRELS_SCHEMA, RUN_SCHEMA

BEIR_RELEVANT = 1
PARSER_VERSION = "beir 1"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_SEPARATOR = "\n\n"


@dataclass(frozen=True, slots=True)
class BeirSet:
    """`documents` in `corpus.model.DOCUMENT_SCHEMA` (title, blank line, text), `queries` in `model.QUERY_SCHEMA`.

    `qrels` (`metric_tables.QRELS_SCHEMA`) is of documents, for the split that was read; queries without a judgment in
    it are left out, and counted.
    """

    name: str
    documents: pl.DataFrame
    queries: pl.DataFrame
    qrels: pl.DataFrame
    unjudged_queries: int


def read_beir(folder: Path, *, name: str, split: str = "test") -> BeirSet:
    """Read a folder; `split` names the file of qrels.

    Raises:
        GoldenError: a file is missing or a line is not as the format has it (named), an id comes twice or is unknown, a
            grade is out of range, there is no judgment at all.
    """
    check_name(name)
    documents = dict(_documents(folder / "corpus.jsonl", name))
    texts = beir_queries(folder / "queries.jsonl", name)
    qrels = beir_qrels(folder / "qrels" / f"{split}.tsv", name, texts, documents)
    queries = query_frame(name, texts, qrels, split="test" if split == "test" else "calibration")
    return BeirSet(name, documents_to_frame(list(documents.values())), queries, qrels, len(texts) - queries.height)


def check_name(name: str) -> None:
    """Raise GoldenError unless a set can be called so."""
    if not _NAME.fullmatch(name) or name == "q":
        raise GoldenError(
            f"The set cannot be called {name!r}", expected="lower-case letters, digits and '-', but not q"
        )


def query_frame(name: str, texts: Mapping[str, str], qrels: pl.DataFrame, *, split: str) -> pl.DataFrame:
    """The queries that `qrels` judges, in `model.QUERY_SCHEMA`; `split` is one of `model.SPLITS`."""
    answerable = set(qrels.filter(pl.col("grade") >= BEIR_RELEVANT)["query_id"])
    rows = [
        {
            "query_id": query,
            "question_id": query,
            "text": texts[query],
            "category": IMPORTED,
            "source": "imported",
            "set": "extended",
            "split": split,
            "scope": "corpus",
            "answerable": query in answerable,
            "unanswerable_reason": None if query in answerable else "absent_from_corpus",
            "about": [],
            "group": f"g:{query}",
            "drafter": name,
            "verified": f"as published with {name}",
        }
        for query in sorted(set(qrels["query_id"]))
    ]
    return pl.DataFrame(rows, schema=QUERY_SCHEMA)


def write_beir(folder: Path, corpus: pl.DataFrame, queries: pl.DataFrame, qrels: Mapping[str, pl.DataFrame]) -> None:
    """Write a folder: `corpus` has document_id, title and text, `queries` query_id and text, `qrels` a frame per split.

    A text that begins with its title and a blank line, as `read_beir` made it, is written without. The prefixes that
    `read_beir` puts before ids are taken off.
    """
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    lines = []
    for document, title, text in corpus.select("document_id", "title", "text").iter_rows():
        body = text.removeprefix(f"{title}{_SEPARATOR}") if title else text
        lines.append({"_id": _outer(document), "title": title, "text": body, "metadata": {}})
    _write_lines(folder / "corpus.jsonl", lines)
    asked = queries.select("query_id", "text").iter_rows()
    _write_lines(folder / "queries.jsonl", [{"_id": _outer(i), "text": text, "metadata": {}} for i, text in asked])
    for split, frame in qrels.items():
        rows = frame.select(QRELS_SCHEMA.names()).sort("query_id", "document_id").iter_rows()
        body = "".join(f"{_outer(query)}\t{_outer(document)}\t{grade}\n" for query, document, grade in rows)
        write_atomic(folder / "qrels" / f"{split}.tsv", f"query-id\tcorpus-id\tscore\n{body}".encode(), mode=0o644)


def document_run(run: pl.DataFrame, chunks: pl.DataFrame) -> pl.DataFrame:
    """A run over chunks as a run over documents, in `metric_tables.RUN_SCHEMA`: a document stands where its best chunk
    does. Scores are rank-derived.

    Raises:
        GoldenError: a chunk of the run is not among `chunks` (chunk_id, document_id).
    """
    home = chunks.select(pl.col("chunk_id").cast(pl.String).alias("document_id"), pl.col("document_id").alias("home"))
    ranked = ranked_run(run).join(home, on="document_id", how="left")
    stranger = ranked.filter(pl.col("home").is_null())
    if stranger.height:
        raise GoldenError(
            "The run holds a chunk that the chunk set does not",
            expected="chunks of one chunk set",
            found=f"chunk {stranger['document_id'][0]} for query {stranger['query_id'][0]}",
        )
    best = ranked.group_by("query_id", "home").agg(pl.col("rank").min()).sort("query_id", "rank")
    return best.select(
        "query_id",
        pl.col("home").alias("document_id"),
        (pl.len().over("query_id") - pl.int_range(pl.len()).over("query_id")).cast(pl.Float64).alias("score"),
    ).cast(RUN_SCHEMA)


def _documents(path: Path, name: str) -> Iterator[tuple[str, Document]]:
    seen: dict[str, int] = {}
    for number, line in lines_of(path):
        item = object_at(path, number, line, ("_id", "text"))
        document_id = f"{name}:{_word(path, number, item['_id'])}"
        if document_id in seen:
            raise refusal(
                path, number, expected="distinct ids", found=f"{item['_id']!r}, as in line {seen[document_id]}"
            )
        seen[document_id] = number
        title = item.get("title") or ""
        if not isinstance(title, str):
            raise refusal(path, number, expected="a title that is a text, or none", found=type(title).__name__)
        text = f"{title}{_SEPARATOR}{item['text']}" if title else item["text"]
        text = "".join("\ufffd" if c == "\x00" or "\ud800" <= c <= "\udfff" else c for c in text)
        version = hashlib.sha256(line.encode("utf-8", "surrogatepass")).hexdigest()
        yield document_id, Document(document_id, version, name, title, text, parser_version=PARSER_VERSION)


def beir_queries(path: Path, name: str) -> dict[str, str]:
    """Query id to text of a `queries.jsonl`. Raises as `read_beir`."""
    texts: dict[str, str] = {}
    for number, line in lines_of(path):
        item = object_at(path, number, line, ("_id", "text"))
        query_id = f"q:{name}/{_word(path, number, item['_id'])}"
        if query_id in texts:
            raise refusal(path, number, expected="distinct ids", found=f"{item['_id']!r} again")
        texts[query_id] = item["text"]
    return texts


def beir_qrels(path: Path, name: str, queries: Container[str], documents: Container[str]) -> pl.DataFrame:
    """A file of qrels in `metric_tables.QRELS_SCHEMA`, whose ids must be among those given. Raises as `read_beir`."""
    rows: dict[tuple[str, str], int] = {}
    for position, (number, line) in enumerate(lines_of(path)):
        columns = line.split("\t")
        if len(columns) != 3:
            expected = "3 columns with tabs between: query-id, corpus-id, score"
            raise refusal(path, number, expected=expected, found=f"{len(columns)} columns")
        if position == 0 and columns[0] == "query-id":
            continue
        query, document = f"q:{name}/{columns[0]}", f"{name}:{columns[1]}"
        if query not in queries:
            raise refusal(path, number, expected="a query of queries.jsonl", found=repr(columns[0]))
        if document not in documents:
            raise refusal(path, number, expected="a document of corpus.jsonl", found=repr(columns[1]))
        if (query, document) in rows:
            raise refusal(path, number, expected="each document once for a query", found=f"{columns[:2]} again")
        rows[query, document] = grade_at(path, number, columns[2])
    if not rows:
        raise GoldenError(f"{path.name} holds no judgment", expected="at least one line below the header")
    return pl.DataFrame([(*key, grade) for key, grade in rows.items()], schema=QRELS_SCHEMA, orient="row").sort(
        "query_id", "document_id"
    )


def _word(path: Path, number: int, identifier: str) -> str:
    if not identifier or len(identifier.split()) != 1 or identifier != identifier.strip():
        raise refusal(path, number, expected="an id without white space", found=repr(identifier))
    if any("\ud800" <= c <= "\udfff" for c in identifier):
        raise refusal(path, number, expected="an id that UTF-8 can hold", found=repr(identifier))
    return identifier


def _outer(identifier: str) -> str:
    """The id without the prefix that keeps queries and documents apart."""
    return identifier.split("/", 1)[1] if identifier.startswith("q:") else identifier.split(":", 1)[-1]


def _write_lines(path: Path, items: list[dict[str, object]]) -> None:
    body = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items)
    write_atomic(path, body.encode("utf-8", "surrogatepass"), mode=0o644)
