"""`zeroth metrics`: the figures, printed and exported.

What belongs here: the commands' arguments and what they print. Alone the command prints recall of the index per tenant,
which needs no questions; its subcommands print what the golden set says of retrieval.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from zeroth_assets.cli_output import Json, emit, err, out
from zeroth_assets.settings import Settings, load_settings

if TYPE_CHECKING:
    import polars as pl

    from zeroth_assets.artefacts import ArtefactStore

metrics = typer.Typer(help="Print and export the figures: recall of the index, retrieval, abstention, latency.")
ChunkSet = Annotated[str | None, typer.Option("--chunk-set", help="One chunk set; default: all.")]
_WIDE = 100
_MORE = "more: zeroth metrics retrieval, comparisons, abstention, latency; --all-ef for every ef_search"
_LEFT_OUT = ("success@10",)  # a terminal is no wider; JSON and files have it
Role = Annotated[
    str | None, typer.Option("--role", help="unrestricted, single_tenant or named_document; default: all.")
]


@metrics.callback(invoke_without_command=True)
def ann_recall(
    context: typer.Context,
    chunk_set: ChunkSet = None,
    tenant: Annotated[list[str] | None, typer.Option("--tenant", "-t", help="Tenant key; repeat for several.")] = None,
    all_ef: Annotated[bool, typer.Option("--all-ef", help="Every ef_search, not only the headline 40.")] = False,
    as_json: Json = False,
) -> None:
    """Print the metric tables: per tenant and chunk set, exact against HNSW, with intervals."""
    if context.invoked_subcommand is not None:
        return
    from zeroth_assets.defs.tables import ann_recall_frame, ann_recall_table, withheld_figures

    settings = load_settings()
    tenants = tuple(tenant or settings.tenants)
    frame = ann_recall_frame(settings, tenants=tenants, chunk_set=chunk_set, headline_only=not all_ef)
    if as_json:
        emit(frame.to_dicts())
    else:
        for table in ann_recall_table(frame, narrow=out.width < _WIDE):
            out.print(table)
    # A script reads rows of figures: what is not there must not come among them, and must be told all the same.
    told = err if as_json else out
    for name, key, reason in withheld_figures(settings, tenants=tenants, chunk_set=chunk_set):
        told.print(f"withheld: {name} {key}: {reason}", highlight=False, markup=False, soft_wrap=True)
    if not as_json:
        out.print(_MORE, highlight=False, style="dim", soft_wrap=True)


@metrics.command("retrieval")
def retrieval(
    chunk_set: ChunkSet = None,
    role: Role = None,
    category: Annotated[str, typer.Option(help="A category of question, or all.")] = "all",
    as_json: Json = False,
) -> None:
    """Print every arm's figures on the golden set's test split, with 95 % intervals."""
    from zeroth_assets.evaluation.retrieval_report import (
        doubts_in_words,
        graders_in_words,
        published_figures,
        table_of_arms,
    )

    _require_questions()
    figures = _chosen(published_figures(_store()), chunk_set, role)
    _require(figures)
    if as_json:
        emit(figures.drop("query_ids", "values").to_dicts())
        return
    table = table_of_arms(figures, category)
    for (name, chunks), rows in table.group_by("role", "chunk_set", maintain_order=True):
        shown = rows.drop("role", "chunk_set", *(column for column in _LEFT_OUT if column in rows.columns))
        if "judged@10" in shown.columns:
            shown = shown.with_columns(shown["judged@10"].str.split(" ").list.first())
        _print(f"{name}, {chunks}, category {category}: value [95 % interval]", shown)
        for doubt in doubts_in_words(figures.filter(role=name, chunk_set=chunks, category=category)):
            out.print(f"  {doubt}", highlight=False, markup=False, soft_wrap=True)
    for line in [*graders_in_words(figures), *_persons_words()] or ["people's spans alone, no model's grades"]:
        out.print(f"graded by: {line}", highlight=False, markup=False, soft_wrap=True)


@metrics.command("comparisons")
def comparisons(as_json: Json = False) -> None:
    """Print the paired differences between arms: what was asked beforehand first, then what was only looked at."""
    _require_questions()
    frame = _store().read_frame("metric_comparisons")
    if as_json:
        emit(frame.to_dicts())
        return
    for primary, title in ((True, "asked beforehand, p by Holm"), (False, "only looked at")):
        rows = frame.filter(frame["primary"] == primary)
        if rows.height:
            _print(title, rows.select("metric", "n", "units", "p", "p_holm", "wording"))
    _tell_judge()


@metrics.command("abstention")
def abstention(chunk_set: ChunkSet = None, role: Role = None, as_json: Json = False) -> None:
    """Print what each arm's threshold does on the test split, the naive count beside the honest one."""
    _require_questions()
    store = _store()
    frame = store.read_frame("abstention_metrics")
    if frame.height:
        frame = _chosen(frame, chunk_set, role)
    if as_json:
        emit(frame.to_dicts())
    else:
        from zeroth_assets.evaluation.retrieval_report import table_of_abstention

        for (name, chunks), rows in table_of_abstention(frame).group_by("role", "chunk_set", maintain_order=True):
            _print(
                f"{name}, {chunks}: abstention on the test split, value [95 % interval] of n",
                rows.drop("role", "chunk_set"),
            )
        _tell_judge()
    told = err if as_json else out
    for name, reason in store.require("abstention_metrics").details.get("withheld", {}).items():
        told.print(f"withheld: {name}: {reason}", highlight=False, markup=False, soft_wrap=True)


