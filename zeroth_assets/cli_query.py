"""`zeroth query`: ask this home's index as a principal.

What belongs here: the command's arguments and what it prints. `cli.py` adds it: `app.command("query")(query)`.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.table import Table
from rich.text import Text

from zeroth_assets.cli_output import Json, emit, out
from zeroth_assets.errors import ArtefactError, DatabaseError, QueryError
from zeroth_assets.settings import CHUNK_SETS, Settings, load_settings

if TYPE_CHECKING:
    from zeroth_assets.artefacts import ArtefactStore
    from zeroth_assets.search.abstention import Threshold
    from zeroth_assets.search.retriever import Retriever
    from zeroth_assets.search.retriever_model import Arm, RetrievalResult, RetrieverConfig

DEFAULT_ARMS = ("dense", "lexical")
_SHOWN = 400
# A share of the shorter passage. Putting every neighbour of a window behind lost a tenth of recall@10
# (benchmarks/tuning); what repeats most of a better passage costs nothing.
_MAX_OVERLAP = 0.5
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
    rerank: Annotated[
        str | None,
        typer.Option(help="none, late (the packaged encoder), cross or hosted. Default: ZEROTH_RERANKER."),
    ] = None,
    abstain: Annotated[
        str | None,
        typer.Option(
            metavar="ROLE",
            help="Withhold weak evidence, by the threshold calibrated for principals of this role: unrestricted or "
            "single_tenant.",
        ),
    ] = None,
    high_risk: Annotated[
        bool, typer.Option("--high-risk", help="No answer where the reranker fails, instead of a shorter one.")
    ] = False,
    diverse: Annotated[
        bool, typer.Option("--diverse", help="Put passages that repeat more than half of a better one behind.")
    ] = False,
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
    from zeroth_assets.search.query_text import checked_k, checked_query
    from zeroth_assets.search.retriever_model import ARMS, RetrieverConfig

    # What is wrong by itself is told at once, and not after a model was loaded.
    checked_query(text)
    checked_k(k)
    unknown = sorted(set(arm or ()) - set(ARMS))
    if unknown:
        raise QueryError(f"There is no arm {', '.join(unknown)}", expected=", ".join(ARMS), remedy="name some of these")
    settings = load_settings()
    began = time.perf_counter()
    config = RetrieverConfig(
        chunk_set,
        arms=cast("tuple[Arm, ...]", tuple(arm or DEFAULT_ARMS)),
        depth=settings.retrieval_depth,
        rerank_seconds=_RERANK_SECONDS,
        high_risk=high_risk,
        max_overlap=_MAX_OVERLAP if diverse else None,
    )
    with open_retriever(settings, config, rerank=rerank, abstain=abstain) as retriever:
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
    settings: Settings, config: RetrieverConfig, *, rerank: str | None = None, abstain: str | None = None
) -> Retriever:
    """The retriever over this home's database and artefacts, with the manifest's lineage; close it after use.

    `rerank` is what the settings say where it is None; `abstain` is the role whose threshold is applied.

    Raises:
        QueryError: a reranker or a role of another name, or arms without a threshold.
        PreflightError: the database is none in which an answer keeps to its principal.
        ArtefactError: no tenant is indexed in the chunk set, or no threshold was calibrated.
        DatabaseError, EmbeddingError, SettingsError: a stage cannot be opened.
    """
    from zeroth_assets.artefacts import ArtefactStore
    from zeroth_assets.corpus.manifest import load_manifest
    from zeroth_assets.embedding import load_encoder
    from zeroth_assets.search.path_model import stored_costs
    from zeroth_assets.search.rerank_choice import checked_name, open_reranker
    from zeroth_assets.search.retriever import Retriever
    from zeroth_assets.search.supersession import Lineage
    from zeroth_assets.store.connect import open_database
    from zeroth_assets.store.preflight import preflight

    chosen = checked_name(rerank or settings.reranker)
    store = ArtefactStore(settings.state_dir / "artefacts")
    unmade = _not_indexed(store, config.chunk_set)
    if unmade is not None and config.chunk_set not in CHUNK_SETS:
        raise unmade
    database = open_database(settings.state_dir, settings.database_url, settings.pg_bin)
    try:
        preflight(database)
    except DatabaseError:
        # A home in which nothing was made has no roles to log in as.
        if unmade is not None:
            raise unmade from None
        raise
    threshold = None if abstain is None else _threshold(store, config, abstain, reranked=chosen != "none")
    encoder = None
    if "dense" in config.arms or chosen == "late":
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
    return Retriever(
        database,
        store,
        config,
        encoder=encoder if "dense" in config.arms else None,
        costs=stored_costs(store, config.chunk_set),
        reranker=open_reranker(
            chosen,
            encoder=encoder,
            model=settings.reranker_model,
            revision=settings.reranker_revision,
            precision=settings.precision,
            url=settings.reranker_url,
            api_key=settings.reranker_api_key.get_secret_value() if settings.reranker_api_key else None,
        ),
        threshold=threshold,
        lineage=Lineage.of(load_manifest(settings.manifest_path)),
    )


def _not_indexed(store: ArtefactStore, chunk_set: str) -> ArtefactError | None:
    """The error that names what is indexed instead, None where this home says nothing against the chunk set."""
    known = [
        name
        for name in CHUNK_SETS
        if any(store.partitions(f"{index}_{name}") for index in ("tenant_index", "bm25_index"))
    ]
    if chunk_set in known:
        return None
    return ArtefactError(
        f"No tenant is indexed in chunk set {chunk_set!r}",
        expected=", ".join(known) or "at least one tenant's index",
        found="no such index in this home",
        remedy="name one of these by --chunk-set" if known else "run `zeroth materialize`",
    )


def _threshold(store: ArtefactStore, config: RetrieverConfig, role: str, *, reranked: bool) -> Threshold:
    """The threshold of the measured arm that has these stages."""
    from zeroth_assets.evaluation.retrieval_abstention import published_threshold, score_source
    from zeroth_assets.evaluation.retrieval_arms import RETRIEVERS, SINGLE_TENANT, UNRESTRICTED

    if role not in (UNRESTRICTED, SINGLE_TENANT):
        raise QueryError(
            f"There is no threshold for role {role!r}",
            expected=f"{UNRESTRICTED} (a principal that sees everything) or {SINGLE_TENANT}",
            found=repr(role),
        )
    fitting = (
        arm
        for arm in RETRIEVERS.values()
        if set(arm.stages) == set(config.arms)
        and arm.rerank == reranked
        and not arm.postfilter
        and score_source(arm) is not None
    )
    arm = next(fitting, None)
    if arm is None:
        stages = f"{' and '.join(config.arms)}{', reranked' if reranked else ''}"
        raise QueryError(
            "No arm of these stages has a threshold",
            expected="dense; dense and lexical; or these two reranked",
            found=stages,
            remedy="ask without --abstain, or with other arms",
        )
    return published_threshold(store, config.chunk_set, arm.name, role)


def _explained(retriever: Retriever, principal: str, text: str, result: RetrievalResult) -> dict[str, list[str]]:
    """The arithmetic of BM25 for each passage that the lexical arm found, by chunk id."""
    found = [one.passage.chunk_id for one in result.passages if "lexical" in one.ranks]
    return {str(chunk_id): lines for chunk_id, lines in retriever.explain(principal, text, found).items()}


def _show(result: RetrievalResult, explained: dict[str, list[str]], explain: bool) -> None:
    from zeroth_assets.search.trace_view import render_trace, shortfall_line

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
        return
    if result.shortfall is not None and result.passages:
        out.print(Text(shortfall_line(result.shortfall), style="dim"))
    if result.degraded:
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
