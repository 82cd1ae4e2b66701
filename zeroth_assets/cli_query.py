"""`zeroth query`: ask this home's index as a principal.

What belongs here: the command's arguments and what it prints. `cli.py` adds it: `app.command("query")(query)`.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from zeroth_assets.cli_output import Json, emit, out
from zeroth_assets.errors import QueryError
from zeroth_assets.settings import CHUNK_SETS, Settings, load_settings

if TYPE_CHECKING:
    from zeroth_assets.search.retriever import Retriever
    from zeroth_assets.search.retriever_model import RetrievalResult

RerankerName = Literal["none", "late", "cross"]
_SHOWN = 400
# A person waits longer than a service.
_RERANK_SECONDS = 15.0
# A document's own bytes must not steer the terminal.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def query(
    text: Annotated[str, typer.Argument(help="What to search for.")],
    principal: Annotated[
        str | None, typer.Option("--principal", "-p", help="Who asks: a tenant's key, `all`, or a name with grants.")
    ] = None,
    chunk_set: Annotated[str, typer.Option(help="The chunk set to search.")] = CHUNK_SETS[0],
    k: Annotated[int, typer.Option("--k", "-k", help="Passages at most.")] = 5,
    arm: Annotated[
        list[str] | None, typer.Option("--arm", help="dense, lexical or fulltext; repeat for several.")
    ] = None,
    rerank: Annotated[str, typer.Option(help="none, late (the packaged encoder) or cross (a cross-encoder).")] = "none",
    analyse: Annotated[bool, typer.Option("--analyse", help="Only show what the analyser makes of the text.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show each stage, plan, score and its arithmetic.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Search as a principal, and print what it may see: passages, or why there are none."""
    if analyse:
        _show_analysis(text, as_json)
        return
    if principal is None:
        raise QueryError(
            "Nobody is named who asks",
            expected="--principal with a tenant's key, `all`, or a name that was granted tenants",
            remedy="`zeroth acl list` or `zeroth corpus tenants` shows the names",
        )
    settings = load_settings()
    began = time.perf_counter()
    with open_retriever(settings, chunk_set, arms=tuple(arm or ("dense", "lexical")), rerank=rerank) as retriever:
        opened = time.perf_counter() - began
        result = retriever.search(principal, text, k)
        explained = _explained(retriever, principal, text, result) if explain else {}
    if as_json:
        emit(
            {
                "passages": [one.to_json() for one in result.passages],
                "abstention": result.trace.to_json()["abstention"],
                "shortfall": result.trace.to_json()["shortfall"],
                "degraded": list(result.trace.degradations),
                **({"trace": result.trace.to_json(), "bm25": explained, "opened_seconds": opened} if explain else {}),
            }
        )
        return
    _show(result, explained, explain)
    if explain:
        told = f"{opened:.1f} s before that for model, database and manifest, which a service pays once"
        out.print(Text(told, style="dim"))


def open_retriever(
    settings: Settings, chunk_set: str, *, arms: tuple[str, ...] = ("dense", "lexical"), rerank: str = "none"
) -> Retriever:
    """The retriever over this home's database and artefacts, with the manifest's lineage; close it after use.

    Raises:
        QueryError: an arm or a reranker of another name.
        DatabaseError, EmbeddingError: they cannot be opened.
    """
    from zeroth_assets.artefacts import ArtefactStore
    from zeroth_assets.corpus.manifest import load_manifest
    from zeroth_assets.embedding import load_encoder
    from zeroth_assets.search.path_model import stored_costs
    from zeroth_assets.search.rerank import Reranker
    from zeroth_assets.search.rerank_cross import CrossEncoderReranker
    from zeroth_assets.search.rerank_late import LateInteraction
    from zeroth_assets.search.retriever import Retriever
    from zeroth_assets.search.retriever_model import RetrieverConfig
    from zeroth_assets.search.supersession import Lineage
    from zeroth_assets.store.connect import open_database

    if rerank not in ("none", "late", "cross"):
        raise QueryError(f"There is no reranker {rerank!r}", expected="none, late or cross", found=repr(rerank))
    config = RetrieverConfig(chunk_set, arms=arms, rerank_seconds=_RERANK_SECONDS)  # type: ignore[arg-type]  # checked
    encoder = None
    if "dense" in arms or rerank == "late":
        encoder = load_encoder(
            settings.model,
            revision=settings.model_revision,
            pooling=settings.pooling,
            max_tokens=settings.max_tokens,
            engine=settings.engine,
            precision=settings.precision,
            threads=settings.threads,
            cache_dir=settings.state_dir / "cache",
        )
        encoder.loaded()  # now, so that no query's time has it
    reranker: Reranker | None = None
    if rerank == "late" and encoder is not None:
        late = LateInteraction(encoder)
        late.load()
        reranker = late
    elif rerank == "cross":
        cross = CrossEncoderReranker()
        cross.load()
        reranker = cross
    store = ArtefactStore(settings.state_dir / "artefacts")
    return Retriever(
        open_database(settings.state_dir, settings.database_url, settings.pg_bin),
        store,
        config,
        encoder=encoder if "dense" in arms else None,
        costs=stored_costs(store, chunk_set),
        reranker=reranker,
        lineage=Lineage.of(load_manifest(settings.manifest_path)),
    )