@metrics.command("latency")
def latency(
    chunk_set: ChunkSet = None,
    role: Role = None,
    stages: Annotated[bool, typer.Option("--stages", help="Every stage of a query, not only the total.")] = False,
    as_json: Json = False,
) -> None:
    """Print p50, p95 and p99 of each arm, for one caller at a time and for several at once. JSON has every stage."""
    _require_questions()
    frame = _chosen(_store().read_frame("latency_metrics"), chunk_set, role)
    if as_json:
        emit(frame.to_dicts())
        return
    rows = frame.drop("corpus_fingerprint")
    if not stages:
        rows = rows.filter(rows["stage"] == "total").drop("stage")
    _print("milliseconds, the query's embedding included; --stages shows where they go", rows)


@metrics.command("export")
def export(
    folder: Annotated[Path, typer.Argument(help="Folder that the files go to; made where it is absent.")],
    form: Annotated[str, typer.Option("--format", "-f", help="csv, parquet, json, or trec.")] = "csv",
    split: Annotated[str, typer.Option(help="With trec: which queries, test or calibration.")] = "test",
) -> None:
    """Write the figures of retrieval to files: a table each, or TREC runs and qrels."""
    from zeroth_assets.errors import ArtefactError
    from zeroth_assets.evaluation.golden.model import SPLITS
    from zeroth_assets.evaluation.retrieval_report import FORMATS, export_tables, export_trec

    if form not in FORMATS or split not in SPLITS:
        raise ArtefactError(
            "The figures cannot be written so",
            expected=f"--format {', '.join(FORMATS)}; --split {', '.join(SPLITS)}",
            found=f"{form}, {split}",
        )
    store = _store()
    files = export_trec(store, folder, split) if form == "trec" else export_tables(store, folder, form)
    for path in files:
        out.print(str(path), highlight=False, markup=False, soft_wrap=True)


def _judge() -> dict[str, Any] | None:
    """The judge whose grades are in force, None where no model graded."""
    golden = _store().sidecar("golden_set")
    return None if golden is None else golden.details.get("judge")


def _tell_judge() -> None:
    """Say beside figures whose grades they stand on, if a model is among the graders."""
    from zeroth_assets.evaluation.judging.worth import judge_in_words

    words = judge_in_words(_judge())
    if words is not None:
        told = f"graded by: people's spans and the model {words}"
        out.print(told, highlight=False, markup=False, soft_wrap=True)


def _persons_words() -> list[str]:
    """What a person's sample says of the judge whose grades are in force."""
    from zeroth_assets.evaluation.judging.human_record import persons_words
    from zeroth_assets.planning.judge import judge_folder

    judge = _judge()
    words = None if judge is None else persons_words(judge_folder(load_settings()), judge["label"])
    return [] if words is None or judge is None else [f"{judge['label']} and a person: {words}"]


def _store(settings: Settings | None = None) -> ArtefactStore:
    from zeroth_assets.artefacts import ArtefactStore

    return ArtefactStore((settings or load_settings()).state_dir / "artefacts")


def _chosen(frame: pl.DataFrame, chunk_set: str | None, role: str | None) -> pl.DataFrame:
    from zeroth_assets.errors import ArtefactError

    for column, wanted in (("chunk_set", chunk_set), ("role", role)):
        if wanted is None:
            continue
        known = sorted(set(frame[column]))
        if wanted not in known:
            raise ArtefactError(
                f"There is no figure of {column} {wanted!r}",
                expected=", ".join(known) or "published figures",
                found=wanted,
                remedy="name one of them",
            )
        frame = frame.filter(frame[column] == wanted)
    return frame


def _require(figures: pl.DataFrame) -> None:
    from zeroth_assets.errors import ArtefactError

    if figures.is_empty():
        raise ArtefactError(
            "No figure of retrieval was published yet",
            expected="retrieval_metrics of at least one arm",
            found="none in this home",
            remedy="run `zeroth materialize`",
        )


def _require_questions() -> None:
    from zeroth_assets.errors import ArtefactError

    golden = _store().sidecar("golden_queries")
    if golden is not None and golden.rows == 0:
        raise ArtefactError(
            "Retrieval is not measured on this corpus",
            expected="golden queries, whose answers lie in its documents",
            found="no golden query about any document of this corpus",
            remedy="bring documents, queries and grades together: `zeroth beir import`, see README",
        )


def _print(title: str, rows: pl.DataFrame) -> None:
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for name, dtype in rows.schema.items():
        table.add_column(name, justify="right" if dtype.is_numeric() else "left", overflow="fold")
    for row in rows.iter_rows():
        table.add_row(*(Text(_cell(value)) for value in row))
    out.print(table)


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)
