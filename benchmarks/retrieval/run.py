"""Latency of one query by stage: embedding, dense, lexical, fusion, reading again; restricted and unrestricted.

    python benchmarks/retrieval/run.py --home .zeroth
    python benchmarks/retrieval/run.py --mirror ../shared/corpus --scratch /var/tmp/retrieval

`--home` asks an index that `zeroth materialize` made. `--mirror` fills a throw-away home with windows of 350 words of
every document, one tenant per working group, contract type and company, and with random unit vectors: good for times
at the size of the corpus, good for nothing else. Queries are sentences of the principal's own chunks, embedded by the
encoder as they come. Several callers share one retriever in one process. Times are wall-clock.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.corpus.manifest import current_versions, load_manifest
from zeroth_assets.corpus.parse import parse_source
from zeroth_assets.corpus.tenants import tenant_key
from zeroth_assets.embedding import Encoder, load_encoder
from zeroth_assets.evaluation.queries import sentences
from zeroth_assets.search.analyser import ANALYSERS, DEFAULT_ANALYSER
from zeroth_assets.search.postings_build import build_postings
from zeroth_assets.search.postings_file import postings_to_bytes
from zeroth_assets.search.rerank_late import LateInteraction
from zeroth_assets.search.retriever import Retriever
from zeroth_assets.search.retriever_model import RetrieverConfig
from zeroth_assets.search.runs import latencies, run_queries
from zeroth_assets.search.shelf import artefact_name
from zeroth_assets.settings import Settings, read_settings
from zeroth_assets.store import server
from zeroth_assets.store.connect import Database, open_database
from zeroth_assets.store.load import load_tenant
from zeroth_assets.store.migrate import migrate
from zeroth_assets.store.registry import IndexParameters, ensure_chunk_set, list_tenants

STEP, WORDS = 300, 350


def encoder_of(settings: Settings) -> Encoder:
    return load_encoder(
        settings.model,
        revision=settings.model_revision,
        pooling=settings.pooling,
        max_tokens=settings.max_tokens,
        engine=settings.engine,
        precision=settings.precision,
        threads=settings.threads,
        cache_dir=settings.state_dir / "cache",
    )


def windows(document_id: str, version: str, text: str) -> list[dict[str, Any]]:
    places = [match.start() for match in re.finditer(r"\S+", text)]
    rows = []
    for ordinal, first in enumerate(range(0, max(1, len(places) - (WORDS - STEP)), STEP)):
        bounds = [*places, len(text)][first : first + WORDS + 1]
        digest = hashlib.sha256(f"{document_id}:{version}:{ordinal}".encode()).digest()
        rows.append(
            {
                "chunk_id": int.from_bytes(digest[:8], "big") >> 1,
                "chunk_hash": digest,
                "document_id": document_id,
                "document_version": version,
                "ordinal": ordinal,
                "char_start": bounds[0],
                "char_end": bounds[-1],
                "page_first": None,
                "page_last": None,
                "pages_real": False,
                "section_path": "",
                "token_count": len(bounds) - 1,
                "text": text[bounds[0] : bounds[-1]],
            }
        )
    return rows


SCHEMA = {
    "chunk_id": pl.Int64, "chunk_hash": pl.Binary, "document_id": pl.String, "document_version": pl.String,
    "ordinal": pl.Int64, "char_start": pl.Int64, "char_end": pl.Int64, "page_first": pl.Int64, "page_last": pl.Int64,
    "pages_real": pl.Boolean, "section_path": pl.String, "token_count": pl.Int64, "text": pl.String,
}  # fmt: skip


def fill(db: Database, store: ArtefactStore, mirror: Path, chunk_set: str, encoder: Encoder) -> None:
    """Every document of the mirror as windows, a tenant after another."""
    manifest = load_manifest(Path(__file__).parents[2] / "corpus_manifest.json")
    records = {record.document_id: record for record in current_versions(manifest.records)}
    report = parse_source(list(records.values()), lambda r: (mirror / str(r.mirror_path)).read_bytes())
    tenants: dict[str, list[dict[str, Any]]] = {}
    for document in report.documents:
        record = records[document.document_id]
        if document.text.strip():
            key = tenant_key(record.source, record.tenant_attribute)
            tenants.setdefault(key, []).extend(windows(document.document_id, record.sha256, document.text))
    migrate(db)
    ensure_chunk_set(db, chunk_set, encoder.dimension)
    random = np.random.default_rng(7)
    for done, (tenant, rows) in enumerate(sorted(tenants.items()), 1):
        chunks = pl.DataFrame(rows, schema=SCHEMA)
        vectors = random.standard_normal((len(rows), encoder.dimension)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        load_tenant(
            db,
            chunk_set=chunk_set,
            tenant_key=tenant,
            chunks=chunks,
            vectors=vectors,
            fingerprint=encoder.fingerprint,
            chunker_version="words",
            parameters=IndexParameters(kind="none"),
        )
        postings = build_postings(
            chunks["chunk_id"].to_list(),
            chunks["text"].to_list(),
            tenant=tenant,
            chunk_set=chunk_set,
            analyser=ANALYSERS[DEFAULT_ANALYSER],
        )
        store.write_bytes(
            postings_to_bytes(postings),
            ".bm25",
            artefact_name(chunk_set),
            tenant,
            describes="Postings of a benchmark.",
            code_version="0",
            code="benchmarks/retrieval/run.py",
            rows=postings.size,
        )
        print(f"\rloaded {done} of {len(tenants)} tenants", end="", flush=True)
    print()


def sizes(db: Database, chunk_set: str) -> dict[str, int]:
    """Rows of each tenant, by key."""
    names = {tenant.tenant_id: tenant.tenant_key for tenant in list_tenants(db)}
    with db.loader() as connection:
        rows = connection.execute(
            "select tenant_id, row_count from zeroth.index_build join zeroth.chunk_set using (chunk_set_id)"
            " where name = %s and status = 'live'",
            (chunk_set,),
        ).fetchall()
    return {names[tenant_id]: int(count) for tenant_id, count in rows}


def questions(retriever: Retriever, principal: str, number: int, seed: int) -> list[tuple[str, str]]:
    """Sentences of chunks that the principal may see: found by searching for common words, then drawn by a seed."""
    drawn: dict[str, None] = {}
    for word in ("agreement", "shall", "the", "company", "packet", "section", "server", "value", "may", "not", "each"):
        for one in retriever.search(principal, word, 300).passages:
            drawn.update((sentence.text, None) for sentence in sentences(one.passage.text, []))
    ordered = sorted(drawn, key=lambda text: hashlib.sha256(f"{seed}:{text}".encode()).digest())
    return [(f"q{number:04}", text) for number, text in enumerate(ordered[:number])]


def measure(
    db: Database,
    store: ArtefactStore,
    args: argparse.Namespace,
    encoder: Encoder,
    principals: Sequence[tuple[str, int]],
) -> list[dict[str, Any]]:
    arms = ("dense", "lexical", "fulltext") if args.fulltext else ("dense", "lexical")
    config = RetrieverConfig(args.chunk_set, arms=arms, depth=args.depth)  # type: ignore[arg-type]
    reranker = LateInteraction(encoder) if args.rerank else None
    words = RetrieverConfig(args.chunk_set, arms=("lexical",), depth=300)
    rows: list[dict[str, Any]] = []
    with (
        Retriever(db, store, config, encoder=encoder, reranker=reranker) as retriever,
        Retriever(db, store, words) as finder,
    ):
        for principal, count in principals:
            asked = questions(finder, principal, args.queries, args.seed)
            for callers in args.callers:
                runs = run_queries(retriever, principal, asked, k=10, callers=callers)
                plan = runs.per_query["plan_dense"].drop_nulls().first()
                about = {"principal": principal, "rows": count, "callers": callers, "plan": plan}
                rows += [{**about, **stage} for stage in latencies(runs.per_query).to_dicts()]
                shared = np.mean(runs.overlaps) if runs.overlaps else float("nan")
                p50, p95 = rows[-1]["p50_ms"], rows[-1]["p95_ms"]
                print(
                    f"{principal}: {len(asked)} queries, {callers} callers, p50 {p50:.1f} ms, p95 {p95:.1f} ms in all;"
                    f" the arms share {shared:.1f} of their top 20"
                )
    return rows


@contextmanager
def opened(args: argparse.Namespace) -> Iterator[tuple[Database, ArtefactStore, Encoder]]:
    """The home that is there, or a throw-away one filled from the mirror."""
    if args.home:
        settings = read_settings(home=args.home)
        db = open_database(settings.state_dir, settings.database_url, settings.pg_bin)
        yield db, ArtefactStore(settings.state_dir / "artefacts"), encoder_of(settings)
        return
    home = Path(tempfile.mkdtemp(prefix="retrieval-", dir=args.scratch))
    home.chmod(0o711)  # the server may run as another user
    try:
        settings = read_settings(home=home)
        db = open_database(home, None, None)
        db.ensure_databases()
        store, encoder = ArtefactStore(home / "artefacts"), encoder_of(settings)
        fill(db, store, args.mirror, args.chunk_set, encoder)
        yield db, store, encoder
    finally:
        server.destroy(home)
        shutil.rmtree(home, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--home", type=Path)
    where.add_argument("--mirror", type=Path)
    parser.add_argument("--scratch", type=Path, default=None, help="where the throw-away home is made")
    parser.add_argument("--chunk-set", default="fixed_512")
    parser.add_argument("--principal", action="append", help="default: the median tenant, the largest, and all")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--depth", type=int, default=50)
    parser.add_argument("--fulltext", action="store_true")
    parser.add_argument("--rerank", action="store_true", help="with late interaction over 20 passages")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the figures there too")
    args = parser.parse_args()
    with opened(args) as (db, store, encoder):
        rows_of = sizes(db, args.chunk_set)
        ranked = sorted(rows_of, key=lambda tenant: (rows_of[tenant], tenant))
        chosen = args.principal or [ranked[len(ranked) // 2], ranked[-1], "all"]
        principals = [(name, rows_of.get(name, sum(rows_of.values()))) for name in chosen]
        print(f"{sum(rows_of.values()):,} chunks of {len(rows_of)} tenants; encoder {encoder.choice.engine}")
        figures = measure(db, store, args, encoder, principals)
    table = pl.DataFrame(figures)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=160, fmt_str_lengths=60, float_precision=1):
        print(table.drop("plan"))
    for principal, plan in table.select("principal", "plan").unique(maintain_order=True).iter_rows():
        print(f"{principal}: {plan}")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