def _explained(retriever: Retriever, principal: str, text: str, result: RetrievalResult) -> dict[str, list[str]]:
    """The arithmetic of BM25 for each passage that the lexical arm found, by chunk id."""
    found = [one.passage.chunk_id for one in result.passages if "lexical" in one.ranks]
    return {str(chunk_id): lines for chunk_id, lines in retriever.explain(principal, text, found).items()}


def _show(result: RetrievalResult, explained: dict[str, list[str]], explain: bool) -> None:
    from zeroth_assets.search.trace_view import render_trace

    for one in result.passages:
        passage = one.passage
        pages = _pages(passage.page_first, passage.page_last)
        estimated = "" if passage.pages_real or not pages else " (estimated)"
        out.print(
            Text(f"{one.rank}. {passage.document_id}", style="bold")
            + Text(f"  {one.tenant}, characters {passage.char_start}-{passage.char_end}{pages}{estimated}", style="dim")
        )
        if passage.section_path:
            out.print(Text(_line(passage.section_path), style="italic"))
        if one.standing is not None and one.standing.marked:
            out.print(Text(_line(one.standing.describe()), style="yellow"))
        shown = _tame(" ".join(passage.text.split()))  # carriage returns and form feeds are space, not steering
        out.print(Text(shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."))
        for line in explained.get(str(passage.chunk_id), ()):
            out.print(Text(f"   {_tame(line)}", style="dim"))
        out.print()
    if result.abstention is not None:
        out.print(Text(f"No answer: {result.abstention.detail} ({result.abstention.reason})", style="bold yellow"))
    elif not result.passages:
        out.print(Text("Nothing found.", style="bold yellow"))
    if explain:
        out.print(render_trace(result.trace))
    elif result.degraded:
        out.print(Text(f"degraded: {'; '.join(result.trace.degradations)}", style="yellow"))


def _pages(first: int | None, last: int | None) -> str:
    if first is None:
        return ""
    return f", page {first}" if first == last else f", pages {first}-{last}"


def _show_analysis(text: str, as_json: bool) -> None:
    from zeroth_assets.search.analyser import ANALYSERS, DEFAULT_ANALYSER
    from zeroth_assets.search.query_text import checked_query

    analyser = ANALYSERS[DEFAULT_ANALYSER]
    tokens = analyser.analyse(checked_query(text))
    if as_json:
        rows: list[dict[str, Any]] = [{"term": t.term, "start": t.start, "end": t.end} for t in tokens]
        emit({"analyser": analyser.identity, "terms": rows})
        return
    table = Table(title=f"analyser {analyser.identity}: {len(tokens)} terms", title_justify="left")
    for name in ("term", "from", "to", "of the text"):
        table.add_column(name)
    for token in tokens:
        table.add_row(
            Text(_tame(token.term)), str(token.start), str(token.end), Text(_tame(text[token.start : token.end]))
        )
    out.print(table)


def _line(text: str) -> str:
    """As one line, so that no document writes lines that look like ours."""
    return " ".join(_tame(text).split())


def _tame(text: str) -> str:
    return _STEERING.sub("\ufffd", text)
